/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of the CUDA backend beside plain loops in double. Outputs are filled with NaN before they are written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_check.h"

struct tables {
    double *O, *S, *plain_O, *plain_S, *level_O, *scratch, *plain_Z;
    float *Y, *Y2, *W, *W2, *cells;
    unsigned char *part;
    int64_t GK, GKD, SKD, WKD, KD, ND, NK;
};

static void tables_open(struct tables *t, const struct uni_problem *p)
{
    t->GK = p->G * p->K;
    t->GKD = t->GK * p->D;
    t->SKD = p->by_level ? (p->B + 1) * p->K * p->D : t->GKD;
    t->WKD = (p->V == 1 ? p->G : p->B) * p->K * p->D;
    t->KD = p->K * p->D;
    t->ND = p->N_all * p->D;
    t->NK = p->N_all * p->K;
    t->O = malloc((size_t)t->GK * 8);
    t->plain_O = malloc((size_t)t->GK * 8);
    t->S = malloc((size_t)t->SKD * 8);
    t->plain_S = malloc((size_t)(t->SKD > t->GKD ? t->SKD : t->GKD) * 8);
    t->part = malloc((size_t)t->GK);
    t->level_O = malloc((size_t)(2 * p->B * p->K) * 8);
    t->scratch = malloc((size_t)(p->V == 1 ? uni_ridge_scratch(p->K, p->D, p->G) : uni_joint_scratch(p)) * 8);
    t->Y = malloc((size_t)t->KD * 4);
    t->Y2 = malloc((size_t)t->KD * 4);
    t->W = calloc((size_t)t->WKD, 4);
    t->W2 = calloc((size_t)t->WKD, 4);
    t->cells = malloc((size_t)(t->NK > t->ND ? t->NK : t->ND) * 4);
    t->plain_Z = malloc((size_t)(t->NK > t->ND ? t->NK : t->ND) * 8);
    for (int64_t k = 0; k < p->K; k++) {
        for (int64_t d = 0; d < p->D; d++)
            t->Y[k * p->D + d] = made_noise((uint64_t)(k * p->D + d) + 99);
        uni_normalise(t->Y + k * p->D, p->D);
    }
}

static void tables_close(struct tables *t)
{
    free(t->O), free(t->S), free(t->plain_O), free(t->plain_S), free(t->level_O), free(t->scratch), free(t->plain_Z);
    free(t->Y), free(t->Y2), free(t->W), free(t->W2), free(t->cells), free(t->part);
}

static void check_R(const char *name, struct uni_backend *b, const struct plain *plain, struct tables *t, double limit)
{
    const struct uni_problem *p = plain->p;
    poison(t->cells, t->NK * 4);
    must(name, "read R", b->read(b, UNI_CELLS_R, NULL, t->cells));
    memset(t->plain_Z, 0, (size_t)t->NK * 8);
    for (int64_t i = 0; i < p->N; i++)
        memcpy(t->plain_Z + p->row[i] * p->K, plain->R + i * p->K, (size_t)p->K * 8);
    expect(name, "R", apart_f(t->cells, t->plain_Z, t->NK), limit);
}

static void check_fit(const char *name, const struct uni_fit *fit, const struct uni_fit *plain, int terms, double limit)
{
    double size = fabs(plain->distance) + fabs(plain->entropy) + 1e-9;
    expect(name, "objective", fabs(fit->distance + fit->entropy - plain->distance - plain->entropy) / size, limit);
    if (terms)
        expect(name, "its entropy", fabs(fit->entropy - plain->entropy) / size, limit);
}

