/* SPDX-License-Identifier: BSD-3-Clause */
/* Types that only some batches have: what the automatic lambda and the cutoff are for. */
#include "product.h"
#include "testing.h"

#include <math.h>

static void centre_of(double centre[4], const struct product *p, const struct made_data *data, int type, int level)
{
    int64_t count = 0;
    memset(centre, 0, 4 * sizeof *centre);
    for (int64_t i = 0; i < p->n; i++)
        if (data->type[i] == type && data->level[i] == level) {
            count++;
            for (int j = 0; j < 4; j++)
                centre[j] += p->Zcorr[i * 4 + j];
        }
    for (int j = 0; j < 4; j++)
        centre[j] /= (double)count;
}

static double length(const double a[4], const double b[4])
{
    double square = 0;
    for (int j = 0; j < 4; j++)
        square += (a[j] - b[j]) * (a[j] - b[j]);
    return sqrt(square);
}

/* Adds cells of one type and level around a centre. */
static void add(struct made_data *data, int64_t *at, int64_t cells, int type, int level, const double centre[4], double sd,
                uint64_t *state)
{
    for (int64_t i = *at; i < *at + cells; i++) {
        data->type[i] = type, data->level[i] = level;
        for (int j = 0; j < 4; j++)
            data->Z[i * 4 + j] = (float)(centre[j] + sd * made_normal(state));
    }
    *at += cells;
}

/* T1 in both batches, 1 apart; T2 in batch a alone: T2 stays, T1's gap falls to a sixth or so. */
static void p26_batch_only_types_are_left_alone(void **state)
{
    (void)state;
    static const double t1a[] = {3, 0, 0, 0}, t1b[] = {3, 0, 1, 0}, t2[] = {0, 3, 0, 0};
    static const int64_t clusters[] = {2, 4, 20};
    for (int c = 0; c < 3; c++) {
        struct made_data data;
        struct product p;
        struct uni_options options = defaults();
        uint64_t random = 5;
        int64_t at = 0;
        double a[4], b[4], most = 0;
        made_empty(&data, 600, 4, 2);
        add(&data, &at, 200, 0, 0, t1a, 0.1, &random);
        add(&data, &at, 200, 0, 1, t1b, 0.1, &random);
        add(&data, &at, 200, 1, 0, t2, 0.1, &random);
        options.n_clusters = clusters[c];
        product_run_data(&p, &data, &options);
        for (int64_t i = 400 * 4; i < 600 * 4; i++)
            most = fmax(most, fabs(p.Zcorr[i] - (double)data.Z[i]));
        assert_at_most(most, 1e-4);
        centre_of(a, &p, &data, 0, 0);
        centre_of(b, &p, &data, 0, 1);
        assert_near(length(a, b), 0.15, 0.05);
        product_close(&p);
        made_free(&data);
    }
}

/* A type of batch a alone lies 2.4 from one that both have, batch b shifted by 0.6: it moves less with the automatic lambda than
   with a small fixed one, which takes it for an effect of the batch. */
static void p109_automatic_lambda_spares_lone_types(void **state)
{
    (void)state;
    static const double shared_a[] = {3, 0, 0, 0}, shared_b[] = {3, 0, 0.6, 0}, lone[] = {3, 2.4, 0, 0};
    static const int64_t clusters[] = {2, 5, 10, 20};
    for (int c = 0; c < 4; c++) {
        struct made_data data;
        double moved[2];
        uint64_t random = 6;
        int64_t at = 0;
        made_empty(&data, 900, 4, 2);
        add(&data, &at, 300, 0, 0, shared_a, 0.3, &random);
        add(&data, &at, 300, 0, 1, shared_b, 0.3, &random);
        add(&data, &at, 300, 1, 0, lone, 0.3, &random);
        for (int fixed = 0; fixed < 2; fixed++) {
            struct product p;
            struct uni_options options = defaults();
            double after[4], before[4] = {0};
            options.n_clusters = clusters[c];
            if (fixed)
                options.lambda = (struct uni_values){1, {0.01}};
            product_run_data(&p, &data, &options);
            centre_of(after, &p, &data, 1, 0);
            for (int64_t i = 600; i < 900; i++)
                for (int j = 0; j < 4; j++)
                    before[j] += (double)data.Z[i * 4 + j] / 300;
            moved[fixed] = length(after, before);
            product_close(&p);
        }
        assert_true(moved[0] < moved[1]);
        made_free(&data);
    }
}

/* P116: a level of five cells must not blow anything up. */
static void corrections_stay_below_the_distance_of_the_batches(void **state)
{
    (void)state;
    static const double a[] = {2, 0, 0, 0}, b[] = {2, 1, 0, 0};
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    uint64_t random = 7;
    int64_t at = 0;
    made_empty(&data, 1000, 4, 2);
    add(&data, &at, 995, 0, 0, a, 0.2, &random);
    add(&data, &at, 5, 0, 1, b, 0.2, &random);
    product_run_data(&p, &data, &options);
    for (int64_t i = 0; i < 1000; i++) {
        double before[4];
        for (int j = 0; j < 4; j++)
            before[j] = data.Z[i * 4 + j];
        assert_at_most(length(p.Zcorr + 4 * i, before), 1.5);
    }
    product_close(&p);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p26_batch_only_types_are_left_alone),
        cmocka_unit_test(p109_automatic_lambda_spares_lone_types),
        cmocka_unit_test(corrections_stay_below_the_distance_of_the_batches),
    };
    return cmocka_run_group_tests_name("batch types", tests, NULL, NULL);
}
