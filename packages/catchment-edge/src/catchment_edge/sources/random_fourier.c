/* Random features of values of 14 digits, with weights of 14 digits: sums of 28 are exact. */
enum { FOURIER_DIGITS = 28, FOURIER_SINE = 24 };

static int64_t fourier_sum16(const int16_t *weights, const int32_t *x, uint32_t n)
{
    int64_t sum = 0;
    uint32_t i;
    for (i = 0; i < n; i++)
        sum += (int64_t)weights[i] * x[i];
    return sum;
}

static int64_t fourier_sum32(const int32_t *weights, const int32_t *x, uint32_t n)
{
    int64_t sum = 0;
    uint32_t i;
    for (i = 0; i < n; i++)
        sum += (int64_t)weights[i] * x[i];
    return sum;
}

/* The cosine of so many turns: the sine of a quarter more, by 2 pi to 22 digits. */
static feature fourier_cosine(int64_t turns, int bits)
{
    turns += (int64_t)1 << (FOURIER_DIGITS - 2);
    turns -= number_round(turns, FOURIER_DIGITS) * ((int64_t)1 << FOURIER_DIGITS);
    return feature_from_whole(sin_of(turns * 26353589, FOURIER_DIGITS + 22, FOURIER_SINE),
                              FOURIER_SINE, bits, bits);
}

/* A rectifier, cut off at 64. */
static feature fourier_relu(int64_t sum, int bits)
{
    int64_t most = (int64_t)64 << FOURIER_DIGITS;
    return feature_from_whole(sum < 0 ? 0 : number_cut(sum, most), FOURIER_DIGITS, bits - 6, bits);
}

/* A feature of another map, of its own digits, as a value of 14. */
static int32_t fourier_value(int64_t z, int digits)
{
    return (int32_t)number_cut(number_round(z, digits - 14), (int64_t)256 << 14);
}
