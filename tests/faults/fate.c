/* SPDX-License-Identifier: BSD-3-Clause */
/* Which call fails, and the list of those that there are: what failing_calls.c says, decided here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fate.h"

static const char *const kind_names[N_KINDS] = {"allocate", "open",  "read",   "write",   "sync", "rename",
                                                "truncate", "close", "thread", "process", "look"};
const int fate_reasons[N_KINDS] = {ENOMEM, EMFILE, EIO, ENOSPC, EIO, EIO, EIO, EIO, EAGAIN, EAGAIN, EACCES};

enum { MOST_CALLS = 1 << 20, DEPTH = 96, INNERMOST = 4, OURS = 3 };

/* Shared with children. The report lies in FAULTS_WHERE: it needs no call that a child might no longer be allowed, and outlives a
 * crash. */
static struct state {
    atomic_long n_listed, n_children;
    atomic_int in_hdf5; /* the call that failed was its */
    atomic_int failing; /* 1 + the kind that stays failing */
} * state;
static struct call {
    const char *function;
    long number;
    uint64_t caller;
    int kind, by_hdf5;
} * calls; /* (MOST_CALLS), where they are listed */
enum { REPORT = 1 << 14 };
static char *report; /* (REPORT), text */
static int counting;
static long fail_at;
enum { NUMBERS = 1000000 }; /* a process: the first child's calls are 1000001, 1000002, ... */
static long process;
static atomic_long n_calls;
enum how fate_how;
static int (*real_main)(int, char **, char **);
_Thread_local int fate_inside __attribute__((tls_model("initial-exec")));

_Thread_local int fate_awake
    __attribute__((tls_model("initial-exec"))); /* else a thread still sets itself up, in a sanitizer's code */

void *fate_next(void **kept, const char *name)
{
    if (!*kept)
        *kept = dlsym(RTLD_NEXT, name);
    return *kept;
}

/* What is loaded as main begins. dladdr would tell the same, a hundred times slower. */
enum { MOST_MODULES = 128 };
static struct module {
    uintptr_t base, begin, end;
    int hdf5, asan;
} modules[MOST_MODULES];
static int n_modules;

static int add_module(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum && n_modules < MOST_MODULES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X))
            modules[n_modules++] =
                (struct module){info->dlpi_addr, begin, begin + part->p_memsz, strstr(info->dlpi_name, "libhdf5") != NULL,
                                strstr(info->dlpi_name, "libasan") != NULL};
    }
    return 0;
}

static const struct module *module_of(const void *address)
{
    static const struct module none;
    for (int i = 0; i < n_modules; i++)
        if ((uintptr_t)address >= modules[i].begin && (uintptr_t)address < modules[i].end)
            return &modules[i];
    return &none;
}

static int is_hdf5(const void *address)
{
    return module_of(address)->hdf5;
}

/* A frame of this file, or of a sanitizer's own backtrace: there are one to three above the program's. */
static int is_own(const void *address)
{
    return module_of(address) == module_of((void *)(uintptr_t)is_own) || module_of(address)->asan;
}

static void *shared(int fd, size_t size)
{
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    return block == MAP_FAILED ? NULL : block;
}

static void add_to_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add_to_report(const char *format, ...)
{
    va_list arguments;
    size_t used = report ? strlen(report) : 0;
    va_start(arguments, format);
    if (report)
        vsnprintf(report + used, REPORT - used, format, arguments);
    va_end(arguments);
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3;
}

/* The same in every run and in every case of one build: the innermost callers and, of those in the program itself, the innermost,
   each by its place in its file. So a function of HDF5 that is reached from two lines of ours is two places. */
static uint64_t hash_of_callers(void *const *frame, int n)
{
    uint64_t hash = 0xcbf29ce484222325;
    const struct module *program = module_of((void *)(uintptr_t)real_main);
    int ours = 0;
    for (int i = 0; i < n && (i < INNERMOST || ours < OURS); i++) {
        const struct module *module = module_of(frame[i]);
        ours += module == program;
        if (module == program || i < INNERMOST)
            hash = mixed(hash, (uintptr_t)frame[i] - module->base);
    }
    return hash;
}

static void report_failure(long number, const char *function, void *const *frame, int n)
{
    Dl_info info;
    add_to_report("call %ld, %s\n", number, function);
    for (int i = 0; i < n; i++)
        if (dladdr(frame[i], &info))
            add_to_report("%s+0x%lx %s\n", info.dli_fname, (unsigned long)((char *)frame[i] - (char *)info.dli_fbase),
                          info.dli_sname ? info.dli_sname : "");
}

