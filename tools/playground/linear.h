/* Small linear algebra on dense rows: eigenvalues, Cholesky, least squares. No memory of its own. */
#ifndef PLAY_LINEAR_H
#define PLAY_LINEAR_H

/* The largest absolute eigenvalue of A (n, n), which is overwritten; -1 if it was not found. */
double linear_spectral_radius(double *A, int n);

/* Solve A x = b for a symmetric positive A (n, n) given by its upper triangle; both are
 * overwritten, b by x. Returns 0 if A is singular. */
int linear_cholesky(double *A, double *b, int n);

/* Least squares of k targets on n columns: A (m, n + k) has the targets behind the columns, and is
 * overwritten; the weights (n, k) go to `weights`. `order` and `norms` have room for n, `row` for
 * n + k. Columns that others explain, but for rounding, get weight 0. */
void linear_least_squares(double *A, int m, int n, int k, double *weights, int *order,
                          double *norms, double *row);

#endif
