/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine has left, what the process took, and where files may go. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "unisono.h"

enum { PATH_LONG = 4200 };

int64_t memory_address_space(void)
{
    int64_t space;
    (void)uni_memory_left(&space);
    return space;
}

int64_t memory_available(void)
{
    return uni_memory_left(NULL);
}

/* "VmHWM:     5312 kB"; -1: the kernel does not say. */
static int64_t peak_in_status(void)
{
    char line[256];
    long long peak = -1;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && peak < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld", &peak) != 1)
            peak = -1;
    if (f)
        fclose(f);
    return peak;
}

/* Of getrusage only where there is nothing better: its number may be that of the process that started this one. */
int64_t memory_peak(void)
{
    struct rusage usage;
    int64_t peak = peak_in_status();
    if (peak >= 0)
        return peak * 1024;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (int64_t)usage.ru_maxrss * 1024;
}

double seconds_wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double seconds_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int is_folder(const char *path)
{
    struct stat s;
    size_t n = strlen(path);
    return (n && path[n - 1] == '/') || (!stat(path, &s) && S_ISDIR(s.st_mode));
}

int target_check(const char *path, const char *what, int overwrite, int folder)
{
    struct stat s;
    char parent[PATH_LONG];
    size_t n = strlen(path);
    if (!n || n >= sizeof parent)
        return say_failed("%s: \"%s\" is no usable file name", what, path);
    int exists = !stat(path, &s);
    if (!exists && errno != ENOENT)
        return say_failed("%s %s cannot be used: %s", what, path, strerror(errno));
    if (exists && !folder && S_ISDIR(s.st_mode))
        return say_failed("%s %s is a folder; name a file", what, path);
    if (exists && folder)
        return access(path, W_OK | X_OK) ? say_failed("%s: cannot write into the folder %s: %s", what, path, strerror(errno))
                                         : EXIT_DONE;
    if (exists && !S_ISREG(s.st_mode))
        return say_failed("%s %s is no regular file, so nothing can be renamed over it", what, path);
    if (exists && !overwrite)
        return say_failed("%s %s exists already; -f overwrites it", what, path);
    memcpy(parent, path, n + 1);
    while (n > 1 && parent[n - 1] == '/')
        parent[--n] = 0;
    char *slash = strrchr(parent, '/');
    if (!slash)
        strcpy(parent, ".");
    else
        slash[slash == parent] = 0;
    if (access(parent, W_OK | X_OK))
        return say_failed("%s: cannot write into the folder %s: %s", what, parent, strerror(errno));
    return EXIT_DONE;
}
