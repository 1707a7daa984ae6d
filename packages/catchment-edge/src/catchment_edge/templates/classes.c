
const char *const @NAME@_classes[@OUTPUTS@] = {
    @CLASS_NAMES@
};

int @NAME@_class(const float *scores)
{
    int k, best = 0;
    for (k = 1; k < @OUTPUTS@; k++)
        if (scores[k] > scores[best])
            best = k;
    return best;
}
