/* Shares of a secret: values of a polynomial modulo 2^521 - 1. */

enum { SHARE_WORDS = 17, SHARE_BYTES = 66 };

static void share_fold(uint32_t *v, uint64_t over)
{
    uint32_t i;
    over = over << 23 | v[16] >> 9;
    v[16] &= 0x1ff;
    for (i = 0; i < SHARE_WORDS; i++) {
        over += v[i];
        v[i] = (uint32_t)over;
        over >>= 32;
    }
}

static void share_add(uint32_t *v, const uint8_t *bytes, uint32_t count)
{
    uint64_t sum = 0;
    uint32_t i, k;
    for (i = 0; i < SHARE_WORDS; i++) {
        k = count > 4 * i ? count - 4 * i : 0;
        sum += v[i] + bytes_value(bytes + 4 * i, k > 4 ? 4 : k);
        v[i] = (uint32_t)sum;
        sum >>= 32;
    }
    share_fold(v, sum);
}

static void share_multiply(uint32_t *v, uint32_t by)
{
    uint64_t sum = 0;
    uint32_t i;
    for (i = 0; i < SHARE_WORDS; i++) {
        sum += (uint64_t)v[i] * by;
        v[i] = (uint32_t)sum;
        sum >>= 32;
    }
    share_fold(v, sum);
    share_fold(v, 0);
}

/* The share of a secret at `at`; any `threshold` of them give it back. The polynomial's other
 * coefficients are the stream of `key`, of which the two secrets of a session, by `which`, have
 * different blocks. */
static void share_of(const uint8_t secret[32], const uint8_t key[32], uint32_t which,
                     uint32_t threshold, uint32_t at, uint8_t out[SHARE_BYTES])
{
    uint32_t v[SHARE_WORDS] = {0}, k, i, all = 0x1ff;
    uint8_t drawn[128];
    for (k = threshold - 1; k > 0; k--) {
        chacha_block(key, 2 * (which << 16 | k), drawn);
        chacha_block(key, 2 * (which << 16 | k) + 1, drawn + 64);
        drawn[65] &= 1; /* 521 bits */
        share_add(v, drawn, SHARE_BYTES);
        share_multiply(v, at);
    }
    share_add(v, secret, 32);
    for (i = 0; i < 16; i++)
        all &= v[i] == 0xffffffffu ? 0x1ff : 0;
    if (all && v[16] == all) /* the prime itself is zero */
        for (i = 0; i < SHARE_WORDS; i++)
            v[i] = 0;
    for (i = 0; i < SHARE_WORDS; i++)
        bytes_of(v[i], i < 16 ? 4 : 2, out + 4 * i);
}
