/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run left: arrays in the caller's order, and the summary. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "formula.h"
#include "harmony.h"

static const char *const names[] = {"the corrected embedding",
                                    "the assignments",
                                    "the centroids",
                                    "the starting centroids",
                                    "observed",
                                    "expected",
                                    "lambda",
                                    "the correction",
                                    "theta",
                                    "sigma",
                                    "the blocks",
                                    "the slopes",
                                    "the embedding as given"};

int uni_shape(const struct uni_harmony *h, enum uni_array what, int64_t shape[3])
{
    const struct uni_problem *p = &h->cells.problem;
    const int64_t shapes[][3] = {{p->N_all, p->D, 1}, {p->N_all, p->K, 1}, {p->K, p->D, 1},    {p->K, p->D, 1}, {p->B, p->K, 1},
                                 {p->B, p->K, 1},     {p->B, p->K, 1},     {p->B, p->K, p->D}, {p->B, 1, 1},    {p->K, 1, 1},
                                 {p->N_all, 1, 1},    {p->X, p->K, p->D},  {p->N_all, p->D, 1}};
    if ((int)what < 0 || (size_t)what >= sizeof shapes / sizeof *shapes)
        return uni_fail(UNI_INPUT, "there is no array number %d", (int)what);
    memcpy(shape, shapes[what], sizeof shapes[0]);
    return UNI_OK;
}

static int is_float(enum uni_array what)
{
    return what <= UNI_START || what == UNI_CORRECTION || what >= UNI_SLOPES;
}

/* Not a number, whatever the element: stale values are never taken for a result. */
static void fill_nan(void *dst, enum uni_array what, const int64_t shape[3])
{
    int64_t n = shape[0] * shape[1] * shape[2];
    for (int64_t i = 0; i < n; i++) {
        if (what == UNI_BLOCKS)
            ((int32_t *)dst)[i] = -1;
        else if (is_float(what))
            ((float *)dst)[i] = NAN;
        else
            ((double *)dst)[i] = NAN;
    }
}

/* The penalty that the last correction used; 0 where the pair was left out. A variable with one kept level is not corrected for.
 */
static void read_lambda(const struct uni_harmony *h, double *dst)
{
    const struct uni_problem *p = &h->cells.problem;
    const double *O = h->level_O, *E = h->level_O + p->B * p->K;
    for (int v = 0; v < p->V; v++)
        for (int64_t k = 0; k < p->K; k++) {
            int64_t kept = 0, first = p->level_first[v], end = p->level_first[v + 1];
            for (int64_t l = first; l < end; l++) {
                int keep = uni_pair_kept(O[l * p->K + k], p->level_mass[l], h->cells.cutoff);
                kept += keep;
                dst[l * p->K + k] = !keep                    ? 0
                                    : h->cells.lambda[l] > 0 ? h->cells.lambda[l]
                                                             : uni_lambda_auto(h->options.alpha, E[l * p->K + k]);
            }
            for (int64_t l = first; kept < 2 && l < end; l++)
                dst[l * p->K + k] = 0;
        }
}

static void read_correction(const struct uni_harmony *h, float *dst)
{
    const struct uni_problem *p = &h->cells.problem;
    size_t table = (size_t)(p->K * p->D);
    if (!uni_is_simple(p)) {
        memcpy(dst, h->W, (size_t)p->B * table * sizeof *dst);
        return;
    }
    memset(dst, 0, (size_t)p->B * table * sizeof *dst);
    for (int64_t g = 0; g < p->G; g++)
        memcpy(dst + (size_t)p->group_level[g] * table, h->W + (size_t)g * table, table * sizeof *dst);
}

