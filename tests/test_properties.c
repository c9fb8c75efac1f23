/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold whatever the numbers are: sums, invariances, the same bytes again, behaviour at the odd ends. */
#include "differences.h"
#include "product.h"
#include "testing.h"

#include <math.h>

/* A start of K of the data's own cells, for runs that must not depend on the seeding. */
static float *start_of(const struct made_data *data, int64_t K)
{
    float *start = malloc((size_t)(K * data->d) * sizeof *start);
    assert_non_null(start);
    for (int64_t k = 0; k < K; k++)
        memcpy(start + k * data->d, data->Z + (k * (data->n - 1) / (K > 1 ? K - 1 : 1)) * data->d,
               (size_t)data->d * sizeof *start);
    return start;
}

static double largest_shift(const struct product *p, const double *Z)
{
    return largest_difference(p->Zcorr, Z, p->n * p->d);
}

static void assert_finite(const struct product *p)
{
    for (int64_t i = 0; i < p->n * p->d; i++)
        assert_true(isfinite(p->Zcorr[i]));
    for (int64_t i = 0; p->R && i < p->n * p->K; i++)
        assert_true(isfinite(p->R[i]));
    for (int64_t i = 0; p->Y && i < p->K * p->d; i++)
        assert_true(isfinite(p->Y[i]));
}

static void p62_p100_tables_are_sums_of_r(void **state)
{
    (void)state;
    for (int c = 0; c < N_PROBLEM_CASES; c++) {
        struct made_data data;
        struct product p;
        struct uni_options options = defaults();
        made_case(&data, &problem_cases[c], 2);
        options.n_clusters = problem_cases[c].n_clusters;
        product_run_data(&p, &data, &options);
        double *O = calloc((size_t)(p.B * p.K), sizeof *O), *r_sum = calloc((size_t)p.K, sizeof *r_sum);
        for (int64_t i = 0; i < p.n; i++) {
            double row = 0;
            for (int64_t k = 0; k < p.K; k++) {
                double r = p.R[i * p.K + k];
                assert_true(r >= 0);
                row += r;
                r_sum[k] += r;
                O[data.level[i] * p.K + k] += r;
            }
            assert_near(row, 1, 1e-6);
        }
        for (int64_t l = 0; l < p.B; l++)
            for (int64_t k = 0; k < p.K; k++) {
                double cells = 0;
                for (int64_t i = 0; i < p.n; i++)
                    cells += data.level[i] == l;
                assert_near(p.O[l * p.K + k], O[l * p.K + k], 1e-6 * (double)p.n);
                assert_near(p.E[l * p.K + k], r_sum[k] * cells / (double)p.n, 1e-6 * (double)p.n);
            }
        free(O);
        free(r_sum);
        product_close(&p);
        made_free(&data);
    }
}

/* Corrected = Z - R W, with the R and W that the caller reads; centroids have length 1; P111: automatic lambda is alpha E. */
static void the_arrays_belong_together(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[8], 3);
    product_run_data(&p, &data, &options);
    double *Z = widen(data.Z, p.n * p.d);
    for (int64_t i = 0; i < p.n; i++)
        for (int64_t k = 0; k < p.K; k++)
            for (int64_t j = 0; j < p.d; j++)
                Z[i * p.d + j] -= p.R[i * p.K + k] * p.W[(data.level[i] * p.K + k) * p.d + j];
    assert_at_most(largest_difference(p.Zcorr, Z, p.n * p.d), 1e-5);
    int64_t pruned = 0;
    for (int64_t pair = 0; pair < p.B * p.K; pair++) {
        pruned += p.lambda[pair] == 0;
        if (p.lambda[pair] != 0)
            assert_near(p.lambda[pair], 0.2 * p.E[pair], 1e-9 * p.n);
        else
            assert_true(largest_magnitude(p.W + pair * p.d, p.d) == 0);
    }
    assert_int_equal(pruned, p.summary->rounds[p.summary->n_rounds - 1].pruned_pairs);
    assert_true(pruned > 0);
    for (int64_t k = 0; k < p.K; k++) {
        double square = 0;
        for (int64_t j = 0; j < p.d; j++)
            square += p.Y[k * p.d + j] * p.Y[k * p.d + j];
        assert_near(square, 1, 1e-5);
    }
    free(Z);
    product_close(&p);
    made_free(&data);
}

