/* What adapts a readout to its owner, after the tables and settings of `adapt_code`. All is float32
 * but rows of features, whole numbers of 16 bits. The inverse of G + r I lies in flash, as a lower
 * triangle; it is read twice for every row, for Q and to move the weights by the rows kept. */

static float model_x[model_FEATURES], model_v[model_FEATURES]; /* a row about the training mean in its scale; the inverse times it */

static void model_load(const int16_t *row)
{
    int j;
    for (j = 0; j < model_FEATURES; j++)
        model_x[j] = ((float)row[j] - model_mean[j]) * model_unit[j];
}

static void model_multiply(void) /* the triangle is read once, in its order */
{
    int i, j;
    const float *p = model_inverse;
    for (i = 0; i < model_FEATURES; i++)
        model_v[i] = 0.0f;
    for (i = 0; i < model_FEATURES; i++) {
        float sum = 0.0f;
        const float xi = model_x[i];
        for (j = 0; j < i; j++, p++) {
            sum += *p * model_x[j];
            model_v[j] += *p * xi;
        }
        model_v[i] += sum + *p++ * xi;
    }
}

void model_adapt_start(struct model_adaptation *s)
{
    memset(s, 0, sizeof *s);
    memcpy(s->weights, model_start_weights, sizeof s->weights);
    memcpy(s->intercept, model_start_intercept, sizeof s->intercept);
}

void model_adapt_add(struct model_adaptation *s, const int16_t *row)
{
    memcpy(s->rows[s->next], row, sizeof s->rows[0]);
    s->next = (s->next + 1) % model_ROWS;
    if (s->count < model_ROWS)
        s->count++;
}

void model_adapt_scores(const struct model_adaptation *s, const int16_t *row, float *scores)
{
    int j, k;
    model_load(row);
    for (k = 0; k < model_OUTPUTS; k++)
        scores[k] = s->intercept[k];
    for (j = 0; j < model_FEATURES; j++)
        for (k = 0; k < model_OUTPUTS; k++)
            scores[k] += model_x[j] * s->weights[j][k];
}

static int model_keep(struct model_adaptation *s) /* rows with the largest margins of every class */
{
    int i, j, k, kept = 0;
    for (i = 0; i < s->count; i++) {
        float best = -FLT_MAX, second = -FLT_MAX;
        for (k = 0; k < model_OUTPUTS; k++) {
            const float one = s->scores[i][k];
            if (one > best) {
                second = best;
                best = one;
                s->label[i] = (uint8_t)k;
            } else if (one > second) {
                second = one;
            }
        }
        s->margin[i] = best - second;
    }
    for (i = 0; i < s->count; i++) {
        int same = 0, ahead = 0, limit;
        for (j = 0; j < s->count; j++)
            if (s->label[j] == s->label[i]) {
                same++;
                if (s->margin[j] > s->margin[i] || (s->margin[j] == s->margin[i] && j < i))
                    ahead++;
            }
        limit = (int)(model_SHARE * (float)same);
        if ((float)limit < model_SHARE * (float)same)
            limit++;
        if (ahead < limit) {
            float weight = model_PER_CLASS / (float)limit;
            if (weight > model_MOST)
                weight = model_MOST;
            if (s->count < model_ENOUGH)
                weight *= (float)s->count / (float)model_ENOUGH;
            s->weight[kept] = weight;
            s->kept[kept++] = (uint16_t)i;
        }
    }
    return kept;
}

static int model_solve(struct model_adaptation *s, int kept) /* what is left, by Cholesky */
{
    int i, j, k, m;
    for (i = 0; i < kept; i++)
        for (j = 0; j <= i; j++) {
            float sum = s->Q[s->kept[i]][s->kept[j]] + (i == j ? 1.0f / s->weight[i] : 0.0f);
            for (m = 0; m < j; m++)
                sum -= s->L[i][m] * s->L[j][m];
            if (i == j) {
                if (!(sum > 0.0f))
                    return 0;
                s->L[i][i] = sqrtf(sum);
            } else {
                s->L[i][j] = sum / s->L[j][j];
            }
        }
    for (k = 0; k < model_OUTPUTS; k++) {
        for (i = 0; i < kept; i++) {
            const int row = s->kept[i];
            float sum = (s->label[row] == k ? 1.0f : 0.0f) - s->first[row][k];
            for (m = 0; m < i; m++)
                sum -= s->L[i][m] * s->alpha[m][k];
            s->alpha[i][k] = sum / s->L[i][i];
        }
        for (i = kept - 1; i >= 0; i--) {
            float sum = s->alpha[i][k];
            for (m = i + 1; m < kept; m++)
                sum -= s->L[m][i] * s->alpha[m][k];
            s->alpha[i][k] = sum / s->L[i][i];
        }
    }
    return 1;
}

static int model_best(const float *scores)
{
    int k, best = 0;
    for (k = 1; k < model_OUTPUTS; k++)
        if (scores[k] > scores[best])
            best = k;
    return best;
}

int model_adapt_run(struct model_adaptation *s)
{
    int i, j, k, m, turn, kept = 0, renamed = 0;
    memcpy(s->weights, model_start_weights, sizeof s->weights);
    memcpy(s->intercept, model_start_intercept, sizeof s->intercept);
    for (i = 0; i < s->count; i++) {
        model_adapt_scores(s, s->rows[i], s->first[i]);
        memcpy(s->scores[i], s->first[i], sizeof s->scores[i]);
        model_multiply();
        for (j = 0; j <= i; j++) {
            float sum = model_PER_ROW;
            model_load(s->rows[j]);
            for (m = 0; m < model_FEATURES; m++)
                sum += model_v[m] * model_x[m];
            s->Q[i][j] = s->Q[j][i] = sum;
        }
    }
    for (turn = 0; turn < model_TURNS && s->count; turn++) {
        kept = model_keep(s);
        if (!model_solve(s, kept))
            return -1;
        for (i = 0; i < s->count; i++)
            for (k = 0; k < model_OUTPUTS; k++) {
                float sum = s->first[i][k];
                for (m = 0; m < kept; m++)
                    sum += s->Q[i][s->kept[m]] * s->alpha[m][k];
                s->scores[i][k] = sum;
            }
    }
    for (i = 0; i < s->count; i++)
        renamed += model_best(s->first[i]) != model_best(s->scores[i]);
    if (renamed < model_RENAMED) /* too few to go by: the readout stays as it was delivered */
        return 0;
    for (m = 0; m < kept; m++) {
        model_load(s->rows[s->kept[m]]);
        model_multiply();
        for (k = 0; k < model_OUTPUTS; k++) {
            s->intercept[k] += model_PER_ROW * s->alpha[m][k];
            for (j = 0; j < model_FEATURES; j++)
                s->weights[j][k] += model_v[j] * s->alpha[m][k];
        }
    }
    return kept;
}
