/* SPDX-License-Identifier: BSD-3-Clause */
#include "study.h"
#include "testing.h"

#include <math.h>

static const struct problem_case cells = {"study", 1500, 12, 20, 24, 8, 3, 1.5, 0.05};

/* Of one variable after the first. Level 2 of an odd one is without cells, 3 has one, 1 is rare. */
static int32_t draw_level(enum study_kind kind, int v, int64_t i, int32_t sample, int64_t n_levels, uint64_t *state)
{
    int32_t drawn = (int32_t)(made_uniform(state) * (double)n_levels);
    if (kind == STUDY_NESTED && v < 3)
        return sample / (v == 1 ? 4 : 12);
    if (kind != STUDY_ODD || v >= 3)
        return drawn;
    return i == 5 ? 3 : i % 97 == 0 ? 1 : drawn == 3 || drawn == 2 ? 0 : drawn;
}

void study_make(struct study *s, enum study_kind kind, int n_variables)
{
    static const char *const names[] = {"sample", "donor", "site", "kit", "run", "lane", "day", "hand"};
    static const int64_t levels[STUDY_KINDS][STUDY_VARIABLES] = {
        {24, 6, 2, 3, 2, 4, 3, 2}, {24, 5, 3, 3, 2, 4, 3, 2}, {24, 5, 4, 3, 2, 4, 3, 2}};
    uint64_t state = 11;
    *s = (struct study){.n = n_variables};
    made_case(&s->data, &cells, 7);
    for (int v = 0; v < STUDY_VARIABLES; v++) {
        s->level[v] = malloc((size_t)s->data.n * sizeof(int32_t));
        assert_non_null(s->level[v]);
        for (int64_t i = 0; i < s->data.n; i++) {
            int32_t sample = s->data.level[i];
            s->level[v][i] = v == 0 ? sample : draw_level(kind, v, i, sample, levels[kind][v], &state);
        }
        s->batch[v] =
            (struct uni_batch){.name = names[v], .n_cells = s->data.n, .n_levels = levels[kind][v], .level = s->level[v]};
    }
}

void study_make_case(struct study *s, const struct problem_case *c)
{
    *s = (struct study){.n = 1};
    made_case(&s->data, c, 1);
    s->level[0] = malloc((size_t)s->data.n * sizeof(int32_t));
    assert_non_null(s->level[0]);
    memcpy(s->level[0], s->data.level, (size_t)s->data.n * sizeof(int32_t));
    s->batch[0] = (struct uni_batch){.name = "batch", .n_cells = s->data.n, .n_levels = s->data.n_levels, .level = s->level[0]};
}

void study_weigh(struct study *s)
{
    uint64_t state = 12;
    s->weight = malloc((size_t)s->data.n * sizeof *s->weight);
    assert_non_null(s->weight);
    for (int64_t i = 0; i < s->data.n; i++)
        s->weight[i] = (float)pow(4, 2 * made_uniform(&state) - 1);
}

void study_covary(struct study *s, int n_covariates)
{
    static const char *const names[] = {"depth", "mito"};
    uint64_t state = 13;
    s->n_covariates = n_covariates;
    for (int x = 0; x < n_covariates; x++) {
        float *along = malloc((size_t)s->data.d * sizeof *along);
        assert_non_null(along);
        for (int64_t j = 0; j < s->data.d; j++)
            along[j] = (float)(0.5 * made_normal(&state));
        s->value[x] = malloc((size_t)s->data.n * sizeof(double));
        assert_non_null(s->value[x]);
        for (int64_t i = 0; i < s->data.n; i++) {
            double value = made_normal(&state) + 0.1 * s->data.level[i]; /* samples differ in it */
            s->value[x][i] = 1000 + 30 * value;
            for (int64_t j = 0; j < s->data.d; j++)
                s->data.Z[i * s->data.d + j] += along[j] * (float)value;
        }
        free(along);
        s->covariate[x] = (struct uni_covariate){names[x], s->data.n, s->value[x]};
    }
}

