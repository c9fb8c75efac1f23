/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>

#define WIDTH 16
#ifndef KERNELS /* else those of vec_amx.h */
#define KERNELS uni_kernels_avx512
#define ISA_NAME "avx512"
#endif
#define PANEL 7 /* most vectors of a register block of the products, and its rows: */
#define PANEL_ROWS(vectors) ((vectors) > 4 ? 3 : 6)
#define IN_REGISTER(v) __asm__("" : "+v"(v)) /* else the compiler loads it anew for every use */
#include "vec_common.h"

INLINE vf larger(vf a, vf b)
{
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}

INLINE int any_at_least(vf v, vf limit)
{
    return _mm512_cmp_ps_mask((__m512)v, (__m512)limit, _CMP_GE_OQ) != 0;
}

INLINE vf half_load(const uint16_t *at)
{
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

INLINE void half_store(uint16_t *at, vf v)
{
    _mm256_storeu_si256((__m256i *)(void *)at, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}

/* The first lanes of a vector; the others are zero. */
INLINE vf half_load_part(const uint16_t *at, lanes_t lanes)
{
    return (vf)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, at));
}

INLINE vf load_part(const float *at, lanes_t lanes)
{
    return (vf)_mm512_maskz_loadu_ps(lanes, at);
}

INLINE void half_store_part(uint16_t *at, vf v, lanes_t lanes)
{
    _mm256_mask_storeu_epi16(at, lanes, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}

INLINE void store_part(float *at, vf v, lanes_t lanes)
{
    _mm512_mask_storeu_ps(at, lanes, (__m512)v);
}
