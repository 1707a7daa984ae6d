#include "grid.h"

/* Activations ------------------------------------------------------------------------------- */

static const int64_t LOG2E = 3025551;    /* 21 digits */
static const int64_t LN2 = 46516320;     /* 26 digits */
static const int64_t GROWTH[5] = {187240, 1123252, 5592344, 22369423, 67108865}; /* 27 digits */
static const int64_t OVER_PI = 333772;   /* 20 digits */
static const int64_t PI = 3454217652358; /* 40 digits */

enum { LARGEST = 20, FARTHEST = 64, LINEAR_BOUND = 8 };

/* value 2^-digits to the nearest integer, ties to even; a shift to the left if negative. */
int64_t grid_round(int64_t value, int digits)
{
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (digits > 0) {
        uint64_t whole = size >> digits, rest = size & (((uint64_t)1 << digits) - 1);
        uint64_t half = (uint64_t)1 << (digits - 1);
        size = whole + (rest > half || (rest == half && (whole & 1)));
    } else {
        size <<= -digits;
    }
    return value < 0 ? -(int64_t)size : (int64_t)size;
}

/* |p| rounded to 26 digits, at most `limit`: larger ones never reach the rounding. */
static int64_t size_to_26(int64_t p, int p_digits, int64_t limit)
{
    uint64_t size = p < 0 ? 0 - (uint64_t)p : (uint64_t)p;
    if (size >= (uint64_t)limit << p_digits)
        return limit << 26;
    return grid_round((int64_t)size, p_digits - 26);
}

/* e^y - 1 = top 2^-unit for y of 26 digits, with *one = 1 in the same unit. */
static int64_t growth(int64_t y, int64_t *one)
{
    int64_t k = grid_round(y * LOG2E, 47), r = y - k * LN2, p = GROWTH[0];
    int i, unit = k < 27 ? 27 - (int)k : 0;
    for (i = 1; i < 5; i++)
        p = grid_round(p * r + (GROWTH[i] << 26), 26);
    p = grid_round(p * r, 26);
    p = grid_round(p * r + r * ((int64_t)1 << 27), 26);
    *one = (int64_t)1 << unit;
    return p * ((int64_t)1 << (k < 27 ? 0 : k - 27)) + (((int64_t)1 << (k + unit)) - *one);
}

/* The ratio, rounded to the grid, at most one step below 1.
 *
 * The definition rounds twice, to the 53 bits of a float64 and then to the grid. Both together
 * give what one rounding of the exact ratio gives. They could only differ where the float64 is a
 * midpoint m 2^-(d+1) of the grid and the exact ratio n / q is not, but is within 2^-54 of it (half
 * a unit in the last place of numbers below 1). Two different fractions are at least
 * 1 / (q 2^(d+1)) apart, and q < 2^29 (e^20 + 1 < 2^29 in the coarsest unit, 1.5 2^28 at most in the
 * others), so that for d <= 24 this is more than 2^-54.
 */
static int64_t ratio(int64_t top, int64_t bottom, int digits)
{
    uint64_t scaled = (uint64_t)top << (digits + 1), q = scaled / (uint64_t)bottom;
    uint64_t exact = scaled - q * (uint64_t)bottom == 0, whole = q >> 1;
    int64_t largest = ((int64_t)1 << digits) - 1, found;
    found = (int64_t)(whole + ((q & 1) && (!exact || (whole & 1))));
    return found < largest ? found : largest;
}

static int64_t tanh_of(int64_t p, int p_digits, int digits)
{
    int64_t one, e = growth(size_to_26(p, p_digits - 1, LARGEST), &one);
    int64_t y = ratio(e, e + 2 * one, digits);
    return p < 0 ? -y : y;
}

static int64_t sigmoid_of(int64_t p, int p_digits, int digits)
{
    int64_t one, e = growth(size_to_26(p, p_digits, LARGEST), &one);
    int64_t y = ratio(e + one, e + 2 * one, digits);
    return p < 0 ? ((int64_t)1 << digits) - y : y;
}

