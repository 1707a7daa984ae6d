/* ChaCha20 and Poly1305 (RFC 8439). */

static uint32_t chacha_turned(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

static void chacha_quarter(uint32_t *x, int a, int b, int c, int d)
{
    x[a] += x[b];
    x[d] = chacha_turned(x[d] ^ x[a], 16);
    x[c] += x[d];
    x[b] = chacha_turned(x[b] ^ x[c], 12);
    x[a] += x[b];
    x[d] = chacha_turned(x[d] ^ x[a], 8);
    x[c] += x[d];
    x[b] = chacha_turned(x[b] ^ x[c], 7);
}

/* Block `counter` of a key's stream, its nonce being zero: every key here is used once. */
static void chacha_block(const uint8_t key[32], uint32_t counter, uint8_t out[64])
{
    uint32_t start[16], x[16], i;
    start[0] = 0x61707865;
    start[1] = 0x3320646e;
    start[2] = 0x79622d32;
    start[3] = 0x6b206574;
    for (i = 0; i < 8; i++)
        start[4 + i] = (uint32_t)bytes_value(key + 4 * i, 4);
    start[12] = counter;
    start[13] = start[14] = start[15] = 0;
    for (i = 0; i < 16; i++)
        x[i] = start[i];
    for (i = 0; i < 10; i++) {
        chacha_quarter(x, 0, 4, 8, 12);
        chacha_quarter(x, 1, 5, 9, 13);
        chacha_quarter(x, 2, 6, 10, 14);
        chacha_quarter(x, 3, 7, 11, 15);
        chacha_quarter(x, 0, 5, 10, 15);
        chacha_quarter(x, 1, 6, 11, 12);
        chacha_quarter(x, 2, 7, 8, 13);
        chacha_quarter(x, 3, 4, 9, 14);
    }
    for (i = 0; i < 16; i++)
        bytes_of(x[i] + start[i], 4, out + 4 * i);
}

/* Encrypts or decrypts in place; the first block is the tag's. */
static void chacha_apply(const uint8_t key[32], uint8_t *content, uint32_t length)
{
    uint8_t stream[64];
    uint32_t i;
    for (i = 0; i < length; i++) {
        if (!(i & 63))
            chacha_block(key, 1 + i / 64, stream);
        content[i] ^= stream[i & 63];
    }
}

/* A sum modulo 2^130 - 5 in five words of 26 bits. */
struct poly1305 {
    uint32_t r[5], h[5];
    uint8_t held[16];
    uint32_t n_held;
};

static void poly1305_begin(struct poly1305 *sum, const uint8_t *r)
{
    static const uint32_t CLAMP[4] = {0x0fffffff, 0x0ffffffc, 0x0ffffffc, 0x0ffffffc};
    uint32_t t[4];
    int i;
    for (i = 0; i < 4; i++)
        t[i] = (uint32_t)bytes_value(r + 4 * i, 4) & CLAMP[i];
    sum->r[0] = t[0] & 0x3ffffff;
    sum->r[1] = (t[0] >> 26 | t[1] << 6) & 0x3ffffff;
    sum->r[2] = (t[1] >> 20 | t[2] << 12) & 0x3ffffff;
    sum->r[3] = (t[2] >> 14 | t[3] << 18) & 0x3ffffff;
    sum->r[4] = t[3] >> 8;
    for (i = 0; i < 5; i++)
        sum->h[i] = 0;
    sum->n_held = 0;
}

static void poly1305_block(struct poly1305 *sum)
{
    uint64_t d[5], carry = 0;
    uint32_t t[4], *h = sum->h;
    int i, j;
    for (i = 0; i < 4; i++)
        t[i] = (uint32_t)bytes_value(sum->held + 4 * i, 4);
    h[0] += t[0] & 0x3ffffff;
    h[1] += (t[0] >> 26 | t[1] << 6) & 0x3ffffff;
    h[2] += (t[1] >> 20 | t[2] << 12) & 0x3ffffff;
    h[3] += (t[2] >> 14 | t[3] << 18) & 0x3ffffff;
    h[4] += t[3] >> 8 | (uint32_t)1 << 24; /* every block here is whole */
    for (i = 0; i < 5; i++) {
        d[i] = 0;
        for (j = 0; j < 5; j++)
            d[i] += (uint64_t)h[j] * (j <= i ? sum->r[i - j] : 5 * sum->r[5 + i - j]);
    }
    for (i = 0; i < 5; i++) {
        d[i] += carry;
        h[i] = (uint32_t)d[i] & 0x3ffffff;
        carry = d[i] >> 26;
    }
    h[0] += (uint32_t)carry * 5;
    h[1] += h[0] >> 26;
    h[0] &= 0x3ffffff;
}

/* Has the form of a sink's function. */
static void poly1305_add(void *of, const uint8_t *bytes, uint32_t count)
{
    struct poly1305 *sum = of;
    while (count--) {
        sum->held[sum->n_held++] = *bytes++;
        if (sum->n_held == 16) {
            poly1305_block(sum);
            sum->n_held = 0;
        }
    }
}

/* Zeros up to a whole block. */
static void poly1305_fill(struct poly1305 *sum)
{
    static const uint8_t ZERO = 0;
    while (sum->n_held)
        poly1305_add(sum, &ZERO, 1);
}

static void poly1305_end(struct poly1305 *sum, const uint8_t *s, uint8_t tag[16])
{
    uint32_t *h = sum->h, g[5], carry = 0, keep;
    uint64_t word = 0;
    int i, again;
    for (again = 0; again < 2; again++) {
        for (i = 0; i < 5; i++) {
            h[i] += carry;
            carry = h[i] >> 26;
            h[i] &= 0x3ffffff;
        }
        carry *= 5;
    }
    h[0] += carry;
    carry = 5;
    for (i = 0; i < 5; i++) {
        g[i] = h[i] + carry;
        carry = g[i] >> 26;
        g[i] &= 0x3ffffff;
    }
    keep = carry - 1; /* all ones if h is below 2^130 - 5 */
    for (i = 0; i < 5; i++)
        h[i] = (h[i] & keep) | (g[i] & ~keep);
    g[0] = h[0] | h[1] << 26;
    g[1] = h[1] >> 6 | h[2] << 20;
    g[2] = h[2] >> 12 | h[3] << 14;
    g[3] = h[3] >> 18 | h[4] << 8;
    for (i = 0; i < 4; i++) {
        word += (uint64_t)g[i] + bytes_value(s + 4 * i, 4);
        bytes_of((uint32_t)word, 4, tag + 4 * i);
        word >>= 32;
    }
}

/* What a box is about, as text that is written where it is needed. */
typedef void (*about_text)(const struct sink *to, const void *of);

/* The tag of what is in a box and of what it is about. */
static void box_tag(const uint8_t key[32], about_text about, const void *of, const uint8_t *content,
                    uint32_t length, uint8_t tag[16])
{
    struct poly1305 sum;
    struct sink to, counter;
    uint8_t first[64], sizes[16];
    uint32_t n_about = 0;
    counter.put = count_bytes;
    counter.of = &n_about;
    to.put = poly1305_add;
    to.of = &sum;
    about(&counter, of);
    chacha_block(key, 0, first);
    poly1305_begin(&sum, first);
    about(&to, of);
    poly1305_fill(&sum);
    poly1305_add(&sum, content, length);
    poly1305_fill(&sum);
    bytes_of(n_about, 8, sizes);
    bytes_of(length, 8, sizes + 8);
    poly1305_add(&sum, sizes, 16);
    poly1305_end(&sum, first + 16, tag);
}

/* Closes a box in place: its tag comes after its content. */
static void box_seal(const uint8_t key[32], about_text about, const void *of, uint8_t *box,
                     uint32_t length)
{
    chacha_apply(key, box, length);
    box_tag(key, about, of, box, length, box + length);
}

/* Opens a box in place; 0, and the box as it was, if it is damaged or about something else. */
static int box_open(const uint8_t key[32], about_text about, const void *of, uint8_t *box,
                    uint32_t length)
{
    uint8_t tag[16], differs = 0;
    uint32_t i;
    box_tag(key, about, of, box, length, tag);
    for (i = 0; i < 16; i++)
        differs |= tag[i] ^ box[length + i];
    if (differs)
        return 0;
    chacha_apply(key, box, length);
    return 1;
}
