/* SPDX-License-Identifier: BSD-3-Clause */
/* The method: uni_run is the loop, top to bottom; uni_open and uni_close around it. What can be read afterwards: result.c. */
#include "harmony.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool.h"
#include "error.h"
#include "formula.h"

double uni_seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Adds the time since *from to *stage, and sets *from to now. */
static void lap(double *stage, double *from)
{
    double now = uni_seconds();
    *stage += now - *from;
    *from = now;
}

void uni_warn(struct uni_warnings *w, const char *format, ...)
{
    if (w->n == UNI_MAX_WARNINGS)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(w->text[w->n], sizeof w->text[0], format, args);
    va_end(args);
    w->n++;
}

/* ---- open ---------------------------------------------------------------------------------------------------------------- */

enum { TABLES = 14 };
static void list_tables(struct uni_array_row list[TABLES], struct uni_harmony *h)
{
    const struct uni_problem *p = &h->cells.problem;
    const struct uni_options *o = &h->options;
    int64_t tests = o->sweeps > o->window + 1 ? o->sweeps : 1; /* objectives a round: all where the sweep rule can fire */
    int64_t scratch = uni_is_simple(p) ? uni_ridge_scratch(p->K, p->D, p->G) : uni_joint_scratch(p);
    const struct uni_array_row rows[TABLES] = {UNI_ARRAY(h->Y, p->K * p->D),
                                               UNI_ARRAY(h->start, p->K * p->D),
                                               UNI_ARRAY(h->O, p->G * p->K),
                                               UNI_ARRAY(h->level_O, 2 * p->B * p->K),
                                               UNI_ARRAY(h->S, (p->by_level ? p->B + 1 : p->G) * p->K * p->D),
                                               UNI_ARRAY(h->W, (uni_is_simple(p) ? p->G : p->B) * p->K * p->D),
                                               UNI_ARRAY(h->slope, p->X * p->K * p->D),
                                               UNI_ARRAY(h->xS, p->X * p->K * p->D),
                                               UNI_ARRAY(h->xO, p->X * p->G * p->K),
                                               UNI_ARRAY(h->xx, p->X * p->X * p->K),
                                               UNI_ARRAY(h->part, p->by_level || p->X ? p->G * p->K : 0),
                                               UNI_ARRAY(h->scratch, scratch),
                                               UNI_ARRAY(h->rounds, o->max_rounds + 1),
                                               UNI_ARRAY(h->objectives, o->max_rounds * tests + 2)};
    memcpy(list, rows, sizeof rows);
}

/* The R package's way, but not where the caller has centroids. */
static int seeds_on_all(const struct uni_harmony *h)
{
    return h->options.compat == UNI_COMPAT_R204 && !h->options.centroids;
}

static int checked_sizes(const struct uni_problem *p)
{
    int64_t rows = uni_product(p->N, uni_product(p->K, 64)), tables = uni_product(uni_product(p->G, p->K), p->D * 64);
    if (rows == INT64_MAX)
        return uni_fail(UNI_MEMORY, "%lld cells x %lld clusters are more than any machine can hold; use fewer", (long long)p->N,
                        (long long)p->K);
    if (tables > INT64_MAX / 64)
        return uni_fail(UNI_MEMORY, "%lld levels x %lld clusters x %lld dimensions are too many for the tables; use fewer",
                        (long long)p->G, (long long)p->K, (long long)p->D);
    return UNI_OK;
}

/* With backend auto, what the card cannot take goes to the CPU, if that can. Returns 0 where it does not. */
static int cpu_instead(struct uni_harmony *h, int err)
{
    if (h->options.backend != UNI_BACKEND_AUTO || !h->backend.solve || err == UNI_INPUT || h->where == UNI_ON_CARD)
        return 0;
    uni_warn(&h->warnings, "backend cuda cannot take this, so the CPU does: %s", uni_last_error());
    uni_cpu_backend(&h->backend);
    return 1;
}

/* Of uni_take, where the backend cannot give its own rows. */
static int64_t result_bytes(const struct uni_harmony *h)
{
    const struct uni_problem *p = &h->cells.problem;
    return h->backend.take ? 0 : p->N_all * p->D * (int64_t)sizeof(float);
}

