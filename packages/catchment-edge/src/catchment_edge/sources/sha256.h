/* SHA-256 (FIPS 180-4) of bytes that come a few at a time. */
#ifndef CATCHMENT_SHA256_H
#define CATCHMENT_SHA256_H

#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
};

#endif
