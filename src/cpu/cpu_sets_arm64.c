/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel sets of aarch64 builds: NEON with half conversions is part of every such processor. */
#include <stddef.h>

#include "cpu_kernels.h"

extern const struct uni_cpu_kernels uni_kernels_neon, uni_kernels_plain;

const struct uni_cpu_kernels *const uni_cpu_kernel_sets[] = {&uni_kernels_neon, &uni_kernels_plain, NULL};

int uni_cpu_can_run(const struct uni_cpu_kernels *kernels)
{
    (void)kernels;
    return 1;
}
