/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of many cells for bench/card_files.py, made by all CPUs: the cells of tests/cuda/cuda_made.h.
 *
 *     card_cells FOLDER CELLS DIMS LEVELS [SKEW=2]
 *
 * Writes x.npy (float32, cells x dims), meta.tsv (one column, batch, a line a cell) and type.npy (uint8, the type of each cell).
 * The first level has 1 + SKEW times the cells of the last.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../tests/cuda/cuda_made.h"

enum { TYPES = 40, PART = 1 << 16, NAME = 7, HEADER = 128, MAX_THREADS = 64 }; /* NAME: bytes of a line of meta.tsv */

struct files {
    int64_t n, d, levels;
    double skew;
    int x, meta, type;
    const float *centre, *shift; /* (TYPES, d), (levels, d) */
    int64_t next;                /* part that nobody has taken */
};

static int failed(const char *what)
{
    fprintf(stderr, "card_cells: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void write_at(int fd, const void *bytes, size_t count, int64_t at)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t done = pwrite(fd, from, count, at);
        if (done <= 0 && errno != EINTR)
            failed("cannot write");
        if (done > 0)
            from += done, at += done, count -= (size_t)done;
    }
}

/* As made_rows: the same numbers, with its centres and shifts from tables. */
static void make_cell(const struct files *f, int64_t i, float *row, char *line, unsigned char *type)
{
    double u = (double)(made_hash((uint64_t)i * 3 + 1) >> 11) / 9007199254740992.0;
    *type = (unsigned char)(made_hash((uint64_t)i * 3 + 2) % TYPES);
    u = f->skew > 0 ? u * (1 + f->skew * u) / (1 + f->skew) : u;
    int64_t level = i < f->levels ? i : (int64_t)(u * (double)f->levels) % f->levels;
    const float *centre = f->centre + *type * f->d, *shift = f->shift + level * f->d;
    for (int64_t j = 0; j < f->d; j++)
        row[j] = centre[j] + shift[j] + made_noise((uint64_t)(i * f->d + j) * 2 + 77000000017u);
    line[0] = 's';
    for (int k = NAME - 2; k > 0; k--, level /= 10)
        line[k] = (char)('0' + level % 10);
    line[NAME - 1] = '\n';
}

static void *make_parts(void *context)
{
    struct files *f = context;
    float *rows = malloc((size_t)(PART * f->d) * sizeof *rows);
    char *lines = malloc((size_t)PART * NAME);
    unsigned char *types = malloc(PART);
    if (!rows || !lines || !types)
        failed("no memory");
    for (;;) {
        int64_t from = __atomic_fetch_add(&f->next, PART, __ATOMIC_RELAXED), count = f->n - from < PART ? f->n - from : PART;
        if (count <= 0)
            break;
        for (int64_t i = 0; i < count; i++)
            make_cell(f, from + i, rows + i * f->d, lines + i * NAME, types + i);
        write_at(f->x, rows, (size_t)(count * f->d) * sizeof *rows, HEADER + from * f->d * 4);
        write_at(f->meta, lines, (size_t)(count * NAME), 6 + from * NAME);
        write_at(f->type, types, (size_t)count, HEADER + from);
    }
    free(rows), free(lines), free(types);
    return NULL;
}

static const float *table(int64_t rows, int64_t d, float scale, uint64_t from)
{
    float *t = malloc((size_t)(rows * d) * sizeof *t);
    if (!t)
        failed("no memory");
    for (int64_t i = 0; i < rows * d; i++)
        t[i] = scale * made_noise((uint64_t)i + from);
    return t;
}

static int create(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return fd >= 0 ? fd : failed(path);
}

static void write_header(int fd, const char *type, const char *shape)
{
    char header[HEADER + 2];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\0\x76\0", 10); /* 0x76: the HEADER - 10 bytes that follow */
    int length = snprintf(header + 10, HEADER - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    header[10 + length] = ' ';
    header[HEADER - 1] = '\n';
    write_at(fd, header, HEADER, 0);
}

static void make_all(struct files *f)
{
    pthread_t thread[MAX_THREADS];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), n = cpus < 1 ? 1 : cpus < MAX_THREADS ? cpus : MAX_THREADS;
    for (long t = 0; t < n; t++)
        if (pthread_create(&thread[t], NULL, make_parts, f))
            failed("no thread");
    for (long t = 0; t < n; t++)
        pthread_join(thread[t], NULL);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: card_cells FOLDER CELLS DIMS LEVELS [SKEW=2]\n");
        return 2;
    }
    struct files f = {.n = atoll(argv[2]), .d = atoll(argv[3]), .levels = atoll(argv[4]), .skew = argc > 5 ? atof(argv[5]) : 2};
    char shape[64];
    f.centre = table(TYPES, f.d, 2.5f, 1000000007u);
    f.shift = table(f.levels, f.d, 0.7f, 5000000029u);
    f.x = create(argv[1], "x.npy"), f.meta = create(argv[1], "meta.tsv"), f.type = create(argv[1], "type.npy");
    snprintf(shape, sizeof shape, "%lld, %lld", (long long)f.n, (long long)f.d);
    write_header(f.x, "<f4", shape);
    snprintf(shape, sizeof shape, "%lld,", (long long)f.n);
    write_header(f.type, "|u1", shape);
    write_at(f.meta, "batch\n", 6, 0);
    make_all(&f);
    if (close(f.x) || close(f.meta) || close(f.type))
        failed("cannot close");
    free((void *)f.centre), free((void *)f.shift);
    return 0;
}
