/* Hadamard's transform of n = 2^k numbers, in place, by additions alone. */
static void projected_sums32(int32_t *x, uint32_t n)
{
    uint32_t half, i, j;
    for (half = 1; half < n; half *= 2)
        for (i = 0; i < n; i += 2 * half)
            for (j = i; j < i + half; j++) {
                int32_t a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
}

static void projected_sums64(int64_t *x, uint32_t n)
{
    uint32_t half, i, j;
    for (half = 1; half < n; half *= 2)
        for (i = 0; i < n; i += 2 * half)
            for (j = i; j < i + half; j++) {
                int64_t a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
}

/* Whether the sign of feature j is turned. */
static int projected_flips(const uint8_t *flips, uint32_t j)
{
    return flips[j / 8] >> j % 8 & 1;
}

static feature projected_feature(double sum, double root, double bound, int digits, int bits)
{
    double found = sum / root;
    found = found > bound ? bound : found < -bound ? -bound : found;
    return feature_from_double(found, digits, bits);
}
