/* SPDX-License-Identifier: BSD-3-Clause */
/* A .npy reader for the tests: C order, little endian, '<f4', '<f8' or '<i4', at most four dimensions. It shares nothing with
 * io/, which is under test itself. */
#ifndef TESTS_DATA_NPY_H
#define TESTS_DATA_NPY_H

#include <stdint.h>

struct npy {
    int n_axes;
    int64_t shape[4]; /* unused entries are 1 */
    int64_t count;    /* product of the shape */
    double *real;     /* (count) for '<f4' and '<f8', else NULL */
    int32_t *integer; /* (count) for '<i4', else NULL */
};

/* Returns 0; or 1 when there is no such file, all fields zero. A file that is there but cannot be understood ends the program:
   the tests must not take broken reference data for absent ones. */
int npy_read(struct npy *array, const char *path);
void npy_free(struct npy *array);

#endif
