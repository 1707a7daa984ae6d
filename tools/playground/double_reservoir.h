#include <stdint.h>

enum float_activation { FLOAT_TANH, FLOAT_SIGMOID, FLOAT_RELU, FLOAT_SIN, FLOAT_IDENTITY };

/* Sparse rows: row i has the entries starts[i] .. starts[i + 1]. */
struct float_rows {
    const uint32_t *starts;
    const uint16_t *columns;
    const double *values;
};

struct float_layer {
    uint32_t units, inputs;
    struct float_rows recurrent, input;
    const double *bias, *leak;  /* (units) */
    const uint8_t *activation; /* (units), enum float_activation */
};

static double float_product(const struct float_rows *rows, uint32_t i, const double *x)
{
    double sum = 0;
    uint32_t q;
    for (q = rows->starts[i]; q < rows->starts[i + 1]; q++)
        sum += rows->values[q] * x[rows->columns[q]];
    return sum;
}

/* One step of all layers: x holds their states one after another, next has room for one layer. */
static void float_step(const struct float_layer *layers, uint32_t n_layers, const double *u,
                       double *x, double *next)
{
    const double *below = u;
    uint32_t k, i;
    for (k = 0; k < n_layers; k++) {
        const struct float_layer *layer = layers + k;
        for (i = 0; i < layer->units; i++) {
            double p = layer->bias[i];
            p += float_product(&layer->recurrent, i, x);
            p += float_product(&layer->input, i, below);
            next[i] = x[i] + layer->leak[i] * (float_activate(layer->activation[i], p) - x[i]);
        }
        for (i = 0; i < layer->units; i++)
            x[i] = next[i];
        below = x;
        x += layer->units;
    }
}

/* x rounded to `unit` steps in one, ties to even, for |x| unit < 2^22. */
static double float_on_grid(double x, double unit)
{
    volatile double raised = x * unit + 12582912.0f;
    return (raised - 12582912.0f) / unit;
}

/* Adds x; `rest` keeps what the sum could not hold (Kahan 1965). */
static void float_add(double *sum, double *rest, double x)
{
    volatile double y = x - *rest, total = *sum + y;
    *rest = (total - *sum) - y;
    *sum = total;
}
