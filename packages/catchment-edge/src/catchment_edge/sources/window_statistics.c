/* Statistics of a window: sums of integers, and one last division or root of each.
 *
 * Tapered cosines and sines of the spectrum are differences of two entries of one table of sines:
 *   sin(A) cos(2 k A) = (sin((2k + 1) A) - sin((2k - 1) A)) / 2
 *   sin(A) sin(2 k A) = (cos((2k - 1) A) - cos((2k + 1) A)) / 2,   A = pi (2t + 1) / (2 L)
 * rounded to 14 digits; the export has compared each of them with the library's. */
enum { STATISTICS_DIGITS = 12, STATISTICS_FRACTION = 12, STATISTICS_BANDS = 9 };

struct statistics {
    uint32_t steps, stride, channels; /* of the window */
    uint32_t blocks, length;  /* of the spectrum */
    int shift, bits, range_bits;
    int32_t limit;
    uint8_t pairs;
    const uint8_t *first, *last; /* frequencies of the bands, less 1 */
    const int32_t *sines;        /* a turn, of 29 digits */
};

/* What is kept of each channel until its correlations are known; root: of the variance. */
struct statistics_sums {
    int32_t *center, *sum;
    double *root;
};

/* The logarithm of an integer from 1 on, in units of 2^-12, rounded down: the mantissa is
 * squared again and again, and each time it passes 2 gives one binary digit. */
static int32_t statistics_log(uint64_t value)
{
    int whole = 0, i;
    uint64_t mantissa;
    uint32_t found;
    while (value >> whole >> 1)
        whole++;
    mantissa = whole > 30 ? value >> (whole - 30) : value << (30 - whole);
    found = (uint32_t)whole;
    for (i = 0; i < STATISTICS_FRACTION; i++) {
        mantissa = (mantissa * mantissa) >> 30;
        found <<= 1;
        if (mantissa >> 31) {
            mantissa >>= 1;
            found |= 1;
        }
    }
    return (int32_t)found;
}

static int32_t statistics_middle(int64_t total, uint32_t n)
{
    return (int32_t)number_floor(2 * total + n, 2 * (int64_t)n);
}

/* Twice an entry of 2^14 times the table, of 29 digits, to the nearest integer. */
static int32_t statistics_entry(int32_t difference)
{
    return (difference + 32768) >> 16;
}

/* The energy of one frequency k of a folded block: the squares of its cosine and sine transform. */
static uint64_t statistics_energy(const struct statistics *map, const int32_t *x, uint32_t k)
{
    /* The table has the odd multiples of pi / (2 L), and where L is odd the even ones, too. */
    uint32_t L = map->length, unit = 1 + L % 2, turn = 2 * unit * L, quarter = unit * L / 2, t;
    uint32_t low = unit * k - 1, high = low + unit;
    uint32_t low_step = unit * (2 * k - 1), high_step = unit * (2 * k + 1);
    const int32_t *S = map->sines;
    int64_t cosine = 0, sine = 0;
    for (t = 0; 2 * t < L; t++) {
        uint32_t low_cos = low + quarter < turn ? low + quarter : low + quarter - turn;
        uint32_t high_cos = high + quarter < turn ? high + quarter : high + quarter - turn;
        cosine += (int64_t)x[t] * statistics_entry(S[high] - S[low]);
        if (2 * t + 1 < L)
            sine += (int64_t)x[L - 1 - t] * statistics_entry(S[low_cos] - S[high_cos]);
        low = low + low_step < turn ? low + low_step : low + low_step - turn;
        high = high + high_step < turn ? high + high_step : high + high_step - turn;
    }
    cosine = number_round(cosine, 14);
    sine = number_round(sine, 14);
    return (uint64_t)(cosine * cosine) + (uint64_t)(sine * sine);
}

/* A block becomes the sums of values equally far from either end, about an integer near their
 * mean, and in its second half their differences. */
static void statistics_fold(int32_t *x, uint32_t L)
{
    int64_t total = 0;
    int32_t middle, a, b;
    uint32_t t;
    for (t = 0; t < L; t++)
        total += x[t];
    middle = statistics_middle(total, L);
    for (t = 0; 2 * t + 1 < L; t++) {
        a = x[t];
        b = x[L - 1 - t];
        x[t] = a + b - 2 * middle;
        x[L - 1 - t] = a - b;
    }
    if (L % 2)
        x[t] -= middle;
}

/* The bands of a channel in x, which becomes folded. */
static void statistics_bands(const struct statistics *map, int32_t *x, feature *row)
{
    const int scale = 2 * STATISTICS_DIGITS + 4;
    uint32_t k, b, h;
    for (b = 0; b < map->blocks; b++)
        statistics_fold(x + b * map->length, map->length);
    for (k = 0; k < STATISTICS_BANDS; k++) {
        uint64_t total = 0, width = (uint64_t)map->length * (map->last[k] - map->first[k]);
        int32_t found;
        for (b = 0; b < map->blocks && width; b++) {
            uint64_t energy = 0;
            for (h = map->first[k]; h < map->last[k]; h++)
                energy += statistics_energy(map, x + b * map->length, h + 1);
            total += 32 * energy / width;
        }
        found = statistics_log(total / map->blocks + ((uint64_t)1 << (scale - 14)));
        found -= scale << STATISTICS_FRACTION;
        found = found < 16 << STATISTICS_FRACTION ? found : 16 << STATISTICS_FRACTION;
        row[k] = feature_from_whole(found, STATISTICS_FRACTION, map->bits - 4, map->bits);
    }
}

