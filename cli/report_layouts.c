/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the sampled cells lie on the plane: what the file has, a t-SNE of each basis from one start, and the first two
 * dimensions.
 */
#include <stdlib.h>
#include <string.h>

#include "report.h"

static struct report_layout *next(struct report *r, int64_t cells, int n_panels)
{
    struct report_layout *l = &r->layout[r->n_layouts++];
    l->cells = cells;
    l->n_panels = n_panels;
    for (int p = 0; p < n_panels; p++)
        l->xy[p] = io_room_zeroed(io_product(2, cells), sizeof(float));
    return l->xy[0] && (n_panels < 2 || l->xy[1]) ? l : NULL;
}

static int no_memory(const struct report *r)
{
    return say_failed("%s: no memory for a layout of %lld cells", r->options.input, (long long)r->S);
}

/* The first two dimensions of the first cells of the sample; the second is 0 where there is one. */
static void first_two(float *xy, const float *values, int64_t n_cells, int64_t n_dims)
{
    for (int64_t i = 0; i < n_cells; i++) {
        xy[2 * i] = values[i * n_dims];
        xy[2 * i + 1] = n_dims > 1 ? values[i * n_dims + 1] : 0;
    }
}

static int add_tsne(struct report *r)
{
    const struct report_options *o = &r->options;
    if (!r->T)
        return EXIT_DONE;
    struct report_layout *l = next(r, r->T, o->n_bases);
    float *start = io_room(io_product(2, r->T), sizeof *start);
    int status = l && start ? EXIT_DONE : no_memory(r);
    if (status == EXIT_DONE)
        first_two(start, r->values[0], r->T, r->n_dims[0]);
    for (int b = 0; b < o->n_bases && status == EXIT_DONE; b++) {
        struct uni_matrix embedding = {.data = r->values[b], .dtype = UNI_FLOAT32, .n_cells = r->T, .n_dims = r->n_dims[b]};
        progress_stage(&r->progress, "t-SNE of", o->basis[b]);
        int failed = uni_tsne(l->xy[b], &embedding, start, o->perplexity, o->threads, NULL);
        progress_clear(&r->progress);
        if (failed)
            status = say_failed("%s: %s: %s", o->input, o->basis[b], uni_last_error());
        l->panel[b] = o->basis[b];
    }
    free(start);
    if (status != EXIT_DONE)
        return status;
    snprintf(l->title, sizeof l->title, "t-SNE");
    snprintf(
        l->note, sizeof l->note,
        "t-SNE of %lld sampled cells at perplexity %g, made for this report%s. Distances between far groups, and the sizes of "
        "groups, mean little in a t-SNE.",
        (long long)r->T, o->perplexity,
        o->n_bases > 1 ? ": once from each embedding, of the same cells, from the same start" : "");
    return EXIT_DONE;
}

static int add_dimensions(struct report *r)
{
    const struct report_options *o = &r->options;
    struct report_layout *l = next(r, r->S, o->n_bases);
    if (!l)
        return no_memory(r);
    for (int b = 0; b < o->n_bases; b++) {
        first_two(l->xy[b], r->values[b], r->S, r->n_dims[b]);
        l->panel[b] = o->basis[b];
    }
    l->same_axes = r->moved != NULL;
    snprintf(l->title, sizeof l->title, "First two dimensions");
    snprintf(l->note, sizeof l->note,
             "The first two dimensions as they are in the file%s. Groups that overlap here may be apart in the other dimensions.",
             l->same_axes ? ", both panels with the same axes: what lies elsewhere has moved" : "");
    return EXIT_DONE;
}

/* What scanpy says about the neighbours that a UMAP was made of. */
static void note_origin(struct report_layout *l, const struct report_options *o)
{
    struct io_uns uns;
    char clipped[REPORT_NAME], origin[REPORT_NAME + 100];
    const char *basis = NULL;
    if (!io_uns_h5ad(&uns, o->input, "neighbors") && !strcmp(o->layout[0], "X_umap"))
        basis = io_uns_text(&uns, "params/use_rep");
    if (basis)
        snprintf(origin, sizeof origin, "By uns/neighbors it was made from %s; it", report_clip(clipped, basis));
    else
        snprintf(origin, sizeof origin, "The file does not say which embedding it was made from; it");
    snprintf(l->note, sizeof l->note, "obsm/%.200s as it is in the file. %s is no picture of another embedding.%s", o->layout[0],
             origin,
             o->n_bases > 1 ? " By LISI it is coloured twice, before and after; the other layouts show both embeddings." : "");
    for (int b = 0; b < o->n_bases && o->n_bases > 1 && basis; b++)
        if (!strcmp(basis, o->basis[b]))
            l->moment = b ? "After" : "Before";
    io_uns_close(&uns);
}

static int read_layout(const struct report *r, float *xy, const char *key)
{
    struct io_matrix m = {0};
    float *values = NULL;
    int status = EXIT_DONE;
    if (io_matrix_open(&m, r->options.input, key))
        return say_failed("%s", io_error());
    m.skip_names = 1;
    if (m.n_cells != r->n_cells)
        status = say_failed("%s: %s has %lld rows, the labels %lld", r->options.input, key, (long long)m.n_cells,
                            (long long)r->n_cells);
    else if (m.n_dims > 1000 || !(values = io_room(io_product(m.n_cells, m.n_dims), sizeof *values)))
        status = say_failed("%s: %s has %lld columns; a layout has two", r->options.input, key, (long long)m.n_dims);
    else if (io_matrix_read(&m, values))
        status = say_failed("%s", io_error());
    for (int64_t i = 0; i < r->S && status == EXIT_DONE; i++) {
        xy[2 * i] = values[r->row[i] * m.n_dims];
        xy[2 * i + 1] = m.n_dims > 1 ? values[r->row[i] * m.n_dims + 1] : 0;
    }
    free(values);
    io_matrix_close(&m);
    return status;
}

static int add_given(struct report *r)
{
    const struct report_options *o = &r->options;
    if (!o->n_layouts)
        return EXIT_DONE;
    struct report_layout *l = next(r, r->S, o->n_layouts);
    int status = l ? EXIT_DONE : no_memory(r);
    for (int p = 0; p < o->n_layouts && status == EXIT_DONE; p++) {
        status = read_layout(r, l->xy[p], o->layout[p]);
        l->panel[p] = o->layout[p];
    }
    if (status != EXIT_DONE)
        return status;
    snprintf(l->title, sizeof l->title, "%.200s", o->layout[0]);
    if (o->n_layouts > 1)
        snprintf(l->note, sizeof l->note, "obsm/%.200s and obsm/%.200s as they are in the file.", o->layout[0], o->layout[1]);
    else
        note_origin(l, o);
    return EXIT_DONE;
}

int report_layouts(struct report *r)
{
    int status = add_given(r);
    if (status == EXIT_DONE)
        status = add_tsne(r);
    return status == EXIT_DONE ? add_dimensions(r) : status;
}
