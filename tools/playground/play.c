/* What the playground page computes: one series, a reservoir, four clients that hold a quarter of
 * its past each, their sums, the readout of the sum, and a forecast in closed loop.
 *
 * All numbers lie in static arrays; the page finds them by `play_at` and calls, in this order,
 * play_draw, play_scale, play_drive, play_solve, play_forecast, and play_memory at any time after
 * play_scale. What each does is what catchment does with bits=None, in float64. */
#include "linear.h"
#include "memory.h"
#include "reservoir.h"

enum {
    CLIENTS = 4,
    MOST_STEPS = 4096,
    MOST_HORIZON = 1024,
    MOST_FEATURES = 1 + MOST_UNITS,
    PACKED = MOST_FEATURES * (MOST_FEATURES + 1) / 2
};
/* Sums: those of the clients, their total, all rows in one go, and the sum of the ones that are in. */
enum { TOTAL = CLIENTS, POOLED, KEPT, SUMS };
enum readouts { OF_TOTAL = CLIENTS, OF_POOLED, OF_LEFT, OF_KEPT, READOUTS };

struct sums {
    double rows, target, squares;
    double feature[MOST_FEATURES], cross[MOST_FEATURES];
    double gram[PACKED]; /* upper triangle, row after row */
};

struct readout {
    double weights[MOST_FEATURES], intercept, lowest, highest;
    int solved;
};

static struct reservoir reservoir;
static double signal[MOST_STEPS], states[MOST_STEPS * MOST_UNITS];
static double forecasts[READOUTS * MOST_HORIZON];
static double scaling[2]; /* mean and standard deviation of the past */
static struct sums sums[SUMS], left;
static struct readout readouts[READOUTS];
static double system[MOST_FEATURES * MOST_FEATURES];
static double per_delay[MOST_DELAY];
static int n_past, piece;

static int features(void)
{
    return 1 + reservoir.units;
}

/* The page's arrays, by number. */
double *play_at(int what)
{
    switch (what) {
    case 0: return signal;
    case 1: return states;
    case 2: return forecasts;
    case 3: return scaling;
    case 4: return per_delay;
    case 5: return reservoir.values;
    case 6: return reservoir.input;
    case 7: return reservoir.bias;
    case 8: return &reservoir.raw_radius;
    default: return 0;
    }
}

struct sums *play_sums(int which) { return which < SUMS ? &sums[which] : &left; }
struct readout *play_readout(int which) { return &readouts[which]; }
uint32_t *play_starts(void) { return reservoir.starts; }
uint16_t *play_columns(void) { return reservoir.columns; }
double play_tanh(double x) { return reservoir_tanh(x); }

int play_draw(uint32_t seed, int units, int topology)
{
    return reservoir_draw(&reservoir, seed, units, topology);
}

void play_scale(uint32_t seed, double spectral_radius, double leak, double input_scaling,
                double bias_scaling)
{
    reservoir_scale(&reservoir, seed, spectral_radius, leak, input_scaling, bias_scaling);
}

/* Mean and deviation of the first n values, by a second pass over what the mean leaves. */
static void fit_scale(int n)
{
    double sum = 0.0, rest = 0.0, squares = 0.0;
    int t;
    for (t = 0; t < n; t++)
        sum += signal[t];
    scaling[0] = sum / n;
    for (t = 0; t < n; t++) {
        double apart = signal[t] - scaling[0];
        rest += apart;
        squares += apart * apart;
    }
    scaling[1] = __builtin_sqrt((squares - rest * rest / n) / n);
}

static double scaled(double value)
{
    return (value - scaling[0]) / scaling[1];
}

static void zero(struct sums *s)
{
    int i;
    s->rows = s->target = s->squares = 0.0;
    for (i = 0; i < MOST_FEATURES; i++)
        s->feature[i] = s->cross[i] = 0.0;
    for (i = 0; i < PACKED; i++)
        s->gram[i] = 0.0;
}

/* total += sign * s */
static void add(struct sums *total, const struct sums *s, double sign)
{
    int F = features(), i;
    total->rows += sign * s->rows;
    total->target += sign * s->target;
    total->squares += sign * s->squares;
    for (i = 0; i < F; i++) {
        total->feature[i] += sign * s->feature[i];
        total->cross[i] += sign * s->cross[i];
    }
    for (i = 0; i < F * (F + 1) / 2; i++)
        total->gram[i] += sign * s->gram[i];
}

/* Four rows at a time, so that the triangle is read and written a fourth as often. */
static void add_rows(struct sums *s, double z[4][MOST_FEATURES], const double *y, int n)
{
    int F = features(), i, j, k;
    double *gram = s->gram;
    for (k = 0; k < n; k++) {
        s->rows += 1.0;
        s->target += y[k];
        s->squares += y[k] * y[k];
    }
    for (k = n; k < 4; k++)
        for (i = 0; i < F; i++)
            z[k][i] = 0.0;
    for (i = 0; i < F; i++) {
        double a = z[0][i], b = z[1][i], c = z[2][i], d = z[3][i];
        s->feature[i] += a + b + c + d;
        for (k = 0; k < n; k++)
            s->cross[i] += z[k][i] * y[k];
        for (j = i; j < F; j++)
            gram[j - i] += a * z[0][j] + b * z[1][j] + c * z[2][j] + d * z[3][j];
        gram += F - i;
    }
}

