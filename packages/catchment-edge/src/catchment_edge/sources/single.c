/* A device's contribution to secure aggregation with two servers: one message, masked and sealed.
 *
 * The numbers leave under the stream of a seed, and the seed in a box for the helper, whose key is
 * part of the firmware (HPKE, RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305). The gateway carries
 * both and can open neither. It writes the terms that the helper holds the leader to; the device
 * seals only for those that end with its own floor and the digest of what the sum is about. */

static const char SINGLE[] = "catchment-two-servers-1";

/* LabeledExtract: what follows the label is added by the caller, then `hmac_end`. */
static void hpke_extract(struct hmac *mac, const uint8_t salt[32], int kem, const char *label)
{
    static const uint8_t OF_KEM[] = {'K', 'E', 'M', 0, 0x20};
    static const uint8_t OF_ALL[] = {'H', 'P', 'K', 'E', 0, 0x20, 0, 1, 0, 3};
    struct sink to;
    to.put = sha256_add;
    to.of = &mac->hash;
    hmac_begin(mac, salt);
    put_text(&to, "HPKE-v1");
    if (kem)
        put_bytes(&to, OF_KEM, sizeof OF_KEM);
    else
        put_bytes(&to, OF_ALL, sizeof OF_ALL);
    put_text(&to, label);
}

/* LabeledExpand, of at most 32 bytes; what follows the label is added, then `hkdf_end`. */
static void hpke_expand(struct hmac *mac, const uint8_t key[32], uint8_t length, int kem,
                        const char *label)
{
    static const uint8_t OF_KEM[] = {'K', 'E', 'M', 0, 0x20};
    static const uint8_t OF_ALL[] = {'H', 'P', 'K', 'E', 0, 0x20, 0, 1, 0, 3};
    uint8_t size[2];
    struct sink to;
    size[0] = 0;
    size[1] = length;
    to.put = sha256_add;
    to.of = &mac->hash;
    hmac_begin(mac, key);
    put_bytes(&to, size, 2);
    put_text(&to, "HPKE-v1");
    if (kem)
        put_bytes(&to, OF_KEM, sizeof OF_KEM);
    else
        put_bytes(&to, OF_ALL, sizeof OF_ALL);
    put_text(&to, label);
}

/* Key and nonce of a box for the helper; `sealed` begins with the sender's public key. */
static int hpke_key(const uint8_t secret[32], const uint8_t *about, uint32_t n_about,
                    const uint8_t *sealed, uint8_t key[32], uint8_t nonce[32])
{
    static const uint8_t ZERO[32] = {0};
    struct hmac mac;
    uint8_t shared[32], context[65];
    if (!x25519(shared, secret, HELPER))
        return 0;
    hpke_extract(&mac, ZERO, 1, "eae_prk");
    sha256_add(&mac.hash, shared, 32);
    hmac_end(&mac, shared);
    hpke_expand(&mac, shared, 32, 1, "shared_secret");
    sha256_add(&mac.hash, sealed, 32);
    sha256_add(&mac.hash, HELPER, 32);
    hkdf_end(&mac, shared);
    context[0] = 0;
    hpke_extract(&mac, ZERO, 0, "psk_id_hash");
    hmac_end(&mac, context + 1);
    hpke_extract(&mac, ZERO, 0, "info_hash");
    sha256_add(&mac.hash, about, n_about);
    hmac_end(&mac, context + 33);
    hpke_extract(&mac, shared, 0, "secret");
    hmac_end(&mac, shared);
    hpke_expand(&mac, shared, 32, 0, "key");
    sha256_add(&mac.hash, context, sizeof context);
    hkdf_end(&mac, key);
    hpke_expand(&mac, shared, 12, 0, "base_nonce");
    sha256_add(&mac.hash, context, sizeof context);
    hkdf_end(&mac, nonce); /* its first 12 bytes */
    crypto_wipe(shared, sizeof shared);
    return 1;
}

/* Seals a seed for the helper: public key, content and tag, 80 bytes. */
static int hpke_seal(const uint8_t seed[32], const uint8_t told[32], const uint8_t *about,
                     uint32_t n_about, uint8_t sealed[80])
{
    static const uint8_t BASE[32] = {9};
    uint8_t secret[32], key[32], nonce[32], first[64], sizes[16] = {0};
    crypto_poly1305_ctx sum;
    /* Of the seed, so that another seed is never sealed with the same key. */
    derived_alone(seed, told, "ephemeral", secret);
    x25519(sealed, secret, BASE);
    if (!hpke_key(secret, about, n_about, sealed, key, nonce))
        return 0;
    crypto_chacha20_ietf(sealed + 32, seed, 32, key, nonce, 1);
    crypto_chacha20_ietf(first, 0, 64, key, nonce, 0);
    crypto_poly1305_init(&sum, first);
    crypto_poly1305_update(&sum, sealed + 32, 32);
    sizes[8] = 32;
    crypto_poly1305_update(&sum, sizes, 16);
    crypto_poly1305_final(&sum, sealed + 64);
    crypto_wipe(secret, sizeof secret);
    crypto_wipe(key, sizeof key);
    crypto_wipe(first, sizeof first);
    return 1;
}

