/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel sets of x86-64 builds. */
#include <stddef.h>

#include "cpu_kernels.h"

extern const struct uni_cpu_kernels uni_kernels_avx512, uni_kernels_avx2, uni_kernels_plain;

const struct uni_cpu_kernels *const uni_cpu_kernel_sets[] = {&uni_kernels_avx512, &uni_kernels_avx2, &uni_kernels_plain, NULL};

int uni_cpu_can_run(const struct uni_cpu_kernels *kernels)
{
    __builtin_cpu_init();
    if (kernels == &uni_kernels_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
    if (kernels == &uni_kernels_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return __builtin_cpu_supports("sse4.2") != 0;
}
