/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "found.h"
#include "testing.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* x86: MXCSR; bits 0 to 5 are the flags. ARM: FPCR, which has none. */
unsigned long found_float_control(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
    unsigned long fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#else
    return 0;
#endif
}

int flush_to_zero(int on)
{
#if defined(__x86_64__)
    unsigned bits = 0x8040; /* FTZ, DAZ */
    __builtin_ia32_ldmxcsr(on ? __builtin_ia32_stmxcsr() | bits : __builtin_ia32_stmxcsr() & ~bits);
    return 1;
#elif defined(__aarch64__)
    unsigned long bit = 1ul << 24, fpcr = found_float_control();
    fpcr = on ? fpcr | bit : fpcr & ~bit;
    __asm__ volatile("msr fpcr, %0" ::"r"(fpcr));
    return 1;
#else
    (void)on;
    return 0;
#endif
}

int trap_exceptions(int on)
{
#if defined(__GLIBC__)
    if (!on)
        return fedisableexcept(FE_ALL_EXCEPT) != -1;
    return feenableexcept(FE_ALL_EXCEPT) != -1 && fegetexcept() == FE_ALL_EXCEPT;
#else
    (void)on;
    return 0;
#endif
}

static void line(struct found *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(struct found *f, const char *format, ...)
{
    size_t used = strlen(f->text);
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(f->text + used, sizeof f->text - used, format, arguments);
    va_end(arguments);
    assert_true(n >= 0 && (size_t)n < sizeof f->text - used);
}

static int count_threads(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *e; folder && (e = readdir(folder));)
        n += e->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

static void list_signals(struct found *f)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int s = 1; s < NSIG; s++) {
        struct sigaction a;
        if (sigaction(s, NULL, &a) == 0)
            line(f, "signal %d: handler %lx, flags %x, %s\n", s, (unsigned long)(uintptr_t)a.sa_handler, (unsigned)a.sa_flags,
                 sigismember(&mask, s) ? "blocked" : "open");
    }
    stack_t stack;
    if (sigaltstack(NULL, &stack) == 0)
        line(f, "signal stack: %p, %d\n", stack.ss_sp, stack.ss_flags);
    struct itimerval timer;
    getitimer(ITIMER_REAL, &timer);
    line(f, "timer: %ld\n", (long)timer.it_value.tv_sec);
}

static void list_files(struct found *f)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[200];
        struct stat s;
        if (fstat(fd, &s) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        line(f, "file %d: %s, at %ld\n", fd, target, (long)lseek(fd, 0, SEEK_CUR));
    }
}

static void list_process(struct found *f)
{
    char folder[4096];
    unsigned long hash = 5381;
    int n = 0;
    for (char **e = environ; *e; e++, n++)
        for (const char *c = *e; *c; c++)
            hash = 33 * hash + (unsigned char)*c;
    line(f, "environment: %d variables at %p, %lx\n", n, (void *)environ, hash);
    line(f, "folder: %s\n", getcwd(folder, sizeof folder) ? folder : "gone");
    mode_t mask = umask(0);
    umask(mask);
    line(f, "umask: %o\n", (unsigned)mask);
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit(i, &limit) == 0)
            line(f, "limit %d: %llx %llx\n", i, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    }
    line(f, "priority: %d\n", getpriority(PRIO_PROCESS, 0));
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
        unsigned long bits = 0;
        for (int c = 0; c < CPU_SETSIZE; c++)
            bits = 33 * bits + (CPU_ISSET(c, &cpus) != 0);
        line(f, "CPUs: %d, %lx\n", CPU_COUNT(&cpus), bits);
    }
    int type, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
    pthread_setcancelstate(cancel, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    pthread_setcanceltype(type, NULL);
    line(f, "cancelling: %d %d\n", cancel, type);
    line(f, "buffers: %d %d\n", ferror(stdout), ferror(stderr));
}

void found_now(struct found *f)
{
    f->flags = fetestexcept(FE_ALL_EXCEPT); /* before anything here may raise one */
    f->float_control = found_float_control();
    f->rounding = fegetround();
    f->traps = 0;
#if defined(__GLIBC__)
    f->traps = fegetexcept();
#endif
    f->thread_locale = uselocale((locale_t)0);
    f->text[0] = 0;
    line(f, "locale: %s\n", setlocale(LC_ALL, NULL));
    line(f, "threads: %d\n", count_threads());
    list_signals(f);
    list_files(f);
    list_process(f);
}

void found_as(struct found *now, const struct found *expected)
{
    struct timespec moment = {0, 1000000};
    for (int i = 0; i < 5000; i++) {
        found_now(now);
        if (strcmp(now->text, expected->text) == 0)
            break;
        nanosleep(&moment, NULL);
    }
}

void assert_found(const struct found *after, const struct found *before, const char *what, int outcome)
{
    const char *a = after->text, *b = before->text;
    if (after->float_control != before->float_control || after->rounding != before->rounding || after->traps != before->traps)
        fail_msg("%s, outcome %d: float control was %lx, rounding %x, traps %x and is %lx, %x, %x", what, outcome,
                 before->float_control, (unsigned)before->rounding, (unsigned)before->traps, after->float_control,
                 (unsigned)after->rounding, (unsigned)after->traps);
    if (after->flags != before->flags)
        fail_msg("%s, outcome %d: the exception flags were %x and are %x", what, outcome, (unsigned)before->flags,
                 (unsigned)after->flags);
    if (after->thread_locale != before->thread_locale)
        fail_msg("%s, outcome %d: the thread has another locale", what, outcome);
    while (*a && *b) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n) != 0)
            fail_msg("%s, outcome %d: was \"%.*s\", is \"%.*s\"", what, outcome, (int)m, b, (int)n, a);
        a += n + 1, b += m + 1;
    }
    assert_int_equal(*a, *b);
}

/* The C library keeps the path that it makes of LOCPATH. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:argz_add_sep\n";
}

static const char *with_comma(const char *name)
{
    const char *set = setlocale(LC_ALL, name);
    int comma = set && localeconv()->decimal_point[0] == ',';
    setlocale(LC_ALL, "C");
    return comma ? name : NULL;
}

static char folder[] = "/tmp/unisono-locale-XXXXXX";

static void remove_locale(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        print_error("%s is left behind\n", folder);
}

const char *comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "nl_NL.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (with_comma(names[i]))
            return names[i];
    char command[200];
    if (!mkdtemp(folder))
        return NULL;
    atexit(remove_locale); /* setlocale reads it later, too */
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    return system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 ? with_comma("de_DE.UTF-8") : NULL;
}
