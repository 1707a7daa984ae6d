
static const struct grid_layer @P@_layers[] = {
%% for one in LAYERS
%% set name = P ~ "_" ~ loop.index0
    {@one.n_units@, @one.n_inputs@, @one.weight_digits@,
     {@name@_recurrent_starts, @name@_recurrent_columns, @name@_recurrent_values},
     {@name@_input_starts, @name@_input_columns, @name@_input_values},
     @name@_bias, @name@_leak, @name@_activation}@"," if not loop.last@
%% endfor
};

static const struct grid_map @P@_map = {
    @DIGITS@, @LEAK_DIGITS@, @INPUTS@, @UNITS@, @LAYERS|length@, @L@, @M@, @P@_layers,
    @READ|join(", ")@, @SEGMENTS@, @WASHOUT@,
    @BITS@, @P@_digits
};

static void @P@_enter(const value *u, word *v)
{
    uint32_t i;
    for (i = 0; i < @INPUTS@; i++)
        v[i] = double_on_grid(u[i], @DIGITS@, @REACH@);
}

%% if SUMS
static void @P@_empty(state *s)
{
    uint32_t i;
    for (i = 0; i < @BASE@; i++) {
%% for _, name, start in SUMS
        s->@P@_@name@[i] = @start@;
%% endfor
    }
}

%% endif
static void @P@_reset(state *s)
{
    uint32_t i;
    for (i = 0; i < @UNITS@; i++)
        s->@P@_x[i] = 0;
%% if CUT
    s->@P@_place[0] = 0;
%% endif
%% if SEGMENTS > 1
    s->@P@_part[0] = 0;
%% endif
%% if SUMS
    @P@_empty(s);
%% endif
}

static void @P@_write(state *s, const word *v, uint32_t steps, feature *row)
{
    uint32_t j;
%% if POOL == "mean_std"
    struct grid_sum sum;
%% endif
    (void)v;
    (void)steps;
    for (j = 0; j < @BASE@; j++) {
%% if POOL == "max"
        row[j] = (feature)on_feature_grid(&@P@_map, j, s->@P@_extreme[j]);
%% elif POOL in ("mean", "mean_std")
        row[j] = (feature)mean_on_grid(&@P@_map, j, s->@P@_first[j], steps);
%% else
        row[j] = (feature)on_feature_grid(&@P@_map, j, base_feature(&@P@_map, j, v, s->@P@_x));
%% endif
%% if POOL == "mean_std"
        sum.first = s->@P@_first[j];
        sum.second_low = s->@P@_second[j];
        sum.second_high = @"s->%s_above[j]" % P if WIDE else 0@;
        row[@BASE@ + j] = (feature)deviation_on_grid(&@P@_map, j, &sum, steps);
%% endif
    }
}

%# A part of a cut sequence warms up beside the one before: part k of L steps starts from rest at
%# step k L - M.
static void @P@_step(state *s, const word *v, uint32_t t, uint32_t steps, feature *row)
{
%% if CUT
    uint32_t i;
%% endif
%% if SUMS
    uint32_t j;
%% endif
%% if SEGMENTS > 1
    uint32_t part, begin, end;
%% endif
    (void)t;
    (void)steps;
    (void)row;
%% if CUT
    if (s->@P@_place[0] == @L@) {
        s->@P@_place[0] = 0;
        for (i = 0; i < @UNITS@; i++)
            s->@P@_x[i] = s->@P@_warm[i];
    }
    if (s->@P@_place[0] == @L - M@)
        for (i = 0; i < @UNITS@; i++)
            s->@P@_warm[i] = 0;
%% if M < L
    if (s->@P@_place[0] >= @L - M@)
        grid_step(&@P@_map, v, s->@P@_warm, s->@P@_next);
%% else
    grid_step(&@P@_map, v, s->@P@_warm, s->@P@_next);
%% endif
%% endif
    grid_step(&@P@_map, v, s->@P@_x, s->@P@_next);
%% if CUT
    s->@P@_place[0]++;
%% endif
%% if WASHOUT and (SUMS or SEGMENTS > 1)
    if (t < @WASHOUT@)
        return;
%% endif
%% if SUMS
    for (j = 0; j < @BASE@; j++) {
        int32_t x = base_feature(&@P@_map, j, v, s->@P@_x);
%% if POOL == "max"
        if (x > s->@P@_extreme[j])
            s->@P@_extreme[j] = x;
%% else
%% if POOL == "mean_std"
        uint64_t square = (uint64_t)((int64_t)x * x);
        s->@P@_second[j] += square;
%% if WIDE
        s->@P@_above[j] += s->@P@_second[j] < square;
%% endif
%% endif
        s->@P@_first[j] += x;
%% endif
    }
%% endif
%% if SEGMENTS > 1
    part = s->@P@_part[0];
    begin = (uint32_t)((uint64_t)(steps - @WASHOUT@) * part / @SEGMENTS@);
    end = (uint32_t)((uint64_t)(steps - @WASHOUT@) * (part + 1) / @SEGMENTS@);
    if (t + 1 - @WASHOUT@ == end) {
        @P@_write(s, v, end - begin, row + part * @FEATURES // SEGMENTS@);
        s->@P@_part[0]++;
%% if SUMS
        @P@_empty(s);
%% endif
    }
%% endif
}

static void @P@_row(state *s, const word *v, uint32_t t, feature *row)
{
%% if SEGMENTS > 1
    (void)s;
    (void)v;
    (void)t;
    (void)row;
%% else
    @P@_write(s, v, t + 1 - @WASHOUT@, row);
%% endif
}
