/* Hydra: eight kernels of nine taps compete at every step of a window, or of its differences.
 *
 * The largest response is added to its kernel's sum, and the kernel with the smallest is counted;
 * of equals it is the first. Inputs and weights leave a response of 32 bits room. */
enum { HYDRA_KERNELS = 8, HYDRA_TAPS = 9 };

struct hydra {
    uint32_t steps, stride; /* of the window */
    uint32_t pad;           /* four times the longest dilation */
    uint32_t groups, together; /* together: channels that a group adds up */
    int shift, bits;
    int32_t limit;
    double unit; /* what a response is divided by */
    const uint16_t *dilations; /* (groups) */
    const uint8_t *lists;      /* (groups, together) */
    const int16_t *weights;    /* (groups, 8, 9) */
};

/* y: the sum of a list of channels, or its first differences with a 0 at the end. */
static void hydra_sum(const struct hydra *map, const word *window, const uint8_t *list,
                      int differences, int32_t *y)
{
    uint32_t t, k;
    for (t = 0; t < map->steps; t++)
        y[t] = 0;
    for (k = 0; k < map->together; k++)
        window_add(window + list[k], map->stride, map->steps, map->shift, map->limit, y);
    for (t = 0; differences && t < map->steps; t++)
        y[t] = t + 1 < map->steps ? y[t + 1] - y[t] : 0;
}

static void hydra_step(const int32_t *y, uint32_t d, const int16_t *weights, int64_t *sums,
                       uint32_t *counts)
{
    int32_t most = 0, least = 0, response;
    uint32_t winner = 0, loser = 0, k, g;
    for (k = 0; k < HYDRA_KERNELS; k++, weights += HYDRA_TAPS) {
        response = 0;
        for (g = 0; g < HYDRA_TAPS; g++)
            response += weights[g] * y[g * d];
        if (k == 0 || response > most) {
            most = response;
            winner = k;
        }
        if (k == 0 || response < least) {
            least = response;
            loser = k;
        }
    }
    sums[winner] += most;
    counts[loser]++;
}

static feature hydra_root(const struct hydra *map, double found, double by)
{
    double share = found / by;
    share = share > 1.0 ? 1.0 : share < 0.0 ? 0.0 : share;
    return feature_from_double(number_root_double(share), map->bits, map->bits);
}

/* y: (steps + 2 pad) numbers. */
static void hydra_row(const struct hydra *map, const word *window, int32_t *y, feature *row)
{
    uint32_t g, t, k;
    for (t = 0; t < map->steps + 2 * map->pad; t++)
        y[t] = 0;
    for (g = 0; g < map->groups; g++) {
        int64_t sums[HYDRA_KERNELS] = {0};
        uint32_t counts[HYDRA_KERNELS] = {0}, d = map->dilations[g];
        uint32_t length = map->steps - g % 2, n = length ? length : 1;
        const int32_t *first = y + map->pad - 4 * d;
        hydra_sum(map, window, map->lists + g * map->together, g % 2, y + map->pad);
        for (t = 0; t < length; t++)
            hydra_step(first + t, d, map->weights + g * HYDRA_KERNELS * HYDRA_TAPS, sums, counts);
        for (k = 0; k < HYDRA_KERNELS; k++) {
            *row++ = hydra_root(map, (double)sums[k], (double)n * map->unit);
            row[HYDRA_KERNELS - 1] = hydra_root(map, (double)counts[k], (double)n);
        }
        row += HYDRA_KERNELS;
    }
}
