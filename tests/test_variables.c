/* SPDX-License-Identifier: BSD-3-Clause */
/* Several batch variables: the library against the oracle, on the same start and blocks, and what users ask of nested and crossed ones. */
#include "product.h"
#include "testing.h"

#include <math.h>

enum { MOST = 3 };

struct variables {
    struct made_data data;
    int n;
    struct uni_batch batch[MOST];
    int32_t *level[MOST];
};

static const struct problem_case base_case = {"variables", 1500, 12, 20, 24, 8, 3, 1.5, 0.05};

/* kind 0: sample (24) nested in donor (6) and site (2); 1: crossed; 2: sample and an unused, a one-cell and a rare level of another. */
static void make(struct variables *x, int n, int kind)
{
    uint64_t random = 11;
    made_case(&x->data, &base_case, 7);
    x->n = n;
    for (int v = 0; v < n; v++) {
        static const char *const names[MOST] = {"sample", "donor", "site"};
        static const int64_t levels[3][MOST] = {{24, 6, 2}, {24, 5, 3}, {24, 5, 4}};
        x->level[v] = malloc((size_t)x->data.n * sizeof(int32_t));
        for (int64_t i = 0; i < x->data.n; i++) {
            int32_t sample = x->data.level[i], drawn = (int32_t)(made_uniform(&random) * (double)levels[kind][v]);
            x->level[v][i] = v == 0 ? sample : kind == 0 ? sample / (v == 1 ? 4 : 12) : drawn;
            if (kind == 2 && v > 0)
                x->level[v][i] = i == 5 ? 3 : i % 97 == 0 ? 1 : drawn == 3 || drawn == 2 ? 0 : drawn; /* 2 unused, 3 one cell */
        }
        x->batch[v] = (struct uni_batch){.name = names[v], .n_cells = x->data.n, .n_levels = levels[kind][v], .level = x->level[v]};
    }
}

static void drop(struct variables *x)
{
    for (int v = 0; v < x->n; v++)
        free(x->level[v]);
    made_free(&x->data);
}

static void run(struct product *p, const struct variables *x, const struct uni_options *o)
{
    struct uni_matrix m = matrix_of(&x->data);
    struct uni_harmony *h;
    assert_int_equal(uni_open(&h, &m, x->batch, x->n, o), UNI_OK);
    assert_int_equal(uni_run(h), UNI_OK);
    product_read(p, h);
}

static struct uni_options settings(void)
{
    struct uni_options o = defaults();
    o.n_clusters = base_case.n_clusters;
    o.precision = UNI_SINGLE;
    o.terms = 1;
    o.tol = -1;
    o.max_rounds = 5;
    return o;
}

