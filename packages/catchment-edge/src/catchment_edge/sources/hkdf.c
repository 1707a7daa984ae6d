/* HMAC and HKDF (RFC 2104, RFC 5869) with SHA-256: keys of 32 bytes, each for one purpose. */

struct hmac {
    struct sha256 hash;
    uint8_t key[32];
};

static void hmac_pad(struct sha256 *hash, const uint8_t key[32], uint8_t pad)
{
    uint8_t byte;
    uint32_t i;
    sha256_begin(hash);
    for (i = 0; i < 64; i++) {
        byte = (uint8_t)((i < 32 ? key[i] : 0) ^ pad);
        sha256_add(hash, &byte, 1);
    }
}

static void hmac_begin(struct hmac *mac, const uint8_t key[32])
{
    uint32_t i;
    for (i = 0; i < 32; i++)
        mac->key[i] = key[i];
    hmac_pad(&mac->hash, key, 0x36);
}

static void hmac_end(struct hmac *mac, uint8_t out[32])
{
    uint8_t inner[32];
    sha256_end(&mac->hash, inner);
    hmac_pad(&mac->hash, mac->key, 0x5c);
    sha256_add(&mac->hash, inner, 32);
    sha256_end(&mac->hash, out);
}

/* Begins a key's derivation from a secret and a salt; the purpose is added, then `hkdf_end`. */
static void hkdf_begin(struct hmac *mac, const uint8_t secret[32], const uint8_t salt[32])
{
    uint8_t drawn[32];
    hmac_begin(mac, salt);
    sha256_add(&mac->hash, secret, 32);
    hmac_end(mac, drawn);
    hmac_begin(mac, drawn);
}

static void hkdf_end(struct hmac *mac, uint8_t key[32])
{
    static const uint8_t ONE = 1;
    sha256_add(&mac->hash, &ONE, 1);
    hmac_end(mac, key);
}