/* The sums of one client: its piece is run from rest; the last step has no target. */
static void sum_client(int client, int washout)
{
    static double x[MOST_UNITS], rows[4][MOST_FEATURES], y[4];
    const double *series = signal + client * piece;
    int t, i, n = 0;
    for (i = 0; i < MOST_UNITS; i++)
        x[i] = 0.0;
    for (t = 0; t + 1 < piece; t++) {
        double u = scaled(series[t]);
        reservoir_step(&reservoir, u, x);
        if (t < washout)
            continue;
        rows[n][0] = u;
        for (i = 0; i < reservoir.units; i++)
            rows[n][1 + i] = x[i];
        y[n++] = series[t + 1];
        if (n == 4 || t + 2 == piece) {
            add_rows(&sums[client], rows, y, n);
            add_rows(&sums[POOLED], rows, y, n);
            n = 0;
        }
    }
}

/* Run the whole past for the page to show, and each client's piece for its sums. */
void play_drive(int past, int washout)
{
    int t, i;
    n_past = past;
    piece = past / CLIENTS;
    fit_scale(past);
    for (t = 0; t < past; t++) {
        double *x = states + t * MOST_UNITS;
        for (i = 0; i < reservoir.units; i++)
            x[i] = t > 0 ? x[i - MOST_UNITS] : 0.0;
        reservoir_step(&reservoir, scaled(signal[t]), x);
    }
    for (i = 0; i < SUMS; i++)
        zero(&sums[i]);
    for (i = 0; i < CLIENTS; i++)
        sum_client(i, washout);
    for (i = 0; i < CLIENTS; i++)
        add(&sums[TOTAL], &sums[i], 1.0);
}

/* Center the moments: the intercept is not penalized. A feature that does not vary is left out. */
static void center(const struct sums *s, double ridge, double *b)
{
    int F = features(), i, j;
    const double *gram = s->gram;
    for (i = 0; i < F; i++) {
        double *row = system + i * F, raw = gram[0];
        for (j = i; j < F; j++)
            row[j] = gram[j - i] - s->feature[i] * s->feature[j] / s->rows;
        b[i] = s->cross[i] - s->feature[i] * s->target / s->rows;
        gram += F - i;
        if (row[i] <= 1e-12 * raw) {
            for (j = i; j < F; j++)
                row[j] = 0.0;
            for (j = 0; j < i; j++)
                system[j * F + i] = 0.0;
            b[i] = 0.0;
        }
        row[i] += ridge;
    }
}

static void solve(const struct sums *s, double ridge, struct readout *r)
{
    double mean = s->target / s->rows, spread = s->squares / s->rows - mean * mean;
    int i;
    center(s, ridge, r->weights);
    r->solved = linear_cholesky(system, r->weights, features());
    r->intercept = s->target;
    for (i = 0; i < features(); i++)
        r->intercept -= s->feature[i] * r->weights[i];
    r->intercept /= s->rows;
    /* A closed loop is held within six deviations of the training targets. */
    spread = 6.0 * __builtin_sqrt(spread > 0.0 ? spread : 0.0);
    r->lowest = mean - spread;
    r->highest = mean + spread;
}

/* Solve everybody's sums, the total, all rows in one go, and what is left when the clients of
 * `mask` are taken out: by subtraction, and by adding up the others. */
void play_solve(double ridge, int mask)
{
    int i;
    for (i = 0; i <= POOLED; i++)
        solve(&sums[i], ridge, &readouts[i]);
    left = sums[TOTAL];
    zero(&sums[KEPT]);
    for (i = 0; i < CLIENTS; i++)
        if (mask >> i & 1)
            add(&left, &sums[i], -1.0);
        else
            add(&sums[KEPT], &sums[i], 1.0);
    if (mask != (1 << CLIENTS) - 1) {
        solve(&left, ridge, &readouts[OF_LEFT]);
        solve(&sums[KEPT], ridge, &readouts[OF_KEPT]);
    }
}

/* The largest difference of two readouts, relative to the largest weight. */
double play_difference(int one, int other)
{
    const struct readout *a = &readouts[one], *b = &readouts[other];
    double apart = __builtin_fabs(a->intercept - b->intercept);
    double largest = __builtin_fabs(a->intercept);
    int i;
    for (i = 0; i < features(); i++) {
        double size = __builtin_fabs(a->weights[i]);
        double difference = __builtin_fabs(a->weights[i] - b->weights[i]);
        largest = size > largest ? size : largest;
        apart = difference > apart ? difference : apart;
    }
    return largest > 0.0 ? apart / largest : 0.0;
}

static double answer(const struct readout *r, double u, const double *x)
{
    double y = r->intercept + r->weights[0] * u;
    int i;
    for (i = 0; i < reservoir.units; i++)
        y += r->weights[1 + i] * x[i];
    return y;
}

/* Go on from the end of the past, each prediction being the next input; returns the first step at
 * which the loop had to be held, or -1. */
int play_forecast(int which, int horizon)
{
    static double x[MOST_UNITS];
    const struct readout *r = &readouts[which];
    double *out = forecasts + which * MOST_HORIZON, u = scaled(signal[n_past - 1]);
    int step, i, held = -1;
    for (i = 0; i < reservoir.units; i++)
        x[i] = states[(n_past - 1) * MOST_UNITS + i];
    for (step = 0; step < horizon; step++) {
        double y = answer(r, u, x);
        double kept = y < r->lowest ? r->lowest : y > r->highest ? r->highest : y;
        if (held < 0 && kept != y)
            held = step;
        out[step] = kept;
        u = scaled(kept);
        reservoir_step(&reservoir, u, x);
    }
    return held;
}

double play_memory(int max_delay, int steps)
{
    return memory_capacity(&reservoir, max_delay, steps, per_delay);
}
