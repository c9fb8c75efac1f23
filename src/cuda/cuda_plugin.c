/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and opens the CUDA plugin: UNISONO_CUDA_PLUGIN names it (empty: none), else it lies beside this library or the program,
   or in a folder next to theirs. It is opened once and stays: the CUDA runtime's threads do not survive a dlclose. */
#define _GNU_SOURCE
#include "cuda_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "../method.h"

static const char FILE_NAME[] = "libunisono_cuda.so";
static const struct uni_cuda_plugin *plugin;
static char refusal[400];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void last_error(char *text, size_t size)
{
    snprintf(text, size, "%s", uni_last_error());
}

static struct uni_cuda_host host = {.abi = UNI_CUDA_ABI,
                                    .problem_bytes = sizeof(struct uni_problem),
                                    .backend_bytes = sizeof(struct uni_backend),
                                    .fail = uni_fail,
                                    .last_error = last_error,
                                    .matrix_row = uni_matrix_row,
                                    .refuse = uni_matrix_refuse,
                                    .where = uni_where_is,
                                    .memory_left = uni_memory_left};

static void *open_beside_us(void)
{
    static const char *const places[] = {"", "../", "../lib/", "../lib64/"};
    Dl_info us;
    char path[4096];
    if (!dladdr(&host, &us) || !us.dli_fname)
        return NULL;
    const char *end = strrchr(us.dli_fname, '/');
    for (size_t i = 0; end && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%.*s%s%s", (int)(end - us.dli_fname) + 1, us.dli_fname, places[i], FILE_NAME);
        void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (found)
            return found;
    }
    return dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
}

static void open_plugin(void)
{
    const char *named = getenv("UNISONO_CUDA_PLUGIN");
    void *opened = named ? (*named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL) : open_beside_us();
    if (named && *named && !opened)
        snprintf(refusal, sizeof refusal, "the cuda plugin that UNISONO_CUDA_PLUGIN names cannot be opened: %.300s", dlerror());
    if (!opened)
        return;
    struct uni_backend cpu;
    uni_cpu_backend(&cpu);
    host.cpus = cpu.threads;
    uni_cuda_entry entry;
    *(void **)&entry = dlsym(opened, UNI_CUDA_ENTRY);
    plugin = entry ? entry(&host) : NULL;
    if (!plugin)
        snprintf(refusal, sizeof refusal, "the cuda plugin is of another version than this library; install both from one build");
}

static int refuse(void)
{
    if (*refusal)
        return uni_fail(UNI_BACKEND, "%s", refusal);
    return uni_fail(UNI_BACKEND, "this build has no cuda backend; use backend cpu, or auto");
}

int uni_cuda_near(const struct uni_near_device **near, int64_t device)
{
    pthread_once(&once, open_plugin);
    *near = plugin ? &plugin->near : NULL;
    return plugin ? plugin->usable(device) : refuse();
}

int uni_cuda_backend(struct uni_backend *b, int64_t device)
{
    pthread_once(&once, open_plugin);
    return plugin ? plugin->backend(b, device) : refuse();
}

int uni_cuda_rows(float *dst, const struct uni_matrix *plain, const int64_t *row, int64_t n, const struct uni_problem *p)
{
    return plugin->rows(dst, plain, row, n, p);
}

int uni_cuda_put(void *dst, const void *src, int64_t bytes, const struct uni_problem *p)
{
    return plugin->put(dst, src, bytes, p);
}

int uni_cuda_describe(struct uni_backend_info *info, int64_t device, int *present)
{
    pthread_once(&once, open_plugin);
    *present = *refusal != 0;
    info->name = "cuda";
    info->usable = 0;
    snprintf(info->detail, sizeof info->detail, "%.150s", refusal);
    if (plugin)
        *present = plugin->describe(info, device);
    return device > 0 ? plugin && device < plugin->devices() : plugin || *refusal;
}
