/* SPDX-License-Identifier: BSD-3-Clause */
/* With one cluster nothing is random: the result is Z - P W with W = (P'P + Lambda)^-1 P'Z, its intercept's row set to 0. The one
 * exact test there is, on every path through the input checks, sorting, sums and the ridge. 1e-6 of the largest |Z| throughout.
 */
#include "differences.h"
#include "product.h"
#include "reference.h"
#include "testing.h"

#include <math.h>

/* W by elimination over the levels that have cells. lambda 0: automatic, alpha N_level. */
static void closed_form(double *out, const double *Z, const struct made_data *data, double lambda, double alpha)
{
    int64_t n = data->n, d = data->d, m = 1, *row = calloc((size_t)data->n_levels, sizeof *row);
    double *cells = calloc((size_t)data->n_levels, sizeof *cells);
    for (int64_t i = 0; i < n; i++)
        cells[data->level[i]]++;
    for (int64_t l = 0; l < data->n_levels; l++)
        row[l] = cells[l] > 0 ? m++ : 0;
    double *A = calloc((size_t)(m * m), sizeof *A), *W = calloc((size_t)(m * d), sizeof *W);
    for (int64_t i = 0; i < n; i++) {
        int64_t r = row[data->level[i]];
        A[0] += 1, A[r] += 1, A[r * m] += 1, A[r * m + r] += 1;
        for (int64_t j = 0; j < d; j++)
            W[j] += Z[i * d + j], W[r * d + j] += Z[i * d + j];
    }
    for (int64_t l = 0; l < data->n_levels; l++)
        if (row[l])
            A[row[l] * m + row[l]] += lambda > 0 ? lambda : alpha * cells[l];
    assert_int_equal(ref_solve(A, W, m, d), 0);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++)
            out[i * d + j] = Z[i * d + j] - W[row[data->level[i]] * d + j];
    free(A), free(W), free(row), free(cells);
}

/* Runs with one cluster and compares. */
static void check(const struct made_data *data, const struct uni_matrix *m, struct uni_options options, double tolerance)
{
    struct product p;
    struct uni_batch batch = batch_of(data);
    double *Z = widen(data->Z, data->n * data->d), *expected = widen(data->Z, data->n * data->d);
    options.n_clusters = 1;
    closed_form(expected, Z, data, options.lambda.n ? options.lambda.value[0] : 0, options.alpha);
    product_run(&p, m, &batch, &options);
    assert_at_most(largest_difference(p.Zcorr, expected, data->n * data->d), tolerance * largest_magnitude(Z, data->n * data->d));
    product_close(&p);
    free(Z);
    free(expected);
}

static void check_data(const struct made_data *data, struct uni_options options)
{
    struct uni_matrix m = matrix_of(data);
    for (int precision = UNI_HALF; precision <= UNI_SINGLE; precision++) {
        options.precision = precision;
        options.lambda.n = 0;
        check(data, &m, options, 1e-6);
        static const double fixed[] = {1e-3, 1, 100};
        for (int i = 0; i < 3; i++) {
            options.lambda = (struct uni_values){1, {fixed[i]}};
            check(data, &m, options, 1e-6);
        }
    }
}

static void p61_cf_numbers_of_the_r_package(void **state)
{
    (void)state;
    static const double automatic[] = {0.160350, -0.078929, -0.245771}, fixed[] = {0.157956, -0.079049, -0.243528},
                        solo[] = {0.018819, -0.015833, -0.035766};
    struct made_data data;
    made_fixture(&data, 60, 3);
    for (int i = 0; i < 3; i++) {
        struct uni_options options = defaults();
        struct product p;
        options.n_clusters = 1;
        if (i == 1)
            options.lambda = (struct uni_values){1, {1}};
        if (i == 2)
            data.level[0] = 2, data.n_levels = 3;
        product_run_data(&p, &data, &options);
        for (int j = 0; j < 3; j++)
            assert_near(p.Zcorr[j], (i == 0 ? automatic : i == 1 ? fixed : solo)[j], 1e-6);
        product_close(&p);
    }
    made_free(&data);
}

static void p22_singleton_level_is_exact_and_named(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    static const char *const names[] = {"a", "b", "solo"};
    made_fixture(&data, 60, 3);
    data.level[0] = 2, data.n_levels = 3;
    check_data(&data, defaults());
    struct uni_options options = defaults();
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    batch.level_names = names;
    product_run(&p, &m, &batch, &options);
    assert_true(product_warns(&p, "solo"));
    product_close(&p);
    made_free(&data);
}

static void p18_every_small_size_works_with_defaults(void **state)
{
    (void)state;
    static const int64_t sizes[] = {2, 3, 5, 6, 12, 15, 16, 28, 39, 40, 44};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct made_data data;
        struct product p;
        struct uni_options options = defaults();
        made_fixture(&data, sizes[i], 3);
        product_run_data(&p, &data, &options); /* K not given */
        assert_int_equal(p.K, 1);
        product_close(&p);
        check_data(&data, options);
        made_free(&data);
    }
}

