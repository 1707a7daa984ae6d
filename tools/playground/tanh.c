#include "reservoir.h"

/* tanh x = e / (e + 2) with e = exp(2x) - 1, the exponential by a Taylor polynomial on
 * |r| <= ln 2 / 2: the form that catchment's kernels have. */
double reservoir_tanh(double x)
{
    static const double taylor[12] = {
        1.6059043836821613e-10, 2.08767569878681e-09, 2.505210838544172e-08,
        2.7557319223985893e-07, 2.755731922398589e-06, 2.48015873015873e-05,
        1.984126984126984e-04, 1.3888888888888889e-03, 8.333333333333333e-03,
        4.1666666666666664e-02, 1.6666666666666666e-01, 0.5};
    double y = x + x, shifted, k, r, p, e;
    union {
        double number;
        uint64_t bits;
    } power;
    int i;
    y = y > 40.0 ? 40.0 : y < -40.0 ? -40.0 : y;
    shifted = y * 1.4426950408889634 + 6755399441055744.0; /* + 1.5 2^52 rounds to whole */
    k = shifted - 6755399441055744.0;
    r = y - k * 6.93147180369123816490e-01;
    r = r - k * 1.90821492927058770002e-10;
    p = taylor[0];
    for (i = 1; i < 12; i++)
        p = p * r + taylor[i];
    p = p * r * r + r;
    power.number = shifted;
    power.bits = (power.bits << 52) + 0x3FF0000000000000u;
    e = power.number * p + (power.number - 1.0);
    return e / (e + 2.0);
}
