/* SPDX-License-Identifier: BSD-3-Clause */
/* LISI against a plain one, harmonypy's values and the reference data's table; its neighbours where distances are hard to tell
 * apart. */
#include "data_npy.h"
#include "lisi_given.h"
#include "lisi_plain.h"
#include "made_data.h"
#include "product.h"
#include "recorded.h"
#include "testing.h"

#include <math.h>

static void run_lisi(double *out, const float *Z, const int32_t *level, int64_t n, int64_t d, int64_t n_levels,
                     const struct uni_lisi_options *o)
{
    struct uni_matrix m = cells_of(Z, n, d);
    struct uni_batch b = labels_of(level, n, n_levels);
    if (uni_lisi(&m, &b, 1, o, out, NULL, NULL))
        fail_msg("%s", uni_last_error());
}

/* Every cell beside the plain way. Both stop the bisection at the first entropy within 1e-5, so they differ by rounding alone. */
static void assert_as_plain(const float *Z, const int32_t *level, int64_t n, int64_t d, int64_t n_levels, double perplexity)
{
    struct uni_lisi_options o = every_cell(perplexity);
    double *X = calloc((size_t)(n * d), sizeof *X), *plain = calloc((size_t)(n), sizeof *plain),
           *out = calloc((size_t)(n), sizeof *out);
    for (int64_t i = 0; i < n * d; i++)
        X[i] = (double)Z[i];
    lisi_plain(plain, X, level, n, d, perplexity);
    run_lisi(out, Z, level, n, d, n_levels, &o);
    for (int64_t i = 0; i < n; i++)
        assert_near(out[i] / plain[i], 1, 1e-9);
    free(X);
    free(plain);
    free(out);
}

static void agrees_with_the_plain_way(void **state)
{
    (void)state;
    for (int c = 0; c < N_PROBLEM_CASES; c++) {
        struct made_data data;
        made_case(&data, &problem_cases[c], 7);
        assert_as_plain(data.Z, data.level, data.n, data.d, data.n_levels, data.n > 90 ? 30 : 12.5);
        assert_as_plain(data.Z, data.type, data.n, data.d, data.n_types, 5);
        made_free(&data);
    }
}

static void harmonypy_s_points(void **state)
{
    (void)state;
    if (!recorded_available())
        skip();
    struct npy x;
    char path[1024];
    struct uni_lisi_options o = every_cell(30);
    assert_int_equal(npy_read(&x, recorded_path("lisi", "", "x.npy")), 0);
    int64_t n = x.shape[0], d = x.shape[1], count;
    struct uni_matrix m = {.data = x.real, .dtype = UNI_FLOAT64, .n_cells = n, .n_dims = d};
    struct uni_batch b[2];
    double *out = calloc((size_t)(2 * n), sizeof *out), expected[2];
    snprintf(path, sizeof path, "%s", recorded_path("lisi", "", "meta.tsv"));
    for (int l = 0; l < 2; l++)
        b[l] = labels_of(recorded_labels(path, l ? "label2" : "label1", NULL, 0, &count), n, 64);
    assert_int_equal(uni_lisi(&m, b, 2, &o, out, NULL, NULL), UNI_OK);
    FILE *file = fopen(recorded_path("lisi", "", "expected.tsv"), "r");
    assert_int_equal(fscanf(file, "%*s %*s"), 0);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(fscanf(file, "%lf %lf", &expected[0], &expected[1]), 2);
        for (int l = 0; l < 2; l++)
            assert_near(out[l * n + i] / expected[l], 1, 1e-5);
    }
    fclose(file);
    free((void *)(uintptr_t)b[0].level);
    free((void *)(uintptr_t)b[1].level);
    free(out);
    npy_free(&x);
}

/* One line of the table: dataset, state, batch column, mean and median of iLISI, of cLISI where there are types. */
static void check_table_row(char *line)
{
    char *field[7] = {0}, folder[128];
    int n_fields = 0;
    struct npy x;
    struct uni_lisi_options o = every_cell(30);
    struct uni_lisi_score scores[2];
    line[strcspn(line, "\r\n")] = 0;
    for (char *at = line; n_fields < 7 && at; n_fields++)
        field[n_fields] = strsep(&at, "\t");
    int before = !strcmp(field[1], "before"), types = n_fields == 7 && *field[5];
    snprintf(folder, sizeof folder, "ref-%s", field[1]);
    assert_int_equal(npy_read(&x, recorded_path(field[0], before ? "" : folder, before ? "pcs.npy" : "zcorr.npy")), 0);
    int64_t n = x.shape[0], count;
    struct uni_matrix m = {.data = x.real, .dtype = UNI_FLOAT64, .n_cells = n, .n_dims = x.shape[1]};
    struct uni_batch b[2];
    for (int l = 0; l <= types; l++)
        b[l] = labels_of(recorded_labels(recorded_path(field[0], "", "meta.tsv"), l ? "cell_type" : field[2], NULL, 0, &count), n,
                         64);
    if (uni_lisi(&m, b, 1 + types, &o, NULL, NULL, scores))
        fail_msg("%s", uni_last_error());
    for (int l = 0; l <= types; l++) {
        assert_near(scores[l].mean, atof(field[3 + 2 * l]), 1e-4);
        assert_near(scores[l].median, atof(field[4 + 2 * l]), 1e-4);
        assert_true(scores[l].standard_error == 0 && scores[l].n_values == n);
        free((void *)(uintptr_t)b[l].level);
    }
    npy_free(&x);
}

