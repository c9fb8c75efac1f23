/* SPDX-License-Identifier: BSD-3-Clause */
/* A run that took several variables as one (options.combine): its levels are the combinations that occur, in the order of their
 * first cells. */
#include <stdio.h>
#include <string.h>

#include "../error.h"
#include "diagnose.h"

enum { PART = 64 };

static void name_level(char *name, const struct uni_diagnose_cells *c, int64_t cell)
{
    size_t at = 0;
    for (int64_t v = 0; v < c->V; v++) {
        const struct uni_batch *b = &c->batches[v];
        int32_t level = b->level[cell];
        const char *between = v ? " | " : "";
        if (level < 0)
            at += (size_t)snprintf(name + at, PART, "%s(missing)", between);
        else if (b->level_names && b->level_names[level])
            at += (size_t)snprintf(name + at, PART, "%s%.56s", between, b->level_names[level]);
        else
            at += (size_t)snprintf(name + at, PART, "%snumber %d", between, (int)level);
    }
}

int64_t uni_diagnose_joint_bytes(int64_t n_cells, int64_t n_levels, int V)
{
    return 4 * n_cells + n_levels * (16 + PART * V) + 1024;
}

int uni_diagnose_joint_open(struct uni_diagnose_work *w, struct uni_diagnose_cells *c, int64_t run_levels)
{
    int err = 0;
    int32_t *level;
    int64_t *number, found = 0;
    char *text;
    const char **names;
    TRY(uni_diagnose_sort_open(c));
    if (c->n_groups != run_levels)
        TRY(uni_fail(UNI_INPUT, "the run has %lld combined levels, and the batches given have %lld; give those of the run",
                     (long long)run_levels, (long long)c->n_groups));
    const struct uni_array_row list[] = {UNI_ARRAY(level, c->N_all), UNI_ARRAY(number, run_levels), UNI_ARRAY(names, run_levels),
                                         UNI_ARRAY(text, run_levels * c->V * PART)};
    TRY(uni_arena_open(&w->joint_arena, list, 4, "the combined levels"));
    memset(level, 0xff, (size_t)c->N_all * sizeof *level);
    for (int64_t i = 0, g = -1; i < c->N; i++) {
        g += i == 0 || !uni_diagnose_same_group(c, i - 1, i);
        level[c->order[i]] = (int32_t)g;
    }
    for (int64_t i = 0; i < c->N_all; i++) {
        if (level[i] < 0)
            continue;
        if (!number[level[i]]) {
            names[found] = text + found * c->V * PART;
            name_level(text + found * c->V * PART, c, i);
            number[level[i]] = ++found;
        }
        level[i] = (int32_t)number[level[i]] - 1;
    }
    w->joint =
        (struct uni_batch){.name = "batch", .n_cells = c->N_all, .n_levels = run_levels, .level = level, .level_names = names};
    w->batches = &w->joint;
    w->answer.n_variables = 1;
done:
    uni_diagnose_order_close(c);
    return err;
}
