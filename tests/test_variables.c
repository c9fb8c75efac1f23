/* SPDX-License-Identifier: BSD-3-Clause */
/* Several batch variables: the library against the oracle, on the same start and blocks, and what users ask of nested and crossed
 * ones. */
#include "study.h"
#include "testing.h"

#include <math.h>

static void library_follows_the_oracle(void **state)
{
    (void)state;
    for (int n = 2; n <= 3; n++)
        for (int kind = 0; kind < STUDY_KINDS; kind++) {
            struct study s;
            struct uni_options o = study_options();
            study_make(&s, kind, n);
            study_follows(&s, &o, SINGLE_SCALE);
            o.theta = (struct uni_values){n, {2, 0.5, 1}};
            o.lambda = (struct uni_values){n, {1, 0.3, 2}};
            o.tau = (struct uni_values){n, {5, 0, 1}};
            study_follows(&s, &o, SINGLE_SCALE);
            o = study_options();
            o.cutoff = 0.02;
            study_follows(&s, &o, SINGLE_SCALE);
            o.precision = UNI_HALF;
            o.cutoff = 1e-5;
            study_follows(&s, &o, 1);
            study_close(&s);
        }
}

static void up_to_eight_variables_follow_the_oracle(void **state)
{
    (void)state;
    for (int n = 4; n <= UNI_MAX_VARIABLES; n += 2)
        for (int update = UNI_UPDATE_BLOCKS; update <= UNI_UPDATE_JACOBI; update++) {
            struct study s;
            struct uni_options o = study_options();
            study_make(&s, n % 3, n);
            o.update = update;
            o.max_rounds = 3;
            o.theta = (struct uni_values){n, {2, 1, 0.5, 0.5, 1, 0, 0.3, 0.2}};
            o.lambda = (struct uni_values){update ? n : 0, {1, 2, 0.5, 1, 1, 3, 1, 0.1}};
            study_follows(&s, &o, SINGLE_SCALE);
            study_close(&s);
        }
    struct study s;
    study_make(&s, STUDY_NESTED, 8);
    struct uni_batch nine[9] = {[8] = s.batch[7]};
    memcpy(nine, s.batch, sizeof s.batch);
    struct uni_matrix m = matrix_of(&s.data);
    struct uni_options o = study_options();
    struct uni_harmony *run;
    assert_int_equal(uni_open(&run, &m, nine, 9, &o), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), "9 batch variables; give 1 to 8"));
    study_close(&s);
}

/* The same labels twice, and levels that are sums of others, next to no penalty: systems that are singular but for lambda. */
static void nearly_singular_systems_are_solved(void **state)
{
    (void)state;
    static const double lambdas[] = {1e-3, 1e-6, 1e-9};
    for (int mix = 0; mix < 12; mix++) {
        struct study s;
        struct product p;
        struct uni_options o = study_options();
        study_make(&s, STUDY_NESTED, 2 + mix % 2);
        if (mix / 2 % 2) { /* the second variable is the first */
            memcpy(s.level[1], s.level[0], (size_t)s.data.n * sizeof(int32_t));
            s.batch[1].n_levels = s.batch[0].n_levels;
        }
        o.lambda = (struct uni_values){1, {lambdas[mix / 4]}};
        o.max_rounds = 1;
        study_run(&p, &s, &o);
        struct ref_problem q = study_problem(&p, &s, &o);
        struct ref_run *ref = ref_open(&q);
        ref_run_all(ref);
        struct distance far = compare_corrected(p.Zcorr, ref->Zcorr, q.Z, p.n, p.d);
        assert_at_most(far.rms, mix < 8 ? 1e-6 : 1e-3); /* the last: the oracle's own digits are few */
        ref_close(ref);
        free((double *)(uintptr_t)q.Z);
        product_close(&p);
        study_close(&s);
    }
}

/* Too many joint groups for moments of each: they are summed by level, here with pruned levels and without, and with a covariate.
 */
static void moments_by_level_follow_the_oracle(void **state)
{
    (void)state;
    static const struct problem_case wide = {"by level", 2500, 200, 600, 40, 12, 2, 1.5, 0.1};
    struct study s;
    uint64_t random = 3;
    study_make(&s, STUDY_CROSSED, 2);
    made_free(&s.data);
    made_case(&s.data, &wide, 5);
    for (int v = 0; v < 2; v++) {
        s.level[v] = realloc(s.level[v], (size_t)wide.n_cells * sizeof(int32_t));
        assert_non_null(s.level[v]);
        for (int64_t i = 0; i < wide.n_cells; i++)
            s.level[v][i] = v == 0 ? s.data.level[i] : (int32_t)(made_uniform(&random) * 40);
        s.batch[v] =
            (struct uni_batch){.name = v ? "pool" : "sample", .n_cells = wide.n_cells, .n_levels = 40, .level = s.level[v]};
    }
    struct uni_options o = study_options();
    o.n_clusters = wide.n_clusters;
    o.max_rounds = 1;
    study_follows(&s, &o, SINGLE_SCALE);
    study_covary(&s, 1);
    o.max_rounds = 2;
    o.cutoff = 0.003;
    study_follows(&s, &o, SINGLE_SCALE);
    study_close(&s);
}