/* The ridge solve on the device beside ridge.c on the same moments. */
static void check_solve(const char *name, struct uni_backend *b, const struct bench *n, struct tables *t)
{
    const struct uni_problem *p = &n->cells.problem;
    struct uni_backend cpu;
    int solved = 0;
    struct uni_ridge a = {.cutoff = fmin(1e-3, 100 * n->cells.cutoff), .alpha = 0.2, .lambda = n->cells.lambda}, c = a;
    double *wide = malloc((size_t)(t->WKD > t->GKD ? t->WKD : t->GKD) * 8);
    uni_cpu_backend(&cpu);
    must(name, "moments", b->moments(b, t->S, NULL));
    must(name, "tables", b->tables(b, t->O, t->W2));
    uni_levels_of_groups(t->level_O, t->O, p);
    uni_expected(t->level_O + p->B * p->K, t->level_O, p);
    memcpy(t->Y2, t->Y, (size_t)t->KD * 4);
    must(name, "cpu open", cpu.open(&cpu, p, &n->matrix));
    must(name, "ridge.c", uni_ridge_solve(&c, t->W2, t->Y2, t->S, t->O, t->level_O + p->B * p->K, p, &cpu, t->scratch));
    must(name, "solve", b->solve(b, &a, t->Y, &solved));
    expect(name, "solved", !solved, 0);
    poison(t->W, t->WKD * 4);
    must(name, "tables", b->tables(b, t->O, t->W));
    for (int64_t i = 0; i < t->GKD; i++)
        wide[i] = t->W2[i];
    expect(name, "W of solve", apart_f(t->W, wide, t->GKD), 1e-6);
    for (int64_t i = 0; i < t->KD; i++)
        wide[i] = t->Y2[i];
    expect(name, "Y of solve", apart_f(t->Y, wide, t->KD), 1e-6);
    expect(name, "change", fabs(a.change - c.change), 1e-6);
    expect(name, "pruned pairs", fabs((double)(a.pruned_pairs - c.pruned_pairs)), 0);
    expect(name, "skipped clusters", fabs((double)(a.skipped_clusters - c.skipped_clusters)), 0);
    cpu.close(&cpu);
    free(wide);
}

/* S by level from S by group: sums over the groups of every level, and over all that take part. */
static void plain_by_level(const struct uni_problem *p, double *S, const unsigned char *part)
{
    const int64_t table = p->K * p->D;
    double *by_level = calloc((size_t)((p->B + 1) * table), sizeof *by_level);
    for (int64_t g = 0; g < p->G; g++)
        for (int v = 0; v <= p->V; v++)
            for (int64_t i = 0; i < table; i++)
                if (v < p->V || part[g * p->K + i / p->D])
                    by_level[(v < p->V ? p->group_level[g * p->V + v] : p->B) * table + i] += S[g * table + i];
    memcpy(S, by_level, (size_t)((p->B + 1) * table) * sizeof *S);
    free(by_level);
}

static void check_moments(const char *name, struct uni_backend *b, const struct plain *plain, struct tables *t, double limit)
{
    const struct uni_problem *p = plain->p;
    poison(t->S, t->SKD * 8);
    for (int64_t i = 0; i < t->GK; i++)
        t->part[i] = made_hash((uint64_t)i + 5) % 3 > 0;
    must(name, "moments", b->moments(b, t->S, t->part));
    plain_moments(plain, t->plain_S);
    if (p->by_level)
        plain_by_level(p, t->plain_S, t->part);
    expect(name, "S", apart(t->S, t->plain_S, t->SKD), limit);
}

/* Several variables: the library solves, from the device's sums. */
static void check_joint(const char *name, struct uni_backend *b, const struct bench *n, struct tables *t)
{
    const struct uni_problem *p = &n->cells.problem;
    int solved = 1;
    struct uni_ridge ridge = {.cutoff = 1e-5, .alpha = 0.2, .lambda = n->cells.lambda};
    must(name, "solve", b->solve(b, &ridge, t->Y, &solved));
    expect(name, "left to the library", solved, 0);
    must(name, "tables", b->tables(b, t->O, NULL));
    expect(name, "O of tables", apart(t->O, t->plain_O, t->GK), 1e-3);
    uni_levels_of_groups(t->level_O, t->O, p);
    uni_expected(t->level_O + p->B * p->K, t->level_O, p);
    uni_joint_parts(t->part, &ridge, t->level_O, p);
    must(name, "moments", b->moments(b, t->S, t->part));
    struct uni_sums sums = {.O = t->O, .level_O = t->level_O, .E = t->level_O + p->B * p->K, .S = t->S};
    must(name, "ridge_joint.c", uni_ridge_joint(&ridge, t->W, NULL, t->Y, &sums, p, b, t->scratch));
}

