/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs on which HDF5 may crash or never end: a worker, forked from this process, takes one after the other, and sends back
   which places it reached. When it dies another takes its place, which costs a fork and no new start of the fuzzer. What a worker
   said as it died is kept once for every kind (every sequence of places it was at): in FUZZ_FINDINGS, as KIND-NUMBER, the input,
   and KIND-NUMBER.log, the report, and KIND-NUMBER.h5ad, the file that it was at; without that folder the report is printed. */
#include <errno.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "fuzzing.h"

/* clang's counters, one for every edge of the code. */
extern uint8_t __start___sancov_cntrs[], __stop___sancov_cntrs[];

enum { MOST_INPUT = 1 << 20, MOST_REPORT = 1 << 18, MOST_KINDS = 1 << 12, WORKER_INPUTS = 4000 };
/* An input takes less than 1 ms, a few take ten, and on one of some hundreds HDF5 works for ever. */
enum { MILLISECONDS = 30, PATIENCE = 60, LOOK_MS = 50, MOST_PAGES = (2048u << 20) / 4096 };

static struct {
    pid_t pid;
    int fd;                   /* to the worker */
    int report;               /* what it writes to stderr */
    int inputs;               /* that this worker has had */
    size_t edges;             /* counters */
    uint8_t *input, *reached; /* shared with it */
} w = {.pid = 0};

static uint64_t known[MOST_KINDS]; /* reports that were seen */
static size_t n_known, n_deaths;

/* ---- the worker ---- */

/* What io took and did not give back, by its own count; and what else is lost, which takes long to look for. */
static void look_for_leaks(long held, int done)
{
    if (held == 0 && done < WORKER_INPUTS)
        return;
    if (__lsan_do_recoverable_leak_check())
        _exit(1);
    REQUIRE(held == 0);
}

/* The sanitizer says a line for all that HDF5 did not get. */
static void forget_words(void)
{
    if (lseek(STDERR_FILENO, 0, SEEK_CUR) > MOST_REPORT / 4 && ftruncate(STDERR_FILENO, 0) == 0)
        lseek(STDERR_FILENO, 0, SEEK_SET);
}

static void work(int fd)
{
    uint32_t size;
    int done = 0;
    while (read(fd, &size, sizeof size) == sizeof size) {
        long held = fuzz_memory_held();
        memset(__start___sancov_cntrs, 0, w.edges);
        fuzz_bounded(w.input, size, MILLISECONDS);
        memcpy(w.reached, __start___sancov_cntrs, w.edges);
        look_for_leaks(fuzz_memory_held() - held, ++done);
        forget_words();
        if (write(fd, "", 1) != 1)
            break;
    }
    _exit(0);
}

static void no_last_words(void)
{
}

/* Nothing of the fuzzer is left in a worker but the instructions that count. */
static void leave_fuzzer(pid_t parent)
{
    static const int theirs[] = {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGXFSZ};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        signal(theirs[i], SIG_DFL);
    __sanitizer_set_death_callback(no_last_words); /* which would keep an input that is not this one */
}

static void start_worker(void)
{
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 && ftruncate(w.report, 0) == 0);
    pid_t parent = getpid();
    w.pid = fork();
    REQUIRE(w.pid >= 0);
    if (w.pid == 0) {
        close(ends[0]);
        lseek(w.report, 0, SEEK_SET);
        dup2(w.report, STDERR_FILENO);
        leave_fuzzer(parent);
        work(ends[1]);
    }
    static const struct timeval look = {.tv_usec = LOOK_MS * 1000};
    close(ends[1]);
    REQUIRE(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look) == 0);
    w.fd = ends[0];
    w.inputs = 0;
}

/* ---- what became of it ---- */

/* The places of all stacks of a report, as "(file+0x123)": the same for two deaths of one kind. Where HDF5 takes too long or too
   much it is now here, now there: then those outside it. */
static uint64_t kind_of(const char *report, const char *what)
{
    uint64_t hash = 1469598103934665603u ^ (uint64_t)what[0];
    int anywhere_in_hdf5 = strcmp(what, "crash") != 0 && strstr(report, "libhdf5");
    for (const char *at = report; (at = strstr(at, "\n    #")); at++) {
        const char *end = strchr(at + 1, '\n'), *place = strstr(at, "+0x"), *hdf5 = strstr(at, "libhdf5");
        if (anywhere_in_hdf5 && hdf5 && hdf5 < place)
            continue;
        for (; place && (!end || place < end) && *place && *place != ')'; place++)
            hash = (hash ^ (uint8_t)*place) * 1099511628211u;
    }
    return hash;
}

