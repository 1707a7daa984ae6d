#include "lags.h"

#include <string.h>

#define LAGS_LIMIT ((uint64_t)1 << 39)

void lags_start(struct lags *self)
{
    memset(self, 0, sizeof *self);
}

int16_t lags_fixed(double value, double mean, double scale)
{
    const double scaled = (value - mean) / scale * (1 << LAGS_DIGITS);
    int32_t below;
    double rest;
    if (!(scaled > -LAGS_LARGEST && scaled < LAGS_LARGEST)) {
        return scaled > 0 ? LAGS_LARGEST : -LAGS_LARGEST;
    }
    /* To the nearest, and from the middle to an even one: rint is not on every board. */
    below = (int32_t)scaled - (scaled < (int32_t)scaled);
    rest = scaled - below;
    return (int16_t)(below + (rest > 0.5 || (rest == 0.5 && (below & 1) != 0)));
}

static void lags_add(struct lags *self, uint16_t k, int32_t product)
{
    const uint32_t before = self->low[k];
    self->low[k] = before + (uint32_t)product;
    /* The carry, and the sign's bits above. */
    self->high[k] = (int8_t)(self->high[k] + (self->low[k] < before) - (product < 0));
}

/* Notes how many values stand before the one that is fed; 0 if there is no room to. */
static int lags_note(struct lags *self)
{
    const uint16_t place = self->filled;
    const uint8_t last = (uint8_t)(self->ranges - 1);
    if (place >= LAGS - 1) {
        self->everywhere++;
    } else if (self->ranges != 0 && self->to[last] == place && place != 0) {
        self->to[last]++;
    } else if (self->ranges == LAGS_RANGES) {
        return 0;
    } else {
        self->from[self->ranges] = place;
        self->to[self->ranges] = (uint16_t)(place + 1);
        self->ranges++;
    }
    return 1;
}

enum lags_status lags_feed(struct lags *self, int16_t value)
{
    const uint64_t square = (uint64_t)((int64_t)value * value);
    uint16_t k, at = self->newest;
    if ((uint64_t)lags_product(self, 0) + self->energy + 2 * square >= LAGS_LIMIT ||
        self->everywhere == UINT32_MAX || !lags_note(self)) {
        return LAGS_FULL;
    }
    lags_add(self, 0, (int32_t)value * value);
    for (k = 1; k <= self->filled && k < LAGS; k++) {
        lags_add(self, k, (int32_t)value * self->past[at]);
        at = (uint16_t)(at == 0 ? LAGS - 1 : at - 1);
    }
    self->newest = (uint16_t)(self->newest + 1 == LAGS ? 0 : self->newest + 1);
    if (self->filled < LAGS) {
        self->filled++;
    } else {
        const int64_t gone = self->past[self->newest];
        self->energy -= (uint64_t)(gone * gone);
    }
    self->past[self->newest] = value;
    self->energy += square;
    return LAGS_OK;
}

void lags_gap(struct lags *self)
{
    self->filled = 0;
    self->energy = 0;
}

int64_t lags_product(const struct lags *self, uint16_t k)
{
    return (int64_t)self->high[k] * 4294967296 + (int64_t)self->low[k];
}

uint32_t lags_pairs(const struct lags *self, uint16_t k)
{
    uint32_t found = self->everywhere;
    uint8_t i;
    for (i = 0; i < self->ranges; i++) {
        const uint16_t first = self->from[i] > k ? self->from[i] : k;
        found += self->to[i] > first ? (uint32_t)(self->to[i] - first) : 0;
    }
    return found;
}

void lags_sent(struct lags *self)
{
    memset(self->low, 0, sizeof self->low);
    memset(self->high, 0, sizeof self->high);
    self->everywhere = 0;
    self->ranges = 0;
}
