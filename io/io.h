/* SPDX-License-Identifier: BSD-3-Clause */
/* Files <-> arrays: .h5ad (AnnData), .npy, .tsv/.csv and .gz of them. Knows unisono.h only; prints nothing, never exits.
 *
 * Every function that can fail returns 0 or -1 (io_error() has one sentence that names the file, the thing and what to do) and leaves
 * its outputs empty on failure. Everything a struct owns is released by its io_..._close, which is safe on a zeroed struct.
 * A column name that does not exist is answered with the nearest ones that do. Cells, rows and lines are counted from 1 in sentences.
 * Sizes found in a file are checked against the file's own size before anything is allocated for them. An .h5ad is read, and added to,
 * by a child process, which HDF5 may crash (SECURITY.md).
 */
#ifndef UNI_IO_H
#define UNI_IO_H

#include <stddef.h>

#include "unisono.h"

enum io_format { IO_UNKNOWN, IO_H5AD, IO_NPY, IO_TABLE };

/* By the name's ending; IO_UNKNOWN where there is none that we know. */
enum io_format io_format_of(const char *path);

/* The sentence of this thread's last failure. */
const char *io_error(void);

/* Text that a terminal may be shown: a file's names may hold what a terminal obeys, or a line end in the middle of a sentence. Each control
   character becomes '?'. Sentences of io_error() have been through it. Returns text. */
char *io_printable(char *text);

/* Whether HDF5 may load filters that are not built in, from where HDF5_PLUGIN_PATH says, because a file asks for one. Not unless this
   is called. */
void io_allow_plugins(int yes);

/* Strings in one block: at[i] points into bytes. count 0: none. */
struct io_strings {
    int64_t count;
    const char **at;
    char *bytes;
};
void io_strings_close(struct io_strings *);

/* ---- sizes ------------------------------------------------------------------------------------------------------------------ */

/* Of sizes that are not negative; INT64_MAX where the result would be more, or a size is negative. So a formula needs one check, at
   its end, and memory of such a size is not to be had. */
int64_t io_product(int64_t a, int64_t b);
int64_t io_sum(int64_t a, int64_t b);

/* malloc, calloc and realloc of count elements (at least a byte); NULL where there is no such memory, or could not be. */
void *io_room(int64_t count, size_t size);
void *io_room_zeroed(int64_t count, size_t size);
void *io_room_grown(void *memory, int64_t count, size_t size);

/* ---- embeddings ------------------------------------------------------------------------------------------------------------ */

/* What io_matrix_open found without reading values. */
struct io_matrix {
    int64_t n_cells, n_dims;
    int64_t source_bytes;        /* memory that io_matrix_read takes on top of the values while it reads */
    struct io_strings cells;     /* cell names, where the file has them and io_matrix_read has been called */
    struct io_strings dims;      /* column names of a table or data frame, likewise */
    char cell_header[64];        /* name of the first column of a table, likewise */
    int skip_names;              /* set between open and read by who needs no names: a million of an .h5ad take 0.2 s and 25 MB */
    int64_t threads;             /* set likewise: io_matrix_read may use so many; 0 is one */
    void *state;
};

/* Looks at the embedding of a file: key is the obsm key (ignored for .npy and tables). A table's sizes are found by one pass over it.
   An .h5ad obsm entry may be a dense float16/32/64 or integer dataset (any HDF5 layout that this HDF5 can read), a data frame, or a
   csr/csc sparse matrix. */
int io_matrix_open(struct io_matrix *, const char *path, const char *key);

/* Reads all values into dst (n_cells, n_dims), C order, float32, and the names. */
int io_matrix_read(struct io_matrix *, float *dst);
void io_matrix_close(struct io_matrix *);

/* ---- label columns --------------------------------------------------------------------------------------------------------- */

struct io_labels {
    char *name;              /* of the column */
    int64_t n_cells, n_levels, n_missing;
    int32_t *level;          /* (n_cells), -1 missing */
    struct io_strings names; /* (n_levels) in a categorical's own order; else by value when all are numbers; else by bytes */
};

/* Reads a column of obs of an .h5ad. Categoricals of every layout, strings (fixed, variable, nullable), integers, booleans (nullable
   too) are labels. Whole numbers in a float column are labels, others are refused as continuous unless force. */
int io_labels_h5ad(struct io_labels *, const char *path, const char *column, int force);

/* Reads a column of a table with a header line. cells (may be NULL or empty): names of the embedding's cells; when the table's first
   column is a column of names (header empty, "cell", "cell_id", "barcode", "index", ... or all values distinct and the names of the
   cells), rows are put in the order of cells, and a name that one side lacks is an error naming it; else the table's order is taken.
   A name that repeats is an error too, unless both sides have the same names in the same order. Empty fields are missing; the text
   "NA" is a label. */
int io_labels_table(struct io_labels *, const char *path, const char *column, const struct io_strings *cells, int force);
void io_labels_close(struct io_labels *);

/* Reads a column of numbers, one for every cell, in the same ways: *value (n_cells), to be freed. Text and missing values are errors;
   infinities are the caller's to judge. */