static void the_reference_data_s_table(void **state)
{
    (void)state;
    if (!recorded_available())
        skip();
    char line[512];
    int rows = 0;
    FILE *file = fopen(recorded_path("", "", "lisi.tsv"), "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    for (; fgets(line, sizeof line, file); rows++)
        check_table_row(line);
    fclose(file);
    assert_at_least(rows, 44);
}

static void p118_one_label_is_one_and_two_on_a_line_are_two(void **state)
{
    (void)state;
    static float Z[1000];
    static int32_t level[1000];
    static double out[1000];
    struct uni_lisi_options o = every_cell(30);
    for (int two = 0; two < 2; two++) {
        for (int i = 0; i < 1000; i++) {
            Z[i] = (float)i;
            level[i] = two * i % 2;
        }
        run_lisi(out, Z, level, 1000, 1, 2, &o);
        for (int i = 0; i < 1000; i++)
            assert_true(two ? out[i] > 1.9 && out[i] < 2 + 1e-12 : fabs(out[i] - 1) < 1e-12);
    }
}

static void p117_few_cells_take_a_smaller_perplexity(void **state)
{
    (void)state;
    struct made_data data;
    made_fixture(&data, 100, 3);
    for (int64_t n = 5; n <= 100; n++) {
        struct uni_lisi_options o = every_cell(30);
        struct uni_lisi_plan plan;
        struct uni_matrix m = cells_of(data.Z, n, 3);
        struct uni_batch b = labels_of(data.level, n, 2);
        double out[100];
        assert_int_equal(uni_lisi_plan(&plan, &m, &b, 1, &o), UNI_OK);
        assert_true(plan.n_neighbours == (n < 90 ? n - 2 : 89) && plan.n_sampled == n);
        assert_near(plan.perplexity, n < 90 ? (double)(n - 1) / 3 : 30, 0);
        assert_true((strstr(plan.note, "(cells - 1) / 3") != NULL) == (n < 90));
        run_lisi(out, data.Z, data.level, n, 3, 2, &o);
        for (int64_t i = 0; i < n; i++)
            assert_true(out[i] >= 1 - 1e-12 && out[i] <= 2 + 1e-12);
    }
    made_free(&data);
}

static const struct problem_case mixed = {"", 3000, 20, 0, 4, 9, 2, 1, 0.1};

static void the_same_bytes_for_any_number_of_threads_and_any_instruction_set(void **state)
{
    (void)state;
    static const char *const sets[] = {"amx", "avx512", "avx2", "plain", "neon"};
    static const int64_t threads[] = {1, 2, 3, 8};
    struct made_data data;
    made_case(&data, &mixed, 1);
    double *first = calloc((size_t)data.n, sizeof *first), *out = calloc((size_t)data.n, sizeof *out);
    char *isa = getenv("UNISONO_ISA"), *before = isa ? strdup(isa) : NULL;
    struct uni_lisi_options o = every_cell(30);
    run_lisi(first, data.Z, data.level, data.n, data.d, data.n_levels, &o);
    for (int t = 0; t < 4; t++) {
        o.threads = threads[t];
        run_lisi(out, data.Z, data.level, data.n, data.d, data.n_levels, &o);
        assert_memory_equal(out, first, (size_t)data.n * sizeof *out);
    }
    for (int s = 0; s < 4; s++) {
        struct uni_backend_info info;
        setenv("UNISONO_ISA", sets[s], 1);
        assert_true(uni_backend_at(0, &info));
        if (!info.usable) /* not on this processor */
            continue;
        run_lisi(out, data.Z, data.level, data.n, data.d, data.n_levels, &o);
        assert_memory_equal(out, first, (size_t)data.n * sizeof *out);
    }
    (void)(before ? setenv("UNISONO_ISA", before, 1) : unsetenv("UNISONO_ISA"));
    free(before);
    free(first);
    free(out);
    made_free(&data);
}

static void any_layout_and_type_gives_the_same_bytes(void **state)
{
    (void)state;
    struct made_data data;
    made_case(&data, &mixed, 2);
    int64_t n = data.n, d = data.d;
    double *first = calloc((size_t)(n), sizeof *first), *out = calloc((size_t)(n), sizeof *out),
           *wide = calloc((size_t)(n * d), sizeof *wide);
    float *columns = calloc((size_t)(n * d), sizeof *columns);
    char *crooked = calloc((size_t)(n * d * 4 + 1), 1);
    struct uni_lisi_options o = every_cell(30);
    run_lisi(first, data.Z, data.level, n, d, data.n_levels, &o);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            wide[(n - 1 - i) * d + j] = (double)data.Z[i * d + j];
            columns[j * n + i] = data.Z[i * d + j];
        }
    memcpy(crooked + 1, data.Z, (size_t)(n * d) * 4);
    const struct uni_matrix other[] = {{wide + (n - 1) * d, UNI_FLOAT64, n, d, -d * 8, 8},
                                       {columns, UNI_FLOAT32, n, d, 4, n * 4},
                                       {crooked + 1, UNI_FLOAT32, n, d, 0, 0}};
    struct uni_batch b = labels_of(data.level, n, data.n_levels);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(uni_lisi(&other[i], &b, 1, &o, out, NULL, NULL), UNI_OK);
        assert_memory_equal(out, first, (size_t)n * sizeof *out);
    }
    free(first);
    free(out);
    free(wide);
    free(columns);
    free(crooked);
    made_free(&data);
}

