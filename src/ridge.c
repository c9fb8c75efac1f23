/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and moments -> new centroids and corrections: one small solve in double per cluster (harmony2.md section 5). */
#include <math.h>
#include <string.h>

#include "error.h"
#include "formula.h"
#include "method.h"

/* LAPACK, column-major */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b, const int *ldb,
             int *info);
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b, const int *ldb, int *info);

static const double DEGENERATE = 1e-10;
enum { MOST_CHUNKS = 32 };   /* groups are summed in at most so many chunks, whatever the number of threads */
enum { DENSE_LEVELS = 500 }; /* most levels of a dense system; beyond it the closed form, which needs no matrix, serves */

/* The tables S and W are large where groups are many, and are gone through group by group, as they lie in memory. */
struct solve {
    struct uni_ridge *ridge;
    float *W, *Y;
    const double *S, *O, *E;
    const struct uni_problem *p;
    int64_t chunks;
    double *lambda;       /* (G,K) 0: not kept */
    double *weight;       /* (G,K) q of the intercept */
    double *partial;      /* (chunks,K,D) sums of q S */
    double *schur;        /* (chunks,K) sums of q O; then the whole sum in the first */
    double *smallest;     /* (chunks,K) smallest pivot; likewise */
    double *kept;         /* (chunks,K) kept levels; likewise */
    double *c;            /* (K,D) intercepts */
    double *moved, *size; /* (chunks + K) sums of O |W - W_old|^2 and O |W|^2: of chunks, then of degenerate clusters */
    double *dense;
};

static int64_t chunks_of(int64_t K, int64_t D, int64_t G)
{
    int64_t n = 4000000 / (K * D); /* large tables: fewer partial sums */
    n = n < 4 ? 4 : n > MOST_CHUNKS ? MOST_CHUNKS : n;
    return n < G ? n : G;
}

int64_t uni_ridge_scratch(int64_t K, int64_t D, int64_t G)
{
    int64_t m = (G < DENSE_LEVELS ? G : DENSE_LEVELS) + 1, n = chunks_of(K, D, G);
    return 2 * G * K + n * K * D + 3 * n * K + K * D + 2 * (n + K) + 2 * m * m + 2 * m * D + m;
}

static void deal_out(struct solve *s, double *scratch)
{
    const int64_t K = s->p->K, D = s->p->D, G = s->p->G;
    s->chunks = chunks_of(K, D, G);
    s->lambda = scratch;
    s->weight = s->lambda + G * K;
    s->partial = s->weight + G * K;
    s->schur = s->partial + s->chunks * K * D;
    s->smallest = s->schur + s->chunks * K;
    s->kept = s->smallest + s->chunks * K;
    s->c = s->kept + s->chunks * K;
    s->moved = s->c + K * D;
    s->size = s->moved + s->chunks + K;
    s->dense = s->size + s->chunks + K;
}

/* lambda and the intercept's weight of one group's pairs; 0 where the pair is left out. */
static void weigh_group(const struct solve *s, int64_t g, double *schur, double *smallest, double *kept)
{
    const struct uni_problem *p = s->p;
    int64_t l = p->group_level[g]; /* one variable: a group is a level */
    double cells = p->level_mass[l], fixed = s->ridge->lambda[l];
    for (int64_t k = 0; k < p->K; k++) {
        double O = s->O[g * p->K + k], *lambda = &s->lambda[g * p->K + k], *weight = &s->weight[g * p->K + k];
        *lambda = *weight = 0;
        if (!uni_pair_kept(O, cells, s->ridge->cutoff))
            continue;
        *lambda = fixed > 0 ? fixed : uni_lambda_auto(s->ridge->alpha, s->E[l * p->K + k]);
        *weight = uni_intercept_weight(O, *lambda);
        schur[k] += *weight * O;
        smallest[k] = fmin(smallest[k], O + *lambda);
        kept[k]++;
    }
}

/* A chunk's part of the intercepts: sums of q S and of q O. */
static void weigh_chunk(void *context, int64_t chunk)
{
    const struct solve *s = context;
    const struct uni_problem *p = s->p;
    const int64_t K = p->K, D = p->D, end = p->G * (chunk + 1) / s->chunks;
    double *partial = s->partial + chunk * K * D, *schur = s->schur + chunk * K, *smallest = s->smallest + chunk * K,
           *kept = s->kept + chunk * K;
    memset(partial, 0, (size_t)(K * D) * sizeof *partial);
    for (int64_t k = 0; k < K; k++) {
        schur[k] = kept[k] = 0;
        smallest[k] = HUGE_VAL;
    }
    for (int64_t g = p->G * chunk / s->chunks; g < end; g++) {
        weigh_group(s, g, schur, smallest, kept);
        for (int64_t k = 0; k < K; k++) {
            const double q = s->weight[g * K + k], *S = s->S + (g * K + k) * D;
            double *sum = partial + k * D;
            for (int64_t d = 0; q > 0 && d < D; d++)
                sum[d] += q * S[d];
        }
    }
}

