#include "sha256.h"

static const uint32_t SHA256_ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static const uint32_t SHA256_START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static uint32_t sha256_turned(uint32_t word, int by)
{
    return word >> by | word << (32 - by);
}

/* The schedule is kept sixteen words at a time, so that a block needs 64 bytes of stack for it. */
static void sha256_block(struct sha256 *hash)
{
    uint32_t w[16], s[8], t;
    for (t = 0; t < 16; t++) {
        const uint8_t *b = hash->block + 4 * t;
        w[t] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (t = 0; t < 8; t++)
        s[t] = hash->state[t];
    for (t = 0; t < 64; t++) {
        uint32_t a = s[0], e = s[4], one, two, i;
        if (t >= 16) {
            uint32_t near = w[(t + 14) & 15], far = w[(t + 1) & 15];
            w[t & 15] += w[(t + 9) & 15];
            w[t & 15] += sha256_turned(near, 17) ^ sha256_turned(near, 19) ^ near >> 10;
            w[t & 15] += sha256_turned(far, 7) ^ sha256_turned(far, 18) ^ far >> 3;
        }
        one = sha256_turned(e, 6) ^ sha256_turned(e, 11) ^ sha256_turned(e, 25);
        one += s[7] + ((e & s[5]) ^ (~e & s[6])) + SHA256_ROUND[t] + w[t & 15];
        two = sha256_turned(a, 2) ^ sha256_turned(a, 13) ^ sha256_turned(a, 22);
        two += (a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]);
        for (i = 7; i > 0; i--)
            s[i] = s[i - 1];
        s[4] += one;
        s[0] = one + two;
    }
    for (t = 0; t < 8; t++)
        hash->state[t] += s[t];
}

static void sha256_begin(struct sha256 *hash)
{
    int i;
    for (i = 0; i < 8; i++)
        hash->state[i] = SHA256_START[i];
    hash->length = 0;
}

/* Has the form of a sink's function. */
static void sha256_add(void *of, const uint8_t *bytes, uint32_t count)
{
    struct sha256 *hash = of;
    uint32_t i;
    for (i = 0; i < count; i++) {
        hash->block[hash->length++ & 63] = bytes[i];
        if (!(hash->length & 63))
            sha256_block(hash);
    }
}

static void sha256_end(struct sha256 *hash, uint8_t digest[32])
{
    uint64_t bits = hash->length * 8;
    uint8_t byte = 0x80;
    int i;
    do {
        sha256_add(hash, &byte, 1);
        byte = 0;
    } while ((hash->length & 63) != 56);
    for (i = 7; i >= 0; i--) {
        byte = (uint8_t)(bits >> 8 * i);
        sha256_add(hash, &byte, 1);
    }
    for (i = 0; i < 32; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i & 3)));
}
