/* SPDX-License-Identifier: BSD-3-Clause */
/* From the file to the sample: labels, what the run said about itself, and of each basis the rows of the sampled cells and their
 * LISI among all cells. The whole embeddings are
 * kept until it is known what moved.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_bits.h"
#include "report.h"

enum { TRACE_BYTES = 64 << 20 };
static const char UMAP[] = "X_umap";

static int failed_io(void)
{
    return say_failed("%s", io_error());
}

/* ---- what the file says -------------------------------------------------------------------------------------------------------
 */

static int has_key(const struct io_strings *keys, const char *key)
{
    for (int64_t i = 0; i < keys->count; i++)
        if (!strcmp(keys->at[i], key))
            return 1;
    return 0;
}

/* Cuts "donor,chemistry" at its commas; the names stay in text. */
static void take_batches(struct report_options *o, char *text)
{
    for (char *at = text; at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = 0;
        if (o->n_batches < REPORT_VARIABLES)
            o->batch[o->n_batches++] = at;
        at = comma;
    }
}

static int default_bases(struct report *r)
{
    struct report_options *o = &r->options;
    int given = o->n_bases;
    if (!given)
        o->basis[o->n_bases++] = "X_pca_harmony";
    if (io_uns_h5ad(&r->run, o->input, o->basis[o->n_bases - 1]))
        return failed_io();
    if (given)
        return EXIT_DONE;
    const char *basis = io_uns_text(&r->run, "basis");
    r->key_basis = strdup(basis ? basis : "X_pca");
    o->basis[1] = o->basis[0];
    o->basis[0] = r->key_basis;
    o->n_bases = 2;
    return r->key_basis ? EXIT_DONE : say_failed("%s: no memory for names", o->input);
}

static int check_bases(struct report *r)
{
    struct report_options *o = &r->options;
    struct io_strings keys;
    int status = EXIT_DONE;
    if (io_h5ad_keys(&keys, o->input))
        return failed_io();
    if (r->key_basis && !has_key(&keys, o->basis[1]) && has_key(&keys, o->basis[0]))
        status = say_failed(
            "%s: obsm has no \"%s\", so there is nothing to compare \"%s\" with; run unisono integrate first, or name what "
            "there is: --basis %s alone, or --basis twice",
            o->input, o->basis[1], o->basis[0], o->basis[0]);
    o->found_layout = !o->n_layouts && has_key(&keys, UMAP);
    if (o->found_layout)
        o->layout[o->n_layouts++] = UMAP;
    io_strings_close(&keys);
    for (int b = 0; b < o->n_bases && status == EXIT_DONE; b++) {
        struct io_matrix m = {0};
        if (io_matrix_open(&m, o->input, o->basis[b]))
            status = failed_io();
        io_matrix_close(&m);
    }
    return status;
}

static int default_batches(struct report *r)
{
    struct report_options *o = &r->options;
    const char *batches = io_uns_text(&r->run, "batch");
    if (!o->n_batches && batches && *batches) {
        r->key_batches = strdup(batches);
        if (!r->key_batches)
            return say_failed("%s: no memory for names", o->input);
        take_batches(o, r->key_batches);
    }
    return o->n_batches || o->n_labels
               ? EXIT_DONE
               : say_usage("%s: uns/%s does not say which column has the batches; name it with --batch COLUMN", o->input,
                           o->basis[o->n_bases - 1]);
}

/* ---- labels -------------------------------------------------------------------------------------------------------------------
 */

static int count_cells(struct report_variable *v)
{
    v->cells = io_room_zeroed(v->labels.n_levels + 1, sizeof *v->cells);
    for (int64_t i = 0; v->cells && i < v->labels.n_cells; i++)
        if (v->labels.level[i] >= 0)
            v->cells[v->labels.level[i]]++;
    return v->cells ? EXIT_DONE : say_failed("no memory for %lld levels", (long long)v->labels.n_levels);
}

static int load_labels(struct report *r)
{
    const struct report_options *o = &r->options;
    for (int i = 0; i < o->n_batches + o->n_labels; i++) {
        struct report_variable *v = &r->variable[r->n_variables++];
        v->is_batch = i < o->n_batches;
        if (io_labels_h5ad(&v->labels, o->input, v->is_batch ? o->batch[i] : o->label[i - o->n_batches], o->overwrite))
            return failed_io();
        if (v->labels.n_cells != r->variable[0].labels.n_cells)
            return say_failed("%s: the column %s has %lld cells and %s has %lld", o->input, v->labels.name,
                              (long long)v->labels.n_cells, r->variable[0].labels.name, (long long)r->variable[0].labels.n_cells);
        if (count_cells(v) != EXIT_DONE)
            return EXIT_FAILED;
    }
    r->n_cells = r->variable[0].labels.n_cells;
    return EXIT_DONE;
}

