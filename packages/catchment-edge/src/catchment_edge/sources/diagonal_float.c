/* A diagonal reservoir in float: independent modes, and products or mixtures of their states. */
struct diagonal {
    uint32_t inputs, modes, products, mixed;
    int bits;
    float weight;             /* size of a mixture's weights */
    const float *eigenvalues; /* (2, modes) */
    const float *input;       /* (inputs, modes) */
    const int16_t *shifts;    /* of each block of products; -1: with inputs */
    const uint16_t *turns;    /* (blocks, 3) of mixtures */
    const int8_t *signs;      /* (3, mixed) */
    const float *bias;        /* (mixed) */
    const float *leak;        /* (products + mixed) */
};

static float diagonal_cut(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

static void diagonal_advance(const struct diagonal *map, const word *v, float *x)
{
    uint32_t k = map->modes, i, c;
    for (i = 0; i < k; i++) {
        float a = map->eigenvalues[i], b = map->eigenvalues[k + i], drive = 0.0f;
        float re = x[i], im = x[k + i];
        for (c = 0; c < map->inputs; c++)
            drive += map->input[c * k + i] * v[c];
        x[i] = diagonal_cut(a * re - b * im + diagonal_cut(drive, 8.0f), 8.0f);
        x[k + i] = diagonal_cut(b * re + a * im, 8.0f);
    }
}

/* States lie in a ring of N; i is below 2 N. */
static uint32_t diagonal_around(uint32_t i, uint32_t N)
{
    return i < N ? i : i - N;
}

static float diagonal_product(const struct diagonal *map, const word *v, const float *x,
                              uint32_t j)
{
    uint32_t N = 2 * map->modes, i = j % N;
    int32_t shift = map->shifts[j / N];
    return x[i] * (shift < 0 ? v[i % map->inputs] : x[diagonal_around(i + (uint32_t)shift, N)]);
}

static float diagonal_mixture(const struct diagonal *map, const float *x, uint32_t j)
{
    uint32_t N = 2 * map->modes, i = j % N, k;
    float sum = 0.0f, square;
    for (k = 0; k < 3; k++) {
        float state = x[diagonal_around(i + map->turns[j / N * 3 + k], N)];
        sum += map->signs[k * map->mixed + j] < 0 ? -state : state;
    }
    sum = diagonal_cut(sum * map->weight + map->bias[j], 3.0f);
    square = sum * sum;
    return sum * (27.0f + square) / (27.0f + 9.0f * square);
}

static void diagonal_reset(const struct diagonal *map, float *x, float *q)
{
    uint32_t i;
    for (i = 0; i < 2 * map->modes; i++)
        x[i] = 0.0f;
    for (i = 0; i < map->products + map->mixed; i++)
        q[i] = 0.0f;
}

/* x: (2 modes) states, q: (products + mixed). */
static void diagonal_step(const struct diagonal *map, const word *v, float *x, float *q)
{
    uint32_t j;
    diagonal_advance(map, v, x);
    for (j = 0; j < map->products + map->mixed; j++) {
        float p = j < map->products ? diagonal_product(map, v, x, j)
                                    : diagonal_mixture(map, x, j - map->products);
        q[j] += map->leak[j] * (p - q[j]);
    }
}

static float diagonal_base(const struct diagonal *map, const word *v, const float *x,
                           const float *q, uint32_t j)
{
    if (j < map->inputs)
        return v[j];
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

static void diagonal_row(const struct diagonal *map, const word *v, const float *x, const float *q,
                         feature *row)
{
    uint32_t j;
    for (j = 0; j < diagonal_features(map); j++)
        row[j] = feature_from_double(diagonal_base(map, v, x, q, j), diagonal_digits(map, j),
                                     map->bits);
}

/* Sums about the first row. */
static void diagonal_add(const struct diagonal *map, const word *v, const float *x, const float *q,
                         int first, float *sums)
{
    uint32_t n = diagonal_features(map), j;
    for (j = 0; j < n; j++) {
        float z = diagonal_base(map, v, x, q, j), d;
        if (first) {
            sums[j] = z;
            sums[n + j] = sums[2 * n + j] = 0.0f;
        }
        d = z - sums[j];
        sums[n + j] += d;
        sums[2 * n + j] += d * d;
    }
}

static void diagonal_pooled(const struct diagonal *map, const float *sums, uint32_t steps,
                            feature *row)
{
    uint32_t n = diagonal_features(map), j;
    for (j = 0; j < n; j++) {
        float shift = sums[n + j] / (float)steps;
        float spread = sums[2 * n + j] / (float)steps - shift * shift;
        spread = spread > 0.0f ? sqrtf(spread) : 0.0f;
        row[j] = feature_from_double(sums[j] + shift, diagonal_digits(map, j), map->bits);
        row[n + j] = feature_from_double(spread, diagonal_digits(map, j), map->bits);
    }
}