static int read_table(struct uni_harmony *h, enum uni_array what, void *dst)
{
    const struct uni_problem *p = &h->cells.problem;
    size_t levels = (size_t)(p->B * p->K) * sizeof(double), centroids = (size_t)(p->K * p->D) * sizeof(float);
    int err = uni_fetch_tables(h);
    if (err)
        return err;
    switch (what) {
    case UNI_CENTROIDS:
        memcpy(dst, h->Y, centroids);
        break;
    case UNI_START:
        memcpy(dst, h->start, centroids);
        break;
    case UNI_OBSERVED:
        memcpy(dst, h->level_O, levels);
        break;
    case UNI_EXPECTED:
        memcpy(dst, h->level_O + p->B * p->K, levels);
        break;
    case UNI_LAMBDA:
        read_lambda(h, dst);
        break;
    case UNI_CORRECTION:
        read_correction(h, dst);
        break;
    case UNI_SLOPES:
        memcpy(dst, h->slope, (size_t)p->X * centroids);
        break;
    case UNI_THETA:
        memcpy(dst, p->level_theta, (size_t)p->B * sizeof(double));
        break;
    default:
        memcpy(dst, p->sigma, (size_t)p->K * sizeof(double));
    }
    return UNI_OK;
}

static int64_t bytes_of(enum uni_array what, const int64_t shape[3])
{
    return shape[0] * shape[1] * shape[2] * (what == UNI_BLOCKS || is_float(what) ? 4 : 8);
}

/* Into memory that the card reaches. */
static int put_table(struct uni_harmony *h, enum uni_array what, void *dst, int64_t bytes)
{
    void *table = calloc((size_t)bytes, 1);
    int err = table ? UNI_OK : uni_fail(UNI_MEMORY, "no memory to read %s: %lld bytes asked for", names[what], (long long)bytes);
    if (!err)
        err = read_table(h, what, table);
    if (!err)
        err = uni_cuda_put(dst, table, bytes, &h->cells.problem);
    free(table);
    return err;
}

static int read_array(struct uni_harmony *h, enum uni_array what, void *dst, int64_t reached)
{
    struct uni_backend *b = &h->backend;
    if (what == UNI_CORRECTED)
        return b->read(b, UNI_CELLS_CORRECTED, h->n_rounds ? &h->shift : NULL, dst);
    if (what == UNI_GIVEN)
        return b->read(b, UNI_CELLS_CORRECTED, NULL, dst);
    if (what == UNI_BLOCKS)
        return b->read(b, UNI_CELLS_BLOCK, NULL, dst);
    if (h->n_rounds == 0)
        return uni_fail(UNI_INPUT, "no round was run, so there is nothing to read of %s", names[what]);
    if (what == UNI_ASSIGNMENTS)
        return b->read(b, UNI_CELLS_R, NULL, dst);
    return reached ? put_table(h, what, dst, reached) : read_table(h, what, dst);
}

/* After a failure, whose sentence stays. reached: by the card, if that still can. */
static void clear(const struct uni_harmony *h, void *dst, enum uni_array what, const int64_t shape[3], int64_t reached,
                  int writable)
{
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", uni_last_error());
    int err = reached ? uni_cuda_put(dst, NULL, reached, &h->cells.problem) : UNI_INPUT;
    if (err && writable)
        fill_nan(dst, what, shape);
    (void)uni_fail(err, "%s", sentence);
}

/* May it be written there? *reached: the bytes, where by the card; *writable: by this processor. */
static int check_dst(const struct uni_harmony *h, void *dst, int64_t bytes, int64_t *reached, int *writable)
{
    int64_t device, own = h->cells.problem.device;
    const int cuda = h->backend.solve != NULL;
    enum uni_where where = uni_where_is(dst, bytes, &device);
    if (where == UNI_UNSAID) {
        where = uni_is_writable(dst) ? UNI_PAGEABLE : UNI_ON_CARD;
        device = own;
    }
    *reached = cuda && (where == UNI_PINNED || where == UNI_MANAGED || where == UNI_ON_CARD) ? bytes : 0;
    *writable = where == UNI_PAGEABLE || where == UNI_PINNED || (where == UNI_MANAGED && !cuda);
    if (where == UNI_TORN)
        return uni_fail(UNI_INPUT,
                        "dst begins in the memory of a card (device %lld) and is too short: %lld bytes are to be written",
                        (long long)device, (long long)bytes);
    if (where == UNI_ON_CARD && !cuda)
        return uni_fail(UNI_INPUT, "dst lies in the memory of a card (device %lld), which backend cpu cannot write to",
                        (long long)device);
    if (where == UNI_ON_CARD && device != own)
        return uni_fail(UNI_INPUT, "dst lies in the memory of device %lld, and the run is on device %lld", (long long)device,
                        (long long)own);
    return UNI_OK;
}

