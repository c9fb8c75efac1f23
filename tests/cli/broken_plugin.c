/* SPDX-License-Identifier: BSD-3-Clause */
/* A cuda plugin as a broken card would make one: it says that it is usable, and then returns the embedding uncorrected, or, with
   BROKEN=open in the environment, cannot take it. For the self test's test. */
#include <stdlib.h>
#include <string.h>

#include "../../src/cuda/cuda_plugin.h"

__attribute__((visibility("default"))) const struct uni_cuda_plugin *uni_cuda_plugin(const struct uni_cuda_host *);

static const struct uni_cuda_host *host;
static const struct uni_problem *problem;
static float *Z;

static int open_rows(struct uni_backend *b, const struct uni_problem *p, const struct uni_matrix *plain)
{
    (void)b;
    const char *how = getenv("BROKEN");
    if (how && strcmp(how, "open") == 0)
        return host->fail(UNI_DEVICE, "the card has fallen off the bus");
    problem = p;
    Z = malloc((size_t)(p->N_all * p->D) * sizeof *Z);
    for (int64_t i = 0; Z && i < p->N_all; i++)
        host->matrix_row(Z + i * p->D, plain, i);
    return Z ? UNI_OK : UNI_MEMORY;
}

static int bytes(const struct uni_problem *p, const int64_t *group_cells, struct uni_takes *takes)
{
    (void)group_cells;
    *takes = (struct uni_takes){.host = p->N_all * p->D * 4};
    return UNI_OK;
}

static int assign(struct uni_backend *b, double *O, struct uni_fit *fit, const struct uni_shift *shift, const float *Y)
{
    (void)b, (void)shift, (void)Y;
    for (int64_t i = 0; i < problem->G * problem->K; i++)
        O[i] = 1;
    if (fit)
        *fit = (struct uni_fit){1, 1};
    return UNI_OK;
}

static int sweep(struct uni_backend *b, double *O, struct uni_fit *fit, int64_t sweeps, int terms)
{
    (void)sweeps, (void)terms;
    return assign(b, O, fit, NULL, NULL);
}

static int moments(struct uni_backend *b, double *S, const unsigned char *part)
{
    (void)b, (void)part;
    memset(S, 0, (size_t)(problem->G * problem->K * problem->D) * sizeof *S);
    return UNI_OK;
}

static int read_cells(struct uni_backend *b, enum uni_cells what, const struct uni_shift *shift, void *dst)
{
    (void)b, (void)shift;
    if (what == UNI_CELLS_CORRECTED)
        memcpy(dst, Z, (size_t)(problem->N_all * problem->D) * sizeof *Z);
    else
        memset(dst, 0, (size_t)problem->N_all * sizeof(int32_t));
    return UNI_OK;
}

static int each(struct uni_backend *b, int64_t n, void (*task)(void *context, int64_t i), void *context)
{
    (void)b;
    for (int64_t i = 0; i < n; i++)
        task(context, i);
    return UNI_OK;
}

static void close_rows(struct uni_backend *b)
{
    (void)b;
    free(Z);
    Z = NULL;
}

static int fill(struct uni_backend *b, int64_t device)
{
    (void)device;
    *b = (struct uni_backend){.open = open_rows,
                              .bytes = bytes,
                              .assign = assign,
                              .sweep = sweep,
                              .moments = moments,
                              .read = read_cells,
                              .each = each,
                              .close = close_rows,
                              .name = "cuda (broken)"};
    return UNI_OK;
}

static int devices(void)
{
    return 1;
}

static int describe(struct uni_backend_info *info, int64_t device)
{
    (void)device;
    info->usable = 1;
    strcpy(info->detail, "a card for tests");
    return 1;
}

const struct uni_cuda_plugin *uni_cuda_plugin(const struct uni_cuda_host *library)
{
    static const struct uni_cuda_plugin plugin = {.abi = UNI_CUDA_ABI, .devices = devices, .backend = fill, .describe = describe};
    host = library;
    return &plugin;
}
