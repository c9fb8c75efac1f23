/* SPDX-License-Identifier: BSD-3-Clause */
/* What memory this process may still take: of the machine's, of its cgroups' and of its address space. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "surroundings.h"
#include "unisono.h"

enum { PATH_LONG = 4200 };

/* The number after key ("MemAvailable:", or "" for the first in the file) in a file of lines; -1 when there is none. "max" is no
 * number. */
static int64_t number_in(const char *path, const char *key)
{
    char line[256];
    int64_t value = -1;
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    while (value < 0 && fgets(line, sizeof line, f)) {
        size_t n = strlen(key);
        if (!strncmp(line, key, n)) {
            char *end;
            long long number = strtoll(line + n, &end, 10);
            if (end != line + n)
                value = number;
        }
    }
    fclose(f);
    return value;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

/* Names of a version of cgroups: files, and lines of memory.stat that tell what counts as used and yet is given up before a
 * process is ended: pages of files, recently used or not, and what the kernel remembers of them. */
struct cgroup_names {
    const char *mount, *limit, *used, *given_up[4];
};
static const struct cgroup_names version_1 = {
    "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file ", "total_active_file "}};
static const struct cgroup_names version_2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file ", "slab_reclaimable "}};

/* What one cgroup's folder leaves; -1 where it sets no limit. */
static int64_t cgroup_left(const char *folder, const struct cgroup_names *names)
{
    char path[PATH_LONG + 64];
    snprintf(path, sizeof path, "%s/%s", folder, names->limit);
    int64_t limit = number_in(path, "");
    snprintf(path, sizeof path, "%s/%s", folder, names->used);
    int64_t used = number_in(path, "");
    if (limit < 0 || used < 0)
        return -1;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    for (int i = 0; names->given_up[i]; i++) {
        int64_t given_up = number_in(path, names->given_up[i]);
        used -= given_up > 0 ? given_up : 0;
    }
    if (used < 0) /* the numbers are not of one moment */
        used = 0;
    return limit > used ? limit - used : 0;
}

/* The smallest of this group's and its parents' limits; group: "/a/b" under the mount, which it ends as "". */
static int64_t cgroup_chain(char *group, const struct cgroup_names *names)
{
    char folder[PATH_LONG];
    int64_t left = -1;
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", names->mount, group);
        left = smaller(left, cgroup_left(folder, names));
        char *slash = strrchr(group, '/');
        if (!slash)
            return left;
        *slash = 0;
    }
}

static int64_t cgroups_left(void)
{
    char line[PATH_LONG / 2];
    int64_t left = -1;
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *first = strchr(line, ':');
        char *second = first ? strchr(first + 1, ':') : NULL;
        if (!second)
            continue;
        *second = 0;
        char *group = second + 1;
        if (!strcmp(first, ":"))
            left = smaller(left, cgroup_chain(group, &version_2));
        else if (!strcmp(first, ":memory"))
            left = smaller(left, cgroup_chain(group, &version_1));
    }
    fclose(f);
    return left;
}

static int64_t address_space_left(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return -1;
    int64_t pages = number_in("/proc/self/statm", "");
    int64_t used = pages < 0 ? 0 : pages * (int64_t)sysconf(_SC_PAGESIZE);
    return (int64_t)limit.rlim_cur > used ? (int64_t)limit.rlim_cur - used : 0;
}

int64_t uni_memory_left(int64_t *address_space)
{
    OWN_SURROUNDINGS;
    int64_t machine = number_in("/proc/meminfo", "MemAvailable:"), space = address_space_left();
    if (address_space)
        *address_space = space;
    return smaller(smaller(machine < 0 ? -1 : machine * 1024, cgroups_left()), space);
}
