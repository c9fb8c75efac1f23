/* SPDX-License-Identifier: BSD-3-Clause */
#include "random_problem.h"

#include <math.h>

#include "testing.h"

enum { MOST_VARIABLES = 3, MOST_COVARIATES = STUDY_COVARIATES };

/* Two float32 runs of a soft clustering differ by more than rounding where a row is torn between two clusters; over one or two
   rounds the correction as a whole does not. Of the embedding's size at least a thousandth counts as its size. */
static const double MOST_OFF = 2e-2;

static int64_t below(uint64_t *state, int64_t n)
{
    return (int64_t)(made_uniform(state) * (double)n);
}

static double log_uniform(uint64_t *state, double low, double high)
{
    return low * pow(high / low, made_uniform(state));
}

/* Types and noise; then, now and then: copies, rows of zeros, constant columns, all cells alike, a scale far from one. */
static void draw_cells(struct random_problem *p, uint64_t *state)
{
    int64_t n = 2 + below(state, below(state, 3) ? 60 : 400), d = 1 + below(state, below(state, 4) ? 12 : 70);
    int oddity = (int)below(state, 9);
    double scale = below(state, 6) ? 1 : log_uniform(state, 1e-25, 1e25);
    made_empty(&p->study.data, n, d, 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            double x = made_normal(state) + 3 * (i % 5 == j % 5);
            if (oddity == 0 || (oddity == 1 && i % 4 == 0))
                x = 1 + (double)(j % 3);
            if ((oddity == 2 && i % 3 == 0) || (oddity == 3 && j % 2 == 0))
                x = 0;
            if (oddity == 4)
                x = (double)((i % 4) * (j + 1));
            p->study.data.Z[i * d + j] = (float)(x * scale);
        }
}

static void draw_labels(struct random_problem *p, uint64_t *state)
{
    static const char *const names[] = {"one", "two", "three"};
    const int64_t n = p->study.data.n;
    p->study.n = below(state, 2) ? 1 : 1 + (int)below(state, MOST_VARIABLES);
    for (int v = 0; v < p->study.n; v++) {
        int64_t levels = 1 + below(state, below(state, 4) ? 5 : 1 + n / 4);
        double skew = 1 + 3 * made_uniform(state);
        p->study.level[v] = malloc((size_t)n * sizeof(int32_t));
        assert_non_null(p->study.level[v]);
        for (int64_t i = 0; i < n; i++)
            p->study.level[v][i] = (int32_t)(pow(made_uniform(state), skew) * (double)levels);
        p->study.batch[v] = (struct uni_batch){.name = names[v], .n_cells = n, .n_levels = levels, .level = p->study.level[v]};
    }
}

static void draw_per_cell(struct random_problem *p, uint64_t *state)
{
    const int64_t n = p->study.data.n;
    if (below(state, 4) == 0) {
        p->study.weight = malloc((size_t)n * sizeof *p->study.weight);
        assert_non_null(p->study.weight);
        for (int64_t i = 0; i < n; i++)
            p->study.weight[i] = (float)log_uniform(state, 0.1, 10);
        p->options.weights = p->study.weight;
        p->options.n_weights = n;
    }
    p->study.n_covariates = below(state, 4) ? 0 : 1 + (int)below(state, MOST_COVARIATES);
    for (int x = 0; x < p->study.n_covariates; x++) {
        p->study.value[x] = malloc((size_t)n * sizeof(double));
        assert_non_null(p->study.value[x]);
        for (int64_t i = 0; i < n; i++)
            p->study.value[x][i] = 5 + 2 * made_normal(state);
        p->study.covariate[x] = (struct uni_covariate){"depth", n, p->study.value[x]};
    }
    p->options.covariates = p->study.n_covariates ? p->study.covariate : NULL;
    p->options.n_covariates = p->study.n_covariates;
}

static void draw_options(struct random_problem *p, uint64_t *state)
{
    struct uni_options *o = &p->options;
    *o = defaults();
    o->force = 1;
    o->tol = -1;
    o->precision = UNI_SINGLE;
    o->n_clusters = below(state, 3) ? 0 : 1 + below(state, 40);
    o->sigma = below(state, 3) ? 0.1 : log_uniform(state, 1e-3, 10);
    o->theta.value[0] = below(state, 3) ? 2 : 20 * made_uniform(state) * made_uniform(state);
    o->tau.value[0] = below(state, 3) ? 0 : 30 * made_uniform(state);
    o->alpha = below(state, 3) ? 0.2 : log_uniform(state, 1e-3, 10);
    o->cutoff = below(state, 3) ? 1e-5 : 0.3 * made_uniform(state);
    o->block_size = below(state, 3) ? 0.05 : 0.01 + 0.99 * made_uniform(state);
    o->sweeps = 1 + below(state, 6);
    o->max_rounds = 1 + below(state, 2);
    o->seed = below(state, 1000);
    o->threads = 1 + below(state, 3);
    o->terms = (int)below(state, 2);
    o->update = below(state, 4) ? UNI_UPDATE_BLOCKS : UNI_UPDATE_JACOBI;
    o->flavor = below(state, 5) ? UNI_HARMONY2 : UNI_HARMONY1;
    if (o->flavor == UNI_HARMONY1) { /* a ratio of two small numbers to a high power is anybody's */
        o->sigma = fmax(o->sigma, 0.01);
        o->theta.value[0] = fmin(o->theta.value[0], 5);
    }
    if (below(state, 3) == 0)
        o->lambda = (struct uni_values){1, {log_uniform(state, 0.01, 100)}};
}

