/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA backend on a card: every operation beside plain loops in double and beside the CPU backend, then whole runs.
 *
 * P08 (a million cells), P10 (any dims, arrays that begin anywhere), P61, P69 (the same bytes ten times), P85, P86 (cells that do
 * not fit) of docs/user-pain-status.md.
 *
 *     check_cuda [cells]        only operations, on problems of so many cells at most: for compute-sanitizer
 *
 * Exit code 77, and `skipped: no CUDA device`, where there is none. Outputs are filled with NaN before they are written. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_caller.h"
#include "cuda_check.h"

static const struct shape shapes[] = {
    {"two cells", 2, 3, 2, 2, .skew = 0},
    {"tiny", 60, 1, 1, 3, .single = 1},
    {"one dimension", 300, 1, 4, 2, .skew = 0},
    {"plain", 1000, 20, 30, 3, .skew = 1},
    {"plain, single", 1000, 20, 30, 3, .skew = 1, .single = 1},
    {"default shape", 3000, 50, 100, 10, .skew = 1},
    {"default shape, single", 3000, 50, 100, 10, .skew = 1, .single = 1},
    {"odd everything", 1023, 7, 13, 5, .skew = 3, .cluster_sigma = 1, .odd_ones = 1},
    {"odd everything, single", 1023, 7, 13, 5, .skew = 3, .single = 1, .cluster_sigma = 1, .odd_ones = 1},
    {"d 31, K 65", 1500, 31, 65, 4, .skew = 2, .odd_ones = 1},
    {"d 33, K 104, single", 1500, 33, 104, 4, .skew = 2, .single = 1, .odd_ones = 1},
    {"d 57, K 105", 1500, 57, 105, 2, .cluster_sigma = 1},
    {"d 60, K 70", 1500, 60, 70, 3, .skew = 1, .odd_ones = 1},
    {"d 60, K 70, damped", 1500, 60, 70, 3, .skew = 1, .odd_ones = 1, .damped = 4},
    {"d 60, K 70, large pieces", 12000, 60, 70, 2, .skew = 1},
    {"d 64, K 128, single", 1500, 64, 128, 2, .single = 1, .cluster_sigma = 1},
    {"many levels", 3000, 12, 25, 300, .skew = 3},
    {"a thousand levels", 6000, 50, 100, 1000, .skew = 2},
    {"plain path: d 65", 800, 65, 40, 3, .skew = 1, .odd_ones = 1},
    {"plain path: d 200, single", 400, 200, 5, 2, .skew = 1, .single = 1},
    {"plain path: K 129", 1500, 50, 129, 3, .skew = 1, .cluster_sigma = 1},
    {"plain path: K 400", 2500, 20, 400, 3, .skew = 1},
    {"plain path: K 1000, d 300", 1500, 300, 1000, 2, .skew = 1, .single = 1},
    {"plain path: K 777, half", 1500, 20, 777, 20, .skew = 1, .cluster_sigma = 1},
    {"damped", 1000, 20, 30, 3, .skew = 1, .damped = 4},
    {"damped, single", 1000, 20, 30, 3, .skew = 1, .single = 1, .damped = 4},
    {"damped, default shape", 3000, 50, 100, 10, .skew = 1, .damped = 3},
    {"damped, d 64, K 128, single", 1500, 64, 128, 2, .single = 1, .cluster_sigma = 1, .damped = 4},
    {"damped, odd everything", 1023, 7, 13, 5, .skew = 3, .cluster_sigma = 1, .odd_ones = 1, .damped = 9},
    {"damped, more than tables", 1023, 7, 13, 5, .skew = 3, .single = 1, .cluster_sigma = 1, .odd_ones = 1, .damped = 30},
    {"damped, many levels", 3000, 12, 25, 300, .skew = 3, .damped = 4},
    {"damped, plain path: d 65", 800, 65, 40, 3, .skew = 1, .odd_ones = 1, .damped = 4},
    {"damped, plain path: K 400", 1100, 20, 400, 3, .skew = 1, .single = 1, .damped = 6},
    {"damped, plain path: K 777", 1000, 20, 777, 9, .skew = 1, .cluster_sigma = 1, .damped = 2},
    {"2019", 1000, 20, 30, 3, .skew = 1, .first = 1},
    {"2019, odd everything, single", 1023, 7, 13, 5, .skew = 3, .single = 1, .cluster_sigma = 1, .odd_ones = 1, .first = 1},
    {"2019, damped, two variables", 1023, 7, 13, 5, .skew = 3, .single = 1, .cluster_sigma = 1, .first = 1, .damped = 4,
     .variables = 2},
    {"two variables", 1000, 20, 30, 3, .skew = 1, .variables = 2},
    {"two variables, single", 3000, 50, 100, 10, .skew = 1, .single = 1, .variables = 2},
    {"two variables, odd everything", 1023, 7, 13, 5, .skew = 3, .cluster_sigma = 1, .odd_ones = 1, .variables = 2},
    {"three variables", 3000, 50, 100, 10, .skew = 1, .variables = 3},
    {"three variables, many levels", 3000, 12, 25, 200, .skew = 3, .single = 1, .variables = 3},
    {"three variables, damped", 3000, 50, 100, 10, .skew = 1, .variables = 3, .damped = 4},
    {"two variables, plain path: K 400", 1000, 20, 400, 3, .skew = 1, .single = 1, .variables = 2},
    {"three variables, damped, plain path: d 70", 800, 70, 40, 6, .skew = 1, .odd_ones = 1, .variables = 3, .damped = 4},
};

