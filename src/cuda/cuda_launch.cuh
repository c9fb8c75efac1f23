/* SPDX-License-Identifier: BSD-3-Clause */
/* Programmatic dependent launch, where the card has it: the kernel may be there before the one before it, whatever that is, has
   ended, and waits for that itself (wait_for_previous). */
#ifndef UNI_CUDA_LAUNCH_CUH
#define UNI_CUDA_LAUNCH_CUH

#include "cuda_backend.h"

struct uni_cuda_grid {
    dim3 blocks;
    int threads;
    size_t bytes; /* of shared memory */
};

template <typename... T>
static int launch_early(const struct uni_cuda *c, cudaStream_t stream, void (*kernel)(T...), struct uni_cuda_grid grid,
                        T... arguments)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = grid.blocks;
    how.blockDim = dim3((unsigned)grid.threads);
    how.dynamicSmemBytes = grid.bytes;
    how.stream = stream;
    how.attrs = &early;
    how.numAttrs = c->early ? 1 : 0;
    return CUDA(cudaLaunchKernelEx(&how, kernel, arguments...));
}

#endif
