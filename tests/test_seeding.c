/* SPDX-License-Identifier: BSD-3-Clause */
/* Rare types keep a cluster of their own. By default 20 data sets of 40,000 cells; UNISONO_LARGE=1 takes 200,000, as measured in
 * the notes on real data (tail seeding .85, random cells .35). */
#include "product.h"
#include "rare_types.h"
#include "testing.h"

#if defined(__SANITIZE_ADDRESS__)
enum { RUNS = 3 }; /* slow, and the outcome is that of the plain build */
#else
enum { RUNS = 20 };
#endif
enum { K = 100 };

/* Whether some cluster has most of its mass from the type. */
static int has_own_cluster(const struct product *p, const struct made_data *data, int type)
{
    for (int64_t k = 0; k < p->K; k++) {
        double own = 0, all = 0;
        for (int64_t l = 0; l < p->B; l++)
            all += p->O[l * p->K + k];
        for (int64_t i = 0; i < p->n; i++)
            own += data->type[i] == type ? p->R[i * p->K + k] : 0;
        if (own > all / 2)
            return 1;
    }
    return 0;
}

/* K random cells: what seeding without care for rare types begins with. */
static void random_cells(float *start, const struct made_data *data, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t k = 0; k < K; k++)
        memcpy(start + k * data->d, data->Z + (int64_t)(made_random(&state) % (uint64_t)data->n) * data->d,
               (size_t)data->d * sizeof *start);
}

/* Share of the separate 0.1 % types with a cluster of their own at the end, over `runs` data sets. */
static double kept_share(int runs, int random_start)
{
    int kept = 0;
    for (int run = 0; run < runs; run++) {
        struct made_data data;
        struct product p;
        struct uni_options options = defaults();
        rare_types(&data, getenv("UNISONO_LARGE") ? 200000 : 40000, (uint64_t)run + 1);
        float *start = malloc((size_t)(K * data.d) * sizeof *start);
        options.n_clusters = K, options.seed = run, options.tol = -1;
        if (random_start) {
            random_cells(start, &data, (uint64_t)run + 100);
            options.centroids = start, options.n_centroids = K;
        }
        product_run_data(&p, &data, &options);
        for (int type = RARE_SEPARATE; type < RARE_SEPARATE_TINY; type++)
            kept += has_own_cluster(&p, &data, type);
        product_close(&p);
        free(start);
        made_free(&data);
    }
    return kept / (2.0 * runs);
}

static void rare_types_keep_a_cluster_of_their_own(void **state)
{
    (void)state;
    double kept = kept_share(RUNS, 0);
    printf("separate types of 0.1 %%: own cluster at the end in %.0f %% of the cases\n", 100 * kept);
    assert_at_least(kept, 0.70);
}

/* The data are hard enough to say something: from random cells most of these types end inside another type's cluster. */
static void random_cells_would_lose_them(void **state)
{
    (void)state;
    double kept = kept_share(RUNS, 1);
    printf("the same from random cells: %.0f %%\n", 100 * kept);
    assert_at_most(kept, 0.50);
}

/* A start is K unit vectors, no two the same, whatever the seed. */
static void starts_are_distinct_unit_vectors(void **state)
{
    (void)state;
    struct made_data data;
    rare_types(&data, 5000, 3);
    for (int seed = 0; seed < 5; seed++) {
        struct product p;
        struct uni_options options = defaults();
        options.seed = seed, options.max_rounds = 1;
        product_run_data(&p, &data, &options);
        for (int64_t k = 0; k < p.K; k++)
            for (int64_t other = 0; other <= k; other++) {
                double dot = 0;
                for (int64_t j = 0; j < p.d; j++)
                    dot += p.start[k * p.d + j] * p.start[other * p.d + j];
                if (other == k)
                    assert_near(dot, 1, 1e-5);
                else
                    assert_at_most(dot, 1 - 1e-6);
            }
        product_close(&p);
    }
    made_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rare_types_keep_a_cluster_of_their_own),
        cmocka_unit_test(random_cells_would_lose_them),
        cmocka_unit_test(starts_are_distinct_unit_vectors),
    };
    return cmocka_run_group_tests_name("seeding", tests, NULL, NULL);
}
