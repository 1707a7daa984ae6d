/* Random numbers from a seed, the same bits as catchment's random_words.py. */
#ifndef PLAY_WORDS_H
#define PLAY_WORDS_H

#include <stdint.h>

/* What a stream is for: the values of `Purpose` in random_words.py. */
enum {
    WORDS_RECURRENT_PLACES = 0,
    WORDS_RECURRENT_VALUES = 1,
    WORDS_INPUT_VALUES = 3,
    WORDS_BIAS = 4,
    WORDS_PROBE = 7
};

struct words {
    uint64_t key[2], counter, block[4];
    int left; /* words of the block not yet taken */
};

void words_start(struct words *rng, uint64_t seed, uint64_t purpose);
double words_uniform(struct words *rng, double low, double high);
double words_sign(struct words *rng);

/* 0 ... n - 1 in the order that sorts n words; `words` has room for n. */
void words_permutation(struct words *rng, int n, uint64_t *words, int *order);

/* Rows (n_rows, n) of n different integers below `bound`, ascending in each row. */
void words_distinct(struct words *rng, int n_rows, int n, int bound, uint64_t *words, int *order,
                    int *rows);

#endif
