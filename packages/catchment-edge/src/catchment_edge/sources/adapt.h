/* A readout that adapts to its owner without labels; `model_adapt_start` comes first. */

#ifndef model_ADAPT_H
#define model_ADAPT_H

#include <stdint.h>

enum { model_FEATURES = 1, model_OUTPUTS = 1, model_ROWS = 1 };

struct model_adaptation {
    int16_t rows[model_ROWS][model_FEATURES];
    float weights[model_FEATURES][model_OUTPUTS], intercept[model_OUTPUTS];
    float first[model_ROWS][model_OUTPUTS], scores[model_ROWS][model_OUTPUTS];
    float Q[model_ROWS][model_ROWS], L[model_ROWS][model_ROWS], alpha[model_ROWS][model_OUTPUTS];
    float margin[model_ROWS], weight[model_ROWS]; /* the best score less the second best */
    uint16_t kept[model_ROWS];
    uint8_t label[model_ROWS];
    int32_t count, next;
};

/* Forgets all rows; the readout is that of the training. */
void model_adapt_start(struct model_adaptation *s);

/* Keeps a row of features; the oldest goes when there is no room. */
void model_adapt_add(struct model_adaptation *s, const int16_t *row);

/* Adapts to the rows that are kept; how many were learned from, 0 if too few would be renamed and
 * the readout stays that of the training, -1 if that cannot be solved. */
int model_adapt_run(struct model_adaptation *s);

void model_adapt_scores(const struct model_adaptation *s, const int16_t *row, float *scores);

#endif
