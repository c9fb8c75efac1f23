/* SPDX-License-Identifier: BSD-3-Clause */
/* Continuous variables in the ridge: the closed form, the oracle, and what they are for, an effect of depth within types. */
#include "study.h"
#include "testing.h"

#include <math.h>

/* Z - P W for one cluster: P = [1 | one-hot of every variable | covariates], W = (P'P + Lambda)^-1 P'Z without its intercept.
   lambda 0: alpha N_level; a covariate's is alpha n. Levels without cells have no column. */
static double *closed_form(const struct study *s, double lambda, double alpha)
{
    const int64_t n = s->data.n, d = s->data.d;
    int64_t m = 1, row[STUDY_VARIABLES][64] = {{0}};
    double cells[STUDY_VARIABLES][64] = {{0}};
    for (int v = 0; v < s->n; v++)
        for (int64_t i = 0; i < n; i++)
            cells[v][s->level[v][i]]++;
    for (int v = 0; v < s->n; v++)
        for (int64_t l = 0; l < s->batch[v].n_levels; l++)
            row[v][l] = cells[v][l] > 0 ? m++ : 0;
    m += s->n_covariates;
    double *P = calloc((size_t)(n * m), sizeof *P), *A = calloc((size_t)(m * m), sizeof *A),
           *W = calloc((size_t)(m * d), sizeof *W);
    assert_true(P && A && W);
    for (int64_t i = 0; i < n; i++) {
        P[i * m] = 1;
        for (int v = 0; v < s->n; v++)
            P[i * m + row[v][s->level[v][i]]] = 1;
    }
    for (int x = 0; x < s->n_covariates; x++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < n; i++)
            sum += s->value[x][i];
        for (int64_t i = 0; i < n; i++)
            squares += (s->value[x][i] - sum / (double)n) * (s->value[x][i] - sum / (double)n);
        for (int64_t i = 0; i < n; i++)
            P[i * m + m - s->n_covariates + x] = (s->value[x][i] - sum / (double)n) / sqrt(squares / (double)n);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < m; a++) {
            for (int64_t b = 0; b < m; b++)
                A[a * m + b] += P[i * m + a] * P[i * m + b];
            for (int64_t j = 0; j < d; j++)
                W[a * d + j] += P[i * m + a] * (double)s->data.Z[i * d + j];
        }
    for (int v = 0; v < s->n; v++)
        for (int64_t l = 0; l < s->batch[v].n_levels; l++)
            if (row[v][l])
                A[row[v][l] * (m + 1)] += lambda > 0 ? lambda : alpha * cells[v][l];
    for (int x = 0; x < s->n_covariates; x++)
        A[(m - 1 - x) * (m + 1)] += alpha * (double)n;
    assert_int_equal(ref_solve(A, W, m, d), 0);
    double *out = widen(s->data.Z, n * d);
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 1; a < m; a++)
            for (int64_t j = 0; j < d; j++)
                out[i * d + j] -= P[i * m + a] * W[a * d + j];
    free(P), free(A), free(W);
    return out;
}

static void one_cluster_is_the_closed_form(void **state)
{
    (void)state;
    for (int mix = 0; mix < 72; mix++) {
        struct study s;
        struct product p;
        struct uni_options o = study_options();
        study_make(&s, mix % STUDY_KINDS, 1 + mix / 3 % 3);
        study_covary(&s, 1 + mix / 9 % 2);
        o.n_clusters = 1;
        o.alpha = mix / 18 % 2 ? 0.7 : 0.2;
        o.lambda = (struct uni_values){mix / 36, {2}};
        o.update = mix % 2 ? UNI_UPDATE_JACOBI : UNI_UPDATE_BLOCKS;
        study_run(&p, &s, &o);
        double *expected = closed_form(&s, o.lambda.n ? o.lambda.value[0] : 0, o.alpha);
        assert_at_most(largest_difference(p.Zcorr, expected, p.n * p.d), 1e-6 * largest_magnitude(expected, p.n * p.d));
        free(expected);
        product_close(&p);
        study_close(&s);
    }
}

