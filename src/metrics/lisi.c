/* SPDX-License-Identifier: BSD-3-Clause */
/* LISI of some cells: what is asked for is checked, cells are drawn, their neighbours found, and each gets its index. */
#include "lisi.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../error.h"
#include "../method.h"
#include "../surroundings.h"

enum { MOST_DIMS = 1000000, LEAST_CELLS = 5 };

void uni_lisi_options_init(struct uni_lisi_options *options, size_t size)
{
    const struct uni_lisi_options defaults = {.size = size, .perplexity = 30, .sample = 20000, .backend = UNI_BACKEND_AUTO};
    memset(options, 0, size);
    memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

/* ---- checks ---------------------------------------------------------------------------------------------------------------- */

static int check_options(struct uni_lisi_options *o, const struct uni_lisi_options *given)
{
    if (!given || given->size < sizeof(size_t))
        return uni_fail(UNI_OPTION, "the options of uni_lisi were not filled in by uni_lisi_options_init");
    uni_lisi_options_init(o, sizeof *o);
    memcpy(o, given, given->size < sizeof *o ? given->size : sizeof *o);
    if (!(o->perplexity > 1) || !isfinite(o->perplexity))
        return uni_fail(UNI_OPTION, "perplexity is %g; it must be a number > 1", o->perplexity);
    if (o->sample < 0)
        return uni_fail(UNI_OPTION, "sample is %lld; it must be >= 0 (0: every cell)", (long long)o->sample);
    if (o->threads < 0 || o->threads > 4096)
        return uni_fail(UNI_OPTION, "threads is %lld; it must be 0 to 4096", (long long)o->threads);
    if (o->backend < UNI_BACKEND_AUTO || o->backend > UNI_BACKEND_CUDA)
        return uni_fail(UNI_OPTION, "backend is %d; it must be one of enum uni_backend_kind", o->backend);
    if (o->device < 0 || o->device > 1023)
        return uni_fail(UNI_OPTION, "device is %lld; it must be 0 to 1023", (long long)o->device);
    return UNI_OK;
}

static const char *name_of(const struct uni_batch *b)
{
    return b->name ? b->name : "labels";
}

static int check_sizes(const struct uni_matrix *m, const struct uni_batch *labels, int n_labels)
{
    if (!m)
        return uni_fail(UNI_INPUT, "the embedding is NULL");
    if (m->n_cells < LEAST_CELLS)
        return uni_fail(UNI_INPUT, "the embedding has %lld cells; LISI needs at least %d", (long long)m->n_cells, LEAST_CELLS);
    if (m->n_dims < 1 || m->n_dims > MOST_DIMS)
        return uni_fail(UNI_INPUT, "the embedding has %lld dimensions; LISI takes 1 to %d", (long long)m->n_dims, MOST_DIMS);
    if (n_labels < 1 || !labels)
        return uni_fail(UNI_INPUT, "%d labellings; give at least one", n_labels);
    for (int l = 0; l < n_labels; l++) {
        const struct uni_batch *b = &labels[l];
        int err = uni_labels_check(b, name_of(b), m->n_cells, m->n_dims);
        if (err)
            return err;
    }
    return UNI_OK;
}

/* Also counts. used: zeros, a place for every level. */
static int check_levels(struct uni_lisi_score *score, const struct uni_batch *b, char *used)
{
    memset(used, 0, (size_t)b->n_levels);
    *score = (struct uni_lisi_score){0};
    int err = uni_levels_check(&score->n_missing, b, name_of(b));
    if (err)
        return err;
    for (int64_t i = 0; i < b->n_cells; i++)
        if (b->level[i] >= 0 && !used[b->level[i]])
            used[b->level[i]] = 1, score->n_levels++;
    if (!score->n_levels)
        return uni_fail(UNI_INPUT, "\"%s\" has no label for any of the %lld cells", name_of(b), (long long)b->n_cells);
    return UNI_OK;
}

/* ---- the work -------------------------------------------------------------------------------------------------------------- */

struct lisi {
    const struct uni_batch *labels;
    int n_labels;
    struct uni_lisi_plan plan;
    int64_t most_levels;
    double *values;                     /* (n_labels, n_sampled) */
    int64_t *cells;                     /* (n_sampled) those that are looked at, where not all are */
    double *sorted;                     /* (n_sampled) */
    char *used;                         /* (most_levels) */
    double *share;                      /* (threads, most_levels) */
    double *weight;                     /* (threads, 2 n_neighbours) weights, then distances */
    const struct uni_near_device *card; /* or NULL: the CPU finds the neighbours alone */
    char warning[UNI_LISI_WARNING];     /* why, where auto would have taken one; or "" */
    struct uni_arena arena;

    uni_lisi_progress_fn progress; /* or NULL */
    void *progress_user;
    struct uni_surroundings *callers;
    _Atomic int64_t done; /* cells */
    int64_t tell;         /* when so many are done */
};

enum { ARRAYS = 6, TELLINGS = 200 };
static void list_arrays(struct uni_array_row list[ARRAYS], struct lisi *job, int64_t values)
{
    const struct uni_lisi_plan *p = &job->plan;
    const struct uni_array_row rows[ARRAYS] = {UNI_ARRAY(job->values, values),
                                               UNI_ARRAY(job->cells, p->n_sampled < p->n_cells ? p->n_sampled : 0),
                                               UNI_ARRAY(job->sorted, p->n_sampled),
                                               UNI_ARRAY(job->used, job->most_levels),
                                               UNI_ARRAY(job->share, p->threads * job->most_levels),
                                               UNI_ARRAY(job->weight, p->threads * 2 * p->n_neighbours)};
    memcpy(list, rows, sizeof rows);
}

static struct uni_near_job near_job(const struct lisi *job, const struct uni_lisi_options *o, const struct uni_matrix *plain)
{
    const struct uni_lisi_plan *p = &job->plan;
    return (struct uni_near_job){.plain = plain,
                                 .k = p->n_neighbours,
                                 .n_queries = p->n_sampled,
                                 .query = p->n_sampled < p->n_cells ? job->cells : NULL,
                                 .threads = o->threads,
                                 .cancel = o->cancel,
                                 .device = job->card,
                                 .device_number = o->device};
}

static void leave_card(struct lisi *job, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(job->warning, sizeof job->warning, format, arguments);
    va_end(arguments);
    job->card = NULL;
}

/* Asks for no card, not even for the plugin, where there is little to do. A card that is not there needs no words, one that
 * cannot be used does, as in choose.c. */
static void find_card_if_any(struct lisi *job, int64_t device)
{
    enum { AUTO_PAIRS = 1000000000 }; /* of cells: a second's work on one thread */
    const struct uni_lisi_plan *p = &job->plan;
    struct uni_backend_info info;
    int present = 0;
    if (p->n_sampled <= (AUTO_PAIRS - 1) / p->n_cells)
        return;
    if (!uni_cuda_describe(&info, device, &present) || !info.usable) {
        if (present)
            leave_card(job, "backend cuda cannot be used, so the CPU is: %s", info.detail);
    } else if (!uni_near_list(p->n_neighbours))
        leave_card(job, "backend cuda does not find %lld neighbours, which perplexity %g takes, so the CPU is used",
                   (long long)p->n_neighbours, p->perplexity);
    else if (uni_cuda_near(&job->card, device))
        leave_card(job, "backend cuda cannot be used, so the CPU is: %s", uni_last_error());
}

static int find_card(struct lisi *job, const struct uni_lisi_options *o)
{
    const struct uni_lisi_plan *p = &job->plan;
    int err = UNI_OK;
    if (o->backend == UNI_BACKEND_AUTO)
        find_card_if_any(job, o->device);
    if (o->backend != UNI_BACKEND_CUDA)
        return UNI_OK;
    err = uni_cuda_near(&job->card, o->device);
    return err || uni_near_list(p->n_neighbours)
               ? err
               : uni_fail(UNI_OPTION, "perplexity %g takes %lld neighbours, and backend cuda finds %d; use backend cpu",
                          p->perplexity, (long long)p->n_neighbours, UNI_NEAR_MOST - UNI_NEAR_SPARE);
}

/* The most that it takes, on the CPU alone too where auto may turn to that. */
static int64_t search_bytes(struct lisi *job, const struct uni_lisi_options *o, const struct uni_matrix *plain)
{
    struct uni_near_job near = near_job(job, o, plain);
    int64_t bytes = uni_neighbours_bytes(&near, &job->plan.threads), alone = bytes;
    if (near.device && o->backend == UNI_BACKEND_AUTO) {
        near.device = NULL;
        alone = uni_neighbours_bytes(&near, &job->plan.threads);
    }
    return bytes < 0 || alone < 0 ? -1 : bytes > alone ? bytes : alone;
}

/* Where there are fewer cells than the perplexity takes, it is the largest that they allow. */
static void settle_perplexity(struct uni_lisi_plan *p, double perplexity)
{
    p->perplexity = perplexity;
    if (floor(3 * perplexity) <= (double)p->n_cells) {
        p->n_neighbours = (int64_t)(3 * perplexity) - 1;
        return;
    }
    p->perplexity = (double)(p->n_cells - 1) / 3;
    p->n_neighbours = p->n_cells - 2;
    snprintf(p->note, sizeof p->note, "perplexity %g takes %.0f cells and there are %lld: (cells - 1) / 3 = %.4g is used",
             perplexity, floor(3 * perplexity), (long long)p->n_cells, p->perplexity);
}

static int make_plan(struct lisi *job, const struct uni_matrix *m, const struct uni_batch *labels, int n_labels,
                     const struct uni_lisi_options *o)
{
    struct uni_array_row list[ARRAYS];
    struct uni_matrix plain = *m;
    int err = check_sizes(m, labels, n_labels);
    if (err)
        return err;
    *job = (struct lisi){.labels = labels, .n_labels = n_labels, .plan = {.n_cells = m->n_cells, .n_dims = m->n_dims}};
    for (int l = 0; l < n_labels; l++)
        job->most_levels = labels[l].n_levels > job->most_levels ? labels[l].n_levels : job->most_levels;
    struct uni_lisi_plan *p = &job->plan;
    p->n_sampled = o->sample && o->sample < m->n_cells ? o->sample : m->n_cells;
    settle_perplexity(p, o->perplexity);
    if (!m->row_stride && !m->col_stride) {
        plain.col_stride = m->dtype == UNI_FLOAT64 ? 8 : 4;
        plain.row_stride = m->n_dims * plain.col_stride;
    }
    err = find_card(job, o);
    if (err)
        return err;
    int64_t search = search_bytes(job, o, &plain);
    list_arrays(list, job, n_labels * p->n_sampled);
    int64_t own = uni_arena_bytes(list, ARRAYS);
    if (search < 0 || own < 0 || __builtin_add_overflow(search, own, &p->bytes))
        return uni_fail(UNI_MEMORY, "the sizes asked for exceed 2^63 bytes of memory for LISI; use fewer cells or levels");
    return UNI_OK;
}

int uni_lisi_plan(struct uni_lisi_plan *plan, const struct uni_matrix *embedding, const struct uni_batch *labels, int n_labels,
                  const struct uni_lisi_options *options)
{
    OWN_SURROUNDINGS;
    struct uni_lisi_options o;
    struct lisi job;
    int err = check_options(&o, options);
    memset(plan, 0, sizeof *plan);
    if (!err)
        err = make_plan(&job, embedding, labels, n_labels, &o);
    if (!err)
        *plan = job.plan;
    return err;
}

/* n_sampled of the cells, in their order, every set of that many as likely as any other (Knuth's selection sampling). */
static void draw_cells(const struct lisi *job, int64_t seed)
{
    uint64_t state = (uint64_t)seed;
    int64_t taken = 0, n = job->plan.n_cells, wanted = job->plan.n_sampled;
    for (int64_t i = 0; taken < wanted; i++)
        if (uni_random_below(&state, n - i) < wanted - taken)
            job->cells[taken++] = i;
}

/* The caller's thread is the pool's first. */
static void tell(struct lisi *job, int64_t done)
{
    int64_t n = job->plan.n_sampled;
    if (!job->progress || done < job->tell)
        return;
    job->tell = done + n / TELLINGS + 1;
    uni_leave(job->callers);
    job->progress(done, n, job->progress_user);
    uni_enter(job->callers);
}

static void index_cell(void *context, int64_t i, const struct uni_near_cell *near, int thread)
{
    struct lisi *job = context;
    int64_t k = job->plan.n_neighbours, n = job->plan.n_sampled;
    double *weight = job->weight + thread * 2 * k, *distance = weight + k;
    for (int64_t j = 0; j < k; j++)
        distance[j] = sqrt(near[j].square);
    int found = uni_lisi_weights(weight, distance, k, job->plan.perplexity);
    for (int l = 0; l < job->n_labels; l++)
        job->values[l * n + i] =
            found ? uni_lisi_index(weight, near, k, job->labels[l].level, job->share + thread * job->most_levels) : NAN;
    int64_t done = ++job->done;
    if (thread == 0)
        tell(job, done);
}

static void give_cells(const struct lisi *job, int64_t *cells)
{
    for (int64_t i = 0; cells && i < job->plan.n_sampled; i++)
        cells[i] = job->plan.n_sampled < job->plan.n_cells ? job->cells[i] : i;
}

static int search_once(struct lisi *job, const struct uni_lisi_options *o, const struct uni_matrix *plain)
{
    struct uni_near_job near = near_job(job, o, plain);
    struct uni_neighbours search;
    int err = uni_neighbours_open(&search, &near);
    if (!err)
        err = uni_neighbours_find(&search, index_cell, job);
    uni_neighbours_close(&search);
    return err;
}

/* Where a card fails that auto has chosen, the CPU does all of it, and progress waits until there is more of it than before. */
static int search(struct lisi *job, const struct uni_lisi_options *o, const struct uni_matrix *plain)
{
    int err = search_once(job, o, plain);
    if (!err || !job->card || o->backend != UNI_BACKEND_AUTO || err == UNI_STOPPED)
        return err;
    leave_card(job, "backend cuda cannot take this, so the CPU does: %s", uni_last_error());
    job->done = 0;
    return search_once(job, o, plain);
}

static int run(struct lisi *job, const struct uni_matrix *embedding, const struct uni_lisi_options *o, double *values,
               int64_t *cells, struct uni_lisi_score *scores)
{
    int err = 0;
    struct uni_array_row list[ARRAYS];
    struct uni_matrix plain;
    struct uni_lisi_score unused;
    int64_t n = job->plan.n_sampled;
    list_arrays(list, job, values ? 0 : job->n_labels * n);
    TRY(uni_arena_open(&job->arena, list, ARRAYS, "LISI"));
    job->values = values ? values : job->values;
    for (int l = 0; l < job->n_labels; l++)
        TRY(check_levels(scores ? &scores[l] : &unused, &job->labels[l], job->used));
    TRY(uni_matrix_check(embedding, &plain, NULL));
    if (n < job->plan.n_cells)
        draw_cells(job, o->seed);
    TRY(search(job, o, &plain));
    give_cells(job, cells);
    for (int l = 0; scores && l < job->n_labels; l++)
        uni_lisi_describe(&scores[l], job->values + l * n, n, job->plan.n_cells, job->sorted);
done:
    uni_arena_close(&job->arena);
    return err;
}

int uni_lisi(const struct uni_matrix *embedding, const struct uni_batch *labels, int n_labels,
             const struct uni_lisi_options *options, double *values, int64_t *cells, struct uni_lisi_score *scores)
{
    OWN_SURROUNDINGS;
    struct uni_lisi_options o;
    struct lisi job;
    int err = check_options(&o, options);
    if (!err)
        err = make_plan(&job, embedding, labels, n_labels, &o);
    if (err)
        return err;
    job.progress = o.progress;
    job.progress_user = o.progress_user;
    job.callers = &callers;
    err = run(&job, embedding, &o, values, cells, scores);
    for (int64_t i = 0; err && values && i < n_labels * job.plan.n_sampled; i++)
        values[i] = NAN;
    if (o.warning)
        memcpy(o.warning, job.warning, sizeof job.warning);
    return err;
}
