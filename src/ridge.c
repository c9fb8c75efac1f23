/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and moments -> new centroids and corrections: one small solve in double per cluster (harmony2.md section 5). */
#include <math.h>
#include <string.h>

#include "error.h"
#include "formula.h"
#include "method.h"

/* LAPACK, column-major */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b, const int *ldb, int *info);
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b, const int *ldb, int *info);

static const double DEGENERATE = 1e-10;
enum { DENSE_LEVELS = 500 }; /* most levels of a dense system; beyond it the closed form, which needs no matrix, serves */

struct solve {
    struct uni_ridge *ridge;
    float *W, *Y;
    const double *S, *O, *E;
    const struct uni_problem *p;
    /* per cluster: (K,G) each, (K,D); counts and parts of the change (K) */
    double *kept_O, *lambda, *c, *pruned, *moved, *size;
    double *dense; /* (DENSE) work of the one task that needs it; clusters are then solved one after another */
    unsigned char *degenerate;
};

int64_t uni_ridge_scratch(int64_t K, int64_t D, int64_t G)
{
    int64_t m = (G < DENSE_LEVELS ? G : DENSE_LEVELS) + 1;
    return 2 * K * G + K * D + 3 * K + (K + 7) / 8 + 2 * m * m + 2 * m * D + m;
}

/* Kept levels of cluster k, their O and lambda; the others get O = 0. Returns how many are kept. */
static int64_t choose_levels(const struct solve *s, int64_t k, double *O, double *lambda)
{
    const struct uni_problem *p = s->p;
    int64_t kept = 0;
    for (int64_t g = 0; g < p->G; g++) {
        int64_t l = p->group_level[g]; /* one variable: a group is a level */
        double o = s->O[g * p->K + k];
        O[g] = 0;
        if (uni_pair_kept(o, (double)s->ridge->group_cells[g], s->ridge->cutoff)) {
            double fixed = s->ridge->lambda[l];
            O[g] = o;
            lambda[g] = fixed > 0 ? fixed : uni_lambda_auto(s->ridge->alpha, s->E[l * p->K + k]);
            kept++;
        }
    }
    s->pruned[k] = (double)(kept < 2 ? p->G : p->G - kept);
    return kept;
}

/* Intercept c (D) = sum q S / sum q O; returns the smallest of the Schur complement and the pivots. */
static double intercept(const struct solve *s, int64_t k, const double *O, const double *lambda, double *c)
{
    const struct uni_problem *p = s->p;
    double schur = 0, smallest = HUGE_VAL;
    memset(c, 0, (size_t)p->D * sizeof *c);
    for (int64_t g = 0; g < p->G; g++) {
        if (!(O[g] > 0))
            continue;
        double q = uni_intercept_weight(O[g], lambda[g]);
        const double *S = s->S + (g * p->K + k) * p->D;
        schur += q * O[g];
        smallest = fmin(smallest, O[g] + lambda[g]);
        for (int64_t d = 0; d < p->D; d++)
            c[d] += q * S[d];
    }
    for (int64_t d = 0; d < p->D; d++)
        c[d] /= schur;
    return fmin(schur, smallest);
}

/* Writes W of cluster k and adds up how far it moved. w NULL: the closed form from c; else the dense solution (D columns of m). */
static void store(const struct solve *s, int64_t k, const double *O, const double *lambda, const double *c, const double *w, int64_t m)
{
    const struct uni_problem *p = s->p;
    int64_t level = 0;
    for (int64_t g = 0; g < p->G; g++) {
        float *W = s->W + (g * p->K + k) * p->D;
        const double *S = s->S + (g * p->K + k) * p->D;
        double moved = 0, size = 0;
        level += O[g] > 0;
        for (int64_t d = 0; d < p->D; d++) {
            double old = W[d], new = 0;
            if (O[g] > 0 && c)
                new = w ? w[d * m + level] : uni_correction(S[d], O[g], c[d], lambda[g]);
            new = W[d] = (float)new;
            moved += (new - old) * (new - old);
            size += new * new;
        }
        s->moved[k] += s->O[g * p->K + k] * moved;
        s->size[k] += s->O[g * p->K + k] * size;
    }
}

static void new_centroid(const struct solve *s, int64_t k, const double *c)
{
    float *Y = s->Y + k * s->p->D;
    double largest = 0, squares = 0;
    for (int64_t d = 0; d < s->p->D; d++)
        largest = fmax(largest, fabs(c[d]));
    if (!(largest > 0) || !isfinite(largest))
        return;
    for (int64_t d = 0; d < s->p->D; d++)
        squares += (c[d] / largest) * (c[d] / largest);
    for (int64_t d = 0; d < s->p->D; d++)
        Y[d] = (float)(c[d] / largest / sqrt(squares));
}

