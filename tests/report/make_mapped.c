/* SPDX-License-Identifier: BSD-3-Clause */
/* make_mapped FILE.h5ad BASIS: gives the file an obsm/X_umap, which is no UMAP, and has uns/neighbors say as scanpy does that it
 * was made from BASIS.
 */
#include <stdio.h>
#include <stdlib.h>

#include "io.h"

static int fail(void)
{
    fprintf(stderr, "make_mapped: %s\n", io_error());
    return 1;
}

int main(int argc, char **argv)
{
    struct io_matrix m = {0};
    if (argc != 3) {
        fprintf(stderr, "make_mapped FILE.h5ad BASIS\n");
        return 2;
    }
    if (io_matrix_open(&m, argv[1], argv[2]))
        return fail();
    m.skip_names = 1;
    float *values = io_room(io_product(m.n_cells, m.n_dims), sizeof *values),
          *map = io_room(io_product(m.n_cells, 2), sizeof *map);
    if (!values || !map || m.n_dims < 4 || io_matrix_read(&m, values))
        return fail();
    for (int64_t i = 0; i < m.n_cells; i++) {
        map[2 * i] = values[i * m.n_dims] + values[i * m.n_dims + 2];
        map[2 * i + 1] = values[i * m.n_dims + 1] - values[i * m.n_dims + 3];
    }
    const struct io_entry origin = {.name = "params/use_rep", .text = argv[2]};
    struct io_output out = {
        .target = argv[1], .overwrite = 1, .values = map, .n_cells = m.n_cells, .n_dims = 2, .source = argv[1], .key = "X_umap"};
    int err = io_output_write(&out);
    out.key = "neighbors";
    out.entries = &origin;
    out.n_entries = 1;
    if (!err)
        err = io_output_write(&out);
    free(values);
    free(map);
    io_matrix_close(&m);
    return err ? fail() : 0;
}
