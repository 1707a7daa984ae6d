/* Numbers as bytes, little-endian whatever the processor is, and where bytes go. */
#ifndef CATCHMENT_BYTES_H
#define CATCHMENT_BYTES_H

#include <stdint.h>

/* Something that takes bytes: a hash, a link, or a count of them. */
struct sink {
    void (*put)(void *of, const uint8_t *bytes, uint32_t count);
    void *of;
};

#endif
