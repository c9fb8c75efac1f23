/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "card_use.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct card card;

static int find(void *plugin, const char *name, void *function)
{
    *(void **)function = dlsym(plugin, name);
    return *(void **)function != NULL;
}

int card_open(void)
{
    const char *name = getenv("UNISONO_CUDA_PLUGIN");
    if (!name || !*name)
        return 0;
    void *plugin = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!plugin)
        must("the stand-in", dlerror(), 1);
    return plugin && find(plugin, "card_begin", &card.begin) && find(plugin, "card_calls", &card.calls) &&
                   find(plugin, "card_is_new", &card.is_new) && find(plugin, "card_failed", &card.failed) &&
                   find(plugin, "card_problems", &card.problems) && find(plugin, "card_set", &card.set) &&
                   find(plugin, "card_current", &card.current) && find(plugin, "card_used", &card.used) &&
                   find(plugin, "card_on_host", &card.on_host)
               ? 1
               : -1;
}

/* ---- the library --------------------------------------------------------------------------------------------------------- */

static int set_options(struct uni_options *o, const char *text)
{
    char words[256], *rest = words;
    int err = UNI_OK;
    snprintf(words, sizeof words, "%s", text ? text : "");
    for (char *word; !err && (word = strsep(&rest, " "));) {
        char *value = strchr(word, '=');
        if (!value)
            continue;
        *value = 0;
        err = uni_options_set(o, word, value + 1);
    }
    return err;
}

static int64_t size_of(enum uni_array what, const int64_t shape[3])
{
    int wide = what == UNI_OBSERVED || what == UNI_EXPECTED || what == UNI_LAMBDA;
    return shape[0] * shape[1] * shape[2] * (wide ? 8 : 4);
}

/* All bits set is a NaN, and block -1. */
static int is_cleared(const void *array, enum uni_array what, int64_t bytes)
{
    for (int64_t i = 0; i < bytes / 4; i++)
        if (what == UNI_BLOCKS ? ((const int32_t *)array)[i] != -1 : what <= UNI_CENTROIDS && !isnan(((const float *)array)[i]))
            return 0;
    return 1;
}

/* Into memory of a place, and from there to the array. A failure of the caller's own copies is none of the library's. */
static int read_to(enum place out, struct uni_harmony *run, enum uni_array what, void *array, int64_t bytes)
{
    if (out == PAGEABLE)
        return uni_read(run, what, array);
    void *there = caller_take(out, bytes);
    int copied = there && caller_copy_to(out, there, array, bytes);
    int err = there ? uni_read(run, what, there) : UNI_MEMORY;
    if (!copied || !caller_copy_from(out, array, there, bytes))
        memset(array, 0xff, (size_t)bytes); /* the card is broken: nobody can look */
    caller_give(out, there);
    return err;
}

static int read_all(struct got *g, struct uni_harmony *run, enum place out, int again)
{
    static const enum uni_array what[ARRAYS] = {UNI_CORRECTED, UNI_ASSIGNMENTS, UNI_BLOCKS, UNI_GIVEN,
                                                UNI_OBSERVED,  UNI_CORRECTION,  UNI_LAMBDA, UNI_CENTROIDS};
    int64_t shape[3];
    int err = UNI_OK;
    for (int i = 0; i < ARRAYS && !err; i++) {
        err = uni_shape(run, what[i], shape);
        g->bytes[i] = size_of(what[i], shape);
        g->array[i] = calloc(1, (size_t)g->bytes[i]);
        if (!g->array[i])
            return UNI_MEMORY;
        err = err ? err : read_to(out, run, what[i], g->array[i], g->bytes[i]);
        if (err) {
            snprintf(g->sentence, sizeof g->sentence, "%s", uni_last_error());
            g->stale |= !is_cleared(g->array[i], what[i], g->bytes[i]);
            g->stale |= again && read_to(out, run, what[i], g->array[i], g->bytes[i]) != UNI_OK;
        }
    }
    return err;
}

/* The embedding goes where the use has it. In his own stream: nothing may be taken before it is there. */
static int place_matrix(struct bench *n, enum place in, void **there, void **pinned)
{
    const int64_t bytes = n->made.n * n->made.d * 4;
    if (in == PAGEABLE)
        return 1;
    n->options.stream = caller_stream();
    *there = caller_take(in, bytes);
    n->matrix.data = *there;
    if (in != ON_CARD)
        return caller_copy_to(in, *there, n->made.Z, bytes);
    *pinned = caller_take(PINNED, bytes);
    return caller_copy_to(PINNED, *pinned, n->made.Z, bytes) &&
           caller_copy_later(*there, *pinned, bytes, n->options.stream, *there, bytes);
}