/* Compares text that is written with bytes that came. */
struct compared {
    const uint8_t *with;
    uint32_t left, same;
};

static void compare_bytes(void *of, const uint8_t *bytes, uint32_t count)
{
    struct compared *one = of;
    while (count--) {
        one->same &= one->left && *one->with == *bytes;
        if (one->left) {
            one->left--;
            one->with++;
        }
        bytes++;
    }
}

static void put_terms(const struct sink *to, const uint8_t told[32])
{
    static const char HEX[] = "0123456789abcdef";
    uint32_t i;
    put_text(to, ",\"min_clients\":");
    put_decimal(to, DEVICE_FLOOR);
    put_text(to, ",\"told\":\"");
    for (i = 0; i < 64; i++)
        put_bytes(to, (const uint8_t *)HEX + (told[i / 2] >> (i & 1 ? 0 : 4) & 15), 1);
    put_text(to, "\"}]");
}

/* Whether terms begin as those of two servers and end with the device's floor. */
static int single_terms(const uint8_t *about, uint32_t n_about, const uint8_t told[32])
{
    uint32_t length = 0;
    struct sink to;
    struct compared end;
    to.put = count_bytes;
    to.of = &length;
    put_terms(&to, told);
    if (n_about < length + sizeof SINGLE + 2)
        return 0;
    end.with = about + n_about - length;
    end.left = length;
    end.same = same_bytes(about + 2, (const uint8_t *)SINGLE, sizeof SINGLE - 1);
    to.put = compare_bytes;
    to.of = &end;
    put_terms(&to, told);
    return (int)end.same;
}

/* The seed depends on the numbers: the same ones leave under the same mask, others under another. */
static void single_seed(const uint8_t told[32], uint32_t bytes, uint8_t seed[32])
{
    struct sha256 hash;
    uint8_t number[8], salt[32];
    uint32_t length = masks_length(), i;
    sha256_begin(&hash);
    sha256_add(&hash, told, 32);
    for (i = 0; i < length; i++) {
        bytes_of(masks_number(i), bytes, number);
        sha256_add(&hash, number, bytes);
    }
    sha256_end(&hash, salt);
    derived_alone(SECRET, salt, "single", seed);
}

static void single_send(const uint8_t seed[32], const uint8_t told[32], uint32_t bytes,
                        const uint8_t sealed[80])
{
    struct sink to = {link_add, 0};
    uint64_t numbers[16];
    uint8_t key[32];
    uint32_t length = masks_length(), each = 64 / bytes, first, i;
    derived_alone(seed, told, SINGLE, key);
    for (first = 0; first < length; first += each) {
        for (i = 0; i < each; i++)
            numbers[i] = first + i < length ? masks_number(first + i) : 0;
        masks_add(key, 0, first / each, bytes, numbers);
        for (i = 0; i < each && first + i < length; i++)
            put_number(&to, numbers[i], bytes);
    }
    put_bytes(&to, sealed, 80);
    link_flush();
    link_send('e', 0, 0);
}

/* W: the sums of a round for two servers. Round, flags, what the sum is about, bytes of a number, the
 * largest that may be sent, and the terms; answers masked numbers and the sealed seed. */
static void single_upload(void)
{
    uint32_t round = (uint32_t)bytes_value(link.payload, 4), bytes = link.payload[37];
    uint32_t n_about = link.length - 46, i;
    uint64_t most = bytes_value(link.payload + 38, 8);
    uint8_t told[32], seed[32], sealed[80];
    for (i = 0; i < 32; i++)
        told[i] = link.payload[5 + i];
    if (bytes != 4 && bytes != 8)
        link_refuse("numbers have 4 or 8 bytes");
    else if (!single_terms(link.payload + 46, n_about, told))
        link_refuse("the terms are not those of the device's plan");
    else if (!link_trained(round, link.payload[4]))
        return;
    else if (sums.rows < DEVICE_LEAST_ROWS)
        link_refuse("there are fewer rows than a client sends; collect more");
    else if (!masks_within(most))
        link_refuse("a sum is too large for the ring; take fewer rows");
    else {
        single_seed(told, bytes, seed);
        if (hpke_seal(seed, told, link.payload + 46, n_about, sealed))
            single_send(seed, told, bytes, sealed);
        else
            link_refuse("the helper's key is degenerate");
        crypto_wipe(seed, sizeof seed);
    }
}
