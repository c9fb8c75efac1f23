/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu_layout.h"

#include <string.h>

#include "cpu_kernels.h"
#include "../error.h"

enum { MOST_PARTS = 64 };

static int64_t between(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Rows of a task: enough of them that handing it out costs nothing, enough tasks for some threads. */
static int64_t task_rows(const struct uni_problem *p)
{
    return between(p->N / 64, 192, 4096);
}

static int64_t step_rows(const struct uni_problem *p)
{
    return between(p->N / p->Q / 16, 512, 4096);
}

static int64_t slice_parts(const struct uni_problem *p, int64_t group_cells)
{
    return between(group_cells / between(p->N / 16, 256, 8192), 1, MOST_PARTS);
}

void uni_layout_bound(struct uni_layout *l, const struct uni_problem *p, const int64_t *group_cells)
{
    memset(l, 0, sizeof *l);
    for (int64_t g = 0; g < p->G; g++) {
        int64_t parts = slice_parts(p, group_cells[g]);
        l->n_pieces += group_cells[g] < p->Q ? group_cells[g] : p->Q;
        l->n_slices += parts;
        l->n_parts += parts > 1 ? parts : 0;
    }
    l->n_runs = l->n_pieces + p->N / RUN_ROWS;
    l->n_slots = 2 * (p->N / RUN_ROWS);
    l->n_tasks = p->N / task_rows(p) + 1;
    l->n_steps = p->N / step_rows(p) + p->Q;
    l->n_multiple = p->N / RUN_ROWS;
}

enum { ARRAYS = 12 };
static void list_arrays(struct uni_array_row list[ARRAYS], struct uni_layout *l, const struct uni_problem *p)
{
    const struct uni_array_row rows[ARRAYS] = {
        UNI_ARRAY(l->piece, l->n_pieces), UNI_ARRAY(l->block_first, p->Q + 1), UNI_ARRAY(l->multiple, l->n_multiple),
        UNI_ARRAY(l->run, l->n_runs + 1), UNI_ARRAY(l->group_run, p->G + 1),   UNI_ARRAY(l->task, l->n_tasks),
        UNI_ARRAY(l->slice, l->n_slices), UNI_ARRAY(l->group_slice, p->G + 1), UNI_ARRAY(l->runs_by_block, l->n_runs),
        UNI_ARRAY(l->step, l->n_steps),   UNI_ARRAY(l->step_first, p->Q + 1),  UNI_ARRAY(l->multiple_first, p->Q + 1)};
    memcpy(list, rows, sizeof rows);
}

int64_t uni_layout_bytes(struct uni_layout *l, const struct uni_problem *p)
{
    struct uni_array_row list[ARRAYS];
    list_arrays(list, l, p);
    return uni_arena_bytes(list, ARRAYS);
}

/* block_first: the pieces of earlier blocks */
static void count_pieces(struct uni_layout *l, const struct uni_problem *p)
{
    memset(l->block_first, 0, (size_t)(p->Q + 1) * sizeof *l->block_first);
    for (int64_t i = 0; i < p->G * p->Q; i++)
        l->block_first[i % p->Q + 1] += p->piece[i + 1] > p->piece[i];
    for (int64_t q = 0; q < p->Q; q++)
        l->block_first[q + 1] += l->block_first[q];
    l->n_pieces = l->block_first[p->Q];
}

/* Runs in the order of the rows, pieces in that of a sweep: step_first serves as each block's next free place. */
static void cut_runs(struct uni_layout *l, const struct uni_problem *p)
{
    int64_t runs = 0, slots = 0;
    memcpy(l->step_first, l->block_first, (size_t)p->Q * sizeof *l->step_first);
    for (int64_t i = 0; i < p->G * p->Q; i++) {
        if (i % p->Q == 0)
            l->group_run[i / p->Q] = runs;
        int64_t first = p->piece[i], n = p->piece[i + 1] - first, cuts = (n + RUN_ROWS - 1) / RUN_ROWS;
        if (n == 0)
            continue;
        int64_t piece = l->step_first[i % p->Q]++;
        l->piece[piece] = (struct uni_piece){runs, cuts, (int32_t)(i / p->Q), (int32_t)(i % p->Q)};
        for (int64_t c = 0; c < cuts; c++)
            l->run[runs++] = (struct uni_cut){first + n * c / cuts, (int32_t)piece, cuts > 1 ? (int32_t)slots++ : -1};
    }
    l->group_run[p->G] = l->n_runs = runs;
    l->run[runs].first = p->N;
    l->n_slots = slots;
}

/* Consecutive runs with `rows` rows or more between them, from `from` to before `end` in the list (NULL: the runs themselves). */
static int64_t cut_tasks(struct uni_range *task, const struct uni_layout *l, const int64_t *list, int64_t from, int64_t end,
                         int64_t rows)
{
    int64_t n = 0, first = from, held = 0;
    for (int64_t i = from; i < end; i++) {
        const struct uni_cut *run = &l->run[list ? list[i] : i];
        held += run[1].first - run->first;
        if (held >= rows || i + 1 == end) {
            task[n++] = (struct uni_range){first, i + 1 - first};
            first = i + 1;
            held = 0;
        }
    }
    return n;
}

/* Each group's runs in equal parts. */
static void cut_slices(struct uni_layout *l, const struct uni_problem *p)
{
    int64_t slices = 0, parts = 0;
    for (int64_t g = 0; g < p->G; g++) {
        int64_t first = l->group_run[g], end = l->group_run[g + 1];
        int64_t cells = l->run[end].first - l->run[first].first, n = slice_parts(p, cells);
        n = n > end - first ? end - first : n;
        l->group_slice[g] = slices;
        for (int64_t i = 0; i < n; i++) {
            int64_t from = first + (end - first) * i / n, to = first + (end - first) * (i + 1) / n;
            l->slice[slices++] = (struct uni_slice){from, to - from, (int32_t)g, n > 1 ? (int32_t)parts++ : -1};
        }
    }
    l->group_slice[p->G] = l->n_slices = slices;
    l->n_parts = parts;
}

/* A sweep's runs, its tasks, and the pieces that several tasks may share. */
static void cut_steps(struct uni_layout *l, const struct uni_problem *p)
{
    int64_t runs = 0, steps = 0, multiple = 0;
    for (int64_t q = 0; q < p->Q; q++) {
        int64_t from = runs;
        l->multiple_first[q] = multiple;
        for (int64_t i = l->block_first[q]; i < l->block_first[q + 1]; i++) {
            for (int64_t r = 0; r < l->piece[i].runs; r++)
                l->runs_by_block[runs++] = l->piece[i].run + r;
            if (l->piece[i].runs > 1)
                l->multiple[multiple++] = i;
        }
        l->step_first[q] = steps;
        steps += cut_tasks(l->step + steps, l, l->runs_by_block, from, runs, step_rows(p));
    }
    l->multiple_first[p->Q] = l->n_multiple = multiple;
    l->step_first[p->Q] = l->n_steps = steps;
}

int uni_layout_open(struct uni_layout *l, const struct uni_problem *p)
{
    struct uni_array_row list[ARRAYS];
    list_arrays(list, l, p);
    int err = uni_arena_open(&l->arena, list, ARRAYS, "cutting the cells into tasks");
    if (err)
        return err;
    count_pieces(l, p);
    cut_runs(l, p);
    l->n_tasks = cut_tasks(l->task, l, NULL, 0, l->n_runs, task_rows(p));
    cut_slices(l, p);
    cut_steps(l, p);
    return UNI_OK;
}

void uni_layout_close(struct uni_layout *l)
{
    uni_arena_close(&l->arena);
}
