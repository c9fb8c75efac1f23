/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done with the products of the pass before the sweeps, whatever makes them: 16 rows a warp, in the layout of the tensor
   cores' sums. */
#ifndef UNI_CUDA_ASSIGN_CUH
#define UNI_CUDA_ASSIGN_CUH

#include "cuda_rows.cuh"

/* A row's squares over- or underflow: it is scaled by its largest entry. Returns its squares then. */
template <int DT> __device__ __noinline__ float rescale(float (&z)[2 * DT])
{
    float most = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < 2 * DT; i++)
        most = fmaxf(most, fabsf(z[i]));
    most = quad_most(most);
#pragma unroll
    for (int i = 0; i < 2 * DT; i++) {
        z[i] = most > 0 ? z[i] / most : 0;
        squares += z[i] * z[i];
    }
    return quad_sum(squares);
}

/* Unit length, times Z_SCALE; a row of zeros stays. */
template <int DT> __device__ __forceinline__ void normalise(float (&z)[DT][4])
{
#pragma unroll
    for (int h = 0; h < 4; h += 2) {
        float squares = 0;
#pragma unroll
        for (int j = 0; j < DT; j++)
            squares += z[j][h] * z[j][h] + z[j][h + 1] * z[j][h + 1];
        squares = quad_sum(squares);
        if (__any_sync(~0u, !(squares > 1e-30f && squares < 1e30f))) {
            float row[2 * DT];
#pragma unroll
            for (int j = 0; j < DT; j++)
                row[2 * j] = z[j][h], row[2 * j + 1] = z[j][h + 1];
            squares = rescale<DT>(row);
#pragma unroll
            for (int j = 0; j < DT; j++)
                z[j][h] = row[2 * j], z[j][h + 1] = row[2 * j + 1];
        }
        float scale = squares > 0 ? Z_SCALE * rsqrtf(squares) : 0;
#pragma unroll
        for (int j = 0; j < DT; j++)
            z[j][h] *= scale, z[j][h + 1] *= scale;
    }
}

/* Both parts of the objective for R = base of one row: base = e f, dist = -sigma (ln base + L). */
template <int KT>
__device__ __forceinline__ void fit_of_row(double *fit, const float (&e)[KT][4], const float *sigma, int Kp, int t, int h,
                                           float f, float L, bool valid)
{
    float weights = 0, entropy = 0;
#pragma unroll
    for (int j = 0; j < KT; j++) {
        int k = assign_column(KT, j, 2 * t);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float b = e[j][h + i] * f, weight = k + i < Kp ? sigma[k + i] * b : 0;
            weights += weight;
            entropy += b > 1e-37f ? weight * __logf(b) : 0;
        }
    }
    if (valid) {
        fit[0] -= (double)entropy + (double)weights * (double)L;
        fit[1] += (double)entropy;
    }
}

/* The sums of a warp's rows to a piece. Lanes exchange halves of their numbers, so that each ends with a fourth of them. */
template <int KT> __device__ void flush(const uni_cuda_view &v, int piece, float (&sum)[KT][2], int g, int t)
{
    constexpr int HALF = KT, QUARTER = (KT + 1) / 2, FIRST = (QUARTER + 1) / 2; /* of them a lane of g < 4 adds the first */
    const bool odd = g & 1, high = g & 2;
    long long *M = v.M[0] + (int64_t)piece * v.Kp;
    float x[2 * QUARTER];
    x[2 * QUARTER - 1] = 0;
#pragma unroll
    for (int u = 0; u < HALF; u++) {
        const float a = sum[u / 2][u % 2], b = sum[(u + HALF) / 2][(u + HALF) % 2];
        x[u] = (odd ? b : a) + __shfl_xor_sync(~0u, odd ? a : b, 4);
    }
#pragma unroll
    for (int u = 0; u < QUARTER; u++) {
        const float a = x[u], b = x[u + QUARTER];
        x[u] = (high ? b : a) + __shfl_xor_sync(~0u, high ? a : b, 8);
        x[u] += __shfl_xor_sync(~0u, x[u], 16);
    }
#pragma unroll
    for (int u = 0; u < FIRST; u++) {
        const int at = g < 4 ? u : FIRST + u, of_half = (high ? QUARTER : 0) + at, n = (odd ? HALF : 0) + of_half,
                  k = assign_column(KT, n / 2, 2 * t + n % 2);
        const float mine = g < 4 || FIRST + u >= QUARTER ? x[u] : x[FIRST + u < QUARTER ? FIRST + u : 0];
        if (at < QUARTER && of_half < HALF && k < v.K)
            add_exact(M + k, __float2ll_rn(mine * (float)(MASS_SCALE / BASE_SCALE)));
    }
#pragma unroll
    for (int j = 0; j < KT; j++)
        sum[j][0] = sum[j][1] = 0;
}