/* Shell's sort: short, in place, and quick enough for a window. */
static void statistics_sort(int32_t *x, uint32_t n)
{
    uint32_t gap, i, j;
    for (gap = n / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (i = gap; i < n; i++) {
            int32_t value = x[i];
            for (j = i; j >= gap && x[j - gap] > value; j -= gap)
                x[j] = x[j - gap];
            x[j] = value;
        }
}

/* Extremes and quartiles of sorted numbers. */
static void statistics_order(const struct statistics *map, const int32_t *x, feature *row)
{
    uint32_t k;
    for (k = 0; k < 5; k++) {
        uint64_t at = (uint64_t)(map->steps - 1) * k;
        uint32_t place = (uint32_t)(at >> 2), above = place + 1 < map->steps ? place + 1 : place;
        int64_t part = (int64_t)(at & 3);
        int64_t found = (4 - part) * x[place] + part * x[above];
        row[k] = feature_from_whole(found, STATISTICS_DIGITS + 2, map->bits - map->range_bits,
                                    map->bits);
    }
}

/* A channel less a number. */
static void statistics_load(const struct statistics *map, const word *window, uint32_t channel,
                            int32_t less, int32_t *x)
{
    uint32_t t;
    for (t = 0; t < map->steps; t++)
        x[t] = -less;
    window_add(window + channel, map->stride, map->steps, map->shift, map->limit, x);
}

/* The 17 features of channel i; x is scratch memory. */
static void statistics_channel(const struct statistics *map, const word *window, int32_t *x,
                               uint32_t i, const struct statistics_sums *sums, feature *row)
{
    uint32_t T = map->steps, t;
    int32_t center, sum;
    int digits = map->bits - map->range_bits, scale = STATISTICS_DIGITS + 4;
    int64_t total = 0, squares = 0;
    uint64_t steps = 0;
    double variance;
    statistics_load(map, window, i, 0, x);
    for (t = 0; t < T; t++) {
        total += x[t];
        if (t)
            steps += (uint64_t)(x[t] > x[t - 1] ? x[t] - x[t - 1] : x[t - 1] - x[t]);
    }
    sums->center[i] = center = statistics_middle(total, T);
    sums->sum[i] = sum = (int32_t)(total - (int64_t)T * center);
    for (t = 0; t < T; t++)
        squares += (int64_t)(x[t] - center) * (x[t] - center);
    variance = (double)((int64_t)sum * sum) / (double)T;
    variance = ((double)squares - variance) / (double)T;
    sums->root[i] = number_root_double(variance);
    row[0] = feature_from_double((double)total / ((double)T * 4096.0), digits, map->bits);
    row[1] = feature_from_double(sums->root[i] / 4096.0, digits, map->bits);
    steps = 16 * steps / (T > 1 ? T - 1 : 1) + ((uint64_t)1 << (scale - 7));
    row[7] = feature_from_whole(statistics_log(steps) - (scale << STATISTICS_FRACTION),
                                STATISTICS_FRACTION, map->bits - 3, map->bits);
    statistics_sort(x, T);
    statistics_order(map, x, row + 2);
    statistics_load(map, window, i, 0, x);
    statistics_bands(map, x, row + 8);
}

/* The correlation of channels i and j, which are in x and after it, less their centers; 0 where one
 * of them is constant. */
static feature statistics_correlation(const struct statistics *map, const int32_t *x,
                                      const struct statistics_sums *sums, uint32_t i, uint32_t j)
{
    double size = sums->root[i] * sums->root[j], found = 0.0;
    int64_t products = 0;
    uint32_t t;
    if (size > 0.0) {
        for (t = 0; t < map->steps; t++)
            products += (int64_t)x[t] * x[map->steps + t];
        found = (double)((int64_t)sums->sum[i] * sums->sum[j]) / (double)map->steps;
        found = ((double)products - found) / (double)map->steps;
        found = found / size;
        found = found > 1.0 ? 1.0 : found < -1.0 ? -1.0 : found;
    }
    return feature_from_double(found, map->bits, map->bits);
}

/* x: (steps) numbers, twice as many with pairs; center, sum, root: (channels). */
static void statistics_row(const struct statistics *map, const word *window, int32_t *x,
                           int32_t *center, int32_t *sum, double *root, feature *row)
{
    struct statistics_sums sums;
    uint32_t I = map->channels, i, j;
    sums.center = center;
    sums.sum = sum;
    sums.root = root;
    for (i = 0; i < I; i++, row += 8 + STATISTICS_BANDS)
        statistics_channel(map, window, x, i, &sums, row);
    for (i = 0; map->pairs && i < I; i++) {
        statistics_load(map, window, i, center[i], x);
        for (j = i + 1; j < I; j++) {
            statistics_load(map, window, j, center[j], x + map->steps);
            *row++ = statistics_correlation(map, x, &sums, i, j);
        }
    }
}
