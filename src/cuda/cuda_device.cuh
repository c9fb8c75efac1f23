/* SPDX-License-Identifier: BSD-3-Clause */
/* Small device functions that the kernels share. */
#ifndef UNI_CUDA_DEVICE_CUH
#define UNI_CUDA_DEVICE_CUH

#include <cuda_fp16.h>
#include <stdint.h>

#define LN_BASE_SCALE 10.397207708399179f
#define LN_2 0.693147180559945f
#define R_SCALE 1024.0f /* and Z_SCALE, of unit rows, and W_scale: low halves stay out of the subnormals */
#define Z_SCALE 128.0f

/* Programmatic dependent launch, where the card has it. */
__device__ __forceinline__ void launch_dependents()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Read once: not worth a place in L1. */
__device__ __forceinline__ uint4 load_stream(const void *at)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

/* ---- bulk copies into shared memory, and the barriers that tell when they are there. Addresses are those of shared memory. */

__device__ __forceinline__ uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

__device__ __forceinline__ void barrier_open(uint32_t barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

/* Ordinary accesses to shared memory before it come before bulk copies after it. */
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Before a copy of so many bytes. */
__device__ __forceinline__ void barrier_bytes(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* 16 bytes, or a multiple, from and to borders of 16 */
__device__ __forceinline__ void bulk_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t phase)
{
    uint32_t done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(phase)
                     : "memory");
}

__device__ __forceinline__ bool barrier_passed(uint32_t barrier, uint32_t phase)
{
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(phase)
                 : "memory");
    return done;
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ uint4 load_shared(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
    return v;
}

__device__ __forceinline__ float2 half_pair(uint32_t word)
{
    __half2 h = *reinterpret_cast<__half2 *>(&word);
    return __half22float2(h);
}

__device__ __forceinline__ uint32_t pair_half(float a, float b)
{
    __half2 h = __floats2half2_rn(a, b);
    return *reinterpret_cast<uint32_t *>(&h);
}

/* a = hi + lo to about 22 bits, in halves */
__device__ __forceinline__ void split_pair(float a, float b, uint32_t &hi, uint32_t &lo)
{
    __half2 h = __floats2half2_rn(a, b);
    float2 back = __half22float2(h);
    hi = *reinterpret_cast<uint32_t *>(&h);
    lo = pair_half(a - back.x, b - back.y);
}

/* d += a b, 16x8x16 halves, sums in float32 */
__device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same, 16x8x8 */
__device__ __forceinline__ void multiply_add_short(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

/* 2^x for x <= 0, to 22 bits; 0 far below */
__device__ __forceinline__ float exp2_below(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float log2_of(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ void add_exact(long long *at, long long x)
{
    atomicAdd(reinterpret_cast<unsigned long long *>(at), (unsigned long long)x);
}

__device__ __forceinline__ float warp_most(float x)
{
#pragma unroll
    for (int m = 16; m; m /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
    return x;
}

template <typename T> __device__ __forceinline__ T warp_sum(T x)
{
#pragma unroll
    for (int m = 16; m; m /= 2)
        x += __shfl_xor_sync(~0u, x, m);
    return x;
}

/* In a fixed order; the result is right in thread 0. room: a number a warp. All threads of the block call it. */
__device__ __forceinline__ double block_sum(double x, double *room)
{
    x = warp_sum(x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0)
        room[threadIdx.x / 32] = x;
    __syncthreads();
    double total = 0;
    for (int w = 0; w < (int)(blockDim.x / 32) && threadIdx.x == 0; w++)
        total += room[w];
    return total;
}

#endif
