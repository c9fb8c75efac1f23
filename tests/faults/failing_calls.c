/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a program (LD_PRELOAD), counts what it asks the system for while main runs, and makes one of these calls fail:
 *
 *     FAULTS_LIST=FILE    write a line for every call: its number from 1, its kind, its function, a hash of who called
 *     FAULTS_AT=N         call N fails
 *     FAULTS_HOW=once     it alone (the default)
 *                stay     so do all later ones of its kind: a full disk, no memory left
 *                short    it is not failed but moves one byte only (reads and writes)
 *                signal   it is interrupted by a signal (reads, writes, opens)
 *     FAULTS_WHERE=FILE   write who made the call that failed, and what main leaves open at its end
 *
 * Numbers are the same in every run of a program that asks for the same things. Unlinking and freeing never fail.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { ALLOCATE, OPEN, READ, WRITE, SYNC, RENAME, TRUNCATE, CLOSE, THREAD, LOOK, N_KINDS };
static const char *const kind_names[N_KINDS] = {"allocate", "open",     "read",  "write",  "sync",
                                                "rename",   "truncate", "close", "thread", "look"};
static const int reasons[N_KINDS] = {ENOMEM, EMFILE, EIO, ENOSPC, EIO, EIO, EIO, EIO, EAGAIN, EACCES};

enum how { ONCE, STAY, SHORT, SIGNAL };
enum { MOST_CALLS = 1 << 20, DEPTH = 96, OWN_FRAMES = 2, INNERMOST = 4, OURS = 3 };

static struct call {
    const char *function;
    uint64_t caller;
    int kind;
} * calls; /* (MOST_CALLS), where they are listed */
static atomic_long n_calls;
static atomic_int counting, failing = -1; /* the kind that stays failing */
static long fail_at;
static enum how how;
static int (*real_main)(int, char **, char **);
static _Thread_local int inside
    __attribute__((tls_model("initial-exec"))); /* a function of libc that calls another counts once */

/* The function of this name that the program would have without this file. */
static void *next(void **kept, const char *name)
{
    if (!*kept)
        *kept = dlsym(RTLD_NEXT, name);
    return *kept;
}

static int report_open(const char *variable, int flags)
{
    const char *path = getenv(variable);
    static void *real_open;
    return path ? ((int (*)(const char *, int, ...))next(&real_open, "open"))(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666)
                : -1;
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
    Dl_info program, info;
    int ours = 0;
    dladdr((void *)(uintptr_t)real_main, &program);
    for (int i = OWN_FRAMES; i < n && (i < OWN_FRAMES + INNERMOST || ours < OURS); i++) {
        if (!dladdr(frame[i], &info))
            continue;
        int in_program = info.dli_fbase == program.dli_fbase;
        ours += in_program;
        if (in_program || i < OWN_FRAMES + INNERMOST)
            hash = mixed(hash, (uint64_t)((char *)frame[i] - (char *)info.dli_fbase));
    }
    return hash;
}

static void report_failure(long number, const char *function, void *const *frame, int n)
{
    int fd = report_open("FAULTS_WHERE", O_TRUNC);
    if (fd < 0)
        return;
    dprintf(fd, "call %ld, %s\n", number, function);
    backtrace_symbols_fd(frame + OWN_FRAMES, n - OWN_FRAMES, fd);
    close(fd);
}

/* What becomes of this call: 0 nothing, else SHORT, SIGNAL or failure (-1). */
static __attribute__((noinline)) int fate(enum kind kind, const char *function)
{
    if (!atomic_load(&counting) || inside)
        return 0;
    long number = atomic_fetch_add(&n_calls, 1) + 1;
    int fails = number == fail_at;
    if (!fails && !calls)
        return atomic_load(&failing) == (int)kind ? -1 : 0;
    void *frame[DEPTH];
    inside++;
    int n = backtrace(frame, DEPTH);
    if (calls && number <= MOST_CALLS)
        calls[number - 1] = (struct call){function, hash_of_callers(frame, n), (int)kind};
    if (fails)
        report_failure(number, function, frame, n);
    inside--;
    if (fails && how == STAY)
        atomic_store(&failing, (int)kind);
    return !fails ? 0 : how == SHORT || how == SIGNAL ? (int)how : -1;
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
    void *count = dlsym(RTLD_DEFAULT, "H5Fget_obj_count");
    enum { ALL = 0x1f };
    return count ? ((long (*)(int64_t, unsigned))count)(ALL, ALL) : 0;
}

