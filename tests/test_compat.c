/* SPDX-License-Identifier: BSD-3-Clause */
/* The R package's ways: blocks drawn anew before every sweep, penalties that are added, its seeding. What is drawn cannot be
   known to the oracle before a run, but one sweep's blocks can be read after it; and the recorded runs say where its rounds lead.
 */
#include "recorded.h"
#include "study.h"
#include "testing.h"

#include <math.h>

static struct uni_options compat_of(struct uni_options o)
{
    assert_int_equal(uni_options_set(&o, "compat", "r-2.0.4"), UNI_OK);
    return o;
}

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
        struct uni_options o = compat_of(study_options());
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
        struct uni_options o = compat_of(study_options());
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

/* Large groups whose rows are gathered a part at a time, one block of all cells, blocks of a cell. */
static void one_redrawn_sweep_follows_on_every_case(void **state)
{
    (void)state;
    static const double sizes[] = {0.05, 0.3, 1, 0.001};
    for (int c = 0; c < N_PROBLEM_CASES; c++) {
        struct study s;
        struct uni_options o = compat_of(study_options());
        study_make_case(&s, &problem_cases[c]);
        o.n_clusters = problem_cases[c].n_clusters;
        o.sweeps = o.max_rounds = 1;
        o.block_size = sizes[c % 4];
        if (problem_cases[c].n_cells > 4000)
            o.block_size = 0.3;
        if (problem_cases[c].n_cells > 1 / o.block_size)
            study_follows(&s, &o, SINGLE_SCALE);
        o.flavor = UNI_HARMONY1;
        o.precision = UNI_HALF;
        o.block_size = 0.1;
        study_follows(&s, &o, 1);
        study_close(&s);
    }
}

static void damped_sweeps_with_added_penalties_follow_the_oracle(void **state)
{
    (void)state;
    for (int kind = 0; kind < STUDY_KINDS; kind++) {
        struct study s;
        struct uni_options o = compat_of(study_options());
        study_make(&s, kind, 2 + kind % 2);
        o.update = UNI_UPDATE_JACOBI;
        study_follows(&s, &o, SINGLE_SCALE);
        o.theta = (struct uni_values){s.n, {4, 0, 1}};
        study_follows(&s, &o, SINGLE_SCALE);
        study_close(&s);
    }
}

static void one_cluster_is_that_of_the_default_way(void **state)
{
    (void)state;
    struct study s;
    struct product p, q;
    struct uni_options o = study_options();
    study_make(&s, STUDY_ODD, 3);
    o.n_clusters = 1;
    study_run(&p, &s, &o);
    o = compat_of(o);
    o.tol = -1;
    study_run(&q, &s, &o);
    assert_at_most(largest_difference(p.Zcorr, q.Zcorr, p.n * p.d), 1e-6 * largest_magnitude(p.Zcorr, p.n * p.d));
    product_close(&p);
    product_close(&q);
    study_close(&s);
}

/* Whatever is read belongs together after many sweeps and rounds. */
static void redrawn_tables_are_sums_of_r(void **state)
{
    (void)state;
    struct study s;
    struct product p;
    struct uni_options o = compat_of(study_options());
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
        struct uni_options o = compat_of(defaults());
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

/* seeds.tsv has the objective of ten runs of the package from seeds of its own: mean and spread of ours are like theirs. */
static void seeds_spread_as_those_of_the_package(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        double start, start_spread, end, end_spread; /* ../shared/data/README.md: mean and deviation, `dynamic` */
    } theirs[] = {{"cell_lines", 307.56, 4.04, 156.61, 2.21}, {"pbmc_stim", 426.29, 7.65, 219.79, 3.89}};
    enum { SEEDS = 10 };
    if (!recorded_available())
        skip();
    for (int i = 0; i < 2; i++) {
        struct recorded recorded;
        struct recorded_name name = {theirs[i].set, "dynamic"};
        double mean[2] = {0, 0}, squares[2] = {0, 0};
        recorded_open(&recorded, &name);
        const struct ref_problem *q = &recorded.problem;
        float *Z = malloc((size_t)(q->n * q->d) * sizeof *Z);
        assert_non_null(Z);
        for (int64_t e = 0; e < q->n * q->d; e++)
            Z[e] = (float)q->Z[e];
        struct uni_matrix m = {Z, UNI_FLOAT32, q->n, q->d, 0, 0};
        struct uni_batch batch = {.n_cells = q->n, .n_levels = q->n_levels[0], .level = q->level[0]};
        struct uni_options o = compat_of(defaults());
        o.tol = -1;
        for (o.seed = 1; o.seed <= SEEDS; o.seed++) {
            struct product p;
            product_run(&p, &m, &batch, &o);
            assert_int_equal(p.K, q->K);
            double values[2] = {p.summary->objectives[0].total, p.summary->rounds[RECORDED_ROUNDS - 1].objective};
            for (int e = 0; e < 2; e++) {
                mean[e] += values[e] / SEEDS;
                squares[e] += values[e] * values[e] / SEEDS;
            }
            product_close(&p);
        }
        const double expected[2] = {theirs[i].start, theirs[i].end}, spread[2] = {theirs[i].start_spread, theirs[i].end_spread};
        for (int e = 0; e < 2; e++) {
            double deviation = sqrt(fmax(squares[e] - mean[e] * mean[e], 0) * SEEDS / (SEEDS - 1));
            printf("%s %s: %.2f +- %.2f, theirs %.2f +- %.2f\n", name.set, e ? "after round 10" : "at the start", mean[e],
                   deviation, expected[e], spread[e]);
            assert_near(mean[e], expected[e], 1.5 * spread[e]);
            assert_in_range(deviation * 100, spread[e] * 100 / 4, spread[e] * 100 * 4);
        }
        free(Z);
        recorded_close(&recorded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redrawn_blocks_are_random),
        cmocka_unit_test(one_redrawn_sweep_follows_the_oracle),
        cmocka_unit_test(one_redrawn_sweep_follows_on_every_case),
        cmocka_unit_test(redrawn_tables_are_sums_of_r),
        cmocka_unit_test(damped_sweeps_with_added_penalties_follow_the_oracle),
        cmocka_unit_test(one_cluster_is_that_of_the_default_way),
        cmocka_unit_test(compat_stays_near_the_recorded_runs),
        cmocka_unit_test(seeds_spread_as_those_of_the_package),
    };
    return cmocka_run_group_tests_name("compat", tests, NULL, NULL);
}