static int is_new(uint64_t kind)
{
    for (size_t i = 0; i < n_known; i++)
        if (known[i] == kind)
            return 0;
    if (n_known < MOST_KINDS)
        known[n_known++] = kind;
    return 1;
}

/* The file that the input was made into. */
static void keep_file(const char *what, uint64_t kind)
{
    char from[64], to[4200];
    const char *folder = getenv("FUZZ_FINDINGS");
    fuzz_path(from, ".h5ad");
    snprintf(to, sizeof to, "%s/%s-%016llx.h5ad", folder ? folder : ".", what, (unsigned long long)kind);
    int in = folder ? open(from, O_RDONLY) : -1;
    if (in < 0)
        return;
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int part = 0; part < 64 && out >= 0 && sendfile(out, in, NULL, MOST_INPUT) > 0; part++)
        ;
    close(in);
    if (out >= 0)
        close(out);
}

static void keep(const char *what, uint64_t kind, const char *ending, const void *bytes, size_t size)
{
    char path[4200];
    const char *folder = getenv("FUZZ_FINDINGS");
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%s-%016llx%s", folder, what, (unsigned long long)kind, ending);
    fuzz_file(path, bytes, size);
}

static void bury(const char *what, size_t size)
{
    static char report[MOST_REPORT];
    kill(w.pid, SIGKILL);
    while (waitpid(w.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(w.fd);
    w.pid = 0;
    n_deaths++;
    ssize_t length = pread(w.report, report, sizeof report - 1, 0);
    report[length > 0 ? length : 0] = 0;
    if (strstr(report, FUZZ_TOO_LONG))
        what = "timeout";
    else if (strstr(report, FUZZ_TOO_MUCH))
        what = "oom";
    else if (strstr(report, "LeakSanitizer"))
        what = "leak";
    uint64_t kind = kind_of(report, what);
    if (!is_new(kind))
        return;
    keep(what, kind, "", w.input, size);
    keep(what, kind, ".log", report, strlen(report));
    keep_file(what, kind);
    fprintf(stderr, "death %zu, kind %zu: %s-%016llx\n%s\n", n_deaths, n_known, what, (unsigned long long)kind,
            getenv("FUZZ_FINDINGS") ? "" : report);
}

static long pages_of_worker(void)
{
    char path[64];
    long all, pages = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)w.pid);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages;
}

/* NULL: it answered. Its time of the processor is bounded in itself; here it is only not waited for for ever. */
static const char *wait_for_worker(void)
{
    char answer;
    for (int waited = 0; waited < PATIENCE * 1000; waited += LOOK_MS) {
        ssize_t length = recv(w.fd, &answer, 1, 0);
        if (length >= 0)
            return length == 1 ? NULL : "crash";
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return "crash";
        if (pages_of_worker() > MOST_PAGES)
            return "oom";
    }
    return "timeout";
}

static void end_worker(void)
{
    if (w.pid <= 0)
        return;
    close(w.fd); /* it ends by itself, and leaves no file */
    while (waitpid(w.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    w.pid = 0;
}

static void remove_files(void)
{
    static const char *const endings[] = {".h5ad", "-out.h5ad"};
    char path[64];
    end_worker();
    fprintf(stderr, "%zu inputs ended their worker, in %zu ways\n", n_deaths, n_known);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        fuzz_path(path, endings[i]);
        unlink(path);
    }
}

static void set_up(void)
{
    char owner[32];
    w.edges = (size_t)(__stop___sancov_cntrs - __start___sancov_cntrs);
    uint8_t *shared = mmap(NULL, MOST_INPUT + w.edges, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    w.report = memfd_create("report", MFD_CLOEXEC);
    REQUIRE(shared != MAP_FAILED && w.report >= 0);
    w.input = shared, w.reached = shared + MOST_INPUT;
    snprintf(owner, sizeof owner, "%ld", (long)getpid());
    setenv("FUZZ_OWNER", owner, 1);
    atexit(remove_files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!w.input)
        set_up();
    if (size > MOST_INPUT)
        return -1;
    if (w.inputs == WORKER_INPUTS || (w.inputs % 64 == 63 && pages_of_worker() > MOST_PAGES / 2))
        end_worker();
    if (w.pid <= 0)
        start_worker();
    w.inputs++;
    memcpy(w.input, data, size);
    memset(w.reached, 0, w.edges);
    uint32_t length = (uint32_t)size;
    const char *died = send(w.fd, &length, sizeof length, MSG_NOSIGNAL) == sizeof length ? wait_for_worker() : "crash";
    if (died)
        bury(died, size);
    memcpy(__start___sancov_cntrs, w.reached, w.edges);
    return 0;
}
