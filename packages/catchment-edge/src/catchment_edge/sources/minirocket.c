/* MiniRocket: shares of steps at which a dilated kernel of nine taps is above a bias.
 *
 * A kernel has three weights 2 and six weights -1: its output is three times the sum of three taps
 * less the sum of all nine, which is the one d steps before, plus a tap, less a tap. Nine channels
 * of samples up to 2^22 leave room for all of them in 32 bits. */
struct minirocket {
    uint32_t steps, stride; /* of the window */
    uint32_t pad;           /* four times the longest dilation */
    uint32_t features;
    int shift, bits;
    int32_t limit;
    /* (features), sorted by channels, then by dilation. */
    const int32_t *bias;
    const uint16_t *place, *dilation, *channels; /* channels: where their list is */
    const uint8_t *kernel;                       /* 128 more without padding */
    const uint8_t *lists;                        /* how many channels, and which */
};

/* y: the sum of a list of channels. */
static void minirocket_sum(const struct minirocket *map, const word *window, const uint8_t *list,
                           int32_t *y)
{
    uint32_t t, k;
    for (t = 0; t < map->steps; t++)
        y[t] = 0;
    for (k = 1; k <= list[0]; k++)
        window_add(window + list[k], map->stride, map->steps, map->shift, map->limit, y);
}

/* The sums of nine taps, d steps apart; y begins at the first step's first tap. */
static void minirocket_nine(const int32_t *y, uint32_t d, uint32_t steps, int32_t *nine)
{
    uint32_t t, k;
    for (t = 0; t < steps && t < d; t++) {
        nine[t] = 0;
        for (k = 0; k < 9; k++)
            nine[t] += y[t + k * d];
    }
    for (; t < steps; t++)
        nine[t] = nine[t - d] + y[t + 8 * d] - y[t - d];
}

/* Where the three weights 2 of a kernel are: kernels are the triples of 0 to 8 in order. */
static void minirocket_taps(uint32_t kernel, uint32_t *taps)
{
    uint32_t a, b, c;
    for (a = 0; a < 7; a++)
        for (b = a + 1; b < 8; b++)
            for (c = b + 1; c < 9; c++)
                if (kernel-- == 0) {
                    taps[0] = a;
                    taps[1] = b;
                    taps[2] = c;
                    return;
                }
}

static uint32_t minirocket_count(const int32_t *y, const int32_t *nine, uint32_t kernel,
                                 uint32_t d, uint32_t begin, uint32_t end, int32_t bias)
{
    uint32_t t, count = 0, taps[3] = {0, 0, 0};
    const int32_t *one, *two, *three;
    minirocket_taps(kernel, taps);
    one = y + taps[0] * d;
    two = y + taps[1] * d;
    three = y + taps[2] * d;
    for (t = begin; t < end; t++)
        count += 3 * (one[t] + two[t] + three[t]) - nine[t] > bias;
    return count;
}

/* work: (steps + 2 pad) and (steps) numbers. */
static void minirocket_row(const struct minirocket *map, const word *window, int32_t *work,
                           feature *row)
{
    int32_t *nine = work + map->steps + 2 * map->pad;
    uint32_t f, t;
    for (t = 0; t < map->steps + 2 * map->pad; t++)
        work[t] = 0;
    for (f = 0; f < map->features; f++) {
        uint32_t d = map->dilation[f], skip = map->kernel[f] < 128 ? 0 : 4 * d;
        const int32_t *y = work + map->pad - 4 * d;
        int fresh = f == 0 || map->channels[f] != map->channels[f - 1];
        if (fresh)
            minirocket_sum(map, window, map->lists + map->channels[f], work + map->pad);
        if (fresh || d != map->dilation[f - 1])
            minirocket_nine(y, d, map->steps, nine);
        t = minirocket_count(y, nine, map->kernel[f] & 127, d, skip, map->steps - skip,
                             map->bias[f]);
        row[map->place[f]] =
            feature_from_double((double)t / (double)(map->steps - 2 * skip), map->bits, map->bits);
    }
}