/* Leaves it in the summary. */
static int predict(struct uni_harmony *h, struct uni_takes *takes)
{
    const struct uni_problem *p = &h->cells.problem;
    struct uni_array_row list[TABLES];
    int err = checked_sizes(p);
    if (err)
        return err;
    list_tables(list, h);
    int64_t tables = uni_arena_bytes(list, TABLES);
    int64_t seed = uni_seed_bytes(p->N, p->D, p->K, seeds_on_all(h), h->cells.weighted), rest = uni_problem_bytes(&h->cells);
    err = h->backend.bytes(p, h->cells.group_cells, takes);
    if (err && cpu_instead(h, err))
        err = h->backend.bytes(p, h->cells.group_cells, takes);
    if (err)
        return err;
    if (tables < 0 || takes->host < 0 || seed < 0 || takes->host > INT64_MAX / 2)
        return uni_fail(UNI_MEMORY, "%lld cells with %lld clusters need more memory than 2^62 bytes; use fewer", (long long)p->N,
                        (long long)p->K);
    h->summary.bytes = tables + takes->host + seed + rest + result_bytes(h);
    h->summary.bytes_card = takes->card;
    return UNI_OK;
}

static int reduce_clusters(struct uni_harmony *h)
{
    int64_t K = h->cells.problem.K, distinct = h->seed.distinct > 0 ? h->seed.distinct : 1;
    if (!h->options.centroids && K > distinct) {
        uni_warn(&h->warnings, "%lld clusters asked for, but there are only %lld different cells: using %lld clusters",
                 (long long)K, (long long)distinct, (long long)distinct);
        K = distinct;
    }
    return uni_problem_settle(&h->cells, &h->options, K);
}

static int take_centroids(struct uni_harmony *h)
{
    const struct uni_problem *p = &h->cells.problem;
    if (!h->options.centroids)
        return UNI_OK;
    for (int64_t k = 0; k < p->K; k++) {
        float *y = h->Y + k * p->D;
        memcpy(y, h->options.centroids + k * p->D, (size_t)p->D * sizeof *y);
        for (int64_t d = 0; d < p->D; d++)
            if (!isfinite(y[d]))
                return uni_fail(UNI_INPUT, "starting centroid %lld (from 1) has a non-finite value in column %lld",
                                (long long)k + 1, (long long)d + 1);
        if (!uni_normalise(y, p->D))
            return uni_fail(UNI_INPUT, "starting centroid %lld (from 1) is all zeros: it has no direction", (long long)k + 1);
    }
    return UNI_OK;
}

/* What the card was to read itself, the CPU is to read now: the values are not checked yet; what there was to warn of, has been.
 */
static int open_on(struct uni_harmony *h, struct uni_matrix *plain)
{
    int err = UNI_OK;
    struct uni_problem *p = &h->cells.problem;
    if (!h->backend.solve && p->reached) {
        err = uni_matrix_check_on(h->pool, plain, plain, &(struct uni_warnings){0});
        p->reached = 0;
    }
    return err ? err : h->backend.open(&h->backend, p, plain);
}

/* That not all fits the card is said once it is there, as it was found then. */
static int open_backend(struct uni_harmony *h, struct uni_matrix *plain)
{
    struct uni_takes takes;
    int err = open_on(h, plain);
    if (!err && *h->backend.takes.note)
        uni_warn(&h->warnings, "%s", h->backend.takes.note);
    if (!err || !cpu_instead(h, err))
        return err;
    err = predict(h, &takes);
    return err ? err : open_on(h, plain);
}

static int open_pool(struct uni_harmony *h)
{
    struct uni_problem *p = &h->cells.problem;
    int64_t threads = uni_pool_size(p->threads);
    p->pool = h->pool = uni_pool_open(threads, p->cancel);
    return p->pool ? UNI_OK : uni_fail(UNI_MEMORY, "no memory for %lld threads", (long long)threads);
}

static int open_run(struct uni_harmony *h, const struct uni_matrix *embedding, const struct uni_batch *batches, int n_batches)
{
    int err = 0;
    struct uni_problem *p = &h->cells.problem;
    struct uni_array_row list[TABLES];
    struct uni_takes takes;
    struct uni_matrix plain;
    TRY(uni_problem_open(&h->cells, &h->warnings, embedding->n_cells, embedding->n_dims, batches, n_batches, &h->options));
    TRY(open_pool(h));
    TRY(uni_take_embedding(h, embedding, &plain));
    TRY(checked_sizes(p));
    TRY(uni_problem_sort(&h->cells, &h->options));
    TRY(uni_seed_open(&h->seed, p, &plain, p->K, seeds_on_all(h), (uint64_t)h->options.seed));
    TRY(reduce_clusters(h));
    TRY(predict(h, &takes));
    list_tables(list, h);
    TRY(uni_arena_open(&h->tables, list, TABLES, "the tables of clusters"));
    TRY(take_centroids(h));
    TRY(open_backend(h, &plain));
done:
    return err;
}

