/* The length of a sample of so many channels, less what is usual, in integers of 2^-16. */
static value norm_of(const value *u, uint32_t channels, int32_t usual)
{
    uint64_t sum = 0;
    uint32_t i;
    for (i = 0; i < channels; i++) {
        int64_t x = number_from_double(u[i], 16, (int64_t)1 << 22);
        sum += (uint64_t)(x * x);
    }
    return (value)((int32_t)number_root(sum) - usual) / 65536;
}