static int counted_main(int argc, char **argv, char **environment)
{
    void *frame[4];
    backtrace(frame, 4); /* takes memory the first time */
    int before = open_files();
    atomic_store(&counting, 1);
    int status = real_main(argc, argv, environment);
    atomic_store(&counting, 0);
    int list = report_open("FAULTS_LIST", O_TRUNC), where = report_open("FAULTS_WHERE", O_APPEND);
    long total = atomic_load(&n_calls);
    for (long i = 0; list >= 0 && i < total && i < MOST_CALLS; i++)
        dprintf(list, "%ld %s %s %016llx\n", i + 1, kind_names[calls[i].kind], calls[i].function,
                (unsigned long long)calls[i].caller);
    if (list >= 0)
        close(list);
    if (where >= 0) {
        int files = open_files() - before - 1;
        long objects = open_objects();
        if (files > 0 || objects > 0)
            dprintf(where, "LEFT OPEN: %d files, %ld objects of HDF5\n", files, objects);
        close(where);
    }
    return status;
}

int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
int __libc_start_main(int (*given)(int, char **, char **), int argc, char **argv, void (*begin)(void), void (*end)(void),
                      void (*end_loader)(void), void *stack)
{
    static void *real;
    const char *at = getenv("FAULTS_AT"), *word = getenv("FAULTS_HOW");
    fail_at = at ? atol(at) : 0;
    how = !word || !strcmp(word, "once") ? ONCE : !strcmp(word, "stay") ? STAY : !strcmp(word, "short") ? SHORT : SIGNAL;
    if (getenv("FAULTS_LIST"))
        calls = mmap(NULL, MOST_CALLS * sizeof *calls, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    real_main = given;
    next(&real, "__libc_start_main");
    return ((__typeof__(&__libc_start_main))real)(counted_main, argc, argv, begin, end, end_loader, stack);
}

/* ---- the calls --------------------------------------------------------------------------------------------------------------
 */

/* Calls the real function once fate has let it. While it runs nothing that it calls is counted. */
#define REAL(name, ...)                                                                                                          \
    __extension__({                                                                                                              \
        static void *real;                                                                                                       \
        __typeof__(&name) function = (__typeof__(&name))next(&real, #name);                                                      \
        inside++;                                                                                                                \
        __typeof__(name(__VA_ARGS__)) result = function(__VA_ARGS__);                                                            \
        inside--;                                                                                                                \
        result;                                                                                                                  \
    })

#define FAILS(kind, value, ...)                                                                                                  \
    if (fate(kind, __func__)) {                                                                                                  \
        __VA_ARGS__;                                                                                                             \
        errno = how == SIGNAL ? EINTR : reasons[kind];                                                                           \
        return value;                                                                                                            \
    }

void *malloc(size_t size)
{
    FAILS(ALLOCATE, NULL)
    return REAL(malloc, size);
}

void *calloc(size_t count, size_t size)
{
    FAILS(ALLOCATE, NULL)
    return REAL(calloc, count, size);
}

void *realloc(void *old, size_t size)
{
    FAILS(ALLOCATE, NULL)
    return REAL(realloc, old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    FAILS(ALLOCATE, NULL)
    return REAL(aligned_alloc, alignment, size);
}

int posix_memalign(void **where, size_t alignment, size_t size)
{
    if (fate(ALLOCATE, __func__))
        return ENOMEM;
    return REAL(posix_memalign, where, alignment, size);
}

char *strdup(const char *text)
{
    FAILS(ALLOCATE, NULL)
    return REAL(strdup, text);
}

char *strndup(const char *text, size_t size)
{
    FAILS(ALLOCATE, NULL)
    return REAL(strndup, text, size);
}

FILE *open_memstream(char **text, size_t *size)
{
    FAILS(ALLOCATE, NULL)
    return REAL(open_memstream, text, size);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    FAILS(ALLOCATE, MAP_FAILED)
    return REAL(mmap, at, size, protection, flags, fd, offset);
}

static mode_t mode_of(int flags, va_list rest)
{
    return flags & O_CREAT ? (mode_t)va_arg(rest, int) : 0;
}

#define OPENS(name)                                                                                                              \
    int name(const char *path, int flags, ...)                                                                                   \
    {                                                                                                                            \
        va_list rest;                                                                                                            \
        va_start(rest, flags);                                                                                                   \
        mode_t mode = mode_of(flags, rest);                                                                                      \
        va_end(rest);                                                                                                            \
        FAILS(OPEN, -1)                                                                                                          \
        return REAL(name, path, flags, mode);                                                                                    \
    }
OPENS(open)
OPENS(open64)

#define STREAMS(name)                                                                                                            \
    FILE *name(const char *path, const char *mode)                                                                               \
    {                                                                                                                            \
        FAILS(OPEN, NULL)                                                                                                        \
        return REAL(name, path, mode);                                                                                           \
    }
STREAMS(fopen)
STREAMS(fopen64)

DIR *opendir(const char *path)
{
    FAILS(OPEN, NULL)
    return REAL(opendir, path);
}

int mkdir(const char *path, mode_t mode)
{
    FAILS(OPEN, -1)
    return REAL(mkdir, path, mode);
}

/* How much of count a read or write may move, -1: none. */
static ssize_t allowed(enum kind kind, const char *function, size_t count)
{
    int what = fate(kind, function);
    if (!what || (what == SHORT && count <= 1))
        return (ssize_t)count;
    if (what == SHORT)
        return 1;
    errno = what == SIGNAL ? EINTR : reasons[kind];
    return -1;
}

#define MOVES(kind, count)                                                                                                       \
    ssize_t some = allowed(kind, __func__, count);                                                                               \
    if (some < 0)                                                                                                                \
        return -1;

ssize_t read(int fd, void *bytes, size_t count)
{
    MOVES(READ, count)
    return REAL(read, fd, bytes, (size_t)some);
}

ssize_t pread(int fd, void *bytes, size_t count, off_t offset)
{
    MOVES(READ, count)
    return REAL(pread, fd, bytes, (size_t)some, offset);
}

ssize_t pread64(int fd, void *bytes, size_t count, off64_t offset)
{
    MOVES(READ, count)
    return REAL(pread64, fd, bytes, (size_t)some, offset);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    MOVES(WRITE, count)
    return REAL(write, fd, bytes, (size_t)some);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    MOVES(WRITE, count)
    return REAL(pwrite, fd, bytes, (size_t)some, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset)
{
    MOVES(WRITE, count)
    return REAL(pwrite64, fd, bytes, (size_t)some, offset);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t count, unsigned flags)
{
    MOVES(WRITE, count)
    return REAL(copy_file_range, from, from_at, to, to_at, (size_t)some, flags);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
    int what = fate(WRITE, __func__);
    if (what && what != SHORT)
        return what == SIGNAL ? EINTR : ENOSPC;
    return REAL(posix_fallocate, fd, offset, size);
}

int fflush(FILE *stream)
{
    FAILS(WRITE, EOF)
    return REAL(fflush, stream);
}

int fsync(int fd)
{
    FAILS(SYNC, -1)
    return REAL(fsync, fd);
}

int rename(const char *from, const char *to)
{
    FAILS(RENAME, -1)
    return REAL(rename, from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    FAILS(RENAME, -1)
    return REAL(renameat2, from_folder, from, to_folder, to, flags);
}

int ftruncate(int fd, off_t size)
{
    FAILS(TRUNCATE, -1)
    return REAL(ftruncate, fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    FAILS(TRUNCATE, -1)
    return REAL(ftruncate64, fd, size);
}

/* A failing close has closed. */
int close(int fd)
{
    FAILS(CLOSE, -1, REAL(close, fd))
    return REAL(close, fd);
}

int fclose(FILE *stream)
{
    FAILS(CLOSE, EOF, REAL(fclose, stream))
    return REAL(fclose, stream);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*begin)(void *), void *argument)
{
    if (fate(THREAD, __func__))
        return EAGAIN;
    return REAL(pthread_create, thread, attributes, begin, argument);
}

int stat(const char *path, struct stat *info)
{
    FAILS(LOOK, -1)
    return REAL(stat, path, info);
}

int lstat(const char *path, struct stat *info)
{
    FAILS(LOOK, -1)
    return REAL(lstat, path, info);
}

int fstat(int fd, struct stat *info)
{
    FAILS(LOOK, -1)
    return REAL(fstat, fd, info);
}

int access(const char *path, int mode)
{
    FAILS(LOOK, -1)
    return REAL(access, path, mode);
}

char *realpath(const char *path, char *real_path)
{
    FAILS(LOOK, NULL)
    return REAL(realpath, path, real_path);
}

ssize_t readlink(const char *path, char *text, size_t size)
{
    FAILS(LOOK, -1)
    return REAL(readlink, path, text, size);
}

int fchmod(int fd, mode_t mode)
{
    FAILS(LOOK, -1)
    return REAL(fchmod, fd, mode);
}

int flock(int fd, int operation);
int flock(int fd, int operation)
{
    FAILS(LOOK, -1)
    return REAL(flock, fd, operation);
}