static void solve_cluster(void *context, int64_t k)
{
    const struct solve *s = context;
    const struct uni_problem *p = s->p;
    double *O = s->kept_O + k * p->G, *lambda = s->lambda + k * p->G, *c = s->c + k * p->D;
    s->moved[k] = s->size[k] = 0;
    s->degenerate[k] = 0;
    if (choose_levels(s, k, O, lambda) < 2) {
        memset(O, 0, (size_t)p->G * sizeof *O);
        store(s, k, O, lambda, NULL, NULL, 0);
        return;
    }
    double smallest = intercept(s, k, O, lambda, c);
    if (!(smallest >= DEGENERATE)) {
        s->degenerate[k] = 1;
        return;
    }
    store(s, k, O, lambda, c, NULL, 0);
    new_centroid(s, k, c);
}

/* The dense arrowhead: by Cholesky, then by pivoted LU. Returns 0 where both fail. */
static int solve_dense(double *A, double *B, double *A0, double *B0, int m, int nrhs, int *pivots)
{
    int info = 0;
    memcpy(A, A0, (size_t)m * (size_t)m * sizeof *A);
    memcpy(B, B0, (size_t)m * (size_t)nrhs * sizeof *B);
    dpotrf_("L", &m, A, &m, &info);
    if (info == 0) {
        dpotrs_("L", &m, &nrhs, A, &m, B, &m, &info);
    } else {
        memcpy(A, A0, (size_t)m * (size_t)m * sizeof *A);
        dgesv_(&m, &nrhs, A, &m, pivots, B, &m, &info);
    }
    for (int64_t i = 0; i < (int64_t)m * nrhs; i++)
        if (!isfinite(B[i]))
            return 0;
    return info == 0;
}

static void solve_degenerate(const struct solve *s, int64_t k)
{
    const struct uni_problem *p = s->p;
    double *O = s->kept_O + k * p->G, *lambda = s->lambda + k * p->G, *c = s->c + k * p->D;
    int64_t m = 1;
    for (int64_t g = 0; g < p->G; g++)
        m += O[g] > 0;
    if (m <= DENSE_LEVELS + 1) {
        double *A0 = s->dense, *A = A0 + m * m, *B0 = A + m * m, *B = B0 + m * p->D;
        int *pivots = (int *)(void *)(B + m * p->D);
        memset(A0, 0, (size_t)(m * m) * sizeof *A0);
        memset(B0, 0, (size_t)(m * p->D) * sizeof *B0);
        for (int64_t g = 0, i = 0; g < p->G; g++) {
            if (!(O[g] > 0))
                continue;
            i++;
            A0[0] += O[g];
            A0[i] = A0[i * m] = O[g];
            A0[i * m + i] = O[g] + lambda[g];
            for (int64_t d = 0; d < p->D; d++) {
                B0[d * m + i] = s->S[(g * p->K + k) * p->D + d];
                B0[d * m] += B0[d * m + i];
            }
        }
        if (solve_dense(A, B, A0, B0, (int)m, (int)p->D, pivots)) {
            for (int64_t d = 0; d < p->D; d++)
                c[d] = B[d * m];
            store(s, k, O, lambda, c, B, m);
            new_centroid(s, k, c);
            return;
        }
    }
    int finite = 1;
    for (int64_t d = 0; d < p->D; d++)
        finite = finite && isfinite(c[d]);
    if (!finite)
        memset(O, 0, (size_t)p->G * sizeof *O); /* nothing can be said of this cluster: no correction */
    store(s, k, O, lambda, finite ? c : NULL, NULL, 0);
}

int uni_ridge_solve(struct uni_ridge *ridge, float *W, float *Y, const double *S, const double *O, const double *E, const struct uni_problem *p,
                    struct uni_backend *b, double *scratch)
{
    struct solve s = {.ridge = ridge, .W = W, .Y = Y, .S = S, .O = O, .E = E, .p = p};
    s.kept_O = scratch;
    s.lambda = s.kept_O + p->K * p->G;
    s.c = s.lambda + p->K * p->G;
    s.pruned = s.c + p->K * p->D;
    s.moved = s.pruned + p->K;
    s.size = s.moved + p->K;
    s.degenerate = (unsigned char *)(s.size + p->K);
    s.dense = s.size + p->K + (p->K + 7) / 8;
    int err = b->each(b, p->K, solve_cluster, &s);
    if (err)
        return err;

    double moved = 0, size = 0;
    ridge->pruned_pairs = ridge->skipped_clusters = 0;
    for (int64_t k = 0; k < p->K; k++) {
        if (s.degenerate[k])
            solve_degenerate(&s, k);
        moved += s.moved[k];
        size += s.size[k];
        ridge->skipped_clusters += s.pruned[k] == (double)p->G;
        ridge->pruned_pairs += (int64_t)s.pruned[k];
    }
    if (!isfinite(moved + size))
        return uni_fail(UNI_NUMERIC, "the correction is not finite: the embedding's values are too large for its sums; divide it by its largest value");
    ridge->change = size > 0 ? sqrt(moved / size) : moved > 0 ? 1 : 0;
    return UNI_OK;
}
