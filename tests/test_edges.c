/* SPDX-License-Identifier: BSD-3-Clause */
/* Input that cannot be used, or nearly: the status, and in the sentence the thing, the number and the remedy. Positions count
 * from 1. */
#include "differences.h"
#include "product.h"
#include "testing.h"

#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_SANITIZER 1
#else
#define WITH_SANITIZER 0
#endif

/* Every one of the texts (ended by NULL) is in the last sentence, which is one line. */
static void check_sentence(int status, int expected, const char *const *texts, int line)
{
    const char *sentence = uni_last_error();
    if (status != expected)
        print_error("status %s, not %s: %s\n", uni_status_name(status), uni_status_name(expected), sentence);
    _assert_int_equal((uint64_t)status, (uint64_t)expected, __FILE__, line);
    for (; *texts; texts++) {
        if (!strstr(sentence, *texts))
            print_error("\"%s\" is not in: %s\n", *texts, sentence);
        _assert_true(strstr(sentence, *texts) != NULL, "sentence", __FILE__, line);
    }
    _assert_true(strchr(sentence, '\n') == NULL && strlen(sentence) > 20, "one line of words", __FILE__, line);
}

/* Opening must fail and leave no run behind; a plan, which sees no embedding, must fail alike unless that is the cause. */
static void refuse(const struct uni_matrix *m, const struct uni_batch *batch, int n_batches, const struct uni_options *options,
                   int plan_too, int expected, const char *const *texts, int line)
{
    struct uni_harmony *run = (struct uni_harmony *)(uintptr_t)16;
    check_sentence(uni_open(&run, m, batch, n_batches, options), expected, texts, line);
    _assert_true(run == NULL, "run == NULL", __FILE__, line);
    struct uni_plan plan;
    if (plan_too)
        check_sentence(uni_plan(&plan, m->n_cells, m->n_dims, batch, n_batches, options), expected, texts, line);
}

#define TEXTS(...)                                                                                                               \
    (const char *const[])                                                                                                        \
    {                                                                                                                            \
        __VA_ARGS__, NULL                                                                                                        \
    }
#define REFUSE(plan_too, expected, ...) refuse(&m, &batch, 1, &options, plan_too, expected, TEXTS(__VA_ARGS__), __LINE__)

/* 60 cells, 3 dimensions, two levels; most tests spoil one thing of it. */
static struct made_data data;
static struct uni_matrix m;
static struct uni_batch batch;
static struct uni_options options;

static int open_fixture(void **state)
{
    (void)state;
    made_fixture(&data, 60, 3);
    m = matrix_of(&data);
    batch = batch_of(&data);
    options = defaults();
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    made_free(&data);
    return 0;
}

static void p24_non_finite_values_are_counted_and_placed(void **state)
{
    (void)state;
    data.Z[4 * 3 + 1] = NAN;
    data.Z[6 * 3] = INFINITY;
    REFUSE(0, UNI_INPUT, "2 non-finite values", "row 5", "column 2");
    data.Z[4 * 3 + 1] = 0;
    REFUSE(0, UNI_INPUT, "1 non-finite value", "row 7", "column 1");
    data.Z[6 * 3] = -INFINITY;
    REFUSE(0, UNI_INPUT, "1 non-finite value", "row 7", "column 1");
}

static void float64_beyond_float32_is_non_finite(void **state)
{
    (void)state;
    double Z[180];
    for (int i = 0; i < 180; i++)
        Z[i] = data.Z[i];
    Z[179] = 1e39;
    m.data = Z, m.dtype = UNI_FLOAT64;
    REFUSE(0, UNI_INPUT, "1 non-finite value", "row 60", "column 3");
}

/* Found by fuzzing: sums and differences of such values left float32, and the result was infinite without a word. */
static void values_whose_sums_leave_float32_are_refused(void **state)
{
    (void)state;
    data.Z[4 * 3 + 1] = 1e35f;
    REFUSE(0, UNI_INPUT, "1e+35", "row 5", "column 2", "8e+34");
    data.Z[4 * 3 + 1] = -3e38f;
    REFUSE(0, UNI_INPUT, "-3e+38", "row 5", "column 2");
    double Z[180] = {0};
    Z[179] = 1e36;
    m.data = Z, m.dtype = UNI_FLOAT64;
    REFUSE(0, UNI_INPUT, "1e+36", "row 60", "column 3");
}

