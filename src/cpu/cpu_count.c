/* SPDX-License-Identifier: BSD-3-Clause */
/* How many CPUs this process may use: not how many there are. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu_pool.h"

static int64_t allowed_by_affinity(void)
{
    cpu_set_t set; /* 1024 CPUs; larger machines answer with an error */
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? online : 1;
}

/* CPUs of a quota file's two numbers, "max 100000" or "150000 100000"; 0: no limit. */
static int64_t quota_of(const char *quota_path, const char *period_path)
{
    char text[64] = "";
    long long quota = 0, period = 0;
    FILE *f = fopen(quota_path, "r");
    if (!f)
        return 0;
    if (!fgets(text, sizeof text, f))
        text[0] = 0;
    fclose(f);
    if (period_path) {
        char *end = strchr(text, '\n');
        char *at = end ? end : text + strlen(text);
        f = fopen(period_path, "r");
        if (!f)
            return 0;
        *at++ = ' ';
        if (!fgets(at, (int)(sizeof text - (size_t)(at - text)), f))
            *at = 0;
        fclose(f);
    }
    if (sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
        return 0;
    return (quota + period - 1) / period;
}

/* The process's own cgroup (version 2) is a path below the mount point; version 1 has a folder per controller. */
static int64_t allowed_by_cgroup(void)
{
    char line[512], path[600];
    int64_t limit = quota_of("/sys/fs/cgroup/cpu.max", NULL);
    if (!limit)
        limit = quota_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", line + 3);
        int64_t own = quota_of(path, NULL);
        if (own && (!limit || own < limit))
            limit = own;
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
