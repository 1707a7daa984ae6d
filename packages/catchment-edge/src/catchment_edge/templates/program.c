/* Samples as the map takes them; 0 if one cannot be. */
static int prepared(state *s, const value *sample, value *u)
{
    uint32_t i;
%% if not HOLDS
    (void)s;
%% endif
    for (i = 0; i < @CHANNELS@; i++)
        if (kind_of_double(sample[i]) @"== 2" if HOLDS else "!= 0"@)
            return 0;
    for (i = 0; i < @CHANNELS@; i++) {
%% if HOLDS
        if (kind_of_double(sample[i]) == 0) {
            s->held[i] = sample[i];
            s->known[i] = 1;
        }
%% endif
%% set raw = "s->held[i]" if HOLDS else "sample[i]"
%% set taken = "(%s - scale_mean[i]) / scale_size[i]" % raw if SCALED else raw
        u[i] = @"s->known[i] ? %s : 0" % taken if HOLDS else taken@;
    }
    return 1;
}

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

%# Takes the words of one step and says whether a row came out.
static int entered(state *s, const word *v)
{
%% if KEPT
    uint32_t t = s->t[0], i;
%% if BY_RECORDING
    if (t >= @KEPT@)
        return -1;
%% elif STEP > KEPT
    if (t >= @KEPT@) {
        s->t[0] = t + 1 == @STEP@ ? 0 : t + 1;
        return 0;
    }
%% endif
    for (i = 0; i < @WORDS@; i++)
        s->kept[t * @WORDS@ + i] = v[i];
    s->t[0] = t + 1;
%% if BY_RECORDING
    return 0;
%% else
    if (t + 1 < @KEPT@)
        return 0;
%% if STREAMS
    map_reset(s);
    for (t = 0; t < @KEPT@u; t++)
        map_step(s, s->kept + t * @WORDS@, t, @KEPT@u, s->row);
    map_row(s, s->kept + (@KEPT@u - 1) * @WORDS@, @KEPT@u - 1, s->row);
%% else
    map_window(s, s->kept, @KEPT@u, s->row);
%% endif
%% if STEP < KEPT
    /* The next window begins with what this one ends with. */
    for (i = 0; i < @(KEPT - STEP) * WORDS@; i++)
        s->kept[i] = s->kept[i + @STEP * WORDS@];
%% endif
    s->t[0] = @KEPT if STEP > KEPT else KEPT - STEP@;
    return 1;
%% endif
%% else
    uint32_t t = s->t[0];
%% if WINDOW
    if (t == 0)
        map_reset(s);
    s->t[0] = t + 1 == @STEP@ ? 0 : t + 1;
%% if STEP > WINDOW
    if (t >= @WINDOW@)
        return 0;
%% endif
%% elif BY_RECORDING
    uint32_t i;
%% if MOST
    if (t >= @MOST@)
        return -1;
%% endif
    s->t[0] = t + 1;
%% elif WASHOUT
    s->t[0] = t < @WASHOUT@ ? t + 1 : t;
%% endif
    map_step(s, v, t, @"%du" % WINDOW if WINDOW else "s->steps[0]" if COUNTED else 0@, s->row);
%% if BY_RECORDING
    for (i = 0; i < @WORDS@; i++)
        s->last[i] = v[i];
    return 0;
%% else
%% if not PER_STEP
    if (t + 1 < @WINDOW@)
        return 0;
%% elif WASHOUT
    if (t < @WASHOUT@)
        return 0;
%% endif
    map_row(s, v, t, s->row);
    return 1;
%% endif
%% endif
}

void @NAME@_reset(struct @NAME@_state *s)
{
%% if HOLDS
    uint32_t i;
%% endif
    s->t[0] = 0;
%% if HOLDS
    for (i = 0; i < @CHANNELS@; i++)
        s->known[i] = 0;
%% endif
%% if COUNTED
    s->steps[0] = 0;
%% endif
%% if STREAMS and not KEPT
    map_reset(s);
%% endif
}

%% if COUNTED
void @NAME@_begin(struct @NAME@_state *s, uint32_t steps)
{
    @NAME@_reset(s);
    s->steps[0] = steps;
}

%% endif
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

int @NAME@_finish(struct @NAME@_state *s, float *scores)
{
%% if BY_RECORDING
    uint32_t t = s->t[0];
    if (t < @LEAST@@" || t != s->steps[0]" if COUNTED@)
        return 0;
%% if KEPT
    map_window(s, s->kept, t, s->row);
%% else
    map_row(s, s->last, t - 1, s->row);
%% endif
    readout(s->row, scores);
    return 1;
%% else
    (void)s;
    (void)scores;
    return 0;
%% endif
}

%# Rows per step of a window come before it is whole; what is left at the end has none.
int @NAME@_predict(struct @NAME@_state *s, const @NAME@_value *samples, uint32_t steps,
            @" " * (NAME|length)@ float *scores)
{
    double total[@OUTPUTS@];
    uint32_t t, k, rows = 0;
    int found = 0;
    for (k = 0; k < @OUTPUTS@; k++)
        total[k] = 0;
    @BEGINS@;
%% if HOLDS
    for (k = 0; k < @CHANNELS@; k++) {
        for (t = 0; t < steps && kind_of_double(samples[t * @CHANNELS@ + k]) == 1; t++)
            ;
        if (t < steps) {
            s->held[k] = samples[t * @CHANNELS@ + k];
            s->known[k] = 1;
        }
    }
%% endif
%% if PER_STEP and WINDOW
    steps = steps < @WINDOW@ ? 0 : (steps - @WINDOW@) / @STEP@ * @STEP@ + @WINDOW@;
%% endif
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

%% if CLASSES
const char *const @NAME@_classes[@OUTPUTS@] = {
    @CLASSES@
};

int @NAME@_class(const float *scores)
{
    int k, best = 0;
    for (k = 1; k < @OUTPUTS@; k++)
        if (scores[k] > scores[best])
            best = k;
    return best;
}
%% endif
