/* Products of delayed inputs in float. */
static void nvar_triples(const struct nvar *map, const word *x, feature *row)
{
    uint32_t n = map->inputs * map->delays, i, j, k;
    for (i = 0; i < n; i++)
        for (j = i; j < n; j++) {
            float pair = x[i] * x[j];
            for (k = j; k < n; k++)
                *row++ = feature_from_double(pair * x[k], map->bits - 9, map->bits);
        }
}

static void nvar_row(const struct nvar *map, const word *x, feature *row)
{
    uint32_t n = map->inputs * map->delays, i, j;
    int bits = map->bits;
    *row++ = 1.0f;
    for (i = 0; i < n; i++)
        *row++ = feature_from_double(x[i], bits - 3, bits);
    for (i = 0; map->order > 1 && i < n; i++)
        for (j = i; j < n; j++) {
            float pair = x[i] * x[j];
            *row++ = feature_from_double(pair, bits - 6, bits);
        }
    if (map->order > 2)
        nvar_triples(map, x, row);
}
