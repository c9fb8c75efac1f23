/* SPDX-License-Identifier: BSD-3-Clause */
/* The page: report_page.html, with its style and script, is in the program; one block of JSON is put in. Names come from
 * strangers' files, so no text is put anywhere else but the title, and the script makes no HTML of any.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "report.h"

extern const unsigned char report_page_html[]; /* made by the build; ends with a 0 */

/* ---- data ---------------------------------------------------------------------------------------------------------------------
 */

/* Long arrays are written close: a page has some hundred thousand numbers. */
static void reals(struct json *j, const char *key, const float *values, int64_t n, int64_t apart)
{
    json_open(j, key, '[');
    for (int64_t i = 0; i < n; i++) {
        const char *comma = i ? "," : "";
        if (isfinite(values[i * apart]))
            fprintf(j->out, "%s%.4g", comma, (double)values[i * apart]);
        else
            fprintf(j->out, "%snull", comma);
    }
    json_close(j, ']');
}

static void wholes(struct json *j, const char *key, const int64_t *values, int64_t n, int64_t more)
{
    json_open(j, key, '[');
    for (int64_t i = 0; i < n; i++)
        fprintf(j->out, i ? ",%lld" : "%lld", (long long)(values[i] + more));
    json_close(j, ']');
}

static void clipped_text(struct json *j, const char *key, const char *text)
{
    char clipped[REPORT_NAME];
    json_text(j, key, text ? report_clip(clipped, text) : NULL);
}

/* Levels that the sample has, in the file's order: of 100,000 levels no more come than there are cells. level: of the sampled
   cells, numbers among those. */
static int levels(struct json *j, const struct report *r, const struct report_variable *v)
{
    int64_t n = v->labels.n_levels, shown = 0;
    int64_t *number = io_room(n + 1, sizeof *number), *level = io_room(r->S, sizeof *level);
    int64_t *cells = io_room(n + 1, sizeof *cells);
    if (number && level && cells) {
        for (int64_t l = 0; l < n; l++)
            number[l] = -1;
        for (int64_t i = 0; i < r->S; i++)
            if (v->labels.level[r->row[i]] >= 0)
                number[v->labels.level[r->row[i]]] = 0;
        json_open(j, "names", '[');
        for (int64_t l = 0; l < n; l++) {
            if (number[l] < 0)
                continue;
            cells[shown] = v->cells[l];
            number[l] = shown++;
            clipped_text(j, NULL, l < v->labels.names.count ? v->labels.names.at[l] : "");
        }
        json_close(j, ']');
        wholes(j, "cells", cells, shown, 0);
        for (int64_t i = 0; i < r->S; i++)
            level[i] = v->labels.level[r->row[i]] < 0 ? -1 : number[v->labels.level[r->row[i]]];
        wholes(j, "level", level, r->S, 0);
    }
    int bad = !number || !level || !cells;
    free(number);
    free(level);
    free(cells);
    return bad;
}

static int variables(struct json *j, const struct report *r)
{
    int bad = 0;
    json_open(j, "variables", '[');
    for (int i = 0; i < r->n_variables && !bad; i++) {
        const struct report_variable *v = &r->variable[i];
        json_open(j, NULL, '{');
        clipped_text(j, "name", v->labels.name);
        json_bool(j, "batch", v->is_batch);
        json_whole(j, "levels", v->labels.n_levels);
        json_whole(j, "missing", v->labels.n_missing);
        bad = levels(j, r, v);
        json_open(j, "lisi", '[');
        for (int b = 0; b < r->options.n_bases; b++) {
            json_open(j, NULL, '{');
            json_real(j, "mean", v->mean[b]);
            json_real(j, "error", v->error[b]);
            reals(j, "values", v->score[b], r->S, 1);
            json_close(j, '}');
        }
        json_close(j, ']');
        json_close(j, '}');
    }
    json_close(j, ']');
    return bad;
}

