/* SPDX-License-Identifier: BSD-3-Clause */
/* What users of Harmony have reported (docs/user-pain-status.md), where no other test has it: sizes, memory, counts, threads,
 * messages. */
#include "differences.h"
#include "product.h"
#include "study.h"
#include "testing.h"

#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

/* What a run of n cells in n_levels levels would take, all cells but the first in one level. */
static struct uni_plan plan_of(int64_t n, int64_t d, int64_t n_clusters, int64_t n_levels)
{
    struct uni_plan plan;
    struct uni_options options = defaults();
    int32_t *level = calloc((size_t)n, sizeof *level); /* pages that are only read cost nothing */
    assert_non_null(level);
    for (int64_t l = 0; l < n_levels; l++)
        level[l] = level[n - 1 - l] = (int32_t)l;
    struct uni_batch batch = {"batch", n, n_levels, level, NULL};
    options.n_clusters = n_clusters, options.backend = UNI_BACKEND_CPU, options.threads = 1;
    assert_int_equal(uni_plan(&plan, n, d, &batch, 1, &options), UNI_OK);
    free(level);
    return plan;
}

/* P01, P02: memory is known before any of it is taken, and grows with the cells and nothing faster: docs/user-pain-status.md has
 * the formula. */
static void p01_p02_memory_is_predicted_and_linear_in_cells(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{30, 100, 200}, {40, 100, 10}, {50, 100, 10}, {8, 20, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t d = sizes[i][0], K = sizes[i][1], B = sizes[i][2];
        double one = (double)plan_of(1000000, d, K, B).bytes, two = (double)plan_of(2000000, d, K, B).bytes,
               four = (double)plan_of(4000000, d, K, B).bytes;
        assert_near(four - two, 2 * (two - one), 0.01 * (two - one));
        assert_in_range((two - one) / 1e6, 4 * d + 2 * K, 4 * d + 2 * ((K + 31) / 32 * 32) + 24);
    }
    struct uni_plan whole = plan_of(100000000, 40, 100, 2);
    assert_int_equal(whole.n_cells, 100000000);
    assert_in_range(whole.bytes, 36000000000, 45000000000);
}

/* P07: no table of levels x levels. */
static void p07_memory_is_linear_in_levels(void **state)
{
    (void)state;
    double few = (double)plan_of(1000000, 30, 100, 2).bytes, some = (double)plan_of(1000000, 30, 100, 2002).bytes,
           many = (double)plan_of(1000000, 30, 100, 4002).bytes;
    assert_near(many - some, some - few, 0.1 * (some - few));
}

/* P04: 200 cells of 200 levels are refused by a plan, which has no memory yet. */
static void p04_a_level_per_cell_is_refused_before_anything_is_allocated(void **state)
{
    (void)state;
    struct uni_plan plan;
    struct uni_options options = defaults();
    int32_t level[200];
    for (int i = 0; i < 200; i++)
        level[i] = i;
    struct uni_batch batch = {"donor", 200, 200, level, NULL};
    assert_int_equal(uni_plan(&plan, 200, 20, &batch, 1, &options), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), "200 levels for 200 cells"));
    assert_int_equal(plan.bytes, 0);
}

/* P15: what helps beside the correction needs no table of cells x cells either. */
static void p15_helpers_take_no_table_of_all_pairs(void **state)
{
    (void)state;
    enum { N = 100000 };
    int32_t *level = calloc(N, sizeof *level);
    struct uni_batch batch = {"batch", N, 2, level, NULL}, types = {"type", N, 30, level, NULL};
    struct uni_matrix m = {NULL, UNI_FLOAT32, N, 50, 0, 0};
    struct uni_lisi_options options;
    struct uni_lisi_plan lisi;
    level[0] = level[1] = 1;
    uni_lisi_options_init(&options, sizeof options);
    options.sample = 0;
    assert_int_equal(uni_lisi_plan(&lisi, &m, &batch, 1, &options), UNI_OK);
    assert_in_range(lisi.bytes, N, 100000000);
    struct uni_plan plan = plan_of(N, 50, 100, 2);
    assert_in_range(uni_diagnose_bytes(&plan, &batch, 1, &types), N, 100000000);
    free(level);
}