static int load_trace(struct report *r)
{
    const char *path = r->options.trace;
    if (!path)
        return EXIT_DONE;
    r->trace = io_text_read(path, TRACE_BYTES);
    if (!r->trace)
        return failed_io();
    if (r->trace[strspn(r->trace, " \t\r\n")] != '{' || !strstr(r->trace, "\"program\": \"unisono\""))
        return say_failed("--trace %s: this is no trace of unisono integrate (--trace FILE.json there writes one)", path);
    return EXIT_DONE;
}

int report_look(struct report *r)
{
    static int (*const steps[])(struct report *) = {default_bases, check_bases, default_batches, load_labels, load_trace};
    int status = EXIT_DONE;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == EXIT_DONE; i++)
        status = steps[i](r);
    return status;
}

/* ---- one basis ----------------------------------------------------------------------------------------------------------------
 */

static int check_matrix(const struct report *r, const struct io_matrix *m, int b, const struct uni_lisi_plan *plan)
{
    const struct report_options *o = &r->options;
    double needed = (double)m->n_cells * (double)m->n_dims * sizeof(float) + (double)m->source_bytes + (double)plan->bytes;
    int64_t left = memory_available();
    char a[32], c[32];
    if (m->n_cells != r->n_cells)
        return say_failed("%s: %s has %lld rows, the labels %lld", o->input, o->basis[b], (long long)m->n_cells,
                          (long long)r->n_cells);
    if (left >= 0 && needed > (double)left)
        return say_failed("%s: %s and the search for neighbours take %s, and %s are left", o->input, o->basis[b],
                          say_bytes(a, needed), say_bytes(c, (double)left));
    return EXIT_DONE;
}