/* A row for every cell: these are what uni_take moves. */
static int is_of_cells(enum uni_array what)
{
    return what == UNI_CORRECTED || what == UNI_ASSIGNMENTS || what == UNI_BLOCKS || what == UNI_GIVEN;
}

static int readable(const struct uni_harmony *h, enum uni_array what)
{
    switch (h->reason) {
    case UNI_NOT_RUN:
        return uni_fail(UNI_INPUT, "%s cannot be read: the run has not been run", names[what]);
    case UNI_FAILED:
        return uni_fail(UNI_INPUT, "%s cannot be read: the run failed", names[what]);
    case UNI_CANCELLED:
        return uni_fail(UNI_INPUT, "%s cannot be read: the run was cancelled", names[what]);
    default:
        return h->taken && is_of_cells(what) ? uni_fail(UNI_INPUT, "%s cannot be read: the result was taken", names[what])
                                             : UNI_OK;
    }
}

int uni_read(struct uni_harmony *h, enum uni_array what, void *dst)
{
    OWN_SURROUNDINGS;
    int64_t shape[3], reached;
    int writable;
    double from = uni_seconds();
    int err = uni_shape(h, what, shape);
    if (err)
        return err;
    err = check_dst(h, dst, bytes_of(what, shape), &reached, &writable);
    if (err)
        return err;
    err = readable(h, what);
    if (!err)
        err = read_array(h, what, dst, reached);
    if (err)
        clear(h, dst, what, shape, reached, writable);
    h->summary.seconds_read += uni_seconds() - from;
    return err;
}

int uni_take(struct uni_harmony *h, const float **corrected)
{
    OWN_SURROUNDINGS;
    const struct uni_problem *p = &h->cells.problem;
    const struct uni_shift *shift = h->n_rounds ? &h->shift : NULL;
    double from = uni_seconds();
    *corrected = NULL;
    int err = readable(h, UNI_CORRECTED);
    if (err)
        return err;
    h->taken = 1;
    if (h->backend.take) {
        err = h->backend.take(&h->backend, shift, corrected);
    } else {
        float *rows;
        const struct uni_array_row list[] = {UNI_ARRAY(rows, p->N_all * p->D)};
        err = uni_arena_open(&h->result, list, 1, "the corrected embedding");
        if (!err)
            err = h->backend.read(&h->backend, UNI_CELLS_CORRECTED, shift, rows);
        if (!err)
            *corrected = rows;
    }
    h->summary.seconds_read += uni_seconds() - from;
    return err;
}

const struct uni_summary *uni_summary(struct uni_harmony *h)
{
    static const char *const reasons[] = {
        "not run", "converged", "round limit", "stopped by caller", "one level: unchanged", "no rounds: unchanged",
        "failed",  "cancelled"};
    struct uni_summary *s = &h->summary;
    const struct uni_problem *p = &h->cells.problem;
    s->n_cells = p->N_all;
    s->n_skipped = p->N_all - p->N;
    s->n_dims = p->D;
    s->n_levels = h->cells.n_levels;
    s->n_clusters = p->K;
    s->n_variables = p->V;
    s->threads = h->backend.threads;
    s->backend = h->backend.name;
    s->reason = h->reason;
    s->reason_text = reasons[h->reason];
    s->n_rounds = h->n_rounds;
    s->n_objectives = h->n_objectives;
    s->rounds = h->rounds;
    s->objectives = h->objectives;
    s->n_warnings = h->warnings.n;
    for (int64_t i = 0; i < h->warnings.n; i++)
        h->warnings.at[i] = h->warnings.text[i];
    s->warnings = h->warnings.at;
    return s;
}

int uni_backend_at(int i, struct uni_backend_info *info)
{
    OWN_SURROUNDINGS;
    int present;
    if (i == 0)
        uni_cpu_describe(info);
    return i == 0 || (i > 0 && uni_cuda_describe(info, i - 1, &present));
}