static void p25_one_dimension(void **state)
{
    (void)state;
    struct made_data data;
    made_fixture(&data, 60, 1);
    check_data(&data, defaults());
    made_free(&data);
}

static void p115_more_dimensions_than_cells(void **state)
{
    (void)state;
    struct made_data data;
    made_fixture(&data, 40, 200);
    check_data(&data, defaults());
    made_free(&data);
}

static void p10_every_number_of_dimensions_up_to_70(void **state)
{
    (void)state;
    for (int64_t d = 1; d <= 70; d++) {
        struct made_data data;
        struct uni_matrix m;
        made_fixture(&data, 50, d);
        m = matrix_of(&data);
        check(&data, &m, defaults(), 1e-6);
        made_free(&data);
    }
}

static void many_levels_and_unused_ones(void **state)
{
    (void)state;
    struct made_data data;
    made_fixture(&data, 3001, 5);
    data.n_levels = 700;
    for (int64_t i = 0; i < data.n; i++)
        data.level[i] = (int32_t)(3 * (i * i % 211) + 7); /* 106 levels of 14 to 29 cells */
    check_data(&data, defaults());
    made_free(&data);
}

static void levels_longer_than_a_run_of_cells(void **state)
{
    (void)state;
    struct made_data data;
    made_fixture(&data, 9001, 6);
    for (int64_t i = 0; i < data.n; i++)
        data.level[i] = i % 9 == 0; /* 8000 and 1001 cells */
    check_data(&data, defaults());
    made_free(&data);
}

/* Everything that K = 1 must not depend on. */
static void settings_that_cannot_matter(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_matrix m;
    double sigma = 0.3;
    made_fixture(&data, 500, 4);
    m = matrix_of(&data);
    for (int i = 0; i < 9; i++) {
        struct uni_options options = defaults();
        if (i == 0)
            options.theta = (struct uni_values){1, {0}};
        else if (i == 1)
            options.theta = (struct uni_values){1, {50}};
        else if (i == 2)
            options.sigma = 1e-3;
        else if (i == 3)
            options.block_size = 1;
        else if (i == 4)
            options.max_rounds = 1, options.sweeps = 1;
        else if (i == 5)
            options.seed = 12345;
        else if (i == 6)
            options.tau = (struct uni_values){1, {5}};
        else if (i == 7)
            options.cluster_sigma = &sigma, options.n_cluster_sigma = 1;
        else
            options.alpha = 0.7;
        check(&data, &m, options, 1e-6);
    }
    made_free(&data);
}

static void p94_any_layout_gives_the_same_bytes(void **state)
{
    (void)state;
    struct made_data data;
    struct product plain, other;
    made_fixture(&data, 61, 5);
    int64_t n = data.n, d = data.d;
    struct uni_options options = defaults();
    struct uni_batch batch = batch_of(&data);
    struct uni_matrix m = matrix_of(&data);
    options.n_clusters = 3;
    product_run(&plain, &m, &batch, &options);
    float *wide = calloc((size_t)(n * d * 6 + 8), sizeof *wide), *copy = calloc((size_t)(n * d * 6 + 8), sizeof *copy);
    for (int layout = 0; layout < 5; layout++) {
        /* Fortran order; rows reversed; columns reversed; every second column of every third row; at an odd address */
        int64_t row = layout == 0 ? 1 : layout == 1 ? -d : layout == 3 ? 6 * d : d;
        int64_t col = layout == 0 ? n : layout == 2 ? -1 : layout == 3 ? 2 : 1;
        char *first = (char *)(wide + (layout == 1 ? (n - 1) * d : layout == 2 ? d - 1 : 0)) + (layout == 4);
        memset(wide, 0x7f, (size_t)(n * d * 6 + 8) * sizeof *wide); /* neighbours that would spoil any sum */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < d; j++)
                memcpy(first + 4 * (i * row + j * col), data.Z + i * d + j, sizeof(float));
        memcpy(copy, wide, (size_t)(n * d * 6 + 8) * sizeof *wide);
        m = (struct uni_matrix){first, UNI_FLOAT32, n, d, 4 * row, 4 * col};
        product_run(&other, &m, &batch, &options);
        assert_same_bytes(&plain, &other);
        assert_memory_equal(copy, wide, (size_t)(n * d * 6 + 8) * sizeof *wide);
        product_close(&other);
        check(&data, &m, defaults(), 1e-6);
    }
    product_close(&plain);
    free(wide);
    free(copy);
    made_free(&data);
}

static void p68_float64_is_rounded_to_float32(void **state)
{
    (void)state;
    struct made_data data;
    struct product a, b;
    made_fixture(&data, 600, 5);
    double *Z = malloc((size_t)(data.n * data.d) * sizeof *Z);
    for (int64_t i = 0; i < data.n * data.d; i++)
        Z[i] = (double)data.Z[i] * (1 + 1e-9);
    struct uni_matrix m = {Z, UNI_FLOAT64, data.n, data.d, 0, 0};
    struct uni_batch batch = batch_of(&data);
    struct uni_options options = defaults();
    product_run_data(&a, &data, &options);
    product_run(&b, &m, &batch, &options);
    assert_same_bytes(&a, &b);
    check(&data, &m, options, 1e-6);
    product_close(&a);
    product_close(&b);
    free(Z);
    made_free(&data);
}

