/* SPDX-License-Identifier: BSD-3-Clause */
/* Diagnostics of finished runs of every kind: the tables against the run's own arrays, and bad input. */
#include "diagnosed.h"

#include <math.h>

/* ---- tables ---------------------------------------------------------------------------------------------------------------- */

static double length_of(const struct product *p, int64_t pair)
{
    double sum = 0;
    for (int64_t j = 0; j < p->d; j++)
        sum += p->W[pair * p->d + j] * p->W[pair * p->d + j];
    return sqrt(sum);
}

static void assert_level(const struct diagnosed *x, int64_t l)
{
    const struct product *p = &x->p;
    const struct uni_level_diagnosis *level = &x->found->levels[l];
    double mass = 0, left = 0, thin_mass = 0;
    int64_t pruned = 0, thin = 0;
    for (int64_t pair = l * p->K; pair < (l + 1) * p->K; pair++) {
        mass += p->O[pair];
        pruned += p->lambda[pair] == 0;
        left += p->lambda[pair] == 0 ? p->O[pair] : 0;
        thin += p->lambda[pair] > 0 && p->O[pair] < 1;
        thin_mass += p->lambda[pair] > 0 && p->O[pair] < 1 ? p->O[pair] : 0;
        assert_near(x->found->length[pair], length_of(p, pair), 1e-6 * x->found->length[pair]);
    }
    assert_int_equal(level->pruned, pruned);
    assert_int_equal(level->thin, thin);
    assert_near(level->uncorrected, left / mass, 1e-12);
    assert_near(level->thin_mass, thin_mass / mass, 1e-12);
}

static void assert_cluster(const struct diagnosed *x, int64_t k)
{
    const struct product *p = &x->p;
    const struct uni_cluster_diagnosis *cluster = &x->found->clusters[k];
    double mass = 0, apart = 0, most = NAN, corrected = 0, below = 0, far = 0, near = 0;
    int64_t pruned = 0;
    for (int64_t l = 0; l < p->B; l++) {
        int64_t pair = l * p->K + k;
        mass += p->O[pair];
        apart += fabs(p->O[pair] - p->E[pair]);
        pruned += p->lambda[pair] == 0;
        corrected += p->lambda[pair] > 0 ? p->O[pair] : 0;
        if (p->lambda[pair] > 0)
            most = fmax(length_of(p, pair), isnan(most) ? 0 : most);
    }
    assert_near(cluster->mass, mass, 1e-9 * mass);
    assert_near(cluster->mixing, 1 - apart / 2 / mass, 1e-9);
    assert_int_equal(cluster->levels, p->B);
    assert_int_equal(cluster->pruned, pruned);
    if (isnan(most)) {
        assert_int_equal(cluster->longest, -1);
        return;
    }
    assert_near(cluster->length_max, most, 1e-6 * most);
    assert_near(x->found->length[cluster->longest * p->K + k], most, 1e-6 * most);
    /* half of the corrected mass moves no farther than the median, and less than half moves less; 99.9 % likewise */
    for (int64_t l = 0; l < p->B; l++) {
        int64_t pair = l * p->K + k;
        below += p->lambda[pair] > 0 && x->found->length[pair] < cluster->length_median ? p->O[pair] : 0;
        far += p->lambda[pair] > 0 && x->found->length[pair] < cluster->length_999 ? p->O[pair] : 0;
        near += p->lambda[pair] > 0 && x->found->length[pair] <= cluster->length_999 ? p->O[pair] : 0;
    }
    assert_at_most(below, corrected / 2 * (1 + 1e-9));
    assert_at_most(far, corrected * 0.999 * (1 + 1e-9));
    assert_at_most(corrected * 0.999 * (1 - 1e-9), near);
}