static const struct shape whole[] = {
    {"20k x 50, 2 levels", 20000, 50, 100, 2, .skew = 2},
    {"20k x 50, 2 levels, single", 20000, 50, 100, 2, .skew = 2, .single = 1},
    {"20k x 31, 20 levels, single", 20000, 31, 77, 20, .skew = 2, .single = 1},
    {"50k x 50, 1000 levels", 50000, 50, 100, 1000, .skew = 2},
    {"50k x 50, 1000 levels, single", 50000, 50, 100, 1000, .skew = 2, .single = 1},
    {"20k x 80, 150 clusters, single", 20000, 80, 150, 5, .skew = 2, .single = 1},
    {"20k x 50, damped", 20000, 50, 100, 10, .skew = 2, .damped = 3},
    {"20k x 50, damped, single", 20000, 50, 100, 10, .skew = 2, .single = 1, .damped = 3},
    {"20k x 50, damped, eight sweeps, one by one", 20000, 50, 100, 10, .skew = 2, .single = 1, .damped = 7},
    {"20k x 31, 2019, single", 20000, 31, 77, 20, .skew = 2, .single = 1, .first = 1},
    {"20k x 50, two variables", 20000, 50, 100, 10, .skew = 2, .variables = 2},
    {"20k x 50, three variables, single", 20000, 50, 100, 30, .skew = 2, .single = 1, .variables = 3},
    {"20k x 50, three variables, damped", 20000, 50, 100, 30, .skew = 2, .variables = 3, .damped = 3},
    {"1M x 50, 10 levels", 1000000, 50, 100, 10, .skew = 2},
    {"1M x 50, 10 levels, single", 1000000, 50, 100, 10, .skew = 2, .single = 1},
    {"1M x 50, 10 levels, damped", 1000000, 50, 100, 10, .skew = 2, .damped = 3},
    {"1M x 50, 40 levels, two variables", 1000000, 50, 100, 40, .skew = 2, .variables = 2},
};

static const struct shape again[] = {
    {"100k", 100000, 50, 100, 10, .skew = 2},
    {"60k, 500 levels", 60000, 50, 100, 500, .skew = 2},
    {"100k, damped", 100000, 50, 100, 10, .skew = 2, .damped = 3},
    {"60k, three variables", 60000, 50, 100, 50, .skew = 2, .variables = 3},
};

static const struct shape placed[] = {
    {"places, d 5", 1000, 5, 10, 3, .skew = 1, .odd_ones = 1},
    {"places, d 20", 1000, 20, 30, 3, .skew = 1},
    {"places, d 50", 3000, 50, 100, 10, .skew = 1, .variables = 2},
    {"places, d 70, single", 1000, 70, 40, 3, .single = 1, .odd_ones = 1},
    {"places, 1.3M x 3", 1300000, 3, 5, 10, .skew = 1},
};

static const struct shape small_cards[] = {
    {"small card, 100k", 100000, 50, 100, 10, .skew = 2},
    {"small card, 100k, damped", 100000, 50, 100, 10, .skew = 2, .damped = 3},
    {"small card, 50k, 1000 levels, single", 50000, 50, 100, 1000, .skew = 2, .single = 1},
    {"small card, 20k x 31, cells without a label", 20000, 31, 77, 20, .skew = 2, .odd_ones = 1},
    {"small card, 20k x 80, 150 clusters", 20000, 80, 150, 5, .skew = 2},
    {"small card, 20k x 80, 150 clusters, damped", 20000, 80, 150, 5, .skew = 2, .damped = 3},
    {"small card, 60k, three variables", 60000, 50, 100, 50, .skew = 2, .variables = 3},
    {"small card, 1M", 1000000, 50, 100, 10, .skew = 2},
    {"small card, 1M, damped", 1000000, 50, 100, 10, .skew = 2, .damped = 3},
};

static const struct {
    struct shape shape;
    int64_t sample;
    double perplexity;
} near[] = {
    {{"3k x 50", 3000, 50, 100, 10, .skew = 2}, 0, 30},        {{"100 x 1", 100, 1, 2, 3, .skew = 0}, 0, 30},
    {{"5k x 300", 5000, 300, 100, 3, .skew = 1}, 0, 80},       {{"100k x 50", 100000, 50, 100, 10, .skew = 2}, 0, 30},
    {{"1M x 50", 1000000, 50, 100, 10, .skew = 2}, 20000, 30},
};

int main(int argc, char **argv)
{
    struct uni_backend_info info;
    int64_t small = argc > 1 ? atoll(argv[1]) : 0;
    if (!uni_backend_at(1, &info) || !info.usable) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    printf("%s: %s\n", info.name, info.detail);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!small || shapes[i].n <= small)
            check_operations(&shapes[i]);
    must("the driver", "opened", !caller_open());
    for (size_t i = 0; i < sizeof placed / sizeof *placed && failures == 0; i++)
        if (!small || placed[i].n <= small)
            check_places(&placed[i]);
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        if (!small || near[i].shape.n <= small)
            check_neighbours(&near[i].shape, near[i].sample, near[i].perplexity);
    if (!small) {
        check_nearest(50, 100);
        check_nearest(7, 1);
        check_nearest(300, 500);
        check_nearest(33, 129); /* one past what a block takes at a time */
        check_nearest(512, 128);
        for (int damped = 0; damped <= 4; damped += 4) {
            check_closed_form(0, damped);
            check_closed_form(1, damped);
        }
        for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
            check_whole(&whole[i], whole[i].n < 1000000 ? 5 : 3);
        for (size_t i = 0; i < sizeof again / sizeof *again; i++)
            check_same_bytes(&again[i], again[i].damped || again[i].variables ? 4 : 10);
        for (size_t i = 0; i < sizeof small_cards / sizeof *small_cards; i++)
            check_ways(&small_cards[i]);
    }
    printf("%d checks, %d failed\n", checks, failures);
    return failures > 0;
}
