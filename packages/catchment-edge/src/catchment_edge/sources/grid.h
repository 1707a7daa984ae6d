/* An echo-state map in fixed point in integers: C99, no floating point, no memory of its own.
 *
 * A value of d digits is an integer of 2^-d. The integers are the ones that the library's
 * float64 kernels hold as multiples of 2^-d, so that a device without floating point and a server
 * get the same feature rows and the same sums, to the last bit. Roundings are to nearest, ties to
 * even. packages/catchment/src/catchment/features/echo_state/activations.py defines the activations.
 *
 * With GRID_WORD 16, weights, states and indices take two bytes each: for maps of at most 15 bits
 * whose units are tanh, sigmoid or sin.
 */
#ifndef CATCHMENT_GRID_H
#define CATCHMENT_GRID_H

#include <stdint.h>

#ifndef GRID_WORD
#define GRID_WORD 32
#endif

#if GRID_WORD == 16
typedef int16_t grid_word;
typedef uint16_t grid_index;
#else
typedef int32_t grid_word;
typedef uint32_t grid_index;
#endif

enum grid_activation { GRID_TANH, GRID_SIGMOID, GRID_RELU, GRID_SIN, GRID_IDENTITY };
enum grid_pool { GRID_STEPS, GRID_LAST, GRID_MEAN, GRID_MEAN_STD, GRID_MAX };

/* Sparse rows: row i has the entries starts[i] .. starts[i + 1]. */
struct grid_rows {
    const uint32_t *starts;
    const grid_index *columns;
    const grid_word *values;
};

struct grid_layer {
    uint32_t units, inputs;
    int weight_digits;
    struct grid_rows recurrent, input;
    const grid_word *bias;     /* (units), of weight_digits */
    const int32_t *leak;       /* (units), of the map's leak_digits */
    const uint8_t *activation; /* (units), enum grid_activation */
};

struct grid_map {
    int digits; /* of inputs and states */
    int leak_digits;
    uint32_t inputs, units, layers; /* units: of all layers together */
    uint32_t cut_length, cut_warmup; /* 0: a sequence is never cut */
    const struct grid_layer *layer;
    uint8_t has_bias, has_input, has_state; /* which features there are */
    int pool;
    uint32_t segments, washout;
    int feature_bits;
    const int8_t *feature_digits; /* (base features) */
};

/* What a pool keeps of one base feature: sums about the part's first step, exact. */
struct grid_sum {
    int32_t reference, extreme;
    int64_t first;
    uint64_t second_high, second_low;
};

/* Room for one sequence under way; the caller provides all of it. */
struct grid_work {
    grid_word *x;          /* (units) */
    grid_word *next;       /* (units) */
    struct grid_sum *sums; /* (base features), with a pool */
    int32_t *row;          /* (features) */
};

/* Sums of a client's rows; triangles hold the upper half, row after row. */
struct grid_statistics {
    uint32_t features, targets;
    int feature_bits, target_bits; /* largest absolute values: 2^bits */
    int64_t rows;
    int64_t *feature_sum;  /* (F) */
    int64_t *target_sum;   /* (K) */
    int64_t *gram;         /* (F (F + 1) / 2) */
    int64_t *cross;        /* (F, K) */
    int64_t *target_gram;  /* (K (K + 1) / 2) */
};

typedef void (*grid_on_step)(void *context, uint32_t t, const int32_t *u, const grid_word *x);
typedef void (*grid_on_row)(void *context, const int32_t *row);

int64_t grid_round(int64_t value, int digits);
int32_t grid_activate(int code, int64_t p, int p_digits, int digits);
void grid_step(const struct grid_map *map, const int32_t *u, grid_word *x, grid_word *next);
void grid_states(const struct grid_map *map, const int32_t *u, uint32_t steps, grid_word *x,
                 grid_word *next, grid_on_step emit, void *context);

uint32_t grid_base_features(const struct grid_map *map);
uint32_t grid_features(const struct grid_map *map);
void grid_feature_rows(const struct grid_map *map, const int32_t *u, uint32_t steps,
                       const struct grid_work *work, grid_on_row emit, void *context);

/* Adds a row; 0 if a sum could pass 63 bits, and then nothing has been added. */
int grid_add_row(struct grid_statistics *sums, const int32_t *row, const int32_t *target);

#endif
