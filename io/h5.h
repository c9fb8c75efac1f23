/* SPDX-License-Identifier: BSD-3-Clause */
/* HDF5 as the .h5ad files use it. Ids that are not open are H5I_INVALID_HID. */
#ifndef UNI_IO_H5_H
#define UNI_IO_H5_H

#include <hdf5.h>

#include "io_internal.h"

/* HDF5 prints its error stack to stderr unless told otherwise; what the caller had set comes back at the end. Between the two every
   failure of HDF5 is noticed, also of calls whose answer nobody looks at. */
struct io_h5_quiet {
    H5E_auto2_t print;
    void *user;
};
void io_h5_quiet_begin(struct io_h5_quiet *);
void io_h5_quiet_end(const struct io_h5_quiet *);

/* Why the last HDF5 call that failed did: the system's reason if it had one, else HDF5's innermost message. Static, per thread. */
const char *io_h5_reason(void);
int io_h5_no_memory(void); /* makes that the reason; returns -1 */

/* Before io_h5_quiet_end: err, but -1 with a sentence where a call of HDF5 failed that was not expected to. So a value that could not
   be looked up is never taken for one that is not there, nor a close that could not write for one that could. */
int io_h5_settle(int err, const char *path);
void io_h5_expected(void); /* the failures so far were answers, unless memory or the disk was their reason */

struct io_h5_file {
    hid_t id;
    const char *path;
    int64_t bytes; /* of the file; what is found in it is held against this */
};
int io_h5_look(const char *path, int64_t *bytes);      /* is it a file, and of what size; opens nothing */
int io_h5_open(struct io_h5_file *, const char *path); /* to read */
void io_h5_close(struct io_h5_file *);
/* Is it as long as it was? Where a file ends early HDF5 gives zeros for what is missing, and says nothing. To be asked after reading. */
int io_h5_still_whole(const struct io_h5_file *);

int io_h5_exists(hid_t location, const char *path);      /* every step of the path is a link that exists */
H5O_type_t io_h5_type(hid_t location, const char *path); /* H5O_TYPE_UNKNOWN: there is no such object */
/* The sentence for a link that is there and leads to nothing. Call at once. */
int io_h5_fail_link(const struct io_h5_file *, hid_t location, const char *name, const char *thing);
int io_h5_links(hid_t group, struct io_strings *names);  /* names in a group */
int io_h5_fields(hid_t type, struct io_strings *names);  /* names of a compound type's members */
hid_t io_h5_close_id(hid_t id);                          /* whatever kind it is; returns H5I_INVALID_HID */

/* A string attribute; text is "" when it is absent or no string. Returns 1 when it was there. */
int io_h5_text_attribute(hid_t object, const char *name, char *text, size_t size);
/* Up to most integers; returns how many there are, -1 without a sentence when there is no such attribute. */
int io_h5_integer_attribute(hid_t object, const char *name, int64_t *values, int most);

/* The extent of a dataset: its axes (at most 3 are looked at; more are counted). */
int io_h5_shape(hid_t dataset, int64_t shape[3]);

/* Can its values be read: known filters, values in this file, and no more of them than the file can hold. To be asked before anything
   else about a dataset. thing: "obsm/X_pca". */
int io_h5_check_values(const struct io_h5_file *, hid_t dataset, const char *thing);

/* ---- one-axis datasets (h5_vector.c) ----------------------------------------------------------------------------------------
 */

enum io_h5_kind { IO_H5_INTEGER, IO_H5_UNSIGNED, IO_H5_FLOAT, IO_H5_ENUM, IO_H5_FIXED, IO_H5_VARIABLE };

struct io_h5_arena;

/* Read in pieces: int64_t, uint64_t, double, int64_t (an enum's), width bytes, const char *. */
struct io_h5_vector {
    const struct io_h5_file *file;
    char thing[256];
    hid_t dataset, memory_type, transfer;
    enum io_h5_kind kind;
    int64_t count, first, n_piece; /* n_piece elements from first on are in piece */
    int64_t most;                  /* elements of a piece */
    size_t width;                  /* bytes of an element in piece */
    void *piece;
    struct io_h5_arena *arena; /* texts of IO_H5_VARIABLE, valid until the next piece */
    int space_padded;
    int n_members; /* of an enum */
    struct io_h5_member {
        int64_t value;
        char name[40];
    } * member;
};
/* name: relative to location. field: of a compound dataset, or NULL. */
int io_h5_vector_open(struct io_h5_vector *, const struct io_h5_file *, hid_t location, const char *name, const char *field);
int io_h5_vector_next(struct io_h5_vector *); /* 1: a piece, 0: the end, -1: failed */
void io_h5_vector_close(struct io_h5_vector *);