static void theta_0_leaves_the_softmax(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[3], 4);
    options.theta.value[0] = 0;
    options.max_rounds = 1;
    options.precision = UNI_SINGLE;
    product_run_data(&p, &data, &options);
    for (int64_t i = 0; i < p.n; i++) {
        double length = 0, sum = 0, base[256];
        for (int64_t j = 0; j < p.d; j++)
            length += (double)data.Z[i * p.d + j] * (double)data.Z[i * p.d + j];
        for (int64_t k = 0; k < p.K; k++) {
            double cosine = 0;
            for (int64_t j = 0; j < p.d; j++)
                cosine += (double)data.Z[i * p.d + j] / sqrt(length) * p.start[k * p.d + j];
            sum += base[k] = exp(-2 * (1 - cosine) / options.sigma);
        }
        for (int64_t k = 0; k < p.K; k++)
            assert_near(p.R[i * p.K + k], base[k] / sum, 2e-5);
    }
    product_close(&p);
    made_free(&data);
}

/* Unused levels behind the used ones and other names: the same bytes. */
static void p31_unused_levels_change_nothing(void **state)
{
    (void)state;
    struct made_data data;
    struct product p, padded;
    struct uni_options options = defaults();
    static const char *const names[] = {"E 10.5, rep#2", "b", "c", "d", "zz", "zz2", "zz3"};
    made_case(&data, &problem_cases[3], 5);
    product_run_data(&p, &data, &options);
    struct uni_matrix m = matrix_of(&data);
    struct uni_batch batch = batch_of(&data);
    batch.n_levels += 3, batch.name = "another name", batch.level_names = names;
    product_run(&padded, &m, &batch, &options);
    assert_int_equal(padded.B, p.B + 3);
    assert_int_equal(padded.summary->n_levels, p.summary->n_levels);
    assert_memory_equal(p.Zcorr, padded.Zcorr, (size_t)(p.n * p.d) * sizeof(double));
    assert_memory_equal(p.R, padded.R, (size_t)(p.n * p.K) * sizeof(double));
    assert_memory_equal(p.O, padded.O, (size_t)(p.B * p.K) * sizeof(double));
    assert_memory_equal(p.block, padded.block, (size_t)p.n * sizeof *p.block);
    for (int64_t i = p.B * p.K; i < padded.B * p.K; i++)
        assert_true(padded.O[i] == 0 && padded.E[i] == 0 && padded.lambda[i] == 0);
    for (int64_t i = p.B * p.K * p.d; i < padded.B * p.K * p.d; i++)
        assert_true(padded.W[i] == 0);
    product_close(&padded);
    /* unused levels between the used ones leave the order of the cells alone, too */
    for (int64_t i = 0; i < data.n; i++)
        data.level[i] = 2 * data.level[i] + 1;
    data.n_levels *= 2;
    product_run_data(&padded, &data, &options);
    assert_memory_equal(p.Zcorr, padded.Zcorr, (size_t)(p.n * p.d) * sizeof(double));
    product_close(&padded);
    product_close(&p);
    made_free(&data);
}

/* Other numbers for the levels order the cells otherwise, and with that cut other blocks: equal where blocks have no part. */
static void level_order_changes_only_rounding(void **state)
{
    (void)state;
    struct made_data data;
    made_case(&data, &problem_cases[0], 6);
    double *Z = widen(data.Z, data.n * data.d);
    for (int64_t K = 1; K <= 12; K += 11) {
        struct product p, renumbered;
        float *start = start_of(&data, K);
        struct uni_options options = defaults();
        options.centroids = start, options.n_centroids = K;
        options.theta.value[0] = K == 1 ? 2 : 0;
        options.precision = UNI_SINGLE;
        product_run_data(&p, &data, &options);
        for (int64_t i = 0; i < data.n; i++)
            data.level[i] = (data.level[i] + 1) % 3;
        product_run_data(&renumbered, &data, &options);
        assert_at_most(largest_difference(p.Zcorr, renumbered.Zcorr, p.n * p.d), 1e-6 * largest_magnitude(Z, p.n * p.d));
        product_close(&p);
        product_close(&renumbered);
        free(start);
    }
    free(Z);
    made_free(&data);
}

static void p74_row_order_changes_little(void **state)
{
    (void)state;
    struct made_data data, turned;
    made_case(&data, &problem_cases[0], 7);
    made_case(&turned, &problem_cases[0], 7);
    int64_t n = data.n, d = data.d;
    for (int64_t i = 0; i < n; i++) {
        memcpy(turned.Z + i * d, data.Z + i * 7 % n * d, (size_t)d * sizeof(float));
        turned.level[i] = data.level[i * 7 % n];
    }
    double *Z = widen(data.Z, n * d);
    for (int64_t K = 1; K <= 20; K += 19) {
        struct product p, q;
        float *start = start_of(&data, K);
        struct uni_options options = defaults();
        options.centroids = start, options.n_centroids = K, options.tol = -1;
        product_run_data(&p, &data, &options);
        product_run_data(&q, &turned, &options);
        double *back = malloc((size_t)(n * d) * sizeof *back);
        for (int64_t i = 0; i < n; i++)
            memcpy(back + i * 7 % n * d, q.Zcorr + i * d, (size_t)d * sizeof *back);
        struct distance far = compare_corrected(back, p.Zcorr, Z, n, d);
        if (K == 1)
            assert_at_most(far.largest, 1e-6 * largest_magnitude(Z, n * d));
        else
            assert_at_least(far.corr_least, 0.999);
        product_close(&p);
        product_close(&q);
        free(start);
        free(back);
    }
    free(Z);
    made_free(&data);
    made_free(&turned);
}