static void tables_are_the_runs(void **state)
{
    (void)state;
    static const int which[] = {0, 2, 7, 8};
    for (int i = 0; i < 4; i++) {
        struct made_data data;
        struct diagnosed x;
        struct uni_options options = defaults();
        made_case(&data, &problem_cases[which[i]], 3);
        options.n_clusters = problem_cases[which[i]].n_clusters;
        open_diagnosed(&x, &data, &options);
        assert_int_equal(x.found->n_levels, x.p.B);
        assert_int_equal(x.found->n_clusters, x.p.K);
        assert_memory_equal(x.found->observed, x.p.O, (size_t)(x.p.B * x.p.K) * sizeof(double));
        assert_memory_equal(x.found->expected, x.p.E, (size_t)(x.p.B * x.p.K) * sizeof(double));
        assert_memory_equal(x.found->lambda, x.p.lambda, (size_t)(x.p.B * x.p.K) * sizeof(double));
        for (int64_t l = 0; l < x.p.B; l++)
            assert_level(&x, l);
        for (int64_t k = 0; k < x.p.K; k++)
            assert_cluster(&x, k);
        close_diagnosed(&x);
        made_free(&data);
    }
}

/* ---- runs of every kind ---------------------------------------------------------------------------------------------------- */

static void one_level_no_rounds_and_taken(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 3);
    struct uni_matrix m = matrix_of(&data), after = m;
    struct uni_batch batch = labels("donor", data.level, data.n, data.n_levels);
    float *given = malloc((size_t)(data.n * data.d) * sizeof *given);
    for (int round = 0; round < 3; round++) {
        struct uni_harmony *run;
        struct uni_diagnosis *found;
        const float *rows;
        if (round == 1)
            options.max_rounds = 0;
        if (round == 2)
            memset(data.level, 0, (size_t)data.n * sizeof *data.level);
        assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_OK);
        assert_int_equal(uni_diagnose(&found, run, NULL, NULL, &batch, 1, NULL, 0), UNI_INPUT);
        assert_null(found);
        assert_non_null(strstr(uni_last_error(), "not run"));
        assert_int_equal(uni_run(run), UNI_OK);
        assert_int_equal(uni_read(run, UNI_GIVEN, given), UNI_OK);
        assert_memory_equal(given, data.Z, (size_t)(data.n * data.d) * sizeof *given);
        assert_int_equal(uni_take(run, &rows), UNI_OK);
        assert_int_equal(uni_read(run, UNI_GIVEN, given), UNI_INPUT);
        after.data = rows;
        assert_int_equal(uni_diagnose(&found, run, &m, &after, &batch, 1, NULL, 0), UNI_OK);
        assert_true(round ? found->n_clusters == 0 && found->length_max == 0 : found->n_clusters == 33 && found->length_max > 0);
        assert_int_equal(found->levels[0].cells, round == 2 ? data.n : found->levels[0].cells);
        uni_diagnosis_close(found);
        assert_int_equal(uni_diagnose(&found, run, NULL, NULL, &batch, 1, NULL, 0), UNI_OK); /* tables alone */
        assert_true(isnan(found->length_median) && isnan(found->levels[0].length_median));
        assert_true(round ? isnan(found->levels[0].uncorrected) : found->levels[0].uncorrected >= 0);
        uni_diagnosis_close(found);
        uni_close(run);
    }
    free(given);
    made_free(&data);
}

/* Two variables, missing labels and combination: rows are those of the run. */
static void rows_of_several_variables(void **state)
{
    (void)state;
    struct made_data data;
    made_case(&data, &problem_cases[0], 3);
    int32_t *chip = malloc((size_t)data.n * sizeof *chip);
    for (int64_t i = 0; i < data.n; i++) {
        chip[i] = (int32_t)(i % 2);
        if (i % 10 == 3)
            data.level[i] = -1;
    }
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batches[2] = {labels("donor", data.level, data.n, 3), labels("chip", chip, data.n, 2)};
    for (int missing = UNI_MISSING_SKIP; missing <= UNI_MISSING_LEVEL; missing++)
        for (int combine = 0; combine < 2; combine++) {
            struct uni_options options = defaults();
            struct uni_harmony *run;
            struct uni_diagnosis *found;
            int64_t shape[3], cells = 0;
            options.missing = (enum uni_missing)missing;
            options.combine = combine;
            assert_int_equal(uni_open(&run, &m, batches, 2, &options), UNI_OK);
            assert_int_equal(uni_run(run), UNI_OK);
            assert_int_equal(uni_shape(run, UNI_OBSERVED, shape), UNI_OK);
            assert_int_equal(uni_diagnose(&found, run, NULL, NULL, batches, 2, NULL, 0), UNI_OK);
            assert_int_equal(found->n_levels, shape[0]);
            assert_int_equal(found->n_variables, combine ? 1 : 2);
            for (int64_t l = 0; l < found->n_levels; l++) { /* a level's mass is its cells */
                double mass = 0;
                for (int64_t k = 0; k < found->n_clusters; k++)
                    mass += found->observed[l * found->n_clusters + k];
                assert_near(mass, (double)found->levels[l].cells, 1e-3 * (double)data.n);
                cells += found->levels[l].variable == 0 ? found->levels[l].cells : 0;
            }
            assert_int_equal(cells, missing == UNI_MISSING_SKIP ? data.n - found->n_skipped : data.n);
            if (combine) {
                char name[32];
                snprintf(name, sizeof name, "n%d | n%d", (int)data.level[0], (int)chip[0]);
                assert_string_equal(found->levels[0].name, name);
            } else if (missing == UNI_MISSING_LEVEL) {
                assert_string_equal(found->levels[3].name, "(missing)");
            }
            uni_diagnosis_close(found);
            uni_close(run);
        }
    free(chip);
    made_free(&data);
}

