/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the library and its CUDA plugin: libunisono never links against CUDA, it opens libunisono_cuda.so when that is asked
 * for. */
#ifndef UNI_CUDA_PLUGIN_H
#define UNI_CUDA_PLUGIN_H

#include "../backend.h"
#include "../near_device.h"

enum { UNI_CUDA_ABI = 5 };
#define UNI_CUDA_ENTRY "uni_cuda_plugin"

/* What the plugin calls in the library. */
struct uni_cuda_host {
    int abi;
    int64_t problem_bytes, backend_bytes; /* sizes of both structs: a plugin of another version is noticed */
    int (*fail)(int status, const char *format, ...);
    void (*last_error)(char *text, size_t size); /* of this thread */
    void (*matrix_row)(float *dst, const struct uni_matrix *plain, int64_t row);
    int (*refuse)(const struct uni_unusable *);
    enum uni_where (*where)(const void *first, int64_t bytes, int64_t *device);
    int64_t (*memory_left)(int64_t *address_space); /* of the host: unisono.h */
    int64_t cpus;                                   /* that this process may use */
};

/* What the library calls in the plugin. */
struct uni_cuda_plugin {
    int abi;
    /* Devices of this machine; 0: none, or none can be used. */
    int (*devices)(void);
    /* Fills in the operations, or fails with a sentence where the device cannot be used. */
    int (*backend)(struct uni_backend *, int64_t device);
    /* usable, detail. Returns 0 where the machine has no device or no driver at all: then nobody misses one. */
    int (*describe)(struct uni_backend_info *, int64_t device);
    /* Fails with a sentence where there is no such device, or it cannot be used. */
    int (*usable)(int64_t device);
    struct uni_near_device near;
    /* As uni_cuda_rows, uni_cuda_put. */
    int (*rows)(float *dst, const struct uni_matrix *plain, const int64_t *row, int64_t n, const struct uni_problem *);
    int (*put)(void *dst, const void *src, int64_t bytes, const struct uni_problem *);
};

/* NULL where the host is of another version. */
typedef const struct uni_cuda_plugin *(*uni_cuda_entry)(const struct uni_cuda_host *);

#endif
