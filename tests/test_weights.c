/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights: a cell of weight 2 is the cell twice. */
#include "study.h"
#include "testing.h"

#include <math.h>

/* Every cell as often as its weight, a whole number, says; copies side by side. of (cells of the result): the cell it is a copy
 * of. */
static int64_t *repeat(struct study *to, const struct study *from)
{
    int64_t n = 0, d = from->data.d;
    for (int64_t i = 0; i < from->data.n; i++)
        n += (int64_t)from->weight[i];
    int64_t *of = malloc((size_t)n * sizeof *of);
    assert_non_null(of);
    *to = (struct study){.n = from->n, .n_covariates = from->n_covariates};
    made_empty(&to->data, n, d, from->data.n_levels);
    for (int v = 0; v < from->n; v++) {
        to->level[v] = malloc((size_t)n * sizeof(int32_t));
        assert_non_null(to->level[v]);
        to->batch[v] = from->batch[v];
        to->batch[v].n_cells = n, to->batch[v].level = to->level[v];
    }
    for (int x = 0; x < from->n_covariates; x++) {
        to->value[x] = malloc((size_t)n * sizeof(double));
        assert_non_null(to->value[x]);
        to->covariate[x] = (struct uni_covariate){from->covariate[x].name, n, to->value[x]};
    }
    for (int64_t i = 0, c = 0; i < from->data.n; i++)
        for (int64_t copy = 0; copy < (int64_t)from->weight[i]; copy++, c++) {
            of[c] = i;
            memcpy(to->data.Z + c * d, from->data.Z + i * d, (size_t)d * sizeof(float));
            for (int v = 0; v < from->n; v++)
                to->level[v][c] = from->level[v][i];
            for (int x = 0; x < from->n_covariates; x++)
                to->value[x][c] = from->value[x][i];
        }
    return of;
}

static void make(struct study *s, enum study_kind kind, int n, int covariates)
{
    uint64_t random = 21;
    study_make(s, kind, n);
    if (covariates)
        study_covary(s, covariates);
    study_weigh(s);
    for (int64_t i = 0; i < s->data.n; i++)
        s->weight[i] = 1 + floor(3 * made_uniform(&random));
}

/* Largest difference of a cell's result with weights and that of its copies, in parts of the largest entry. */
static double compare(const struct study *weighted, const struct uni_options *o)
{
    struct study repeated;
    struct product p, q;
    int64_t *of = repeat(&repeated, weighted);
    double worst = 0;
    study_run(&p, weighted, o);
    study_run(&q, &repeated, o);
    for (int64_t i = 0; i < q.n; i++)
        worst = fmax(worst, largest_difference(q.Zcorr + i * q.d, p.Zcorr + of[i] * p.d, p.d));
    worst /= largest_magnitude(q.Zcorr, q.n * q.d);
    for (int64_t e = 0; e < p.B * p.K; e++) {
        assert_near(p.O[e], q.O[e], 1e-4 * (1 + q.O[e]));
        assert_near(p.E[e], q.E[e], 1e-4 * (1 + q.E[e]));
    }
    for (int64_t l = 0; l < p.B; l++)
        assert_near(p.theta[l], q.theta[l], 1e-12);
    product_close(&p);
    product_close(&q);
    study_close(&repeated);
    free(of);
    return worst;
}

static void weight_2_is_the_cell_twice_with_one_cluster(void **state)
{
    (void)state;
    for (int mix = 0; mix < 36; mix++) {
        struct study s;
        struct uni_options o = study_options();
        make(&s, mix % STUDY_KINDS, 1 + mix / 3 % 3, mix / 9 % 2);
        o.n_clusters = 1;
        o.lambda = (struct uni_values){mix / 18, {3}};
        o.precision = mix % 2 ? UNI_HALF : UNI_SINGLE;
        assert_at_most(compare(&s, &o), 1e-6);
        study_close(&s);
    }
}

/* No blocks, whose cut would differ: the damped update from given centroids; all else is the same sum in another order. */
static void weight_2_is_the_cell_twice_with_many(void **state)
{
    (void)state;
    for (int mix = 0; mix < 18; mix++) {
        struct study s;
        struct uni_options o = study_options();
        make(&s, mix % STUDY_KINDS, 1 + mix / 3 % 3, mix / 9 % 2);
        o.centroids = s.data.Z, o.n_centroids = 20; /* the first cells */
        o.update = UNI_UPDATE_JACOBI;
        o.flavor = mix % 4 == 3 ? UNI_HARMONY1 : UNI_HARMONY2;
        o.tau.value[0] = mix % 2 ? 5 : 0;
        assert_at_most(compare(&s, &o), 1e-5);
        study_close(&s);
    }
}

