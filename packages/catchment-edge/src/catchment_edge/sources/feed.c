/* From samples to rows: gaps are filled, channels scaled, windows cut, and the map advanced, as
 * catchment.data.preprocessing does it for recordings. What goes on from one stretch to the next is here:
 * the reservoir's state, the values that are held and the place in the window. */

enum { GAPS_HOLD, GAPS_ERROR, GAPS_RESTART };
enum { SCALE_NONE, SCALE_FIXED, SCALE_TOLD };

static struct {
    double held[DEVICE_CHANNELS]; /* the last value of each channel */
#if DEVICE_SCALE == 2
    double mean[DEVICE_CHANNELS], scale[DEVICE_CHANNELS];
    int scaled;
#endif
    uint32_t steps; /* of the piece; with windows that follow on each other, since one began */
#if DEVICE_EVERY > 1
    uint32_t passed; /* rows since one was learnt from */
#endif
    uint32_t recording, row;
    const char *refused; /* why the stretch is not accepted, the first reason there was */
#if DEVICE_MAJORITY
    uint32_t votes[DEVICE_OUTPUTS];
#endif
#if DEVICE_KEPT
    uint32_t skip; /* steps before the next window */
    word kept[DEVICE_KEPT * DEVICE_WORDS];
#if DEVICE_MAJORITY
    int32_t labels[DEVICE_KEPT];
#endif
#else
    word v[DEVICE_WORDS];
#endif
#if DEVICE_HORIZON
    double late[DEVICE_HORIZON * DEVICE_CHANNELS]; /* samples whose targets are still to come */
    uint32_t waiting, oldest;
#endif
    uint8_t known[DEVICE_CHANNELS];
} feed;

static state map; /* all that the map keeps, and its row */

static void feed_refuse(const char *why)
{
    if (!feed.refused)
        feed.refused = why;
}

/* A piece ends: what comes next starts from rest. */
static void feed_piece(void)
{
    feed.steps = 0;
#if DEVICE_EVERY > 1
    feed.passed = 0;
#endif
#if DEVICE_KEPT
    feed.skip = 0;
#endif
}

static void feed_recording(void)
{
    uint32_t i;
    feed_piece();
    for (i = 0; i < DEVICE_CHANNELS; i++)
        feed.known[i] = 0;
}

static double feed_scaled(double number, uint32_t channel)
{
#if DEVICE_SCALE == 0
    (void)channel;
    return number;
#elif DEVICE_SCALE == 1
    return (number - SCALE_MEAN[channel]) / SCALE_DIVISOR[channel];
#else
    return (number - feed.mean[channel]) / feed.scale[channel];
#endif
}

/* A sample without gaps and scaled; 0 if a value is missing that must not be. */
static int feed_prepared(const double *sample, value *u)
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
        u[i] = feed.known[i] ? (value)feed_scaled(feed.held[i], i) : 0;
    return 1;
}

#if DEVICE_MAJORITY
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

#if DEVICE_PER_STEP
/* Of rows per step, one of every few is learnt from; all are predicted. */
static void feed_thinned_row(const struct target *target)
{
#if DEVICE_EVERY > 1
    struct target left_out = *target;
    feed.passed = feed.passed + 1 < DEVICE_EVERY ? feed.passed + 1 : 0;
    left_out.known = target->known && feed.passed == 0;
    feed_row(&left_out);
#else
    feed_row(target);
#endif
}
#endif

#if DEVICE_WINDOW
static void feed_window_row(const struct target *target)
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

#if DEVICE_KEPT

/* The row of the steps that are kept. */
static void feed_kept_row(uint32_t steps)
{
#if DEVICE_STREAMS
    uint32_t t;
    map_reset(&map);
    for (t = 0; t < steps; t++)
        map_step(&map, feed.kept + t * DEVICE_WORDS, t, steps, map.row);
    map_row(&map, feed.kept + (steps - 1) * DEVICE_WORDS, steps - 1, map.row);
#else
    map_window(&map, feed.kept, steps, map.row);
#endif
}

#if DEVICE_WINDOW
/* The next window begins with what this one ends with, or after a pause. */
static void feed_next_window(void)
{
    const uint32_t again = DEVICE_STEP < DEVICE_KEPT ? DEVICE_KEPT - DEVICE_STEP : 0;
    uint32_t i;
    for (i = 0; i < again * DEVICE_WORDS; i++)
        feed.kept[i] = feed.kept[i + DEVICE_STEP * DEVICE_WORDS];
#if DEVICE_MAJORITY
    for (i = 0; i < again; i++)
        feed.labels[i] = feed.labels[i + DEVICE_STEP];
#endif
    feed.steps = again;
    feed.skip = DEVICE_STEP > DEVICE_KEPT ? DEVICE_STEP - DEVICE_KEPT : 0;
}
#endif

