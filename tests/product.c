/* SPDX-License-Identifier: BSD-3-Clause */
#include "product.h"
#include "testing.h"

#include <math.h>

/* Before main: a forced instruction set that this processor lacks is no failure but a skip (77); UNI_TESTS and UNI_TESTS_SKIP are
   patterns of the names of tests that are wanted and not wanted. */
static void __attribute__((constructor)) heed_environment(void)
{
    struct uni_backend_info info;
    const char *isa = getenv("UNISONO_ISA"), *wanted = getenv("UNI_TESTS"), *unwanted = getenv("UNI_TESTS_SKIP");
    for (int i = 0; isa && uni_backend_at(i, &info); i++)
        if (strcmp(info.name, "cpu") == 0 && !info.usable) {
            printf("skipped: %s\n", info.detail);
            exit(77);
        }
    if (wanted)
        cmocka_set_test_filter(wanted);
    if (unwanted)
        cmocka_set_skip_filter(unwanted);
}

struct uni_matrix matrix_of(const struct made_data *data)
{
    return (struct uni_matrix){.data = data->Z, .dtype = UNI_FLOAT32, .n_cells = data->n, .n_dims = data->d};
}

struct uni_batch batch_of(const struct made_data *data)
{
    return (struct uni_batch){.n_cells = data->n, .n_levels = data->n_levels, .level = data->level};
}

struct uni_options defaults(void)
{
    struct uni_options options;
    uni_options_init(&options, sizeof options);
    return options;
}

double *widen(const float *values, int64_t count)
{
    double *wide = malloc((size_t)count * sizeof *wide + 1);
    assert_non_null(wide);
    for (int64_t i = 0; i < count; i++)
        wide[i] = values[i];
    return wide;
}

static void *read_array(struct uni_harmony *run, enum uni_array what, size_t size, int64_t *count)
{
    int64_t shape[3];
    assert_int_equal(uni_shape(run, what, shape), UNI_OK);
    *count = shape[0] * shape[1] * shape[2];
    void *values = malloc((size_t)*count * size + 1);
    assert_non_null(values);
    assert_int_equal(uni_read(run, what, values), UNI_OK);
    return values;
}

static double *read_floats(struct uni_harmony *run, enum uni_array what)
{
    int64_t count;
    float *values = read_array(run, what, sizeof *values, &count);
    double *wide = widen(values, count);
    free(values);
    return wide;
}

static double *read_doubles(struct uni_harmony *run, enum uni_array what)
{
    int64_t count;
    return read_array(run, what, sizeof(double), &count);
}

void product_read(struct product *p, struct uni_harmony *run)
{
    memset(p, 0, sizeof *p);
    p->run = run;
    p->summary = uni_summary(run);
    p->n = p->summary->n_cells, p->d = p->summary->n_dims, p->K = p->summary->n_clusters;
    p->Zcorr = read_floats(run, UNI_CORRECTED);
    if (p->summary->reason == UNI_ONE_LEVEL || p->summary->reason == UNI_NO_ROUNDS)
        return;
    int64_t shape[3], count;
    assert_int_equal(uni_shape(run, UNI_OBSERVED, shape), UNI_OK);
    p->B = shape[0];
    assert_int_equal(shape[1], p->K);
    p->R = read_floats(run, UNI_ASSIGNMENTS);
    p->Y = read_floats(run, UNI_CENTROIDS);
    p->start = read_floats(run, UNI_START);
    p->W = read_floats(run, UNI_CORRECTION);
    p->O = read_doubles(run, UNI_OBSERVED);
    p->E = read_doubles(run, UNI_EXPECTED);
    p->lambda = read_doubles(run, UNI_LAMBDA);
    p->theta = read_doubles(run, UNI_THETA);
    p->sigma = read_doubles(run, UNI_SIGMA);
    p->block = read_array(run, UNI_BLOCKS, sizeof *p->block, &count);
    p->summary = uni_summary(run);
}

void product_run(struct product *p, const struct uni_matrix *m, const struct uni_batch *batch, const struct uni_options *options)
{
    struct uni_harmony *run = NULL;
    memset(p, 0, sizeof *p);
    if (uni_open(&run, m, batch, 1, options) != UNI_OK || uni_run(run) != UNI_OK) {
        print_error("%s\n", uni_last_error());
        uni_close(run);
        fail();
    }
    product_read(p, run);
}

void product_run_data(struct product *p, const struct made_data *data, const struct uni_options *options)
{
    struct uni_matrix m = matrix_of(data);
    struct uni_batch batch = batch_of(data);
    product_run(p, &m, &batch, options);
}

void product_close(struct product *p)
{
    void *all[] = {p->Zcorr, p->R, p->Y, p->start, p->W, p->O, p->E, p->lambda, p->theta, p->sigma, p->block};
    uni_close(p->run);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    memset(p, 0, sizeof *p);
}

void assert_same_bytes(const struct product *a, const struct product *b)
{
    size_t n = (size_t)a->n, d = (size_t)a->d, K = (size_t)a->K, B = (size_t)a->B;
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->d, b->d);
    assert_int_equal(a->K, b->K);
    assert_int_equal(a->B, b->B);
    assert_memory_equal(a->Zcorr, b->Zcorr, n * d * sizeof(double));
    assert_memory_equal(a->R, b->R, n * K * sizeof(double));
    assert_memory_equal(a->Y, b->Y, K * d * sizeof(double));
    assert_memory_equal(a->start, b->start, K * d * sizeof(double));
    assert_memory_equal(a->W, b->W, B * K * d * sizeof(double));
    assert_memory_equal(a->O, b->O, B * K * sizeof(double));
    assert_memory_equal(a->E, b->E, B * K * sizeof(double));
    assert_memory_equal(a->lambda, b->lambda, B * K * sizeof(double));
    assert_memory_equal(a->block, b->block, n * sizeof *a->block);
    assert_int_equal(a->summary->n_objectives, b->summary->n_objectives);
    for (int64_t s = 0; s < a->summary->n_objectives; s++)
        assert_memory_equal(&a->summary->objectives[s].total, &b->summary->objectives[s].total, sizeof(double));
}

int product_warns(const struct product *p, const char *text)
{
    for (int64_t i = 0; i < p->summary->n_warnings; i++)
        if (strstr(p->summary->warnings[i], text))
            return 1;
    return 0;
}

struct ref_problem problem_of(const struct product *p, const struct made_data *data, const struct uni_options *o)
{
    double tol = isnan(o->tol) ? (o->stop == UNI_STOP_CHANGE ? 0.03 : 0.01) : o->tol;
    return (struct ref_problem){.n = data->n,
                                .d = data->d,
                                .K = p->K,
                                .Z = widen(data->Z, data->n * data->d),
                                .n_variables = 1,
                                .n_levels = {data->n_levels},
                                .level = {data->level},
                                .theta = {o->theta.value[0]},
                                .tau = {o->tau.value[0]},
                                .lambda = {o->lambda.n ? o->lambda.value[0] : 0},
                                .alpha = o->alpha,
                                .cutoff = o->cutoff,
                                .sigma = o->sigma,
                                .cluster_sigma = o->cluster_sigma,
                                .start = p->start,
                                .max_rounds = o->max_rounds,
                                .sweeps = o->sweeps,
                                .window = o->window,
                                .stop = o->stop == UNI_STOP_CHANGE ? REF_STOP_CHANGE : REF_STOP_OBJECTIVE,
                                .tol = tol,
                                .sweep_tol = o->sweep_tol,
                                .block = p->block};
}
