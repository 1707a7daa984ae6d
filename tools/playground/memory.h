/* Memory capacity (Jaeger 2001): how well the input of some steps ago can be read from the state. */
#ifndef PLAY_MEMORY_H
#define PLAY_MEMORY_H

#include "reservoir.h"

enum { MOST_DELAY = 100, MOST_MEMORY = 4000 };

/* Squared correlations (max_delay) for delays 1, 2, ... go to `per_delay`; returns their sum. Linear
 * readouts are fitted on the first half of `steps` and scored on the second. */
double memory_capacity(const struct reservoir *r, int max_delay, int steps, double *per_delay);

#endif
