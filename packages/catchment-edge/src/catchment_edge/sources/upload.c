/* The sums as the library's client sends them: numbers of each array, one by one.
 *
 * In fixed point a sum travels as limbs of 40 binary digits, the lowest first, of which only the last
 * has a sign; how many there are, the grid says (catchment.readout.grid.Grid.limbs). */

enum { UPLOAD_LIMB = 40 };

#define UPLOAD_LOW (((uint64_t)1 << UPLOAD_LIMB) - 1)

static uint64_t upload_counts(uint32_t index)
{
    (void)index; /* rows, and their weight, which is one each */
    return bits_of_double((double)sums.rows);
}

/* Limb `limb` of `limbs` of a number of 64 bits. */
static uint64_t upload_limb(int64_t value, uint32_t limb, uint32_t limbs)
{
    if (limb + 1 < limbs)
        return (uint64_t)value & UPLOAD_LOW; /* there are two at most */
    if (limbs == 1)
        return (uint64_t)value;
    return value < 0 ? ~(~(uint64_t)value >> UPLOAD_LIMB) : (uint64_t)value >> UPLOAD_LIMB;
}

static uint64_t upload_feature_sum(uint32_t index)
{
    return (uint64_t)(int64_t)sums.feature_sum[index];
}

static uint64_t upload_gram(uint32_t index)
{
    return upload_limb(sums.gram[index % SUMS_TRIANGLE], index / SUMS_TRIANGLE,
                       DEVICE_FEATURE_BITS <= 16 ? 1 : 2);
}

#if DEVICE_CLASSES

static uint64_t upload_target_sum(uint32_t index)
{
    return sums.classes[index];
}

static uint64_t upload_cross(uint32_t index)
{
    return (uint64_t)(int64_t)sums.cross[index];
}

static uint64_t upload_target_gram(uint32_t index)
{
    uint32_t k = 0, length = DEVICE_OUTPUTS;
    while (index >= length) {
        index -= length--;
        k++;
    }
    return index ? 0 : sums.classes[k];
}

#else

static uint64_t upload_wide(const uint32_t *sum, int n, uint32_t limb, uint32_t limbs)
{
    uint64_t found = (uint64_t)wide_from(sum, n, (int)limb * UPLOAD_LIMB);
    return limb + 1 < limbs ? found & UPLOAD_LOW : found;
}

static uint64_t upload_target_sum(uint32_t index)
{
    return upload_wide(sums.target_sum[index % DEVICE_OUTPUTS], 4, index / DEVICE_OUTPUTS, 3);
}

static uint64_t upload_cross(uint32_t index)
{
    const uint32_t n = DEVICE_FEATURES * DEVICE_OUTPUTS;
    return upload_wide(sums.cross[index % n], 4, index / n, 3);
}

static uint64_t upload_target_gram(uint32_t index)
{
    return upload_wide(sums.target_gram[index % SUMS_TARGETS], 6, index / SUMS_TARGETS, 5);
}

#endif
