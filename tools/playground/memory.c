#include "memory.h"

#include "linear.h"
#include "words.h"

enum { WARM_UP = 100, HALF = MOST_MEMORY / 2, COLUMNS = MOST_UNITS + 1, MOST = COLUMNS + MOST_DELAY };

static double probe[WARM_UP + MOST_DELAY + MOST_MEMORY];
static double table[HALF * MOST], weights[COLUMNS * MOST_DELAY], norms[COLUMNS], line[MOST];
static double state[MOST_UNITS];
static int order[COLUMNS];

static void draw_probe(int n)
{
    struct words rng;
    int t;
    words_start(&rng, 0, WORDS_PROBE);
    for (t = 0; t < n; t++)
        probe[t] = words_uniform(&rng, -1.0, 1.0);
}

/* Steps from .. to of the probe: after each, a row of the states, a one, and the past inputs. */
static void run(const struct reservoir *r, int from, int to, int max_delay, double *rows)
{
    int N = r->units, width = N + 1 + max_delay, t, i;
    for (t = from; t < to; t++) {
        reservoir_step(r, probe[t], state);
        if (!rows)
            continue;
        for (i = 0; i < N; i++)
            rows[i] = state[i];
        rows[N] = 1.0;
        for (i = 0; i < max_delay; i++)
            rows[N + 1 + i] = probe[t - 1 - i];
        rows += width;
    }
}

/* The squared correlation of answer k with the input k + 1 steps ago. */
static double correlation(const double *answers, int m, int k, int max_delay, int start)
{
    double means[2] = {0.0, 0.0}, shared = 0.0, one = 0.0, other = 0.0;
    int i;
    for (i = 0; i < m; i++) {
        means[0] += answers[i * max_delay + k];
        means[1] += probe[start + i - 1 - k];
    }
    for (i = 0; i < m; i++) {
        double y = answers[i * max_delay + k] - means[0] / m;
        double target = probe[start + i - 1 - k] - means[1] / m;
        shared += y * target;
        one += y * y;
        other += target * target;
    }
    return one * other > 0.0 ? shared * shared / (one * other) : 0.0;
}

/* Each row's answers (max_delay) take the place of the rows, which are longer. */
static void answer_rows(int m, int n, int max_delay)
{
    int i, j, k;
    for (i = 0; i < m; i++) {
        const double *row = table + i * (n + max_delay);
        double *out = table + i * max_delay;
        for (k = 0; k < max_delay; k++)
            line[k] = 0.0;
        for (j = 0; j < n; j++)
            for (k = 0; k < max_delay; k++)
                line[k] += row[j] * weights[j * max_delay + k];
        for (k = 0; k < max_delay; k++)
            out[k] = line[k];
    }
}

double memory_capacity(const struct reservoir *r, int max_delay, int steps, double *per_delay)
{
    int start = max_delay + WARM_UP, half = steps / 2, n = r->units + 1, k, m = steps - half;
    double total = 0.0;
    draw_probe(start + steps);
    for (k = 0; k < r->units; k++)
        state[k] = 0.0;
    run(r, 0, start, max_delay, 0);
    run(r, start, start + half, max_delay, table);
    linear_least_squares(table, half, n, max_delay, weights, order, norms, line);
    run(r, start + half, start + steps, max_delay, table);
    answer_rows(m, n, max_delay);
    for (k = 0; k < max_delay; k++) {
        per_delay[k] = correlation(table, m, k, max_delay, start + half);
        total += per_delay[k];
    }
    return total;
}
