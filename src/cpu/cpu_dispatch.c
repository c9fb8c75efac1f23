/* SPDX-License-Identifier: BSD-3-Clause */
/* Which instruction set. The one place of the library that reads the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "cpu_kernels.h"
#include "unisono.h"

static int named(const struct uni_cpu_kernels *kernels, const char *name)
{
    return strcmp(kernels->name, name) == 0;
}

static void list_sets(char *known, size_t size)
{
    size_t used = 0;
    for (int i = 0; uni_cpu_kernel_sets[i] && used < size; i++)
        if (uni_cpu_can_run(uni_cpu_kernel_sets[i]))
            used += (size_t)snprintf(known + used, size - used, "%s%s", used ? ", " : "", uni_cpu_kernel_sets[i]->name);
}

/* A set that is not wanted is not asked for: some need the system's leave. */
const struct uni_cpu_kernels *uni_cpu_choose(void)
{
    const char *forced = getenv("UNISONO_ISA");
    char known[128] = "";
    for (int i = 0; uni_cpu_kernel_sets[i]; i++) {
        const struct uni_cpu_kernels *kernels = uni_cpu_kernel_sets[i];
        if ((!forced || !*forced || named(kernels, forced)) && uni_cpu_can_run(kernels))
            return kernels;
    }
    list_sets(known, sizeof known);
    if (!*known)
        uni_fail(UNI_BACKEND,
                 "this processor has none of the instruction sets that this build is for: on x86-64 SSE4.2 is the least");
    else
        uni_fail(UNI_BACKEND, "UNISONO_ISA is \"%s\"; this processor runs %s", forced, known);
    return NULL;
}