int uni_open(struct uni_harmony **run, const struct uni_matrix *embedding, const struct uni_batch *batches, int n_batches,
             const struct uni_options *options)
{
    OWN_SURROUNDINGS;
    double from = uni_seconds();
    *run = NULL;
    if (!embedding || !batches || !options)
        return uni_fail(UNI_INPUT, "the embedding, the batches or the options are NULL");
    struct uni_harmony *h = calloc(1, sizeof *h);
    if (!h)
        return uni_fail(UNI_MEMORY, "no memory for a run: %zu bytes asked for", sizeof *h);
    h->options = *options;
    int err = open_run(h, embedding, batches, n_batches);
    if (err) {
        uni_close(h);
        return err;
    }
    h->options.centroids = NULL; /* the caller's arrays are his own again */
    h->options.cluster_sigma = h->options.weights = NULL;
    h->options.covariates = NULL;
    h->given_centroids = options->centroids != NULL;
    lap(&h->summary.seconds_open, &from);
    *run = h;
    return UNI_OK;
}

int uni_plan(struct uni_plan *plan, int64_t n_cells, int64_t n_dims, const struct uni_batch *batches, int n_batches,
             const struct uni_options *options)
{
    OWN_SURROUNDINGS;
    int err = 0;
    struct uni_takes takes;
    struct uni_harmony *h = calloc(1, sizeof *h);
    memset(plan, 0, sizeof *plan);
    if (!h)
        return uni_fail(UNI_MEMORY, "no memory for a plan: %zu bytes asked for", sizeof *h);
    h->options = *options;
    TRY(uni_problem_open(&h->cells, &h->warnings, n_cells, n_dims, batches, n_batches, options));
    TRY(uni_choose_backend(h));
    TRY(predict(h, &takes));
    plan->bytes = h->summary.bytes;
    plan->bytes_card = h->summary.bytes_card;
    memcpy(plan->note, takes.note, sizeof plan->note);
    plan->bytes_open = h->backend.solve
                           ? plan->bytes - result_bytes(h)
                           : 4 * n_cells * (n_dims + 1) + uni_problem_bytes(&h->cells) +
                                 uni_seed_bytes(n_cells, n_dims, h->cells.problem.K, seeds_on_all(h), h->cells.weighted);
    plan->n_cells = n_cells;
    plan->n_dims = n_dims;
    plan->n_levels = h->cells.n_levels;
    plan->n_clusters = h->cells.problem.K;
    plan->threads = h->backend.solve ? h->backend.threads : uni_pool_size(options->threads);
    plan->backend = h->backend.solve ? "cuda" : "cpu";
done:
    uni_close(h);
    return err;
}

void uni_close(struct uni_harmony *h)
{
    if (!h)
        return;
    if (h->backend.close)
        h->backend.close(&h->backend);
    uni_pool_close(h->pool);
    uni_seed_close(&h->seed);
    uni_arena_close(&h->tables);
    uni_arena_close(&h->result);
    uni_problem_close(&h->cells);
    free(h);
}

/* ---- run ----------------------------------------------------------------------------------------------------------------- */

/* The objective from its sums over cells and the tables; leaves O by level and E, where O is here. */
static int record_objective(struct uni_harmony *h, const struct uni_fit *fit, int64_t round, int64_t sweep)
{
    int err = 0;
    const struct uni_problem *p = &h->cells.problem;
    double scale = uni_objective_scale(p->mass), *E = h->level_O + p->B * p->K;
    double diversity = h->backend.diversity;
    if (!h->backend.solve) {
        uni_levels_of_groups(h->level_O, h->O, p);
        uni_expected(E, h->level_O, p);
        TRY(uni_diversity(&diversity, h->level_O, E, p, &h->backend));
    }
    struct uni_objective *o = &h->objectives[h->n_objectives++];
    o->round = round;
    o->sweep = sweep;
    o->diversity = scale * diversity;
    o->total = scale * (fit->distance + fit->entropy) + o->diversity;
    o->distance = h->options.terms ? scale * fit->distance : NAN;
    o->entropy = h->options.terms ? scale * fit->entropy : NAN;
    if (round > 0 && !isfinite(o->total))
        err = uni_fail(UNI_NUMERIC, "the objective of round %lld is not finite; try a larger sigma or a smaller theta",
                       (long long)round);
done:
    return err;
}

