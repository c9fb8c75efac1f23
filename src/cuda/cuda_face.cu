/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's face: which devices there are, and what a process needs to be a guest on one. */
#include <stdio.h>
#include <string.h>

#include "../method.h"
#include "cuda_backend.h"

const struct uni_cuda_host *uni_cuda_lib;

int uni_cuda_checked(cudaError_t status, const char *call)
{
    if (status == cudaSuccess)
        return UNI_OK;
    (void)cudaGetLastError(); /* else the next call would report it again */
    return uni_cuda_lib->fail(status == cudaErrorMemoryAllocation ? UNI_MEMORY : UNI_DEVICE,
                              "the card failed: %s (%s) from %.120s", cudaGetErrorString(status), cudaGetErrorName(status), call);
}

int uni_cuda_enter(struct uni_cuda_visit *visit, int64_t device)
{
    int err = 0;
    (void)cudaGetLastError(); /* of somebody else's call: it must not be taken for a launch's */
    TRY(CUDA(cudaGetDevice(&visit->before)));
    visit->device = (int)device;
    if (visit->before != visit->device)
        TRY(CUDA(cudaSetDevice(visit->device)));
done:
    return err;
}

/* Does this process use the device? If not, to make it current would take some of its memory. */
static int in_use(int device)
{
    typedef int (*context_state)(int device, unsigned *flags, int *active);
    void *found = NULL;
    cudaDriverEntryPointQueryResult how;
    unsigned flags = 0;
    int active = 0;
#if CUDART_VERSION >= 12050
    cudaError_t status = cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 12000, cudaEnableDefault, &how);
#else
    cudaError_t status = cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &found, cudaEnableDefault, &how);
#endif
    if (status != cudaSuccess)
        (void)cudaGetLastError();
    return status == cudaSuccess && found && ((context_state)found)(device, &flags, &active) == 0 && active;
}

uni_cuda_visit::~uni_cuda_visit()
{
    if (device >= 0 && before != device && in_use(before))
        (void)cudaSetDevice(before);
}

static int device_count(int *count)
{
    cudaError_t status = cudaGetDeviceCount(count);
    if (status == cudaSuccess && *count > 0)
        return UNI_OK;
    *count = 0;
    (void)cudaGetLastError();
    int driver = 0;
    if (status == cudaErrorNoDevice || (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0))
        return uni_cuda_lib->fail(
            UNI_BACKEND, "no CUDA device: this machine has no NVIDIA card, or no driver for it; use backend cpu, or auto");
    return uni_cuda_lib->fail(UNI_BACKEND, "no CUDA device can be used: %s; use backend cpu", cudaGetErrorString(status));
}

static int find_device(int64_t device, int *count)
{
    int err = device_count(count);
    if (err || device < *count)
        return err;
    return uni_cuda_lib->fail(UNI_BACKEND, "there is no device %lld: this machine has %d, and the first is 0", (long long)device,
                              *count);
}

int uni_cuda_new_enough(const cudaDeviceProp *card)
{
    if (card->major >= 8)
        return UNI_OK;
    return uni_cuda_lib->fail(UNI_BACKEND, "%s has compute capability %d.%d; the cuda backend needs 8.0; use backend cpu",
                              card->name, card->major, card->minor);
}

int uni_cuda_usable(int64_t device)
{
    int count = 0, err = 0;
    cudaDeviceProp card;
    TRY(find_device(device, &count));
    TRY(CUDA(cudaGetDeviceProperties(&card, (int)device)));
    TRY(uni_cuda_new_enough(&card));
done:
    return err;
}

static int plugin_devices()
{
    int count = 0;
    (void)device_count(&count);
    return count;
}

static int plugin_backend(struct uni_backend *b, int64_t device)
{
    int count = 0, err = find_device(device, &count);
    if (err)
        return err;
    memset(b, 0, sizeof *b);
    uni_cuda_operations(b);
    b->threads = uni_cuda_lib->cpus;
    snprintf(b->name, sizeof b->name, "cuda");
    return UNI_OK;
}

static int describe_card(struct uni_backend_info *info, int64_t device, int count)
{
    int err = 0, driver = 0;
    struct uni_cuda_visit visit;
    cudaDeviceProp card;
    size_t free_bytes = 0, total = 0;
    char which[24] = "";
    TRY(CUDA(cudaGetDeviceProperties(&card, (int)device)));
    TRY(uni_cuda_enter(&visit, device));
    TRY(CUDA(cudaMemGetInfo(&free_bytes, &total)));
    TRY(CUDA(cudaDriverGetVersion(&driver)));
    if (count > 1)
        snprintf(which, sizeof which, "device %lld: ", (long long)device);
    info->usable = card.major >= 8;
    snprintf(info->detail, sizeof info->detail, "%s%.60s, %.1f of %.1f GB free, driver for CUDA %d.%d%s", which, card.name,
             (double)free_bytes / 1e9, (double)total / 1e9, driver / 1000, driver % 1000 / 10,
             card.major >= 8 ? "" : ": older than compute capability 8.0");
done:
    return err;
}

static int plugin_describe(struct uni_backend_info *info, int64_t device)
{
    int count = 0;
    info->name = "cuda";
    info->usable = 0;
    if (find_device(device, &count) == UNI_OK && describe_card(info, device, count) == UNI_OK)
        return 1;
    uni_cuda_lib->last_error(info->detail, sizeof info->detail);
    return strncmp(info->detail, "no CUDA device:", 15) != 0;
}

static const struct uni_cuda_plugin face = {UNI_CUDA_ABI,     plugin_devices,
                                            plugin_backend,   plugin_describe,
                                            uni_cuda_usable,  {uni_cuda_near_open, uni_cuda_near_find, uni_cuda_near_close},
                                            uni_cuda_rows_to, uni_cuda_put_to};

extern "C" __attribute__((visibility("default"))) const struct uni_cuda_plugin *uni_cuda_plugin(const struct uni_cuda_host *host)
{
    if (host->abi != UNI_CUDA_ABI || host->problem_bytes != sizeof(struct uni_problem) ||
        host->backend_bytes != sizeof(struct uni_backend))
        return NULL;
    uni_cuda_lib = host;
    return &face;
}
