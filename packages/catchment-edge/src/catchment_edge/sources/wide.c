/* Integers of several words of 32 bits, the lowest first.
 *
 * A size is not negative; a sum is two's complement. Sums of products of numbers that no word of
 * the processor holds are exact in them, whatever came before. */
#include <stdint.h>

/* The size of x 2^digits, rounded to nearest, ties to even, in n words; 1 if x is negative.
 * |x| 2^digits must be below 2^(32 n), and x finite. */
static inline int wide_of_double(double x, int digits, uint32_t *size, int n)
{
    uint64_t bits = bits_of_double(x), whole = bits & 0xfffffffffffffu;
    int exponent = (int)(bits >> 52 & 2047), shift, i;
    if (exponent)
        whole |= (uint64_t)1 << 52;
    else
        exponent = 1;
    shift = exponent - 1075 + digits;
    if (shift < 0) {
        uint64_t rest, half;
        if (shift < -54)
            shift = -54; /* less than half of one in any case */
        half = (uint64_t)1 << (-shift - 1);
        rest = whole & (2 * half - 1);
        whole >>= -shift;
        whole += rest > half || (rest == half && (whole & 1));
        shift = 0;
    }
    for (i = 0; i < n; i++) {
        int from = 32 * i - shift; /* the lowest bit of word i, counted in `whole` */
        if (from <= -32 || from >= 64)
            size[i] = 0;
        else
            size[i] = (uint32_t)(from < 0 ? whole << -from : whole >> from);
    }
    return (int)(bits >> 63);
}

static inline void wide_product(const uint32_t *a, int n_a, const uint32_t *b, int n_b, uint32_t *product)
{
    int i, j;
    for (i = 0; i < n_a + n_b; i++)
        product[i] = 0;
    for (i = 0; i < n_a; i++) {
        uint64_t carry = 0;
        for (j = 0; j < n_b; j++) {
            carry += (uint64_t)a[i] * b[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + n_b] = (uint32_t)carry;
    }
}

/* Adds a size to a sum, or takes it away. */
static inline void wide_add(uint32_t *sum, int n, const uint32_t *size, int n_size, int negative)
{
    uint64_t carry = negative ? 1 : 0;
    int i;
    for (i = 0; i < n; i++) {
        uint32_t word = i < n_size ? size[i] : 0;
        carry += (uint64_t)sum[i] + (negative ? ~word : word);
        sum[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* The bits of a sum from `first` on, as a number with a sign. */
static inline int64_t wide_from(const uint32_t *sum, int n, int first)
{
    uint64_t found = 0;
    uint32_t above = sum[n - 1] >> 31 ? 0xffffffffu : 0;
    int word = first / 32, shift = first % 32, i;
    for (i = 2; i >= 0; i--) {
        uint32_t value = word + i < n ? sum[word + i] : above;
        if (i == 2)
            found = shift ? (uint64_t)value << (64 - shift) : 0;
        else
            found |= 32 * i >= shift ? (uint64_t)value << (32 * i - shift) : value >> (shift - 32 * i);
    }
    return found >> 63 ? -(int64_t)~found - 1 : (int64_t)found;
}
