/* Autocovariances of one series as its values come in: what a client of a Yule-Walker forecast
 * sends. LAGS is the lookback and the horizon together; a client with 1056 needs below 8 kB.
 *
 * A sum has 40 bits. `lags_feed` refuses a value as soon as one of them could overflow, which by
 * Cauchy and Schwarz the sums of squares tell: send the sums, call `lags_sent`, and feed the value
 * again. Sums of parts add up to those of the whole, to the bit. */

#ifndef CATCHMENT_LAGS_H
#define CATCHMENT_LAGS_H

#include <stdint.h>

#ifndef LAGS
#define LAGS 1056
#endif

enum { LAGS_DIGITS = 12, LAGS_LARGEST = 32767, LAGS_RANGES = 32 };
enum lags_status { LAGS_OK = 0, LAGS_FULL = 1 };

struct lags {
    uint64_t energy;        /* squares of the values that are remembered */
    uint32_t everywhere;    /* values since the sums were sent that have all lags before them */
    uint32_t low[LAGS];     /* of the sums, in two's complement, */
    int8_t high[LAGS];      /* and the eight bits above */
    int16_t past[LAGS];     /* a ring; past[newest] is the last value */
    uint16_t newest, filled;
    uint16_t from[LAGS_RANGES], to[LAGS_RANGES]; /* values with fewer lags before them, by place */
    uint8_t ranges;
};

/* Forgets everything. */
void lags_start(struct lags *self);

/* Returns a scaled value as the integer that is fed: 12 binary digits, cut off below 8. */
int16_t lags_fixed(double value, double mean, double scale);

/* Adds a value; LAGS_FULL, and nothing has happened, where the sums must be sent first. */
enum lags_status lags_feed(struct lags *self, int16_t value);

/* A value is missing: what follows is another series. */
void lags_gap(struct lags *self);

/* The sum of x(t) x(t - k), in units of 4^-12, and how many pairs are in it. */
int64_t lags_product(const struct lags *self, uint16_t k);
uint32_t lags_pairs(const struct lags *self, uint16_t k);

/* The sums were sent: they begin anew, and the last values are still remembered. */
void lags_sent(struct lags *self);

#endif