static void layouts(struct json *j, const struct report *r)
{
    json_open(j, "layouts", '[');
    for (int i = 0; i < r->n_layouts; i++) {
        const struct report_layout *l = &r->layout[i];
        json_open(j, NULL, '{');
        clipped_text(j, "title", l->title);
        json_text(j, "note", l->note);
        json_whole(j, "cells", l->cells);
        json_bool(j, "same_axes", l->same_axes);
        json_text(j, "moment", l->moment);
        json_open(j, "panels", '[');
        for (int p = 0; p < l->n_panels; p++) {
            json_open(j, NULL, '{');
            clipped_text(j, "of", l->panel[p]);
            reals(j, "x", l->xy[p], l->cells, 2);
            reals(j, "y", l->xy[p] + 1, l->cells, 2);
            json_close(j, '}');
        }
        json_close(j, ']');
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void cells(struct json *j, const struct report *r)
{
    wholes(j, "row", r->row, r->S, 1);
    if (r->name) {
        json_open(j, "cell", '[');
        for (int64_t i = 0; i < r->S; i++)
            json_text(j, NULL, r->name[i]);
        json_close(j, ']');
    }
    if (r->moved)
        reals(j, "moved", r->moved, r->S, 1);
}

static void bases(struct json *j, const struct report *r)
{
    json_open(j, "bases", '[');
    for (int b = 0; b < r->options.n_bases; b++) {
        json_open(j, NULL, '{');
        clipped_text(j, "key", r->options.basis[b]);
        json_whole(j, "dims", r->n_dims[b]);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_open(j, "palette", '[');
    for (int i = 0; i < REPORT_COLOURS; i++)
        json_text(j, NULL, report_colour[i]);
    json_close(j, ']');
    json_whole(j, "same_shape", REPORT_SAME_SHAPE);
}

/* What is longer is a table that nobody reads on a page. */
enum { ENTRY_MOST = 100000 };

static void run(struct json *j, const struct report *r)
{
    json_open(j, "run", '{');
    for (int64_t i = 0; i < r->run.names.count; i++)
        if (strnlen(r->run.texts.at[i], ENTRY_MOST) < ENTRY_MOST)
            json_text(j, r->run.names.at[i], r->run.texts.at[i]);
    json_close(j, '}');
    json_text(j, "trace", r->trace);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int data(struct json *j, const struct report *r)
{
    const struct report_options *o = &r->options;
    json_open(j, NULL, '{');
    clipped_text(j, "title", o->title ? o->title : base_name(o->input));
    clipped_text(j, "file", base_name(o->input));
    json_text(j, "version", uni_version());
    json_whole(j, "cells", r->n_cells);
    json_whole(j, "sampled", r->S);
    json_whole(j, "seed", o->seed);
    json_real(j, "perplexity", o->perplexity);
    bases(j, r);
    int bad = variables(j, r);
    bad |= report_diagnosis(j, r);
    layouts(j, r);
    cells(j, r);
    run(j, r);
    json_close(j, '}');
    return bad;
}

/* ---- into the page ------------------------------------------------------------------------------------------------------------
 */

/* JSON within <script>: what could end or begin an element, and what JavaScript once took for the end of a line. Outside of texts
   JSON has none of them. */
static void put_json(FILE *out, const char *json)
{
    for (const char *s = json; *s; s++) {
        if (*s == '<' || *s == '>' || *s == '&')
            fprintf(out, "\\u%04x", *s);
        else if (!strncmp(s, "\xe2\x80\xa8", 3) || !strncmp(s, "\xe2\x80\xa9", 3)) {
            fprintf(out, "\\u20%02x", (unsigned)(unsigned char)s[2] - 0x80);
            s += 2;
        } else
            fputc(*s, out);
    }
}

/* Text of HTML and of XML, which has no control characters; bytes that are no UTF-8 become U+FFFD. */
void report_put_text(FILE *out, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = json_utf8(s);
        if (!n || *s < 0x20 || *s == 0x7f)
            fputs("\xef\xbf\xbd", out), n = 1;
        else if (strchr("<>&\"'", *s))
            fprintf(out, "&#%d;", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n;
    }
}

/* Copies the page up to mark, which is left out; returns what follows it. */
static const char *put_until(FILE *out, const char *page, const char *mark)
{
    const char *end = strstr(page, mark);
    fwrite(page, 1, (size_t)(end - page), out);
    return end + strlen(mark);
}

static void put_page(FILE *out, const struct report *r, const char *json)
{
    const struct report_options *o = &r->options;
    char clipped[REPORT_NAME];
    const char *rest = put_until(out, (const char *)report_page_html, "@TITLE@");
    report_put_text(out, report_clip(clipped, o->title ? o->title : base_name(o->input)));
    rest = put_until(out, rest, "@DATA@");
    put_json(out, json);
    fputs(rest, out);
}

char *report_page(const struct report *r)
{
    char *json = NULL, *page = NULL;
    size_t json_size = 0, page_size = 0;
    struct json j = {.out = open_memstream(&json, &json_size)};
    if (!j.out)
        return NULL;
    int bad = data(&j, r) | ferror(j.out);
    bad |= fclose(j.out);
    FILE *out = bad ? NULL : open_memstream(&page, &page_size);
    if (out) {
        put_page(out, r, json);
        bad = ferror(out);
        bad |= fclose(out);
    }
    free(json);
    if (!out || bad) {
        free(page);
        return NULL;
    }
    return page;
}
