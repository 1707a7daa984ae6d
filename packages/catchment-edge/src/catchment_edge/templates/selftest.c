
#ifdef @UP@_SELFTEST
@TABLES@


static uint32_t golden_rows(state *s, const int32_t *samples, uint32_t steps, double *total,
                            uint32_t *hash)
{
    value sample[@CHANNELS@], zero = 0;
    float scores[@OUTPUTS@];
    uint32_t t, i, found = 0;
    uint32_t j;
    @BEGINS@;
    for (i = 0; i < @OUTPUTS@; i++)
        total[i] = 0;
    *hash = 2166136261u;
    for (t = 0; t <= steps; t++) {
        int rows;
        for (i = 0; t < steps && i < @CHANNELS@; i++, samples++)
            sample[i] = *samples == INT32_MIN ? zero / zero : (value)*samples * golden_unit[i];
        rows = t < steps ? @NAME@_step(s, sample, scores) : @NAME@_finish(s, scores);
        if (rows < 0)
            return 0;
        for (j = 0; rows && j < @FEATURES@; j++) {
            int32_t k = s->row[j];
            *hash = (*hash ^ (uint32_t)k) * 16777619u;
        }
        for (i = 0; rows && i < @OUTPUTS@; i++)
            total[i] += (double)scores[i];
        found += (uint32_t)rows;
    }
    return found;
}


int @NAME@_selftest(struct @NAME@_state *s)
{
    const int32_t *samples = golden_samples;
    double total[@OUTPUTS@], error;
    uint32_t k, i, rows, hash;
    for (k = 0; k < @SAMPLES@; samples += golden_steps[k] * @CHANNELS@, k++) {
        rows = golden_rows(s, samples, golden_steps[k], total, &hash);
        if (rows == 0)
            return (int)k + 1;
        if (hash != golden_hashes[k])
            return (int)k + 1;
        for (i = 0; i < @OUTPUTS@; i++) {
            error = total[i] / rows - (double)golden_scores[k * @OUTPUTS@ + i];
            if (!(error <= (double)golden_tolerance[i] && -error <= (double)golden_tolerance[i]))
                return (int)k + 1;
        }
    }
    return 0;
}
#endif
