/* SPDX-License-Identifier: BSD-3-Clause */
/* The embedding and the result in every kind of memory, in every layout: the same bytes as from and to plain memory; the same
   sentences; in the order of the caller's stream. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_caller.h"
#include "cuda_check.h"

enum { READ = 7 };
static const enum uni_array read_what[READ] = {UNI_CORRECTED, UNI_ASSIGNMENTS, UNI_BLOCKS,    UNI_GIVEN,
                                               UNI_START,     UNI_OBSERVED,    UNI_CORRECTION};

struct results {
    void *array[READ];
    int64_t bytes[READ];
};

static int64_t bytes_of(struct uni_harmony *h, enum uni_array what)
{
    int64_t shape[3];
    if (uni_shape(h, what, shape) != UNI_OK)
        return 0;
    return shape[0] * shape[1] * shape[2] * (what == UNI_OBSERVED ? 8 : 4);
}

/* offset: bytes that the result begins behind what is taken. */
static int read_results(struct results *r, struct uni_harmony *h, enum place out, int64_t offset)
{
    for (int i = 0; i < READ; i++) {
        const int64_t bytes = bytes_of(h, read_what[i]), at = read_what[i] == UNI_OBSERVED ? 2 * offset : offset;
        char *there = caller_take(out, bytes + at);
        r->bytes[i] = bytes;
        r->array[i] = malloc((size_t)bytes);
        poison(r->array[i], bytes);
        int sound = there && caller_copy_to(out, there + at, r->array[i], bytes) &&
                    uni_read(h, read_what[i], there + at) == UNI_OK && caller_copy_from(out, r->array[i], there + at, bytes);
        caller_give(out, there);
        if (!sound)
            return 0;
    }
    return 1;
}

static void free_results(struct results *r)
{
    for (int i = 0; i < READ; i++)
        free(r->array[i]);
}

static int run_on(struct results *r, const struct bench *n, const struct uni_matrix *matrix, enum place out, int64_t offset,
                  void *stream)
{
    struct uni_harmony *h = NULL;
    struct uni_options o = n->options;
    o.backend = UNI_BACKEND_CUDA;
    o.max_rounds = 2;
    o.tol = -1;
    o.stream = stream;
    memset(r, 0, sizeof *r);
    int sound =
        uni_open(&h, matrix, n->batch, n->variables, &o) == UNI_OK && uni_run(h) == UNI_OK && read_results(r, h, out, offset);
    uni_close(h);
    return sound;
}

/* How the values lie. */
struct layout {
    const char *name;
    enum uni_dtype dtype;
    int64_t pad, gap, offset; /* bytes behind a row, behind a value, before all */
    int columns, backwards;   /* first index fastest; the last row first */
};

static const struct layout layouts[] = {
    {.name = "plain"},
    {.name = "rows apart by 8 bytes", .pad = 8},
    {.name = "rows apart by 4 bytes, at 4", .pad = 4, .offset = 4},
    {.name = "from 8", .offset = 8},
    {.name = "values apart", .gap = 4},
    {.name = "columns", .columns = 1},
    {.name = "backwards", .backwards = 1},
    {.name = "at an odd byte", .offset = 3, .pad = 1},
    {.name = "float64", .dtype = UNI_FLOAT64},
    {.name = "float64, columns, at an odd byte", .dtype = UNI_FLOAT64, .columns = 1, .offset = 1},
};

struct laid {
    char *bytes;
    int64_t size;
    struct uni_matrix matrix; /* data: an offset into bytes */
};

static void lay_out(struct laid *l, const struct bench *n, const struct layout *how)
{
    const int64_t N = n->made.n, D = n->made.d, size = how->dtype == UNI_FLOAT64 ? 8 : 4, value = size + how->gap;
    int64_t row = how->columns ? value : D * value + how->pad, column = how->columns ? N * value + how->pad : value;
    l->size = how->offset + (how->columns ? D * column : N * row);
    l->bytes = calloc((size_t)l->size, 1);
    const int64_t first = how->offset + (how->backwards ? (N - 1) * row : 0);
    row = how->backwards ? -row : row;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < D; j++) {
            const float z = n->made.Z[i * D + j];
            const double wide = z;
            memcpy(l->bytes + first + i * row + j * column, size == 8 ? (const void *)&wide : &z, (size_t)size);
        }
    l->matrix = (struct uni_matrix){(const void *)(uintptr_t)first, how->dtype, N, D, row, column};
}

static const char *const places[] = {"plain memory", "the card", "pinned", "registered", "managed"};

static void compare(const struct shape *s, const struct results *good, const struct results *got, int sound, const char *words)
{
    must(s->name, words, !sound);
    for (int i = 0; i < READ && sound; i++)
        expect(s->name, words, memcmp(good->array[i], got->array[i], (size_t)good->bytes[i]) != 0, 0);
}

