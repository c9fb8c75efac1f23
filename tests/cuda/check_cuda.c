/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA backend on a card: every operation beside plain loops in double and beside the CPU backend, then whole runs.
 *
 *     check_cuda [cells]        only operations, on problems of so many cells at most: for compute-sanitizer
 *
 * Exit code 77, and `skipped: no CUDA device`, where there is none. Outputs are filled with NaN before they are written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_made.h"
#include "cuda_plain.h"

static int checks, failures;

struct shape {
    const char *name;
    int64_t n, d, K, levels;
    double skew;
    int single, cluster_sigma, odd_ones; /* a row of zeros, a level without cells, skipped cells, a sigma that needs the shift */
};

static const struct shape shapes[] = {
    {"two cells", 2, 3, 2, 2, 0, 0, 0, 0},
    {"tiny", 60, 1, 1, 3, 0, 1, 0, 0},
    {"one dimension", 300, 1, 4, 2, 0, 0, 0, 0},
    {"plain", 1000, 20, 30, 3, 1, 0, 0, 0},
    {"plain, single", 1000, 20, 30, 3, 1, 1, 0, 0},
    {"default shape", 3000, 50, 100, 10, 1, 0, 0, 0},
    {"default shape, single", 3000, 50, 100, 10, 1, 1, 0, 0},
    {"odd everything", 1023, 7, 13, 5, 3, 0, 1, 1},
    {"odd everything, single", 1023, 7, 13, 5, 3, 1, 1, 1},
    {"d 31, K 65", 1500, 31, 65, 4, 2, 0, 0, 1},
    {"d 33, K 104, single", 1500, 33, 104, 4, 2, 1, 0, 1},
    {"d 57, K 105", 1500, 57, 105, 2, 0, 0, 1, 0},
    {"d 64, K 128, single", 1500, 64, 128, 2, 0, 1, 1, 0},
    {"many levels", 3000, 12, 25, 300, 3, 0, 0, 0},
    {"a thousand levels", 6000, 50, 100, 1000, 2, 0, 0, 0},
    {"plain path: d 65", 800, 65, 40, 3, 1, 0, 0, 1},
    {"plain path: d 200, single", 400, 200, 5, 2, 1, 1, 0, 0},
    {"plain path: K 129", 1500, 50, 129, 3, 1, 0, 1, 0},
    {"plain path: K 400", 2500, 20, 400, 3, 1, 0, 0, 0},
    {"plain path: K 1000, d 300", 1500, 300, 1000, 2, 1, 1, 0, 0},
    {"plain path: K 777, half", 1500, 20, 777, 20, 1, 0, 1, 0},
};

/* |a - b| / |b| over all; NaN anywhere is infinity */
static double apart(const double *a, const double *b, int64_t n)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return isnan(difference) ? HUGE_VAL : size > 0 ? sqrt(difference / size) : sqrt(difference);
}

static double apart_f(const float *a, const double *b, int64_t n)
{
    double *wide = malloc((size_t)n * sizeof *wide + 8), x;
    for (int64_t i = 0; i < n; i++)
        wide[i] = a[i];
    x = apart(wide, b, n);
    free(wide);
    return x;
}

static void expect(const char *where, const char *what, double x, double limit)
{
    checks++;
    if (x <= limit)
        return;
    failures++;
    printf("FAIL %-28s %-34s %.3g, at most %.3g\n", where, what, x, limit);
}

static void must(const char *where, const char *what, int err)
{
    checks++;
    if (!err)
        return;
    failures++;
    printf("FAIL %-28s %-34s %s\n", where, what, uni_last_error());
}

static void poison(void *p, int64_t bytes)
{
    memset(p, 0xff, (size_t)bytes);
}

struct bench {
    struct made made;
    struct uni_batch batch;
    struct uni_matrix matrix;
    struct uni_options options;
    struct uni_cells_sorted cells;
    struct uni_warnings warnings;
    double *sigma;
};