/* The sampled cells have the values that they have among all, and the standard error says how far the mean may be off. */
static void a_sample_is_of_the_same_values(void **state)
{
    enum { SAMPLE = 500, SEEDS = 40 };
    (void)state;
    struct made_data data;
    made_case(&data, &mixed, 3);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch b[2] = {batch_of(&data), labels_of(data.type, data.n, data.n_types)};
    struct uni_lisi_options o = every_cell(30);
    struct uni_lisi_score all[2], some[2];
    double *every = calloc((size_t)(2 * data.n), sizeof *every), off = 0;
    static double values[2 * SAMPLE];
    static int64_t cells[SAMPLE], before[SAMPLE];
    assert_int_equal(uni_lisi(&m, b, 2, &o, every, NULL, all), UNI_OK);
    o.sample = SAMPLE;
    for (o.seed = 0; o.seed < SEEDS; o.seed++) {
        assert_int_equal(uni_lisi(&m, b, 2, &o, values, cells, some), UNI_OK);
        assert_memory_not_equal(cells, before, sizeof cells);
        memcpy(before, cells, sizeof cells);
        for (int i = 0; i < SAMPLE; i++) {
            assert_true(i == 0 || cells[i] > cells[i - 1]);
            assert_true(values[i] == every[cells[i]] && values[SAMPLE + i] == every[data.n + cells[i]]);
        }
        off += pow((some[0].mean - all[0].mean) / some[0].standard_error, 2) / SEEDS;
    }
    assert_true(off > 0.4 && off < 2); /* a mean of 40 squares of a standard normal: 1 +- 0.22 */
    assert_true(all[0].standard_error == 0 && all[0].n_values == data.n && some[0].n_values == SAMPLE);
    free(every);
    made_free(&data);
}

/* Points of a small grid, each many times over: nearly all distances are shared by many cells. */
static void p119_ties_and_duplicates_go_by_the_cell_s_number(void **state)
{
    (void)state;
    enum { N = 2000 };
    static float Z[2 * N];
    static int32_t level[N];
    uint64_t random = 5;
    for (int side = 1; side <= 30; side = side * 2 + 1) { /* 1: all cells in one place */
        for (int i = 0; i < N; i++) {
            Z[2 * i] = (float)(made_random(&random) % (uint64_t)side) + 1000;
            Z[2 * i + 1] = (float)(made_random(&random) % (uint64_t)side);
            level[i] = (int32_t)(made_random(&random) % 3);
        }
        assert_as_plain(Z, level, N, 2, 3, 30);
        assert_as_plain(Z, level, N, 2, 3, 3.5);
    }
}

/* Each cell is nearer to the first than all before it, and the other way round. */
static void cells_in_the_worst_order(void **state)
{
    (void)state;
    enum { N = 3000 };
    static float Z[N];
    static int32_t level[N];
    for (int i = 0; i < N; i++)
        level[i] = i * 7 % 11 % 3;
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < N; i++)
            Z[i] = way == 0 ? (float)i : way == 1 ? (float)(i % 2 ? i : -i) : 1.0f / (float)(i + 1);
        assert_as_plain(Z, level, N, 1, 3, 4);
    }
}

