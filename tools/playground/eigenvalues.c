/* Eigenvalues of a real matrix: Householder reduction to Hessenberg form, then the implicit
 * double-shift QR iteration (Francis 1961; Golub and Van Loan, Matrix Computations, 7.4 and 7.5). */
#include "linear.h"

#define EPS 2.220446049250313e-16

enum { MOST_SWEEPS = 60 };

static double size(double x)
{
    return __builtin_fabs(x);
}

/* The reflection I - beta v v' that maps v on a multiple of the first axis; v[0] becomes 1. */
static double reflection(double *v, int n)
{
    double rest = 0.0, first = v[0], length, top;
    int i;
    for (i = 1; i < n; i++)
        rest += v[i] * v[i];
    v[0] = 1.0;
    if (rest == 0.0)
        return 0.0;
    length = __builtin_sqrt(first * first + rest);
    top = first <= 0.0 ? first - length : -rest / (first + length);
    for (i = 1; i < n; i++)
        v[i] /= top;
    return 2.0 * top * top / (rest + top * top);
}

/* Rows first .. first + n of A, columns from .. to, are reflected. */
static void reflect_rows(double *A, int width, int first, int n, int from, int to,
                         const double *v, double beta)
{
    int i, j;
    for (j = from; j < to; j++) {
        double along = 0.0;
        for (i = 0; i < n; i++)
            along += v[i] * A[(first + i) * width + j];
        for (i = 0; i < n; i++)
            A[(first + i) * width + j] -= beta * along * v[i];
    }
}

/* Columns first .. first + n of A, rows from .. to, are reflected. */
static void reflect_columns(double *A, int width, int first, int n, int from, int to,
                            const double *v, double beta)
{
    int i, j;
    for (i = from; i < to; i++) {
        double along = 0.0, *row = A + i * width + first;
        for (j = 0; j < n; j++)
            along += row[j] * v[j];
        for (j = 0; j < n; j++)
            row[j] -= beta * along * v[j];
    }
}

static void to_hessenberg(double *A, int n, double *v)
{
    int k, i;
    for (k = 0; k + 2 < n; k++) {
        int m = n - k - 1;
        double beta;
        for (i = 0; i < m; i++)
            v[i] = A[(k + 1 + i) * n + k];
        beta = reflection(v, m);
        reflect_rows(A, n, k + 1, m, k, n, v, beta);
        reflect_columns(A, n, k + 1, m, 0, n, v, beta);
        for (i = 1; i < m; i++)
            A[(k + 1 + i) * n + k] = 0.0;
    }
}

/* The first row of the block that ends in row `last`: above it the subdiagonal is next to zero,
 * measured by the diagonal beside it, or by the whole matrix where that is zero. */
static int block_start(double *H, int n, int last, double norm)
{
    int k;
    for (k = last; k > 0; k--) {
        double *below = H + k * n + k - 1;
        double beside = size(H[(k - 1) * n + k - 1]) + size(H[k * n + k]);
        if (size(*below) <= EPS * (beside > EPS * norm ? beside : norm)) {
            *below = 0.0;
            break;
        }
    }
    return k;
}

/* The larger absolute eigenvalue of the two rows that start at k. */
static double larger_of_two(const double *H, int n, int k)
{
    double a = H[k * n + k], b = H[k * n + k + 1], c = H[(k + 1) * n + k];
    double d = H[(k + 1) * n + k + 1], middle = 0.5 * (a + d), apart = 0.5 * (a - d);
    double inside = apart * apart + b * c;
    if (inside >= 0.0)
        return size(middle) + __builtin_sqrt(inside);
    return __builtin_sqrt(middle * middle - inside);
}

/* One double-shift sweep over rows first .. last; every tenth has shifts of its own. */
static void sweep(double *H, int n, int first, int last, int count)
{
    double *end = H + (last - 1) * n + last - 1;
    double sum = end[0] + end[n + 1], product = end[0] * end[n + 1] - end[1] * end[n], v[3];
    const double *top = H + first * n + first;
    int k;
    if (count % 10 == 9) {
        double far = size(end[n]) + size(end[-1]);
        sum = 1.5 * far;
        product = far * far;
    }
    v[0] = top[0] * top[0] + top[1] * top[n] - sum * top[0] + product;
    v[1] = top[n] * (top[0] + top[n + 1] - sum);
    v[2] = top[n] * top[2 * n + 1];
    for (k = first; k < last; k++) {
        int m = k + 2 <= last ? 3 : 2, from = k > first ? k - 1 : first;
        int to = k + 3 < last ? k + 3 : last, i;
        double beta = reflection(v, m);
        reflect_rows(H, n, k, m, from, last + 1, v, beta);
        reflect_columns(H, n, k, m, first, to + 1, v, beta);
        for (i = 0; i < 3 && k + 1 + i <= last; i++)
            v[i] = H[(k + 1 + i) * n + k];
    }
}

double linear_spectral_radius(double *A, int n)
{
    static double v[512];
    double largest = 0.0, norm = 0.0;
    int last = n - 1, count = 0, i;
    for (i = 0; i < n * n; i++)
        norm = size(A[i]) > norm ? size(A[i]) : norm;
    to_hessenberg(A, n, v);
    while (last >= 0) {
        int first = block_start(A, n, last, norm);
        double found = -1.0;
        if (first == last)
            found = size(A[last * n + last]);
        else if (first == last - 1)
            found = larger_of_two(A, n, first);
        if (found < 0.0) {
            if (count++ == MOST_SWEEPS)
                return -1.0;
            sweep(A, n, first, last, count);
            continue;
        }
        largest = found > largest ? found : largest;
        last = first - 1;
        count = 0;
    }
    return largest;
}