static void p29_missing_label_is_counted_and_placed(void **state)
{
    (void)state;
    batch.name = "donor";
    data.level[4] = -1;
    REFUSE(1, UNI_INPUT, "donor", "1 missing label", "cell 5", "skip", "level");
    data.level[9] = -1;
    REFUSE(1, UNI_INPUT, "donor", "2 missing labels", "cell 5");
}

static void missing_labels_can_be_skipped(void **state)
{
    (void)state;
    struct product p, rest;
    struct made_data kept;
    made_empty(&kept, 58, 3, 2);
    data.level[4] = data.level[59] = -1;
    for (int64_t i = 0, to = 0; i < 60; i++)
        if (data.level[i] >= 0) {
            memcpy(kept.Z + 3 * to, data.Z + 3 * i, 3 * sizeof(float));
            kept.level[to++] = data.level[i];
        }
    options.missing = UNI_MISSING_SKIP;
    product_run(&p, &m, &batch, &options);
    product_run_data(&rest, &kept, &options);
    assert_int_equal(p.summary->n_skipped, 2);
    assert_int_equal(p.summary->n_cells, 60);
    for (int64_t i = 0, to = 0; i < 60; i++)
        for (int64_t j = 0; j < 3; j++) {
            int skipped = data.level[i] < 0;
            assert_true(p.Zcorr[3 * i + j] == (skipped ? (double)data.Z[3 * i + j] : rest.Zcorr[3 * to + j]));
            if (j == 2) {
                for (int64_t k = 0; k < p.K; k++)
                    assert_true(p.R[i * p.K + k] == (skipped ? 0 : rest.R[to * p.K + k]));
                assert_int_equal(p.block[i], skipped ? -1 : rest.block[to]);
                to += !skipped;
            }
        }
    product_close(&p);
    product_close(&rest);
    made_free(&kept);
}

static void missing_labels_can_be_a_level(void **state)
{
    (void)state;
    struct product p, named;
    for (int i = 0; i < 60; i += 4)
        data.level[i] = -1;
    options.missing = UNI_MISSING_LEVEL;
    product_run(&p, &m, &batch, &options);
    assert_int_equal(p.summary->n_levels, 3);
    assert_int_equal(p.B, 3);
    for (int i = 0; i < 60; i += 4)
        data.level[i] = 2;
    batch.n_levels = 3;
    product_run(&named, &m, &batch, &options);
    assert_same_bytes(&p, &named);
    product_close(&p);
    product_close(&named);
}

static void p05_a_level_per_cell_is_refused_unless_forced(void **state)
{
    (void)state;
    struct product p;
    for (int i = 0; i < 60; i++)
        data.level[i] = i;
    batch.n_levels = 60, batch.name = "barcode";
    REFUSE(1, UNI_INPUT, "barcode", "60 levels for 60 cells", "force");
    options.force = 1;
    product_run(&p, &m, &batch, &options);
    for (int i = 0; i < 180; i++)
        assert_true(isfinite(p.Zcorr[i]));
    product_close(&p);
}

static void mostly_single_cells_are_refused_unless_forced(void **state)
{
    (void)state;
    struct product p;
    for (int i = 0; i < 60; i++)
        data.level[i] = i < 20 ? i : 20 + i % 2; /* 22 levels, 20 of them single cells */
    batch.n_levels = 22;
    REFUSE(1, UNI_INPUT, "22 levels", "60 cells", "20 of them", "force");
    options.force = 1;
    product_run(&p, &m, &batch, &options);
    product_close(&p);
}

/* 31 levels, 29 of two cells: more levels than half the cells. 30 levels of two cells are the limit and pass. */
static void more_levels_than_half_the_cells_are_refused(void **state)
{
    (void)state;
    struct product p;
    for (int i = 0; i < 60; i++)
        data.level[i] = i / 2;
    batch.n_levels = 31;
    product_run(&p, &m, &batch, &options);
    assert_int_equal(p.summary->n_levels, 30);
    product_close(&p);
    data.level[59] = 30;
    REFUSE(1, UNI_INPUT, "31 levels for 60 cells", "force");
}

