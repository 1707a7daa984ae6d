/* Agreed secrets, streams and boxes (RFC 7748, RFC 8439), of Monocypher's functions.
 *
 * Every key here is used once, so that every nonce is zero. */

static const uint8_t NO_NONCE[12] = {0};

/* The secret's multiple of a point; 0 if it is zero, as that of a degenerate point is. */
static int x25519(uint8_t out[32], const uint8_t secret[32], const uint8_t point[32])
{
    static const uint8_t ZERO[32] = {0};
    crypto_x25519(out, secret, point);
    return crypto_verify32(out, ZERO) != 0;
}

/* Block `counter` of a key's stream. */
static void chacha_block(const uint8_t key[32], uint32_t counter, uint8_t out[64])
{
    crypto_chacha20_ietf(out, 0, 64, key, NO_NONCE, counter);
}

/* Has the form of a sink's function. */
static void poly1305_add(void *of, const uint8_t *bytes, uint32_t count)
{
    crypto_poly1305_update(of, bytes, count);
}

/* What a box is about, as text that is written where it is needed. */
typedef void (*about_text)(const struct sink *to, const void *of);

/* The tag of what is in a box and of what it is about. */
static void box_tag(const uint8_t key[32], about_text about, const void *of, const uint8_t *content,
                    uint32_t length, uint8_t tag[16])
{
    static const uint8_t ZERO[16] = {0};
    crypto_poly1305_ctx sum;
    struct sink to, counter;
    uint8_t first[64], sizes[16];
    uint32_t n_about = 0;
    counter.put = count_bytes;
    counter.of = &n_about;
    to.put = poly1305_add;
    to.of = &sum;
    about(&counter, of);
    chacha_block(key, 0, first);
    crypto_poly1305_init(&sum, first);
    crypto_wipe(first, sizeof first);
    about(&to, of);
    crypto_poly1305_update(&sum, ZERO, (0 - n_about) & 15);
    crypto_poly1305_update(&sum, content, length);
    crypto_poly1305_update(&sum, ZERO, (0 - length) & 15);
    bytes_of(n_about, 8, sizes);
    bytes_of(length, 8, sizes + 8);
    crypto_poly1305_update(&sum, sizes, 16);
    crypto_poly1305_final(&sum, tag);
}

/* Closes a box in place: its tag comes after its content. */
static void box_seal(const uint8_t key[32], about_text about, const void *of, uint8_t *box,
                     uint32_t length)
{
    crypto_chacha20_ietf(box, box, length, key, NO_NONCE, 1);
    box_tag(key, about, of, box, length, box + length);
}

/* Opens a box in place; 0, and the box as it was, if it is damaged or about something else. */
static int box_open(const uint8_t key[32], about_text about, const void *of, uint8_t *box,
                    uint32_t length)
{
    uint8_t tag[16];
    box_tag(key, about, of, box, length, tag);
    if (crypto_verify16(tag, box + length))
        return 0;
    crypto_chacha20_ietf(box, box, length, key, NO_NONCE, 1);
    return 1;
}
