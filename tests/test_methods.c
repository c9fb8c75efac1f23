/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways to run beside the default one: the damped update, the method of 2019, the R package's ways, correcting too far at
   first, and all of them with several variables, weights and covariates at once. Each against the oracle, and for what holds in
   all. */
#include "recorded.h"
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

/* ---- the R package's ways -------------------------------------------------------------------------------------------------- */

static int64_t blocks_of(int64_t *cells, const struct product *p)
{
    int64_t most = 0;
    memset(cells, 0, 20 * sizeof *cells);
    for (int64_t i = 0; i < p->n; i++) {
        assert_in_range(p->block[i], 0, 19);
        most = ++cells[p->block[i]] > most ? cells[p->block[i]] : most;
    }
    return most;
}

/* Blocks are equally large and know nothing of levels: chi-square of a 24 x 20 table has mean 437 and deviation 30. Those of the
   default update are balanced over levels, and its chi-square is near 0. */
static void redrawn_blocks_are_random(void **state)
{
    (void)state;
    int32_t *before = NULL;
    for (int i = 0; i < 6; i++) { /* the last sweeps of runs of other lengths, and of other seeds */
        struct study s;
        struct product p;
        struct uni_options o = with_method(study_options(), "compat", "r-2.0.4");
        int64_t cells[20], of_level[24] = {0}, both[24][20] = {{0}};
        double chi = 0;
        study_make(&s, STUDY_NESTED, 1);
        o.max_rounds = 1;
        o.sweeps = i < 3 ? 3 - i : 1;
        o.seed = i < 3 ? 0 : i - 2; /* draw by draw: seed 0's third, second and first, then the first of seeds 1, 2, 3 */
        study_run(&p, &s, &o);
        assert_int_equal(blocks_of(cells, &p), s.data.n / 20);
        for (int64_t c = 0; c < p.n; c++) {
            of_level[s.level[0][c]]++;
            both[s.level[0][c]][p.block[c]]++;
        }
        for (int l = 0; l < 24; l++)
            for (int q = 0; q < 20; q++) {
                double expected = (double)of_level[l] / 20;
                chi += pow((double)both[l][q] - expected, 2) / expected;
            }
        assert_near(chi, 437, 5 * 30);
        int32_t *grown = realloc(before, (size_t)((i + 1) * p.n) * sizeof *before);
        assert_non_null(grown);
        before = grown;
        memcpy(before + i * p.n, p.block, (size_t)p.n * sizeof *before);
        for (int j = 0; j < i; j++) { /* of two independent draws one cell in 20 has the same block */
            int64_t same = 0;
            for (int64_t c = 0; c < p.n; c++)
                same += before[j * p.n + c] == p.block[c];
            assert_near((double)same, (double)p.n / 20, 6 * sqrt((double)p.n / 20));
        }
        product_close(&p);
        study_close(&s);
    }
    free(before);
}

/* One sweep of one round: the product's blocks are then all that the oracle must be told. */
static void one_redrawn_sweep_follows_the_oracle(void **state)
{
    (void)state;
    for (int mix = 0; mix < 24; mix++) {
        struct study s;
        struct uni_options o = with_method(study_options(), "compat", "r-2.0.4");
        study_make(&s, mix % STUDY_KINDS, 1 + mix / 3 % 3);
        o.sweeps = o.max_rounds = 1;
        o.block_size = mix % 4 ? 0.05 : 0.013;
        if (mix % 2)
            study_weigh(&s);
        if (mix % 5 == 1)
            study_covary(&s, 1);
        o.theta = (struct uni_values){s.n, {2, 1, 6}};
        o.tol = -1;
        study_follows(&s, &o, SINGLE_SCALE);
        o.precision = UNI_HALF;
        study_follows(&s, &o, 1);
        study_close(&s);
    }
}

