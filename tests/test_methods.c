/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways to run beside the default one: the damped update, the method of 2019, the R package's ways, correcting too far at
   first, and all of them with several variables, weights and covariates at once. Each against the oracle, and for what holds in
   all. */
#include "study.h"
#include "testing.h"

#include <math.h>

static struct uni_options with_method(struct uni_options o, const char *name, const char *text)
{
    assert_int_equal(uni_options_set(&o, name, text), UNI_OK);
    return o;
}

/* The damped update, harmony2.md 3.4: few and many sweeps, more than there are penalty tables (24), and the rule of the sweeps.
 */
static void jacobi_follows_the_oracle(void **state)
{
    (void)state;
    static const int64_t sweeps[] = {1, 4, 23, 24, 25, 31, 60};
    struct study s;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        struct uni_options o = with_method(study_options(), "update", "jacobi");
        study_make(&s, STUDY_ODD, 1 + (int)(i % 3));
        o.sweeps = sweeps[i];
        o.sweep_tol = -1;
        o.max_rounds = i % 3 == 0 ? 3 : 2;
        study_follows(&s, &o, SINGLE_SCALE);
        o.sweep_tol = 1e-3;
        study_follows(&s, &o, SINGLE_SCALE);
        o.precision = UNI_HALF;
        study_follows(&s, &o, 1);
        study_close(&s);
    }
}

static void methods_follow_the_oracle_on_every_case(void **state)
{
    (void)state;
    static const char *const method[][2] = {{"update", "jacobi"}, {"flavor", "harmony1"}};
    for (int c = 0; c < N_PROBLEM_CASES; c++)
        for (int i = 0; i < 2; i++) {
            struct study s;
            struct uni_options o = with_method(study_options(), method[i][0], method[i][1]);
            o.sweeps = 4;
            o.sweep_tol = -1;
            study_make_case(&s, &problem_cases[c]);
            o.n_clusters = problem_cases[c].n_clusters;
            study_follows(&s, &o, SINGLE_SCALE);
            o.precision = UNI_HALF;
            study_follows(&s, &o, 1);
            study_close(&s);
        }
}

static void every_combination_follows_the_oracle(void **state)
{
    (void)state;
    for (int mix = 0; mix < 48; mix++) {
        struct study s;
        struct uni_options o = study_options();
        study_make(&s, mix % STUDY_KINDS, 1 + mix / 16);
        o.update = mix & 1 ? UNI_UPDATE_JACOBI : UNI_UPDATE_BLOCKS;
        o.flavor = mix & 2 ? UNI_HARMONY1 : UNI_HARMONY2;
        if (mix & 4)
            study_weigh(&s);
        if (mix & 8)
            study_covary(&s, 1 + (mix & 1));
        o.cutoff = mix % 5 ? 1e-5 : 0.02;
        o.theta = (struct uni_values){s.n, {2, 1, 0.5}};
        o.tau.value[0] = mix % 7 ? 0 : 4;
        o.max_rounds = 3;
        study_follows(&s, &o, SINGLE_SCALE);
        study_close(&s);
    }
}

/* Groups of many runs of cells, whose sums are made in parts. */
static void large_groups_follow_the_oracle(void **state)
{
    (void)state;
    static const struct problem_case large = {"large groups", 24000, 6, 9, 2, 6, 2, 1.5, 0};
    for (int mix = 0; mix < 3; mix++) {
        struct study s;
        struct uni_options o = study_options();
        study_make_case(&s, &large);
        study_covary(&s, 2);
        study_weigh(&s);
        o.n_clusters = large.n_clusters;
        o.max_rounds = 2;
        o.update = mix == 1 ? UNI_UPDATE_JACOBI : UNI_UPDATE_BLOCKS;
        if (mix == 2)
            o.compat = UNI_COMPAT_R204, o.sweeps = o.max_rounds = 1;
        study_follows(&s, &o, SINGLE_SCALE);
        study_close(&s);
    }
}

/* ---- the method of 2019 ---------------------------------------------------------------------------------------------------- */

static void harmony1_has_its_own_defaults(void **state)
{
    (void)state;
    struct study s;
    struct product p;
    struct uni_options o = with_method(defaults(), "flavor", "harmony1");
    assert_int_equal(o.flavor, UNI_HARMONY1);
    assert_int_equal(o.stop, UNI_STOP_OBJECTIVE);
    assert_true(o.tol == 1e-4 && o.sweeps == 20 && o.sweep_tol == 1e-5 && o.lambda.n == 0);
    study_make(&s, STUDY_ODD, 2);
    o.n_clusters = 20, o.precision = UNI_SINGLE, o.terms = 1;
    o.tol = -1; /* its rule stops on differences that are rounding */
    o.max_rounds = 3;
    study_follows(&s, &o, SINGLE_SCALE);
    study_run(&p, &s, &o);
    for (int64_t pair = 0; pair < p.B * p.K; pair++) /* lambda 1, and nothing left out but what has no cells */
        assert_true(p.lambda[pair] == (pair / p.K == 24 + 2 || pair / p.K == 29 + 2 ? 0 : 1));
    for (int64_t r = 0; r < p.summary->n_rounds; r++)
        assert_true(p.summary->rounds[r].pruned_pairs == 0 && p.summary->rounds[r].skipped_clusters == 0);
    product_close(&p);
    o.lambda = (struct uni_values){1, {0.5}};
    study_follows(&s, &o, SINGLE_SCALE);
    study_close(&s);
}