/* P11: counts above 2^31 and 2^32. A thousand cells that stand for 1e12 each are a thousand cells. */
static void p11_counts_beyond_32_bits(void **state)
{
    (void)state;
    struct made_data data;
    struct product plain, heavy;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 31);
    double *weights = malloc((size_t)data.n * sizeof *weights);
    for (int64_t i = 0; i < data.n; i++)
        weights[i] = 1e12;
    options.centroids = data.Z, options.n_centroids = 10;
    options.theta.value[0] = 0; /* the penalty adds one to the counts, whatever a cell counts */
    options.terms = 1, options.precision = UNI_SINGLE;
    product_run_data(&plain, &data, &options);
    options.weights = weights, options.n_weights = data.n;
    product_run_data(&heavy, &data, &options);
    assert_int_equal(plain.summary->n_rounds, heavy.summary->n_rounds);
    for (int64_t i = 0; i < plain.summary->n_objectives; i++)
        assert_near(heavy.summary->objectives[i].total, plain.summary->objectives[i].total,
                    1e-5 * plain.summary->objectives[0].distance);
    for (int64_t pair = 0; pair < plain.B * plain.K; pair++)
        assert_near(heavy.O[pair] * 1e-12, plain.O[pair], 1e-3);
    assert_at_most(largest_difference(heavy.Zcorr, plain.Zcorr, data.n * data.d), 1e-3);
    free(weights);
    product_close(&plain);
    product_close(&heavy);
    made_free(&data);
}

/* P13: one to four variables on very few cells and some; what it is for is the build with sanitizers. */
static void p13_one_to_four_variables_on_few_cells(void **state)
{
    (void)state;
    static const int64_t sizes[] = {2, 7, 40, 1000};
    for (int n_variables = 1; n_variables <= 4; n_variables++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int64_t n = sizes[s];
            struct made_data data;
            struct uni_options options = defaults();
            struct uni_harmony *run;
            struct uni_batch batch[4];
            int32_t *level = calloc((size_t)(4 * n), sizeof *level);
            made_fixture(&data, n, 5);
            for (int v = 0; v < n_variables; v++) {
                for (int64_t i = 0; i < n; i++)
                    level[v * n + i] = (int32_t)((i * (v + 1) / (v % 2 ? 3 : 1)) % (v + 2));
                batch[v] = (struct uni_batch){NULL, n, v + 2, level + v * n, NULL};
            }
            struct uni_matrix m = matrix_of(&data);
            float *out = malloc((size_t)(n * 5) * sizeof *out);
            options.force = 1;
            assert_int_equal(uni_open(&run, &m, batch, n_variables, &options), UNI_OK);
            assert_int_equal(uni_run(run), UNI_OK);
            assert_int_equal(uni_read(run, UNI_CORRECTED, out), UNI_OK);
            for (int64_t i = 0; i < n * 5; i++)
                assert_true(isfinite(out[i]));
            uni_close(run);
            free(out);
            free(level);
            made_free(&data);
        }
}

/* P54: noise without any structure is no reason to warn, and the trace begins with the start's own distances. */
static void p54_noise_is_integrated_without_a_warning(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    uint64_t random = 5;
    made_empty(&data, 20000, 5, 3);
    for (int64_t i = 0; i < data.n; i++) {
        data.level[i] = (int32_t)(i % 3);
        for (int64_t j = 0; j < data.d; j++)
            data.Z[i * data.d + j] = (float)(made_uniform(&random) - 0.5);
    }
    options.terms = 1;
    product_run_data(&p, &data, &options);
    assert_int_equal(p.summary->n_warnings, 0);
    assert_int_equal(p.summary->objectives[0].round, 0);
    assert_true(p.summary->objectives[0].distance > 0);
    product_close(&p);
    made_free(&data);
}