static void p39_rows_and_columns_confused_says_transpose(void **state)
{
    (void)state;
    m.n_cells = 3, m.n_dims = 60;
    REFUSE(1, UNI_INPUT, "60 labels", "3x60", "transpose");
    m.n_cells = 60, m.n_dims = 3, batch.level = NULL; /* and no labels at all */
    REFUSE(1, UNI_INPUT, "level is NULL");
}

/* A plan needs the sizes alone: every product of them fits, or is refused. A build with sanitizers sees those that do not. */
static void p11_products_beyond_64_bits_are_refused(void **state)
{
    (void)state;
    static const int64_t dims[] = {
        INT64_C(1) << 31, INT64_C(1) << 33, INT64_C(1) << 44, INT64_MAX / 1024 / 60, INT64_MAX / 1024 / 60 + 1,
        INT64_C(1) << 58, INT64_MAX / 60,   INT64_MAX / 3,    INT64_MAX - 1,         INT64_MAX};
    static const int64_t levels[] = {2, INT64_C(1) << 20, INT32_MAX - 1};
    for (size_t j = 0; j < sizeof dims / sizeof *dims; j++)
        for (int l = 0; l < 3; l++) {
            struct uni_plan plan;
            options.force = 1, options.n_clusters = l ? 60 : 0;
            batch.n_levels = levels[l];
            int status = uni_plan(&plan, 60, dims[j], &batch, 1, &options);
            if (status == UNI_OK)
                assert_true(plan.bytes > 4 * 60 * dims[j] && plan.bytes_open > 4 * 60 * dims[j]);
            else
                check_sentence(status, UNI_MEMORY, TEXTS("use fewer"), __LINE__);
        }
    batch.n_levels = 2;
    m.n_dims = INT64_MAX / 60;
    REFUSE(1, UNI_MEMORY, "60 cells x 153722867280912930 dimensions", "any machine");
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    batch.n_cells = 59, batch.name = "sample";
    REFUSE(1, UNI_INPUT, "sample", "59 labels", "60x3");
    batch.n_cells = 60;
    m.n_cells = batch.n_cells = 1;
    REFUSE(1, UNI_INPUT, "1 cell", "at least 2");
    m.n_cells = batch.n_cells = INT64_C(1) << 32;
    REFUSE(1, UNI_INPUT, "4294967296 cells", "4294967295 at most");
    m.n_cells = batch.n_cells = 0;
    REFUSE(1, UNI_INPUT, "0 cells", "at least 2");
    m.n_cells = batch.n_cells = -5;
    REFUSE(1, UNI_INPUT, "-5 cells");
    m.n_cells = batch.n_cells = 60, m.n_dims = 0;
    REFUSE(1, UNI_INPUT, "0 dimensions", "at least 1");
    m.n_dims = 3, batch.n_levels = 0;
    REFUSE(1, UNI_INPUT, "0 levels");
    batch.n_levels = 2;
    m.data = NULL;
    REFUSE(0, UNI_INPUT, "NULL");
    m.data = data.Z, m.dtype = (enum uni_dtype)7;
    REFUSE(0, UNI_INPUT, "dtype", "7");
}

static void p96_level_outside_its_range_is_refused(void **state)
{
    (void)state;
    data.level[11] = 7;
    REFUSE(1, UNI_INPUT, "7", "cell 12", "2 levels");
    data.level[11] = -2;
    REFUSE(1, UNI_INPUT, "-2", "cell 12");
}

static void number_of_variables_is_checked(void **state)
{
    (void)state;
    refuse(&m, &batch, 0, &options, 1, UNI_INPUT, TEXTS("0 batch variables", "1 to 8"), __LINE__);
    refuse(&m, &batch, 9, &options, 1, UNI_INPUT, TEXTS("9 batch variables", "1 to 8"), __LINE__);
}

