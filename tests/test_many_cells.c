/* SPDX-License-Identifier: BSD-3-Clause */
/* The oracle beside the product on many cells: test_many_cells [CELLS [DIMS [LEVELS [CLUSTERS]]]]. A million cells of 50
   dimensions take 12 GB and a quarter of an hour, so the suite runs twenty thousand; docs/numerics.md has the rest. */
#include "agreement.h"
#include "testing.h"

#include <stdio.h>

static int64_t size[4] = {20000, 50, 10, 100};

static void check(int64_t rounds, int precision, double scale)
{
    const struct problem_case made = {"many", size[0], size[1], size[3], size[2], 30, 4, 1.5, 0};
    struct made_data data;
    struct product product;
    struct uni_options options = defaults();
    made_case(&data, &made, 7);
    options.n_clusters = size[3];
    options.max_rounds = rounds;
    options.terms = 1;
    options.tol = -1;
    options.precision = precision;
    product_run_data(&product, &data, &options);
    struct agreement a = agree(&product, &data, &options, 0);
    printf("%s, %lld cells, %lld rounds, %s base: rms %.2g of the correction, worst cell %.2g, W %.2g, O %.2g, objective %.2g\n",
           product.summary->backend, (long long)size[0], (long long)rounds, precision == UNI_HALF ? "half" : "single",
           a.corrected.rms, a.corrected.worst, a.W, a.O, a.objective);
    fflush(stdout);
    assert_agreement(&a, scale);
    product_close(&product);
    made_free(&data);
}

static void follows_the_oracle_for_a_round(void **state)
{
    (void)state;
    check(1, UNI_HALF, 1);
    check(1, UNI_SINGLE, SINGLE_SCALE);
}

static void follows_the_oracle_for_ten_rounds(void **state)
{
    (void)state;
    check(10, UNI_HALF, 1);
}

int main(int n, char **argument)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_oracle_for_a_round),
        cmocka_unit_test(follows_the_oracle_for_ten_rounds),
    };
    for (int i = 1; i < n && i < 5; i++)
        size[i - 1] = atoll(argument[i]);
    return cmocka_run_group_tests_name("many cells", tests, NULL, NULL);
}
