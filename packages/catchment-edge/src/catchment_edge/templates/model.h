/* @TITLE@
 *
@TOLD@
 */
#ifndef @UP@_H
#define @UP@_H

#include <stdint.h>

#define @UP@_CHANNELS @CHANNELS@
#define @UP@_OUTPUTS @OUTPUTS@
#define @UP@_WINDOW @WINDOW@ /* steps; 0: none */
#define @UP@_FEATURES @FEATURES@

#ifdef __cplusplus
extern "C" {
#endif

typedef double @NAME@_value; /* a raw sample of one channel */

/* All memory that there is. The caller provides it. */
struct @NAME@_state {
@FIELDS@
};

/* A recording begins. */
void @NAME@_reset(struct @NAME@_state *s);

%% if COUNTED
/* A recording of this many steps begins: its parts depend on its length. @NAME@_predict
 * does it by itself; after @NAME@_reset alone a recording has no scores. */
void @NAME@_begin(struct @NAME@_state *s, uint32_t steps);

%% endif
/* One sample of all channels. 1: the scores are new; 0: they are not;
 * -1: a sample is @BAD@: it is left out. */
int @NAME@_step(struct @NAME@_state *s, const @NAME@_value *sample, float *scores);

/* The recording ends. 1: the scores are of the whole recording; 0: there are none. */
int @NAME@_finish(struct @NAME@_state *s, float *scores);

/* A whole recording, step after step: the mean of its scores. 1, or as in step and finish. */
int @NAME@_predict(struct @NAME@_state *s, const @NAME@_value *samples, uint32_t steps, float *scores);

%% if CLASSES
extern const char *const @NAME@_classes[@OUTPUTS@];

/* The number of the class with the largest score. */
int @NAME@_class(const float *scores);

%% endif
#ifdef @UP@_SELFTEST
/* 0 if recordings with known scores have these scores; else the number of the first that has not,
 * counted from 1. */
int @NAME@_selftest(struct @NAME@_state *s);
#endif

#ifdef __cplusplus
}
#endif

#endif
