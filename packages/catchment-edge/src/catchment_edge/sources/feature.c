/* Features as integers of 2^-digits, at most 2^bits in absolute value. */
static feature feature_from_double(double value, int digits, int bits)
{
    return (feature)number_from_double(value, digits, (int64_t)1 << bits);
}

static feature feature_from_whole(int64_t value, int from, int digits, int bits)
{
    return (feature)number_cut(number_round(value, from - digits), (int64_t)1 << bits);
}
