/* SPDX-License-Identifier: BSD-3-Clause */
/* The card's part of the search for neighbours: cells go in once, queries come in batches, and their lists go back. */
#include <stdlib.h>

#include "cuda_backend.h"
#include "cuda_near_block.h"

struct uni_cuda_near {
    int device;
    cudaStream_t stream;
    char *block; /* all of it in one */
    float *panels, *query;
    struct near_work work;
    struct uni_near_listed *list;
};

enum { RESERVE = 64 << 20 /* for the driver */ };

__global__ void __launch_bounds__(NEAR_THREADS) near_kernel(struct near_work work)
{
    extern __shared__ struct near_four near_memory[];
    near_block_work(&work, blockIdx.x, (char *)near_memory);
}

static int64_t up(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static int take_memory(struct uni_cuda_near *n)
{
    int err = 0;
    int64_t room = 0;
    const char *is = "";
    const struct near_work *w = &n->work;
    int64_t panels = up(w->n_panels * (w->D + 1) * UNI_NEAR_PANEL * 4), query = up((int64_t)UNI_NEAR_BATCH * w->D * 4);
    int64_t kept = up((int64_t)UNI_NEAR_BATCH * 2 * w->R * 8), list = (int64_t)UNI_NEAR_BATCH * w->R * (int64_t)sizeof *n->list;
    int64_t bytes = panels + query + kept + list;
    TRY(uni_cuda_room(&room, &is));
    if (bytes + RESERVE > room)
        TRY(uni_cuda_lib->fail(
            UNI_MEMORY, "the neighbours of these cells need %lld bytes of memory on the card, and %lld are %s; use backend cpu",
            (long long)(bytes + RESERVE), (long long)room, is));
    TRY(CUDA(cudaMalloc((void **)&n->block, (size_t)bytes)));
    n->panels = (float *)n->block;
    n->query = (float *)(n->block + panels);
    n->work.kept = (uint64_t *)(n->block + panels + query);
    n->list = (struct uni_near_listed *)(n->block + panels + query + kept);
    n->work.panels = n->panels;
    n->work.query = n->query;
    n->work.list = n->list;
done:
    return err;
}

/* The queries of a block lie in shared memory. */
static int take_shared_memory(const struct uni_cuda_near *n)
{
    int err = 0, most = 0;
    int64_t bytes = near_shared_bytes(n->work.D, n->work.R);
    TRY(CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, n->device)));
    if (bytes > most)
        TRY(uni_cuda_lib->fail(
            UNI_OPTION,
            "%d dimensions: the neighbours of so many take %lld bytes of shared memory, and this card has %d; use "
            "backend cpu",
            n->work.D, (long long)bytes, most));
    TRY(CUDA(cudaFuncSetAttribute(near_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes)));
done:
    return err;
}

void uni_cuda_near_close(void *state)
{
    struct uni_cuda_near *n = (struct uni_cuda_near *)state;
    struct uni_cuda_visit visit;
    if (!n)
        return;
    (void)uni_cuda_enter(&visit, n->device);
    cudaFree(n->block);
    if (n->stream)
        cudaStreamDestroy(n->stream);
    free(n);
}

int uni_cuda_near_open(void **state, int64_t device, const float *panels, int64_t n_panels, int64_t D, int64_t R)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda_near *n = (struct uni_cuda_near *)calloc(1, sizeof *n);
    if (!n)
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory for the neighbours: %zu bytes asked for", sizeof *n);
    n->device = (int)device;
    n->work.n_panels = n_panels;
    n->work.D = (int)D;
    n->work.R = (int)R;
    n->work.stride = near_stride(n_panels);
    if (D > 100000)
        TRY(uni_cuda_lib->fail(UNI_OPTION, "%lld dimensions are too many for the neighbours on a card; use backend cpu",
                               (long long)D));
    TRY(uni_cuda_usable(device));
    TRY(uni_cuda_enter(&visit, device));
    TRY(take_shared_memory(n));
    TRY(CUDA(cudaStreamCreateWithFlags(&n->stream, cudaStreamNonBlocking)));
    TRY(take_memory(n));
    TRY(CUDA(
        cudaMemcpy(n->panels, panels, (size_t)(n_panels * (D + 1) * UNI_NEAR_PANEL) * sizeof *panels, cudaMemcpyHostToDevice)));
    TRY(CUDA(cudaDeviceSynchronize())); /* the stream does not wait for that copy */
done:
    if (err)
        uni_cuda_near_close(n);
    *state = err ? NULL : n;
    return err;
}

int uni_cuda_near_find(void *state, const float *query, int64_t M, struct uni_near_listed *list)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda_near *n = (struct uni_cuda_near *)state;
    unsigned blocks = (unsigned)((M + NEAR_QUERIES - 1) / NEAR_QUERIES);
    n->work.M = M;
    TRY(uni_cuda_enter(&visit, n->device));
    TRY(CUDA(cudaMemcpyAsync(n->query, query, (size_t)(M * n->work.D) * sizeof *query, cudaMemcpyHostToDevice, n->stream)));
    near_kernel<<<blocks, NEAR_THREADS, (size_t)near_shared_bytes(n->work.D, n->work.R), n->stream>>>(n->work);
    TRY(CUDA(cudaGetLastError()));
    TRY(CUDA(cudaMemcpyAsync(list, n->list, (size_t)(M * n->work.R) * sizeof *list, cudaMemcpyDeviceToHost, n->stream)));
done:
    if (n->stream) {
        cudaError_t status = cudaStreamSynchronize(n->stream); /* however it ended: no copy is under way */
        err = err ? err : uni_cuda_checked(status, "cudaStreamSynchronize(n->stream)");
    }
    return err;
}
