/* SPDX-License-Identifier: BSD-3-Clause */
/* dpotrf, dpotrs (Cholesky, lower triangle) and dgesv (pivoted LU) with LAPACK's calling
   convention: column-major, 32-bit sizes, everything by address. Written for systems of at most
   some hundred unknowns. They are hidden in the shared library, so a LAPACK that NumPy brought into
   the process is neither used nor disturbed. */
#include <math.h>

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda,
             double *b, const int *ldb, int *info);
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b,
            const int *ldb, int *info);

/* y -= x * factor, m numbers */
static void subtract(double *y, const double *x, double factor, int m)
{
    for (int i = 0; i < m; i++)
        y[i] -= x[i] * factor;
}

/* A = L L'. info: j where the leading minor of order j is not positive; -1 for another triangle,
   which nobody here asks for. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info)
{
    long stride = *lda;
    *info = *uplo == 'L' || *uplo == 'l' ? 0 : -1;
    for (int j = 0; j < *n && *info == 0; j++) {
        double *column = a + j * stride;
        for (int k = 0; k < j; k++)
            subtract(column + j, a + k * stride + j, a[k * stride + j], *n - j);
        if (!(column[j] > 0)) {
            *info = j + 1;
            return;
        }
        column[j] = sqrt(column[j]);
        for (int i = j + 1; i < *n; i++)
            column[i] /= column[j];
    }
}

void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda,
             double *b, const int *ldb, int *info)
{
    long stride = *lda;
    *info = *uplo == 'L' || *uplo == 'l' ? 0 : -1;
    for (int r = 0; r < *nrhs && *info == 0; r++) {
        double *x = b + r * (long)*ldb;
        for (int j = 0; j < *n; j++) { /* L y = b */
            x[j] /= a[j * stride + j];
            subtract(x + j + 1, a + j * stride + j + 1, x[j], *n - j - 1);
        }
        for (int j = *n - 1; j >= 0; j--) { /* L' x = y */
            double sum = x[j];
            for (int i = j + 1; i < *n; i++)
                sum -= a[j * stride + i] * x[i];
            x[j] = sum / a[j * stride + j];
        }
    }
}

static void swap_rows(double *a, long stride, int columns, int i, int j)
{
    for (int c = 0; c < columns && i != j; c++) {
        double kept = a[c * stride + i];
        a[c * stride + i] = a[c * stride + j];
        a[c * stride + j] = kept;
    }
}

/* P A = L U, the largest entry of each column as pivot. info: j where that is zero; then nothing is
   solved. */
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b,
            const int *ldb, int *info)
{
    long sa = *lda, sb = *ldb;
    *info = 0;
    for (int j = 0; j < *n; j++) {
        int largest = j;
        for (int i = j + 1; i < *n; i++)
            if (fabs(a[j * sa + i]) > fabs(a[j * sa + largest]))
                largest = i;
        pivots[j] = largest + 1;
        swap_rows(a, sa, *n, j, largest);
        swap_rows(b, sb, *nrhs, j, largest);
        if (a[j * sa + j] == 0) {
            *info = *info ? *info : j + 1;
            continue;
        }
        for (int i = j + 1; i < *n; i++)
            a[j * sa + i] /= a[j * sa + j];
        for (int c = j + 1; c < *n; c++)
            subtract(a + c * sa + j + 1, a + j * sa + j + 1, a[c * sa + j], *n - j - 1);
    }
    for (int r = 0; r < *nrhs && *info == 0; r++) {
        double *x = b + r * sb;
        for (int j = 0; j < *n; j++)
            subtract(x + j + 1, a + j * sa + j + 1, x[j], *n - j - 1);
        for (int j = *n - 1; j >= 0; j--) {
            x[j] /= a[j * sa + j];
            subtract(x, a + j * sa, x[j], j);
        }
    }
}
