/* SPDX-License-Identifier: BSD-3-Clause */
/* How many CPUs this process may use: not how many there are. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool.h"

enum { MOST_PATH = 4096 };

static int64_t allowed_by_affinity(void)
{
    cpu_set_t set; /* 1024 CPUs; larger machines answer with an error */
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? online : 1;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

/* What fgets gives of a file's first line; "" where there is none. */
static void first_line(char *text, int size, const char *folder, const char *name)
{
    char path[MOST_PATH + 32];
    text[0] = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    if (!fgets(text, size, f))
        text[0] = 0;
    fclose(f);
}

/* CPUs of one cgroup's quota: "max 100000" or "150000 100000" in one file (version 2), or in two (version 1, -1: none); 0: no
 * limit. */
static int64_t quota_of(const char *folder)
{
    char text[64], period_text[64];
    long long quota = 0, period = 0;
    first_line(text, sizeof text, folder, "cpu.max");
    if (text[0] && sscanf(text, "%lld %lld", &quota, &period) != 2)
        return 0;
    if (!text[0]) {
        first_line(text, sizeof text, folder, "cpu.cfs_quota_us");
        first_line(period_text, sizeof period_text, folder, "cpu.cfs_period_us");
        if (sscanf(text, "%lld", &quota) != 1 || sscanf(period_text, "%lld", &period) != 1)
            return 0;
    }
    return quota <= 0 || period <= 0 ? 0 : (quota + period - 1) / period;
}

/* The smallest of this group's and its parents'; group: "/a/b" under mount, which it ends as "". Where the group cannot be seen,
   as in a container, the container's own is at the mount point. */
static int64_t smallest_quota(const char *mount, char *group)
{
    char folder[MOST_PATH];
    int64_t limit = 0;
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        limit = smaller(limit, quota_of(folder));
        char *slash = strrchr(group, '/');
        if (!slash)
            return limit;
        *slash = 0;
    }
}

/* Is "cpu" among "cpu,cpuacct"? */
static int is_of_cpu(const char *controllers)
{
    for (const char *at = controllers; *at;) {
        size_t length = strcspn(at, ",");
        if (length == 3 && strncmp(at, "cpu", 3) == 0)
            return 1;
        at += length + (at[length] != 0);
    }
    return 0;
}

/* Lines of /proc/self/cgroup: "0::/a/b" (version 2), "4:cpu,cpuacct:/a/b" (version 1, below a folder for each controller). */
static int64_t allowed_by_cgroup(void)
{
    char line[MOST_PATH / 2];
    int64_t limit = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        controllers++;
        *group++ = 0;
        if (!*controllers)
            limit = smaller(limit, smallest_quota("/sys/fs/cgroup", group));
        else if (is_of_cpu(controllers))
            limit = smaller(limit, smallest_quota("/sys/fs/cgroup/cpu", group));
    }
    if (f)
        fclose(f);
    return limit;
}

int64_t uni_cpu_count(void)
{
    int64_t cpus = allowed_by_affinity(), quota = allowed_by_cgroup();
    if (quota && quota < cpus)
        cpus = quota;
    return cpus < 1 ? 1 : cpus;
}
