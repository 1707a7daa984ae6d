/* Integers in as many bits as they need, as catchment.bit_packing writes them. */
#ifndef CATCHMENT_PACKING_H
#define CATCHMENT_PACKING_H

#include <stdint.h>

#include "bytes.h"

enum { PACKING_CHUNK = 64, PACKING_FEWEST = 4 };

/* The 64 bits of number `index`; asked several times for each, so that nothing is kept twice. */
typedef uint64_t (*number_at)(uint32_t index);

#endif