/* Stop the sweeps? The mean of the newest `window` objectives against the mean of those one earlier (harmony2.md section 4). */
static int sweeps_settled(const struct uni_harmony *h, int64_t sweeps)
{
    int64_t window = h->options.window;
    const struct uni_objective *newest = &h->objectives[h->n_objectives - 1];
    double old = 0, new = 0;
    if (sweeps - 1 <= window)
        return 0;
    for (int64_t i = 0; i < window; i++) {
        new += newest[-i].total;
        old += newest[-i - 1].total;
    }
    return fabs(old - new) < h->options.sweep_tol * fabs(old);
}

/* One round's sweeps. Where the rule cannot fire, one objective, after the last, is enough. */
static int run_sweeps(struct uni_harmony *h, int64_t round, int64_t *sweeps)
{
    const struct uni_options *o = &h->options;
    struct uni_fit fit;
    int64_t at_once = o->sweeps > o->window + 1 ? 1 : o->sweeps;
    for (*sweeps = 0; *sweeps < o->sweeps;) {
        int err = h->backend.sweep(&h->backend, h->backend.solve ? NULL : h->O, &fit, at_once, o->terms);
        if (err)
            return err;
        *sweeps += at_once;
        err = record_objective(h, &fit, round, *sweeps);
        if (err)
            return err;
        if (sweeps_settled(h, *sweeps))
            break;
    }
    return UNI_OK;
}

int uni_fetch_tables(struct uni_harmony *h)
{
    const struct uni_problem *p = &h->cells.problem;
    if (!h->backend.solve || h->tables_here)
        return UNI_OK;
    int err = h->backend.tables(&h->backend, h->O, h->shift.W == UNI_KEPT ? h->W : NULL);
    uni_levels_of_groups(h->level_O, h->O, p);
    uni_expected(h->level_O + p->B * p->K, h->level_O, p);
    h->tables_here = !err;
    return err;
}

/* Moments and ridge: by the backend where it can, else here. */
static int run_ridge(struct uni_harmony *h, struct uni_round *r, double *from)
{
    struct uni_ridge ridge = {.cutoff = h->cells.cutoff, .alpha = h->options.alpha, .lambda = h->cells.lambda};
    const struct uni_problem *p = &h->cells.problem;
    int err = 0, solved = 0;
    h->tables_here = 0;
    if (h->backend.solve)
        TRY(h->backend.solve(&h->backend, &ridge, h->Y, &solved));
    if (!solved) {
        TRY(uni_fetch_tables(h));
        double *E = h->level_O + p->B * p->K;
        struct uni_sums sums = {h->O, h->level_O, E, h->S, h->xS, h->xO, h->xx};
        if (p->by_level || p->X)
            uni_joint_parts(h->part, &ridge, h->level_O, p);
        TRY(h->backend.moments(&h->backend, h->S, h->part));
        if (p->X)
            TRY(h->backend.slopes(&h->backend, h->xS, h->xO, h->xx, h->part));
        lap(&h->summary.seconds_moments, from);
        if (uni_is_simple(p))
            TRY(uni_ridge_solve(&ridge, h->W, h->Y, h->S, h->O, E, p, &h->backend, h->scratch));
        else
            TRY(uni_ridge_joint(&ridge, h->W, h->slope, h->Y, &sums, p, &h->backend, h->scratch));
    }
    h->shift = (struct uni_shift){solved ? UNI_KEPT : h->W, h->slope, 1};
    r->change = ridge.change;
    r->pruned_pairs = ridge.pruned_pairs;
    r->skipped_clusters = ridge.skipped_clusters;
done:
    return err;
}

enum { OVERCORRECTED = 3 }; /* rounds whose correction the next one takes too far, where asked for */

