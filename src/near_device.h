/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device does for the search of neighbours (metrics/neighbours.h): the products of queries with all cells, and of each query the
 * cells that score highest. What these are worth is the search's own business, so that its outcome does not depend on the
 * device. */
#ifndef UNI_NEAR_DEVICE_H
#define UNI_NEAR_DEVICE_H

#include <stdint.h>

enum { UNI_NEAR_PANEL = 64, UNI_NEAR_MOST = 256 };
#define UNI_NEAR_NONE 0xffffffffu

struct uni_near_listed {
    float score;
    uint32_t cell; /* UNI_NEAR_NONE: there are no more */
};

struct uni_near_device {
    /* Takes the cells: panels (n_panels,D + 1,UNI_NEAR_PANEL), a row of what each adds to its scores (-infinity: no cell) and one
       for each dimension; they are not needed afterwards. Lists will have R entries, 128 or UNI_NEAR_MOST. On failure, with a
       sentence, nothing is held. */
    int (*open)(void **state, int64_t device, const float *panels, int64_t n_panels, int64_t D, int64_t R);
    /* The R cells with the highest scores of each query (M,D), the highest first, into list (M,R). M <= UNI_NEAR_BATCH. */
    int (*find)(void *state, const float *query, int64_t M, struct uni_near_listed *list);
    void (*close)(void *state); /* NULL is fine */
};

enum { UNI_NEAR_BATCH = 16384 };

#endif