/* P55: limits are told apart. Sweeps that end at their own limit are no warning, and rounds end for the reason that is given. */
static void p55_each_loop_has_its_own_limit(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 32);
    options.sweeps = 1, options.sweep_tol = 0;
    for (int limited = 0; limited < 2; limited++) {
        options.max_rounds = limited ? 2 : 50, options.tol = limited ? -1 : 0.2;
        product_run_data(&p, &data, &options);
        assert_string_equal(p.summary->reason_text, limited ? "round limit" : "converged");
        assert_true(limited ? p.summary->n_rounds == 2 : p.summary->n_rounds < 50);
        for (int64_t r = 0; r < p.summary->n_rounds; r++)
            assert_int_equal(p.summary->rounds[r].sweeps, 1);
        assert_int_equal(p.summary->n_warnings, 0);
        product_close(&p);
    }
    made_free(&data);
}

static int64_t threads_of_the_process(void)
{
    int64_t n = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *e; folder && (e = readdir(folder));)
        n += e->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

static int count_threads(const struct uni_progress *progress, void *most)
{
    (void)progress;
    int64_t now = threads_of_the_process();
    if (now > *(int64_t *)most)
        *(int64_t *)most = now;
    return 0;
}

/* P80: 64 threads are 63 more than there were, on any machine and with several variables, whose systems are solved by LAPACK. */
static void p80_as_many_threads_as_asked_for(void **state)
{
    (void)state;
    int64_t before = threads_of_the_process(), most = 0;
    if (before == 0)
        skip();
    for (int variables = 1; variables <= 2; variables++) {
        struct study s;
        struct product p;
        struct uni_options options = study_options();
        study_make(&s, STUDY_CROSSED, variables);
        options.threads = 64, options.progress = count_threads, options.progress_user = &most;
        study_run(&p, &s, &options);
        assert_in_range(most, before + 1, before + 63);
        product_close(&p);
        study_close(&s);
    }
}

/* P87: half the bytes for the stored assignments change nothing that a user would see. */
static void p87_precisions_agree(void **state)
{
    (void)state;
    struct made_data data;
    struct product half, single;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[6], 33);
    product_run_data(&half, &data, &options);
    options.precision = UNI_SINGLE;
    product_run_data(&single, &data, &options);
    double *Z = widen(data.Z, data.n * data.d);
    assert_at_least(compare_corrected(half.Zcorr, single.Zcorr, Z, data.n, data.d).corr_least, 0.9999);
    free(Z);
    product_close(&half);
    product_close(&single);
    made_free(&data);
}

static void p02_what_is_left_is_the_least_of_what_there_is(void **state)
{
    (void)state;
    struct rlimit before, limited;
    int64_t space, left = uni_memory_left(NULL);
    const int64_t much = (int64_t)1 << 46; /* more than a sanitizer takes of it */
    assert_true(left == -1 || left > 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limited = before;
    if (before.rlim_cur != RLIM_INFINITY)
        return;
    (void)uni_memory_left(&space);
    assert_int_equal(space, -1);
    limited.rlim_cur = (rlim_t)much;
    assert_int_equal(setrlimit(RLIMIT_AS, &limited), 0);
    left = uni_memory_left(&space);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_in_range(space, 1, much - 1); /* what is used already counts */
    assert_in_range(left, 1, space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p01_p02_memory_is_predicted_and_linear_in_cells),
        cmocka_unit_test(p02_what_is_left_is_the_least_of_what_there_is),
        cmocka_unit_test(p04_a_level_per_cell_is_refused_before_anything_is_allocated),
        cmocka_unit_test(p07_memory_is_linear_in_levels),
        cmocka_unit_test(p11_counts_beyond_32_bits),
        cmocka_unit_test(p13_one_to_four_variables_on_few_cells),
        cmocka_unit_test(p15_helpers_take_no_table_of_all_pairs),
        cmocka_unit_test(p54_noise_is_integrated_without_a_warning),
        cmocka_unit_test(p55_each_loop_has_its_own_limit),
        cmocka_unit_test(p80_as_many_threads_as_asked_for),
        cmocka_unit_test(p87_precisions_agree),
    };
    return cmocka_run_group_tests_name("pain", tests, NULL, NULL);
}
