/* An echo-state map on a grid, one step after another: what grid_feature_rows does, without the
 * sequence in memory. A sequence that is cut starts its next part in a second state, `warmup` steps
 * before the first one is left. */

static struct {
    grid_word x[STREAM_UNITS];
    grid_word next[STREAM_UNITS];
#if STREAM_CUT
    grid_word ahead[STREAM_UNITS];
    uint32_t place; /* in the part */
#endif
#if STREAM_POOLED
    struct grid_sum sums[STREAM_BASE];
    uint32_t part, begin;
#endif
    uint32_t step; /* of the sequence */
    int32_t row[DEVICE_FEATURES];
} stream;

static void map_reset(void)
{
    uint32_t i;
    for (i = 0; i < STREAM_UNITS; i++)
        stream.x[i] = 0;
    stream.step = 0;
#if STREAM_CUT
    stream.place = 0;
#endif
#if STREAM_POOLED
    stream.part = stream.begin = 0;
#endif
}

#if STREAM_CUT
static void stream_next_part(const int32_t *u)
{
    const uint32_t length = MAP.cut_length, first = length - MAP.cut_warmup;
    uint32_t i;
    if (stream.place == length) {
        for (i = 0; i < STREAM_UNITS; i++)
            stream.x[i] = stream.ahead[i];
        stream.place = 0;
    }
    if (stream.place == first)
        for (i = 0; i < STREAM_UNITS; i++)
            stream.ahead[i] = 0;
    if (stream.place >= first)
        grid_step(&MAP, u, stream.ahead, stream.next);
    stream.place++;
}
#endif

#if STREAM_POOLED

static int stream_finish_part(const int32_t *u)
{
    struct grid_work work;
    struct rows_under_way now;
    work.sums = stream.sums;
    work.row = stream.row;
    now.map = &MAP;
    now.work = &work;
    now.part = stream.part;
    finish_part(&now, stream.step - MAP.washout - stream.begin, u, stream.x);
    stream.begin = stream.step - MAP.washout;
    return ++stream.part == MAP.segments;
}

/* One step; 1 if it completes the row of a sequence that is `length` steps long, 0 if unknown. */
static int map_step(const int32_t *u, uint32_t length)
{
    uint32_t j, done;
#if STREAM_CUT
    stream_next_part(u);
#endif
    grid_step(&MAP, u, stream.x, stream.next);
    if (stream.step++ < MAP.washout)
        return 0;
    done = stream.step - MAP.washout;
    for (j = 0; j < STREAM_BASE; j++)
        add_to_sum(stream.sums + j, base_feature(&MAP, j, u, stream.x), done == stream.begin + 1);
    if (!length)
        return 0;
    length -= MAP.washout;
    if (done < (uint32_t)((uint64_t)length * (stream.part + 1) / MAP.segments))
        return 0;
    return stream_finish_part(u);
}

/* The sequence has ended, with the inputs `u`: 1 if that completes its row. */
static int map_finish(const int32_t *u)
{
    return stream.step > MAP.washout && stream_finish_part(u);
}

#else

static int map_step(const int32_t *u, uint32_t length)
{
    uint32_t j;
    (void)length;
#if STREAM_CUT
    stream_next_part(u);
#endif
    grid_step(&MAP, u, stream.x, stream.next);
    if (stream.step++ < MAP.washout)
        return 0;
    for (j = 0; j < STREAM_BASE; j++)
        stream.row[j] = on_feature_grid(&MAP, j, base_feature(&MAP, j, u, stream.x));
    return 1;
}

#endif

static const int32_t *map_row(void)
{
    return stream.row;
}

/* An input as the map takes it: cut off at its range and rounded to its grid. */
static int32_t map_input(double value)
{
    uint32_t size;
    int negative;
    if (value > STREAM_RANGE)
        value = STREAM_RANGE;
    if (value < -STREAM_RANGE)
        value = -STREAM_RANGE;
    negative = wide_of_double(value, MAP.digits, &size, 1);
    return negative ? -(int32_t)size : (int32_t)size;
}