static void bad_input_is_named(void **state)
{
    (void)state;
    struct made_data data;
    struct uni_diagnosis *found;
    made_case(&data, &problem_cases[0], 3);
    struct uni_matrix m = matrix_of(&data), wrong = m;
    struct uni_batch batch = labels("donor", data.level, data.n, data.n_levels), types = labels("type", data.type, data.n, 8);
#define ASSERT_SAYS(text, ...)                                                                                                   \
    assert_int_equal(uni_diagnose(&found, NULL, __VA_ARGS__), UNI_INPUT);                                                        \
    assert_null(found);                                                                                                          \
    if (!strstr(uni_last_error(), text))                                                                                         \
    fail_msg("\"%s\" does not say \"%s\"", uni_last_error(), text)
    ASSERT_SAYS("only the embedding before the correction is given", &m, NULL, &batch, 1, NULL, 0);
    ASSERT_SAYS("0 batch variables", &m, &m, NULL, 0, NULL, 0);
    wrong.n_cells--;
    ASSERT_SAYS("the embedding is 1000x20 before the correction and 999x20 after", &m, &wrong, &batch, 1, NULL, 0);
    wrong = m, wrong.n_dims = 10, wrong.row_stride = 80, wrong.col_stride = 4;
    ASSERT_SAYS("1000x20 before the correction and 1000x10 after", &m, &wrong, &batch, 1, NULL, 0);
    wrong = m, wrong.dtype = 7;
    ASSERT_SAYS("after the correction: the embedding's dtype is 7", &m, &wrong, &batch, 1, NULL, 0);
    wrong.data = NULL;
    ASSERT_SAYS("before the correction: the embedding's data is NULL", &wrong, &m, &batch, 1, NULL, 0);
    types.n_cells = 7;
    ASSERT_SAYS("\"type\" has 7 labels for an embedding of 1000x20", &m, &m, &batch, 1, &types, 0);
    types.n_cells = 20;
    ASSERT_SAYS("cells must be rows, transpose", &m, &m, &batch, 1, &types, 0);
    types.n_cells = data.n, types.n_levels = 2;
    ASSERT_SAYS("\"type\" has level ", &m, &m, &batch, 1, &types, 0);
    types.level = NULL;
    ASSERT_SAYS("\"type\" has no levels: level is NULL", &m, &m, &batch, 1, &types, 0);
    float *after = malloc((size_t)(data.n * 20) * sizeof *after);
    memcpy(after, data.Z, (size_t)(data.n * 20) * sizeof *after);
    after[77 * 20 + 3] = NAN;
    wrong = m, wrong.data = after;
    ASSERT_SAYS("after the correction: the embedding has 1 non-finite value (NaN or infinite), at row 78, column 4", &m, &wrong,
                &batch, 1, NULL, 0);
    ASSERT_SAYS("before the correction: the embedding has 1 non-finite value", &wrong, &m, &batch, 1, NULL, 0);
    free(after);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_the_runs),
        cmocka_unit_test(one_level_no_rounds_and_taken),
        cmocka_unit_test(rows_of_several_variables),
        cmocka_unit_test(bad_input_is_named),
    };
    return cmocka_run_group_tests_name("diagnosed runs", tests, NULL, NULL);
}