/* Rounds amplify what rounding leaves: by the fifth it is 1e-6 where it is most. */
static void order_of_variables_is_irrelevant(void **state)
{
    (void)state;
    for (int rounds = 1; rounds <= 5; rounds += 4)
        for (int kind = 0; kind < STUDY_KINDS; kind++)
            for (int update = UNI_UPDATE_BLOCKS; update <= UNI_UPDATE_JACOBI; update++) {
                struct study s;
                struct product a, b;
                struct uni_options o = study_options();
                o.update = update;
                o.max_rounds = rounds;
                study_make(&s, kind, 3);
                study_run(&a, &s, &o);
                struct uni_batch first = s.batch[0];
                s.batch[0] = s.batch[2], s.batch[2] = first;
                study_run(&b, &s, &o);
                assert_at_most(largest_difference(a.Zcorr, b.Zcorr, a.n * a.d),
                               (rounds == 1 ? 1e-6 : 3e-6) * largest_magnitude(a.Zcorr, a.n * a.d));
                product_close(&a);
                product_close(&b);
                study_close(&s);
            }
}

/* Nothing but rounding separates two orders where nothing amplifies it: one cluster. */
static void p42_order_of_variables_is_irrelevant_to_six_digits(void **state)
{
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int kind = 0; kind < STUDY_KINDS; kind++) {
        struct study s;
        struct product first, p;
        struct uni_options o = study_options();
        o.n_clusters = 1;
        study_make(&s, kind, 3);
        struct uni_batch batch[3] = {s.batch[0], s.batch[1], s.batch[2]};
        study_run(&first, &s, &o);
        for (int i = 1; i < 6; i++) {
            for (int v = 0; v < 3; v++)
                s.batch[v] = batch[orders[i][v]];
            study_run(&p, &s, &o);
            assert_at_most(largest_difference(p.Zcorr, first.Zcorr, p.n * p.d), 1e-6 * largest_magnitude(p.Zcorr, p.n * p.d));
            product_close(&p);
        }
        product_close(&first);
        study_close(&s);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    struct study s;
    struct product one, more;
    struct uni_options o = study_options();
    study_make(&s, STUDY_CROSSED, 2);
    o.threads = 1;
    study_run(&one, &s, &o);
    for (int64_t threads = 2; threads <= 8; threads = threads == 2 ? 3 : threads + 5) {
        o.threads = threads;
        study_run(&more, &s, &o);
        assert_same_bytes(&one, &more);
        product_close(&more);
    }
    product_close(&one);
    study_close(&s);
}

static void one_level_variable_is_ignored(void **state)
{
    (void)state;
    struct study s;
    struct product with, without;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    memset(s.level[1], 0, (size_t)s.data.n * sizeof(int32_t));
    study_run(&with, &s, &o);
    assert_true(product_warns(&with, "\"donor\" has only one level"));
    s.n = 1;
    study_run(&without, &s, &o);
    assert_at_most(largest_difference(with.Zcorr, without.Zcorr, with.n * with.d), 1e-4);
    product_close(&with);
    product_close(&without);
    study_close(&s);
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
    for (int turn = 0; turn < 12; turn++) {
        struct uni_options o = defaults();
        struct uni_harmony *h;
        o.n_clusters = 1;
        if (turn % 4 >= 2)
            o.lambda = (struct uni_values){1 + turn / 8, {1, 1}};
        o.update = turn / 4 % 2 ? UNI_UPDATE_JACOBI : UNI_UPDATE_BLOCKS;
        struct uni_batch swapped[2] = {batch[turn % 2], batch[1 - turn % 2]};
        assert_int_equal(uni_open(&h, &m, swapped, 2, &o), UNI_OK);
        assert_int_equal(uni_run(h), UNI_OK);
        assert_int_equal(uni_read(h, UNI_CORRECTED, out), UNI_OK);
        for (int g = 0; g < 4; g++) {
            double mean = 0;
            for (int i = 10 * g; i < 10 * g + 10; i++)
                mean += out[2 * i] / 10;
            assert_near(mean, turn % 4 < 2 ? automatic[g] : fixed[g], 2e-6);
        }
        uni_close(h);
    }
}

