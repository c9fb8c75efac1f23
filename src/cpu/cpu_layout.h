/* SPDX-License-Identifier: BSD-3-Clause */
/* How the cells are cut for the CPU: pieces into runs of at most 1024 rows, runs into tasks of some thousand rows. Cut by cells,
   never by threads, so that sums are added in the same order whatever the number of threads. */
#ifndef UNI_CPU_LAYOUT_H
#define UNI_CPU_LAYOUT_H

#include "../arena.h"
#include "../backend.h"

struct uni_piece { /* one group's cells of one block; only pieces with cells are kept, in the order of (block, group): that of a
                      sweep */
    int64_t run, runs;
    int32_t group, block;
};

struct uni_cut { /* a run, in the order of the rows (group, block): its rows are first .. the next run's first - 1 */
    int64_t first;
    int32_t piece;
    int32_t slot; /* where its sums go until they are added; -1: it is its piece's only run, and writes the piece's sums itself */
};

struct uni_slice { /* runs whose moments one task adds up: all of a group, or a part of a large one */
    int64_t run, runs;
    int32_t group;
    int32_t part; /* its place among the parts to be added; -1: the whole group */
};

struct uni_range {
    int64_t first, n;
};

struct uni_layout {
    int64_t n_pieces, n_runs, n_slots, n_tasks, n_slices, n_parts, n_steps, n_multiple;
    struct uni_piece *piece; /* (n_pieces) */
    int64_t *block_first;    /* (Q + 1) block q's pieces from block_first[q] on */
    int64_t *multiple;       /* (n_multiple) the pieces of several runs, */
    int64_t *multiple_first; /* (Q + 1) block q's from multiple_first[q] on */
    struct uni_cut *run;     /* (n_runs + 1) */
    int64_t *group_run;      /* (G + 1) the first run of each group */
    struct uni_range *task;  /* (n_tasks) runs in the order of rows */
    struct uni_slice *slice; /* (n_slices) */
    int64_t *group_slice;    /* (G + 1) the first slice of each group */
    int64_t *runs_by_block;  /* (n_runs) runs in the order of a sweep */
    struct uni_range *step;  /* (n_steps) a sweep's tasks: ranges of runs_by_block, */
    int64_t *step_first;     /* (Q + 1) block q's from step_first[q] on */
    struct uni_arena arena;
};

/* Sizes: upper bounds that follow from the sizes of the groups alone. */
void uni_layout_bound(struct uni_layout *, const struct uni_problem *, const int64_t *group_cells);
int64_t uni_layout_bytes(struct uni_layout *bounded, const struct uni_problem *);
int uni_layout_open(struct uni_layout *, const struct uni_problem *);
void uni_layout_close(struct uni_layout *);

#endif
