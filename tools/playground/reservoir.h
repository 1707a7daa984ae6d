/* The reservoir of a recipe: one layer of tanh units with one input, weights as catchment draws
 * them, in float64. */
#ifndef PLAY_RESERVOIR_H
#define PLAY_RESERVOIR_H

#include <stdint.h>

enum { MOST_UNITS = 200, MOST_CONNECTIONS = MOST_UNITS * MOST_UNITS };
enum topology { TOPOLOGY_RANDOM, TOPOLOGY_RING, TOPOLOGY_DELAY_LINE, TOPOLOGY_PERMUTATION,
                TOPOLOGY_ORTHOGONAL };

struct reservoir {
    int units;
    double raw_radius; /* of the recurrent weights before they are scaled */
    uint32_t starts[MOST_UNITS + 1];
    uint16_t columns[MOST_CONNECTIONS];
    double raw[MOST_CONNECTIONS], values[MOST_CONNECTIONS];
    double input[MOST_UNITS], bias[MOST_UNITS], leak[MOST_UNITS];
};

/* Draw places and raw weights, and find their radius; 0 if it was not found. */
int reservoir_draw(struct reservoir *r, uint64_t seed, int units, int topology);

/* Scale what was drawn. */
void reservoir_scale(struct reservoir *r, uint64_t seed, double spectral_radius,
                     double leak, double input_scaling, double bias_scaling);

/* One step: the state x (units) goes on under the input u. */
void reservoir_step(const struct reservoir *r, double u, double *x);

double reservoir_tanh(double x);

#endif
