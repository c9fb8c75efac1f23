/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels, as the compiler registers and launches them, and graphs of launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card_streams.h"

enum { USUAL_SHARED = 48 << 10, MOST_SHARED = 227 << 10 };

/* What the compiler's own code calls; the headers declare these for C++ alone. */
CARD_API void **__cudaRegisterFatBinary(void *);
CARD_API void __cudaRegisterFatBinaryEnd(void **);
CARD_API void __cudaUnregisterFatBinary(void **);
CARD_API void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
CARD_API unsigned __cudaPushCallConfiguration(struct dim3, struct dim3, size_t, cudaStream_t);
CARD_API cudaError_t __cudaPopCallConfiguration(struct dim3 *, struct dim3 *, size_t *, void *);
CARD_API cudaError_t __cudaGetKernel(cudaKernel_t *, const void *);
CARD_API cudaError_t __cudaLaunchKernel(cudaKernel_t, struct dim3, struct dim3, void **, size_t, cudaStream_t);

struct CUkern_st {
    struct CUkern_st *next;
    const void *host;
    const char *name;
    const struct card_kernel *does;
    int most_shared;
};

static struct CUkern_st *kernels;
static _Thread_local struct {
    struct dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed;

void **__cudaRegisterFatBinary(void *binary)
{
    (void)binary;
    static void *handle;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *size)
{
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
    struct CUkern_st *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    *k = (struct CUkern_st){kernels, host, name, card_kernel_of(name), USUAL_SHARED};
    kernels = k;
}

unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, cudaStream_t stream)
{
    pushed.grid = grid;
    pushed.block = block;
    pushed.shared = shared;
    pushed.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *(cudaStream_t *)stream = pushed.stream;
    return cudaSuccess;
}

static struct CUkern_st *kernel_of(const void *host)
{
    struct CUkern_st *k = kernels;
    while (k && k->host != host)
        k = k->next;
    if (!k)
        card_problem("a kernel that is none");
    return k;
}

/* Asked once for every kernel, by the compiler's code, which does not look at the answer: it is not made to fail. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    *kernel = kernel_of(host);
    return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute what, int value)
{
    CARD_CALL;
    struct CUkern_st *k = kernel_of(host);
    if (!k || (what == cudaFuncAttributeMaxDynamicSharedMemorySize && (value < 0 || value > MOST_SHARED))) {
        card_problem("%s: %d bytes of shared memory", __func__, value);
        return card_says(cudaErrorInvalidValue);
    }
    if (what == cudaFuncAttributeMaxDynamicSharedMemorySize)
        k->most_shared = value > USUAL_SHARED ? value : (int)USUAL_SHARED;
    return cudaSuccess;
}

static int fits(const struct CUkern_st *k, struct dim3 grid, struct dim3 block, size_t shared)
{
    int sound = grid.x > 0 && grid.x <= 2147483647 && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535 &&
                block.x > 0 && (size_t)block.x * block.y * block.z <= 1024 && block.y * block.z > 0 &&
                shared <= (size_t)k->most_shared;
    if (!sound)
        card_problem("%s: %u x %u x %u blocks of %u threads with %zu bytes of shared memory", k->name, grid.x, grid.y, grid.z,
                     block.x * block.y * block.z, shared);
    return sound;
}

static cudaError_t launch(const struct CUkern_st *k, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                          cudaStream_t stream, const char *function)
{
    struct CUstream_st *s = card_stream_of(stream, function, 1);
    struct card_step step = {.kind = CARD_KERNEL, .grid = grid.x};
    size_t at = 0;
    if (!k || !s)
        return card_says(cudaErrorInvalidResourceHandle);
    if (!fits(k, grid, block, shared))
        return card_says(cudaErrorInvalidConfiguration);
    step.kernel = k->does;
    for (int i = 0; k->does && i < 10 && k->does->sizes[i]; i++) {
        memcpy(step.arguments + at, arguments[i], k->does->sizes[i]);
        at += (k->does->sizes[i] + 15) / 16 * 16;
    }
    card_append(s->captured ? &s->captured->first : &s->first, &step);
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream)
{
    CARD_CALL;
    return launch(kernel, grid, block, arguments, shared, stream, __func__);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *host, void **arguments)
{
    CARD_CALL;
    return launch(kernel_of(host), how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes, how->stream, __func__);
}

/* ---- graphs -------------------------------------------------------------------------------------------------------------- */

static struct CUgraph_st *new_graph(int is_exec)
{
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->next = card_graphs;
    g->is_exec = is_exec;
    card_graphs = g;
    return g;
}

static int is_graph(const struct CUgraph_st *graph, int is_exec, const char *function)
{
    struct CUgraph_st *g = card_graphs;
    while (g && g != graph)
        g = g->next;
    if (g && g->is_exec == is_exec)
        return 1;
    card_problem("%s of a graph that is none", function);
    return 0;
}

static void destroy(struct CUgraph_st *graph, int is_exec, const char *function)
{
    struct CUgraph_st **link = &card_graphs;
    if (!is_graph(graph, is_exec, function))
        return;
    while (*link != graph)
        link = &(*link)->next;
    *link = graph->next;
    card_forget(&graph->first);
    free(graph);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    CARD_CALL;
    (void)mode;
    struct CUstream_st *s = card_stream_of(stream, __func__, 0);
    if (!s)
        return card_says(cudaErrorInvalidResourceHandle);
    s->captured = new_graph(0);
    return cudaSuccess;
}

/* However it ends, the stream is no longer captured. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    CARD_OPEN;
    struct CUstream_st *s = card_stream_of(stream, __func__, 1);
    struct CUgraph_st *g = s ? s->captured : NULL;
    if (!g)
        return card_says(cudaErrorIllegalState);
    s->captured = NULL;
    if (fate != cudaSuccess)
        destroy(g, 0, __func__);
    else
        *graph = g;
    return fate;
}

static void append_all(struct card_step **to, const struct card_step *from)
{
    for (; from; from = from->next)
        card_append(to, from);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    CARD_CALL;
    (void)flags;
    if (!is_graph(graph, 0, __func__))
        return card_says(cudaErrorInvalidValue);
    struct CUgraph_st *g = new_graph(1);
    append_all(&g->first, graph->first);
    *exec = (cudaGraphExec_t)(void *)g;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    CARD_CALL;
    struct CUgraph_st *g = (struct CUgraph_st *)(void *)exec;
    struct CUstream_st *s = card_stream_of(stream, __func__, 0);
    if (!s || !is_graph(g, 1, __func__))
        return card_says(cudaErrorInvalidResourceHandle);
    append_all(&s->first, g->first);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    CARD_OPEN;
    destroy(graph, 0, __func__);
    return fate;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    CARD_OPEN;
    destroy((struct CUgraph_st *)(void *)exec, 1, __func__);
    return fate;
}
