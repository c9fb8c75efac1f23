/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors of WIDTH floats from the compiler's vector extensions; a vec_....h says WIDTH, and how halves are loaded and stored. */
#ifndef UNI_VEC_COMMON_H
#define UNI_VEC_COMMON_H

#include <stdint.h>
#include <string.h>

#ifndef TILE
#define TILE 48 /* rows that go through the products together: a multiple of every register block's rows, at most MOST_TILE */
#endif

typedef float vf __attribute__((vector_size(WIDTH * 4)));
typedef int32_t vi __attribute__((vector_size(WIDTH * 4)));
typedef double vd __attribute__((vector_size(WIDTH * 8)));
typedef float vf_at __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
typedef double vd_at __attribute__((vector_size(WIDTH * 8), aligned(8), may_alias));
#define INLINE static inline __attribute__((always_inline))

typedef uint16_t lanes_t; /* a bit for each lane of a vector */

INLINE vf load(const float *at)
{
    return *(const vf_at *)at;
}

INLINE void store(float *at, vf v)
{
    *(vf_at *)at = v;
}

INLINE vf splat(float x)
{
    return x - (vf){0}; /* -0 is kept, unlike with + */
}

INLINE vf choose(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

INLINE vf larger(vf a, vf b);            /* of each pair of entries */
INLINE int any_at_least(vf v, vf limit); /* is any entry v >= limit? */

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_at __attribute__((vector_size(16), aligned(4), may_alias));

/* The vector's quarters of 4 floats, combined two by two. */
#if WIDTH == 16
#define HALVES(v, op)                                                                                                            \
    ((v8)op(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)))
typedef float v8 __attribute__((vector_size(32)));
#define FOLD(v, op) FOLD8(HALVES(v, op), op)
#elif WIDTH == 8
typedef float v8 __attribute__((vector_size(32)));
#define FOLD(v, op) FOLD8(v, op)
#else
#define FOLD(v, op) (v)
#endif
#define FOLD8(v, op) ((v4)op(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7)))
#define PLUS(a, b) ((a) + (b))
#define MOST(a, b)                                                                                                               \
    ((typeof(a))((((a) > (b)) & (typeof((a) > (b)))(a)) | (~((a) > (b)) & (typeof((a) > (b)))(b)))) /* the compiler knows max */

/* Sums of four vectors, side by side. */
INLINE v4 add_across4(vf va, vf vb, vf vc, vf vd_)
{
    v4 a = FOLD(va, PLUS), b = FOLD(vb, PLUS), c = FOLD(vc, PLUS), d = FOLD(vd_, PLUS);
    v4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

INLINE float add_across(vf v)
{
    v4 a = FOLD(v, PLUS);
    return (a[0] + a[2]) + (a[1] + a[3]);
}

INLINE float largest_across(vf v)
{
    v4 a = FOLD(v, MOST), b = __builtin_shufflevector(a, a, 2, 3, 0, 1), c = MOST(a, b);
    return c[0] > c[1] ? c[0] : c[1];
}

/* 2^x for x <= 0 (below -126: 2^-126 or so): 2^whole times the minimax polynomial of degree 5 on [-1/2, 1/2], relative
   error 7.5e-8 and rounding, 1.5e-7 in all. */
INLINE vf exp2_below(vf x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number, kept in the low bits */
    x = larger(x, splat(-126.0f));
    vf shifted = x + magic;
    vf t = x - (shifted - magic);
    vf p = t * 0.0013276471992533978f + 0.009675541334453752f;
    p = p * t + 0.055507132734978495f;
    p = p * t + 0.24022119723839974f;
    p = p * t + 0.6931469670647609f;
    p = p * t + 1.0000000716546849f;
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* ln x for normal x > 0: x = 2^e m, m in [sqrt(1/2), sqrt(2)], ln m = 2 artanh((m-1)/(m+1)), series to degree 9: error 1e-9, then
 * rounding. */
INLINE vf natural_log(vf x)
{
    vi bits = (vi)x - 0x3f3504f3;
    vi e = bits >> 23;
    vf m = (vf)((bits & 0x007fffff) + 0x3f3504f3);
    vf t = (m - 1.0f) / (m + 1.0f), u = t * t;
    vf p = splat(2.0f / 9);
    p = p * u + 2.0f / 7;
    p = p * u + 2.0f / 5;
    p = p * u + 2.0f / 3;
    p = p * u * t + 2.0f * t;
    return __builtin_convertvector(e, vf) * 0.693147180559945f + p;
}

/* ln(a / b) for normal a, b > 0 with one division: a is scaled by 2^-e so that a / b is near 1, then 2 artanh((a-b)/(a+b)), whose
   argument is at most 0.23: series to degree 11, error 3e-9, then rounding. */
INLINE vf log_ratio(vf a, vf b)
{
    vi e = ((vi)a - (vi)b + 0x00400000) >> 23;
    a = (vf)((vi)a - (e << 23));
    vf t = (a - b) / (a + b), u = t * t;
    vf p = splat(2.0f / 11);
    p = p * u + 2.0f / 9;
    p = p * u + 2.0f / 7;
    p = p * u + 2.0f / 5;
    p = p * u + 2.0f / 3;
    p = p * u * t + 2.0f * t;
    return __builtin_convertvector(e, vf) * 0.693147180559945f + p;
}

#endif