static int64_t sin_of(int64_t p, int p_digits, int digits)
{
    int64_t a = size_to_26(p, p_digits, FARTHEST), k = grid_round(a * OVER_PI, 46);
    int fine = p_digits > 40 ? p_digits : 40;
    int64_t largest = ((int64_t)1 << digits) - 1, exact = (int64_t)FARTHEST << fine, r, z, y;
    uint64_t size = p < 0 ? 0 - (uint64_t)p : (uint64_t)p;
    if (size < (uint64_t)FARTHEST << p_digits)
        exact = (int64_t)(size << (fine - p_digits));
    r = grid_round(exact - k * PI * ((int64_t)1 << (fine - 40)), fine - 25);
    z = grid_round(r * r, 26);
    y = grid_round(-26220 * z + ((int64_t)189134 << 28), 28);
    y = grid_round(y * z - ((int64_t)213039 << 30), 30);
    y = grid_round(y * z + ((int64_t)8947845 << 24), 24);
    y = grid_round(y * z - ((int64_t)89478485 << 25), 25);
    y = grid_round(y * z, 26);
    y = grid_round(y * r + r * ((int64_t)1 << 27), 25);
    y = grid_round(y, 27 - digits);
    y = y > largest ? largest : y < -largest ? -largest : y;
    return ((k & 1) != 0) != (p < 0) ? -y : y;
}

static int64_t linear_of(int64_t p, int p_digits, int digits)
{
    int64_t bound = (int64_t)LINEAR_BOUND << digits, y = grid_round(p, p_digits - digits);
    return y > bound ? bound : y < -bound ? -bound : y;
}

/* The activation of p 2^-p_digits, |p| < 2^53 and p_digits <= 44, in fixed point of 8 to 24 digits. */
int32_t grid_activate(int code, int64_t p, int p_digits, int digits)
{
    switch (code) {
    case GRID_TANH:
        return (int32_t)tanh_of(p, p_digits, digits);
    case GRID_SIGMOID:
        return (int32_t)sigmoid_of(p, p_digits, digits);
    case GRID_SIN:
        return (int32_t)sin_of(p, p_digits, digits);
    case GRID_RELU:
        return p < 0 ? 0 : (int32_t)linear_of(p, p_digits, digits);
    default:
        return (int32_t)linear_of(p, p_digits, digits);
    }
}

/* States ------------------------------------------------------------------------------------ */

static int64_t words_product(const struct grid_rows *rows, uint32_t i, const grid_word *x)
{
    int64_t sum = 0;
    uint32_t q;
    for (q = rows->starts[i]; q < rows->starts[i + 1]; q++)
        sum += (int64_t)rows->values[q] * x[rows->columns[q]];
    return sum;
}

static int64_t inputs_product(const struct grid_rows *rows, uint32_t i, const int32_t *u)
{
    int64_t sum = 0;
    uint32_t q;
    for (q = rows->starts[i]; q < rows->starts[i + 1]; q++)
        sum += (int64_t)rows->values[q] * u[rows->columns[q]];
    return sum;
}

void grid_step(const struct grid_map *map, const int32_t *u, grid_word *x, grid_word *next)
{
    const grid_word *below = 0;
    int64_t whole = (int64_t)1 << map->leak_digits, one = (int64_t)1 << map->digits;
    uint32_t k, i;
    for (k = 0; k < map->layers; k++) {
        const struct grid_layer *layer = map->layer + k;
        for (i = 0; i < layer->units; i++) {
            int64_t a = layer->leak[i], p = layer->bias[i] * one, y;
            p += words_product(&layer->recurrent, i, x);
            p += below ? words_product(&layer->input, i, below)
                       : inputs_product(&layer->input, i, u);
            y = grid_activate(layer->activation[i], p, layer->weight_digits + map->digits,
                              map->digits);
            next[i] = (grid_word)grid_round((whole - a) * x[i] + a * y, map->leak_digits);
        }
        for (i = 0; i < layer->units; i++)
            x[i] = next[i];
        below = x;
        x += layer->units;
    }
}

