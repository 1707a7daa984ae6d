"""Adapting without labels on a device: the rule of `catchment.readout.adapt` as C, in float32.

Feature rows are kept as they are computed, integers of 16 bits. Everything else is float32: a
Cholesky factor in fixed point would need a scale of its own in every row. The inverse of G + r I
lies in flash, as a lower triangle. While rows come, each costs a copy; adapting reads the triangle
twice for every row, once for Q and once to move the weights by the rows kept.

    NAME_adapt_add(state, row)      keep a row; the oldest goes when `rows` are there
    NAME_adapt_run(state)           adapt to the rows that are kept; how many were learned from
    NAME_adapt_scores(state, row, scores)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from catchment import Array
from catchment.readout import Model, SelfTraining, needed, rescaled, scale_of

SOURCE = r"""
static float @_x[F], @_v[F]; /* a row about the training mean in its scale; the inverse times it */

static void @_load(const int16_t *row)
{
    int j;
    for (j = 0; j < F; j++)
        @_x[j] = ((float)row[j] - @_mean[j]) * @_unit[j];
}

static void @_multiply(void) /* the triangle is read once, in its order */
{
    int i, j;
    const float *p = @_inverse;
    for (i = 0; i < F; i++)
        @_v[i] = 0.0f;
    for (i = 0; i < F; i++) {
        float sum = 0.0f;
        const float xi = @_x[i];
        for (j = 0; j < i; j++, p++) {
            sum += *p * @_x[j];
            @_v[j] += *p * xi;
        }
        @_v[i] += sum + *p++ * xi;
    }
}

void @_adapt_start(struct @_adaptation *s)
{
    memset(s, 0, sizeof *s);
    memcpy(s->weights, @_start_weights, sizeof s->weights);
    memcpy(s->intercept, @_start_intercept, sizeof s->intercept);
}

void @_adapt_add(struct @_adaptation *s, const int16_t *row)
{
    memcpy(s->rows[s->next], row, sizeof s->rows[0]);
    s->next = (s->next + 1) % N;
    if (s->count < N)
        s->count++;
}

void @_adapt_scores(const struct @_adaptation *s, const int16_t *row, float *scores)
{
    int j, k;
    @_load(row);
    for (k = 0; k < K; k++)
        scores[k] = s->intercept[k];
    for (j = 0; j < F; j++)
        for (k = 0; k < K; k++)
            scores[k] += @_x[j] * s->weights[j][k];
}

