#include "grid.h"

/* u 2^digits to the nearest integer, ties to even, at most `most` in absolute value. It is read
 * from the bits of u, so that it is the same on every machine. */
static int32_t double_on_grid(double u, int digits, int32_t most)
{
    union {
        double number;
        uint64_t bits;
    } of;
    uint64_t mantissa;
    int shift;
    int64_t found;
    of.number = u;
    mantissa = (of.bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    shift = 1075 - digits - (int)(of.bits >> 52 & 2047);
    if (shift > 53)
        return 0;
    found = shift < 1 || mantissa >> shift >= (uint64_t)most ? most
                                                             : grid_round((int64_t)mantissa, shift);
    return (int32_t)(of.bits >> 63 ? -found : found);
}

/* 0: a number, 1: missing, 2: infinite. By the bits, which no option of a compiler changes. */
static int kind_of_double(double x)
{
    union {
        double number;
        uint64_t bits;
    } of;
    of.number = x;
    if ((of.bits >> 52 & 2047) != 2047)
        return 0;
    return (of.bits & (((uint64_t)1 << 52) - 1)) != 0 ? 1 : 2;
}
