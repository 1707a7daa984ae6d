/* The activations in float64, line by line as activations.py has them.
 *
 * With and without contraction into fused multiply-adds, on any processor with IEEE numbers, they
 * give the integers of grid.c. Needs FLT_EVAL_METHOD 0 (on 32-bit x86: -msse2 -mfpmath=sse).
 */
#include "doubles.h"

#include <math.h>
#include <string.h>

#include "grid.h"

static const double ROUND = 6755399441055744.0; /* 1.5 2^52 */
static const double LOG2E = 3025551 / 2097152.0, LN2 = 46516320 / 67108864.0;
static const double OVER_PI = 333772 / 1048576.0, PI = 3454217652358 / 1099511627776.0;
static const double LARGEST = 20.0, FARTHEST = 64.0, LINEAR_BOUND = 8.0;

#define C(number) ((number) / 134217728.0)
#define R(digits) (ROUND / (double)((int64_t)1 << (digits)))

static int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double smaller(double a, double b) { return a < b ? a : b; }

static double growth(double y)
{
    const double R27 = R(27);
    double shifted = y * LOG2E + ROUND, k = shifted - ROUND, r = y - k * LN2, p, scale;
    uint64_t bits = ((uint64_t)bits_of(shifted) << 52) + 0x3FF0000000000000u;
    p = C(187240) * r + (C(1123252) + R27) - R27;
    p = p * r + (C(5592344) + R27) - R27;
    p = p * r + (C(22369423) + R27) - R27;
    p = p * r + (C(67108865) + R27) - R27;
    p = p * r + R27 - R27;
    p = p * r + (r + R27) - R27;
    memcpy(&scale, &bits, sizeof scale);
    return scale * p + (scale - 1.0);
}

static double tanh_of(double x, double G, double top)
{
    double e = growth(smaller(fabs(x + x) + R(26) - R(26), LARGEST));
    return copysign(smaller(e / (e + 2.0) + G - G, top), x);
}

static double sigmoid_of(double x, double G, double top)
{
    double e = growth(smaller(fabs(x) + R(26) - R(26), LARGEST));
    double upper = smaller((e + 1.0) / (e + 2.0) + G - G, top);
    return x >= 0.0 ? upper : 1.0 - upper;
}

static double sin_of(double x, double G, double top)
{
    const double S0 = -89478485 / 536870912.0, S1 = 8947845 / 1073741824.0;
    const double S2 = -213039 / 1073741824.0, S3 = 189134 / 68719476736.0;
    const double S4 = -26220 / 1099511627776.0;
    double a = smaller(fabs(x), FARTHEST), shifted = (a + R(26) - R(26)) * OVER_PI + ROUND;
    double k = shifted - ROUND, r = (a - k * PI) + R(25) - R(25), z = r * r + R(24) - R(24);
    double p = S4 * z + (S3 + R(36)) - R(36);
    p = p * z + (S2 + R(30)) - R(30);
    p = p * z + (S1 + R(30)) - R(30);
    p = p * z + (S0 + R(29)) - R(29);
    p = p * z + R(27) - R(27);
    p = p * r + (r + R(27)) - R(27);
    p = p + G - G;
    p = p < -top ? -top : smaller(p, top);
    return p * (1.0 - 2.0 * (double)(bits_of(shifted) & 1)) * copysign(1.0, x);
}

static double linear_of(double x, double G)
{
    double y = x + G - G;
    return y < -LINEAR_BOUND ? -LINEAR_BOUND : smaller(y, LINEAR_BOUND);
}

int32_t double_activate(int code, int64_t p, int p_digits, int digits)
{
    double x = ldexp((double)p, -p_digits), G = ldexp(ROUND, -digits), top, y;
    top = 1.0 - ldexp(1.0, -digits);
    switch (code) {
    case GRID_TANH:
        y = tanh_of(x, G, top);
        break;
    case GRID_SIGMOID:
        y = sigmoid_of(x, G, top);
        break;
    case GRID_SIN:
        y = sin_of(x, G, top);
        break;
    case GRID_RELU:
        y = x < 0.0 ? 0.0 : linear_of(x, G);
        break;
    default:
        y = linear_of(x, G);
    }
    return (int32_t)ldexp(y, digits);
}