static void run_library(struct got *g, struct bench *n, const struct use *u, int again)
{
    void *there = NULL, *pinned = NULL;
    (void)place_matrix(n, u->in, &there, &pinned); /* where the card is broken it fails, and so does the library */

    struct uni_harmony *run = NULL;
    struct uni_plan plan;
    g->status = uni_plan(&plan, n->matrix.n_cells, n->matrix.n_dims, n->batch, n->variables, &n->options);
    if (!g->status)
        g->card_bytes = plan.bytes_card;
    if (!g->status)
        g->status = uni_open(&run, &n->matrix, n->batch, n->variables, &n->options);
    if (!g->status)
        g->status = uni_run(run);
    if (g->status) {
        snprintf(g->sentence, sizeof g->sentence, "%s", uni_last_error());
    } else {
        g->status = read_all(g, run, u->out, again);
        g->mangled = !g->status && memcmp(g->array[3], n->made.Z, (size_t)g->bytes[3]) != 0;
        snprintf(g->backend, sizeof g->backend, "%s", uni_summary(run)->backend);
    }
    if (run && uni_summary(run)->n_warnings > 0)
        snprintf(g->warning, sizeof g->warning, "%s", uni_summary(run)->warnings[0]);
    uni_close(run);
    caller_end_stream(n->options.stream);
    caller_give(u->in, there);
    caller_give(PINNED, pinned);
}

/* ---- the seam ------------------------------------------------------------------------------------------------------------ */

/* The library would ask for sums by level where its tables are of a gigabyte. */
static void run_seam(struct got *g, struct bench *n, const struct use *u)
{
    struct uni_backend b = {0};
    struct uni_fit fit;
    const struct shape shape = {.name = u->name, .n = u->cells, .d = u->dims, .K = n->options.n_clusters, .variables = 3};
    bench_sort(n, &shape);
    const struct uni_problem *p = &n->cells.problem;
    int64_t rows = p->B + 1;
    unsigned char *part = calloc((size_t)(p->G * p->K), 1);
    float *Y = calloc((size_t)(p->K * p->D), 4), *W = calloc((size_t)(p->B * p->K * p->D), 4);
    double *O = calloc((size_t)(p->G * p->K), 8);
    struct uni_shift shift = {.W = W, .step = 1};
    g->bytes[0] = rows * p->K * p->D * 8;
    g->bytes[1] = p->N_all * p->D * 4;
    g->array[0] = calloc(1, (size_t)g->bytes[0]);
    g->array[1] = calloc(1, (size_t)g->bytes[1]);
    for (int64_t k = 0; k < p->K; k++)
        Y[k * p->D] = 1;
    part[0] = 1;
    g->status = uni_cuda_backend(&b, 0);
    if (!g->status)
        g->status = b.open(&b, p, &n->matrix);
    if (!g->status)
        g->status = b.assign(&b, O, &fit, NULL, Y);
    if (!g->status)
        g->status = b.sweep(&b, O, &fit, 2, 0);
    if (!g->status)
        g->status = b.moments(&b, g->array[0], part);
    if (!g->status)
        g->status = b.assign(&b, O, NULL, &shift, Y);
    if (!g->status)
        g->status = b.read(&b, UNI_CELLS_CORRECTED, &shift, g->array[1]);
    if (g->status)
        snprintf(g->sentence, sizeof g->sentence, "%s", uni_last_error());
    if (b.close)
        b.close(&b);
    free(part), free(Y), free(W), free(O);
}

/* Returns the starting centroids, to be freed. */
static float *open_use(struct bench *n, const struct use *u)
{
    const struct shape shape = {.name = u->name,
                                .n = u->cells,
                                .d = u->dims,
                                .K = 4,
                                .levels = u->levels,
                                .skew = 1,
                                .cluster_sigma = u->cluster_sigma,
                                .odd_ones = u->odd_ones,
                                .variables = u->variables};
    bench_open(n, &shape);
    n->options.backend = UNI_BACKEND_CUDA;
    n->options.block_size = 0.5;
    n->options.max_rounds = 2;
    n->options.threads = 1;
    n->options.tol = -1;
    must(u->name, "options", set_options(&n->options, u->options));
    int64_t K = n->options.n_clusters, D = u->dims;
    float *start = calloc((size_t)(K * D), sizeof *start);
    for (int64_t i = 0; i < K * D; i++)
        start[i] = n->made.Z[i];
    n->options.centroids = u->seeded ? NULL : start;
    n->options.n_centroids = u->seeded ? 0 : K;
    if (u->cluster_sigma && K != shape.K)
        n->options.cluster_sigma = NULL, n->options.n_cluster_sigma = 0;
    return start;
}

void use_run(struct got *g, const struct use *u, int again)
{
    struct bench n;
    memset(g, 0, sizeof *g);
    float *start = open_use(&n, u);
    if (u->by_level)
        run_seam(g, &n, u);
    else
        run_library(g, &n, u, again);
    free(start);
    bench_close(&n);
}

int64_t use_card_bytes(const struct use *u)
{
    struct bench n;
    struct uni_plan plan;
    float *start = open_use(&n, u);
    int err = uni_plan(&plan, n.matrix.n_cells, n.matrix.n_dims, n.batch, n.variables, &n.options);
    free(start);
    bench_close(&n);
    return err ? -1 : plan.bytes_card;
}

void got_free(struct got *g)
{
    for (int i = 0; i < ARRAYS; i++)
        free(g->array[i]);
    memset(g, 0, sizeof *g);
}

int got_same(const struct got *a, const struct got *b)
{
    for (int i = 0; i < ARRAYS; i++)
        if (a->bytes[i] != b->bytes[i] || (a->bytes[i] && memcmp(a->array[i], b->array[i], (size_t)a->bytes[i]) != 0))
            return 0;
    return strcmp(a->backend, b->backend) == 0;
}
