/* SPDX-License-Identifier: BSD-3-Clause */
#include <arm_neon.h>

#define WIDTH 4
#define KERNELS uni_kernels_neon
#define ISA_NAME "neon"
#define PANEL 4 /* most vectors of a register block of the products, and its rows: */
#define PANEL_ROWS(vectors) 6
#define IN_REGISTER(v) __asm__("" : "+w"(v)) /* else the compiler loads it anew for every use */
#include "vec_common.h"

INLINE vf larger(vf a, vf b)
{
    return (vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

INLINE int any_at_least(vf v, vf limit)
{
    return vmaxvq_u32(vcgeq_f32((float32x4_t)v, (float32x4_t)limit)) != 0;
}

INLINE vf half_load(const uint16_t *at)
{
    return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
}

INLINE void half_store(uint16_t *at, vf v)
{
    vst1_u16(at, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
}

#include "vec_whole.h"
