/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>

#define WIDTH 8
#define KERNELS uni_kernels_avx2
#define ISA_NAME "avx2"
#define PANEL 3 /* most vectors of a register block of the products, and its rows: */
#define PANEL_ROWS(vectors) ((vectors) > 2 ? 4 : 6)
#define IN_REGISTER(v) __asm__("" : "+x"(v)) /* else the compiler loads it anew for every use */
#include "vec_common.h"

INLINE vf larger(vf a, vf b)
{
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}

INLINE int any_at_least(vf v, vf limit)
{
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, (__m256)limit, _CMP_GE_OQ)) != 0;
}

INLINE vf half_load(const uint16_t *at)
{
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}

INLINE void half_store(uint16_t *at, vf v)
{
    _mm_storeu_si128((__m128i *)(void *)at, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}

/* The first 4 lanes of a vector, as a base row is a multiple of 4 long; the others are zero. */
INLINE vf half_load_part(const uint16_t *at, lanes_t lanes)
{
    (void)lanes;
    return (vf)_mm256_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)at));
}

INLINE vf load_part(const float *at, lanes_t lanes)
{
    (void)lanes;
    return (vf)_mm256_zextps128_ps256(_mm_loadu_ps(at));
}

INLINE void half_store_part(uint16_t *at, vf v, lanes_t lanes)
{
    (void)lanes;
    _mm_storel_epi64((__m128i *)(void *)at, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}

INLINE void store_part(float *at, vf v, lanes_t lanes)
{
    (void)lanes;
    _mm_storeu_ps(at, _mm256_castps256_ps128((__m256)v));
}