/* Each segment of `cut_length` steps starts from rest, `cut_warmup` steps before its first. */
void grid_states(const struct grid_map *map, const int32_t *u, uint32_t steps, grid_word *x,
                 grid_word *next, grid_on_step emit, void *context)
{
    uint32_t length = map->cut_length ? map->cut_length : steps, begin, t, i;
    for (begin = 0; begin < steps; begin += length) {
        uint32_t end = steps - begin < length ? steps : begin + length;
        for (i = 0; i < map->units; i++)
            x[i] = 0;
        for (t = begin < map->cut_warmup ? 0 : begin - map->cut_warmup; t < end; t++) {
            grid_step(map, u + (uint64_t)t * map->inputs, x, next);
            if (t >= begin)
                emit(context, t, u + (uint64_t)t * map->inputs, x);
        }
        if (end == steps)
            return;
    }
}

/* A float64 in integers: what division, product, difference and square root round to -------
 *
 * bits 2^exponent with 2^52 <= bits < 2^53, or bits = 0. Only values at least 0 are needed, and
 * none comes near the ends of the exponent's range. */

struct real {
    uint64_t bits;
    int exponent;
};

/* (high 2^64 + low) 2^exponent, and a little more if `more`, rounded to 53 bits. */
static struct real rounded(uint64_t high, uint64_t low, int more, int exponent)
{
    struct real found = {0, 0};
    uint64_t rest;
    if (!high && !low)
        return found;
    while (!(high >> 63)) {
        high = high << 1 | low >> 63;
        low <<= 1;
        exponent--;
    }
    rest = high & 2047;
    found.bits = high >> 11;
    found.exponent = exponent + 75;
    if (rest > 1024 || (rest == 1024 && (low || more || (found.bits & 1))))
        found.bits++;
    if (found.bits >> 53) {
        found.bits >>= 1;
        found.exponent++;
    }
    return found;
}

static struct real divided(struct real a, uint32_t n)
{
    uint64_t top = a.bits << 11, first = top / n, rest = (top % n) << 32, second = rest / n;
    return rounded(first >> 32, first << 32 | second, rest % n != 0, a.exponent - 43);
}

static struct real squared(struct real a)
{
    uint64_t high = a.bits >> 32, low = a.bits & 0xffffffffu, middle = high * low;
    uint64_t sum = low * low, add = middle << 33;
    uint64_t top = high * high + (middle >> 31);
    sum += add;
    top += sum < add;
    return rounded(top, sum, 0, 2 * a.exponent);
}

/* a - b, or 0 where b is larger. */
static struct real less(struct real a, struct real b)
{
    struct real zero = {0, 0};
    int shift = a.exponent - b.exponent, more = 0;
    uint64_t a_high = a.bits << 10, a_low = 0, high = b.bits << 10, low = 0;
    if (!b.bits)
        return a;
    if (!a.bits || shift < 0)
        return zero;
    if (shift >= 128) {
        more = 1;
        high = low = 0;
    } else if (shift >= 64) {
        more = shift > 64 && (high << (128 - shift)) != 0;
        low = shift == 64 ? high : high >> (shift - 64);
        high = 0;
    } else if (shift) {
        low = high << (64 - shift);
        high >>= shift;
    }
    if (a_high < high || (a_high == high && a_low < low))
        return zero;
    a_high -= high + (a_low < low);
    a_low -= low;
    if (more) {
        a_high -= a_low == 0;
        a_low--;
    }
    return rounded(a_high, a_low, more, a.exponent - 74);
}

static struct real root(struct real a)
{
    uint64_t radicand, found = 0, rest = 0;
    int i, odd = a.exponent & 1;
    if (!a.bits)
        return a;
    radicand = a.bits << (odd ? 11 : 10);
    for (i = 0; i < 55; i++) {
        uint64_t trial = found << 2 | 1;
        rest = rest << 2 | radicand >> 62;
        radicand <<= 2;
        found <<= 1;
        if (rest >= trial) {
            rest -= trial;
            found |= 1;
        }
    }
    return rounded(0, found, rest != 0, (a.exponent - odd - 10) / 2 - 23);
}

