/* NVAR: a constant, delayed inputs and their products; in integers of 22 digits. */
struct nvar {
    uint32_t inputs, delays, stride, order;
    int bits;
};

/* The ring holds the inputs of `reach` steps; *at is where the present ones are. */
static uint32_t nvar_reach(const struct nvar *map)
{
    return (map->delays - 1) * map->stride + 1;
}

static void nvar_reset(const struct nvar *map, word *ring, uint32_t *at)
{
    uint32_t i;
    for (i = 0; i < nvar_reach(map) * map->inputs; i++)
        ring[i] = 0;
    *at = 0;
}

static void nvar_step(const struct nvar *map, word *ring, uint32_t *at, const word *v)
{
    uint32_t i;
    *at = *at + 1 < nvar_reach(map) ? *at + 1 : 0;
    for (i = 0; i < map->inputs; i++)
        ring[*at * map->inputs + i] = v[i];
}

/* x: (delays, inputs) numbers, the present ones first. */
static void nvar_delayed(const struct nvar *map, const word *ring, uint32_t at, word *x)
{
    uint32_t d, i;
    for (d = 0; d < map->delays; d++) {
        for (i = 0; i < map->inputs; i++)
            *x++ = ring[at * map->inputs + i];
        at = at >= map->stride ? at - map->stride : at + nvar_reach(map) - map->stride;
    }
}

enum { NVAR_DIGITS = 22 };

static void nvar_triples(const struct nvar *map, const word *x, feature *row)
{
    uint32_t n = map->inputs * map->delays, i, j, k;
    for (i = 0; i < n; i++)
        for (j = i; j < n; j++) {
            int64_t pair = x[i];
            pair = number_round(pair * x[j], NVAR_DIGITS);
            for (k = j; k < n; k++)
                *row++ = feature_from_whole(pair * x[k], 2 * NVAR_DIGITS, map->bits - 9, map->bits);
        }
}

static void nvar_row(const struct nvar *map, const word *x, feature *row)
{
    uint32_t n = map->inputs * map->delays, i, j;
    int bits = map->bits;
    *row++ = feature_from_whole(1, 0, bits, bits);
    for (i = 0; i < n; i++)
        *row++ = feature_from_whole(x[i], NVAR_DIGITS, bits - 3, bits);
    for (i = 0; map->order > 1 && i < n; i++)
        for (j = i; j < n; j++) {
            int64_t pair = x[i];
            pair *= x[j];
            *row++ = feature_from_whole(pair, 2 * NVAR_DIGITS, bits - 6, bits);
        }
    if (map->order > 2)
        nvar_triples(map, x, row);
}