/* c = sum q S / sum q O, chunk after chunk; leaves the sums over all chunks in the first. */
static void intercept(void *context, int64_t k)
{
    const struct solve *s = context;
    const int64_t K = s->p->K, D = s->p->D;
    double *c = s->c + k * D;
    memcpy(c, s->partial + k * D, (size_t)D * sizeof *c);
    for (int64_t chunk = 1; chunk < s->chunks; chunk++) {
        const double *partial = s->partial + (chunk * K + k) * D;
        s->schur[k] += s->schur[chunk * K + k];
        s->kept[k] += s->kept[chunk * K + k];
        s->smallest[k] = fmin(s->smallest[k], s->smallest[chunk * K + k]);
        for (int64_t d = 0; d < D; d++)
            c[d] += partial[d];
    }
    for (int64_t d = 0; d < D; d++)
        c[d] /= s->schur[k];
}

static int is_degenerate(const struct solve *s, int64_t k)
{
    return s->kept[k] >= 2 && !(fmin(s->schur[k], s->smallest[k]) >= DEGENERATE);
}

enum {
    AT_ONCE = 64,    /* dimensions */
    SIDE_BY_SIDE = 4 /* sums that do not wait for each other */
};

/* Puts n <= AT_ONCE numbers of a pair's W in their place, and adds up how far they moved. now: zeros up to a multiple of
 * SIDE_BY_SIDE. */
static void put(float *restrict W, const float *restrict now, int64_t n, double O, double *moved, double *size)
{
    float old[AT_ONCE] = {0};
    double far[SIDE_BY_SIDE] = {0}, large[SIDE_BY_SIDE] = {0};
    memcpy(old, W, (size_t)n * sizeof *W);
    memcpy(W, now, (size_t)n * sizeof *W);
    for (int64_t d = 0; d < n; d += SIDE_BY_SIDE)
        for (int i = 0; i < SIDE_BY_SIDE; i++) {
            double off = (double)now[d + i] - (double)old[d + i];
            far[i] += off * off;
            large[i] += (double)now[d + i] * (double)now[d + i];
        }
    *moved += O * ((far[0] + far[2]) + (far[1] + far[3]));
    *size += O * ((large[0] + large[2]) + (large[1] + large[3]));
}

static void correct(float *restrict now, const double *restrict S, const double *restrict c, int64_t n, double O, double lambda)
{
    for (int64_t d = 0; d < n; d++)
        now[d] = (float)uni_correction(S[d], O, c[d], lambda);
}

/* Writes one pair's W by the closed form, 0 unless corrected, and adds up how far it moved. */
static void store(const struct solve *s, int64_t g, int64_t k, int corrected, double *moved, double *size)
{
    const int64_t D = s->p->D, pair = g * s->p->K + k;
    for (int64_t d = 0; d < D; d += AT_ONCE) {
        const int64_t n = D - d < AT_ONCE ? D - d : AT_ONCE;
        float now[AT_ONCE] = {0};
        if (corrected && s->lambda[pair] > 0)
            correct(now, s->S + pair * D + d, s->c + k * D + d, n, s->O[pair], s->lambda[pair]);
        put(s->W + pair * D + d, now, n, s->O[pair], moved, size);
    }
}

/* The same from the pair's row of the dense solution, m apart; NULL: W = 0. */
static void store_dense(const struct solve *s, int64_t g, int64_t k, const double *dense, int64_t m, double *moved, double *size)
{
    const int64_t D = s->p->D, pair = g * s->p->K + k;
    for (int64_t d = 0; d < D; d++) {
        float now[SIDE_BY_SIDE] = {dense ? (float)dense[d * m] : 0};
        put(s->W + pair * D + d, now, 1, s->O[pair], moved, size);
    }
}

static void correct_chunk(void *context, int64_t chunk)
{
    const struct solve *s = context;
    const struct uni_problem *p = s->p;
    double moved = 0, size = 0;
    for (int64_t g = p->G * chunk / s->chunks; g < p->G * (chunk + 1) / s->chunks; g++)
        for (int64_t k = 0; k < p->K; k++)
            if (!is_degenerate(s, k))
                store(s, g, k, s->kept[k] >= 2, &moved, &size);
    s->moved[chunk] = moved;
    s->size[chunk] = size;
}