/* With the correction of t, as the backend has it, times step; or with none. */
static void check_corrected(const char *name, struct uni_backend *b, const struct plain *plain, struct tables *t, double step,
                            double limit)
{
    const struct uni_problem *p = plain->p;
    struct uni_shift kept = {.W = p->V == 1 ? UNI_KEPT : t->W, .step = step}, plain_shift = {.W = t->W, .step = step};
    poison(t->cells, t->ND * 4);
    must(name, "read corrected", b->read(b, UNI_CELLS_CORRECTED, step > 0 ? &kept : NULL, t->cells));
    plain_corrected(plain, step > 0 ? &plain_shift : NULL, t->plain_Z);
    expect(name, step > 0 ? "corrected" : "uncorrected", apart_f(t->cells, t->plain_Z, p->N_all * p->D), limit);
}

/* The library's own part of the objective beside the device's. */
static void check_diversity(const char *name, struct uni_backend *b, struct tables *t, const struct uni_problem *p)
{
    double expected;
    uni_levels_of_groups(t->level_O, t->O, p);
    uni_expected(t->level_O + p->B * p->K, t->level_O, p);
    must(name, "each", uni_diversity(&expected, t->level_O, t->level_O + p->B * p->K, p, b));
    expect(name, "diversity", fabs(b->diversity - expected) / (fabs(expected) + 1e-3 * p->mass), 1e-6);
}

void check_operations(const struct shape *s)
{
    struct bench n;
    struct plain plain;
    struct tables t;
    struct uni_backend b;
    struct uni_fit fit, plain_fit;
    double fine = s->single ? 2e-6 : 4e-4, coarse = s->single ? 4e-6 : 1e-3;
    bench_open(&n, s);
    struct uni_problem *p = &n.cells.problem;
    bench_sort(&n, s);
    must(s->name, "backend", uni_cuda_backend(&b, 0));
    must(s->name, "open", b.open(&b, p, &n.matrix));
    plain_open(&plain, p, &n.matrix);
    tables_open(&t, p);
    check_corrected(s->name, &b, &plain, &t, 0, 0);

    poison(t.O, t.GK * 8);
    must(s->name, "assign", b.assign(&b, t.O, &fit, NULL, t.Y));
    plain_assign(&plain, t.plain_O, &plain_fit, NULL, t.Y);
    expect(s->name, "O of assign", apart(t.O, t.plain_O, t.GK), s->single ? 2e-6 : 2e-6);
    check_fit(s->name, &fit, &plain_fit, 1, 3e-6);
    check_R(s->name, &b, &plain, &t, fine);

    must(s->name, "sweep", b.sweep(&b, t.O, &fit, 1, 1));
    plain_sweep(&plain, t.plain_O, &plain_fit, 1);
    expect(s->name, "O of a sweep", apart(t.O, t.plain_O, t.GK), fine);
    check_fit(s->name, &fit, &plain_fit, 1, s->single ? 3e-6 : 1e-4);
    check_diversity(s->name, &b, &t, p);
    int more = s->damped ? s->damped : 4;
    must(s->name, "sweep", b.sweep(&b, t.O, &fit, more, 0));
    plain_sweep(&plain, t.plain_O, &plain_fit, more);
    expect(s->name, "O of more", apart(t.O, t.plain_O, t.GK), fine);
    check_fit(s->name, &fit, &plain_fit, 0, s->single ? 3e-6 : 1e-4);
    check_R(s->name, &b, &plain, &t, coarse);

    check_moments(s->name, &b, &plain, &t, fine);
    if (p->V == 1)
        check_solve(s->name, &b, &n, &t);
    else
        check_joint(s->name, &b, &n, &t);
    check_corrected(s->name, &b, &plain, &t, 1, s->single ? 1e-6 : 1e-4);

    struct uni_shift kept = {.W = p->V == 1 ? UNI_KEPT : t.W, .step = 1.3}, plain_shift = {.W = t.W, .step = 1.3};
    must(s->name, "assign", b.assign(&b, t.O, NULL, &kept, t.Y));
    plain_assign(&plain, t.plain_O, &plain_fit, &plain_shift, t.Y);
    expect(s->name, "O of assign, corrected", apart(t.O, t.plain_O, t.GK), coarse);
    check_R(s->name, &b, &plain, &t, coarse);
    must(s->name, "sweep", b.sweep(&b, t.O, &fit, 3, 0));
    plain_sweep(&plain, t.plain_O, &plain_fit, 3);
    expect(s->name, "O of sweeps, corrected", apart(t.O, t.plain_O, t.GK), coarse);
    check_fit(s->name, &fit, &plain_fit, 0, s->single ? 3e-6 : 2e-4);
    b.close(&b);
    b.close(&b);
    plain_close(&plain);
    tables_close(&t);
    bench_close(&n);
}

