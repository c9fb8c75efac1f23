/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cells are updated together. */
#include "product.h"
#include "testing.h"

/* Of every 20 cells of a level in a row, each block has one: in an embedding that is put in order in several parts, with levels
   large and small and cells that are skipped. */
static void each_block_has_one_of_twenty_cells_in_a_row(void **state)
{
    enum { N = 300000, LEVELS = 7 };
    struct uni_harmony *run;
    struct uni_options options = defaults();
    float *Z = malloc((size_t)N * 2 * sizeof *Z);
    int32_t *level = malloc((size_t)N * sizeof *level), *block = malloc((size_t)N * sizeof *block);
    uint64_t random = 5;
    (void)state;
    for (int64_t i = 0; i < N; i++) {
        Z[2 * i] = (float)made_normal(&random), Z[2 * i + 1] = (float)made_normal(&random);
        level[i] = (int32_t)(LEVELS * made_uniform(&random) * made_uniform(&random)) - (made_uniform(&random) < 0.01);
    }
    struct uni_matrix m = {.data = Z, .dtype = UNI_FLOAT32, .n_cells = N, .n_dims = 2};
    struct uni_batch batch = {.n_cells = N, .n_levels = LEVELS, .level = level};
    options.n_clusters = 2, options.max_rounds = 1, options.missing = UNI_MISSING_SKIP, options.threads = 3;
    assert_int_equal(uni_open(&run, &m, &batch, 1, &options), UNI_OK);
    assert_int_equal(uni_run(run), UNI_OK);
    assert_int_equal(uni_read(run, UNI_BLOCKS, block), UNI_OK);
    uint32_t seen[LEVELS] = {0};
    for (int64_t i = 0; i < N; i++) {
        int32_t l = level[i];
        assert_true((block[i] < 0) == (l < 0));
        if (l < 0)
            continue;
        assert_in_range(block[i], 0, 19);
        assert_true((seen[l] >> block[i] & 1) == 0);
        seen[l] |= 1u << block[i];
        seen[l] = seen[l] == (1u << 20) - 1 ? 0 : seen[l];
    }
    uni_close(run);
    free(Z), free(level), free(block);
}

/* Each block has its share of every level, to a cell; blocks are numbered without gaps. */
static void blocks_are_balanced_over_levels(void **state)
{
    (void)state;
    struct made_data data;
    struct product p;
    struct uni_options options = defaults();
    made_case(&data, &problem_cases[5], 12);
    product_run_data(&p, &data, &options);
    for (int64_t l = 0; l < data.n_levels; l++) {
        int64_t cells = 0, in_block[20] = {0};
        for (int64_t i = 0; i < p.n; i++)
            if (data.level[i] == l) {
                assert_in_range(p.block[i], 0, 19);
                in_block[p.block[i]]++;
                cells++;
            }
        for (int q = 0; q < 20; q++)
            assert_in_range(in_block[q], cells / 20, (cells + 19) / 20);
    }
    product_close(&p);
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_has_one_of_twenty_cells_in_a_row),
        cmocka_unit_test(blocks_are_balanced_over_levels),
    };
    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