static void library_follows_the_oracle(void **state)
{
    (void)state;
    for (int mix = 0; mix < 18; mix++) {
        struct study s;
        struct uni_options o = study_options();
        study_make(&s, mix % STUDY_KINDS, 1 + mix / 3 % 3);
        study_covary(&s, 1 + mix / 9);
        o.max_rounds = 3;
        study_follows(&s, &o, SINGLE_SCALE);
        o.lambda = (struct uni_values){s.n, {1, 0.3, 2}};
        o.cutoff = 0.03;
        study_follows(&s, &o, SINGLE_SCALE);
        o.precision = UNI_HALF;
        study_follows(&s, &o, 1);
        study_close(&s);
    }
}

static void covariates_follow_on_every_case(void **state)
{
    (void)state;
    for (int c = 0; c < N_PROBLEM_CASES; c++) {
        struct study s;
        struct uni_options o = study_options();
        study_make_case(&s, &problem_cases[c]);
        study_covary(&s, 2);
        o.n_clusters = problem_cases[c].n_clusters;
        o.max_rounds = 3;
        study_follows(&s, &o, SINGLE_SCALE);
        study_close(&s);
    }
}

/* A measurement that is a batch variable's number: the ridge shares the effect between them. */
static void a_covariate_that_is_a_level_is_shared(void **state)
{
    (void)state;
    struct study s;
    struct uni_options o = study_options();
    study_make(&s, STUDY_CROSSED, 3);
    study_covary(&s, 2);
    for (int64_t i = 0; i < s.data.n; i++) {
        s.value[0][i] = s.level[2][i] == 1;
        s.value[1][i] = s.level[2][i] == 1 ? -7 : 5;
    }
    study_follows(&s, &o, SINGLE_SCALE);
    study_close(&s);
}

/* Its unit and origin say nothing. */
static void the_scale_of_a_covariate_is_irrelevant(void **state)
{
    (void)state;
    static const double scale[] = {1e-9, 1e12, -1}, origin[] = {0, -1e9, 3}; /* one after the other */
    struct study s;
    struct product p, q;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    study_covary(&s, 1);
    study_run(&p, &s, &o);
    for (int i = 0; i < 3; i++) {
        for (int64_t c = 0; c < s.data.n; c++)
            s.value[0][c] = scale[i] * s.value[0][c] + origin[i];
        study_run(&q, &s, &o);
        assert_at_most(largest_difference(p.Zcorr, q.Zcorr, p.n * p.d), 1e-5 * largest_magnitude(p.Zcorr, p.n * p.d));
        product_close(&q);
    }
    product_close(&p);
    study_close(&s);
}

/* ---- what it is for -------------------------------------------------------------------------------------------------------- */

enum { TYPES = 6, DIMS = 10, CELLS = 3000 };

/* Types with batch effects, and in each type cells lie along a direction of its own by their depth. */
static void plant_depth(struct study *s, float *along)
{
    static const struct problem_case planted = {"planted", CELLS, DIMS, 12, 3, TYPES, 2, 1, 0};
    uint64_t random = 31;
    study_make_case(s, &planted);
    study_covary(s, 1);
    free(s->data.Z);
    struct made_data fresh;
    made_case(&fresh, &planted, 1);
    s->data.Z = fresh.Z;
    fresh.Z = NULL;
    made_free(&fresh);
    for (int64_t e = 0; e < TYPES * DIMS; e++)
        along[e] = (float)(0.5 * made_normal(&random));
    for (int64_t i = 0; i < CELLS; i++) {
        double depth = made_normal(&random);
        s->value[0][i] = 8 + 0.6 * depth; /* a logarithm of counts */
        for (int j = 0; j < DIMS; j++)
            s->data.Z[i * DIMS + j] += along[s->data.type[i] * DIMS + j] * (float)depth;
    }
}

