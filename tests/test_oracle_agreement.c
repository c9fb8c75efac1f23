/* SPDX-License-Identifier: BSD-3-Clause */
/* The product against the oracle, given the product's start and blocks: the sharp test of everything between uni_open and the
 * result. On recorded data for every recorded setting, with both precisions of the base; on made-up data of every size of
 * cases.h. */
#include "agreement.h"
#include "recorded.h"
#include "testing.h"

#include <math.h>

static struct agreement worst[2]; /* per precision, for the closing line */

static void keep_worst(struct agreement *w, const struct agreement *a)
{
    w->corrected.rms = fmax(w->corrected.rms, a->corrected.rms);
    w->corrected.worst = fmax(w->corrected.worst, a->corrected.worst);
    w->R = fmax(w->R, a->R), w->Y = fmax(w->Y, a->Y), w->O = fmax(w->O, a->O), w->E = fmax(w->E, a->E);
    w->lambda = fmax(w->lambda, a->lambda), w->W = fmax(w->W, a->W);
    w->objective = fmax(w->objective, a->objective), w->terms = fmax(w->terms, a->terms), w->change = fmax(w->change, a->change);
}

/* The recorded data as the product takes them; arrays shared with `recorded` but for Z. */
static struct made_data data_of(const struct recorded *recorded)
{
    const struct ref_problem *p = &recorded->problem;
    struct made_data data = {.n = p->n, .d = p->d, .n_levels = p->n_levels[0]};
    data.level = (int32_t *)(uintptr_t)p->level[0];
    data.Z = malloc((size_t)(p->n * p->d) * sizeof *data.Z);
    for (int64_t i = 0; i < p->n * p->d; i++)
        data.Z[i] = (float)p->Z[i];
    return data;
}

static void agrees_on_recorded_data(void **state)
{
    const struct recorded_name *name = *state;
    struct recorded recorded;
    if (!recorded_available())
        skip();
    recorded_open(&recorded, name);
    const struct ref_problem *p = &recorded.problem;
    struct made_data data = data_of(&recorded);
    float *start = malloc((size_t)(p->K * p->d) * sizeof *start);
    for (int64_t i = 0; i < p->K * p->d; i++)
        start[i] = (float)p->start[i];
    for (int precision = UNI_HALF; precision <= UNI_SINGLE; precision++) {
        struct uni_options options = defaults();
        struct product product;
        options.centroids = start, options.n_centroids = p->K;
        options.theta.value[0] = p->theta[0], options.tau.value[0] = p->tau[0];
        if (p->lambda[0] > 0)
            options.lambda = (struct uni_values){1, {p->lambda[0]}};
        options.sigma = p->sigma, options.cutoff = p->cutoff, options.block_size = p->block_size;
        options.sweeps = p->sweeps, options.sweep_tol = p->sweep_tol, options.tol = -1;
        options.precision = precision, options.terms = 1;
        product_run_data(&product, &data, &options);
        struct agreement a = agree(&product, &data, &options, p->sweep_tol < 1e-5);
        assert_agreement(&a, precision == UNI_HALF ? 1 : SINGLE_SCALE);
        assert_in_range(a.pruned, 0, precision == UNI_HALF);
        assert_in_range(a.skipped, 0, precision == UNI_HALF);
        keep_worst(&worst[precision], &a);
        product_close(&product);
    }
    free(data.Z);
    free(start);
    recorded_close(&recorded);
}

/* Made-up data: own seeding, default stop rule, then variations. */
static void check_made(const struct problem_case *c, struct uni_options options, double scale)
{
    struct made_data data;
    struct product product;
    made_case(&data, c, 1);
    options.n_clusters = c->n_clusters;
    options.terms = 1;
    product_run_data(&product, &data, &options);
    assert_int_equal(product.K, c->n_clusters);
    struct agreement a = agree(&product, &data, &options, 0);
    assert_agreement(&a, scale);
    assert_int_equal(a.pruned, 0);
    assert_int_equal(a.skipped, 0);
    keep_worst(&worst[options.precision], &a);
    product_close(&product);
    made_free(&data);
}

