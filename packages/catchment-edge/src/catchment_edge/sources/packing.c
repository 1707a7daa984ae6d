#include "packing.h"

/* The patterns of a chunk, the last one filled up with zeros; returns its width. */
static uint32_t packing_chunk(number_at at, uint32_t count, uint32_t first, uint64_t *patterns)
{
    uint64_t all = 0;
    uint32_t i, width = 0;
    for (i = 0; i < PACKING_CHUNK; i++) {
        uint64_t value = first + i < count ? at(first + i) : 0;
        patterns[i] = value >> 63 ? ~(value << 1) : value << 1;
        all |= patterns[i];
    }
    for (; all; all >>= 1)
        width++;
    return width < PACKING_FEWEST ? PACKING_FEWEST : width;
}

static uint32_t packed_length(number_at at, uint32_t count)
{
    uint64_t patterns[PACKING_CHUNK];
    uint32_t length = 0, first;
    for (first = 0; first < count; first += PACKING_CHUNK)
        length += 1 + 8 * packing_chunk(at, count, first, patterns);
    return length;
}

static void put_packed(const struct sink *to, number_at at, uint32_t count)
{
    uint64_t patterns[PACKING_CHUNK], plane;
    uint32_t first, width, j, i;
    for (first = 0; first < count; first += PACKING_CHUNK)
        put_number(to, packing_chunk(at, count, first, patterns), 1);
    for (first = 0; first < count; first += PACKING_CHUNK) {
        width = packing_chunk(at, count, first, patterns);
        for (j = 0; j < width; j++) {
            plane = 0;
            for (i = 0; i < PACKING_CHUNK; i++)
                plane |= (patterns[i] >> j & 1) << i;
            put_number(to, plane, 8);
        }
    }
}
