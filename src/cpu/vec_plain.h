/* SPDX-License-Identifier: BSD-3-Clause */
/* Any processor with vectors of 4 floats: halves by integer arithmetic. Values are >= 0 and below 65504 by construction. */
#define WIDTH 4
#define KERNELS uni_kernels_plain
#define ISA_NAME "plain"
#define PANEL 3 /* most vectors of a register block of the products, and its rows: */
#define PANEL_ROWS(vectors) ((vectors) > 2 ? 4 : 6)
#define IN_REGISTER(v) (void)0 /* the compiler may load it again where it is used */
#include "vec_common.h"

typedef uint16_t vh __attribute__((vector_size(WIDTH * 2)));

INLINE vf larger(vf a, vf b)
{
    return choose(a > b, a, b);
}

INLINE int any_at_least(vf v, vf limit)
{
    vi mask = v >= limit;
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
}

INLINE vf half_load(const uint16_t *at)
{
    vh h;
    memcpy(&h, at, sizeof h);
    vi wide = __builtin_convertvector(h, vi) << 13;
    return (vf)wide * 0x1p112f; /* the exponent's bias, 127 - 15; subnormal halves come out right too */
}

INLINE void half_store(uint16_t *at, vf v)
{
    vf small = v * 0x1p-112f;
    vi bits = (vi)small;
    bits = (bits + 0x0fff + ((bits >> 13) & 1)) >> 13; /* to nearest, halves to even */
    vh h = __builtin_convertvector(bits, vh);
    memcpy(at, &h, sizeof h);
}

#include "vec_whole.h"
