/* From samples to rows: gaps are filled, channels scaled, windows cut, and the map advanced, as
 * catchment.data.prepare does it for recordings. What goes on from one stretch to the next is here:
 * the reservoir's state, the values that are held and the place in the window. */

enum { GAPS_HOLD, GAPS_ERROR, GAPS_RESTART };
enum { SCALE_NONE, SCALE_FIXED, SCALE_TOLD };

static struct {
    double held[DEVICE_CHANNELS]; /* the last value of each channel */
    uint8_t known[DEVICE_CHANNELS];
    DEVICE_INPUT u[DEVICE_CHANNELS];
    uint32_t steps; /* of the recording, or of the piece after a gap; where windows: since the first */
    uint32_t recording, row;
    const char *refused; /* why the stretch is not accepted, the first reason there was */
#if DEVICE_MAJORITY
    uint32_t votes[DEVICE_OUTPUTS];
#endif
#if DEVICE_BUFFERED
    DEVICE_INPUT window[DEVICE_WINDOW * DEVICE_CHANNELS];
    uint32_t filled, skip;
#if DEVICE_MAJORITY
    int32_t labels[DEVICE_WINDOW];
#endif
#endif
#if DEVICE_SCALE == 2
    double mean[DEVICE_CHANNELS], scale[DEVICE_CHANNELS];
    int scaled;
#endif
} feed;

static void feed_refuse(const char *why)
{
    if (!feed.refused)
        feed.refused = why;
}

/* A piece ends: what comes next starts from rest. */
static void feed_piece(void)
{
    feed.steps = 0;
#if DEVICE_BUFFERED
    feed.filled = feed.skip = 0;
#endif
}

static void feed_recording(void)
{
    uint32_t i;
    feed_piece();
    for (i = 0; i < DEVICE_CHANNELS; i++)
        feed.known[i] = 0;
}

static double feed_scaled(double value, uint32_t channel)
{
#if DEVICE_SCALE == 0
    (void)channel;
    return value;
#elif DEVICE_SCALE == 1
    return (value - SCALE_MEAN[channel]) / SCALE_DIVISOR[channel];
#else
    return (value - feed.mean[channel]) / feed.scale[channel];
#endif
}

/* Inputs as the map takes them; 0 if a value is missing that must not be. */
static int feed_inputs(const double *sample)
{
    uint32_t i, complete = 1;
    for (i = 0; i < DEVICE_CHANNELS; i++) {
        if (sample[i] == sample[i]) {
            feed.held[i] = sample[i];
            feed.known[i] = 1;
        } else {
            complete = 0;
        }
    }
    if (!complete && DEVICE_GAPS != GAPS_HOLD)
        return 0;
    for (i = 0; i < DEVICE_CHANNELS; i++)
        feed.u[i] = feed.known[i] ? map_input(feed_scaled(feed.held[i], i)) : 0;
    return 1;
}

#if DEVICE_MAJORITY
static void feed_vote(const struct target *target)
{
    if (target->known)
        feed.votes[target->label]++;
}

static void feed_clear_votes(void)
{
    uint32_t k;
    for (k = 0; k < DEVICE_OUTPUTS; k++)
        feed.votes[k] = 0;
}

/* The class of most steps, the first of several. */
static struct target feed_elected(void)
{
    struct target found = {0, 0};
    uint32_t k, most = 0;
    for (k = 0; k < DEVICE_OUTPUTS; k++)
        if (feed.votes[k] > most) {
            most = feed.votes[k];
            found.known = 1;
            found.label = (int32_t)k;
        }
    return found;
}
#endif

/* One row with its target: to the sums or to the readout, as the link asks. */
static void feed_row(const struct target *target);

#if DEVICE_WINDOW
static void feed_window_done(const struct target *target)
{
#if DEVICE_MAJORITY
    struct target elected = feed_elected();
    (void)target;
    feed_row(&elected);
#else
    feed_row(target);
#endif
}
#endif

#if DEVICE_BUFFERED

/* Windows that overlap: the samples of one are kept, and run once it is complete. */
static void feed_step(const struct target *target)
{
    uint32_t i, t, kept;
    if (feed.skip) {
        feed.skip--;
        return;
    }
    for (i = 0; i < DEVICE_CHANNELS; i++)
        feed.window[feed.filled * DEVICE_CHANNELS + i] = feed.u[i];
#if DEVICE_MAJORITY
    feed.labels[feed.filled] = target->known ? target->label : -1;
#endif
    if (++feed.filled < DEVICE_WINDOW)
        return;
    map_reset();
    for (t = 0; t < DEVICE_WINDOW; t++)
        map_step(feed.window + t * DEVICE_CHANNELS, DEVICE_WINDOW);
#if DEVICE_MAJORITY
    feed_clear_votes();
    for (t = 0; t < DEVICE_WINDOW; t++)
        if (feed.labels[t] >= 0)
            feed.votes[feed.labels[t]]++;
#endif
    feed_window_done(target);
    kept = DEVICE_WINDOW > DEVICE_STEP ? DEVICE_WINDOW - DEVICE_STEP : 0;
    feed.skip = DEVICE_STEP > DEVICE_WINDOW ? DEVICE_STEP - DEVICE_WINDOW : 0;
    for (i = 0; i < kept * DEVICE_CHANNELS; i++)
        feed.window[i] = feed.window[i + DEVICE_STEP * DEVICE_CHANNELS];
#if DEVICE_MAJORITY
    for (i = 0; i < kept; i++)
        feed.labels[i] = feed.labels[i + DEVICE_STEP];
#endif
    feed.filled = kept;
}

#elif DEVICE_WINDOW

static void feed_step(const struct target *target)
{
    uint32_t place = feed.steps;
    feed.steps = place + 1 == DEVICE_STEP ? 0 : place + 1;
    if (place >= DEVICE_WINDOW)
        return;
    if (place == 0) {
        map_reset();
#if DEVICE_MAJORITY
        feed_clear_votes();
#endif
    }
#if DEVICE_MAJORITY
    feed_vote(target);
#endif
    if (map_step(feed.u, DEVICE_WINDOW))
        feed_window_done(target);
}

#else

static void feed_step(const struct target *target)
{
    if (feed.steps++ == 0)
        map_reset();
    if (map_step(feed.u, 0))
        feed_row(target);
}

#endif

static const char TOO_SHORT[] = "a recording has fewer steps than the map needs";

/* A recording is over: its row, where it has one, and the next one starts anew. */
static void feed_end(const struct target *target)
{
#if !DEVICE_WINDOW
    if (feed.steps) {
#if !DEVICE_PER_STEP
        if (map_finish(feed.u))
            feed_row(target);
        else
            feed_refuse(TOO_SHORT);
#else
        if (feed.steps <= DEVICE_WASHOUT)
            feed_refuse(TOO_SHORT);
#endif
    }
#endif
    (void)target;
    feed_recording();
    feed.recording++;
    feed.row = 0;
}

static void feed_sample(const double *sample, const struct target *target)
{
    if (feed_inputs(sample)) {
        feed_step(target);
        return;
    }
    if (DEVICE_GAPS == GAPS_ERROR)
        feed_refuse("a sample lacks a value, and the plan refuses gaps");
    else
        feed_piece();
}