__attribute__((noinline)) int fate(enum kind kind, const char *function)
{
    if (!counting || fate_inside || !fate_awake)
        return 0;
    long number = process * NUMBERS + atomic_fetch_add(&n_calls, 1) + 1;
    int fails = number == fail_at;
    if (!fails && !calls)
        return atomic_load(&state->failing) == 1 + (int)kind ? -1 : 0;
    void *frames[DEPTH], **frame = frames;
    fate_inside++;
    int n = backtrace(frames, DEPTH);
    for (; n > 1 && is_own(frame[0]); frame++)
        n--;
    long place = calls ? atomic_fetch_add(&state->n_listed, 1) : MOST_CALLS;
    if (place < MOST_CALLS)
        calls[place] = (struct call){function, number, hash_of_callers(frame, n), (int)kind, is_hdf5(frame[0])};
    if (fails) {
        state->in_hdf5 = is_hdf5(frame[0]);
        report_failure(number, function, frame, n);
    }
    fate_inside--;
    if (fails && fate_how == STAY)
        atomic_store(&state->failing, 1 + (int)kind);
    if (fails && fate_how == STOP)
        raise(SIGSTOP);
    return !fails || fate_how == STOP ? 0 : fate_how == SHORT || fate_how == SIGNAL ? (int)fate_how : -1;
}

long fate_child(void)
{
    return atomic_fetch_add(&state->n_children, 1) + 1;
}

void fate_begin_child(long number)
{
    process = number;
    atomic_store(&n_calls, 0);
}

/* ---- what main leaves, and the list ---------------------------------------------------------------------------------------- */

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Files, groups, datasets, types and attributes that HDF5 still has open; 0 where the program has no HDF5. */
static long open_objects(void)
{
    void *count = dlsym(RTLD_DEFAULT, "H5Fget_obj_count"), *quiet = dlsym(RTLD_DEFAULT, "H5Eset_auto2");
    enum { ALL = 0x1f };
    if (quiet)
        ((int (*)(int64_t, void *, void *))quiet)(0, NULL, NULL);
    return count ? ((long (*)(int64_t, unsigned))count)(ALL, ALL) : 0;
}

static void write_list(const char *path)
{
    FILE *list = fopen(path, "w");
    long total = atomic_load(&state->n_listed);
    for (long i = 0; list && i < total && i < MOST_CALLS; i++)
        fprintf(list, "%ld %s %s %016llx %s\n", calls[i].number, kind_names[calls[i].kind], calls[i].function,
                (unsigned long long)calls[i].caller, calls[i].by_hdf5 ? "hdf5" : "ours");
    if (list)
        fclose(list);
}

static int counted_main(int argc, char **argv, char **environment)
{
    void *frame[4];
    backtrace(frame, 4); /* takes memory the first time */
    dl_iterate_phdr(add_module, NULL);
    int before = open_files();
    counting = fate_awake = 1;
    int status = real_main(argc, argv, environment);
    counting = 0;
    int files = open_files() - before;
    long objects = state->in_hdf5 ? 0 : open_objects(); /* what HDF5 keeps after a failure of its own is its business */
    if (files > 0 || objects > 0)
        add_to_report("LEFT OPEN: %d files, %ld objects of HDF5\n", files, objects);
    if (calls)
        write_list(getenv("FAULTS_LIST"));
    return status;
}

int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
int __libc_start_main(int (*given)(int, char **, char **), int argc, char **argv, void (*begin)(void), void (*end)(void),
                      void (*end_loader)(void), void *stack)
{
    static void *real;
    const char *at = getenv("FAULTS_AT"), *word = getenv("FAULTS_HOW"), *where = getenv("FAULTS_WHERE");
    fail_at = at ? atol(at) : 0;
    fate_how = !word || !strcmp(word, "once") ? ONCE
               : !strcmp(word, "stay")        ? STAY
               : !strcmp(word, "short")       ? SHORT
               : !strcmp(word, "stop")        ? STOP
                                              : SIGNAL;
    int fd = where ? open(where, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    if (fd >= 0 && !ftruncate(fd, REPORT))
        report = shared(fd, REPORT);
    if (fd >= 0)
        close(fd);
    state = shared(-1, sizeof *state);
    if (getenv("FAULTS_LIST"))
        calls = shared(-1, MOST_CALLS * sizeof *calls);
    real_main = given;
    fate_next(&real, "__libc_start_main");
    return ((__typeof__(&__libc_start_main))real)(counted_main, argc, argv, begin, end, end_loader, stack);
}
