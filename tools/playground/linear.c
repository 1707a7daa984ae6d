/* Cholesky and least squares. Inner loops run along rows, which compilers turn into vectors. */
#include "linear.h"

#define EPS 2.220446049250313e-16

int linear_cholesky(double *A, double *b, int n)
{
    int i, j, k;
    for (k = 0; k < n; k++) {
        double *row = A + k * n, pivot = row[k];
        if (!(pivot > 0.0))
            return 0;
        pivot = __builtin_sqrt(pivot);
        for (j = k; j < n; j++)
            row[j] /= pivot;
        b[k] /= pivot;
        for (i = k + 1; i < n; i++) {
            double factor = row[i], *other = A + i * n;
            for (j = i; j < n; j++)
                other[j] -= factor * row[j];
            b[i] -= factor * b[k];
        }
    }
    for (k = n - 1; k >= 0; k--) {
        const double *row = A + k * n;
        for (j = k + 1; j < n; j++)
            b[k] -= row[j] * b[j];
        b[k] /= row[k];
    }
    return 1;
}

static void exchange_columns(double *A, int m, int width, int one, int other)
{
    int i;
    for (i = 0; i < m; i++) {
        double kept = A[i * width + one];
        A[i * width + one] = A[i * width + other];
        A[i * width + other] = kept;
    }
}

/* The squared lengths, from row `from` on, of columns from .. n. */
static void column_norms(const double *A, int m, int width, int from, int n, double *norms)
{
    int i, j;
    for (j = from; j < n; j++)
        norms[j] = 0.0;
    for (i = from; i < m; i++)
        for (j = from; j < n; j++)
            norms[j] += A[i * width + j] * A[i * width + j];
}

/* Zero column k below row k by a reflection, which all columns behind it take part in. */
static void eliminate(double *A, int m, int width, int k, double *row)
{
    double length = 0.0, top = A[k * width + k], share;
    int i, j;
    for (i = k; i < m; i++)
        length += A[i * width + k] * A[i * width + k];
    length = __builtin_sqrt(length);
    if (length == 0.0)
        return;
    length = top > 0.0 ? -length : length;
    A[k * width + k] = top - length;
    for (j = k + 1; j < width; j++)
        row[j] = 0.0;
    for (i = k; i < m; i++) {
        const double *line = A + i * width;
        double factor = line[k];
        for (j = k + 1; j < width; j++)
            row[j] += factor * line[j];
    }
    share = 1.0 / (length * (top - length));
    for (i = k; i < m; i++) {
        double *line = A + i * width, factor = share * line[k];
        for (j = k + 1; j < width; j++)
            line[j] += factor * row[j];
    }
    A[k * width + k] = length;
}

/* Factorize with the longest remaining column next; the number of columns that count. */
static int factorize(double *A, int m, int n, int width, int *order, double *norms, double *row)
{
    double least = 0.0;
    int j, k;
    column_norms(A, m, width, 0, n, norms);
    for (j = 0; j < n; j++)
        order[j] = j;
    for (k = 0; k < n; k++) {
        int best = k, kept;
        if (k % 8 == 0)
            column_norms(A, m, width, k, n, norms);
        for (j = k + 1; j < n; j++)
            if (norms[j] > norms[best])
                best = j;
        exchange_columns(A, m, width, k, best);
        norms[best] = norms[k];
        kept = order[k];
        order[k] = order[best];
        order[best] = kept;
        eliminate(A, m, width, k, row);
        if (k == 0)
            least = __builtin_fabs(A[0]) * EPS * (double)m;
        if (__builtin_fabs(A[k * width + k]) <= least)
            return k;
        for (j = k + 1; j < n; j++)
            norms[j] -= A[k * width + j] * A[k * width + j];
    }
    return n;
}

void linear_least_squares(double *A, int m, int n, int k, double *weights, int *order,
                          double *norms, double *row)
{
    int width = n + k, rank = factorize(A, m, n, width, order, norms, row), i, j, c;
    for (i = 0; i < n * k; i++)
        weights[i] = 0.0;
    for (i = rank - 1; i >= 0; i--) {
        double *line = A + i * width;
        for (j = i + 1; j < rank; j++) {
            const double *solved = weights + order[j] * k;
            for (c = 0; c < k; c++)
                line[n + c] -= line[j] * solved[c];
        }
        for (c = 0; c < k; c++)
            weights[order[i] * k + c] = line[n + c] / line[i];
    }
}
