/* Products of delayed inputs of 22 digits each, in integers. */
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