static void bench_open(struct bench *b, const struct shape *s)
{
    memset(b, 0, sizeof *b);
    made_open(&b->made, s->n, s->d, s->levels, s->skew, 4);
    uni_options_init(&b->options, sizeof b->options);
    b->options.n_clusters = s->K;
    b->options.force = 1;
    b->options.precision = s->single ? UNI_SINGLE : UNI_HALF;
    if (s->cluster_sigma) {
        b->sigma = malloc((size_t)s->K * sizeof *b->sigma);
        for (int64_t k = 0; k < s->K; k++)
            b->sigma[k] = 0.05 + 0.2 * (double)(k % 7) / 7;
        b->options.cluster_sigma = b->sigma;
        b->options.n_cluster_sigma = s->K;
    }
    b->batch = (struct uni_batch){"batch", s->n, s->levels + (s->odd_ones ? 1 : 0), b->made.level, NULL};
    if (s->odd_ones) {
        memset(b->made.Z + 5 * s->d, 0, (size_t)s->d * sizeof(float));
        for (int64_t i = 17; i < s->n; i += 97)
            b->made.level[i] = -1;
        b->options.missing = UNI_MISSING_SKIP;
    }
    b->matrix = (struct uni_matrix){b->made.Z, UNI_FLOAT32, s->n, s->d, s->d * 4, 4};
}

static void bench_close(struct bench *b)
{
    uni_problem_close(&b->cells);
    made_close(&b->made);
    free(b->sigma);
}

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

struct tables {
    double *O, *S, *plain_O, *plain_S, *level_O, *scratch, *plain_Z;
    float *Y, *Y2, *W, *W2, *cells;
    int64_t GK, GKD, KD, ND, NK;
};

