#include <stdint.h>

/* Integers and the bits of doubles, for maps that all machines round alike. */

/* A number, at most `limit` in absolute value. */
static int64_t number_cut(int64_t value, int64_t limit)
{
    return value > limit ? limit : value < -limit ? -limit : value;
}

/* value 2^-digits to the nearest integer, ties to even; a product where digits is negative. */
static int64_t number_round(int64_t value, int digits)
{
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (digits > 62)
        return 0;
    if (digits > 0) {
        uint64_t whole = size >> digits, rest = size & (((uint64_t)1 << digits) - 1);
        uint64_t half = (uint64_t)1 << (digits - 1);
        size = whole + (rest > half || (rest == half && (whole & 1)));
    } else {
        size <<= -digits;
    }
    return value < 0 ? -(int64_t)size : (int64_t)size;
}

/* u 2^digits as an integer, to nearest, ties to even, at most `limit` in absolute value.
 *
 * The bits of the double are taken apart: nothing is multiplied, so there is nothing that a
 * processor or a compiler could round otherwise. The limit is below 2^53. */
static int64_t number_from_double(double u, int digits, int64_t limit)
{
    union {
        double value;
        uint64_t bits;
    } seen;
    uint64_t size;
    int64_t found;
    int exponent, shift;
    seen.value = u;
    exponent = (int)(seen.bits >> 52 & 2047);
    size = (seen.bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)(exponent != 0) << 52;
    shift = 1075 - exponent - digits;
    if (shift > 54)
        return 0;
    found = shift < -10 ? limit : number_cut(number_round((int64_t)size, shift), limit);
    return seen.bits >> 63 ? -found : found;
}

/* The largest integer that is at most value / by; by is above 0. */
static int64_t number_floor(int64_t value, int64_t by)
{
    int64_t found = value / by;
    return found - (value % by < 0);
}

/* top / bottom, both above or equal to 0, to the nearest integer, ties to even. */
static int64_t number_ratio(uint64_t top, uint64_t bottom)
{
    uint64_t whole = top / bottom, rest = top - whole * bottom;
    uint64_t over = bottom - rest;
    return (int64_t)(whole + (rest > over || (rest == over && (whole & 1))));
}

/* The whole part of the square root. */
static uint32_t number_root(uint64_t value)
{
    uint64_t found = 0, place = (uint64_t)1 << 62;
    while (place > value)
        place >>= 2;
    for (; place; place >>= 2) {
        if (value >= found + place) {
            value -= found + place;
            found = (found >> 1) + place;
        } else {
            found >>= 1;
        }
    }
    return (uint32_t)found;
}

/* The square root of a double from 0 on, rounded as IEEE 754 says; without a library.
 *
 * One binary digit of the root is found at a time, 54 of them, and what is left says how to round.
 * Numbers below 2^-1022 count as 0: no feature is made of such small ones. */
static double number_root_double(double value)
{
    union {
        double value;
        uint64_t bits;
    } seen;
    uint64_t radicand, found = 0, rest = 0;
    int exponent, i;
    seen.value = value;
    exponent = (int)(seen.bits >> 52 & 2047);
    if (!exponent)
        return 0.0;
    radicand = (seen.bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    /* 2^62 up to 2^64, an even power of two apart from the value. */
    radicand <<= exponent & 1 ? 10 : 11;
    for (i = 0; i < 54; i++) {
        uint64_t trial = found << 2 | 1;
        rest = rest << 2 | radicand >> 62;
        radicand <<= 2;
        found <<= 1;
        if (rest >= trial) {
            rest -= trial;
            found |= 1;
        }
    }
    /* A root of 54 digits whose last is 1 is no tie: what is left is above 0, or its square would
     * have more digits than the value. */
    found = (found >> 1) + (found & 1);
    seen.bits = ((uint64_t)((exponent + 1023) >> 1) << 52) + (found - ((uint64_t)1 << 52));
    return seen.value;
}