/* Clusters so far from all cells that their share of every cell is next to nothing in float32, and zero in half precision: 0 / 0
   in that method's penalty, and systems that nothing determines. */
static void empty_clusters_make_no_nan(void **state)
{
    (void)state;
    for (int mix = 0; mix < 32; mix++) {
        struct study s;
        struct product p;
        struct uni_options o = study_options();
        float start[8 * 12] = {0};
        study_make(&s, STUDY_ODD, 1 + mix / 16);
        o.max_rounds = mix & 8 ? 5 : 1;
        for (int64_t i = 0; i < s.data.n; i++)
            s.data.Z[i * 12] = 40 + fabsf(s.data.Z[i * 12]); /* all on one side */
        if (mix & 4)
            study_covary(&s, 2);
        for (int k = 0; k < 8; k++) {
            start[k * 12] = k < 4 ? 1 : -1;
            start[k * 12 + 1 + k] = 0.1F;
        }
        o.centroids = start, o.n_centroids = 8, o.n_clusters = 0;
        o.sigma = 0.01;
        o.update = mix & 1 ? UNI_UPDATE_JACOBI : UNI_UPDATE_BLOCKS;
        o.precision = mix & 2 ? UNI_HALF : UNI_SINGLE;
        o.flavor = UNI_HARMONY1;
        study_run(&p, &s, &o);
        for (int64_t i = 0; i < p.n * p.d; i++)
            assert_true(isfinite(p.Zcorr[i]));
        for (int64_t i = 0; i < p.n * p.K; i++)
            assert_true(isfinite(p.R[i]));
        for (int64_t i = 0; i < p.B * p.K * p.d; i++)
            assert_true(isfinite(p.W[i]));
        for (int64_t i = 0; i < p.B; i++)
            for (int64_t k = 4; k < 8; k++)
                assert_at_most(p.O[i * p.K + k], o.max_rounds == 1 ? 1e-20 : INFINITY);
        product_close(&p);
        study_close(&s);
    }
}

/* ---- correcting too far at first ------------------------------------------------------------------------------------------- */

static void overcorrection_follows_the_oracle(void **state)
{
    (void)state;
    for (int64_t rounds = 1; rounds <= 7; rounds++) {
        struct study s;
        struct uni_options o = study_options();
        study_make(&s, STUDY_ODD, 1 + (int)(rounds % 3));
        o.overcorrect = 1.5;
        o.max_rounds = rounds;
        study_follows(&s, &o, SINGLE_SCALE);
        if (rounds == 4) {
            study_covary(&s, 1);
            o.max_rounds = 5;
            study_follows(&s, &o, SINGLE_SCALE);
        }
        study_close(&s);
    }
}

static void overcorrection_ends_before_the_run_does(void **state)
{
    (void)state;
    for (int stop = UNI_STOP_CHANGE; stop <= UNI_STOP_OBJECTIVE; stop++) {
        struct study s;
        struct product p;
        struct uni_options o = study_options();
        study_make(&s, STUDY_NESTED, 1);
        o.stop = stop;
        o.tol = 1e9; /* anything has settled */
        o.max_rounds = 10;
        study_run(&p, &s, &o);
        assert_int_equal(p.summary->n_rounds, stop == UNI_STOP_CHANGE ? 2 : 1);
        product_close(&p);
        o.overcorrect = 1.3;
        study_run(&p, &s, &o);
        assert_int_equal(p.summary->n_rounds, 5);
        assert_int_equal(p.summary->reason, UNI_CONVERGED);
        product_close(&p);
        study_close(&s);
    }
}

/* Where few clusters and distinct types leave one state to settle in, it is the same. */
static void overcorrection_leaves_the_fixed_point(void **state)
{
    (void)state;
    static const struct problem_case distinct = {"distinct types", 1200, 15, 6, 3, 6, 2, 1, 0};
    static const double factors[] = {1.2, 1.5, 1.9};
    struct study s;
    struct product plain, over;
    struct uni_options o = study_options();
    study_make_case(&s, &distinct);
    o.n_clusters = distinct.n_clusters;
    o.sigma = 0.4; /* soft, so that every round moves something */
    o.max_rounds = 40;
    study_run(&plain, &s, &o);
    double *Z = widen(s.data.Z, plain.n * plain.d);
    for (int i = 0; i < 3; i++) {
        o.overcorrect = factors[i];
        study_run(&over, &s, &o);
        struct distance far = compare_corrected(over.Zcorr, plain.Zcorr, Z, plain.n, plain.d);
        assert_true(memcmp(over.Zcorr, plain.Zcorr, (size_t)(plain.n * plain.d) * sizeof(double)) != 0);
        assert_at_most(far.rms, 1e-3);
        assert_near(over.summary->rounds[39].objective, plain.summary->rounds[39].objective, 1e-2);
        product_close(&over);
    }
    free(Z);
    product_close(&plain);
    study_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jacobi_follows_the_oracle),
        cmocka_unit_test(methods_follow_the_oracle_on_every_case),
        cmocka_unit_test(every_combination_follows_the_oracle),
        cmocka_unit_test(large_groups_follow_the_oracle),
        cmocka_unit_test(harmony1_has_its_own_defaults),
        cmocka_unit_test(empty_clusters_make_no_nan),
        cmocka_unit_test(overcorrection_follows_the_oracle),
        cmocka_unit_test(overcorrection_ends_before_the_run_does),
        cmocka_unit_test(overcorrection_leaves_the_fixed_point),
    };
    return cmocka_run_group_tests_name("methods", tests, NULL, NULL);
}
