/* The readout that comes back, kept in four bytes a weight.
 *
 * The weights of an output become integers of one unit, a power of two, as fine
 * as sums of 63 bits allow: scores then need no floating point but a last rounding. Weights arrive
 * as float64 and are rounded to float32 on the way, since their unit is known when all are there. */

#define READOUT_SIZE (DEVICE_FEATURES * DEVICE_OUTPUTS)

union readout_weight {
    float number;
    int32_t whole;
};

static struct {
    union readout_weight weight[READOUT_SIZE]; /* (features, outputs) */
    double intercept[DEVICE_OUTPUTS];
    int digits[DEVICE_OUTPUTS];
    int held, possible;
} readout;

static double readout_power(int exponent)
{
    return double_of_bits((uint64_t)(1023 + exponent) << 52);
}

static void readout_begin(void)
{
    readout.held = 0;
    readout.possible = 1;
}

/* Takes number `index` of the weights, row by row, and then of the intercepts. */
static void readout_take(uint32_t index, double value)
{
    if (!(value > -1e30 && value < 1e30))
        readout.possible = 0;
    else if (index >= READOUT_SIZE)
        readout.intercept[index - READOUT_SIZE] = value;
    else
        readout.weight[index].number =
            (float)(value * readout_power(-FEATURE_DIGITS[index / DEVICE_OUTPUTS]));
}

/* Makes integers below 2^DEVICE_WEIGHT_BITS of the weights of an output. */
static void readout_rounded(uint32_t k)
{
    float largest = 0;
    uint32_t i, size;
    int negative;
    for (i = k; i < READOUT_SIZE; i += DEVICE_OUTPUTS) {
        float weight = readout.weight[i].number;
        weight = weight < 0 ? -weight : weight;
        largest = weight > largest ? weight : largest;
    }
    /* largest < 2^(e - 126), of its biased exponent e */
    readout.digits[k] = DEVICE_WEIGHT_BITS + 126 - (int)(bits_of_float(largest) >> 23);
    for (i = k; i < READOUT_SIZE; i += DEVICE_OUTPUTS) {
        negative = wide_of_double((double)readout.weight[i].number, readout.digits[k], &size, 1);
        readout.weight[i].whole = negative ? -(int32_t)size : (int32_t)size;
    }
}

static int readout_end(void)
{
    uint32_t k;
    for (k = 0; k < DEVICE_OUTPUTS && readout.possible; k++)
        readout_rounded(k);
    readout.held = readout.possible;
    return readout.held;
}

static void readout_scores(const feature *row, float *scores)
{
    uint32_t k, i;
    for (k = 0; k < DEVICE_OUTPUTS; k++) {
        int64_t sum = 0;
        for (i = 0; i < DEVICE_FEATURES; i++)
            sum += (int64_t)row[i] * readout.weight[i * DEVICE_OUTPUTS + k].whole;
        scores[k] = (float)((double)sum * readout_power(-readout.digits[k]) + readout.intercept[k]);
    }
}
