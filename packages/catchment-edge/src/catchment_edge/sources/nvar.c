/* NVAR: a constant, delayed inputs and their products; what is the same in any numbers. */
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
