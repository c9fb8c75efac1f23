/* SPDX-License-Identifier: BSD-3-Clause */
/* Products by warpgroups (wgmma), of compute capability 9.0 alone: four warps, 64 rows. The first factor and the sums lie in
   registers as those of the 16-row products of cuda_device.cuh do, 16 rows a warp; the second factor lies in shared memory, once
   for all four. */
#ifndef UNI_CUDA_HOPPER_CUH
#define UNI_CUDA_HOPPER_CUH

#include "cuda_device.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define UNI_WGMMA 1
#else
#define UNI_WGMMA 0
#endif

/* The second factor, 16 x N halves in 8 x 8 matrices of 128 bytes: `leading` bytes from one to the next along its 16 rows,
   `stride` along its columns. */
__device__ __forceinline__ uint64_t factor_at(uint32_t address, uint32_t leading, uint32_t stride)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32;
}

/* Eight numbers times f as they lie in a second factor, in two halves. */
__device__ __forceinline__ void split_eight(const float4 &a, const float4 &b, float f, uint4 &hi, uint4 &lo)
{
    split_pair(a.x * f, a.y * f, hi.x, lo.x), split_pair(a.z * f, a.w * f, hi.y, lo.y);
    split_pair(b.x * f, b.y * f, hi.z, lo.z), split_pair(b.z * f, b.w * f, hi.w, lo.w);
}

/* Before the first product of some that read registers or sums which were written since the last. */
__device__ __forceinline__ void products_begin()
{
#if UNI_WGMMA
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/* They go on by themselves until they are waited for; their registers must be left alone. */
__device__ __forceinline__ void products_commit()
{
#if UNI_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* The sums are there: nothing that reads them may come before. */
template <int NT> __device__ __forceinline__ void products_wait(float (&d)[NT][4])
{
#if UNI_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int j = 0; j < NT; j++)
        asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
#endif
}

template <int NT> __device__ __forceinline__ void products_end(float (&d)[NT][4])
{
    products_commit();
    products_wait<NT>(d);
}

/* The operands of a product with so many sums, and the sums themselves, four by four. */
#define SUMS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SUMS_28 SUMS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27"
#define SUMS_32 SUMS_28 ", %28, %29, %30, %31"
#define SUMS_52 SUMS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51"
#define SUMS_64 SUMS_52 ", %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FOUR(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define FOURS_4 FOUR(0), FOUR(1), FOUR(2), FOUR(3)
#define FOURS_7 FOURS_4, FOUR(4), FOUR(5), FOUR(6)
#define FOURS_8 FOURS_7, FOUR(7)
#define FOURS_13 FOURS_8, FOUR(8), FOUR(9), FOUR(10), FOUR(11), FOUR(12)
#define FOURS_16 FOURS_13, FOUR(13), FOUR(14), FOUR(15)
/* KIND: rows of b, and types. LAST: of halves whether b is turned; else nothing looks at it. */
#define PRODUCT(N, KIND, SUMS, REST, FOURS, LAST)                                                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N KIND " {" SUMS "}, " REST:FOURS                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(LAST))
#define HALVES "k16.f32.f16.f16"
#define LONGS "k8.f32.tf32.tf32"

/* d (64 x 8 NT) += a (64 x 16) b (16 x 8 NT). TURNED: 16 bytes of b are eight of its columns in one row, else eight rows of one
   column. */
template <int NT, bool TURNED>
__device__ __forceinline__ void multiply_wide(float (&d)[NT][4], const uint32_t (&a)[4], uint64_t b)
{
    static_assert(NT == 4 || NT == 7 || NT == 8 || NT == 13 || NT == 16, "no product is so wide");
#if UNI_WGMMA
    if constexpr (NT == 4)
        PRODUCT(32, HALVES, SUMS_16, "{%16, %17, %18, %19}, %20, 1, 1, 1, %21;", FOURS_4, TURNED);
    if constexpr (NT == 7)
        PRODUCT(56, HALVES, SUMS_28, "{%28, %29, %30, %31}, %32, 1, 1, 1, %33;", FOURS_7, TURNED);
    if constexpr (NT == 8)
        PRODUCT(64, HALVES, SUMS_32, "{%32, %33, %34, %35}, %36, 1, 1, 1, %37;", FOURS_8, TURNED);
    if constexpr (NT == 13)
        PRODUCT(104, HALVES, SUMS_52, "{%52, %53, %54, %55}, %56, 1, 1, 1, %57;", FOURS_13, TURNED);
    if constexpr (NT == 16)
        PRODUCT(128, HALVES, SUMS_64, "{%64, %65, %66, %67}, %68, 1, 1, 1, %69;", FOURS_16, TURNED);
#endif
}

/* d (64 x 8 NT) += a (64 x 8) b (8 x 8 NT), of float32 whose last 13 bits do not count. 16 bytes of b are four rows of a column.
 */
template <int NT> __device__ __forceinline__ void multiply_short(float (&d)[NT][4], const uint32_t (&a)[4], uint64_t b)
{
    static_assert(NT == 8 || NT == 13 || NT == 16, "no product is so wide");
#if UNI_WGMMA
    if constexpr (NT == 8)
        PRODUCT(64, LONGS, SUMS_32, "{%32, %33, %34, %35}, %36, 1, 1, 1;", FOURS_8, 0);
    if constexpr (NT == 13)
        PRODUCT(104, LONGS, SUMS_52, "{%52, %53, %54, %55}, %56, 1, 1, 1;", FOURS_13, 0);
    if constexpr (NT == 16)
        PRODUCT(128, LONGS, SUMS_64, "{%64, %65, %66, %67}, %68, 1, 1, 1;", FOURS_16, 0);
#endif
}

/* x = hi + lo, of which the products above take eleven bits each. x >= 0: so are they. */
__device__ __forceinline__ void split_long(float x, uint32_t &hi, uint32_t &lo)
{
    hi = __float_as_uint(x) & 0xffffe000u;
    lo = __float_as_uint(x - __uint_as_float(hi));
}

/* q = its start, weights of cells times penalties of clusters in four tables, and all of it: a has the hi and lo of one side for
   the tables, b hi and, `lo` bytes on, lo of the other. Both halves of a meet each half of b, which lies there once. */
template <int NT>
__device__ __forceinline__ void multiply_tables(float (&q)[NT][4], const uint32_t (&a)[4], uint32_t b, uint32_t lo)
{
    products_begin();
    multiply_short<NT>(q, a, factor_at(b + lo, 0, 128));
    multiply_short<NT>(q, a, factor_at(b, 0, 128));
    products_commit();
}

/* A warpgroup's registers a thread, from here on: some give away what others take. */
template <int N> __device__ __forceinline__ void registers_down()
{
#if UNI_WGMMA
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}

template <int N> __device__ __forceinline__ void registers_up()
{
#if UNI_WGMMA
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}

/* Four 8 x 8 matrices of halves as first factors, of 16 rows that lie in shared memory: lane i names the row i % 8 of matrix i
 * / 8. */
__device__ __forceinline__ void load_matrices(uint32_t (&a)[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ void load_matrices_turned(uint32_t (&a)[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(row)
                 : "memory");
}

#endif