static void feed_step(const value *u, const struct target *target)
{
    (void)target;
    if (feed.skip) {
        feed.skip--;
        return;
    }
    if (feed.steps >= DEVICE_KEPT) {
        feed_refuse("a recording is longer than the device keeps; export it with more steps");
        return;
    }
    map_enter(u, feed.kept + feed.steps * DEVICE_WORDS);
#if DEVICE_MAJORITY
    feed.labels[feed.steps] = target->known ? target->label : -1;
#endif
    feed.steps++;
#if DEVICE_WINDOW
    if (feed.steps < DEVICE_KEPT)
        return;
    feed_kept_row(DEVICE_KEPT);
#if DEVICE_MAJORITY
    feed_clear_votes();
    for (feed.steps = 0; feed.steps < DEVICE_KEPT; feed.steps++)
        if (feed.labels[feed.steps] >= 0)
            feed.votes[feed.labels[feed.steps]]++;
#endif
    feed_window_row(target);
    feed_next_window();
#endif
}

#elif DEVICE_WINDOW

static void feed_step(const value *u, const struct target *target)
{
    uint32_t t = feed.steps;
    feed.steps = t + 1 == DEVICE_STEP ? 0 : t + 1;
#if DEVICE_STEP > DEVICE_WINDOW
    if (t >= DEVICE_WINDOW)
        return;
#endif
    if (t == 0) {
        map_reset(&map);
#if DEVICE_MAJORITY
        feed_clear_votes();
#endif
    }
#if DEVICE_MAJORITY
    if (target->known)
        feed.votes[target->label]++;
#endif
    map_enter(u, feed.v);
    map_step(&map, feed.v, t, DEVICE_WINDOW, map.row);
    if (t + 1 < DEVICE_WINDOW)
        return;
    map_row(&map, feed.v, t, map.row);
    feed_window_row(target);
}

#else

static void feed_step(const value *u, const struct target *target)
{
    uint32_t t = feed.steps;
    if (t == 0)
        map_reset(&map);
    map_enter(u, feed.v);
#if DEVICE_PER_STEP
    /* Beyond the washout the count says nothing more, and may not end. */
    feed.steps = t <= DEVICE_WASHOUT ? t + 1 : t;
    t = t <= DEVICE_WASHOUT ? t : DEVICE_WASHOUT;
    map_step(&map, feed.v, t, 0, map.row);
#if DEVICE_WASHOUT
    if (t < DEVICE_WASHOUT)
        return;
#endif
    map_row(&map, feed.v, t, map.row);
    feed_thinned_row(target);
#else
    (void)target;
    feed.steps = t + 1;
    map_step(&map, feed.v, t, 0, map.row);
#endif
}

#endif

/* A recording, or a piece of one, is over: its row, where it has one. */
static void feed_piece_ends(const struct target *target)
{
    (void)target;
#if !DEVICE_WINDOW
    if (feed.steps && feed.steps < DEVICE_LEAST) {
        feed_refuse("a recording has fewer steps than the map needs");
    } else if (feed.steps && !DEVICE_PER_STEP) {
#if DEVICE_KEPT
        feed_kept_row(feed.steps);
#elif !DEVICE_PER_STEP
        map_row(&map, feed.v, feed.steps - 1, map.row);
#endif
        feed_row(target);
    }
#endif
    feed_piece();
}

static void feed_sample(const double *sample, const struct target *target)
{
    value u[DEVICE_CHANNELS];
    if (feed_prepared(sample, u))
        feed_step(u, target);
    else if (DEVICE_GAPS == GAPS_RESTART)
        feed_piece_ends(target);
    else
        feed_refuse("a sample lacks a value, and the plan refuses gaps");
}

#if DEVICE_HORIZON
/* The map runs some steps late, when the inputs that it is to predict have come. */
static void feed_ahead(const double *sample, const struct target *target)
{
    double *place = feed.late + feed.oldest * DEVICE_CHANNELS;
    uint32_t i;
    if (feed.waiting == DEVICE_HORIZON)
        feed_sample(place, target);
    else
        feed.waiting++;
    for (i = 0; i < DEVICE_CHANNELS; i++)
        place[i] = sample[i];
    feed.oldest = feed.oldest + 1 < DEVICE_HORIZON ? feed.oldest + 1 : 0;
}

/* The samples that still wait have no target. */
static void feed_rest(void)
{
    struct target unknown = {0, {0}};
    uint32_t at = feed.waiting < DEVICE_HORIZON ? 0 : feed.oldest;
    for (; feed.waiting; feed.waiting--) {
        feed_sample(feed.late + at * DEVICE_CHANNELS, &unknown);
        at = at + 1 < DEVICE_HORIZON ? at + 1 : 0;
    }
    feed.oldest = 0;
}
#endif

static void feed_end(const struct target *target)
{
#if DEVICE_HORIZON
    feed_rest();
#endif
    feed_piece_ends(target);
    feed_recording();
    feed.recording++;
    feed.row = 0;
}
