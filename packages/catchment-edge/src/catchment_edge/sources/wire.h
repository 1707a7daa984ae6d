/* A message of the library (catchment.wire): nothing of it is ever held as a whole. */
#ifndef CATCHMENT_WIRE_H
#define CATCHMENT_WIRE_H

#include "packing.h"
#include "sha256.h"

enum { WIRE_MOST_ARRAYS = 8 };

struct wire_array {
    const char *described; /* ["i8",[1,20] : type and shape, as the header has them */
    int whole;             /* int64, which may be packed; else float64 */
    uint32_t count;
    number_at at;
};

struct wire_message {
    const struct wire_array *arrays;
    uint32_t n_arrays;
    const char *rest; /* of the header, after the arrays */
};

#endif
