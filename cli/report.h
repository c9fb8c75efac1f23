/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of `unisono report`, as its files share it. S cells are sampled; T of them, the first, are in the t-SNE. */
#ifndef UNI_CLI_REPORT_H
#define UNI_CLI_REPORT_H

#include "cli.h"
#include "io.h"
#include "progress.h"
#include "unisono.h"

enum { REPORT_VARIABLES = UNI_MAX_VARIABLES, REPORT_POINTS = 20000, REPORT_TSNE = 10000 };

struct report_options {
    const char *input, *output, *svg, *png, *trace, *title; /* of argv; NULL where not given */
    const char *batch[REPORT_VARIABLES], *label[REPORT_VARIABLES], *basis[2], *layout[2];
    int n_batches, n_labels, n_bases, n_layouts;
    int found_layout; /* nobody asked for layout[0]: it is in the file */
    int64_t points, tsne_cells, seed, threads;
    double perplexity;
    int overwrite, help;
    int level; /* -1 quiet, 0 */
};

/* A column of obs: batches first, then cell types. */
struct report_variable {
    struct io_labels labels;
    int is_batch;
    int64_t *cells;  /* (n_levels) in the file */
    float *score[2]; /* (S) LISI of the sampled cells, before and after; or NULL */
    double mean[2], error[2];
};

/* Where the first cells of the sample lie, once for every panel. */
struct report_layout {
    char title[300], note[700];
    const char *panel[2]; /* what a panel shows, the obsm key */
    const char *moment;   /* of a single panel of two bases: "Before", "After", or NULL: it is not known */
    int n_panels;
    int same_axes; /* panels are drawn to one scale */
    int64_t cells;
    float *xy[2]; /* (cells, 2) */
};
enum { REPORT_LAYOUTS = 4 };

struct report {
    struct report_options options;
    struct io_uns run;             /* what the last basis says about itself */
    char *key_basis, *key_batches; /* names that it gave */
    char *trace;                   /* a JSON text, or NULL */
    int64_t n_cells, S, T;
    int64_t n_dims[2];
    int64_t *row;                    /* (S) of the file, sampled without order */
    char **name;                     /* (S) or NULL */
    float *whole[2];                 /* (n_cells, n_dims) of each basis, until the diagnosis is made */
    float *values[2];                /* (S, n_dims) of each basis */
    float *moved;                    /* (S) or NULL */
    struct uni_diagnosis *diagnosis; /* or NULL */
    struct report_variable variable[2 * REPORT_VARIABLES];
    int n_variables;
    struct report_layout layout[REPORT_LAYOUTS];
    int n_layouts;
    char warned[UNI_LISI_WARNING]; /* what uni_lisi said last */
    struct progress progress;
};

/* ---- report_options.c ---- */
int report_options_read(struct report_options *, int argc, char **argv);

/* ---- report_read.c: files -> the sample */
int report_look(struct report *); /* defaults from what the file says; labels; the sample */
int report_read(struct report *); /* the bases, and what is measured on all cells */

/* ---- report_diagnose.c */
int report_diagnose(struct report *);
struct json;
int report_diagnosis(struct json *, const struct report *); /* -1: no memory */

/* ---- report_layouts.c */
int report_layouts(struct report *);

/* ---- report_palette.c: how level i of a variable looks, in the page and in the static pictures */
enum { REPORT_COLOURS = 16, REPORT_SHAPES = 6, REPORT_SAME_SHAPE = 8 };
extern const char *const report_colour[REPORT_COLOURS];
enum report_shape { REPORT_CIRCLE, REPORT_SQUARE, REPORT_TRIANGLE, REPORT_DIAMOND, REPORT_PLUS, REPORT_CROSS };

/* A name cut to what can be shown, never within a character of UTF-8. */
enum { REPORT_NAME = 164 };
const char *report_clip(char clipped[REPORT_NAME], const char *name);

/* ---- report_page.c, report_svg.c: texts, to be freed; NULL: no memory */
char *report_page(const struct report *);
char *report_svg(const struct report *);           /* of the layout that was asked for, else of the first with every basis */
void report_put_text(FILE *out, const char *text); /* escaped for HTML and XML */

/* ---- report_png.c, or report_png_none.c where the build had no librsvg */
extern const int report_has_png;
int report_png(const char *target, const char *svg);

#endif