static void starting_centroids_are_checked(void **state)
{
    (void)state;
    float start[] = {1, 0, 0, 0, 1, 0};
    struct product p;
    options.centroids = start, options.n_centroids = 2;
    product_run(&p, &m, &batch, &options);
    assert_int_equal(p.K, 2);
    product_close(&p);
    options.n_clusters = 2;
    product_run(&p, &m, &batch, &options);
    product_close(&p);
    options.n_clusters = 3;
    REFUSE(1, UNI_OPTION, "3", "2 starting centroids");
    options.n_clusters = 0;
    start[4] = NAN;
    REFUSE(0, UNI_INPUT, "centroid 2", "non-finite", "column 2");
    start[4] = 0;
    REFUSE(0, UNI_INPUT, "centroid 2", "zeros");
    options.n_centroids = 0;
    REFUSE(1, UNI_OPTION, "0 starting centroids");
}

/* P114: R of the first round follows from the start alone, whatever its length. */
static void p114_length_of_centroids_does_not_matter(void **state)
{
    (void)state;
    float start[] = {1, 0.5f, 0, 0, 1, 0.25f}, longer[6];
    struct product p, q;
    for (int i = 0; i < 6; i++)
        longer[i] = 1024 * start[i];
    options.centroids = start, options.n_centroids = 2;
    product_run(&p, &m, &batch, &options);
    options.centroids = longer;
    product_run(&q, &m, &batch, &options);
    assert_same_bytes(&p, &q);
    assert_near(p.start[0] * p.start[0] + p.start[1] * p.start[1], 1, 1e-6);
    product_close(&p);
    product_close(&q);
}

static void p21_one_level_returns_the_input_with_a_warning(void **state)
{
    (void)state;
    struct product p;
    for (int unused = 0; unused < 2; unused++) {
        for (int i = 0; i < 60; i++)
            data.level[i] = unused;
        batch.n_levels = 1 + 2 * unused;
        product_run(&p, &m, &batch, &options);
        for (int i = 0; i < 180; i++)
            assert_true(p.Zcorr[i] == (double)data.Z[i]);
        assert_int_equal(p.summary->reason, UNI_ONE_LEVEL);
        assert_int_equal(p.summary->n_rounds, 0);
        assert_true(product_warns(&p, "one batch level"));
        product_close(&p);
    }
}

static void zero_rounds_return_the_input(void **state)
{
    (void)state;
    struct product p;
    options.max_rounds = 0;
    product_run(&p, &m, &batch, &options);
    for (int i = 0; i < 180; i++)
        assert_true(p.Zcorr[i] == (double)data.Z[i]);
    assert_int_equal(p.summary->reason, UNI_NO_ROUNDS);
    int64_t shape[3];
    float *R = malloc(60 * 100 * sizeof *R);
    assert_int_equal(uni_shape(p.run, UNI_ASSIGNMENTS, shape), UNI_OK);
    assert_int_equal(uni_read(p.run, UNI_ASSIGNMENTS, R), UNI_INPUT);
    assert_true(isnan(R[0]));
    free(R);
    product_close(&p);
}

static void p03_expression_matrix_is_warned_about(void **state)
{
    (void)state;
    struct made_data wide;
    struct product p;
    made_fixture(&wide, 400, 2000);
    product_run_data(&p, &wide, &options);
    assert_true(product_warns(&p, "2000"));
    product_close(&p);
    made_free(&wide);
}

static void reading_before_the_run_is_an_error_and_nan(void **state)
{
    (void)state;
    struct uni_harmony *run;
    float Z[180] = {0};
    int32_t blocks[60] = {0};
    assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_OK);
    assert_int_equal(uni_summary(run)->reason, UNI_NOT_RUN);
    check_sentence(uni_read(run, UNI_CORRECTED, Z), UNI_INPUT, TEXTS("not been run"), __LINE__);
    for (int i = 0; i < 180; i++)
        assert_true(isnan(Z[i]));
    assert_int_equal(uni_read(run, UNI_BLOCKS, blocks), UNI_INPUT);
    assert_int_equal(blocks[59], -1);
    assert_int_equal(uni_run(run), UNI_OK);
    assert_int_equal(uni_read(run, UNI_CORRECTED, Z), UNI_OK);
    assert_int_equal(uni_run(run), UNI_INPUT); /* once per open; what the first left stays readable */
    float again[180];
    assert_int_equal(uni_read(run, UNI_CORRECTED, again), UNI_OK);
    assert_memory_equal(Z, again, sizeof Z);
    int64_t shape[3];
    assert_int_equal(uni_shape(run, (enum uni_array)99, shape), UNI_INPUT);
    uni_close(run);
    uni_close(NULL);
}