/* Variance along depth, within types and batches: sum over them of n |cov(z, depth)|^2 / var(depth), over the cells. */
static double variance_of_depth(const double *Z, const struct study *s)
{
    double total = 0;
    for (int part = 0; part < TYPES * 3; part++) {
        double n = 0, mean_x = 0, mean[DIMS] = {0}, xx = 0, zx[DIMS] = {0};
        for (int turn = 0; turn < 2; turn++)
            for (int64_t i = 0; i < CELLS; i++) {
                if (s->data.type[i] * 3 + s->level[0][i] != part)
                    continue;
                double x = s->value[0][i];
                n += turn == 0;
                mean_x += turn == 0 ? x : 0;
                xx += turn ? (x - mean_x / n) * (x - mean_x / n) : 0;
                for (int j = 0; j < DIMS; j++) {
                    mean[j] += turn == 0 ? Z[i * DIMS + j] : 0;
                    zx[j] += turn ? (x - mean_x / n) * (Z[i * DIMS + j] - mean[j] / n) : 0;
                }
            }
        for (int j = 0; j < DIMS && xx > 0; j++)
            total += zx[j] * zx[j] / xx / CELLS;
    }
    return total;
}

/* Share of the cells whose nearest centre is that of their type; the smallest distance of two centres. */
static double well_placed(const double *Z, const struct study *s, double *closest)
{
    double centre[TYPES][DIMS] = {{0}}, n[TYPES] = {0}, right = 0;
    for (int64_t i = 0; i < CELLS; i++)
        n[s->data.type[i]]++;
    for (int64_t i = 0; i < CELLS; i++)
        for (int j = 0; j < DIMS; j++)
            centre[s->data.type[i]][j] += Z[i * DIMS + j] / n[s->data.type[i]];
    *closest = INFINITY;
    for (int64_t i = -TYPES; i < CELLS; i++) {
        int own = i < 0 ? (int)(i + TYPES) : s->data.type[i], nearest = -1;
        const double *z = i < 0 ? centre[own] : Z + i * DIMS;
        double least = INFINITY;
        for (int t = 0; t < TYPES; t++) {
            double square = 0;
            for (int j = 0; j < DIMS; j++)
                square += (z[j] - centre[t][j]) * (z[j] - centre[t][j]);
            if (i < 0 && t != own)
                *closest = fmin(*closest, sqrt(square));
            if (square < least)
                least = square, nearest = t;
        }
        right += i >= 0 && nearest == own;
    }
    return right / CELLS;
}

static void a_depth_effect_within_types_is_removed_and_types_stay(void **state)
{
    (void)state;
    float along[TYPES * DIMS];
    struct study s;
    struct product with, without;
    struct uni_options o = defaults();
    double closest, closest_with;
    plant_depth(&s, along);
    double *Z = widen(s.data.Z, CELLS * DIMS), before = variance_of_depth(Z, &s), placed = well_placed(Z, &s, &closest);
    assert_at_least(before, 1); /* of a total of some 10 of the types' own noise */
    o.n_clusters = 12;
    study_run(&with, &s, &o);
    s.n_covariates = 0;
    study_run(&without, &s, &o);
    s.n_covariates = 1;
    assert_at_most(variance_of_depth(with.Zcorr, &s), 0.1 * before);
    assert_at_least(variance_of_depth(without.Zcorr, &s), 0.9 * before);
    assert_at_least(well_placed(with.Zcorr, &s, &closest_with), placed);
    assert_at_least(closest_with, 0.9 * closest);
    free(Z);
    product_close(&with);
    product_close(&without);
    study_close(&s);
}

/* The slope of each type's cluster is what was planted, less the sixth that alpha 0.2 leaves. */
static void slopes_are_what_was_planted(void **state)
{
    (void)state;
    float along[TYPES * DIMS], slope[TYPES * DIMS], start[TYPES * DIMS] = {0};
    struct study s;
    struct product p;
    struct uni_options o = study_options();
    int64_t shape[3];
    plant_depth(&s, along);
    for (int64_t i = 0; i < CELLS; i++) /* start from the types: cluster k is type k */
        for (int j = 0; j < DIMS; j++)
            start[s.data.type[i] * DIMS + j] += s.data.Z[i * DIMS + j];
    o.centroids = start, o.n_centroids = TYPES, o.n_clusters = 0;
    o.sigma = 0.05;
    study_run(&p, &s, &o);
    assert_int_equal(uni_shape(p.run, UNI_SLOPES, shape), UNI_OK);
    assert_true(shape[0] == 1 && shape[1] == TYPES && shape[2] == DIMS);
    assert_int_equal(uni_read(p.run, UNI_SLOPES, slope), UNI_OK);
    for (int e = 0; e < TYPES * DIMS; e++)
        assert_near(slope[e], along[e] / 1.2, 0.2);
    product_close(&p);
    study_close(&s);
}

