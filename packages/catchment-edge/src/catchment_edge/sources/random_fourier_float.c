/* Random features in float of values of 14 digits; weights are integers of 2^-14. */
static float fourier_sum16(const int16_t *weights, const float *x, uint32_t n)
{
    float sum = 0.0f;
    uint32_t i;
    for (i = 0; i < n; i++)
        sum += (float)weights[i] * x[i];
    return sum / 16384.0f;
}

static float fourier_sum32(const int32_t *weights, const float *x, uint32_t n)
{
    float sum = 0.0f;
    uint32_t i;
    for (i = 0; i < n; i++)
        sum += (float)weights[i] * x[i];
    return sum / 16384.0f;
}

static feature fourier_cosine(float turns, int bits)
{
    turns -= floorf(turns + 0.5f);
    return feature_from_double(cosf(6.28318531f * turns), bits, bits);
}

/* A rectifier, cut off at 64. */
static feature fourier_relu(float sum, int bits)
{
    return feature_from_double(sum < 0.0f ? 0.0f : sum > 64.0f ? 64.0f : sum, bits - 6, bits);
}

/* A number with 14 digits, at most 256. */
static float fourier_value(float z)
{
    float x = z * 16384.0f, shifted;
    x = x > 4194304.0f ? 4194304.0f : x < -4194304.0f ? -4194304.0f : x;
    shifted = x + 12582912.0f; /* 1.5 2^23: what is added has no room for a fraction */
    return (shifted - 12582912.0f) / 16384.0f;
}