void random_problem_draw(struct random_problem *p, uint64_t *of_options, uint64_t *of_cells, uint64_t *of_labels,
                         uint64_t *of_per_cell)
{
    memset(p, 0, sizeof *p);
    draw_options(p, of_options);
    draw_cells(p, of_cells);
    draw_labels(p, of_labels);
    draw_per_cell(p, of_per_cell);
}

static double root_mean_square(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - (y ? y[i] : 0)) * (x[i] - (y ? y[i] : 0));
    return sqrt(sum / (double)n);
}

static int sums_to_one(const struct product *run)
{
    for (int64_t i = 0; i < run->n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < run->K; k++)
            sum += run->R[i * run->K + k];
        if (sum != 0 && !(fabs(sum - 1) < 1e-4))
            return 0;
    }
    return 1;
}

/* The oracle's result for the product's rounds, of Z; *pruned: in how many rounds it leaves out another number of pairs. */
static double *of_oracle(const struct ref_problem *q, const struct product *run, int64_t *pruned)
{
    const int64_t count = run->n * run->d;
    double *result = malloc((size_t)count * sizeof *result);
    struct ref_run *oracle = ref_open(q);
    assert_non_null(result);
    for (int64_t round = 0; round < run->summary->n_rounds; round++) {
        oracle->p.sweeps = run->summary->rounds[round].sweeps;
        oracle->p.sweep_tol = -1;
        ref_round(oracle);
        *pruned += oracle->pruned_pairs != run->summary->rounds[round].pruned_pairs;
    }
    memcpy(result, oracle->Zcorr, (size_t)count * sizeof *result);
    ref_close(oracle);
    return result;
}

/* How far the oracle itself goes when every number is another float32's rounding away. */
static double sway(const struct ref_problem *q, const struct product *run, const double *result)
{
    const int64_t count = run->n * run->d;
    double *near = malloc((size_t)count * sizeof *near);
    struct ref_problem moved = *q;
    int64_t unused = 0;
    assert_non_null(near);
    for (int64_t i = 0; i < count; i++)
        near[i] = q->Z[i] * (1 + (i % 2 ? 6e-8 : -6e-8));
    moved.Z = near;
    double *other = of_oracle(&moved, run, &unused);
    double far = root_mean_square(result, other, count);
    free(other);
    free(near);
    return far;
}

/* How the product's run compares with the oracle's; *off as MOST_OFF measures it. */
static enum verdict compare(const struct random_problem *p, const struct product *run, double *off)
{
    const int64_t count = p->study.data.n * p->study.data.d;
    struct ref_problem q = study_problem(run, &p->study, &p->options);
    int64_t pruned = 0;
    double *result = of_oracle(&q, run, &pruned);
    double size = fmax(root_mean_square(result, q.Z, count), 1e-3 * root_mean_square(q.Z, NULL, count));
    double far = root_mean_square(run->Zcorr, result, count);
    enum verdict verdict = AGREES;
    *off = size > 0 ? far / size : 0;
    /* A pair on the cutoff is in for one and out for the other; or rounding alone leads anywhere. */
    if (!(*off <= MOST_OFF))
        verdict = pruned || sway(&q, run, result) > 0.1 * far ? KNIFE_EDGE : WRONG;
    free(result);
    free((double *)(uintptr_t)q.Z);
    return verdict;
}

enum verdict random_problem_try(const struct random_problem *p, double *off)
{
    struct uni_harmony *opened = NULL;
    struct uni_matrix m = matrix_of(&p->study.data);
    *off = 0;
    if (uni_open(&opened, &m, p->study.batch, p->study.n, &p->options) != UNI_OK)
        return opened == NULL && *uni_last_error() ? REFUSED : WRONG;
    int err = uni_run(opened);
    if (err) { /* a sentence, and no stale numbers */
        int said = err == UNI_NUMERIC && *uni_last_error();
        uni_close(opened);
        return said ? REFUSED : WRONG;
    }
    struct product run;
    product_read(&run, opened);
    enum verdict verdict = UNCHANGED;
    for (int64_t i = 0; i < p->study.data.n * p->study.data.d; i++)
        if (!isfinite(run.Zcorr[i]))
            verdict = WRONG;
    if (verdict != WRONG && run.summary->n_rounds > 0)
        verdict = sums_to_one(&run) ? compare(p, &run, off) : WRONG;
    product_close(&run);
    return verdict;
}
