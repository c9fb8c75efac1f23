/* SPDX-License-Identifier: BSD-3-Clause */
/* Work on a file from a stranger, in a process of its own. HDF5 was not made for hostile files: damaged ones crash it, or keep it
   at work for ever. What happens in the child stays there; the parent takes numbers from it, and believes none that it can check.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io_internal.h"

/* Of the sanitizers, where they are linked in: their memory has no bounds that could be set, and their reports must be seen. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

enum { SECONDS = 10, SECONDS_BYTES = 1 << 20, DATA_ALLOWANCE = 256 << 20 };

static int is_watched(void)
{
    return __asan_init || __tsan_init;
}

/* Memory of its own that this process has mapped; -1 unknown. */
static int64_t data_bytes(void)
{
    char text[256];
    long long pages[6];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return -1;
    text[length] = 0;
    if (sscanf(text, "%lld %lld %lld %lld %lld %lld", &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5]) != 6)
        return -1;
    return io_product((int64_t)pages[5], (int64_t)sysconf(_SC_PAGESIZE));
}

/* Never above what is set already. */
static void limit(int what, int64_t most)
{
    struct rlimit now;
    if (most < 0 || getrlimit(what, &now) || (now.rlim_cur != RLIM_INFINITY && now.rlim_cur <= (rlim_t)most))
        return;
    now.rlim_cur = now.rlim_max != RLIM_INFINITY && now.rlim_max < (rlim_t)most ? now.rlim_max : (rlim_t)most;
    setrlimit(what, &now);
}

static void set_limits(struct io_child *child)
{
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, child->seconds);
    int64_t data = is_watched() ? -1 : data_bytes();
    if (data >= 0)
        limit(RLIMIT_DATA, io_sum(io_sum(data, DATA_ALLOWANCE), io_product(child->bytes, 4)));
}

void io_child_allow(const struct io_child *child, int64_t bytes, int64_t values)
{
    struct rlimit now;
    if (child->pid >= 0)
        return; /* the parent, where there is no child */
    if (!getrlimit(RLIMIT_CPU, &now) && now.rlim_cur == (rlim_t)child->seconds) {
        now.rlim_cur += (rlim_t)(values / SECONDS_BYTES);
        setrlimit(RLIMIT_CPU, &now);
    }
    if (!is_watched() && !getrlimit(RLIMIT_DATA, &now) && now.rlim_cur != RLIM_INFINITY && now.rlim_max == RLIM_INFINITY) {
        now.rlim_cur = (rlim_t)io_sum((int64_t)now.rlim_cur, bytes);
        setrlimit(RLIMIT_DATA, &now);
    }
}

/* What libraries say as they die is no sentence of ours. */
static void be_silent(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; nowhere >= 0 && fd < 3; fd++)
        if (fd < 2 || !is_watched())
            dup2(nowhere, fd);
}

static void be_child(struct io_child *child, pid_t parent, int (*work)(struct io_child *, void *), void *job)
{
    child->pid = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    be_silent();
    set_limits(child);
    if (!is_watched() && child->bytes > 0) /* nothing of a stranger's is in a new file */
        io_sandbox(child->path, child->writes);
    int err = work(child, job);
    close(child->fd);
    /* _exit runs no handlers: the parent's are not ours to run. */
    _exit(err ? 1 : 0);
}

int io_child_start(struct io_child *child, const char *path, const char *writes, int64_t bytes,
                   int (*work)(struct io_child *, void *), void *job)
{
    int ends[2];
    pid_t parent = getpid();
    *child = (struct io_child){.pid = -1, .fd = -1, .path = path, .writes = writes, .bytes = bytes};
    child->seconds = SECONDS + bytes / SECONDS_BYTES;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return io_fail("%s: no process can be made to work on it: %s", path, strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child->fd = ends[1];
        be_child(child, parent, work, job);
    }
    int reason = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return io_fail("%s: no process can be made to work on it: %s", path, strerror(reason));
    }
    child->pid = pid;
    child->fd = ends[0];
    return 0;
}

/* Waits for the child's end; -1 when somebody else did. */
static int reap(struct io_child *child)
{
    int status = -1;
    while (child->pid > 0 && waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR) {
            status = -1;
            break;
        }
    child->pid = 0;
    return status;
}

