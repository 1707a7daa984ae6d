/* A prepared sample as a map of integers reads it from a window of floats: rounded to so many
 * digits, ties to even, and cut off at a limit of at most 2^22. */
static int32_t window_value(float u, int digits, int32_t limit)
{
    float x = u * feature_unit(-digits), most = (float)limit, shifted;
    x = x > most ? most : x < -most ? -most : x;
    shifted = x + 12582912.0f; /* 1.5 2^23: what is added has no room for a fraction */
    return (int32_t)(shifted - 12582912.0f);
}

/* Add a channel of so many steps to x. */
static void window_add(const word *window, uint32_t stride, uint32_t steps, int digits,
                       int32_t limit, int32_t *x)
{
    uint32_t t;
    for (t = 0; t < steps; t++, window += stride)
        x[t] += window_value(*window, digits, limit);
}