/* Half the largest float in every entry: sums over cells would overflow, and the value is named. Just below what is allowed, the
   result is finite. */
static void overflow_is_no_silent_result(void **state)
{
    (void)state;
    struct uni_harmony *run;
    float Z[180];
    for (int i = 0; i < 180; i++)
        data.Z[i] = (i % 7 < 3 ? 1.7e38f : -1.6e38f);
    assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_INPUT);
    assert_null(run);
    assert_non_null(strstr(uni_last_error(), "1.7e+38 at row 1, column 1"));
    for (int i = 0; i < 180; i++)
        data.Z[i] = (i % 7 < 3 ? 0x1.fp115f : -0x1.ep115f) * (float)(1 + i % 5) / 5;
    assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_OK);
    assert_int_equal(uni_run(run), UNI_OK);
    assert_int_equal(uni_read(run, UNI_CORRECTED, Z), UNI_OK);
    for (int i = 0; i < 180; i++)
        assert_true(isfinite(Z[i]));
    uni_close(run);
}

/* In a child with little address space: memory runs out inside uni_open, which says how much was asked for. */
static void out_of_memory_is_an_error_with_the_size(void **state)
{
    (void)state;
    if (WITH_SANITIZER) /* its allocator ends the program instead */
        skip();
    int64_t n = 4000000;
    int32_t *level = calloc((size_t)n, sizeof *level);
    for (int64_t i = 0; i < n; i++)
        level[i] = i % 2;
    struct uni_plan plan;
    batch = (struct uni_batch){"batch", n, 2, level, NULL};
    assert_int_equal(uni_plan(&plan, n, 3, &batch, 1, &options), UNI_OK);
    assert_true(plan.bytes > 200 * n);
    float start[300];
    for (int i = 0; i < 300; i++)
        start[i] = (float)(1 + i % 7);
    options.centroids = start, options.n_centroids = 100; /* the cells are all the same: own seeding would find one cluster */
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {500u << 20, 500u << 20};
        struct uni_harmony *run = (struct uni_harmony *)(uintptr_t)16;
        /* every cell is the same few floats: a row stride of 0 */
        m = (struct uni_matrix){data.Z, UNI_FLOAT32, n, 3, 0, 4};
        int limited = setrlimit(RLIMIT_AS, &limit) == 0;
        void *beyond = malloc(600u << 20);
        if (beyond) /* an emulator does not keep to the limit */
            _exit(77);
        int ok = limited && uni_open(&run, &m, &batch, 1, &options) == UNI_MEMORY && run == NULL &&
                 strstr(uni_last_error(), "memory") && strstr(uni_last_error(), "fewer") &&
                 strpbrk(uni_last_error(), "0123456789");
        if (!ok)
            fprintf(stderr, "child: %s\n", uni_last_error());
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    free(level);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(p24_non_finite_values_are_counted_and_placed),
        TEST(float64_beyond_float32_is_non_finite),
        TEST(values_whose_sums_leave_float32_are_refused),
        TEST(p29_missing_label_is_counted_and_placed),
        TEST(missing_labels_can_be_skipped),
        TEST(missing_labels_can_be_a_level),
        TEST(p05_a_level_per_cell_is_refused_unless_forced),
        TEST(mostly_single_cells_are_refused_unless_forced),
        TEST(more_levels_than_half_the_cells_are_refused),
        TEST(p39_rows_and_columns_confused_says_transpose),
        TEST(p11_products_beyond_64_bits_are_refused),
        TEST(sizes_that_do_not_fit_are_refused),
        TEST(p96_level_outside_its_range_is_refused),
        TEST(number_of_variables_is_checked),
        TEST(starting_centroids_are_checked),
        TEST(p114_length_of_centroids_does_not_matter),
        TEST(p21_one_level_returns_the_input_with_a_warning),
        TEST(zero_rounds_return_the_input),
        TEST(p03_expression_matrix_is_warned_about),
        TEST(reading_before_the_run_is_an_error_and_nan),
        TEST(overflow_is_no_silent_result),
        TEST(out_of_memory_is_an_error_with_the_size),
    };
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