/* ---- what cannot be used --------------------------------------------------------------------------------------------------- */

static void refused(const struct study *s, const char *sentence, int also_plan)
{
    struct uni_plan plan;
    struct uni_options o = study_options();
    assert_int_equal(study_refused(s, o), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), sentence));
    o.covariates = s->covariate, o.n_covariates = s->n_covariates;
    if (also_plan)
        assert_int_equal(uni_plan(&plan, s->data.n, s->data.d, s->batch, s->n, &o), UNI_INPUT);
}

static void covariates_are_checked(void **state)
{
    (void)state;
    struct study s;
    study_make(&s, STUDY_NESTED, 1);
    study_covary(&s, 2);
    s.covariate[1].n_cells = 1499;
    refused(&s, "\"mito\" has 1499 values for 1500 cells", 1);
    s.covariate[1].n_cells = 1500;
    s.value[0][9] = NAN;
    refused(&s, "\"depth\" is nan at cell 10 (from 1)", 1);
    s.value[0][9] = -INFINITY;
    refused(&s, "\"depth\" is -inf at cell 10", 1);
    s.value[0][9] = 0;
    static const double constants[] = {0, 5, -0.1, 1e300, 1e-300};
    for (int i = 0; i < 5; i++) {
        for (int64_t c = 0; c < s.data.n; c++)
            s.value[1][c] = constants[i];
        refused(&s, "\"mito\" has mean", 0);
        assert_non_null(strstr(uni_last_error(), "leave it out"));
    }
    s.covariate[1].name = NULL;
    refused(&s, "\"covariate\" has mean", 0);
    struct uni_options o = study_options();
    struct uni_covariate *keep = s.covariate;
    o.n_covariates = 9, o.covariates = keep;
    s.n_covariates = 0;
    assert_int_equal(study_refused(&s, o), UNI_INPUT);
    assert_non_null(strstr(uni_last_error(), "9 covariates; give 0 to 8"));
    o.n_covariates = 1, o.covariates = NULL;
    assert_int_equal(study_refused(&s, o), UNI_INPUT);
    s.n_covariates = 2;
    study_close(&s);
}

/* Cells without a label take no part: their values do not count either. */
static void skipped_cells_do_not_count(void **state)
{
    (void)state;
    struct study s;
    struct product p, q;
    struct uni_options o = study_options();
    study_make(&s, STUDY_NESTED, 2);
    study_covary(&s, 1);
    study_weigh(&s);
    for (int64_t i = 3; i < s.data.n; i += 20)
        s.level[1][i] = -1;
    o.missing = UNI_MISSING_SKIP;
    study_run(&p, &s, &o);
    for (int64_t i = 3; i < s.data.n; i += 20)
        s.value[0][i] = 1e6, s.weight[i] = 1e6;
    study_run(&q, &s, &o);
    assert_same_bytes(&p, &q);
    product_close(&p);
    product_close(&q);
    study_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cluster_is_the_closed_form),
        cmocka_unit_test(library_follows_the_oracle),
        cmocka_unit_test(covariates_follow_on_every_case),
        cmocka_unit_test(a_covariate_that_is_a_level_is_shared),
        cmocka_unit_test(the_scale_of_a_covariate_is_irrelevant),
        cmocka_unit_test(a_depth_effect_within_types_is_removed_and_types_stay),
        cmocka_unit_test(slopes_are_what_was_planted),
        cmocka_unit_test(covariates_are_checked),
        cmocka_unit_test(skipped_cells_do_not_count),
    };
    return cmocka_run_group_tests_name("covariates", tests, NULL, NULL);
}