/* a 2^-digits, a real, as an integer: to nearest, ties to even, at most `most`. */
static int32_t whole(struct real a, int digits, int32_t most)
{
    int shift = digits - a.exponent;
    int64_t found;
    if (!a.bits || shift > 60)
        return 0;
    if (shift < 1 || a.bits >> shift > (uint64_t)most)
        return most;
    found = grid_round((int64_t)a.bits, shift);
    return found < most ? (int32_t)found : most;
}

/* Features ---------------------------------------------------------------------------------- */

uint32_t grid_base_features(const struct grid_map *map)
{
    return map->has_bias + (map->has_input ? map->inputs : 0) + (map->has_state ? map->units : 0);
}

uint32_t grid_features(const struct grid_map *map)
{
    uint32_t each = map->pool == GRID_MEAN_STD ? 2 : 1;
    return grid_base_features(map) * each * (map->pool == GRID_STEPS ? 1 : map->segments);
}

static int32_t base_feature(const struct grid_map *map, uint32_t j, const int32_t *u,
                            const grid_word *x)
{
    if (map->has_bias && j-- == 0)
        return (int32_t)1 << map->digits;
    if (map->has_input) {
        if (j < map->inputs)
            return u[j];
        j -= map->inputs;
    }
    return x[j];
}

/* A value of the map's digits as feature j: rounded and cut off where the features' grid ends. */
static int32_t on_feature_grid(const struct grid_map *map, uint32_t j, int64_t value)
{
    int64_t most = (int64_t)1 << map->feature_bits;
    int64_t found = grid_round(value, map->digits - map->feature_digits[j]);
    return (int32_t)(found > most ? most : found < -most ? -most : found);
}

static int32_t mean_on_grid(const struct grid_map *map, uint32_t j, int64_t sum, uint32_t steps)
{
    uint64_t size = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    int32_t found = whole(divided(rounded(0, size, 0, 0), steps),
                          map->digits - map->feature_digits[j], (int32_t)1 << map->feature_bits);
    return sum < 0 ? -found : found;
}

/* With m the mean rounded down: sqrt(sum (k - m)^2 / T - d d), d = mean - m. The sum is exact, and
 * is the one about the part's first step less m (2 first - T m), with m counted from there. */
static int32_t deviation_on_grid(const struct grid_map *map, uint32_t j,
                                 const struct grid_sum *sum, uint32_t steps)
{
    int64_t m = sum->first / (int64_t)steps, rest = sum->first % (int64_t)steps, factor;
    uint64_t size, middle, high, low, second_high = sum->second_high;
    struct real q, d;
    if (rest < 0) {
        m--;
        rest += steps;
    }
    factor = 2 * rest + m * (int64_t)steps;
    size = (uint64_t)(m < 0 ? -m : m);
    high = (uint64_t)(factor < 0 ? -factor : factor);
    low = size * (high & 0xffffffffu);
    middle = size * (high >> 32);
    high = (middle >> 32) + (low + (middle << 32) < low);
    low += middle << 32;
    if ((m < 0) == (factor < 0)) {
        second_high -= high + (sum->second_low < low);
        low = sum->second_low - low;
    } else {
        low += sum->second_low;
        second_high += high + (low < sum->second_low);
    }
    q = divided(rounded(second_high, low, 0, 0), steps);
    d = divided(rounded(0, (uint64_t)rest, 0, 0), steps);
    return whole(root(less(q, squared(d))), map->digits - map->feature_digits[j],
                 (int32_t)1 << map->feature_bits);
}

static void add_to_sum(struct grid_sum *sum, int32_t value, int first_of_part)
{
    int64_t d;
    uint64_t square;
    if (first_of_part) {
        sum->reference = sum->extreme = value;
        sum->first = 0;
        sum->second_high = sum->second_low = 0;
    }
    d = (int64_t)value - sum->reference;
    square = (uint64_t)(d * d);
    sum->first += d;
    sum->second_low += square;
    sum->second_high += sum->second_low < square;
    if (value > sum->extreme)
        sum->extreme = value;
}