/* order (S): a shuffle of 0 .. S-1. Which cells are drawn first must not follow from where they are in the file. */
static void shuffle(int64_t *order, int64_t S, int64_t seed)
{
    uint64_t state = (uint64_t)seed;
    for (int64_t i = 0; i < S; i++)
        order[i] = i;
    for (int64_t i = S - 1; i > 0; i--) {
        int64_t j = (int64_t)(random_bits(&state) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static int sample_open(struct report *r, int64_t S)
{
    r->S = S;
    r->T = r->options.tsne_cells < S ? r->options.tsne_cells : S;
    if (r->T < 5)
        r->T = 0;
    r->row = io_room_zeroed(S, sizeof *r->row);
    int bad = !r->row;
    for (int v = 0; v < r->n_variables; v++)
        for (int b = 0; b < r->options.n_bases; b++)
            bad |= !(r->variable[v].score[b] = io_room_zeroed(S, sizeof(float)));
    return bad ? say_failed("no memory for %lld sampled cells", (long long)S) : EXIT_DONE;
}

/* Scores come in rising order of the cells; the sample is shuffled, so that its first cells are a sample too. */
static int keep_scores(struct report *r, int b, const double *values, const int64_t *cells, const struct uni_lisi_score *scores)
{
    int64_t *order = io_room(r->S, sizeof *order);
    if (!order)
        return say_failed("no memory for %lld sampled cells", (long long)r->S);
    shuffle(order, r->S, r->options.seed);
    for (int64_t i = 0; i < r->S; i++)
        r->row[i] = cells[order[i]];
    for (int v = 0; v < r->n_variables; v++) {
        for (int64_t i = 0; i < r->S; i++)
            r->variable[v].score[b][i] = (float)values[v * r->S + order[i]];
        r->variable[v].mean[b] = scores[v].mean;
        r->variable[v].error[b] = scores[v].standard_error;
    }
    free(order);
    return EXIT_DONE;
}

static struct uni_lisi_options lisi_options(struct report *r)
{
    struct uni_lisi_options o;
    uni_lisi_options_init(&o, sizeof o);
    o.perplexity = r->options.perplexity;
    o.sample = r->options.points;
    o.seed = r->options.seed;
    o.threads = r->options.threads;
    o.progress = progress_cells;
    o.progress_user = &r->progress;
    return o;
}

static void batches_of(const struct report *r, struct uni_batch *batches)
{
    for (int v = 0; v < r->n_variables; v++) {
        const struct io_labels *l = &r->variable[v].labels;
        batches[v] = (struct uni_batch){.name = l->name, .n_cells = l->n_cells, .n_levels = l->n_levels, .level = l->level};
    }
}

/* Once, though it may be so for both bases. */
static void warn(struct report *r, const char *text)
{
    if (*text && strcmp(text, r->warned) != 0 && r->options.level >= 0)
        say_warning("%s", text);
    snprintf(r->warned, sizeof r->warned, "%s", text);
}

static int score(struct report *r, int b, const struct uni_matrix *embedding)
{
    struct uni_batch batches[2 * REPORT_VARIABLES];
    struct uni_lisi_score scores[2 * REPORT_VARIABLES];
    struct uni_lisi_options o = lisi_options(r);
    char warning[UNI_LISI_WARNING] = "";
    o.warning = warning;
    double *values = io_room(io_product(r->n_variables, r->S), sizeof *values);
    int64_t *cells = io_room(r->S, sizeof *cells);
    int status;
    batches_of(r, batches);
    progress_stage(&r->progress, "scoring", r->options.basis[b]);
    if (!values || !cells)
        status = say_failed("no memory for the scores of %lld cells", (long long)r->S);
    else if (uni_lisi(embedding, batches, r->n_variables, &o, values, cells, scores)) {
        progress_clear(&r->progress);
        status = say_failed("%s: %s: %s", r->options.input, r->options.basis[b], uni_last_error());
    } else {
        progress_clear(&r->progress);
        warn(r, warning);
        status = keep_scores(r, b, values, cells, scores);
    }
    free(values);
    free(cells);
    return status;
}

static int keep_rows(struct report *r, int b, const struct io_matrix *m, const float *values)
{
    size_t width = (size_t)m->n_dims;
    r->n_dims[b] = m->n_dims;
    r->values[b] = io_room(io_product(r->S, m->n_dims), sizeof(float));
    if (!r->values[b])
        return say_failed("no memory for %lld sampled cells", (long long)r->S);
    for (int64_t i = 0; i < r->S; i++)
        memcpy(r->values[b] + (size_t)i * width, values + (size_t)r->row[i] * width, width * sizeof(float));
    if (m->cells.count != r->n_cells || r->name)
        return EXIT_DONE;
    r->name = io_room_zeroed(r->S, sizeof *r->name);
    for (int64_t i = 0; r->name && i < r->S; i++) {
        char clipped[REPORT_NAME];
        r->name[i] = strdup(report_clip(clipped, m->cells.at[r->row[i]]));
        if (!r->name[i])
            return say_failed("no memory for cell names");
    }
    return r->name ? EXIT_DONE : say_failed("no memory for cell names");
}

static int read_basis(struct report *r, int b)
{
    const struct report_options *o = &r->options;
    struct uni_batch batches[2 * REPORT_VARIABLES];
    struct uni_lisi_options lisi = lisi_options(r);
    struct uni_lisi_plan plan;
    struct io_matrix m = {0};
    float *values = NULL;
    if (io_matrix_open(&m, o->input, o->basis[b]))
        return failed_io();
    m.skip_names = b > 0;
    struct uni_matrix embedding = {.dtype = UNI_FLOAT32, .n_cells = m.n_cells, .n_dims = m.n_dims};
    batches_of(r, batches);
    int status = m.n_cells == r->n_cells && uni_lisi_plan(&plan, &embedding, batches, r->n_variables, &lisi)
                     ? say_failed("%s: %s: %s", o->input, o->basis[b], uni_last_error())
                     : check_matrix(r, &m, b, &plan);
    if (status == EXIT_DONE && b == 0)
        status = sample_open(r, plan.n_sampled);
    progress_stage(&r->progress, "reading", o->basis[b]);
    if (status == EXIT_DONE && !(values = io_room(io_product(m.n_cells, m.n_dims), sizeof *values)))
        status = say_failed("%s: no memory for %lld x %lld values", o->input, (long long)m.n_cells, (long long)m.n_dims);
    if (status == EXIT_DONE && io_matrix_read(&m, values)) {
        progress_clear(&r->progress);
        status = failed_io();
    }
    embedding.data = values;
    if (status == EXIT_DONE)
        status = score(r, b, &embedding);
    if (status == EXIT_DONE)
        status = keep_rows(r, b, &m, values);
    progress_clear(&r->progress);
    r->whole[b] = values;
    io_matrix_close(&m);
    return status;
}

/* How far each sampled cell is from where it was; both bases must have the same axes. */
static int measure_moves(struct report *r)
{
    if (r->options.n_bases < 2 || r->n_dims[0] != r->n_dims[1])
        return EXIT_DONE;
    r->moved = io_room(r->S, sizeof *r->moved);
    if (!r->moved)
        return say_failed("no memory for %lld sampled cells", (long long)r->S);
    for (int64_t i = 0; i < r->S; i++) {
        double sum = 0;
        for (int64_t d = 0; d < r->n_dims[0]; d++) {
            double moved = (double)r->values[1][i * r->n_dims[0] + d] - (double)r->values[0][i * r->n_dims[0] + d];
            sum += moved * moved;
        }
        r->moved[i] = (float)sqrt(sum);
    }
    return EXIT_DONE;
}

int report_read(struct report *r)
{
    int status = EXIT_DONE;
    for (int b = 0; b < r->options.n_bases && status == EXIT_DONE; b++)
        status = read_basis(r, b);
    if (status == EXIT_DONE)
        status = measure_moves(r);
    if (status == EXIT_DONE)
        status = report_diagnose(r);
    for (int b = 0; b < 2; b++) {
        free(r->whole[b]);
        r->whole[b] = NULL;
    }
    return status;
}
