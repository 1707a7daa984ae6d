/* A device of autocovariances: the sums in the place of a map's, and what the link asks of a feed.
 *
 * It keeps no readout, and predicts nothing. A value that is missing begins another series. */

struct target {
    int known;
    double number[DEVICE_OUTPUTS];
};

static struct {
    double mean[DEVICE_CHANNELS], scale[DEVICE_CHANNELS];
    const char *refused;
    uint32_t recording, row;
    int scaled;
} feed;

static struct {
    int held;
} readout;

static struct {
    int32_t row[1];
} map;

static struct lags sums;

/* The first reason is the one that is told. */
static void feed_refuse(const char *why)
{
    if (!feed.refused)
        feed.refused = why;
}

static void feed_recording(void)
{
    lags_gap(&sums);
}

static void feed_end(const struct target *target)
{
    (void)target;
    feed_recording();
}

static void feed_ahead(const double *sample, const struct target *target)
{
    double mean = 0.0, scale = 1.0;
    (void)target;
#if DEVICE_SCALE == 1
    mean = SCALE_MEAN[0];
    scale = SCALE_DIVISOR[0];
#elif DEVICE_SCALE == 2
    mean = feed.mean[0];
    scale = feed.scale[0];
#endif
    if (sample[0] != sample[0]) {
        if (DEVICE_GAPS == 1)
            feed_refuse("a sample lacks a value, and the plan refuses gaps");
        lags_gap(&sums);
    } else if (lags_feed(&sums, lags_fixed(sample[0], mean, scale)) != LAGS_OK) {
        feed_refuse("the sums are full; ask for what is new before so much of it is there");
    }
}

static void feed_row(const struct target *target);

/* Only of predictions, which without a readout the link refuses. */
static void feed_sample(const double *sample, const struct target *target)
{
    (void)sample;
    feed_row(target);
}

static void feed_rest(void)
{
}

static void sums_clear(void)
{
    lags_sent(&sums);
}

static int sums_add(const int32_t *row, const struct target *target)
{
    (void)row;
    (void)target;
    return 1;
}

static void readout_begin(void)
{
}

static void readout_take(uint32_t index, double value)
{
    (void)index;
    (void)value;
}

static int readout_end(void)
{
    return 0;
}

static void readout_scores(const int32_t *row, float *scores)
{
    (void)row;
    scores[0] = 0.0f;
}

/* As the library's client sends them. */

static uint64_t autocovariances_counts(uint32_t index)
{
    (void)index; /* values, and their weight, which is one each */
    return bits_of_double((double)lags_pairs(&sums, 0));
}

static uint64_t autocovariances_products(uint32_t index)
{
    return (uint64_t)lags_product(&sums, (uint16_t)index);
}

static uint64_t autocovariances_pairs(uint32_t index)
{
    return lags_pairs(&sums, (uint16_t)index);
}

static uint64_t autocovariances_missing(uint32_t index)
{
    (void)index;
    return 0;
}

static uint64_t autocovariances_squares(uint32_t index)
{
    (void)index;
    return 0;
}

static uint64_t autocovariances_crossed(uint32_t index)
{
    (void)index;
    return 0;
}
