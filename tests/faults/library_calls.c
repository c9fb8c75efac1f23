/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything that unisono.h offers, once, on a small problem, for inject.py: ends with a sentence and 1 where a call fails, and
 * then looks that outputs are NaN or untouched, never numbers of a run that failed. Prints sums of the results otherwise.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unisono.h"

enum { CELLS = 400, DIMS = 5, LEVELS = 4, CLUSTERS = 6 };

static float embedding[CELLS * DIMS], out[CELLS * CLUSTERS];
static int32_t donor[CELLS], site[CELLS];

static int failed(int status)
{
    const char *sentence = uni_last_error();
    fprintf(stderr, "unisono: %s\n", status == UNI_OK || !*sentence ? "" : sentence);
    return 1;
}

static void make_cells(void)
{
    for (int i = 0; i < CELLS; i++) {
        donor[i] = i % LEVELS;
        site[i] = i % LEVELS / 2;
        for (int j = 0; j < DIMS; j++)
            embedding[i * DIMS + j] = (float)(sin(0.7 * i * (j + 1)) + 0.3 * donor[i] + 3 * (i % 3 == j));
    }
}

static double sum(int64_t n)
{
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += (double)out[i];
    return total;
}

/* After a failed run what can be read is NaN. */
static int after_failure(struct uni_harmony *run, int status)
{
    out[0] = 1;
    int answer = failed(status);
    if (uni_read(run, UNI_CORRECTED, out) == UNI_OK || !isnan(out[0]))
        fprintf(stderr, "numbers can be read from a run that failed\n");
    uni_close(run);
    return answer;
}

static int integrate(const struct uni_batch *batches, int n_batches, const struct uni_options *options, int take)
{
    struct uni_matrix matrix = {.data = embedding, .dtype = UNI_FLOAT32, .n_cells = CELLS, .n_dims = DIMS};
    struct uni_harmony *run = NULL;
    const float *corrected;
    int64_t shape[3];
    int status = uni_open(&run, &matrix, batches, n_batches, options);
    if (status) {
        if (run)
            fprintf(stderr, "a run stays after uni_open failed\n");
        return failed(status);
    }
    status = uni_run(run);
    if (status)
        return after_failure(run, status);
    for (int what = UNI_CORRECTED; !status && what <= UNI_ASSIGNMENTS; what++) {
        status = uni_shape(run, (enum uni_array)what, shape);
        if (!status)
            status = uni_read(run, (enum uni_array)what, out);
        if (!status)
            printf("%d: %lld x %lld, %.6f\n", what, (long long)shape[0], (long long)shape[1], sum(shape[0] * shape[1]));
    }
    if (!status && take) {
        status = uni_take(run, &corrected);
        if (!status)
            printf("taken: %.6f\n", (double)corrected[CELLS * DIMS - 1]);
    }
    if (status)
        failed(status);
    uni_close(run);
    return status != UNI_OK;
}

int main(void)
{
    struct uni_options options;
    struct uni_plan plan;
    struct uni_backend_info info;
    struct uni_batch batches[2] = {{"donor", CELLS, LEVELS, donor, NULL}, {"site", CELLS, 2, site, NULL}};
    char text[32];
    make_cells();
    uni_options_init(&options, sizeof options);
    options.max_rounds = 2;
    options.n_clusters = CLUSTERS;
    options.threads = 3;
    int status = uni_options_set(&options, "theta", "2,1");
    if (!status)
        status = uni_options_get(&options, "theta", text, sizeof text);
    for (int i = 0; uni_backend_at(i, &info); i++)
        continue;
    if (!status)
        status = uni_plan(&plan, CELLS, DIMS, batches, 2, &options);
    if (status)
        return failed(status);
    if (integrate(batches, 2, &options, 0))
        return 1;
    options.theta.n = 1;
    options.precision = UNI_SINGLE;
    return integrate(batches, 1, &options, 1);
}
