/* SPDX-License-Identifier: BSD-3-Clause */
/* Output files that are either the old one or the new one, never something between: written to a temporary name in the same
   folder, flushed to disk, renamed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io_internal.h"

/* Temporary files that exist. A signal handler may read this at any moment: a slot's text is written while it is TAKEN and is
   whole once it is LIVE. */
enum { N_SLOTS = 16, FREE = 0, TAKEN, LIVE };
static struct {
    atomic_int state;
    pid_t owner; /* a forked child must not remove its parent's files */
    char temp[PATH_MAX];
} slots[N_SLOTS];

void io_remove_unfinished(void)
{
    int kept = errno;
    for (int i = 0; i < N_SLOTS; i++)
        if (atomic_load(&slots[i].state) == LIVE && slots[i].owner == getpid())
            unlink(slots[i].temp);
    errno = kept;
}

/* Folder of a path, with its '/'; "./" when it has none. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* folder/base with the folder made absolute. */
static char *absolute(const char *path, const char *target)
{
    char real[PATH_MAX], *joined = NULL, *folder = folder_of(path);
    if (!folder) {
        io_fail("no memory for a path");
    } else if (!realpath(folder, real)) {
        io_fail("%s: the folder %s cannot be used: %s", target, folder, strerror(errno));
    } else if (!*base_of(path) || strcmp(base_of(path), ".") == 0 || strcmp(base_of(path), "..") == 0) {
        io_fail("%s: is a folder, a file name is needed", target);
    } else {
        size_t size = strlen(real) + strlen(base_of(path)) + 2;
        joined = malloc(size);
        if (joined)
            snprintf(joined, size, "%s/%s", strcmp(real, "/") == 0 ? "" : real, base_of(path));
        else
            io_fail("no memory for a path");
    }
    free(folder);
    return joined;
}

/* Where a symbolic link leads, one step. */
static char *follow(const char *link_path, const char *target)
{
    char text[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t length = readlink(link_path, text, sizeof text - 1);
    if (length < 0) {
        io_fail("%s: cannot read the symbolic link: %s", target, strerror(errno));
        return NULL;
    }
    text[length] = 0;
    snprintf(joined, sizeof joined, "%.*s%s", text[0] == '/' ? 0 : (int)(base_of(link_path) - link_path), link_path, text);
    return absolute(joined, target);
}

char *io_target_resolve(const char *target)
{
    struct stat info;
    char *path = absolute(target, target);
    for (int links = 0; path && lstat(path, &info) == 0 && S_ISLNK(info.st_mode); links++) {
        char *next = NULL;
        if (links == 40)
            io_fail("%s: too many symbolic links", target);
        else
            next = follow(path, target);
        free(path);
        path = next;
    }
    return path;
}

/* Checks the resolved path; says what is there. */
static int check_resolved(const char *target, const char *path, int overwrite, int *exists, int *mode)
{
    struct stat info;
    /* Of a link, the folder that it leads to. */
    char *folder = folder_of(lstat(target, &info) == 0 && S_ISLNK(info.st_mode) ? path : target);
    int err = 0;
    *exists = stat(path, &info) == 0;
    *mode = *exists ? (int)(info.st_mode & 07777) : 0;
    if (!folder)
        err = io_fail("no memory for a path");
    else if (!*exists && errno != ENOENT)
        err = io_fail("%s: cannot be written: %s", target, strerror(errno));
    else if (*exists && S_ISDIR(info.st_mode))
        err = io_fail("%s: is a folder, a file name is needed", target);
    else if (*exists && !S_ISREG(info.st_mode))
        err = io_fail("%s: is not a regular file, the output cannot be renamed over it", target);
    else if (*exists && !overwrite)
        err = io_fail("%s: exists already (-f overwrites it)", target);
    else if (*exists && access(path, W_OK))
        err = io_fail("%s: the file cannot be written: %s (name another output)", target, strerror(errno));
    else if (access(folder, W_OK | X_OK))
        err = io_fail("%s: no file can be made in the folder %s: %s (name another output)", target, folder, strerror(errno));
    free(folder);
    return err;
}

int io_target_check(const char *target, int overwrite)
{
    int exists, mode;
    char *path = io_target_resolve(target);
    int err = path ? check_resolved(target, path, overwrite, &exists, &mode) : -1;
    free(path);
    return err;
}

/* ---- what is there ---- */

struct io_stamp io_stamp_of(const char *path)
{
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode)) /* a pipe's change is that it is read */
        return (struct io_stamp){0};
    return (struct io_stamp){.device = (int64_t)info.st_dev,
                             .inode = (int64_t)info.st_ino,
                             .bytes = info.st_size,
                             .seconds = info.st_mtim.tv_sec,
                             .nanoseconds = info.st_mtim.tv_nsec};
}

static int same_stamp(const struct io_stamp *a, const struct io_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes && a->seconds == b->seconds &&
           a->nanoseconds == b->nanoseconds;
}

int io_stamp_check(const struct io_stamp *was, const char *path)
{
    struct io_stamp now = io_stamp_of(path);
    if (!was->inode || same_stamp(&now, was))
        return 0;
    if (!now.inode)
        return io_fail("%s: was removed while it was worked on: %s", path, strerror(errno));
    return io_fail("%s: was changed by another process while it was worked on; nothing was written: run again", path);
}

/* Makes the temporary file. Signals wait meanwhile, so that no handler runs between the file's birth and its entry in the table.
 */
