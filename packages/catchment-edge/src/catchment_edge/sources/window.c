/* A window of samples as integers, from which maps with different digits take theirs.
 *
 * A word is 4 x + s: x is the sample rounded to the most digits that any of the maps has, and s is
 * the sign of what the rounding took off. So a map with fewer digits rounds the sample itself, and
 * not what was rounded before: s tells a tie from a number beside it. */
static int32_t window_word(double u, int digits, int32_t limit)
{
    union {
        double value;
        uint64_t bits;
    } seen;
    uint64_t size, near = 0;
    int64_t word;
    int exponent, shift;
    seen.value = u;
    exponent = (int)(seen.bits >> 52 & 2047);
    size = (seen.bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)(exponent != 0) << 52;
    shift = 1075 - exponent - digits;
    if (shift > 54) {
        word = size != 0;
    } else if (shift <= 0) {
        near = shift < -10 ? (uint64_t)limit : size << -shift;
        word = near < (uint64_t)limit ? (int64_t)(4 * near) : 4 * (int64_t)limit;
    } else {
        near = (uint64_t)number_round((int64_t)size, shift);
        word = (int64_t)(4 * near) + (size > near << shift) - (size < near << shift);
        if (near >= (uint64_t)limit)
            word = 4 * (int64_t)limit;
    }
    return (int32_t)(seen.bits >> 63 ? -word : word);
}

/* What a map with its own digits and range reads: to nearest, ties to even, and cut off. A shift of
 * a negative number to the right rounds down, as all compilers for small devices have it. */
static int32_t window_value(int32_t word, int shift, int32_t limit)
{
    int32_t half = ((int32_t)1 << shift) / 2;
    int32_t found = (word + half - (shift > 0) + (shift > 0 && (word >> shift & 1))) >> shift;
    return found > limit ? limit : found < -limit ? -limit : found;
}

/* Add a channel of so many steps to x. Without a limit the map has the most digits and the widest
 * range of all, so that there is nothing to cut off and no tie to look for. */
static void window_add(const word *window, uint32_t stride, uint32_t steps, int shift,
                       int32_t limit, int32_t *x)
{
    uint32_t t;
    if (!limit) {
        for (t = 0; t < steps; t++, window += stride)
            x[t] += (*window + (shift > 0)) >> shift;
        return;
    }
    for (t = 0; t < steps; t++, window += stride)
        x[t] += window_value(*window, shift, limit);
}