/* Whatever is read belongs together after many sweeps and rounds. */
static void redrawn_tables_are_sums_of_r(void **state)
{
    (void)state;
    struct study s;
    struct product p;
    struct uni_options o = with_method(study_options(), "compat", "r-2.0.4");
    study_make(&s, STUDY_ODD, 2);
    study_weigh(&s);
    study_run(&p, &s, &o);
    double *O = calloc((size_t)(p.B * p.K), sizeof *O), *Z = widen(s.data.Z, p.n * p.d);
    assert_non_null(O);
    for (int64_t i = 0; i < p.n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < p.K; k++) {
            sum += p.R[i * p.K + k];
            for (int v = 0; v < 2; v++) {
                int64_t l = s.level[v][i] + (v ? 24 : 0);
                O[l * p.K + k] += s.weight[i] * p.R[i * p.K + k];
                for (int64_t j = 0; j < p.d; j++)
                    Z[i * p.d + j] -= p.R[i * p.K + k] * p.W[(l * p.K + k) * p.d + j];
            }
        }
        assert_near(sum, 1, 1e-5);
    }
    assert_at_most(largest_difference(O, p.O, p.B * p.K), 1e-3);
    assert_at_most(largest_difference(Z, p.Zcorr, p.n * p.d), 1e-4);
    free(O);
    free(Z);
    product_close(&p);
    study_close(&s);
}

/* From a recorded run's start, with other blocks in other orders: the same objective and nearly the same cells. Of two variables
   only where penalties are added; their product is another objective's. */
static void compat_stays_near_the_recorded_runs(void **state)
{
    (void)state;
    static const struct recorded_name names[] = {{"cell_lines", "dynamic"}, {"pbmc_stim", "fixed"}, {"cell_lines", "two-cov"}};
    if (!recorded_available())
        skip();
    for (int i = 0; i < 3; i++) {
        struct recorded recorded;
        recorded_open(&recorded, &names[i]);
        const struct ref_problem *q = &recorded.problem;
        float *start = malloc((size_t)(q->K * q->d) * sizeof *start), *Z = malloc((size_t)(q->n * q->d) * sizeof *Z);
        assert_true(start && Z);
        for (int64_t e = 0; e < q->K * q->d; e++)
            start[e] = (float)q->start[e];
        for (int64_t e = 0; e < q->n * q->d; e++)
            Z[e] = (float)q->Z[e];
        struct uni_matrix m = {Z, UNI_FLOAT32, q->n, q->d, 0, 0};
        struct uni_batch batch[2] = {{.n_cells = q->n, .n_levels = q->n_levels[0], .level = q->level[0]},
                                     {.n_cells = q->n, .n_levels = q->n_levels[1], .level = q->level[1]}};
        struct uni_options o = with_method(defaults(), "compat", "r-2.0.4");
        assert_true(o.stop == UNI_STOP_OBJECTIVE && o.tol == 0.01);
        o.centroids = start, o.n_centroids = q->K, o.tol = -1;
        o.lambda = (struct uni_values){q->lambda[0] > 0, {q->lambda[0]}};
        for (o.seed = 0; o.seed < 3; o.seed++) {
            struct uni_harmony *run;
            struct product p;
            assert_int_equal(uni_open(&run, &m, batch, q->n_variables, &o), UNI_OK);
            assert_int_equal(uni_run(run), UNI_OK);
            product_read(&p, run);
            double objective = p.summary->rounds[RECORDED_ROUNDS - 1].objective,
                   theirs = recorded.total[recorded.n_objectives - 1];
            struct distance far = compare_corrected(p.Zcorr, recorded.Zcorr, q->Z, q->n, q->d);
            assert_near(objective, theirs, 0.01 * fabs(theirs));
            assert_at_least(far.corr_least, 0.999);
            product_close(&p);
        }
        free(start);
        free(Z);
        recorded_close(&recorded);
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
        cmocka_unit_test(harmony1_has_its_own_defaults),
        cmocka_unit_test(empty_clusters_make_no_nan),
        cmocka_unit_test(redrawn_blocks_are_random),
        cmocka_unit_test(one_redrawn_sweep_follows_the_oracle),
        cmocka_unit_test(redrawn_tables_are_sums_of_r),
        cmocka_unit_test(compat_stays_near_the_recorded_runs),
        cmocka_unit_test(overcorrection_follows_the_oracle),
        cmocka_unit_test(overcorrection_ends_before_the_run_does),
        cmocka_unit_test(overcorrection_leaves_the_fixed_point),
    };
    return cmocka_run_group_tests_name("methods", tests, NULL, NULL);
}
