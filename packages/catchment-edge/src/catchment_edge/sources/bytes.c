#include "bytes.h"

static inline void bytes_of(uint64_t value, uint32_t count, uint8_t *bytes)
{
    uint32_t i;
    for (i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t bytes_value(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;
    while (count--)
        value = value << 8 | bytes[count];
    return value;
}

/* The 64 bits of a float64 and back: memcpy without a library. */
static inline uint64_t bits_of_double(double value)
{
    union {
        double value;
        uint64_t bits;
    } both;
    both.value = value;
    return both.bits;
}

static inline double double_of_bits(uint64_t bits)
{
    union {
        double value;
        uint64_t bits;
    } both;
    both.bits = bits;
    return both.value;
}

static inline uint32_t bits_of_float(float value)
{
    union {
        float value;
        uint32_t bits;
    } both;
    both.value = value;
    return both.bits;
}

static inline void put_bytes(const struct sink *to, const uint8_t *bytes, uint32_t count)
{
    to->put(to->of, bytes, count);
}

static inline void put_number(const struct sink *to, uint64_t value, uint32_t count)
{
    uint8_t bytes[8];
    bytes_of(value, count, bytes);
    put_bytes(to, bytes, count);
}

static inline void put_text(const struct sink *to, const char *text)
{
    uint32_t count = 0;
    while (text[count])
        count++;
    put_bytes(to, (const uint8_t *)text, count);
}

static inline void put_decimal(const struct sink *to, uint32_t value)
{
    uint8_t text[10];
    uint32_t at = sizeof text;
    do {
        text[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value);
    put_bytes(to, text + at, (uint32_t)sizeof text - at);
}

/* A sink that only counts. */
static inline void count_bytes(void *of, const uint8_t *bytes, uint32_t count)
{
    (void)bytes;
    *(uint32_t *)of += count;
}