struct rows_under_way {
    const struct grid_map *map;
    const struct grid_work *work;
    uint32_t steps; /* after the washout */
    uint32_t part;
    grid_on_row emit;
    void *context;
};

static uint32_t edge(const struct rows_under_way *now, uint32_t part)
{
    return (uint32_t)((uint64_t)now->steps * part / now->map->segments);
}

static void finish_part(const struct rows_under_way *now, uint32_t steps, const int32_t *u,
                        const grid_word *x)
{
    const struct grid_map *map = now->map;
    uint32_t base = grid_base_features(map), j;
    uint32_t each = map->pool == GRID_MEAN_STD ? 2 : 1;
    int32_t *row = now->work->row + (uint64_t)now->part * each * base;
    for (j = 0; j < base; j++) {
        const struct grid_sum *sum = now->work->sums + j;
        if (map->pool == GRID_LAST)
            row[j] = on_feature_grid(map, j, base_feature(map, j, u, x));
        else if (map->pool == GRID_MAX)
            row[j] = on_feature_grid(map, j, sum->extreme);
        else
            row[j] = mean_on_grid(map, j, sum->first + (int64_t)sum->reference * steps, steps);
        if (map->pool == GRID_MEAN_STD)
            row[base + j] = deviation_on_grid(map, j, sum, steps);
    }
}

static void row_of_step(void *context, uint32_t t, const int32_t *u, const grid_word *x)
{
    struct rows_under_way *now = context;
    const struct grid_map *map = now->map;
    uint32_t base = grid_base_features(map), j, begin, end;
    if (t < map->washout)
        return;
    t -= map->washout;
    if (map->pool == GRID_STEPS) {
        for (j = 0; j < base; j++)
            now->work->row[j] = on_feature_grid(map, j, base_feature(map, j, u, x));
        now->emit(now->context, now->work->row);
        return;
    }
    begin = edge(now, now->part);
    end = edge(now, now->part + 1);
    for (j = 0; j < base; j++)
        add_to_sum(now->work->sums + j, base_feature(map, j, u, x), t == begin);
    if (t + 1 < end)
        return;
    finish_part(now, end - begin, u, x);
    now->part++;
    if (now->part == map->segments)
        now->emit(now->context, now->work->row);
}

/* The feature rows of one sequence, one after another; it has at least washout + segments steps. */
void grid_feature_rows(const struct grid_map *map, const int32_t *u, uint32_t steps,
                       const struct grid_work *work, grid_on_row emit, void *context)
{
    struct rows_under_way now = {map, work, steps - map->washout, 0, emit, context};
    grid_states(map, u, steps, work->x, work->next, &row_of_step, &now);
}

/* Statistics -------------------------------------------------------------------------------- */

int grid_add_row(struct grid_statistics *sums, const int32_t *row, const int32_t *target)
{
    uint32_t F = sums->features, K = sums->targets, i, j;
    int64_t *gram = sums->gram, *target_gram = sums->target_gram;
    int bits = sums->feature_bits > sums->target_bits ? sums->feature_bits : sums->target_bits;
    if (bits > 31 || sums->rows >= (int64_t)1 << (62 - 2 * bits))
        return 0;
    for (i = 0; i < F; i++) {
        sums->feature_sum[i] += row[i];
        for (j = i; j < F; j++)
            *gram++ += (int64_t)row[i] * row[j];
        for (j = 0; j < K; j++)
            sums->cross[(uint64_t)i * K + j] += (int64_t)row[i] * target[j];
    }
    for (i = 0; i < K; i++) {
        sums->target_sum[i] += target[i];
        for (j = i; j < K; j++)
            *target_gram++ += (int64_t)target[i] * target[j];
    }
    sums->rows++;
    return 1;
}