/* 1 / sum of a row of base as it is stored: the tensor cores add what lies as their first factor does. */
template <int KT> __device__ __forceinline__ void scale_base(float *scale, const float (&e)[KT][4], int t, bool low, bool high)
{
    const uint32_t ones = 0x3c003c00;
    float s[4] = {};
#pragma unroll
    for (int j = 0; j < KT; j += 2) {
        const int other = j + 1 < KT ? j + 1 : j;
        uint32_t a[4] = {pair_half(e[j][0], e[j][1]), pair_half(e[j][2], e[j][3]), 0, 0};
        if (j + 1 < KT)
            a[2] = pair_half(e[other][0], e[other][1]), a[3] = pair_half(e[other][2], e[other][3]);
        multiply_add(s, a, ones, ones);
    }
    if (t == 0 && low)
        scale[0] = __fdividef(1.0f, s[0]);
    if (t == 0 && high)
        scale[8] = __fdividef(1.0f, s[2]);
}

/* A row's logits as they are, or over the largest. */
template <int KT>
__device__ __forceinline__ void take_logits(float (&e)[KT][4], const float2 *logit, int t, bool shifts, float (&most)[2])
{
    most[0] = most[1] = shifts ? -1e30f : 0;
#pragma unroll
    for (int j = 0; j < KT; j++) {
        float4 l = *(const float4 *)(logit + 8 * j + 2 * t);
        e[j][0] = e[j][0] * l.x + l.y, e[j][1] = e[j][1] * l.z + l.w;
        e[j][2] = e[j][2] * l.x + l.y, e[j][3] = e[j][3] * l.z + l.w;
    }
    if (!shifts)
        return;
#pragma unroll
    for (int j = 0; j < KT; j++) {
        most[0] = fmaxf(most[0], fmaxf(e[j][0], e[j][1]));
        most[1] = fmaxf(most[1], fmaxf(e[j][2], e[j][3]));
    }
    most[0] = quad_most(most[0]), most[1] = quad_most(most[1]);
#pragma unroll
    for (int j = 0; j < KT; j++)
        e[j][0] -= most[0], e[j][1] -= most[0], e[j][2] -= most[1], e[j][3] -= most[1];
}

/* e = z . Y, of a warp's rows: their base, L, and the sums of base times BASE_SCALE. */
template <int KT, int SINGLE>
__device__ __forceinline__ void make_base(const uni_cuda_view &v, bool with_fit, bool shifts, uint32_t row, float (&e)[KT][4],
                                          const float2 *logit, float (&sum)[KT][2], double *fit, int lane, bool low, bool high)
{
    int g = lane / 4, t = lane % 4;
    float most[2], mass0 = 0, mass1 = 0;
    take_logits<KT>(e, logit, t, shifts, most);
#pragma unroll
    for (int j = 0; j < KT; j++) {
        e[j][0] = exp2_below(e[j][0]), e[j][1] = exp2_below(e[j][1]);
        e[j][2] = exp2_below(e[j][2]), e[j][3] = exp2_below(e[j][3]);
        mass0 += e[j][0] + e[j][1];
        mass1 += e[j][2] + e[j][3];
    }
    mass0 = quad_sum(mass0), mass1 = quad_sum(mass1);
    const float f0 = low ? __fdividef(BASE_SCALE, mass0) : 0, f1 = high ? __fdividef(BASE_SCALE, mass1) : 0;
#pragma unroll
    for (int j = 0; j < KT; j++) {
        e[j][0] *= f0, e[j][1] *= f0, e[j][2] *= f1, e[j][3] *= f1;
        sum[j][0] += e[j][0] + e[j][2], sum[j][1] += e[j][1] + e[j][3];
    }
    put_rows<KT, SINGLE>(e, (char *)v.base + (int64_t)row * v.Kp * (SINGLE ? 4 : 2), v.Kp, g, t, low, high);
    if (v.base_scale)
        scale_base<KT>(v.base_scale + row + g, e, t, low, high);
    const float L0 = __logf(mass0) + most[0] * LN_2, L1 = __logf(mass1) + most[1] * LN_2;
    if (t == 0 && low)
        v.L[row + g] = L0;
    if (t == 0 && high)
        v.L[row + g + 8] = L1;
    if (with_fit) {
        fit_of_row<KT>(fit, e, v.sigma, v.Kp, t, 0, 1 / BASE_SCALE, L0, low);
        fit_of_row<KT>(fit, e, v.sigma, v.Kp, t, 2, 1 / BASE_SCALE, L1, high);
    }
}

#endif