static void agrees_on_made_case(void **state)
{
    struct uni_options options = defaults();
    check_made(*state, options, 1);
    options.precision = UNI_SINGLE;
    check_made(*state, options, SINGLE_SCALE);
    options.tol = -1;
    check_made(*state, options, SINGLE_SCALE);
    options.lambda = (struct uni_values){1, {1}};
    check_made(*state, options, SINGLE_SCALE);
}

static void agrees_for_every_setting(void **state)
{
    (void)state;
    double sigma[30];
    for (int k = 0; k < 30; k++)
        sigma[k] = 0.06 + 0.004 * k;
    for (int i = 0; i < 12; i++) {
        struct uni_options options = defaults();
        options.precision = UNI_SINGLE;
        if (i == 0)
            options.theta.value[0] = 0;
        else if (i == 1)
            options.theta.value[0] = 0.7;
        else if (i == 2)
            options.theta.value[0] = 6.5;
        else if (i == 3)
            options.tau.value[0] = 12;
        else if (i == 4)
            options.cluster_sigma = sigma, options.n_cluster_sigma = 30;
        else if (i == 5)
            options.sigma = 0.01; /* exponents down to -400: rows must be shifted by their largest */
        else if (i == 6)
            options.sigma = 1;
        else if (i == 7)
            options.cutoff = 0.02;
        else if (i == 8)
            options.alpha = 3;
        else if (i == 9)
            options.block_size = 1;
        else if (i == 10)
            options.block_size = 0.013, options.sweeps = 9, options.sweep_tol = -1;
        else
            options.lambda = (struct uni_values){1, {1e-3}};
        check_made(&problem_cases[0], options, SINGLE_SCALE);
    }
}

/* Both rules across rounds and the one inside a round: the product ends where the oracle's loop ends (asserted by agree). */
static void stops_where_the_oracle_stops(void **state)
{
    (void)state;
    static const double tols[] = {0.3, 0.1, 0.03, 0.003};
    for (int stop = UNI_STOP_CHANGE; stop <= UNI_STOP_OBJECTIVE; stop++)
        for (int i = 0; i < 4; i++)
            for (int c = 0; c < 10; c += 3) {
                struct uni_options options = defaults();
                options.precision = UNI_SINGLE;
                options.stop = stop, options.tol = tols[i], options.max_rounds = 20;
                options.sweeps = 25, options.sweep_tol = tols[3 - i] * 0.1, options.window = 2 + c % 3;
                check_made(&problem_cases[c], options, SINGLE_SCALE);
            }
}

static int print_worst(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        printf("worst with %s base: rms %.1e, cell %.1e, W %.1e, R %.1e, Y %.1e, O %.1e, E %.1e, lambda %.1e, objective %.1e, "
               "terms %.1e, "
               "change %.1e\n",
               i ? "single" : "half", worst[i].corrected.rms, worst[i].corrected.worst, worst[i].W, worst[i].R, worst[i].Y,
               worst[i].O, worst[i].E, worst[i].lambda, worst[i].objective, worst[i].terms, worst[i].change);
    return 0;
}

int main(void)
{
    static char names[RECORDED_RUNS + N_PROBLEM_CASES][96];
    struct CMUnitTest tests[RECORDED_RUNS + N_PROBLEM_CASES + 2] = {cmocka_unit_test(agrees_for_every_setting),
                                                                    cmocka_unit_test(stops_where_the_oracle_stops)};
    int n = 2;
    for (int i = 0; i < N_PROBLEM_CASES; i++, n++) {
        snprintf(names[n - 2], sizeof names[0], "agrees_on_%s", problem_cases[i].name);
        tests[n] = (struct CMUnitTest){names[n - 2], agrees_on_made_case, NULL, NULL, (void *)(uintptr_t)&problem_cases[i]};
    }
    for (int i = 0; i < RECORDED_RUNS; i++) {
        const struct recorded_name *name = &recorded_names[i];
        if (recorded_two_variables(name))
            continue;
        snprintf(names[n - 2], sizeof names[0], "agrees_on_recorded_%s_%s", name->set, name->config);
        tests[n] = (struct CMUnitTest){names[n - 2], agrees_on_recorded_data, NULL, NULL, (void *)(uintptr_t)name};
        n++;
    }
    return _cmocka_run_group_tests("oracle agreement", tests, (size_t)n, NULL, print_worst);
}