static void check_layout(const struct shape *s, const struct bench *n, const struct results *good, const struct layout *how,
                         enum place in, enum place out, int64_t offset)
{
    struct laid l;
    struct results got;
    char words[128];
    lay_out(&l, n, how);
    char *there = caller_take(in, l.size), *probe = caller_take(out, 64);
    snprintf(words, sizeof words, "from %s to %s, %s", places[in], places[out], how->name);
    if ((!there && in == MANAGED) || (!probe && out == MANAGED)) {
        caller_give(in, there), caller_give(out, probe);
        free(l.bytes);
        return;
    }
    static const enum uni_where wheres[] = {UNI_PAGEABLE, UNI_ON_CARD, UNI_PINNED, UNI_PINNED, UNI_MANAGED};
    int64_t device;
    int sound = there && caller_copy_to(in, there, l.bytes, l.size);
    expect(s->name, "the driver says where", sound && uni_where_is(there, l.size, &device) != wheres[in], 0);
    l.matrix.data = there + (uintptr_t)l.matrix.data;
    sound = sound && run_on(&got, n, &l.matrix, out, offset, NULL);
    compare(s, good, &got, sound, words);
    free_results(&got);
    caller_give(in, there), caller_give(out, probe);
    free(l.bytes);
}

/* A value that cannot be used: the same sentence from everywhere. */
static void check_value(const struct shape *s, struct bench *n, enum place in, float value, int64_t at)
{
    char sentence[512];
    struct uni_harmony *h = NULL;
    struct uni_options o = n->options;
    struct uni_matrix m = n->matrix;
    const int64_t bytes = n->made.n * n->made.d * 4;
    const float was = n->made.Z[at], last = n->made.Z[n->made.n * n->made.d - 1];
    o.backend = UNI_BACKEND_CUDA;
    n->made.Z[at] = n->made.Z[n->made.n * n->made.d - 1] = value;
    expect(s->name, "a bad value is refused", uni_open(&h, &n->matrix, n->batch, n->variables, &o) != UNI_INPUT, 0);
    snprintf(sentence, sizeof sentence, "%s", uni_last_error());
    void *there = caller_take(in, bytes);
    if (there) {
        must(s->name, "copy", !caller_copy_to(in, there, n->made.Z, bytes));
        m.data = there;
        int status = uni_open(&h, &m, n->batch, n->variables, &o), differs = strcmp(sentence, uni_last_error()) != 0;
        expect(s->name, "a bad value is refused in the same words", status != UNI_INPUT || differs, 0);
        if (differs)
            printf("     %s: \"%s\", not \"%s\"\n", places[in], uni_last_error(), sentence);
    }
    caller_give(in, there);
    n->made.Z[at] = was;
    n->made.Z[n->made.n * n->made.d - 1] = last;
}

static void refused(const struct shape *s, const struct bench *n, const struct uni_matrix *m, enum uni_backend_kind kind,
                    const char *words)
{
    struct uni_harmony *h = NULL;
    struct uni_options o = n->options;
    o.backend = kind;
    int status = uni_open(&h, m, n->batch, n->variables, &o);
    expect(s->name, words, status != UNI_INPUT || !strstr(uni_last_error(), words), 0);
    uni_close(h);
}

/* In a thread that has never used the card. */
struct fresh {
    const struct shape *s;
    const struct bench *n;
    const struct uni_matrix *m;
};

static void *run_fresh(void *context)
{
    const struct fresh *f = context;
    refused(f->s, f->n, f->m, UNI_BACKEND_CPU, "which the processors cannot read");
    struct results got;
    must(f->s->name, "in a thread of its own", !run_on(&got, f->n, f->m, PAGEABLE, 0, NULL));
    free_results(&got);
    return NULL;
}

