/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "error.h"
#include "unisono.h"

enum { PATIENCE = 1000000 }; /* ns that a worker looks for a job before it sleeps */

struct worker {
    struct uni_pool *pool;
    pthread_t id;
    int number;
};

/* A stretch of a job's tasks. Each thread begins with its own, the same in every job of as many tasks: cells stay in its cache.
 */
struct stretch {
    _Alignas(64) atomic_llong next; /* task to take */
    int64_t end;
};

struct uni_pool {
    int threads, helpers; /* helpers: workers worth waking, one for each CPU but the caller's */
    const volatile int *cancel;
    uni_task task;
    void *context;
    int stretches;
    struct stretch *stretch;
    _Alignas(64) atomic_uint job;   /* counts jobs: a change wakes the workers */
    _Alignas(64) atomic_int inside; /* workers that may be looking at the job */
    atomic_int open;                /* is there a job to look at? */
    atomic_int looking; /* workers that look for a job, and see it without being woken */
    atomic_int sleeping;
    atomic_int ending;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct worker *workers;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static int cancelled(const struct uni_pool *p)
{
    return p && p->cancel && *p->cancel;
}

static void take_tasks(struct uni_pool *p, int thread)
{
    for (int i = 0; i < p->stretches; i++) {
        struct stretch *s = &p->stretch[(thread + i) % p->stretches];
        while (!cancelled(p)) {
            int64_t task = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
            if (task >= s->end)
                break;
            p->task(p->context, task, thread);
        }
    }
}

static void cut_stretches(struct uni_pool *p, int64_t tasks)
{
    p->stretches = p->helpers + 1 < tasks ? p->helpers + 1 : (int)tasks;
    for (int i = 0; i < p->stretches; i++) {
        atomic_store_explicit(&p->stretch[i].next, tasks * i / p->stretches, memory_order_relaxed);
        p->stretch[i].end = tasks * (i + 1) / p->stretches;
    }
}

static int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Jobs follow each other within microseconds, so a worker looks a while before it sleeps: by the clock, for a pause takes 10 ns on
   one processor and 50 on another. */
static int comes_soon(const struct uni_pool *p, unsigned seen)
{
    enum { LOOKS = 50 };
    const int64_t until = nanoseconds() + PATIENCE;
    do {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&p->job, memory_order_acquire) != seen)
                return 1;
            relax();
        }
    } while (nanoseconds() < until);
    return 0;
}

/* No more workers look than there are CPUs for. */
static void await_job(struct uni_pool *p, unsigned seen)
{
    int came = atomic_fetch_add(&p->looking, 1) < p->helpers && comes_soon(p, seen);
    atomic_fetch_sub(&p->looking, 1);
    if (came)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleeping, 1);
    while (atomic_load(&p->job) == seen)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

/* A worker that comes late, or not at all, holds nobody up: the caller closes the job and waits for those inside only. */
static void *work(void *argument)
{
    struct worker *w = argument;
    struct uni_pool *p = w->pool;
    for (unsigned seen = 0;;) {
        await_job(p, seen);
        seen = atomic_load(&p->job);
        if (atomic_load(&p->ending))
            return NULL;
        atomic_fetch_add(&p->inside, 1);
        if (atomic_load(&p->open))
            take_tasks(p, w->number);
        atomic_fetch_sub(&p->inside, 1);
    }
}

static void announce(struct uni_pool *p, int workers)
{
    atomic_fetch_add(&p->job, 1);
    workers -= atomic_load(&p->looking);
    if (workers <= 0 || atomic_load(&p->sleeping) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < workers; i++)
        pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void wake_all(struct uni_pool *p)
{
    atomic_fetch_add(&p->job, 1);
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static int outcome(const struct uni_pool *p)
{
    return cancelled(p) ? uni_fail(UNI_STOPPED, "cancelled by the caller") : UNI_OK;
}

static int run_alone(const struct uni_pool *p, uni_task task, void *context, int64_t tasks)
{
    for (int64_t i = 0; i < tasks && !cancelled(p); i++)
        task(context, i, 0);
    return outcome(p);
}

int uni_pool_run(struct uni_pool *p, uni_task task, void *context, int64_t tasks)
{
    if (!p || p->threads == 1 || tasks <= 1)
        return run_alone(p, task, context, tasks);
    p->task = task;
    p->context = context;
    cut_stretches(p, tasks);
    atomic_store(&p->open, 1);
    announce(p, p->helpers < tasks ? p->helpers : (int)tasks - 1);
    take_tasks(p, 0);
    atomic_store(&p->open, 0);
    for (int i = 0; atomic_load(&p->inside) > 0; i++) {
        relax();
        if (i >= 1000) {
            sched_yield(); /* a worker inside may need this CPU */
            i = 0;
        }
    }
    return outcome(p);
}

static void start_workers(struct uni_pool *p, int64_t threads)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are the caller's business */
    for (p->threads = 1; p->threads < threads; p->threads++) {
        struct worker *w = &p->workers[p->threads - 1];
        w->pool = p;
        w->number = p->threads;
        if (pthread_create(&w->id, NULL, work, w) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int64_t uni_pool_size(int64_t asked)
{
    int64_t cpus = uni_cpu_count(), most = 4 * cpus < 8 ? 8 : 4 * cpus;
    return asked <= 0 ? cpus : asked < most ? asked : most;
}

struct uni_pool *uni_pool_open(int64_t threads, const volatile int *cancel)
{
    struct uni_pool *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
    if (!p)
        return NULL;
    int64_t cpus = uni_cpu_count();
    *p = (struct uni_pool){.threads = 1, .cancel = cancel};
    p->helpers = (int)(threads < cpus ? threads : cpus) - 1;
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    p->stretch = aligned_alloc(64, (size_t)(p->helpers + 1) * sizeof *p->stretch);
    if (!p->workers || !p->stretch) {
        free(p->workers);
        free(p->stretch);
        free(p);
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    start_workers(p, threads);
    return p;
}

int uni_pool_threads(const struct uni_pool *p)
{
    return p->threads;
}

void uni_pool_close(struct uni_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->ending, 1);
    wake_all(p);
    for (int i = 0; i < p->threads - 1; i++)
        pthread_join(p->workers[i].id, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p->workers);
    free(p->stretch);
    free(p);
}
