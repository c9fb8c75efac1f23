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
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fate.h"

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

/* Looked up once as the program is loaded: a lookup from inside dlerror, which allocates, would free what that is about to write
 * to. */
__attribute__((constructor)) static void look_up(void)
{
    void *volatile first = malloc(1), *volatile second = calloc(1, 1);
    first = realloc(first, 2);
    free(first);
    free(second);
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
    errno = what == SIGNAL ? EINTR : fate_reasons[kind];
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
    fate_awake = 1;
    void *answer = ((struct errand *)errand)->begin(((struct errand *)errand)->argument);
    fate_awake = 0;
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
    long child = fate_child();
    pid_t id = REAL(fork);
    if (id == 0)
        fate_begin_child(child);
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