void uni_ridge_centroid(float *Y, const double *c, int64_t step, int64_t D)
{
    double largest = 0, squares = 0;
    for (int64_t d = 0; d < D; d++)
        largest = fmax(largest, fabs(c[d * step]));
    if (!(largest > 0) || !isfinite(largest))
        return;
    for (int64_t d = 0; d < D; d++)
        squares += (c[d * step] / largest) * (c[d * step] / largest);
    for (int64_t d = 0; d < D; d++)
        Y[d] = (float)(c[d * step] / largest / sqrt(squares));
}

int uni_solve_dense(double *A, double *B, double *A0, double *B0, int m, int nrhs, int *pivots)
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

static void solve_degenerate(const struct solve *s, int64_t k, double *moved, double *size)
{
    const struct uni_problem *p = s->p;
    const int64_t m = (int64_t)s->kept[k] + 1;
    double *A0 = s->dense, *A = A0 + m * m, *B0 = A + m * m, *B = B0 + m * p->D, *c = s->c + k * p->D;
    int solved = 0, finite = 1;
    if (m <= DENSE_LEVELS + 1) {
        memset(A0, 0, (size_t)(m * m) * sizeof *A0);
        memset(B0, 0, (size_t)(m * p->D) * sizeof *B0);
        for (int64_t g = 0, i = 0; g < p->G; g++) {
            const double O = s->O[g * p->K + k], lambda = s->lambda[g * p->K + k];
            if (!(lambda > 0))
                continue;
            i++;
            A0[0] += O;
            A0[i] = A0[i * m] = O;
            A0[i * m + i] = O + lambda;
            for (int64_t d = 0; d < p->D; d++) {
                B0[d * m + i] = s->S[(g * p->K + k) * p->D + d];
                B0[d * m] += B0[d * m + i];
            }
        }
        solved = uni_solve_dense(A, B, A0, B0, (int)m, (int)p->D, (int *)(void *)(B + m * p->D));
    }
    for (int64_t d = 0; d < p->D; d++) {
        c[d] = solved ? B[d * m] : c[d];
        finite = finite && isfinite(c[d]);
    }
    for (int64_t g = 0, i = 0; g < p->G; g++) {
        i += s->lambda[g * p->K + k] > 0;
        if (solved || !finite) /* not finite: nothing can be said of this cluster */
            store_dense(s, g, k, finite && s->lambda[g * p->K + k] > 0 ? B + i : NULL, m, moved, size);
        else
            store(s, g, k, 1, moved, size);
    }
}

static void settle_clusters(const struct solve *s)
{
    struct uni_ridge *ridge = s->ridge;
    ridge->pruned_pairs = ridge->skipped_clusters = 0;
    for (int64_t k = 0; k < s->p->K; k++) {
        double *moved = s->moved + s->chunks + k, *size = s->size + s->chunks + k;
        *moved = *size = 0;
        if (is_degenerate(s, k))
            solve_degenerate(s, k, moved, size);
        if (s->kept[k] >= 2)
            uni_ridge_centroid(s->Y + k * s->p->D, s->c + k * s->p->D, 1, s->p->D);
        ridge->skipped_clusters += s->kept[k] < 2;
        ridge->pruned_pairs += s->kept[k] < 2 ? s->p->G : s->p->G - (int64_t)s->kept[k];
    }
}

int uni_ridge_settle(struct uni_ridge *ridge, double moved, double size)
{
    if (!isfinite(moved + size))
        return uni_fail(UNI_NUMERIC,
                        "the correction is not finite: the embedding's values are too large for its sums; divide it by its "
                        "largest value");
    ridge->change = size > 0 ? sqrt(moved / size) : moved > 0 ? 1 : 0;
    return UNI_OK;
}

int uni_ridge_solve(struct uni_ridge *ridge, float *W, float *Y, const double *S, const double *O, const double *E,
                    const struct uni_problem *p, struct uni_backend *b, double *scratch)
{
    int err = 0;
    struct solve s = {.ridge = ridge, .W = W, .Y = Y, .S = S, .O = O, .E = E, .p = p};
    double moved = 0, size = 0;
    deal_out(&s, scratch);
    TRY(b->each(b, s.chunks, weigh_chunk, &s));
    TRY(b->each(b, p->K, intercept, &s));
    TRY(b->each(b, s.chunks, correct_chunk, &s));
    settle_clusters(&s);
    for (int64_t i = 0; i < s.chunks + p->K; i++) {
        moved += s.moved[i];
        size += s.size[i];
    }
    TRY(uni_ridge_settle(ridge, moved, size));
done:
    return err;
}