/* Far from the origin, where float32 products see nothing; a cell far out; groups far apart: slow perhaps, never wrong. */
static void p24_large_and_small_values(void **state)
{
    (void)state;
    struct made_data data;
    made_case(&data, &mixed, 4);
    int64_t n = 1000, d = data.d;
    float *Z = calloc((size_t)(n * d), sizeof *Z);
    static const float scales[] = {1, 1e-20f, 1e15f, 1e-38f};
    for (int s = 0; s < 4; s++) {
        for (int64_t i = 0; i < n * d; i++)
            Z[i] = data.Z[i] * scales[s];
        assert_as_plain(Z, data.level, n, d, data.n_levels, 30);
    }
    for (int64_t i = 0; i < n * d; i++)
        Z[i] = data.Z[i] + 100000;
    assert_as_plain(Z, data.level, n, d, data.n_levels, 30);
    for (int64_t i = 0; i < n * d; i++)
        Z[i] = data.Z[i] + (float)(i / d % 7) * 1e6f;
    assert_as_plain(Z, data.level, n, d, data.n_levels, 30);
    memcpy(Z, data.Z, (size_t)(n * d) * sizeof *Z);
    Z[5 * d] = 3e15f;
    assert_as_plain(Z, data.level, n, d, data.n_levels, 30);
    free(Z);
    made_free(&data);
}

static void no_value_where_all_are_too_far(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_lisi_options o = every_cell(30);
    struct uni_lisi_score score;
    made_case(&data, &problem_cases[1], 1);
    for (int64_t i = 0; i < data.n * data.d; i++)
        data.Z[i] *= 1e35f;
    double *out = calloc((size_t)(data.n), sizeof *out);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch b = batch_of(&data);
    assert_int_equal(uni_lisi(&m, &b, 1, &o, out, NULL, &score), UNI_OK);
    for (int64_t i = 0; i < data.n; i++)
        assert_true(isnan(out[i]));
    assert_true(score.n_values == 0 && isnan(score.mean) && isnan(score.median) && isnan(score.standard_error));
    free(out);
    made_free(&data);
}

/* A neighbour without a label is left out: its weight goes to the others in proportion. */
static void missing_labels(void **state)
{
    (void)state;
    enum { N = 300 };
    static float Z[N];
    static int32_t three[N], two[N], holes[N];
    static double with[N], out[N], apart[N];
    struct uni_lisi_options o = every_cell(10);
    struct uni_lisi_score score;
    for (int i = 0; i < N; i++) {
        Z[i] = (float)(i + i * i % 7 * 0.1);
        three[i] = i % 3;
        holes[i] = i % 3 == 2 ? -1 : i % 3;
        two[i] = i % 3 == 2; /* its index gives the weight w of the third level: 1/L = w^2 + (1-w)^2 */
    }
    struct uni_matrix m = cells_of(Z, N, 1);
    struct uni_batch b = labels_of(holes, N, 5);
    assert_int_equal(uni_lisi(&m, &b, 1, &o, out, NULL, &score), UNI_OK);
    assert_true(score.n_levels == 2 && score.n_missing == N / 3 && score.n_values == N);
    run_lisi(with, Z, three, N, 1, 3, &o);
    run_lisi(apart, Z, two, N, 1, 2, &o);
    for (int i = 0; i < N; i++) {
        double w = (1 - sqrt(2 / apart[i] - 1)) / 2, sum = 1 / with[i] - w * w; /* the third level has less than half */
        assert_near(out[i], (1 - w) * (1 - w) / sum, 1e-6);
    }
    for (int i = 0; i < N; i++)
        holes[i] = i < N - 1 ? -1 : 0;
    assert_int_equal(uni_lisi(&m, &b, 1, &o, out, NULL, &score), UNI_OK);
    assert_true(isnan(out[0]) && out[N - 2] == 1 && isnan(out[N - 1]) && score.mean == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_plain_way),
        cmocka_unit_test(harmonypy_s_points),
        cmocka_unit_test(the_reference_data_s_table),
        cmocka_unit_test(p118_one_label_is_one_and_two_on_a_line_are_two),
        cmocka_unit_test(p117_few_cells_take_a_smaller_perplexity),
        cmocka_unit_test(the_same_bytes_for_any_number_of_threads_and_any_instruction_set),
        cmocka_unit_test(any_layout_and_type_gives_the_same_bytes),
        cmocka_unit_test(a_sample_is_of_the_same_values),
        cmocka_unit_test(p119_ties_and_duplicates_go_by_the_cell_s_number),
        cmocka_unit_test(cells_in_the_worst_order),
        cmocka_unit_test(p24_large_and_small_values),
        cmocka_unit_test(no_value_where_all_are_too_far),
        cmocka_unit_test(missing_labels),
    };
    return cmocka_run_group_tests_name("lisi", tests, NULL, NULL);
}