/* The call that moves bytes gave done, which is none. */
static int fail_ended(struct io_child *child, ssize_t done)
{
    int reason = errno;
    if (child->pid <= 0) { /* what comes after a gap could be taken for what is missing */
        close(child->fd);
        child->fd = -1;
        return io_fail("%s: what was found in it cannot be handed over: %s", child->path, strerror(reason));
    }
    if (done < 0 && reason != EPIPE && reason != ECONNRESET) {
        /* It may still be there, and wait for what was not sent. */
        io_child_end(child);
        return io_fail("%s: the process that works on it cannot be talked to: %s", child->path, strerror(reason));
    }
    int status = reap(child), signal_number = status != -1 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    switch (signal_number) {
    case SIGXCPU:
        return io_fail("%s: HDF5 is still at work on it after %" PRId64 " seconds: the file is damaged", child->path,
                       child->seconds);
    case SIGKILL:
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
        return io_fail("%s: the process that works on it was ended (%s): is there enough memory?", child->path,
                       strsignal(signal_number));
    case 0:
        return io_fail("%s: the process that works on it ended early (exit code %d): the file is damaged", child->path,
                       status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    default:
        return io_fail("%s: HDF5 crashes on it (%s): the file is damaged, or there is no memory", child->path,
                       strsignal(signal_number));
    }
}

int io_child_send(struct io_child *child, const void *bytes, int64_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t done = send(child->fd, at, count < (1 << 30) ? (size_t)count : (size_t)1 << 30, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail_ended(child, done);
        at += done;
        count -= done;
    }
    return 0;
}

int io_child_receive(struct io_child *child, void *bytes, int64_t count)
{
    char *at = bytes;
    while (count > 0) {
        ssize_t done = recv(child->fd, at, count < (1 << 30) ? (size_t)count : (size_t)1 << 30, 0);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail_ended(child, done);
        at += done;
        count -= done;
    }
    return 0;
}

/* ---- answers
 * -----------------------------------------------------------------------------------------------------------------------------
 */

enum { SENTENCE = 2048 };

int io_child_answer(struct io_child *child, int err)
{
    char text[SENTENCE] = "";
    int32_t status = err ? -1 : 0;
    if (io_child_send(child, &status, sizeof status))
        return -1;
    if (!err)
        return 0;
    snprintf(text, sizeof text, "%s", io_error());
    return io_child_send(child, text, sizeof text);
}

int io_child_result(struct io_child *child)
{
    char text[SENTENCE];
    int32_t status;
    if (io_child_receive(child, &status, sizeof status))
        return -1;
    if (status == 0)
        return 0;
    if (io_child_receive(child, text, sizeof text))
        return -1;
    text[sizeof text - 1] = 0;
    return io_fail("%s", text);
}

void io_child_end(struct io_child *child)
{
    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
    if (child->pid > 0)
        kill(child->pid, SIGKILL);
    reap(child);
}

int io_child_finish(struct io_child *child, int err)
{
    close(child->fd);
    child->fd = -1;
    int status = reap(child);
    /* The sanitizers' findings in the child are the parent's failure. */
    if (!err && is_watched() && status != 0)
        return io_fail("%s: the process that worked on it ended with status %d", child->path, status);
    return err;
}

/* ---- texts
 * -------------------------------------------------------------------------------------------------------------------------------
 */

int io_child_send_strings(struct io_child *child, const struct io_strings *strings)
{
    int64_t size[2] = {strings->count, 0};
    for (int64_t i = 0; i < strings->count; i++)
        size[1] += (int64_t)strlen(strings->at[i]) + 1;
    /* They lie one behind the other, as io_builder_finish left them. */
    return io_child_send(child, size, sizeof size) || (size[1] && io_child_send(child, strings->at[0], size[1])) ? -1 : 0;
}

int io_child_receive_strings(struct io_child *child, struct io_strings *strings)
{
    int64_t size[2], found = 0;
    memset(strings, 0, sizeof *strings);
    if (io_child_receive(child, size, sizeof size))
        return -1;
    if (size[0] < 0 || size[1] < size[0] || (size[0] == 0 && size[1] > 0) || size[1] > io_most_expanded(child->bytes))
        return io_fail("%s: %" PRId64 " names of %" PRId64 " bytes do not fit its size: it is damaged", child->path, size[0],
                       size[1]);
    if (size[0] == 0)
        return 0;
    strings->at = io_room(size[0], sizeof *strings->at);
    strings->bytes = io_room(size[1], 1);
    if (!strings->at || !strings->bytes) {
        io_strings_close(strings);
        return io_fail_memory(child->path, "names", size[1]);
    }
    if (io_child_receive(child, strings->bytes, size[1])) {
        io_strings_close(strings);
        return -1;
    }
    for (int64_t i = 0, start = 0; i < size[1]; i++) {
        if (strings->bytes[i])
            continue;
        if (found < size[0])
            strings->at[found] = strings->bytes + start;
        found++;
        start = i + 1;
    }
    if (found != size[0] || strings->bytes[size[1] - 1]) {
        io_strings_close(strings);
        return io_fail("%s: its names cannot be told apart: it is damaged", child->path);
    }
    strings->count = found;
    return 0;
}