static int make_temp(struct io_target *out)
{
    static atomic_uint counter;
    int slot = 0, expected = FREE, reason = ENAMETOOLONG;
    while (slot < N_SLOTS && !atomic_compare_exchange_strong(&slots[slot].state, &expected, TAKEN)) {
        expected = FREE;
        slot++;
    }
    if (slot == N_SLOTS)
        return io_fail("%s: more than %d files are being written at once", out->name, N_SLOTS);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int attempt = 0; attempt < 100 && out->fd < 0; attempt++) {
        int folder = (int)(base_of(out->path) - out->path);
        int length = snprintf(slots[slot].temp, PATH_MAX, "%.*s.unisono-%ld-%u.tmp", folder, out->path, (long)getpid(),
                              atomic_fetch_add(&counter, 1));
        if (length < 0 || length >= PATH_MAX)
            break;
        out->fd = open(slots[slot].temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        reason = errno;
        if (out->fd < 0 && reason != EEXIST) /* EEXIST: left by a process of the same number that was killed */
            break;
    }
    slots[slot].owner = getpid();
    atomic_store(&slots[slot].state, out->fd >= 0 ? LIVE : FREE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (out->fd < 0)
        return io_fail("%s: cannot make a temporary file beside it: %s", out->name, strerror(reason));
    out->slot = slot;
    out->temp = slots[slot].temp;
    return 0;
}

int io_target_begin(struct io_target *out, const char *target, int overwrite)
{
    memset(out, 0, sizeof *out);
    out->fd = out->slot = -1;
    out->name = io_copy_text(target);
    out->path = out->name ? io_target_resolve(target) : NULL;
    out->buffer = out->path ? malloc(IO_PIECE) : NULL;
    int err = out->path ? 0 : -1;
    if (!err && !out->buffer)
        err = io_fail_memory(target, "its buffer", IO_PIECE);
    if (!err)
        err = check_resolved(target, out->path, overwrite, &out->replaces, &out->mode);
    if (!err && out->replaces)
        out->replaced = io_stamp_of(out->path);
    if (!err)
        err = make_temp(out);
    if (err)
        io_target_abandon(out);
    return err;
}

static int write_all(const struct io_target *out, const char *bytes, size_t count)
{
    while (count > 0) {
        /* Linux moves at most 2 GB a call anyway. */
        ssize_t done = write(out->fd, bytes, count < (1u << 30) ? count : (1u << 30));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return io_fail("%s: writing failed: %s", out->name, strerror(errno));
        bytes += done;
        count -= (size_t)done;
    }
    return 0;
}

int io_target_flush(struct io_target *out)
{
    size_t count = out->used;
    out->used = 0;
    return write_all(out, out->buffer, count);
}

int io_target_write(struct io_target *out, const void *bytes, size_t count)
{
    if (count > IO_PIECE - out->used && io_target_flush(out))
        return -1;
    if (count > IO_PIECE)
        return write_all(out, bytes, count);
    if (count)
        memcpy(out->buffer + out->used, bytes, count);
    out->used += count;
    return 0;
}

/* Moves the temporary file to its name. Where nothing was, nothing may have come meanwhile either; and what was there is the
   same, or gone. */
static int rename_over(const struct io_target *out)
{
    struct io_stamp now = io_stamp_of(out->path);
    if (now.inode && !same_stamp(&now, &out->replaced))
        return io_fail("%s: was %s by another process meanwhile, and is left as it is", out->name,
                       out->replaces ? "changed" : "made");
    if (!out->replaces) {
        if (renameat2(AT_FDCWD, out->temp, AT_FDCWD, out->path, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno == EEXIST)
            return io_fail("%s: was made by another process meanwhile, and is left as it is", out->name);
        /* EINVAL, ENOSYS: a file system without this call */
    }
    if (rename(out->temp, out->path))
        return io_fail("%s: cannot be replaced: %s", out->name, strerror(errno));
    return 0;
}

/* A rename is on disk once the folder is. Some file systems cannot do this for folders (EINVAL): nothing more can be done there.
 */
static int flush_folder(const struct io_target *out)
{
    char *folder = folder_of(out->path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, err = 0;
    if (fd >= 0 && fsync(fd) && errno != EINVAL && errno != ENOTSUP)
        err = io_fail("%s: was written, but its folder could not be flushed to disk: %s", out->name, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(folder);
    return err;
}

int io_target_commit(struct io_target *out)
{
    struct stat info;
    int err = io_target_flush(out);
    /* Root may give a file back to its owner; for others this fails where it would change anything. */
    if (!err && out->replaces && stat(out->path, &info) == 0 && fchown(out->fd, info.st_uid, info.st_gid))
        errno = 0;
    if (!err && out->replaces && fchmod(out->fd, (mode_t)out->mode))
        err = io_fail("%s: its permissions cannot be kept: %s", out->name, strerror(errno));
    if (!err && fsync(out->fd))
        err = io_fail("%s: cannot be flushed to disk: %s", out->name, strerror(errno));
    if (!err) {
        int fd = out->fd;
        out->fd = -1;
        if (close(fd))
            err = io_fail("%s: closing failed: %s", out->name, strerror(errno));
    }
    if (!err)
        err = rename_over(out);
    if (!err) {
        atomic_store(&slots[out->slot].state, FREE);
        out->slot = -1;
        err = flush_folder(out);
    }
    io_target_abandon(out);
    return err;
}

void io_target_abandon(struct io_target *out)
{
    if (out->fd >= 0)
        close(out->fd);
    if (out->slot >= 0) {
        unlink(slots[out->slot].temp);
        atomic_store(&slots[out->slot].state, FREE);
    }
    free(out->name);
    free(out->path);
    free(out->buffer);
    memset(out, 0, sizeof *out);
    out->fd = out->slot = -1;
}

int io_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