/* Element i of the piece as text, in the vector's memory or in number (which has room for IO_FLOAT_TEXT). */
enum io_h5_label { IO_H5_LABEL, IO_H5_MISSING, IO_H5_NOT_WHOLE };
enum io_h5_label io_h5_vector_text(const struct io_h5_vector *, int64_t i, char *number, const char **text, size_t *length);
/* Element i of an integer, unsigned or enum piece. */
int64_t io_h5_vector_integer(const struct io_h5_vector *, int64_t i);

/* Element i of an integer, unsigned, enum or float piece. */
float io_h5_vector_float(const struct io_h5_vector *, int64_t i);

/* All texts of a one-axis dataset or of a values + mask group, appended to names. */
int io_h5_read_names(const struct io_h5_file *, hid_t location, const char *name, const char *field, struct io_builder *names);

/* ---- .h5ad ------------------------------------------------------------------------------------------------------------------
 */

/* Number of cells by obs; -1 without a sentence when it cannot be told. */
int64_t io_h5ad_count_cells(const struct io_h5_file *);
int io_h5ad_cell_names(const struct io_h5_file *, struct io_strings *cells); /* none is no failure */

/* Where values of an embedding go as they are read; all that goes in fits (n_cells, n_dims). */
struct io_sink {
    /* A block of rows x columns values, C order, whose first belongs to (row, column). */
    int (*put)(struct io_sink *, int64_t row, int64_t column, int64_t n_rows, int64_t n_columns, const float *values);
    /* Values that are added to what is at those places, zero at first. */
    int (*sum)(struct io_sink *, int64_t count, const int64_t *at, const float *values);
};

/* What io_matrix.state is for an .h5ad in the process that reads it. */
struct io_h5ad_source {
    struct io_source source;
    struct io_h5_file file;
    char *path, *key;
    char thing[256];           /* obsm/"KEY" */
    hid_t object;              /* the dataset or group */
    struct io_strings columns; /* of a data frame */
    const char *field;         /* of obsm as one compound dataset, = key */
    int by_columns;            /* csc */
    int64_t n_values;          /* of a sparse matrix */
    int (*values)(const struct io_h5ad_source *, int64_t n_cells, int64_t n_dims, struct io_sink *);
};

/* In this process, unlike io_matrix_open, io_matrix_read and io_labels_h5ad: what the child does, and what fuzzing looks at. */
int io_h5ad_open_here(struct io_matrix *, const char *path, const char *key);
int io_h5ad_read_here(struct io_matrix *, struct io_sink *);
int io_h5ad_labels_here(struct io_labels *, const char *path, const char *column, int force);

/* Runs work, which answers once, in a child that reads path and may write writes (h5ad_child.c). */
int io_h5ad_in_child(const char *path, const char *writes, int (*work)(struct io_child *, void *job), void *job);

int io_h5ad_frame_open(struct io_h5ad_source *, struct io_matrix *);
int io_h5ad_sparse_open(struct io_h5ad_source *, struct io_matrix *, int by_columns);

/* Takes so many bytes more of the disk for a file that HDF5 is to write to. */
int io_h5_reserve(const struct io_target *, int64_t bytes);

/* Attributes as current anndata writes them. */
int io_h5ad_encode(hid_t object, const char *type, const char *version);
int io_h5ad_text_attribute(hid_t object, const char *name, const char *text);
int io_h5ad_list_attribute(hid_t object, const char *name, const char *const *texts, int64_t count);
hid_t io_h5ad_make_group(hid_t location, const char *name, const char *type, const char *version);
/* A dataset (n_axes 0: a scalar); values NULL: no values. */
int io_h5ad_make_array(hid_t location, const char *name, hid_t file_type, hid_t memory_type, int n_axes, const hsize_t *shape,
                       const void *values, const char *encoding);

/* The names of a data frame's columns. */
int io_h5ad_column_order(const struct io_h5_file *, hid_t object, const char *thing, struct io_strings *columns);

/* ---- columns that obs gains (h5ad_obs.c) ------------------------------------------------------------------------------------ */

int io_h5ad_obs_check(const struct io_h5_file *, const struct io_output *);
/* -1: why has the reason. */
int io_h5ad_obs_add(const struct io_h5_file *, const struct io_output *, char *why, size_t size);

/* ---- obsm as one dataset of records, as anndata before 0.7 wrote it (h5ad_older.c) ------------------------------------------ */

/* Can it become a group, and KEY be added to that? */
int io_h5ad_older_check(const struct io_h5_file *, const char *key, int overwrite);
int64_t io_h5ad_older_bytes(hid_t file); /* what that takes, at most; 0 when obsm is none of these */
int io_h5ad_older_convert(hid_t file, const char *key); /* without the field KEY; -1 without a sentence, HDF5 has the reason */

#endif