static void p43_values_per_variable(void **state)
{
    (void)state;
    struct study s;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    o.theta = (struct uni_values){3, {2, 1, 3}};
    assert_int_equal(study_refused(&s, o), UNI_OPTION);
    assert_non_null(strstr(uni_last_error(), "3 values for 2"));
    o.theta = (struct uni_values){1, {2}};
    o.lambda = (struct uni_values){3, {1, 1, 1}};
    assert_int_equal(study_refused(&s, o), UNI_OPTION);
    assert_non_null(strstr(uni_last_error(), "lambda has 3 values for 2"));
    o.lambda = (struct uni_values){2, {1, 0}};
    assert_int_equal(study_refused(&s, o), UNI_OPTION);
    study_close(&s);
}

static void missing_labels_of_any_variable(void **state)
{
    (void)state;
    struct study s;
    struct product p;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    s.level[1][41] = -1;
    assert_int_equal(study_refused(&s, o), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), "\"donor\" has 1 missing label, at cell 42"));
    o.missing = UNI_MISSING_SKIP;
    study_run(&p, &s, &o);
    assert_int_equal(p.summary->n_skipped, 1);
    for (int64_t j = 0; j < p.d; j++)
        assert_true(p.Zcorr[41 * p.d + j] == (double)s.data.Z[41 * p.d + j]);
    product_close(&p);
    o.missing = UNI_MISSING_LEVEL;
    study_run(&p, &s, &o);
    assert_int_equal(p.B, 24 + 7);
    product_close(&p);
    study_close(&s);
}

/* Chi-square of the clusters and the levels of one variable. */
static double association(const struct product *p, const struct study *s, int v)
{
    double chi = 0;
    int64_t first = 0;
    for (int u = 0; u < v; u++)
        first += s->batch[u].n_levels;
    for (int64_t pair = first * p->K; pair < (first + s->batch[v].n_levels) * p->K; pair++)
        if (p->E[pair] > 1e-6)
            chi += (p->O[pair] - p->E[pair]) * (p->O[pair] - p->E[pair]) / p->E[pair];
    return chi;
}

/* P110 per variable: the more theta a variable has, the less its levels and the clusters go together. */
static void more_theta_less_association_of_that_variable(void **state)
{
    (void)state;
    static const double thetas[] = {0, 1, 2, 4, 8};
    for (int update = UNI_UPDATE_BLOCKS; update <= UNI_UPDATE_JACOBI; update++)
        for (int v = 0; v < 2; v++) {
            struct study s;
            double before = INFINITY;
            study_make(&s, STUDY_CROSSED, 2);
            for (int64_t i = 0; i < s.data.n; i++) /* donors differ: most cells of some types are theirs */
                if (s.data.type[i] < 5 && i % 3)
                    s.level[1][i] = s.data.type[i];
            for (size_t t = 0; t < sizeof thetas / sizeof *thetas; t++) {
                struct product p;
                struct uni_options o = study_options();
                o.max_rounds = 1;
                o.update = update;
                o.theta = (struct uni_values){2, {1, 1}};
                o.theta.value[v] = thetas[t];
                study_run(&p, &s, &o);
                double chi = association(&p, &s, v);
                assert_true(chi < before);
                before = chi;
                product_close(&p);
            }
            study_close(&s);
        }
}

static void runs_settle(void **state)
{
    (void)state;
    for (int n = 2; n <= 3; n++)
        for (int kind = 0; kind < STUDY_KINDS; kind++) {
            struct study s;
            struct product p;
            struct uni_options o = study_options();
            o.tol = NAN, o.max_rounds = 30;
            study_make(&s, kind, n);
            study_run(&p, &s, &o);
            assert_int_equal(p.summary->reason, UNI_CONVERGED);
            assert_at_most(p.summary->rounds[p.summary->n_rounds - 1].change, 0.03);
            product_close(&p);
            study_close(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_follows_the_oracle),
        cmocka_unit_test(up_to_eight_variables_follow_the_oracle),
        cmocka_unit_test(nearly_singular_systems_are_solved),
        cmocka_unit_test(moments_by_level_follow_the_oracle),
        cmocka_unit_test(order_of_variables_is_irrelevant),
        cmocka_unit_test(p42_order_of_variables_is_irrelevant_to_six_digits),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(one_level_variable_is_ignored),
        cmocka_unit_test(p42_p44_nested_donors),
        cmocka_unit_test(p43_values_per_variable),
        cmocka_unit_test(missing_labels_of_any_variable),
        cmocka_unit_test(more_theta_less_association_of_that_variable),
        cmocka_unit_test(runs_settle),
    };
    return cmocka_run_group_tests_name("variables", tests, NULL, NULL);
}
