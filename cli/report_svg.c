/* SPDX-License-Identifier: BSD-3-Clause */
/* The static picture: a row for the first batch variable and one for the first column of types, a panel for each embedding, and a
 * legend. Only what every program that reads SVG 1.1 draws.
 */
#include <math.h>
#include <stdlib.h>

#include "report.h"

enum { PANEL = 300, GAP = 18, LEFT = 12, TOP = 34, HEAD = 24, LEGEND = 190, LEGEND_ROWS = 20, LAYERS = 16, FOOT = 30 };

struct picture {
    FILE *out;
    const struct report *r;
    const struct report_layout *layout;
    const struct report_variable *v;
    double radius;
};

/* ---- one panel ----------------------------------------------------------------------------------------------------------------
 */

struct frame {
    double left, top, scale, x0, y0;
};

static void grow(double low[2], double high[2], const float *xy, int64_t cells)
{
    for (int64_t i = 0; i < 2 * cells; i++) {
        low[i % 2] = isfinite(xy[i]) ? fmin(low[i % 2], xy[i]) : low[i % 2];
        high[i % 2] = isfinite(xy[i]) ? fmax(high[i % 2], xy[i]) : high[i % 2];
    }
}

static struct frame frame_of(const struct report_layout *l, int panel, double left, double top)
{
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int p = 0; p < l->n_panels; p++)
        if (p == panel || l->same_axes)
            grow(low, high, l->xy[p], l->cells);
    double wide = fmax(high[0] - low[0], high[1] - low[1]);
    if (!(wide > 0) || !isfinite(wide))
        wide = 1;
    double inside = PANEL - 16, scale = inside / wide;
    return (struct frame){left, top, scale, (low[0] + high[0]) / 2, (low[1] + high[1]) / 2};
}

/* A mark is a path of its own that begins where the cell is. Circles and squares are points of a line with such ends. */
static void mark(const struct picture *p, enum report_shape shape, double x, double y)
{
    double r = p->radius;
    switch (shape) {
    case REPORT_CIRCLE:
    case REPORT_SQUARE:
        fprintf(p->out, "M%.1f %.1fh0", x, y);
        break;
    case REPORT_TRIANGLE:
        fprintf(p->out, "M%.1f %.1fl%.1f %.1fh%.1fz", x, y - 1.2 * r, 1.2 * r, 2 * r, -2.4 * r);
        break;
    case REPORT_DIAMOND:
        fprintf(p->out, "M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz", x, y - 1.4 * r, 1.4 * r, 1.4 * r, -1.4 * r, 1.4 * r,
                -1.4 * r, -1.4 * r);
        break;
    case REPORT_PLUS:
        fprintf(p->out, "M%.1f %.1fh%.1fM%.1f %.1fv%.1f", x - 1.3 * r, y, 2.6 * r, x, y - 1.3 * r, 2.6 * r);
        break;
    case REPORT_CROSS:
        fprintf(p->out, "M%.1f %.1fl%.1f %.1fm0 %.1fl%.1f %.1f", x - r, y - r, 2 * r, 2 * r, -2 * r, -2 * r, 2 * r);
        break;
    }
}

static enum report_shape shape_of(int64_t level)
{
    return (enum report_shape)(level / REPORT_SAME_SHAPE % REPORT_SHAPES);
}

static void begin_marks(const struct picture *p, int64_t level)
{
    enum report_shape shape = shape_of(level);
    const char *colour = report_colour[level % REPORT_COLOURS];
    if (shape == REPORT_CIRCLE || shape == REPORT_SQUARE)
        fprintf(p->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.2f\" stroke-linecap=\"%s\" d=\"", colour,
                shape == REPORT_CIRCLE ? 2 * p->radius : 1.8 * p->radius, shape == REPORT_CIRCLE ? "round" : "square");
    else if (shape == REPORT_TRIANGLE || shape == REPORT_DIAMOND)
        fprintf(p->out, "<path fill=\"%s\" d=\"", colour);
    else
        fprintf(p->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.2f\" d=\"", colour, 0.7 * p->radius);
}

/* cells (n): of the sample; those of one level after another. A level's path once a layer, so that none lies over all others. */
static void points(const struct picture *p, const struct frame *f, const float *xy, const int64_t *ordered, int64_t n)
{
    int64_t open = -1;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = ordered[k], level = p->v->labels.level[p->r->row[i]];
        double x = f->left + PANEL / 2.0 + ((double)xy[2 * i] - f->x0) * f->scale;
        double y = f->top + PANEL / 2.0 - ((double)xy[2 * i + 1] - f->y0) * f->scale;
        if (level < 0 || !isfinite(x) || !isfinite(y))
            continue;
        if (level != open) {
            if (open >= 0)
                fputs("\"/>\n", p->out);
            begin_marks(p, level);
            open = level;
        }
        mark(p, shape_of(level), x, y);
    }
    if (open >= 0)
        fputs("\"/>\n", p->out);
}

static void panel(const struct picture *p, int which, double left, double top, const int64_t *order, int64_t layer)
{
    struct frame f = frame_of(p->layout, which, left, top);
    fprintf(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#c9c5bc\"/>\n<g>\n", left, top,
            PANEL, PANEL);
    for (int64_t first = 0; first < p->layout->cells; first += layer) {
        int64_t n = p->layout->cells - first < layer ? p->layout->cells - first : layer;
        points(p, &f, p->layout->xy[which], order + first, n);
    }
    fputs("</g>\n", p->out);
}

/* ---- all of it ----------------------------------------------------------------------------------------------------------------
 */