/* The penalty's 1 is a cell: weights of 3 are all cells three times, which is the cells once only where there is no penalty. */
static void equal_weights_change_nothing_without_a_penalty(void **state)
{
    (void)state;
    struct study s;
    struct product with, without;
    struct uni_options o = study_options();
    make(&s, STUDY_ODD, 2, 1);
    for (int64_t i = 0; i < s.data.n; i++)
        s.weight[i] = 3;
    o.centroids = s.data.Z, o.n_centroids = 20;
    o.theta.value[0] = 0;
    study_run(&with, &s, &o);
    double *weight = s.weight;
    s.weight = NULL;
    study_run(&without, &s, &o);
    s.weight = weight;
    assert_at_most(largest_difference(with.Zcorr, without.Zcorr, with.n * with.d),
                   1e-5 * largest_magnitude(with.Zcorr, with.n * with.d));
    for (int64_t i = 0; i < with.summary->n_objectives; i++)
        assert_near(with.summary->objectives[i].total, without.summary->objectives[i].total, 1e-2);
    for (int64_t e = 0; e < with.B * with.K; e++)
        assert_near(with.O[e], 3 * without.O[e], 1e-4 * (1 + with.O[e]));
    product_close(&with);
    product_close(&without);
    for (int64_t i = 0; i < s.data.n; i++)
        s.weight[i] = 1; /* which are no weights, to the bit */
    study_run(&with, &s, &o);
    s.weight = NULL;
    study_run(&without, &s, &o);
    s.weight = weight;
    assert_same_bytes(&with, &without);
    product_close(&with);
    product_close(&without);
    study_close(&s);
}

static void blocks_with_weights_follow_the_oracle(void **state)
{
    (void)state;
    for (int c = 0; c < N_PROBLEM_CASES; c++) {
        struct study s;
        struct uni_options o = study_options();
        study_make_case(&s, &problem_cases[c]);
        study_weigh(&s);
        o.n_clusters = problem_cases[c].n_clusters;
        study_follows(&s, &o, SINGLE_SCALE);
        o.precision = UNI_HALF;
        study_follows(&s, &o, 1);
        study_close(&s);
    }
}

/* The smallest and the largest that are allowed, alone and together. */
static void extreme_weights_stay_finite(void **state)
{
    (void)state;
    for (int mix = 0; mix < 12; mix++) {
        struct study s;
        struct product p;
        struct uni_options o = study_options();
        make(&s, STUDY_ODD, 1 + mix / 6, mix % 2);
        for (int64_t i = 0; i < s.data.n; i++)
            s.weight[i] = mix / 2 % 3 == 0 ? 1e-12 : mix / 2 % 3 == 1 ? 1e12 : i % 2 ? 1e-12 : 1e12;
        study_run(&p, &s, &o);
        for (int64_t i = 0; i < p.n * p.d; i++)
            assert_true(isfinite(p.Zcorr[i]));
        product_close(&p);
        study_close(&s);
    }
}

static void refused(const struct study *s, int64_t n_weights, const char *sentence)
{
    struct uni_matrix m = matrix_of(&s->data);
    struct uni_harmony *run;
    struct uni_plan plan;
    struct uni_options o = study_options();
    o.weights = s->weight, o.n_weights = n_weights;
    assert_int_equal(uni_open(&run, &m, s->batch, s->n, &o), UNI_INPUT);
    assert_null(run);
    assert_non_null(strstr(uni_last_error(), sentence));
    assert_int_equal(uni_plan(&plan, s->data.n, s->data.d, s->batch, s->n, &o), UNI_INPUT);
}

static void weights_are_checked(void **state)
{
    (void)state;
    struct study s;
    make(&s, STUDY_NESTED, 1, 0);
    refused(&s, 1499, "1499 weights for 1500 cells");
    refused(&s, 0, "0 weights for 1500 cells");
    s.weight[3] = 0;
    refused(&s, 1500, "the weight of cell 4 (from 1) is 0; it must be");
    s.weight[3] = -2;
    refused(&s, 1500, "the weight of cell 4 (from 1) is -2");
    s.weight[3] = NAN;
    refused(&s, 1500, "the weight of cell 4 (from 1) is nan");
    s.weight[3] = INFINITY;
    refused(&s, 1500, "the weight of cell 4 (from 1) is inf");
    s.weight[3] = 1e-13;
    refused(&s, 1500, "the weight of cell 4 (from 1) is 1e-13; it must be 1e-12 to 1e12");
    study_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_2_is_the_cell_twice_with_one_cluster),
        cmocka_unit_test(weight_2_is_the_cell_twice_with_many),
        cmocka_unit_test(equal_weights_change_nothing_without_a_penalty),
        cmocka_unit_test(blocks_with_weights_follow_the_oracle),
        cmocka_unit_test(extreme_weights_stay_finite),
        cmocka_unit_test(weights_are_checked),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