static void tables_open(struct tables *t, const struct uni_problem *p)
{
    t->GK = p->G * p->K;
    t->GKD = t->GK * p->D;
    t->KD = p->K * p->D;
    t->ND = p->N_all * p->D;
    t->NK = p->N_all * p->K;
    t->O = malloc((size_t)t->GK * 8);
    t->plain_O = malloc((size_t)t->GK * 8);
    t->S = malloc((size_t)t->GKD * 8);
    t->plain_S = malloc((size_t)t->GKD * 8);
    t->level_O = malloc((size_t)(2 * p->B * p->K) * 8);
    t->scratch = malloc((size_t)uni_ridge_scratch(p->K, p->D, p->G) * 8);
    t->Y = malloc((size_t)t->KD * 4);
    t->Y2 = malloc((size_t)t->KD * 4);
    t->W = calloc((size_t)t->GKD, 4);
    t->W2 = calloc((size_t)t->GKD, 4);
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
    free(t->Y), free(t->Y2), free(t->W), free(t->W2), free(t->cells);
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
    struct uni_ridge a = {.cutoff = 1e-3, .alpha = 0.2, .lambda = n->cells.lambda, .group_cells = n->cells.group_cells}, c = a;
    double *wide = malloc((size_t)t->GKD * 8);
    uni_cpu_backend(&cpu);
    must(name, "moments", b->moments(b, t->S));
    must(name, "tables", b->tables(b, t->O, t->W2));
    uni_levels_of_groups(t->level_O, t->O, p);
    uni_expected(t->level_O + p->B * p->K, t->level_O, p);
    memcpy(t->Y2, t->Y, (size_t)t->KD * 4);
    must(name, "cpu open", cpu.open(&cpu, p, &n->matrix));
    must(name, "ridge.c", uni_ridge_solve(&c, t->W2, t->Y2, t->S, t->O, t->level_O + p->B * p->K, p, &cpu, t->scratch));
    must(name, "solve", b->solve(b, &a, t->Y, &solved));
    expect(name, "solved", !solved, 0);
    poison(t->W, t->GKD * 4);
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

static void check_corrected(const char *name, struct uni_backend *b, const struct plain *plain, struct tables *t, const float *W,
                            double limit)
{
    const struct uni_problem *p = plain->p;
    poison(t->cells, t->ND * 4);
    must(name, "read corrected", b->read(b, UNI_CELLS_CORRECTED, W ? UNI_KEPT : NULL, t->cells));
    plain_corrected(plain, W, t->plain_Z);
    expect(name, W ? "corrected" : "uncorrected", apart_f(t->cells, t->plain_Z, p->N_all * p->D), limit);
}

static void check_operations(const struct shape *s)
{
    struct bench n;
    struct plain plain;
    struct tables t;
    struct uni_backend b;
    struct uni_fit fit, plain_fit;
    double fine = s->single ? 2e-6 : 4e-4, coarse = s->single ? 4e-6 : 1e-3;
    bench_open(&n, s);
    struct uni_problem *p = &n.cells.problem;
    must(s->name, "problem",
         uni_problem_open(&n.cells, &n.warnings, s->n, s->d, &n.batch, 1, &n.options) ||
             uni_problem_sort(&n.cells, &n.options) || uni_problem_settle(&n.cells, &n.options, s->K));
    must(s->name, "backend", uni_cuda_backend(&b));
    must(s->name, "open", b.open(&b, p, &n.matrix));
    plain_open(&plain, p, &n.matrix);
    tables_open(&t, p);
    check_corrected(s->name, &b, &plain, &t, NULL, 0);

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
    must(s->name, "sweep", b.sweep(&b, t.O, &fit, 4, 0));
    plain_sweep(&plain, t.plain_O, &plain_fit, 4);
    expect(s->name, "O of five", apart(t.O, t.plain_O, t.GK), fine);
    check_fit(s->name, &fit, &plain_fit, 0, s->single ? 3e-6 : 1e-4);
    check_R(s->name, &b, &plain, &t, coarse);

    poison(t.S, t.GKD * 8);
    must(s->name, "moments", b.moments(&b, t.S));
    plain_moments(&plain, t.plain_S);
    expect(s->name, "S", apart(t.S, t.plain_S, t.GKD), fine);
    check_solve(s->name, &b, &n, &t);
    check_corrected(s->name, &b, &plain, &t, t.W, s->single ? 1e-6 : 1e-4);

    must(s->name, "assign", b.assign(&b, t.O, NULL, UNI_KEPT, t.Y));
    plain_assign(&plain, t.plain_O, &plain_fit, t.W, t.Y);
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

static void check_nearest(int64_t d, int64_t K)
{
    struct shape s = {"nearest", 5000, d, K, 2, 0, 0, 0, 0};
    struct bench n;
    struct uni_backend b;
    bench_open(&n, &s);
    must(s.name, "problem",
         uni_problem_open(&n.cells, &n.warnings, s.n, s.d, &n.batch, 1, &n.options) ||
             uni_problem_sort(&n.cells, &n.options) || uni_problem_settle(&n.cells, &n.options, s.K));
    must(s.name, "open", uni_cuda_backend(&b) || b.open(&b, &n.cells.problem, &n.matrix));
    int32_t *index = malloc((size_t)s.n * 4);
    float *score = malloc((size_t)s.n * 4), *Y = malloc((size_t)(K * d) * 4);
    double *sum = malloc((size_t)(K * d) * 8), worst = 0;
    int64_t *count = malloc((size_t)K * 8), total = 0, wrong = 0;
    for (int64_t i = 0; i < s.n; i++)
        uni_normalise(n.made.Z + i * d, d);
    for (int64_t k = 0; k < K; k++)
        memcpy(Y + k * d, n.made.Z + 7 * k * d, (size_t)d * 4);
    poison(score, s.n * 4);
    must(s.name, "nearest", b.nearest(&b, index, score, sum, count, n.made.Z, s.n, Y, K));
    for (int64_t i = 0; i < s.n; i++) {
        double best = -2, here = 0;
        for (int64_t k = 0; k < K; k++) {
            double dot = 0;
            for (int64_t j = 0; j < d; j++)
                dot += (double)n.made.Z[i * d + j] * Y[k * d + j];
            best = fmax(best, dot);
            here = k == index[i] ? dot : here;
        }
        worst = fmax(worst, fmax(fabs(best - score[i]), fabs(best - here)));
        for (int64_t j = 0; j < d; j++)
            sum[index[i] * d + j] -= n.made.Z[i * d + j];
        wrong += index[i] < 0 || index[i] >= K;
    }
    for (int64_t k = 0; k < K; k++)
        total += count[k];
    expect(s.name, "scores", worst, 2e-6);
    expect(s.name, "index", (double)wrong, 0);
    expect(s.name, "counts", fabs((double)(total - s.n)), 0);
    for (int64_t i = 0; i < K * d; i++)
        worst = fmax(worst, fabs(sum[i]));
    expect(s.name, "sums", worst, 2e-6);
    b.close(&b);
    free(index), free(score), free(Y), free(sum), free(count);
    bench_close(&n);
}

/* ---- whole runs ---------------------------------------------------------------------------------------------------------- */

static double *run_whole(const struct bench *n, enum uni_backend_kind kind, int64_t rounds, const float *start, float **start_out,
                         struct uni_summary *s)
{
    struct uni_harmony *h = NULL;
    struct uni_options o = n->options;
    int64_t ND = n->made.n * n->made.d, shape[3];
    float *Z = malloc((size_t)ND * 4);
    double *wide = malloc((size_t)ND * 8);
    o.backend = kind;
    o.max_rounds = rounds;
    o.tol = -1;
    if (start) {
        o.centroids = start;
        o.n_centroids = o.n_clusters;
    }
    poison(Z, ND * 4);
    must("whole run", "open, run, read",
         uni_open(&h, &n->matrix, &n->batch, 1, &o) || uni_run(h) || uni_read(h, UNI_CORRECTED, Z));
    if (h && start_out && uni_shape(h, UNI_START, shape) == UNI_OK) {
        *start_out = malloc((size_t)(shape[0] * shape[1]) * 4);
        must("whole run", "start", uni_read(h, UNI_START, *start_out));
    }
    for (int64_t i = 0; i < ND; i++)
        wide[i] = Z[i];
    if (h)
        *s = *uni_summary(h);
    if (h && s->n_objectives > 0 && kind == UNI_BACKEND_CUDA && n->made.n < 2000) {
        double *E = malloc(sizeof *E * (size_t)(n->batch.n_levels * o.n_clusters));
        must("whole run", "expected", uni_read(h, UNI_EXPECTED, E));
        free(E);
    }
    uni_close(h);
    free(Z);
    return wide;
}

static void check_whole(const char *name, int64_t n_cells, int64_t d, int64_t K, int64_t levels, int single, int64_t rounds)
{
    struct shape s = {name, n_cells, d, K, levels, 2, single, 0, 0};
    struct bench n;
    struct uni_summary cpu, cuda;
    float *start = NULL;
    bench_open(&n, &s);
    double *a = run_whole(&n, UNI_BACKEND_CPU, rounds, NULL, &start, &cpu),
           *b = run_whole(&n, UNI_BACKEND_CUDA, rounds, start, NULL, &cuda);
    double difference = 0, size = 0, worst = 0;
    for (int64_t i = 0; i < n_cells * d; i++) {
        double z = a[i] - n.made.Z[i], x = b[i] - a[i];
        difference += x * x;
        size += z * z;
        worst = fmax(worst, fabs(x));
    }
    printf("  %-40s cpu and cuda apart by %.2e of the correction, worst entry %.1e\n", name, sqrt(difference / size), worst);
    expect(name, "correction beside the CPU's", isnan(difference) ? HUGE_VAL : sqrt(difference / size), single ? 1e-5 : 5e-5);
    free(a), free(b), free(start);
    bench_close(&n);
}

/* With one cluster, automatic lambda: z - (m_level - m_all) / (1 + alpha), m_all the mean of all cells. */
static void check_closed_form(int single)
{
    struct shape s = {"closed form", 5000, 19, 1, 7, 2, single, 0, 0};
    struct bench n;
    struct uni_summary summary;
    bench_open(&n, &s);
    double *z = run_whole(&n, UNI_BACKEND_CUDA, 1, NULL, NULL, &summary), difference = 0, size = 0;
    double *mean = calloc((size_t)(8 * s.d), 8), cells[8] = {0};
    for (int64_t i = 0; i < s.n; i++) {
        int64_t l = n.made.level[i];
        cells[l]++;
        for (int64_t j = 0; j < s.d; j++) {
            mean[l * s.d + j] += n.made.Z[i * s.d + j];
            mean[7 * s.d + j] += n.made.Z[i * s.d + j];
        }
    }
    for (int64_t i = 0; i < s.n; i++)
        for (int64_t j = 0; j < s.d; j++) {
            int64_t l = n.made.level[i];
            double shift = (mean[l * s.d + j] / cells[l] - mean[7 * s.d + j] / (double)s.n) / 1.2,
                   x = z[i * s.d + j] - (n.made.Z[i * s.d + j] - shift);
            difference += x * x;
            size += shift * shift;
        }
    expect(s.name, single ? "single" : "half", isnan(difference) ? HUGE_VAL : sqrt(difference / size), 1e-5);
    free(z), free(mean);
    bench_close(&n);
}

static void check_same_bytes(int64_t n_cells, int64_t levels, int times)
{
    struct shape s = {"same bytes", n_cells, 50, 100, levels, 2, 0, 0, 0};
    struct bench n;
    struct uni_summary summary;
    bench_open(&n, &s);
    double *first = run_whole(&n, UNI_BACKEND_CUDA, 5, NULL, NULL, &summary);
    for (int i = 1; i < times; i++) {
        double *again = run_whole(&n, UNI_BACKEND_CUDA, 5, NULL, NULL, &summary);
        expect(s.name, "again", memcmp(first, again, (size_t)(n_cells * s.d) * 8) != 0, 0);
        free(again);
    }
    free(first);
    bench_close(&n);
}

int main(int argc, char **argv)
{
    struct uni_backend_info info;
    int64_t small = argc > 1 ? atoll(argv[1]) : 0;
    if (!uni_backend_at(1, &info) || !info.usable) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    printf("%s: %s\n", info.name, info.detail);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!small || shapes[i].n <= small)
            check_operations(&shapes[i]);
    if (!small) {
        check_nearest(50, 100);
        check_nearest(7, 1);
        check_nearest(300, 500);
        check_closed_form(0);
        check_closed_form(1);
        check_whole("20k x 50, 2 levels", 20000, 50, 100, 2, 0, 5);
        check_whole("20k x 50, 2 levels, single", 20000, 50, 100, 2, 1, 5);
        check_whole("20k x 31, 20 levels, single", 20000, 31, 77, 20, 1, 5);
        check_whole("50k x 50, 1000 levels", 50000, 50, 100, 1000, 0, 5);
        check_whole("50k x 50, 1000 levels, single", 50000, 50, 100, 1000, 1, 5);
        check_whole("20k x 80, 150 clusters, single", 20000, 80, 150, 5, 1, 4);
        check_whole("1M x 50, 10 levels", 1000000, 50, 100, 10, 0, 3);
        check_whole("1M x 50, 10 levels, single", 1000000, 50, 100, 10, 1, 3);
        check_same_bytes(100000, 10, 10);
        check_same_bytes(60000, 500, 4);
    }
    printf("%d checks, %d failed\n", checks, failures);
    return failures > 0;
}
