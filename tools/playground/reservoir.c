#include "reservoir.h"

#include "linear.h"
#include "words.h"

enum { CONNECTIONS = 10 }; /* that each unit of the random topology receives */

static uint64_t words[MOST_UNITS];
static int order[MOST_UNITS];
static double dense[MOST_CONNECTIONS];

static void draw_random(struct reservoir *r, uint64_t seed)
{
    int n = r->units, k = n < CONNECTIONS ? n : CONNECTIONS, i;
    struct words rng;
    words_start(&rng, seed, WORDS_RECURRENT_PLACES);
    words_distinct(&rng, n, k, n, words, order, r->columns);
    words_start(&rng, seed, WORDS_RECURRENT_VALUES);
    for (i = 0; i < n * k; i++)
        r->raw[i] = words_uniform(&rng, -1.0, 1.0);
    for (i = 0; i <= n; i++)
        r->starts[i] = i * k;
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
        r->starts[i + 1] = i + 1 - skip;
        if (i >= skip) {
            r->columns[i - skip] = order[i];
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
    int n = r->units, i, j, rounds = 0, at = 0;
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
                r->columns[at] = j;
                r->raw[at++] = dense[i * n + j];
            }
    }
    r->starts[n] = at;
}

static double radius_of(const struct reservoir *r)
{
    int n = r->units, i, j;
    for (i = 0; i < n * n; i++)
        dense[i] = 0.0;
    for (i = 0; i < n; i++)
        for (j = r->starts[i]; j < r->starts[i + 1]; j++)
            dense[i * n + r->columns[j]] = r->raw[j];
    return linear_spectral_radius(dense, n);
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
    int i;
    r->leak = leak;
    for (i = 0; i < r->starts[r->units]; i++)
        r->values[i] = r->raw[i] * scale;
    words_start(&rng, seed, WORDS_INPUT_VALUES);
    for (i = 0; i < r->units; i++)
        r->input[i] = words_uniform(&rng, -input_scaling, input_scaling);
    words_start(&rng, seed, WORDS_BIAS);
    for (i = 0; i < r->units; i++)
        r->bias[i] = words_uniform(&rng, -bias_scaling, bias_scaling);
}

/* tanh x = e / (e + 2) with e = exp(2x) - 1, the exponential by a Taylor polynomial on
 * |r| <= ln 2 / 2: the form that catchment's kernels have. */
double reservoir_tanh(double x)
{
    static const double taylor[12] = {
        1.6059043836821613e-10, 2.08767569878681e-09, 2.505210838544172e-08,
        2.7557319223985893e-07, 2.755731922398589e-06, 2.48015873015873e-05,
        1.984126984126984e-04, 1.3888888888888889e-03, 8.333333333333333e-03,
        4.1666666666666664e-02, 1.6666666666666666e-01, 0.5};
    double y = x + x, shifted, k, r, p, e;
    union {
        double number;
        uint64_t bits;
    } power;
    int i;
    y = y > 40.0 ? 40.0 : y < -40.0 ? -40.0 : y;
    shifted = y * 1.4426950408889634 + 6755399441055744.0; /* + 1.5 2^52 rounds to whole */
    k = shifted - 6755399441055744.0;
    r = y - k * 6.93147180369123816490e-01;
    r = r - k * 1.90821492927058770002e-10;
    p = taylor[0];
    for (i = 1; i < 12; i++)
        p = p * r + taylor[i];
    p = p * r * r + r;
    power.number = shifted;
    power.bits = (power.bits << 52) + 0x3FF0000000000000u;
    e = power.number * p + (power.number - 1.0);
    return e / (e + 2.0);
}

void reservoir_step(const struct reservoir *r, double u, const double *x, double *next)
{
    double keep = 1.0 - r->leak;
    int i, j;
    for (i = 0; i < r->units; i++) {
        double drive = 0.0;
        for (j = r->starts[i]; j < r->starts[i + 1]; j++)
            drive += r->values[j] * x[r->columns[j]];
        drive += r->input[i] * u;
        next[i] = keep * x[i] + r->leak * reservoir_tanh(drive + r->bias[i]);
    }
}
