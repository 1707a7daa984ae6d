/* Sums of a device's rows, from which a readout is solved: counts, Z'1, Y'1, Z'Z, Z'Y and Y'Y.
 *
 * Triangles hold the upper half, row after row. Sums are as wide as DEVICE_MOST_ROWS rows need, and
 * a row more is refused, so that none ever passes its end. Of classes the sum of targets is a
 * count, and Y'Y its diagonal; numbers are whole multiples of 2^-36 and their sums several words. */

#define SUMS_TRIANGLE (DEVICE_FEATURES * (DEVICE_FEATURES + 1) / 2)
#define SUMS_TARGETS (DEVICE_OUTPUTS * (DEVICE_OUTPUTS + 1) / 2)

struct sums {
    uint32_t rows;
    DEVICE_GRAM gram[SUMS_TRIANGLE];
    DEVICE_SUM feature_sum[DEVICE_FEATURES];
#if DEVICE_CLASSES
    DEVICE_SUM cross[DEVICE_FEATURES * DEVICE_OUTPUTS];
    uint32_t classes[DEVICE_OUTPUTS];
#else
    uint32_t cross[DEVICE_FEATURES * DEVICE_OUTPUTS][4];
    uint32_t target_sum[DEVICE_OUTPUTS][4];
    uint32_t target_gram[SUMS_TARGETS][6];
#endif
};

/* What a row is to be: a class, or numbers. */
struct target {
    int known;
#if DEVICE_CLASSES
    int32_t label;
#else
    double number[DEVICE_OUTPUTS];
#endif
};

static struct sums sums;

static void sums_clear(void)
{
    uint8_t *bytes = (uint8_t *)&sums;
    uint32_t i;
    for (i = 0; i < sizeof sums; i++)
        bytes[i] = 0;
}

static void sums_add_features(const feature *row)
{
    DEVICE_GRAM *gram = sums.gram;
    uint32_t i, j;
    for (i = 0; i < DEVICE_FEATURES; i++) {
        DEVICE_GRAM one = (DEVICE_GRAM)row[i];
        sums.feature_sum[i] += (DEVICE_SUM)row[i];
        for (j = i; j < DEVICE_FEATURES; j++)
            *gram++ += one * (DEVICE_GRAM)row[j];
    }
}

#if DEVICE_CLASSES
static void sums_add_target(const feature *row, const struct target *target)
{
    DEVICE_SUM *cross = sums.cross + target->label;
    uint32_t i;
    for (i = 0; i < DEVICE_FEATURES; i++, cross += DEVICE_OUTPUTS)
        *cross += (DEVICE_SUM)row[i];
    sums.classes[target->label]++;
}
#else
static void sums_add_target(const feature *row, const struct target *target)
{
    uint32_t size[DEVICE_OUTPUTS][3], product[6], i, k, m, at = 0;
    int negative[DEVICE_OUTPUTS];
    for (k = 0; k < DEVICE_OUTPUTS; k++) {
        negative[k] = wide_of_double(target->number[k], 36, size[k], 3);
        wide_add(sums.target_sum[k], 4, size[k], 3, negative[k]);
    }
    for (i = 0; i < DEVICE_FEATURES; i++) {
        uint32_t one = row[i] < 0 ? 0 - (uint32_t)row[i] : (uint32_t)row[i];
        for (k = 0; k < DEVICE_OUTPUTS; k++) {
            wide_product(size[k], 3, &one, 1, product);
            wide_add(sums.cross[i * DEVICE_OUTPUTS + k], 4, product, 4, negative[k] != (row[i] < 0));
        }
    }
    for (k = 0; k < DEVICE_OUTPUTS; k++)
        for (m = k; m < DEVICE_OUTPUTS; m++) {
            wide_product(size[k], 3, size[m], 3, product);
            wide_add(sums.target_gram[at++], 6, product, 6, negative[k] != negative[m]);
        }
}
#endif

/* Adds a row whose target is known; 0 if the sums have no room for it, and then nothing is added. */
static int sums_add(const feature *row, const struct target *target)
{
    if (sums.rows >= DEVICE_MOST_ROWS)
        return 0;
    sums_add_features(row);
    sums_add_target(row, target);
    sums.rows++;
    return 1;
}