/* Stop the rounds? Two rules (harmony2.md section 4). */
static int rounds_settled(const struct uni_options *o, const struct uni_round *r, int64_t round)
{
    double tol = isnan(o->tol) ? (o->stop == UNI_STOP_CHANGE ? 0.03 : 0.01) : o->tol;
    if (tol < 0 || (o->overcorrect > 1 && round <= OVERCORRECTED + 1)) /* an overcorrected state is not the end */
        return 0;
    return o->stop == UNI_STOP_CHANGE ? round >= 2 && r->change < tol : r->objective_change < tol;
}

static int report(struct uni_harmony *h, double from)
{
    struct uni_progress progress = {.round = h->n_rounds, .max_rounds = h->options.max_rounds, .seconds = uni_seconds() - from};
    progress.objective = h->objectives[h->n_objectives - 1].total;
    progress.change = h->n_rounds ? h->rounds[h->n_rounds - 1].change : 1;
    if (!h->options.progress)
        return UNI_OK;
    uni_leave(h->callers);
    int stop = h->options.progress(&progress, h->options.progress_user);
    uni_enter(h->callers);
    if (stop)
        return uni_fail(UNI_STOPPED, "stopped by the caller after round %lld", (long long)h->n_rounds);
    return UNI_OK;
}

static int start_centroids(struct uni_harmony *h)
{
    const struct uni_problem *p = &h->cells.problem;
    int err = h->given_centroids ? UNI_OK : uni_seed_run(&h->seed, h->Y, &h->backend, p->K, p->D, (uint64_t)h->options.seed);
    memcpy(h->start, h->Y, (size_t)(p->K * p->D) * sizeof *h->Y);
    uni_seed_close(&h->seed);
    return err;
}

static int run_rounds(struct uni_harmony *h)
{
    int err = 0;
    struct uni_summary *s = &h->summary;
    struct uni_backend *b = &h->backend;
    struct uni_fit fit;
    double from = uni_seconds(), began = from, old;
    TRY(start_centroids(h));
    lap(&s->seconds_seed, &from);
    h->reason = UNI_ROUND_LIMIT;
    for (int64_t round = 1; round <= h->options.max_rounds; round++) {
        struct uni_round *r = &h->rounds[round - 1];
        double round_began = from;
        h->shift.step = 1 < round && round <= OVERCORRECTED + 1 && round < h->options.max_rounds ? h->options.overcorrect : 1;
        TRY(b->assign(b, b->solve ? NULL : h->O, round == 1 ? &fit : NULL, round == 1 ? NULL : &h->shift, h->Y));
        h->shift.step = 1;
        lap(&s->seconds_assign, &from);
        if (round == 1) {
            TRY(record_objective(h, &fit, 0, 0));
            TRY(report(h, began));
        }
        old = h->objectives[h->n_objectives - 1].total;
        TRY(run_sweeps(h, round, &r->sweeps));
        lap(&s->seconds_sweep, &from);
        TRY(run_ridge(h, r, &from));
        lap(&s->seconds_ridge, &from);
        r->objective = h->objectives[h->n_objectives - 1].total;
        r->objective_change = (old - r->objective) / fabs(old);
        r->seconds = from - round_began;
        h->n_rounds = round;
        TRY(report(h, began));
        if (rounds_settled(&h->options, r, round)) {
            h->reason = UNI_CONVERGED;
            break;
        }
    }
done:
    return err;
}

int uni_run(struct uni_harmony *h)
{
    OWN_SURROUNDINGS;
    double from = uni_seconds();
    if (h->reason != UNI_NOT_RUN)
        return uni_fail(UNI_INPUT, "this run has been run; open a new one");
    int err = UNI_OK;
    h->callers = &callers;
    if (h->cells.problem.G < 2) {
        uni_warn(&h->warnings,
                 "only one batch level has cells: there is nothing to integrate, and the embedding comes back unchanged");
        h->reason = UNI_ONE_LEVEL;
    } else if (h->options.max_rounds == 0) {
        h->reason = UNI_NO_ROUNDS;
    } else {
        err = run_rounds(h);
    }
    if (err)
        h->reason = err != UNI_STOPPED                        ? UNI_FAILED
                    : h->options.cancel && *h->options.cancel ? UNI_CANCELLED
                                                              : UNI_STOPPED_BY_CALLER;
    lap(&h->summary.seconds_run, &from);
    return err;
}
