#ifndef CATCHMENT_DOUBLES_H
#define CATCHMENT_DOUBLES_H

#include <stdint.h>

/* grid_activate of grid.h in float64. */
int32_t double_activate(int code, int64_t p, int p_digits, int digits);

#endif
