/* SPDX-License-Identifier: BSD-3-Clause */
/* The three LAPACK calls of ridge.c in plain loops, so that the library can be built for a test on a machine without LAPACK. */
#include <math.h>

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b, const int *ldb,
             int *info);
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b, const int *ldb, int *info);

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info)
{
    (void)uplo; /* "L" */
    *info = 0;
    for (int j = 0; j < *n; j++)
        for (int i = j; i < *n; i++) {
            double sum = a[i + j * *lda];
            for (int k = 0; k < j; k++)
                sum -= a[i + k * *lda] * a[j + k * *lda];
            if (i == j && !(sum > 0)) {
                *info = j + 1;
                return;
            }
            a[i + j * *lda] = i == j ? sqrt(sum) : sum / a[j + j * *lda];
        }
}

void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b, const int *ldb,
             int *info)
{
    (void)uplo;
    *info = 0;
    for (int c = 0; c < *nrhs; c++) {
        double *x = b + c * *ldb;
        for (int i = 0; i < *n; i++) {
            for (int k = 0; k < i; k++)
                x[i] -= a[i + k * *lda] * x[k];
            x[i] /= a[i + i * *lda];
        }
        for (int i = *n - 1; i >= 0; i--) {
            for (int k = i + 1; k < *n; k++)
                x[i] -= a[k + i * *lda] * x[k];
            x[i] /= a[i + i * *lda];
        }
    }
}

void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b, const int *ldb, int *info)
{
    *info = 0;
    for (int j = 0; j < *n; j++) {
        int p = j;
        for (int i = j; i < *n; i++)
            p = fabs(a[i + j * *lda]) > fabs(a[p + j * *lda]) ? i : p;
        pivots[j] = p + 1;
        if (a[p + j * *lda] == 0) {
            *info = j + 1;
            return;
        }
        for (int c = 0; c < *n; c++) {
            double t = a[p + c * *lda];
            a[p + c * *lda] = a[j + c * *lda];
            a[j + c * *lda] = t;
        }
        for (int c = 0; c < *nrhs; c++) {
            double t = b[p + c * *ldb];
            b[p + c * *ldb] = b[j + c * *ldb];
            b[j + c * *ldb] = t;
        }
        for (int i = j + 1; i < *n; i++) {
            double f = a[i + j * *lda] / a[j + j * *lda];
            for (int c = j; c < *n; c++)
                a[i + c * *lda] -= f * a[j + c * *lda];
            for (int c = 0; c < *nrhs; c++)
                b[i + c * *ldb] -= f * b[j + c * *ldb];
        }
    }
    for (int c = 0; c < *nrhs; c++)
        for (int i = *n - 1; i >= 0; i--) {
            for (int k = i + 1; k < *n; k++)
                b[i + c * *ldb] -= a[i + k * *lda] * b[k + c * *ldb];
            b[i + c * *ldb] /= a[i + i * *lda];
        }
}
