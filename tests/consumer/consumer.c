/* SPDX-License-Identifier: BSD-3-Clause */
/* A user of the installed library: two batches, one shifted against the other, brought together. */
#include <stdio.h>
#include <unisono.h>

enum { N = 200, D = 3 };

int main(void)
{
    static float z[N * D], out[N * D];
    static int32_t level[N];
    double sum[2] = {0, 0};
    for (int i = 0; i < N; i++) {
        level[i] = i % 2;
        for (int d = 0; d < D; d++)
            z[i * D + d] = (float)(i * (d + 7) % 31) / 31 + (float)level[i];
    }
    struct uni_matrix embedding = {.data = z, .dtype = UNI_FLOAT32, .n_cells = N, .n_dims = D};
    struct uni_batch batch = {.name = "batch", .n_cells = N, .n_levels = 2, .level = level};
    struct uni_options options;
    struct uni_harmony *run = NULL;
    uni_options_init(&options, sizeof options);
    int failed = uni_open(&run, &embedding, &batch, 1, &options) || uni_run(run) || uni_read(run, UNI_CORRECTED, out);
    for (int i = 0; i < N * D; i++)
        sum[level[i / D]] += out[i];
    uni_close(run);
    printf("unisono %s: batches are %.3f apart, 1 before\n", uni_version(), (sum[1] - sum[0]) / (N * D / 2));
    return failed || !(sum[1] - sum[0] < 0.5 * N * D / 2);
}
