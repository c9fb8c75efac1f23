/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of io/ offer each other. Conventions are those of io.h: 0 or -1, and io_fail() was called for the -1. */
#ifndef UNI_IO_INTERNAL_H
#define UNI_IO_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "io.h"

/* Bytes read, converted or written at once: large enough that calls cost nothing, small enough to stay in the cache. Fuzzing takes
   fewer. */
#ifndef UNI_IO_PIECE
#define UNI_IO_PIECE (1 << 20)
#endif
enum { IO_PIECE = UNI_IO_PIECE };

/* ---- errors (io_error.c) ------------------------------------------------------------------------------------------------- */

/* Keeps the sentence and returns -1. */
int io_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int io_fail_memory(const char *path, const char *thing, int64_t bytes);

/* Sizes of an embedding: positive, and their product of floats fits an int64_t. */
int io_check_sizes(const char *path, const char *thing, int64_t n_cells, int64_t n_dims);

/* Appends '; nearest: "Channel"' and, when there are few, '; all: ...' to a sentence about a name that does not exist. */
void io_suggest(char *text, size_t size, const char *wanted, const struct io_strings *names);

/* ---- strings (io_strings.c) ---------------------------------------------------------------------------------------------- */

struct io_builder {
    char *bytes; /* the texts, each with its 0 */
    size_t used, room;
    int64_t count;
};
int io_builder_add(struct io_builder *, const char *text, size_t length);
int io_builder_finish(struct io_builder *, struct io_strings *); /* empties the builder */
void io_builder_close(struct io_builder *);
char *io_copy_text(const char *text); /* NULL (and io_fail) when there is no memory */

/* ---- labels -> levels (io_encode.c): the one way, whatever the type the labels came in ------------------------------------ */

/* Texts and their numbers in order of first sight; a hash table. */
struct io_encoder {
    struct io_builder texts;
    struct io_known {
        size_t start;
        uint32_t length, hash;
    } * known; /* (count) */
    int64_t count, room;
    uint32_t *slots; /* (n_slots) number + 1 */
    uint64_t n_slots;
};
int32_t io_encoder_add(struct io_encoder *, const char *text, size_t length);        /* -1: failed */
int32_t io_encoder_find(const struct io_encoder *, const char *text, size_t length); /* -1: unknown */
const char *io_encoder_text(const struct io_encoder *, int32_t number);
void io_encoder_close(struct io_encoder *);

/* First text that is a number but not a whole one, when all texts are numbers; else -1. Such a column is continuous. */
int32_t io_encoder_continuous(const struct io_encoder *);
int io_fail_continuous(const char *path, const char *column, const char *value, int64_t cell);

/* Makes the result out of levels in order of first sight; takes both. sorted: numbers in numeric order when every text is a
   number, else in order of their bytes. So 1, 2, 10 get the same levels as integers, as strings and as a column of a table. */
int io_labels_finish(struct io_labels *, const char *column, struct io_encoder *, int32_t **level, int64_t n_cells, int sorted);

/* ---- numbers (io_number.c), none of which knows the caller's locale -------------------------------------------------------- */

int io_parse_number(const char *text, size_t length, double *value); /* -1 without a sentence: not a number */
size_t io_format_float(char *text, float value);                     /* like %.9g; text has room for IO_FLOAT_TEXT */
size_t io_format_label(char *text, double value);                    /* 3 for 3.0, else the shortest of %.15g and %.17g */
enum { IO_FLOAT_TEXT = 32 };
float io_half_to_float(uint16_t bits);

/* ---- safe output files (io_target.c) --------------------------------------------------------------------------------------- */

struct io_target {
    char *name; /* as the caller has it, for sentences */
    char *path; /* where links lead */
    char *temp; /* in the same folder */
    char *buffer;
    size_t used;
    int fd, slot, replaces, mode;
    struct io_stamp replaced; /* what was there at the beginning */
};
/* Where the target really is, after all symbolic links; NULL and io_fail when its folder does not exist. To be freed. */
char *io_target_resolve(const char *target);
/* Can it be written? overwrite 0: must not exist. */
int io_target_check(const char *target, int overwrite);
int io_target_begin(struct io_target *, const char *target, int overwrite);
int io_target_write(struct io_target *, const void *bytes, size_t count);
int io_target_flush(struct io_target *); /* what io_target_write kept back */
int io_target_commit(struct io_target *);
void io_target_abandon(struct io_target *); /* safe after commit and on a struct of begin that failed */