static double worst(const double *a, const double *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

static void assert_follows(const struct variables *x, const struct uni_options *o)
{
    struct product p;
    run(&p, x, o);
    struct ref_problem q = problem_of(&p, &x->data, o);
    q.n_variables = x->n;
    for (int v = 0; v < x->n; v++) {
        q.n_levels[v] = x->batch[v].n_levels;
        q.level[v] = x->batch[v].level;
        q.theta[v] = o->theta.value[o->theta.n == 1 ? 0 : v];
        q.tau[v] = o->tau.value[o->tau.n == 1 ? 0 : v];
        q.lambda[v] = o->lambda.n ? o->lambda.value[o->lambda.n == 1 ? 0 : v] : 0;
    }
    struct ref_run *r = ref_open(&q);
    ref_run_all(r);
    double moved = 0, off = 0;
    for (int64_t i = 0; i < p.n * p.d; i++) {
        moved += pow(r->Zcorr[i] - q.Z[i], 2);
        off += pow(r->Zcorr[i] - p.Zcorr[i], 2);
    }
    const struct uni_round *last = &p.summary->rounds[p.summary->n_rounds - 1];
    const struct ref_objective *objective = &r->objectives[r->n_objectives - 1];
    assert_int_equal(p.B, r->B);
    assert_at_most(sqrt(off / moved), 2e-5);
    assert_at_most(worst(p.R, r->R, p.n * p.K), 1e-3);
    assert_at_most(worst(p.Y, r->Y, p.K * p.d), 1e-4);
    assert_at_most(worst(p.O, r->O, p.B * p.K), 2e-2);
    assert_at_most(worst(p.E, r->E, p.B * p.K), 2e-2);
    assert_at_most(worst(p.lambda, r->lambda, p.B * p.K), 4e-3);
    assert_at_most(worst(p.theta, r->theta, p.B), 1e-12);
    assert_near(p.summary->objectives[p.summary->n_objectives - 1].diversity, objective->diversity, 1e-3);
    assert_near(last->objective, objective->total, 1e-3);
    assert_near(last->change, r->change, 1e-4);
    assert_int_equal(last->pruned_pairs, r->pruned_pairs);
    assert_int_equal(last->skipped_clusters, r->skipped_clusters);
    ref_close(r);
    free((void *)(uintptr_t)q.Z);
    product_close(&p);
}

static void library_follows_the_oracle(void **state)
{
    (void)state;
    for (int n = 2; n <= MOST; n++)
        for (int kind = 0; kind < 3; kind++) {
            struct variables x;
            struct uni_options o = settings();
            make(&x, n, kind);
            assert_follows(&x, &o);
            o.theta = (struct uni_values){n, {2, 0.5, 1}};
            o.lambda = (struct uni_values){n, {1, 0.3, 2}};
            o.tau = (struct uni_values){n, {5, 0, 1}};
            assert_follows(&x, &o);
            o = settings();
            o.cutoff = 0.02;
            assert_follows(&x, &o);
            drop(&x);
        }
}

static void order_of_variables_is_irrelevant(void **state)
{
    (void)state;
    struct variables x;
    struct product a, b;
    struct uni_options o = settings();
    make(&x, 3, 0);
    run(&a, &x, &o);
    struct uni_batch first = x.batch[0];
    x.batch[0] = x.batch[2], x.batch[2] = first;
    run(&b, &x, &o);
    double largest = 0;
    for (int64_t i = 0; i < a.n * a.d; i++)
        largest = fmax(largest, fabs(a.Zcorr[i]));
    assert_at_most(worst(a.Zcorr, b.Zcorr, a.n * a.d), 1e-5 * largest);
    product_close(&a);
    product_close(&b);
    drop(&x);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    struct variables x;
    struct product one, more;
    struct uni_options o = settings();
    make(&x, 2, 1);
    o.threads = 1;
    run(&one, &x, &o);
    for (int64_t threads = 2; threads <= 8; threads = threads == 2 ? 3 : threads + 5) {
        o.threads = threads;
        run(&more, &x, &o);
        assert_same_bytes(&one, &more);
        product_close(&more);
    }
    product_close(&one);
    drop(&x);
}

static void one_level_variable_is_ignored(void **state)
{
    (void)state;
    struct variables x;
    struct product with, without;
    struct uni_options o = settings();
    make(&x, 2, 0);
    memset(x.level[1], 0, (size_t)x.data.n * sizeof(int32_t));
    run(&with, &x, &o);
    assert_true(product_warns(&with, "\"donor\" has only one level"));
    x.n = 1;
    run(&without, &x, &o);
    assert_at_most(worst(with.Zcorr, without.Zcorr, with.n * with.d), 1e-4);
    x.n = 2;
    product_close(&with);
    product_close(&without);
    drop(&x);
}

/* P42, P44: four donors of ten cells nested in two sites, one cluster; donor means known to six digits. */
static void p42_p44_nested_donors(void **state)
{
    (void)state;
    static const double base[4] = {0, 1, 4, 7}, automatic[4] = {2.689394, 2.856061, 2.977273, 3.477273},
                        fixed[4] = {2.873899, 2.964809, 2.944283, 3.217010};
    float Z[80], out[80];
    int32_t donor[40], site[40];
    for (int i = 0; i < 40; i++) {
        donor[i] = i / 10, site[i] = i / 20;
        Z[2 * i] = (float)(base[i / 10] - 0.45 + 0.1 * (i % 10));
        Z[2 * i + 1] = 1;
    }
    struct uni_matrix m = {Z, UNI_FLOAT32, 40, 2, 0, 0};
    struct uni_batch batch[2] = {{"donor", 40, 4, donor, NULL}, {"site", 40, 2, site, NULL}};
    for (int turn = 0; turn < 4; turn++) {
        struct uni_options o = defaults();
        struct uni_harmony *h;
        o.n_clusters = 1;
        if (turn >= 2)
            o.lambda = (struct uni_values){1, {1}};
        struct uni_batch swapped[2] = {batch[turn % 2], batch[1 - turn % 2]};
        assert_int_equal(uni_open(&h, &m, swapped, 2, &o), UNI_OK);
        assert_int_equal(uni_run(h), UNI_OK);
        assert_int_equal(uni_read(h, UNI_CORRECTED, out), UNI_OK);
        for (int g = 0; g < 4; g++) {
            double mean = 0;
            for (int i = 10 * g; i < 10 * g + 10; i++)
                mean += out[2 * i] / 10;
            assert_near(mean, turn < 2 ? automatic[g] : fixed[g], 2e-6);
        }
        uni_close(h);
    }
}

static void p43_values_per_variable(void **state)
{
    (void)state;
    struct variables x;
    struct uni_options o = settings();
    struct uni_harmony *h;
    make(&x, 2, 0);
    struct uni_matrix m = matrix_of(&x.data);
    o.theta = (struct uni_values){3, {2, 1, 3}};
    assert_int_equal(uni_open(&h, &m, x.batch, 2, &o), UNI_OPTION);
    assert_non_null(strstr(uni_last_error(), "3 values for 2"));
    drop(&x);
}

static void missing_labels_of_any_variable(void **state)
{
    (void)state;
    struct variables x;
    struct product p;
    struct uni_options o = settings();
    struct uni_harmony *h;
    make(&x, 2, 0);
    struct uni_matrix m = matrix_of(&x.data);
    x.level[1][41] = -1;
    assert_int_equal(uni_open(&h, &m, x.batch, 2, &o), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), "\"donor\" has 1 missing label, at cell 42"));
    o.missing = UNI_MISSING_SKIP;
    run(&p, &x, &o);
    assert_int_equal(p.summary->n_skipped, 1);
    for (int64_t j = 0; j < p.d; j++)
        assert_true(p.Zcorr[41 * p.d + j] == (double)x.data.Z[41 * p.d + j]);
    product_close(&p);
    o.missing = UNI_MISSING_LEVEL;
    run(&p, &x, &o);
    assert_int_equal(p.B, 24 + 7);
    product_close(&p);
    drop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_follows_the_oracle),    cmocka_unit_test(order_of_variables_is_irrelevant),
        cmocka_unit_test(threads_change_no_bit),         cmocka_unit_test(one_level_variable_is_ignored),
        cmocka_unit_test(p42_p44_nested_donors),         cmocka_unit_test(p43_values_per_variable),
        cmocka_unit_test(missing_labels_of_any_variable),
    };
    return cmocka_run_group_tests_name("variables", tests, NULL, NULL);
}
