
int @NAME@_predict(struct @NAME@_state *s, const @NAME@_value *samples, uint32_t steps,
@INDENT@float *scores)
{
    double total[@OUTPUTS@];
    uint32_t t, k, rows = 0;
    int found = 0;
    for (k = 0; k < @OUTPUTS@; k++)
        total[k] = 0;
    @BEGINS@;@HELD@@CUT@
    for (t = 0; t <= steps; t++) {
        found = t < steps ? @NAME@_step(s, samples + t * @CHANNELS@, scores) : @NAME@_finish(s, scores);
        if (found < 0)
            return found;
        for (k = 0; found && k < @OUTPUTS@; k++)
            total[k] += (double)scores[k];
        rows += (uint32_t)found;
    }
    for (k = 0; rows && k < @OUTPUTS@; k++)
        scores[k] = (float)(total[k] / rows);
    return rows > 0;
}
