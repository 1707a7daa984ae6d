/* A diagonal reservoir: independent modes, and products or mixtures of their states.
 *
 * Inputs have 24 digits and states 28, eigenvalues 19, input weights 18, what enters products and
 * mixtures 23, leaks 16; inputs and states are at most 8 in absolute value. */
enum { DIAGONAL_DIGITS = 28 };

struct diagonal {
    uint32_t inputs, modes, products, mixed;
    int bits;
    int32_t weight;              /* size of a mixture's weights, of 12 digits */
    const int32_t *eigenvalues;  /* (2, modes) */
    const int32_t *input;        /* (inputs, modes) */
    const int16_t *shifts;       /* of each block of products; -1: with inputs */
    const uint16_t *turns;       /* (blocks, 3) of mixtures */
    const int8_t *signs;         /* (3, mixed) */
    const int32_t *bias;         /* (mixed), of 20 digits */
    const int32_t *leak;         /* (products + mixed) */
};

static const int64_t DIAGONAL_LIMIT = (int64_t)8 << 28;

static void diagonal_advance(const struct diagonal *map, const word *v, int64_t *x, int32_t *near)
{
    uint32_t k = map->modes, i, c;
    for (i = 0; i < k; i++) {
        int64_t a = map->eigenvalues[i], b = map->eigenvalues[k + i], drive = 0;
        int64_t re = x[i], im = x[k + i];
        for (c = 0; c < map->inputs; c++)
            drive += (int64_t)map->input[c * k + i] * v[c];
        drive = number_cut(drive, (int64_t)8 << 42) * 32;
        x[i] = number_cut(number_round(a * re - b * im + drive, 19), DIAGONAL_LIMIT);
        x[k + i] = number_cut(number_round(b * re + a * im, 19), DIAGONAL_LIMIT);
    }
    for (i = 0; i < 2 * k; i++)
        near[i] = (int32_t)number_round(x[i], 5);
}

/* States lie in a ring of N; i is below 2 N. */
static uint32_t diagonal_around(uint32_t i, uint32_t N)
{
    return i < N ? i : i - N;
}

/* Product j of states and inputs, or of two states. */
static int64_t diagonal_product(const struct diagonal *map, const word *v, const int32_t *near,
                                uint32_t j)
{
    uint32_t N = 2 * map->modes, i = j % N;
    int32_t shift = map->shifts[j / N];
    if (shift < 0)
        return number_round((int64_t)near[i] * v[i % map->inputs], 19);
    return number_round((int64_t)near[i] * near[diagonal_around(i + (uint32_t)shift, N)], 18);
}

/* Mixture j: a bias and three states, weighted and bent. */
static int64_t diagonal_mixture(const struct diagonal *map, const int32_t *near, uint32_t j)
{
    uint32_t N = 2 * map->modes, i = j % N, k;
    int64_t sum = 0, x, y, bent;
    for (k = 0; k < 3; k++) {
        int32_t state = near[diagonal_around(i + map->turns[j / N * 3 + k], N)];
        sum += map->signs[k * map->mixed + j] < 0 ? -state : state;
    }
    sum = sum * map->weight + map->bias[j] * (int64_t)32768;
    x = number_round(number_cut(sum, (int64_t)3 << 35), 13);
    y = number_round(x * x, 24);
    bent = x < 0 ? -x : x;
    bent = number_ratio(4 * (uint64_t)(bent * (((int64_t)27 << 20) + y)),
                        (uint64_t)(((int64_t)27 << 20) + 9 * y));
    bent = number_cut(bent, ((int64_t)1 << 24) - 1);
    return (x < 0 ? -bent : bent) * 16;
}

static void diagonal_reset(const struct diagonal *map, int64_t *x, int64_t *q)
{
    uint32_t i;
    for (i = 0; i < 2 * map->modes; i++)
        x[i] = 0;
    for (i = 0; i < map->products + map->mixed; i++)
        q[i] = 0;
}

/* x: (2 modes) states, near: (2 modes) of fewer digits, q: (products + mixed). */
static void diagonal_step(const struct diagonal *map, const word *v, int64_t *x, int32_t *near,
                          int64_t *q)
{
    uint32_t j;
    diagonal_advance(map, v, x, near);
    for (j = 0; j < map->products + map->mixed; j++) {
        int64_t a = map->leak[j];
        int64_t p = j < map->products ? diagonal_product(map, v, near, j)
                                      : diagonal_mixture(map, near, j - map->products);
        q[j] = number_round((65536 - a) * q[j] + a * p, 16);
    }
}

static int64_t diagonal_base(const struct diagonal *map, const word *v, const int64_t *x,
                             const int64_t *q, uint32_t j)
{
    if (j < map->inputs)
        return (int64_t)v[j] * 16;
    j -= map->inputs;
    return j < 2 * map->modes ? x[j] : q[j - 2 * map->modes];
}

static uint32_t diagonal_features(const struct diagonal *map)
{
    return map->inputs + 2 * map->modes + map->products + map->mixed;
}

/* Digits of feature j: inputs and states are at most 8, products 64, mixtures 1. */
static int diagonal_digits(const struct diagonal *map, uint32_t j)
{
    uint32_t states = map->inputs + 2 * map->modes;
    return map->bits - (j < states ? 3 : j < states + map->products ? 6 : 0);
}

static void diagonal_row(const struct diagonal *map, const word *v, const int64_t *x,
                         const int64_t *q, feature *row)
{
    uint32_t j;
    for (j = 0; j < diagonal_features(map); j++)
        row[j] = feature_from_whole(diagonal_base(map, v, x, q, j), DIAGONAL_DIGITS,
                                    diagonal_digits(map, j), map->bits);
}

/* Sums about the first row, as the library adds them: squares are rounded to a double before they
 * are added, which `volatile` keeps a compiler from fusing. */
static void diagonal_add(const struct diagonal *map, const word *v, const int64_t *x,
                         const int64_t *q, int first, double *sums)
{
    uint32_t n = diagonal_features(map), j;
    for (j = 0; j < n; j++) {
        double z = (double)diagonal_base(map, v, x, q, j) / 268435456.0, d;
        volatile double square;
        if (first) {
            sums[j] = z;
            sums[n + j] = sums[2 * n + j] = 0.0;
        }
        d = z - sums[j];
        square = d * d;
        sums[n + j] += d;
        sums[2 * n + j] += square;
    }
}

static void diagonal_pooled(const struct diagonal *map, const double *sums, uint32_t steps,
                            feature *row)
{
    uint32_t n = diagonal_features(map), j;
    for (j = 0; j < n; j++) {
        double shift = sums[n + j] / (double)steps, spread;
        volatile double square = shift * shift;
        spread = sums[2 * n + j] / (double)steps - square;
        spread = spread > 0.0 ? number_root_double(spread) : 0.0;
        row[j] = feature_from_double(sums[j] + shift, diagonal_digits(map, j), map->bits);
        row[n + j] = feature_from_double(spread, diagonal_digits(map, j), map->bits);
    }
}