/* Powers of two: the same bits but for the exponent, as long as squares are far from underflow. Others: rounding, amplified by
 * rounds. */
static void scaling_the_input_scales_the_result(void **state)
{
    (void)state;
    static const double factors[] = {0x1p-30, 0x1p-3, 0x1p40, 0x1p-70, 1e-25, 1e-5, 3, 1e9, 1e25};
    struct made_data data, scaled;
    struct product p, q;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 8);
    made_case(&scaled, &problem_cases[0], 8);
    options.precision = UNI_SINGLE;
    product_run_data(&p, &data, &options);
    double *Z = widen(data.Z, p.n * p.d), largest = largest_magnitude(Z, p.n * p.d);
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        for (int64_t i = 0; i < p.n * p.d; i++)
            scaled.Z[i] = (float)(data.Z[i] * factors[f]);
        product_run_data(&q, &scaled, &options);
        for (int64_t i = 0; i < p.n * p.d; i++)
            assert_near(q.Zcorr[i] / factors[f], p.Zcorr[i], f < 3 ? 0 : 1e-5 * largest);
        product_close(&q);
    }
    free(Z);
    product_close(&p);
    made_free(&data);
    made_free(&scaled);
}

/* Chi-square of cluster and batch over the final tables. */
static double association(const struct product *p)
{
    double chi = 0;
    for (int64_t pair = 0; pair < p->B * p->K; pair++)
        if (p->E[pair] > 1e-6)
            chi += (p->O[pair] - p->E[pair]) * (p->O[pair] - p->E[pair]) / p->E[pair];
    return chi;
}

static void p110_more_theta_less_association(void **state)
{
    (void)state;
    static const double thetas[] = {0, 0.5, 1, 2, 4, 8};
    for (int rounds = 1; rounds <= 10; rounds += 9) {
        struct made_data data;
        double before = INFINITY;
        made_case(&data, &problem_cases[0], 9);
        float *start = start_of(&data, 20);
        for (size_t t = 0; t < sizeof thetas / sizeof *thetas; t++) {
            struct product p;
            struct uni_options options = defaults();
            options.centroids = start, options.n_centroids = 20;
            options.max_rounds = rounds, options.tol = -1;
            options.theta.value[0] = thetas[t];
            product_run_data(&p, &data, &options);
            double chi = association(&p);
            assert_true(chi < before);
            before = chi;
            product_close(&p);
        }
        free(start);
        made_free(&data);
    }
}

static void p66_p67_same_bytes_for_any_threads_and_again(void **state)
{
    (void)state;
    static const int64_t threads[] = {1, 1, 2, 3, 8};
    static const int cases[] = {0, 2, 6, 7, 10};
    for (int c = 0; c < 5; c++) {
        struct made_data data;
        struct product first;
        made_case(&data, &problem_cases[cases[c]], 10);
        for (int t = 0; t < 5; t++) {
            struct product p;
            struct uni_options options = defaults();
            options.threads = threads[t], options.terms = 1;
            options.n_clusters = problem_cases[cases[c]].n_clusters;
            product_run_data(t ? &p : &first, &data, &options);
            if (t) {
                assert_same_bytes(&first, &p);
                product_close(&p);
            }
        }
        product_close(&first);
        made_free(&data);
    }
}

static void p70_another_seed_differs(void **state)
{
    (void)state;
    struct made_data data;
    struct product a, b;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[0], 11);
    product_run_data(&a, &data, &options);
    options.seed = 1;
    product_run_data(&b, &data, &options);
    assert_true(memcmp(a.start, b.start, (size_t)(a.K * a.d) * sizeof(double)) != 0);
    assert_true(memcmp(a.block, b.block, (size_t)a.n * sizeof *a.block) != 0);
    assert_true(memcmp(a.Zcorr, b.Zcorr, (size_t)(a.n * a.d) * sizeof(double)) != 0);
    product_close(&a);
    product_close(&b);
    made_free(&data);
}

