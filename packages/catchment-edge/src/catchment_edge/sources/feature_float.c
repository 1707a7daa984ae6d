/* Features as floats; those of a map in fixed point are rounded to it, with no bits they are not. */
static float feature_unit(int digits)
{
    union {
        uint32_t bits;
        float value;
    } power;
    power.bits = (uint32_t)(127 - digits) << 23;
    return power.value;
}

static feature feature_from_double(double value, int digits, int bits)
{
    if (!bits)
        return (float)value;
    return (float)number_from_double(value, digits, (int64_t)1 << bits) * feature_unit(digits);
}

static feature feature_from_whole(int64_t value, int from, int digits, int bits)
{
    if (!bits)
        return (float)value * feature_unit(from);
    return (float)number_cut(number_round(value, from - digits), (int64_t)1 << bits) *
           feature_unit(digits);
}