void study_close(struct study *s)
{
    for (int v = 0; v < STUDY_VARIABLES; v++)
        free(s->level[v]);
    for (int x = 0; x < s->n_covariates; x++)
        free(s->value[x]);
    free(s->weight);
    made_free(&s->data);
}

struct uni_options study_options(void)
{
    struct uni_options o = defaults();
    o.n_clusters = cells.n_clusters;
    o.precision = UNI_SINGLE;
    o.terms = 1;
    o.tol = -1;
    o.max_rounds = 5;
    return o;
}

static void add_cells(const struct study *s, struct uni_options *o)
{
    if (s->weight) {
        o->weights = s->weight;
        o->n_weights = s->data.n;
    }
    if (s->n_covariates) {
        o->covariates = s->covariate;
        o->n_covariates = s->n_covariates;
    }
}

struct uni_harmony *study_open(const struct study *s, struct uni_options options)
{
    struct uni_matrix m = matrix_of(&s->data);
    struct uni_harmony *run = NULL;
    add_cells(s, &options);
    if (uni_open(&run, &m, s->batch, s->n, &options) != UNI_OK) {
        print_error("%s\n", uni_last_error());
        fail();
    }
    return run;
}

void study_run(struct product *p, const struct study *s, const struct uni_options *options)
{
    struct uni_harmony *run = study_open(s, *options);
    if (uni_run(run) != UNI_OK) {
        print_error("%s\n", uni_last_error());
        uni_close(run);
        fail();
    }
    product_read(p, run);
}

int study_refused(const struct study *s, struct uni_options options)
{
    struct uni_matrix m = matrix_of(&s->data);
    struct uni_harmony *run = NULL;
    add_cells(s, &options);
    int err = uni_open(&run, &m, s->batch, s->n, &options);
    if (err)
        assert_null(run);
    uni_close(run);
    return err;
}

static double value_of(const struct uni_values *values, int v)
{
    return values->value[values->n == 1 ? 0 : v];
}

struct ref_problem study_problem(const struct product *p, const struct study *s, const struct uni_options *o)
{
    struct ref_problem q = problem_of(p, &s->data, o);
    q.n_variables = s->n;
    for (int v = 0; v < s->n; v++) {
        q.n_levels[v] = s->batch[v].n_levels;
        q.level[v] = s->level[v];
        q.theta[v] = value_of(&o->theta, v);
        q.tau[v] = value_of(&o->tau, v);
        q.lambda[v] = o->lambda.n ? value_of(&o->lambda, v) : o->flavor == UNI_HARMONY1 ? 1 : 0;
    }
    q.update = o->update == UNI_UPDATE_JACOBI ? REF_JACOBI : REF_BLOCKS;
    q.harmony1 = o->flavor == UNI_HARMONY1;
    q.add_penalties = o->compat == UNI_COMPAT_R204;
    q.overcorrect = o->overcorrect;
    q.weight = s->weight;
    q.n_covariates = s->n_covariates;
    for (int x = 0; x < s->n_covariates; x++)
        q.covariate[x] = s->value[x];
    return q;
}

static struct agreement follow(const struct study *s, const struct uni_options *options)
{
    struct product p;
    study_run(&p, s, options);
    struct ref_problem q = study_problem(&p, s, options);
    int noisy = options->sweep_tol >= 0 && options->sweep_tol < 1e-4; /* rounding then decides after which sweep a round ends */
    struct agreement a = agree_on(&p, &q, noisy);
    free((double *)(uintptr_t)q.Z);
    product_close(&p);
    return a;
}

/* In half precision a pair may lie so near to the cutoff that rounding decides what becomes of it, and all that follows: the cutoff is
   then moved a little. */
void study_follows(const struct study *s, const struct uni_options *options, double scale)
{
    struct uni_options o = *options;
    struct agreement a = follow(s, &o);
    for (int i = 0; i < 3 && o.precision == UNI_HALF && (a.pruned || a.skipped); i++) {
        o.cutoff *= 1.07;
        a = follow(s, &o);
    }
    assert_agreement(&a, scale);
    assert_int_equal(a.pruned, 0);
    assert_int_equal(a.skipped, 0);
}
