/* Compares the activations in whole numbers with those in float64 on every argument they tell
 * apart, or on every n-th one: exhaustive [n [digits]].
 *
 * tanh and sigmoid tell arguments of 26 digits up to 20 apart; sin is given arguments of 22 digits
 * up to 64, and as many of 44 digits in between.
 */
#include <stdio.h>
#include <stdlib.h>

#include "doubles.h"
#include "kernel.h"

static long long different;

static void compare(int code, int64_t p, int p_digits, int digits)
{
    int32_t whole = grid_activate(code, p, p_digits, digits);
    int32_t real = double_activate(code, p, p_digits, digits);
    if (whole != real && different++ < 10)
        printf("activation %d of %lld 2^-%d on %d digits: %ld in whole numbers, %ld in float64\n",
               code, (long long)p, p_digits, digits, (long)whole, (long)real);
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
    printf("%lld compared, %lld different\n", (long long)compared, different);
    return different != 0;
}
