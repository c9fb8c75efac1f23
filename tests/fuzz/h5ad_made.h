/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FUZZ_H5AD_MADE_H
#define TESTS_FUZZ_H5AD_MADE_H

#include "fuzzing.h"

/* Makes an .h5ad through HDF5's interface. The choices say what is in it: without any it is a usual one of current anndata, with
   obsm X_pca and obs batch; with some, things are missing, of another type, size, layout or kind, or lead elsewhere. layout of
   anndata: 0 current, 1 of 0.7, 2 of 0.6. Returns -1 when HDF5 did not want to. */
int make_h5ad(const char *path, struct choices *choices, int layout);

#endif
