/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel sets of x86-64 builds. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <stddef.h>

#include "cpu_kernels.h"

extern const struct uni_cpu_kernels uni_kernels_avx512, uni_kernels_avx2, uni_kernels_plain;

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}

/* Not every compiler's __builtin_cpu_supports knows f16c; that the system keeps AVX's registers, avx2 has shown. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

#ifdef UNI_HAS_AMX
#include <sys/syscall.h>
#include <unistd.h>

extern const struct uni_cpu_kernels uni_kernels_amx;
#define AMX_FIRST &uni_kernels_amx,

/* The system keeps no room for tiles until a process asks. It refuses where a thread's stack for signals is too small for them.
 */
static int may_use_tiles(void)
{
    enum { ASK = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}

static int has_amx(void)
{
    unsigned a, b, c, d;
    return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) /* AMX-BF16 */ &&
           (d >> 24 & 1) /* AMX-TILE */ && may_use_tiles();
}
#else
#define AMX_FIRST
#endif

const struct uni_cpu_kernels *const uni_cpu_kernel_sets[] = {AMX_FIRST & uni_kernels_avx512, &uni_kernels_avx2,
                                                             &uni_kernels_plain, NULL};

int uni_cpu_can_run(const struct uni_cpu_kernels *kernels)
{
    __builtin_cpu_init();
#ifdef UNI_HAS_AMX
    if (kernels == &uni_kernels_amx)
        return has_amx();
#endif
    if (kernels == &uni_kernels_avx512)
        return has_avx512();
    if (kernels == &uni_kernels_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    return __builtin_cpu_supports("sse4.2") != 0;
}
