/* Exact counts, sums and sums of squares of a device's inputs, for a scale that all clients share.
 *
 * A value is rounded to 60 binary digits after the point, and its square has 120; nothing else is
 * rounded (catchment.data.exact_sums). Gaps are filled as for training: values before the first
 * one of a recording count as that one, a channel without any counts nothing. */

enum { MOMENTS_DIGITS = 60, MOMENTS_TOTAL = 5, MOMENTS_SQUARES = 8 };

struct moments_channel {
    uint32_t count;
    uint32_t total[MOMENTS_TOTAL];
    uint32_t squares[MOMENTS_SQUARES];
    uint32_t before; /* steps of this recording before its first value */
    double last;
    int known;
};

static struct moments_channel moments[DEVICE_CHANNELS];

/* Forgets what is held of a recording that has ended. */
static void moments_recording(void)
{
    uint32_t i;
    for (i = 0; i < DEVICE_CHANNELS; i++) {
        moments[i].before = 0;
        moments[i].known = 0;
    }
}

static void moments_add_value(struct moments_channel *channel, double value, uint32_t times)
{
    uint32_t size[4], square[8], scaled[9];
    int negative = wide_of_double(value, MOMENTS_DIGITS, size, 4);
    wide_product(size, 4, size, 4, square);
    wide_product(size, 4, &times, 1, scaled);
    wide_add(channel->total, MOMENTS_TOTAL, scaled, 5, negative);
    wide_product(square, 8, &times, 1, scaled);
    wide_add(channel->squares, MOMENTS_SQUARES, scaled, 9, 0);
    channel->count += times;
}

/* Adds one step, missing values NaN; all of them are below 2^40. */
static void moments_add(const double *sample)
{
    uint32_t i;
    for (i = 0; i < DEVICE_CHANNELS; i++) {
        struct moments_channel *channel = moments + i;
        if (sample[i] == sample[i]) {
            moments_add_value(channel, sample[i], channel->before + 1);
            channel->last = sample[i];
            channel->known = 1;
            channel->before = 0;
        } else if (channel->known) {
            moments_add_value(channel, channel->last, 1);
        } else {
            channel->before++;
        }
    }
}

static void moments_clear(void)
{
    uint8_t *bytes = (uint8_t *)moments;
    uint32_t i;
    for (i = 0; i < sizeof moments; i++)
        bytes[i] = 0;
}

static int moments_any(void)
{
    uint32_t i, any = 0;
    for (i = 0; i < DEVICE_CHANNELS; i++)
        any |= moments[i].count;
    return any != 0;
}

static uint64_t moments_count(uint32_t index)
{
    return moments[index].count;
}

/* Limbs of 32 digits, the last with all that is above it. */
static uint64_t moments_total(uint32_t index)
{
    const uint32_t *total = moments[index % DEVICE_CHANNELS].total;
    uint32_t limb = index / DEVICE_CHANNELS;
    return limb < 3 ? total[limb] : (uint64_t)wide_from(total, MOMENTS_TOTAL, 96);
}

static uint64_t moments_squares(uint32_t index)
{
    const uint32_t *squares = moments[index % DEVICE_CHANNELS].squares;
    uint32_t limb = index / DEVICE_CHANNELS;
    return limb < 6 ? squares[limb] : (uint64_t)wide_from(squares, MOMENTS_SQUARES, 192);
}