int io_numbers_h5ad(double **value, int64_t *n_cells, const char *path, const char *column);
int io_numbers_table(double **value, int64_t *n_cells, const char *path, const char *column, const struct io_strings *cells);

/* ---- what uns/KEY of an .h5ad says ------------------------------------------------------------------------------------------ */

/* Entries of uns/KEY and of the groups in it, "params/theta"; each a number or a text, or the elements of an array, a line each. What
   is of another kind, or longer than any report on a run, is left out. No such key: no entries. */
struct io_uns {
    struct io_strings names, texts;
};
int io_uns_h5ad(struct io_uns *, const char *path, const char *key);
const char *io_uns_text(const struct io_uns *, const char *name); /* NULL: there is no such entry */
void io_uns_close(struct io_uns *);

/* The keys of obsm. */
int io_h5ad_keys(struct io_strings *, const char *path);

/* ---- output ---------------------------------------------------------------------------------------------------------------- */

/* An entry of uns/KEY: exactly one of text and values is set. count 0 with values: a scalar. */
struct io_entry {
    const char *name; /* may hold one '/', "trace/objective": a group of entries */
    const char *text;
    const double *values;
    int64_t count;
    int integer; /* write values as int64 */
};

/* What is under a file's name, so that it can be told whether it still is: somebody else's work is not overwritten, and what was read from
   one file is not put into another. All 0: nothing. */
struct io_stamp {
    int64_t device, inode, bytes, seconds, nanoseconds; /* of its last change */
};
struct io_stamp io_stamp_of(const char *path);
/* 0: it is, or the stamp is all 0. */
int io_stamp_check(const struct io_stamp *, const char *path);

struct io_output {
    const char *target;
    int overwrite;                    /* else an existing target, or an existing key, is an error */
    const float *values;              /* (n_cells, n_dims) */
    int64_t n_cells, n_dims;
    const struct io_strings *cells;   /* tables: names or NULL */
    const struct io_strings *dims;    /* tables: header or NULL for PC1, PC2, ... */
    const char *cell_header;          /* tables */
    const char *source;               /* .h5ad: the file to clone; may be the target itself (then overwrite concerns the key only) */
    struct io_stamp source_was;       /* .h5ad: when it was read; another one now is a failure. All 0: any */
    const char *key;                  /* .h5ad: obsm key and uns key */
    int into_obs;                     /* .h5ad: obs gains the columns of values, named by dims, instead; key and entries are not looked at */
    const struct io_entry *entries;   /* .h5ad: what uns/KEY says */
    int64_t n_entries;
};

/* Before any work: can the target be written (folder exists and is writable, target absent or overwrite, key absent or overwrite, for
   .h5ad the source is an .h5ad)? Leaves nothing behind. */
int io_output_check(const struct io_output *);

/* Writes the target by its format: to a temporary name in the target's folder, flushed to disk, renamed over the target; on failure
   the temporary file is gone and the target as it was. .h5ad: a clone of source (reflink where the file system has it) gets
   obsm/KEY (float32, encoding-type array, encoding-version 0.2.0) and uns/KEY (encoding-type dict); all else stays as it was, but that an obsm of
   anndata before 0.7, one dataset of records, becomes a group of one dataset per key.
   Where files may not exceed a size (ulimit -f), the program must ignore SIGXFSZ to get a sentence rather than be killed. */
int io_output_write(const struct io_output *);

/* A plain .npy of float32, float64 or int32 values, same safety. what: 'f', 'd' or 'i'. */
int io_npy_write(const char *target, const void *values, char what, int n_axes, const int64_t *shape);

/* An uncompressed .npz (zip) of such arrays; begin, add each, end. */
struct io_npz;
int io_npz_begin(struct io_npz **, const char *target);
int io_npz_add(struct io_npz *, const char *name, const void *values, char what, int n_axes, const int64_t *shape);
int io_npz_end(struct io_npz **); /* finishes and renames; on failure nothing stays */
void io_npz_abandon(struct io_npz **);

/* Text (a JSON trace), same safety. */
int io_text_write(const char *target, const char *text);

/* Any bytes, same safety. */
int io_bytes_write(const char *target, const void *bytes, size_t count);

/* A whole text file, with a 0 behind it, to be freed; NULL: failed, also where it has more than most bytes. */
char *io_text_read(const char *path, int64_t most);

/* A new, minimal .h5ad: obs with names cell1, cell2, ... and categorical columns, obsm with one float32 array, no X (AnnData reads n_cells x 0). For `unisono simulate`. */
struct io_new_h5ad {
    int64_t n_cells, n_dims;
    const float *values;
    const char *key;
    int n_columns;
    const char *const *column;        /* (n_columns) */
    const int32_t *const *level;      /* (n_columns) of (n_cells) */
    const struct io_strings *const *level_names; /* (n_columns) */
};
int io_h5ad_create(const char *target, const struct io_new_h5ad *, int overwrite);

/* Removes this process's unfinished temporary files; may be called from a signal handler. */
void io_remove_unfinished(void);

#endif
