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

const struct uni_cpu_kernels *uni_cpu_choose(void)
{
    const char *forced = getenv("UNISONO_ISA");
    char known[128] = "";
    for (int i = 0; uni_cpu_kernel_sets[i]; i++) {
        const struct uni_cpu_kernels *kernels = uni_cpu_kernel_sets[i];
        int can = uni_cpu_can_run(kernels);
        if (can && (!forced || !*forced || named(kernels, forced)))
            return kernels;
        if (can) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", kernels->name);
        }
    }
    uni_fail(UNI_BACKEND, "UNISONO_ISA is \"%s\"; this processor runs %s", forced ? forced : "", known);
    return NULL;
}