static int @_keep(struct @_adaptation *s) /* rows with the largest margins of every class */
{
    int i, j, k, kept = 0;
    for (i = 0; i < s->count; i++) {
        float best = -FLT_MAX, second = -FLT_MAX;
        for (k = 0; k < K; k++) {
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
        limit = (int)(@_SHARE * (float)same);
        if ((float)limit < @_SHARE * (float)same)
            limit++;
        if (ahead < limit) {
            float weight = @_PER_CLASS / (float)limit;
            if (weight > @_MOST)
                weight = @_MOST;
            if (s->count < @_ENOUGH)
                weight *= (float)s->count / (float)@_ENOUGH;
            s->weight[kept] = weight;
            s->kept[kept++] = (uint16_t)i;
        }
    }
    return kept;
}

static int @_solve(struct @_adaptation *s, int kept) /* what is left, by Cholesky */
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
    for (k = 0; k < K; k++) {
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

int @_adapt_run(struct @_adaptation *s)
{
    int i, j, k, m, turn, kept = 0;
    memcpy(s->weights, @_start_weights, sizeof s->weights);
    memcpy(s->intercept, @_start_intercept, sizeof s->intercept);
    for (i = 0; i < s->count; i++) {
        @_adapt_scores(s, s->rows[i], s->first[i]);
        memcpy(s->scores[i], s->first[i], sizeof s->scores[i]);
        @_multiply();
        for (j = 0; j <= i; j++) {
            float sum = @_PER_ROW;
            @_load(s->rows[j]);
            for (m = 0; m < F; m++)
                sum += @_v[m] * @_x[m];
            s->Q[i][j] = s->Q[j][i] = sum;
        }
    }
    for (turn = 0; turn < @_TURNS && s->count; turn++) {
        kept = @_keep(s);
        if (!@_solve(s, kept))
            return -1;
        for (i = 0; i < s->count; i++)
            for (k = 0; k < K; k++) {
                float sum = s->first[i][k];
                for (m = 0; m < kept; m++)
                    sum += s->Q[i][s->kept[m]] * s->alpha[m][k];
                s->scores[i][k] = sum;
            }
    }
    for (m = 0; m < kept; m++) {
        @_load(s->rows[s->kept[m]]);
        @_multiply();
        for (k = 0; k < K; k++) {
            s->intercept[k] += @_PER_ROW * s->alpha[m][k];
            for (j = 0; j < F; j++)
                s->weights[j][k] += @_v[j] * s->alpha[m][k];
        }
    }
    return kept;
}
"""
HEADER = """
#include <stdint.h>
enum { @_FEATURES = F, @_OUTPUTS = K, @_ROWS = N };
struct @_adaptation {
    int16_t rows[N][F];
    float weights[F][K], intercept[K], first[N][K], scores[N][K], alpha[N][K];
    float Q[N][N], L[N][N], margin[N], weight[N];
    uint16_t kept[N];
    uint8_t label[N];
    int32_t count, next;
};
void @_adapt_start(struct @_adaptation *s);
void @_adapt_add(struct @_adaptation *s, const int16_t *row);
int @_adapt_run(struct @_adaptation *s);
void @_adapt_scores(const struct @_adaptation *s, const int16_t *row, float *scores);
"""


@dataclass(frozen=True)
class AdaptCode:
    """C that adapts a model on a device, and what it takes.

    Parameters
    ----------
    source, header
        Two files, `NAME_adapt.c` and `NAME_adapt.h`.
    ram, flash
        Bytes of its state and of its constants.
    operations
        Multiplications with additions of one adaptation to a full store, at most.
    """

    name: str
    source: str
    header: str
    ram: int
    flash: int
    operations: int

    def write(self, folder: str | Path) -> tuple[Path, Path]:
        """Write both files and return their paths."""
        paths = Path(folder, f"{self.name}_adapt.c"), Path(folder, f"{self.name}_adapt.h")
        for path, content in zip(paths, (self.source, self.header), strict=True):
            path.write_text(content, encoding="utf-8")
        return paths


def adapt_code(
    model: Model, *, rows: int = 32, name: str = "model", rule: SelfTraining | None = None
) -> AdaptCode:
    """Return C that adapts a model, with the sums it carries, to the last rows of its owner.

    Parameters
    ----------
    model
        Of classes, in fixed point, with its sums (`adaptable=True`).
    rows
        How many feature rows the device keeps.
    name
        What functions and files begin with.
    """
    how, (statistics, classes) = rule or SelfTraining(), needed(model)
    if statistics.fixed is None or statistics.fixed.bits > 15 or np.ndim(model.readout.ridge):
        raise ValueError(
            "the device keeps rows as integers of 16 bits and has one ridge for all outputs; use a "
            "map in fixed point of up to 15 bits, such as the default, and per_output=False"
        )
    if not 1 <= rows <= 1024:
        raise ValueError(f"rows is {rows}; keep 1 to 1024 of them")
    F, K, N = statistics.n_features, len(classes), rows
    floats, scale = statistics.floats, scale_of(statistics, model.features.standardize)
    d = np.ones(F) if scale is None else scale
    G, _ = rescaled(floats, scale).moments()
    G[np.diag_indices_from(G)] += float(model.readout.ridge)
    inverse = cho_solve(cho_factor(G, lower=True), np.eye(F))
    mean, unit = floats.feature_sum / floats.weight, statistics.fixed.scale
    tables = {
        "mean": mean / unit,
        "unit": unit / d,
        "start_intercept": model.readout.intercept + mean @ model.readout.weights,
        "start_weights": (model.readout.weights * d[:, None]).ravel(),
        "inverse": inverse[np.tril_indices(F)],
    }
    numbers = {
        "SHARE": _c(how.share),
        "MOST": _c(how.most),
        "PER_CLASS": _c(how.weight * floats.weight / K),
        "PER_ROW": _c(1.0 / floats.weight),
        "ENOUGH": str(how.enough),
        "TURNS": str(how.iterations),
    }
    lines = [f'#include "{name}_adapt.h"', "#include <float.h>", "#include <math.h>"]
    lines += ["#include <string.h>", *(f"#define @_{k} {v}" for k, v in numbers.items())]
    lines += [line for key, values in tables.items() for line in _table(key, values)]
    source, header = "\n".join(lines) + SOURCE, HEADER
    sizes = {"F": F, "K": K, "N": N}
    ram = 2 * N * F + 4 * (F * K + K + 3 * N * K + 2 * N * N + 2 * N + 2 * F + 2) + 3 * N
    products = 2 * N * F * F + N * N * F // 2 + 2 * N * F * K
    products += how.iterations * (N**3 // 6 + 2 * N * N * K)
    flash = 4 * sum(map(np.size, tables.values()))
    return AdaptCode(name, _with(source, name, sizes), _with(header, name, sizes),
                     ram, flash, products)  # fmt: skip


def _with(text: str, name: str, sizes: dict[str, int]) -> str:
    """Return a text with the name in its place, and the sizes where arrays and loops have them."""
    for letter, size in sizes.items():
        for before, after in (("[", "]"), ("= ", ","), ("= ", " }"), ("< ", ";"), ("% ", ";")):
            text = text.replace(f"{before}{letter}{after}", f"{before}{size}{after}")
    return text.replace("count < N)", f"count < {sizes['N']})").replace("@", name).lstrip()


def _c(value: float) -> str:
    return f"{np.float32(value):.9g}f" if value % 1 else f"{value:.1f}f"


def _table(key: str, values: Array) -> Iterator[str]:
    """Yield an array of float32 constants."""
    yield f"static const float @_{key}[{len(values)}] = {{"
    for start in range(0, len(values), 8):
        yield ", ".join(f"{x:.9e}f" for x in values[start : start + 8].astype(np.float32)) + ","
    yield "};"