/* ---- nearest, beside plain loops, and in all ways that the seeding calls it ---------------------------------------------- */

struct answer {
    int32_t *index;
    float *score;
    double *sum;
    int64_t *count;
};

static void answer_open(struct answer *a, int64_t n, int64_t d, int64_t K)
{
    *a = (struct answer){malloc((size_t)n * 4), malloc((size_t)n * 4), malloc((size_t)(K * d) * 8), malloc((size_t)K * 8)};
}

static void answer_close(struct answer *a)
{
    free(a->index), free(a->score), free(a->sum), free(a->count);
}

static void ask(struct uni_backend *b, const struct answer *a, int wanted, const struct uni_rows *rows, const float *Y, int64_t K,
                int64_t d, int sums)
{
    poison(a->index, rows->M * 4), poison(a->score, rows->M * 4);
    poison(a->sum, K * d * 8), poison(a->count, K * 8);
    must("nearest", "nearest",
         b->nearest(b, a->index, a->score, sums ? a->sum : NULL, sums ? a->count : NULL, wanted, rows, Y, K));
}

static void beside_loops(const struct answer *a, const struct uni_rows *rows, const float *Y, int64_t K, int64_t d)
{
    double worst = 0, *sum = malloc((size_t)(K * d) * 8);
    int64_t *count = calloc((size_t)K, 8), wrong = 0, miscounted = 0;
    memcpy(sum, a->sum, (size_t)(K * d) * 8);
    for (int64_t i = 0; i < rows->M; i++) {
        double best = -2, here = 0;
        wrong += a->index[i] < 0 || a->index[i] >= K;
        int64_t at = a->index[i] < 0 || a->index[i] >= K ? 0 : a->index[i];
        for (int64_t k = 0; k < K; k++) {
            double dot = 0;
            for (int64_t j = 0; j < d; j++)
                dot += (double)rows->X[i * d + j] * Y[k * d + j];
            best = fmax(best, dot);
            here = k == at ? dot : here;
        }
        worst = fmax(worst, fmax(fabs(best - a->score[i]), fabs(best - here)));
        for (int64_t j = 0; j < d; j++)
            sum[at * d + j] -= rows->X[i * d + j];
        count[at]++;
    }
    for (int64_t k = 0; k < K; k++)
        miscounted += count[k] != a->count[k];
    expect("nearest", "scores", worst, 2e-6);
    expect("nearest", "index", (double)wrong, 0);
    expect("nearest", "counts", (double)miscounted, 0);
    for (int64_t i = 0; i < K * d; i++)
        worst = fmax(worst, fabs(sum[i]));
    expect("nearest", "sums", worst, 2e-6);
    free(sum), free(count);
}

static void same_sums(const char *what, const struct answer *a, const struct answer *b, int64_t K, int64_t d)
{
    expect("nearest", what, memcmp(a->sum, b->sum, (size_t)(K * d) * 8) || memcmp(a->count, b->count, (size_t)K * 8), 0);
}