static void p23_a_row_of_zeros_stays_finite(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_fixture(&data, 60, 3);
    memset(data.Z + 4 * 3, 0, 3 * sizeof(float));
    options.n_clusters = 2;
    product_run_data(&p, &data, &options);
    assert_finite(&p);
    double moved = 0, most = 0;
    for (int64_t j = 0; j < 3; j++)
        moved += p.Zcorr[12 + j] * p.Zcorr[12 + j];
    for (int64_t pair = 0; pair < p.B * p.K; pair++) {
        double shift = 0;
        for (int64_t j = 0; j < 3; j++)
            shift += p.W[pair * 3 + j] * p.W[pair * 3 + j];
        most = fmax(most, shift);
    }
    assert_at_most(moved, most * (1 + 1e-6));
    product_close(&p);
    memset(data.Z, 0, 180 * sizeof(float)); /* nothing but zeros */
    product_run_data(&p, &data, &options);
    assert_true(largest_magnitude(p.Zcorr, 180) == 0);
    product_close(&p);
    made_free(&data);
}

static void p16_p19_more_clusters_than_cells(void **state)
{
    (void)state;
    struct made_data data;
    struct product p, again;
    struct uni_options options = defaults();
    made_fixture(&data, 10, 2);
    options.n_clusters = 2;
    product_run_data(&p, &data, &options);
    product_run_data(&again, &data, &options);
    assert_int_equal(p.K, 2);
    assert_finite(&p);
    assert_same_bytes(&p, &again);
    product_close(&p);
    product_close(&again);
    options.n_clusters = 20;
    product_run_data(&p, &data, &options);
    assert_in_range(p.K, 1, 10);
    assert_true(product_warns(&p, "20"));
    assert_finite(&p);
    product_close(&p);
    made_free(&data);
}

static void p20_fewer_distinct_cells_than_clusters(void **state)
{
    (void)state;
    struct made_data points, data;
    struct product p;
    struct uni_options options = defaults();
    made_fixture(&points, 50, 4);
    made_empty(&data, 2000, 4, 2);
    for (int64_t i = 0; i < data.n; i++) {
        memcpy(data.Z + i * 4, points.Z + i % 50 * 4, 4 * sizeof(float));
        data.level[i] = i % 3 == 0;
    }
    options.n_clusters = 66;
    product_run_data(&p, &data, &options);
    assert_in_range(p.K, 1, 50);
    assert_true(product_warns(&p, "66"));
    assert_finite(&p);
    static const enum uni_array over_k[] = {UNI_ASSIGNMENTS, UNI_CENTROIDS, UNI_START,      UNI_OBSERVED,
                                            UNI_EXPECTED,    UNI_LAMBDA,    UNI_CORRECTION, UNI_SIGMA};
    static const int axis[] = {1, 0, 0, 1, 1, 1, 1, 0};
    for (int i = 0; i < 8; i++) {
        int64_t shape[3];
        assert_int_equal(uni_shape(p.run, over_k[i], shape), UNI_OK);
        assert_int_equal(shape[axis[i]], p.K);
    }
    product_close(&p);
    made_free(&data);
    made_free(&points);
}

static void identical_cells_stay(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_fixture(&data, 300, 4);
    for (int64_t i = 0; i < data.n * 4; i++)
        data.Z[i] = (float)(i % 4) - 1.5f;
    double *Z = widen(data.Z, data.n * 4);
    product_run_data(&p, &data, &options); /* default K is 10 */
    assert_finite(&p);
    assert_at_most(largest_shift(&p, Z), 2e-6);
    product_close(&p);
    free(Z);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p62_p100_tables_are_sums_of_r),
        cmocka_unit_test(the_arrays_belong_together),
        cmocka_unit_test(theta_0_leaves_the_softmax),
        cmocka_unit_test(p31_unused_levels_change_nothing),
        cmocka_unit_test(level_order_changes_only_rounding),
        cmocka_unit_test(p74_row_order_changes_little),
        cmocka_unit_test(scaling_the_input_scales_the_result),
        cmocka_unit_test(p110_more_theta_less_association),
        cmocka_unit_test(p66_p67_same_bytes_for_any_threads_and_again),
        cmocka_unit_test(p70_another_seed_differs),
        cmocka_unit_test(p23_a_row_of_zeros_stays_finite),
        cmocka_unit_test(p16_p19_more_clusters_than_cells),
        cmocka_unit_test(p20_fewer_distinct_cells_than_clusters),
        cmocka_unit_test(identical_cells_stay),
    };
    return cmocka_run_group_tests_name("properties", tests, NULL, NULL);
}
