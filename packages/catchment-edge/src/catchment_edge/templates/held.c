
    for (k = 0; k < @CHANNELS@; k++) {
        for (t = 0; t < steps && kind_of_double(samples[t * @CHANNELS@ + k]) == 1; t++)
            ;
        if (t < steps) {
            s->held[k] = samples[t * @CHANNELS@ + k];
            s->known[k] = 1;
        }
    }
