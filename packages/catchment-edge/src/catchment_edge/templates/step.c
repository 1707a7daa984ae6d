
int @NAME@_step(struct @NAME@_state *s, const @NAME@_value *sample, float *scores)
{
    value u[@CHANNELS@];
    word v[@WORDS@];
    int found;
    if (!prepared(s, sample, u))
        return -1;
    map_enter(u, v);
    found = entered(s, v);
    if (found > 0)
        readout(s->row, scores);
    return found;
}
