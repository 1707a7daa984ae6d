#include "reservoir.h"

#include "linear.h"
#include "words.h"

static double float_activate(int code, double p)
{
    (void)code; /* all units are tanh */
    return reservoir_tanh(p);
}

/* The step that an exported model takes on a device, with every float a double. */
#include "double_reservoir.h"

enum { CONNECTIONS = 10 }; /* that each unit of the random topology receives */

static uint64_t words[MOST_UNITS];
static int order[MOST_UNITS], places[MOST_UNITS * CONNECTIONS];
static double dense[MOST_CONNECTIONS];

static void draw_random(struct reservoir *r, uint64_t seed)
{
    int n = r->units, k = n < CONNECTIONS ? n : CONNECTIONS, i;
    struct words rng;
    words_start(&rng, seed, WORDS_RECURRENT_PLACES);
    words_distinct(&rng, n, k, n, words, order, places);
    words_start(&rng, seed, WORDS_RECURRENT_VALUES);
    for (i = 0; i < n * k; i++) {
        r->columns[i] = (uint16_t)places[i];
        r->raw[i] = words_uniform(&rng, -1.0, 1.0);
    }
    for (i = 0; i <= n; i++)
        r->starts[i] = (uint32_t)(i * k);
}

/* One connection of weight 1 per unit, from the unit before it or from any other. */
static void draw_chain(struct reservoir *r, uint64_t seed, int topology)
{
    int n = r->units, i, skip = topology == TOPOLOGY_DELAY_LINE;
    struct words rng;
    words_start(&rng, seed, WORDS_RECURRENT_PLACES);
    if (topology == TOPOLOGY_PERMUTATION)
        words_permutation(&rng, n, words, order);
    else
        for (i = 0; i < n; i++)
            order[i] = (i + n - 1) % n;
    r->starts[0] = 0;
    for (i = 0; i < n; i++) {
        r->starts[i + 1] = (uint32_t)(i + 1 - skip);
        if (i >= skip) {
            r->columns[i - skip] = (uint16_t)order[i];
            r->raw[i - skip] = 1.0;
        }
    }
}

/* Rotate random pairs of rows into each other. */
static void mix_rows(struct words *rng, double *Q, int n)
{
    static double tangent[MOST_UNITS];
    int half = n / 2, i, j;
    words_permutation(rng, n, words, order);
    for (i = 0; i < half; i++)
        tangent[i] = words_uniform(rng, -1.0, 1.0);
    for (i = 0; i < half; i++) {
        double *one = Q + order[i] * n, *other = Q + order[half + i] * n, t = tangent[i];
        double norm = 1.0 + t * t, cosine = (1.0 - t * t) / norm, sine = 2.0 * t / norm;
        for (j = 0; j < n; j++) {
            double a = one[j], b = other[j];
            one[j] = cosine * a - sine * b;
            other[j] = sine * a + cosine * b;
        }
    }
}

static void draw_orthogonal(struct reservoir *r, uint64_t seed)
{
    static double sign[MOST_UNITS];
    int n = r->units, i, j, rounds = 0;
    uint32_t at = 0;
    struct words rng;
    words_start(&rng, seed, WORDS_RECURRENT_VALUES);
    for (i = 0; i < n; i++)
        sign[i] = words_sign(&rng);
    words_permutation(&rng, n, words, order);
    for (i = 0; i < n * n; i++)
        dense[i] = 0.0;
    for (i = 0; i < n; i++)
        dense[i * n + order[i]] = sign[i];
    while ((n - 1) >> rounds)
        rounds++;
    for (i = 0; i < 2 * rounds; i++)
        mix_rows(&rng, dense, n);
    for (i = 0; i < n; i++) {
        r->starts[i] = at;
        for (j = 0; j < n; j++)
            if (dense[i * n + j] != 0.0) {
                r->columns[at] = (uint16_t)j;
                r->raw[at++] = dense[i * n + j];
            }
    }
    r->starts[n] = at;
}

/* With 20 significant bits, or 21 on the edge of a rounding: the number that every machine finds. */
static double common_radius(double radius)
{
    double unit = 1.0, scaled, apart;
    int64_t below;
    if (radius <= 0.0)
        return radius;
    while (radius >= unit * 1048576.0)
        unit *= 2.0;
    while (radius < unit * 524288.0)
        unit *= 0.5;
    scaled = radius / unit;
    below = (int64_t)scaled;
    apart = scaled - (double)below - 0.5;
    if (apart < 1e-9 * scaled && apart > -1e-9 * scaled)
        return ((double)below + 0.5) * unit;
    return (double)(below + (apart > 0.0)) * unit;
}

static double radius_of(const struct reservoir *r)
{
    int n = r->units, i;
    uint32_t j;
    for (i = 0; i < n * n; i++)
        dense[i] = 0.0;
    for (i = 0; i < n; i++)
        for (j = r->starts[i]; j < r->starts[i + 1]; j++)
            dense[i * n + r->columns[j]] = r->raw[j];
    return common_radius(linear_spectral_radius(dense, n));
}

int reservoir_draw(struct reservoir *r, uint64_t seed, int units, int topology)
{
    r->units = units;
    r->raw_radius = 1.0;
    if (topology == TOPOLOGY_RANDOM) {
        draw_random(r, seed);
        r->raw_radius = radius_of(r);
    } else if (topology == TOPOLOGY_ORTHOGONAL) {
        draw_orthogonal(r, seed);
    } else {
        draw_chain(r, seed, topology);
    }
    return r->raw_radius > 0.0;
}

void reservoir_scale(struct reservoir *r, uint64_t seed, double spectral_radius, double leak,
                     double input_scaling, double bias_scaling)
{
    double scale = spectral_radius / r->raw_radius;
    struct words rng;
    uint32_t entry;
    int i;
    for (entry = 0; entry < r->starts[r->units]; entry++)
        r->values[entry] = r->raw[entry] * scale;
    for (i = 0; i < r->units; i++)
        r->leak[i] = leak;
    words_start(&rng, seed, WORDS_INPUT_VALUES);
    for (i = 0; i < r->units; i++)
        r->input[i] = words_uniform(&rng, -input_scaling, input_scaling);
    words_start(&rng, seed, WORDS_BIAS);
    for (i = 0; i < r->units; i++)
        r->bias[i] = words_uniform(&rng, -bias_scaling, bias_scaling);
}

void reservoir_step(const struct reservoir *r, double u, double *x)
{
    static uint32_t one_each[MOST_UNITS + 1];
    static const uint16_t first[MOST_UNITS];
    static const uint8_t activation[MOST_UNITS]; /* tanh */
    static double next[MOST_UNITS];
    struct float_layer layer;
    uint32_t i;
    if (one_each[1] == 0)
        for (i = 0; i <= MOST_UNITS; i++)
            one_each[i] = i;
    layer.units = (uint32_t)r->units;
    layer.inputs = 1;
    layer.recurrent.starts = r->starts;
    layer.recurrent.columns = r->columns;
    layer.recurrent.values = r->values;
    layer.input.starts = one_each;
    layer.input.columns = first;
    layer.input.values = r->input;
    layer.bias = r->bias;
    layer.leak = r->leak;
    layer.activation = activation;
    float_step(&layer, 1, &u, x, next);
}