/* whole: the answer for all of X (n,d), of which there is nothing on the card that counts. */
static void calls_again(struct uni_backend *b, const struct answer *whole, const struct answer *a, float *X, int64_t n,
                        const float *Y, int64_t K, int64_t d)
{
    const struct uni_rows kept = {X, n, 0, 0}, quarter = {X, n / 4, 0, n / 4}, others = {X, n, n / 4, n};
    const struct uni_rows few = {X + n / 2 * d, n / 9, 0, n / 9}, back = {X, n, 0, n / 9};
    ask(b, a, UNI_WANT_INDEX | UNI_WANT_SCORE, &quarter, Y, K, d, 1);
    beside_loops(a, &quarter, Y, K, d);
    ask(b, a, 0, &others, Y, K, d, 1);
    same_sums("a part, then the others", a, whole, K, d);
    ask(b, a, UNI_WANT_SCORE, &kept, Y, K, d, 1);
    same_sums("the same rows again", a, whole, K, d);
    expect("nearest", "scores alone", memcmp(a->score, whole->score, (size_t)n * 4) != 0, 0);
    ask(b, a, UNI_WANT_INDEX | UNI_WANT_SCORE, &kept, Y, K, d, 0);
    expect("nearest", "without sums",
           memcmp(a->index, whole->index, (size_t)n * 4) || memcmp(a->score, whole->score, (size_t)n * 4), 0);
    ask(b, a, UNI_WANT_INDEX | UNI_WANT_SCORE, &few, Y, K, d, 1);
    beside_loops(a, &few, Y, K, d);
    ask(b, a, 0, &back, Y, K, d, 1);
    same_sums("other rows, and these again", a, whole, K, d);
}

/* The last centroid is the first again, and has no rows: scores come unasked. */
static void one_without_rows(struct uni_backend *b, const struct answer *a, const struct uni_rows *rows, float *Y, int64_t K,
                             int64_t d)
{
    memcpy(Y + (K - 1) * d, Y, (size_t)d * 4);
    ask(b, a, 0, rows, Y, K, d, 1);
    expect("nearest", "the first of equals", (double)a->count[K - 1], 0);
    float *score = malloc((size_t)rows->M * 4);
    memcpy(score, a->score, (size_t)rows->M * 4);
    ask(b, a, UNI_WANT_INDEX | UNI_WANT_SCORE, rows, Y, K, d, 1);
    beside_loops(a, rows, Y, K, d);
    expect("nearest", "scores unasked", memcmp(a->score, score, (size_t)rows->M * 4) != 0, 0);
    free(score);
}

void check_nearest(int64_t d, int64_t K)
{
    struct shape s = {.name = "nearest", .n = 5000, .d = d, .K = K, .levels = 2};
    struct bench n;
    struct uni_backend b;
    struct answer whole, a;
    bench_open(&n, &s);
    bench_sort(&n, &s);
    must(s.name, "open", uni_cuda_backend(&b, 0) || b.open(&b, &n.cells.problem, &n.matrix));
    answer_open(&whole, s.n, d, K);
    answer_open(&a, s.n, d, K);
    float *X = n.made.Z, *Y = malloc((size_t)(K * d) * 4), *elsewhere = malloc((size_t)(s.n * d) * 4);
    for (int64_t i = 0; i < s.n; i++)
        uni_normalise(X + i * d, d);
    for (int64_t k = 0; k < K; k++)
        memcpy(Y + k * d, X + 7 * k * d, (size_t)d * 4);
    const struct uni_rows rows = {X, s.n, 0, s.n}, kept = {elsewhere, s.n, 0, 0}, others = {elsewhere, s.n, 0, s.n};
    ask(&b, &whole, UNI_WANT_INDEX | UNI_WANT_SCORE, &rows, Y, K, d, 1);
    beside_loops(&whole, &rows, Y, K, d);
    poison(elsewhere, s.n * d * 4);
    ask(&b, &a, 0, &kept, Y, K, d, 1);
    same_sums("rows stay on the card", &a, &whole, K, d);
    for (int64_t i = 0; i < s.n * d; i++)
        elsewhere[i] = -X[i];
    ask(&b, &a, 0, &others, Y, K, d, 1); /* what is on the card now is wrong for X, everywhere */
    calls_again(&b, &whole, &a, X, s.n, Y, K, d);
    memcpy(X, elsewhere, (size_t)(s.n * d) * 4); /* others at the same address */
    ask(&b, &a, UNI_WANT_INDEX | UNI_WANT_SCORE, &rows, Y, K, d, 1);
    beside_loops(&a, &rows, Y, K, d);
    if (K > 1)
        one_without_rows(&b, &a, &rows, Y, K, d);
    b.close(&b);
    answer_close(&whole);
    answer_close(&a);
    free(Y), free(elsewhere);
    bench_close(&n);
}
