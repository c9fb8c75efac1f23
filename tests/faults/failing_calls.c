/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a program (LD_PRELOAD), counts what it asks the system for while main runs, and makes one of these calls fail:
 *
 *     FAULTS_LIST=FILE    write a line for every call: its number from 1, its kind, its function, a hash of who called, and
 *                         whether that is HDF5
 *     FAULTS_AT=N         call N fails
 *     FAULTS_HOW=once     it alone (the default)
 *                stay     so do all later ones of its kind: a full disk, no memory left
 *                short    it is not failed but moves one byte only (reads and writes)
 *                signal   it is interrupted by a signal (reads, writes, opens)
 *                stop     the process stops before it, until SIGCONT, and it goes on as it would have
 *     FAULTS_WHERE=FILE   write who made the call that failed, and what main leaves open at its end
 *
 * Numbers are the same in every run of a program that asks for the same things. A child that it forks counts for itself, what it
 * becomes by exec does not. Unlinking and freeing never fail.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { ALLOCATE, OPEN, READ, WRITE, SYNC, RENAME, TRUNCATE, CLOSE, THREAD, PROCESS, LOOK, N_KINDS };
static const char *const kind_names[N_KINDS] = {"allocate", "open",  "read",   "write",   "sync", "rename",
                                                "truncate", "close", "thread", "process", "look"};
static const int reasons[N_KINDS] = {ENOMEM, EMFILE, EIO, ENOSPC, EIO, EIO, EIO, EIO, EAGAIN, EAGAIN, EACCES};

enum how { ONCE, STAY, SHORT, SIGNAL, STOP };
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
static enum how how;
static int (*real_main)(int, char **, char **);
static _Thread_local int inside
    __attribute__((tls_model("initial-exec"))); /* a function of libc that calls another counts once */

static _Thread_local int awake
    __attribute__((tls_model("initial-exec"))); /* else a thread still sets itself up, in a sanitizer's code */

/* The function of this name that the program would have without this file. */
static void *next(void **kept, const char *name)
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

/* What becomes of this call: 0 nothing, else SHORT, SIGNAL or failure (-1). */
static __attribute__((noinline)) int fate(enum kind kind, const char *function)
{
    if (!counting || inside || !awake)
        return 0;
    long number = process * NUMBERS + atomic_fetch_add(&n_calls, 1) + 1;
    int fails = number == fail_at;
    if (!fails && !calls)
        return atomic_load(&state->failing) == 1 + (int)kind ? -1 : 0;
    void *frames[DEPTH], **frame = frames;
    inside++;
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
    inside--;
    if (fails && how == STAY)
        atomic_store(&state->failing, 1 + (int)kind);
    if (fails && how == STOP)
        raise(SIGSTOP);
    return !fails || how == STOP ? 0 : how == SHORT || how == SIGNAL ? (int)how : -1;
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
    counting = awake = 1;
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
    how = !word || !strcmp(word, "once") ? ONCE
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

ssize_t send(int fd, const void *bytes, size_t count, int flags)
{
    MOVES(WRITE, count)
    return REAL(send, fd, bytes, (size_t)some, flags);
}

ssize_t recv(int fd, void *bytes, size_t count, int flags)
{
    MOVES(READ, count)
    return REAL(recv, fd, bytes, (size_t)some, flags);
}

/* A stream has its own answer to short reads and to signals. */
size_t fread(void *bytes, size_t size, size_t count, FILE *stream)
{
    if (fate(READ, __func__) == -1) {
        errno = EIO;
        return 0;
    }
    return REAL(fread, bytes, size, count, stream);
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

/* What a thread is to do; there are few of them. */
enum { MOST_THREADS = 1024 };
static struct errand {
    void *(*begin)(void *);
    void *argument;
} errands[MOST_THREADS];
static atomic_int n_errands;

static void *run_errand(void *errand)
{
    awake = 1;
    void *answer = ((struct errand *)errand)->begin(((struct errand *)errand)->argument);
    awake = 0;
    return answer;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*begin)(void *), void *argument)
{
    if (fate(THREAD, __func__))
        return EAGAIN;
    struct errand *errand = &errands[atomic_fetch_add(&n_errands, 1) % MOST_THREADS];
    *errand = (struct errand){begin, argument};
    return REAL(pthread_create, thread, attributes, run_errand, errand);
}

pid_t fork(void)
{
    FAILS(PROCESS, -1)
    long child = atomic_fetch_add(&state->n_children, 1) + 1;
    pid_t id = REAL(fork);
    if (id == 0) {
        process = child;
        atomic_store(&n_calls, 0);
    }
    return id;
}

int socketpair(int domain, int type, int protocol, int ends[2])
{
    FAILS(OPEN, -1)
    return REAL(socketpair, domain, type, protocol, ends);
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

/* What the compiler calls instead where it knows the size of an array. */
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_chk(void *bytes, size_t room, size_t size, size_t count, FILE *stream)
{
    (void)room;
    return fread(bytes, size, count, stream);
}

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __read_chk(int fd, void *bytes, size_t count, size_t room)
{
    (void)room;
    return read(fd, bytes, count);
}

char *__realpath_chk(const char *, char *, size_t);
char *__realpath_chk(const char *path, char *real_path, size_t room)
{
    (void)room;
    return realpath(path, real_path);
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
