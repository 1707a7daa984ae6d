
static void readout(const feature *row, float *scores)
{
    const int32_t *w = readout_weights;
    uint32_t j, k;
    for (k = 0; k < @OUTPUTS@; k++, w += @FEATURES@) {
        int64_t sum = readout_intercept[k];
        for (j = 0; j < @FEATURES@; j++)
            sum += (int64_t)w[j] * row[j];
        scores[k] = (float)sum * readout_unit[k];
    }
}
