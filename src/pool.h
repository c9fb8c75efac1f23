/* SPDX-License-Identifier: BSD-3-Clause */
/* A small fixed pool of threads: a job is n tasks, taken in order by whoever is free. Tasks write to places of their own, so
   results do not depend on who took which. The caller's thread works too; with one thread there is no other. */
#ifndef UNI_POOL_H
#define UNI_POOL_H

#include <stdint.h>

struct uni_pool;

typedef void (*uni_task)(void *context, int64_t task, int thread); /* thread: 0 .. threads-1, for scratch */

/* cancel, unless NULL: once it is set, tasks not yet begun are left out.
   Starts threads - 1 threads with all signals blocked. Fewer may start where the system refuses: see uni_pool_threads. NULL: no
   memory. */
struct uni_pool *uni_pool_open(int64_t threads, const volatile int *cancel);
int uni_pool_threads(const struct uni_pool *);
/* Returns UNI_OK, or UNI_STOPPED where tasks were left out. No pool, NULL: the caller's thread alone. */
int uni_pool_run(struct uni_pool *, uni_task, void *context, int64_t tasks);
void uni_pool_close(struct uni_pool *); /* NULL is fine */

/* Threads to start where so many are asked for: 0 is one for each CPU; of more, at most four for each, which tests are glad of. */
int64_t uni_pool_size(int64_t asked);

/* CPUs that this process may use: its affinity, and its cgroup's quota; at least 1. */
int64_t uni_cpu_count(void);

#endif
