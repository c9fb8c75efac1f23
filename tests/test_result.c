/* SPDX-License-Identifier: BSD-3-Clause */
/* The result in place is the result; and how levels are numbered changes no bit of it. */
#include "product.h"
#include "testing.h"

static float *read_result(const struct made_data *data, const struct uni_options *options, int take)
{
    struct uni_matrix m = matrix_of(data);
    struct uni_batch batch = batch_of(data);
    struct uni_harmony *run;
    size_t bytes = (size_t)(data->n * data->d) * sizeof(float);
    float *result = malloc(bytes);
    assert_int_equal(uni_open(&run, &m, &batch, 1, options), UNI_OK);
    assert_int_equal(uni_run(run), UNI_OK);
    if (take) {
        const float *rows = NULL;
        assert_int_equal(uni_take(run, &rows), UNI_OK);
        memcpy(result, rows, bytes);
        int32_t *blocks = malloc((size_t)data->n * sizeof *blocks);
        assert_int_equal(uni_read(run, UNI_BLOCKS, blocks), UNI_INPUT);
        free(blocks);
        assert_non_null(strstr(uni_last_error(), "taken"));
    } else {
        assert_int_equal(uni_read(run, UNI_CORRECTED, result), UNI_OK);
    }
    uni_close(run);
    return result;
}

static void assert_taken_is_read(const struct made_data *data, const struct uni_options *options)
{
    float *read = read_result(data, options, 0), *taken = read_result(data, options, 1);
    assert_memory_equal(read, taken, (size_t)(data->n * data->d) * sizeof(float));
    free(read);
    free(taken);
}

static void taken_is_what_would_be_read(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROBLEM_CASES; i++) {
        struct made_data data;
        struct uni_options options = defaults();
        made_case(&data, &problem_cases[i], 3);
        options.n_clusters = problem_cases[i].n_clusters;
        assert_taken_is_read(&data, &options);
        made_free(&data);
    }
}

static void taken_with_skipped_cells_one_level_or_no_rounds(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 3);
    options.missing = UNI_MISSING_SKIP;
    for (int64_t i = 0; i < data.n; i += 7)
        data.level[i] = -1;
    assert_taken_is_read(&data, &options);
    options.max_rounds = 0;
    assert_taken_is_read(&data, &options);
    options.max_rounds = 10;
    memset(data.level, 0, (size_t)data.n * sizeof *data.level);
    assert_taken_is_read(&data, &options);
    made_free(&data);
}

static void numbering_of_levels_changes_no_bit(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[4], 5);
    float *before = read_result(&data, &options, 0);
    for (int64_t i = 0; i < data.n; i++)
        data.level[i] = (int32_t)(2 * (data.n_levels - 1 - data.level[i])); /* backwards, with unused levels between */
    data.n_levels *= 2;
    float *after = read_result(&data, &options, 0);
    assert_memory_equal(before, after, (size_t)(data.n * data.d) * sizeof(float));
    free(before);
    free(after);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_is_what_would_be_read),
        cmocka_unit_test(taken_with_skipped_cells_one_level_or_no_rounds),
        cmocka_unit_test(numbering_of_levels_changes_no_bit),
    };
    return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