/* ---- tables (io_lines.c, io_table.c) ----------------------------------------------------------------------------------------
 */

struct io_field {
    char *text; /* not 0-terminated */
    size_t length;
};

/* Records of a text file, plain or gzip, one after another. */
struct io_lines {
    const char *path;
    void *file;
    char separator;
    char *buffer; /* begin .. end is text not yet handed out */
    size_t room, begin, end;
    int at_end, again;
    int64_t line, next_line; /* of the record handed out last; of the text at begin */
    int64_t blanks;          /* blank lines seen and not yet handed out: those before the end of the file do not count */
    int64_t n_fields, field_room;
    struct io_field *field;
};
char io_table_separator(const char *path); /* ',' for .csv, else a tab */
int io_lines_open(struct io_lines *, const char *path);
int io_lines_next(struct io_lines *); /* 1: a record, 0: the end, -1: failed */
void io_lines_close(struct io_lines *);

struct io_table {
    struct io_lines lines;    /* stands before the first data line */
    struct io_strings header; /* of every field of a data line */
    int usual_names;          /* the first field's header is one that columns of names have */
    int first_is_text;        /* the first data line's first field is not a number */
};
int io_table_open(struct io_table *, const char *path);
int io_table_next(struct io_table *); /* as io_lines_next; a line with another number of fields fails */
void io_table_close(struct io_table *);
int io_table_write(const struct io_output *);

/* ---- sizes (io_size.c) ------------------------------------------------------------------------------------------------------ */

/* What a file of so many bytes can hold at most when it is compressed. */
int64_t io_most_expanded(int64_t bytes);

/* ---- a process of its own for a stranger's file (io_child.c, io_sandbox.c) -------------------------------------------------- */

/* One end of the connection, in the parent and in the child. */
struct io_child {
    pid_t pid; /* -1: this is the child; 0: it has ended */
    int fd;
    const char *path;   /* of the file */
    const char *writes; /* the file that the child may write, or NULL */
    int64_t bytes;      /* of the file: what the child may take and send follows from it */
    int64_t seconds;    /* of work, after which it is ended */
};
/* Runs work in a child, which ends when it returns. The thread that starts a child must outlive it. */
int io_child_start(struct io_child *, const char *path, const char *writes, int64_t bytes, int (*work)(struct io_child *, void *job),
                   void *job);
/* In the child, once it is known what is asked of it: memory for so many bytes more, and time for values of so many. */
void io_child_allow(const struct io_child *, int64_t bytes, int64_t values);
/* -1 in the parent: there is a sentence about how the child ended. */
int io_child_send(struct io_child *, const void *bytes, int64_t count);
int io_child_receive(struct io_child *, void *bytes, int64_t count);
int io_child_answer(struct io_child *, int err); /* 0, or -1 with the last sentence; returns -1 when it cannot be sent */
int io_child_result(struct io_child *);          /* what io_child_answer sent */
int io_child_send_strings(struct io_child *, const struct io_strings *);
int io_child_receive_strings(struct io_child *, struct io_strings *);
int io_child_finish(struct io_child *, int err); /* waits for its end; returns err, or why even so it failed */
void io_child_end(struct io_child *);            /* at once; safe after io_child_finish */

/* From here on this process can open these files only, and can do little else. */
void io_sandbox(const char *reads, const char *writes);
int io_h5_plugins_allowed(void);

/* ---- one format each ----------------------------------------------------------------------------------------------------------
 */

/* What io_matrix.state points to begins with this. */
struct io_source {
    int (*read)(struct io_matrix *, float *dst);
    void (*close)(struct io_source *);
};
int io_npy_open(struct io_matrix *, const char *path);
int io_table_matrix_open(struct io_matrix *, const char *path);
int io_h5ad_matrix_open(struct io_matrix *, const char *path, const char *key);

/* Header of a version 1.0 .npy; returns its length, a multiple of 64, at most IO_NPY_HEADER. */
enum { IO_NPY_HEADER = 256 };
size_t io_npy_header(char *header, char what, int n_axes, const int64_t *shape);
int64_t io_npy_bytes(char what, int n_axes, const int64_t *shape);

int io_h5ad_check(const struct io_output *); /* source and key */
int io_h5ad_write(const struct io_output *);
int io_same_file(const char *a, const char *b);

#endif
