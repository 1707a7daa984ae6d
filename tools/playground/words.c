/* Philox4x64-10 (Salmon et al. 2011) and what is drawn from its words. */
#include "words.h"

/* The upper and the lower half of a product, from 32-bit halves: WebAssembly has no wider one. */
static uint64_t multiply(uint64_t a, uint64_t b, uint64_t *low)
{
    uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
    *low = a * b;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

static void next_block(struct words *rng)
{
    uint64_t k0 = rng->key[0], k1 = rng->key[1];
    uint64_t c0 = ++rng->counter, c1 = 0, c2 = 0, c3 = 0;
    int round;
    for (round = 0; round < 10; round++) {
        uint64_t low0, low1;
        uint64_t high0 = multiply(0xD2E7470EE14C6C93u, c0, &low0);
        uint64_t high1 = multiply(0xCA5A826395121157u, c2, &low1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B97F4A7C15u;
        k1 += 0xBB67AE8584CAA73Bu;
    }
    rng->block[0] = c0;
    rng->block[1] = c1;
    rng->block[2] = c2;
    rng->block[3] = c3;
    rng->left = 4;
}

void words_start(struct words *rng, uint64_t seed, uint64_t purpose)
{
    rng->key[0] = seed;
    rng->key[1] = purpose;
    rng->counter = 0;
    rng->left = 0;
}

static uint64_t take(struct words *rng)
{
    if (rng->left == 0)
        next_block(rng);
    return rng->block[4 - rng->left--];
}

double words_uniform(struct words *rng, double low, double high)
{
    double fraction = (double)(take(rng) >> 11) * 0x1p-53;
    return low + (high - low) * fraction;
}

double words_sign(struct words *rng)
{
    return take(rng) >> 63 ? 1.0 : -1.0;
}

/* An integer below `bound`: words of the last, incomplete block of values are passed over. */
static int below(struct words *rng, uint64_t bound)
{
    uint64_t over = (UINT64_MAX % bound + 1) % bound, word;
    do
        word = take(rng);
    while (word > UINT64_MAX - over);
    return (int)(word % bound);
}

/* Sort by words, smallest first; equal ones keep their order. Insertion into runs, by shells. */
static void sort_by_words(const uint64_t *words, int *order, int n)
{
    int gap, i, j;
    for (gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (i = gap; i < n; i++) {
            int one = order[i];
            for (j = i; j >= gap; j -= gap) {
                int other = order[j - gap];
                if (words[other] < words[one] || (words[other] == words[one] && other < one))
                    break;
                order[j] = other;
            }
            order[j] = one;
        }
}

void words_permutation(struct words *rng, int n, uint64_t *words, int *order)
{
    int i;
    for (i = 0; i < n; i++) {
        words[i] = take(rng);
        order[i] = i;
    }
    sort_by_words(words, order, n);
}

static void sort(int *values, int n)
{
    int i, j;
    for (i = 1; i < n; i++) {
        int one = values[i];
        for (j = i; j > 0 && values[j - 1] > one; j--)
            values[j] = values[j - 1];
        values[j] = one;
    }
}

/* Draw the repeats of all rows again, in order; whether there were any. A row is sorted. */
static int redraw(struct words *rng, int n_rows, int n, int bound, int *rows)
{
    int row, i, found = 0;
    for (row = 0; row < n_rows; row++) {
        int *values = rows + row * n, before = -1;
        for (i = 0; i < n; i++) {
            int value = values[i];
            if (value == before) {
                values[i] = below(rng, (uint64_t)bound);
                found = 1;
            }
            before = value;
        }
        sort(values, n);
    }
    return found;
}

void words_distinct(struct words *rng, int n_rows, int n, int bound, uint64_t *words, int *order,
                    int *rows)
{
    int row, i;
    for (row = 0; row < n_rows; row++) {
        int *values = rows + row * n;
        if (4 * n > bound && n < bound)
            words_permutation(rng, bound, words, order);
        for (i = 0; i < n; i++) {
            if (n == bound)
                values[i] = i;
            else
                values[i] = 4 * n > bound ? order[i] : below(rng, (uint64_t)bound);
        }
        sort(values, n);
    }
    if (4 * n <= bound)
        while (redraw(rng, n_rows, n, bound, rows))
            ;
}
