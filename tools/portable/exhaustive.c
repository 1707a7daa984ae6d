/* Compares the activations in integers with those in float64 on every argument they tell
 * apart, or on every n-th one: exhaustive [n [digits]].
 *
 * tanh and sigmoid tell arguments of 26 digits up to 20 apart; sin is given arguments of 22 digits
 * up to 64, and as many of 44 digits in between. Then the kernel's own division, square, difference
 * and square root are compared with the processor's, on random numbers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "doubles.h"
#include "grid.c" /* for what it keeps to itself */

static long long different;

static void compare(int code, int64_t p, int p_digits, int digits)
{
    int32_t whole = grid_activate(code, p, p_digits, digits);
    int32_t real = double_activate(code, p, p_digits, digits);
    if (whole != real && different++ < 10)
        printf("activation %d of %lld 2^-%d on %d digits: %ld in integers, %ld in float64\n",
               code, (long long)p, p_digits, digits, (long)whole, (long)real);
}

static uint64_t drawn(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void compare_real(const char *name, struct real whole, double real)
{
    if (ldexp((double)whole.bits, whole.exponent) != real && different++ < 10)
        printf("%s: %a in integers, %a in float64\n", name,
               ldexp((double)whole.bits, whole.exponent), real);
}

static void compare_reals(void)
{
    uint64_t a = drawn() >> drawn() % 64, b = drawn() >> drawn() % 64, n = drawn() >> 42;
    struct real first = rounded(0, a, 0, 0), second = rounded(0, b, 0, (int)(drawn() % 90) - 70);
    volatile double x = (double)a, y = ldexp((double)second.bits, second.exponent);
    volatile double quotient = x / (double)(n + 1), square = y * y, less_by = x - y;
    compare_real("number", first, x);
    compare_real("division", divided(first, (uint32_t)n + 1), quotient);
    compare_real("square", squared(second), square);
    compare_real("difference", less(first, second), less_by < 0 ? 0 : less_by);
    compare_real("root", root(first), sqrt(x));
    compare_real("root", root(second), sqrt(y));
}

int main(int argc, char **argv)
{
    int64_t step = argc > 1 ? atoll(argv[1]) : 1, compared = 0, y;
    int first = argc > 2 ? atoi(argv[2]) : 8, last = argc > 2 ? first : 24, digits;
    for (digits = first; digits <= last; digits++) {
        for (y = 0; y <= (int64_t)20 << 26; y += step, compared += 2) {
            int64_t sign = y & 1 ? -1 : 1;
            compare(GRID_TANH, sign * y, 27, digits);
            compare(GRID_SIGMOID, sign * y, 26, digits);
        }
        for (y = 0; y <= (int64_t)64 << 22; y += step, compared += 2) {
            int64_t sign = y & 1 ? -1 : 1;
            compare(GRID_SIN, sign * y, 22, digits);
            compare(GRID_SIN, sign * ((y << 22) + (y * 2654435761u & 0x3fffff)), 44, digits);
        }
    }
    for (y = 0; y < ((int64_t)1 << 32) / step / 1024 + 100000; y++, compared += 6)
        compare_reals();
    printf("%lld compared, %lld different\n", (long long)compared, different);
    return different != 0;
}