static void the_callers_arrays_may_go_after_open(void **state)
{
    (void)state;
    struct made_data data;
    struct product kept, gone;
    made_fixture(&data, 200, 5);
    double sigma[] = {0.1, 0.2, 0.3};
    float centroids[15];
    struct uni_options options = defaults();
    options.cluster_sigma = sigma, options.n_cluster_sigma = 3;
    options.centroids = centroids, options.n_centroids = 3;
    memcpy(centroids, data.Z + 20, sizeof centroids);
    product_run_data(&kept, &data, &options);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    struct uni_harmony *run = NULL;
    assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_OK);
    memset(data.Z, 0xff, (size_t)(data.n * data.d) * sizeof *data.Z);
    memset(data.level, 0xff, (size_t)data.n * sizeof *data.level);
    memset(sigma, 0xff, sizeof sigma);
    memset(centroids, 0xff, sizeof centroids);
    memset(&options, 0xff, sizeof options);
    assert_int_equal(uni_run(run), UNI_OK);
    product_read(&gone, run);
    assert_same_bytes(&kept, &gone);
    product_close(&kept);
    product_close(&gone);
    made_free(&data);
}

/* A million added to the first column: the sums must keep what float32 has. */
static void p28_uncentred_embedding(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    made_fixture(&data, 200, 5);
    for (int64_t i = 0; i < data.n; i++)
        data.Z[i * data.d] += 1e6f;
    struct uni_options options = defaults();
    options.n_clusters = 1;
    double *Z = widen(data.Z, data.n * data.d), *expected = widen(data.Z, data.n * data.d);
    closed_form(expected, Z, &data, 0, options.alpha);
    product_run_data(&p, &data, &options);
    for (int64_t i = 0; i < data.n * data.d; i++)
        assert_near(p.Zcorr[i], expected[i], i % data.d == 0 ? 0.1 : 1e-5);
    assert_true(p.summary->n_warnings > 0);
    product_close(&p);
    free(Z);
    free(expected);
    made_free(&data);
}

/* Each run takes 1/1.2 of the offset that is left. */
static void p58_offset_shrinks_sixfold_a_run(void **state)
{
    (void)state;
    struct made_data data;
    double offset = 1;
    made_fixture(&data, 100, 2);
    for (int64_t i = 0; i < data.n; i++) {
        data.Z[2 * i] = (float)(data.level[i] + 0.01 * (double)(i / 2 % 10));
        data.Z[2 * i + 1] = 1;
    }
    for (int run = 0; run < 2; run++) {
        struct uni_options options = defaults();
        struct product p;
        options.n_clusters = 1;
        product_run_data(&p, &data, &options);
        double mean[2] = {0, 0};
        for (int64_t i = 0; i < data.n; i++) {
            mean[data.level[i]] += p.Zcorr[2 * i] / 50;
            data.Z[2 * i] = (float)p.Zcorr[2 * i];
        }
        offset /= 6;
        assert_near(mean[1] - mean[0], offset, 1e-6);
        product_close(&p);
    }
    made_free(&data);
}

static void p113_equal_means_stay(void **state)
{
    (void)state;
    struct made_data data;
    made_fixture(&data, 300, 4);
    for (int64_t i = 1; i < data.n; i += 2) /* both batches hold the same cells */
        memcpy(data.Z + i * data.d, data.Z + (i - 1) * data.d, (size_t)data.d * sizeof(float));
    struct uni_options options = defaults();
    struct product p;
    options.n_clusters = 1;
    product_run_data(&p, &data, &options);
    double *Z = widen(data.Z, data.n * data.d);
    assert_at_most(largest_difference(p.Zcorr, Z, data.n * data.d), 1e-6);
    product_close(&p);
    free(Z);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p61_cf_numbers_of_the_r_package),
        cmocka_unit_test(p22_singleton_level_is_exact_and_named),
        cmocka_unit_test(p18_every_small_size_works_with_defaults),
        cmocka_unit_test(p25_one_dimension),
        cmocka_unit_test(p115_more_dimensions_than_cells),
        cmocka_unit_test(p10_every_number_of_dimensions_up_to_70),
        cmocka_unit_test(many_levels_and_unused_ones),
        cmocka_unit_test(levels_longer_than_a_run_of_cells),
        cmocka_unit_test(settings_that_cannot_matter),
        cmocka_unit_test(p94_any_layout_gives_the_same_bytes),
        cmocka_unit_test(p68_float64_is_rounded_to_float32),
        cmocka_unit_test(the_callers_arrays_may_go_after_open),
        cmocka_unit_test(p28_uncentred_embedding),
        cmocka_unit_test(p58_offset_shrinks_sixfold_a_run),
        cmocka_unit_test(p113_equal_means_stay),
    };
    return cmocka_run_group_tests_name("closed form", tests, NULL, NULL);
}
