/* SPDX-License-Identifier: BSD-3-Clause */
/* The input is an .h5ad file. HDF5 itself crashes on many: `run` sorts those out, and sees that the program answers them. */
#include "h5ad_here.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"X_pca", "X_frame", "X_csr", "X_csc"}, *const columns[] = {"batch", "text", "n",
                                                                                                  "nullable"};
    static char path[64];
    if (!path[0])
        fuzz_path(path, ".h5ad");
    keep_memory();
    fuzz_file(path, data, size);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        read_here(path, keys[i]);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        labels_here(path, columns[i], 0);
    unlink(path);
    return 0;
}