/* What cannot be done ends with a sentence. */
static void check_refusals(const struct shape *s, struct bench *n)
{
    struct uni_harmony *h = NULL;
    struct uni_options o = n->options;
    struct uni_matrix m = n->matrix;
    struct uni_batch batch[3];
    const int64_t bytes = n->made.n * n->made.d * 4;
    void *there = caller_take(ON_CARD, bytes);
    must(s->name, "copy", !there || !caller_copy_to(ON_CARD, there, n->made.Z, bytes));
    m.data = there;
    pthread_t thread;
    struct fresh fresh = {s, n, &m};
    must(s->name, "a thread", pthread_create(&thread, NULL, run_fresh, &fresh) || pthread_join(thread, NULL));
    m.row_stride = (int64_t)1 << 44;
    refused(s, n, &m, UNI_BACKEND_CUDA, "does not end there");
    m.row_stride = -m.row_stride;
    refused(s, n, &m, UNI_BACKEND_CUDA, "does not end there");
    m.row_stride = INT64_MAX;
    refused(s, n, &m, UNI_BACKEND_CUDA, "does not end there");
    m.row_stride = n->matrix.row_stride;
    memcpy(batch, n->batch, sizeof batch);
    batch[0].level = there;
    expect(s->name, "levels on the card", uni_open(&h, &n->matrix, batch, n->variables, &o) != UNI_INPUT, 0);
    o.backend = UNI_BACKEND_CPU;
    o.max_rounds = 1;
    must(s->name, "on the CPU", uni_open(&h, &n->matrix, n->batch, n->variables, &o) || uni_run(h));
    expect(s->name, "the CPU's result to the card",
           uni_read(h, UNI_CORRECTED, there) != UNI_INPUT || !strstr(uni_last_error(), "backend cpu cannot write"), 0);
    uni_close(h);
    o.backend = UNI_BACKEND_AUTO;
    must(s->name, "auto is the card", uni_open(&h, &m, n->batch, n->variables, &o));
    expect(s->name, "auto is the card", !h || strncmp(uni_summary(h)->backend, "cuda", 4) != 0, 0);
    uni_close(h);
    caller_give(ON_CARD, there);
}

/* The embedding is on its way when uni_open is called; other work is still to write where the result goes when uni_read is. */
static void check_stream(const struct shape *s, const struct bench *n, const struct results *good)
{
    enum { SCRATCH = 64 << 20 };
    const int64_t bytes = n->made.n * n->made.d * 4;
    struct uni_harmony *h = NULL;
    struct uni_options o = n->options;
    struct uni_matrix m = n->matrix;
    char *there = caller_take(ON_CARD, bytes), *scratch = caller_take(ON_CARD, SCRATCH), *pinned = caller_take(PINNED, bytes);
    float *got = malloc((size_t)bytes);
    void *stream = caller_stream();
    poison(got, bytes);
    int sound = there && scratch && pinned && stream && caller_copy_to(ON_CARD, there, got, bytes) &&
                caller_copy_to(PINNED, pinned, n->made.Z, bytes);
    o.backend = UNI_BACKEND_CUDA;
    o.max_rounds = 2;
    o.tol = -1;
    o.stream = stream;
    m.data = there;
    sound = sound && caller_copy_later(there, pinned, bytes, stream, scratch, SCRATCH);
    must(s->name, "a stream", !sound || uni_open(&h, &m, n->batch, n->variables, &o) || uni_run(h));
    float *start = malloc((size_t)good->bytes[4]);
    sound = sound && h && uni_read(h, UNI_START, start) == UNI_OK;
    expect(s->name, "a sample in the order of a stream", !sound || memcmp(start, good->array[4], (size_t)good->bytes[4]) != 0, 0);
    free(start);
    poison(got, bytes);
    sound =
        sound && caller_copy_to(PINNED, pinned, got, bytes) && caller_copy_later(there, pinned, bytes, stream, scratch, SCRATCH);
    must(s->name, "a stream, out", !sound || uni_read(h, UNI_CORRECTED, there));
    sound = sound && caller_await(stream) && caller_copy_from(ON_CARD, got, there, bytes);
    expect(s->name, "in the order of a stream", !sound || memcmp(got, good->array[0], (size_t)bytes) != 0, 0);
    uni_close(h);
    caller_end_stream(stream);
    caller_give(ON_CARD, there), caller_give(ON_CARD, scratch), caller_give(PINNED, pinned);
    free(got);
}

void check_places(const struct shape *s)
{
    struct bench n;
    struct results good;
    bench_open(&n, s);
    int sound = run_on(&good, &n, &n.matrix, PAGEABLE, 0, NULL);
    must(s->name, "plain memory", !sound);
    for (enum place in = PAGEABLE; in <= MANAGED && sound; in++)
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
            check_layout(s, &n, &good, &layouts[i], in, in == PAGEABLE ? ON_CARD : in, 0);
    for (enum place out = PAGEABLE; out <= MANAGED && sound; out++)
        for (int64_t offset = 0; offset <= 8; offset += 4)
            check_layout(s, &n, &good, &layouts[0], ON_CARD, out, offset);
    for (enum place in = ON_CARD; in <= MANAGED && sound; in++) {
        check_value(s, &n, in, NAN, n.made.d + 1 < n.made.n * n.made.d ? n.made.d + 1 : 1);
        check_value(s, &n, in, -HUGE_VALF, 0);
        check_value(s, &n, in, 1.5e35f, n.made.n / 2 * n.made.d);
    }
    if (sound) {
        check_refusals(s, &n);
        check_stream(s, &n, &good);
    }
    free_results(&good);
    bench_close(&n);
}
