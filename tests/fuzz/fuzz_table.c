/* SPDX-License-Identifier: BSD-3-Clause */
/* The first two bytes say which kind of table, the rest is its text, or its gzip file. Read as an embedding, and as labels that
   are put in the order of the embedding's cells; what was read as an embedding is written, and read again. */
#include <zlib.h>

#include "fuzzing.h"

/* A gzip file of the text, or all but its last bytes. */
static void zip(const char *path, const uint8_t *data, size_t size, unsigned lost)
{
    static uint8_t packed[1 << 17];
    z_stream z = {
        .next_in = (uint8_t *)(uintptr_t)data, .avail_in = (unsigned)size, .next_out = packed, .avail_out = sizeof packed};
    REQUIRE(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK && deflate(&z, Z_FINISH) == Z_STREAM_END);
    size_t length = z.total_out;
    deflateEnd(&z);
    fuzz_file(path, packed, length - (lost < length ? lost : length));
}

static void labels_of(const char *path, const char *column, const struct io_strings *cells, int force)
{
    struct io_labels labels;
    if (fails(io_labels_table(&labels, path, column, cells, force))) {
        require_no_labels(&labels);
    } else {
        require_labels(&labels);
        REQUIRE(!cells || cells->count == 0 || labels.n_cells > 0);
    }
    io_labels_close(&labels);
}

/* What was written reads as what it was. */
static void write_and_read(const struct io_matrix *matrix, const float *values, const char *ending)
{
    char path[64];
    struct io_matrix again;
    int64_t count = matrix->n_cells * matrix->n_dims;
    fuzz_path(path, ending);
    struct io_output output = {.target = path,
                               .overwrite = 1,
                               .values = values,
                               .n_cells = matrix->n_cells,
                               .n_dims = matrix->n_dims,
                               .cells = &matrix->cells,
                               .dims = &matrix->dims,
                               .cell_header = matrix->cell_header};
    REQUIRE(io_output_write(&output) == 0);
    float *same = io_room(count, sizeof *same);
    REQUIRE(same && io_matrix_open(&again, path, NULL) == 0);
    /* A first column whose header says nothing is one of names by what its first line holds: the header that is cut at 64 bytes,
       and names that are numbers, may make it one of values. */
    if (again.n_cells == matrix->n_cells && again.n_dims == matrix->n_dims && io_matrix_read(&again, same) == 0)
        for (int64_t i = 0; i < count; i++)
            REQUIRE(same[i] == values[i] || (same[i] != same[i] && values[i] != values[i]));
    io_matrix_close(&again);
    free(same);
    unlink(path);
}

static void embedding(const char *path, unsigned how)
{
    static const char *const endings[] = {"-again.tsv", "-again.csv", "-again.tsv.gz"};
    struct io_matrix matrix;
    if (fails(io_matrix_open(&matrix, path, NULL))) {
        REQUIRE(!matrix.state);
        labels_of(path, "batch", NULL, how & 1);
        return;
    }
    float *values = io_room(io_product(matrix.n_cells, matrix.n_dims), sizeof *values);
    REQUIRE(values && io_product(matrix.n_cells, matrix.n_dims) <= MOST_VALUES);
    if (!fails(io_matrix_read(&matrix, values))) {
        require_strings(&matrix.cells);
        require_strings(&matrix.dims);
        REQUIRE(matrix.dims.count == matrix.n_dims && (matrix.cells.count == 0 || matrix.cells.count == matrix.n_cells));
        labels_of(path, matrix.dims.at[how % matrix.dims.count], &matrix.cells, how & 1);
        if (how & 2)
            labels_of(path, matrix.cell_header, NULL, 1);
        if (how % 16 == 4)
            write_and_read(&matrix, values, endings[how / 16 % 3]);
    }
    io_matrix_close(&matrix);
    free(values);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static const char *const endings[] = {".tsv", ".csv", ".tsv.gz", ".csv.gz"};
    static char paths[4][64];
    struct choices choices = {data, data + size};
    unsigned kind = byte_of(&choices), how = byte_of(&choices);
    char *path = paths[kind % 4];
    size_t length = (size_t)(choices.end - choices.at);
    if (!path[0])
        fuzz_path(path, endings[kind % 4]);
    if (kind % 4 >= 2 && kind & 8 && length < 1 << 16)
        zip(path, choices.at, length, kind / 16);
    else
        fuzz_file(path, choices.at, length);
    embedding(path, how);
    unlink(path);
    return 0;
}