static void text(const struct picture *p, double x, double y, const char *style, const char *words)
{
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    report_put_text(p->out, words);
    fputs("</text>\n", p->out);
}

static void legend(struct picture *p, double left, double top)
{
    char words[REPORT_NAME + 64], clipped[REPORT_NAME];
    const struct io_labels *l = &p->v->labels;
    int64_t rows = 0, rest = 0;
    double radius = p->radius;
    snprintf(words, sizeof words, "%s", report_clip(clipped, l->name));
    text(p, left, top + 8, "font-weight=\"600\"", words);
    p->radius = 3.4;
    for (int64_t i = 0; i < l->n_levels; i++) {
        if (!p->v->cells[i])
            continue;
        if (rows == LEGEND_ROWS && ++rest)
            continue;
        double y = top + 20 + 13.4 * (double)rows++;
        begin_marks(p, i);
        mark(p, shape_of(i), left + 6, y);
        fputs("\"/>\n", p->out);
        /* Some 26 characters have room. */
        snprintf(words, sizeof words, "%s", report_clip(clipped, i < l->names.count ? l->names.at[i] : ""));
        text(p, left + 16, y + 3.6, "", words);
    }
    p->radius = radius;
    if (rest) {
        snprintf(words, sizeof words, "and %lld more", (long long)rest);
        text(p, left + 16, top + 23.6 + 13.4 * (double)rows, "fill=\"#6b6a66\"", words);
    }
}

struct layered {
    int64_t layer;
    int32_t level;
    int32_t cell;
};

static int by_layer(const void *a, const void *b)
{
    const struct layered *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

static int64_t *order_of(const struct picture *p, int64_t layer)
{
    int64_t n = p->layout->cells;
    struct layered *sorted = io_room(n, sizeof *sorted);
    int64_t *order = io_room(n, sizeof *order);
    for (int64_t i = 0; sorted && i < n; i++)
        sorted[i] = (struct layered){i / layer, p->v->labels.level[p->r->row[i]], (int32_t)i};
    if (sorted)
        qsort(sorted, (size_t)n, sizeof *sorted, by_layer);
    for (int64_t i = 0; sorted && order && i < n; i++)
        order[i] = sorted[i].cell;
    int bad = !sorted;
    free(sorted);
    if (bad) {
        free(order);
        return NULL;
    }
    return order;
}

static int row(struct picture *p, double top)
{
    int64_t layer = (p->layout->cells + LAYERS - 1) / LAYERS;
    int64_t *order = order_of(p, layer);
    if (!order)
        return -1;
    for (int b = 0; b < p->layout->n_panels; b++)
        panel(p, b, LEFT + b * (PANEL + GAP), top, order, layer);
    legend(p, LEFT + p->layout->n_panels * (PANEL + GAP), top);
    free(order);
    return 0;
}

static void headings(const struct picture *p)
{
    static const char *const moment[] = {"Before", "After"};
    char words[REPORT_NAME + 16], clipped[REPORT_NAME];
    for (int b = 0; b < p->layout->n_panels; b++) {
        double x = LEFT + b * (PANEL + GAP);
        snprintf(words, sizeof words, "%s", report_clip(clipped, p->layout->panel[b]));
        fprintf(p->out, "<text x=\"%.1f\" y=\"%d\">", x, TOP - 10);
        if (p->layout->n_panels > 1)
            fprintf(p->out, "<tspan font-size=\"14\" font-weight=\"600\">%s</tspan><tspan dx=\"7\" fill=\"#6b6a66\">", moment[b]);
        else
            fputs("<tspan font-size=\"14\" font-weight=\"600\">", p->out);
        report_put_text(p->out, words);
        fputs("</tspan></text>\n", p->out);
    }
}

static int draw(struct picture *p)
{
    const struct report *r = p->r;
    const struct report_variable *rows[2] = {&r->variable[0], NULL};
    char words[480];
    int n_rows = 1;
    if (r->options.n_batches && r->options.n_labels)
        rows[n_rows++] = &r->variable[r->options.n_batches];
    int width = LEFT + p->layout->n_panels * (PANEL + GAP) + LEGEND, height = TOP + n_rows * (PANEL + HEAD) - HEAD + FOOT;
    fprintf(p->out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#1d1d1b\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            width, height, width, height, width, height);
    headings(p);
    for (int i = 0; i < n_rows; i++) {
        p->v = rows[i];
        if (row(p, TOP + i * (PANEL + HEAD)))
            return -1;
    }
    snprintf(words, sizeof words, "%s of %lld of %lld cells. unisono %s", p->layout->title, (long long)p->layout->cells,
             (long long)r->n_cells, uni_version());
    text(p, LEFT, height - 11, "fill=\"#6b6a66\"", words);
    fputs("</svg>\n", p->out);
    return 0;
}

static const struct report_layout *layout_of(const struct report *r)
{
    for (int i = 0; i < r->n_layouts && (r->options.found_layout || !r->options.n_layouts); i++)
        if (r->layout[i].n_panels == r->options.n_bases)
            return &r->layout[i];
    return &r->layout[0];
}

char *report_svg(const struct report *r)
{
    char *svg = NULL;
    size_t size = 0;
    const struct report_layout *l = layout_of(r);
    /* Points cover some tenth of a panel. */
    struct picture p = {.out = open_memstream(&svg, &size), .r = r, .layout = l};
    if (!p.out)
        return NULL;
    p.radius = fmax(0.6, fmin(2.6, sqrt(0.12 * PANEL * PANEL / 3.14 / (double)l->cells)));
    int bad = draw(&p) | ferror(p.out);
    bad |= fclose(p.out);
    if (bad) {
        free(svg);
        return NULL;
    }
    return svg;
}
