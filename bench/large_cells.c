/* SPDX-License-Identifier: BSD-3-Clause */
/* What 32-bit counts and float32 sums would break: more than 2^24 cells in one batch, more than 2^31 assignments in one run.
 *
 *     large_cells [SHARE]     of the full number of cells (1: 20 and 30 million, 9 GB of memory); prints a line per check
 *
 * The reference is written plainly here, in float64.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unisono.h"

enum { MAX_DIMS = 4, MAX_LEVELS = 3, MAX_K = 100, TYPES = 40, SAMPLED = 100000 };

static int passed, failed;

static void check(const char *what, double value, double limit)
{
    int good = value <= limit; /* NaN is not */
    printf("%-6s %s: %.3g (at most %.3g)\n", good ? "ok" : "FAILED", what, value, limit);
    fflush(stdout);
    passed += good;
    failed += !good;
}

/* ---- cells ---------------------------------------------------------------------------------------------------------------- */

static double uniform(uint64_t i, uint64_t stream)
{
    uint64_t x = (i * 64 + stream) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) * 0x1p-53;
}

/* Variance 1, nearly normal. */
static double noise(uint64_t i, uint64_t stream)
{
    return 2 * (uniform(i, stream) + uniform(i, stream + 1) + uniform(i, stream + 2) - 1.5);
}

struct cells {
    int64_t n, d, n_levels;
    float *Z;
    int32_t *level;
};

static void *get(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p) {
        fprintf(stderr, "large_cells: no memory for %zu bytes\n", count * size);
        exit(2);
    }
    return p;
}

/* Types around an offset that is not zero, which a sum in float32 would lose; level l has the share share[l] and a shift. */
static void make(struct cells *c, int64_t n, int64_t d, int64_t n_levels, const double *share)
{
    *c = (struct cells){n, d, n_levels, get((size_t)(n * d), sizeof(float)), get((size_t)n, sizeof(int32_t))};
    for (int64_t i = 0; i < n; i++) {
        double u = uniform((uint64_t)i, 0);
        int32_t l = 0;
        for (; l + 1 < n_levels && u >= share[l]; l++)
            u -= share[l];
        uint64_t type = (uint64_t)(uniform((uint64_t)i, 1) * (l ? 1 : 0.9) * TYPES);
        c->level[i] = l;
        for (int64_t j = 0; j < d; j++) {
            uint64_t stream = 2 + 3 * (uint64_t)j;
            double shift = l ? 0.4 * noise((uint64_t)l + 1000000, stream) : 0;
            c->Z[i * d + j] = (float)(0.5 + 3 * noise(type + 2000000, stream) + shift + 0.3 * noise((uint64_t)i, stream));
        }
    }
}

/* ---- runs ----------------------------------------------------------------------------------------------------------------- */

struct tables {
    double O[MAX_LEVELS * MAX_K], objective; /* objective of the first round's last sweep */
    float W[MAX_LEVELS * MAX_K * MAX_DIMS], Y[MAX_K * MAX_DIMS];
};

static int ok(int status)
{
    if (status == UNI_OK)
        return 1;
    fprintf(stderr, "large_cells: %s\n", uni_last_error());
    exit(1);
}

/* A run over the cells from .. from + n; out: (n, d). */
static void run(struct tables *t, float *out, const struct cells *c, int64_t from, int64_t n, const struct uni_options *options)
{
    struct uni_matrix m = {c->Z + from * c->d, UNI_FLOAT32, n, c->d, 0, 0};
    struct uni_batch batch = {.name = "batch", .n_cells = n, .n_levels = c->n_levels, .level = c->level + from};
    struct uni_harmony *h = NULL;
    memset(t, 0, sizeof *t);
    ok(uni_open(&h, &m, &batch, 1, options));
    ok(uni_run(h));
    ok(uni_read(h, UNI_CORRECTED, out));
    ok(uni_read(h, UNI_OBSERVED, t->O));
    ok(uni_read(h, UNI_CORRECTION, t->W));
    ok(uni_read(h, UNI_START, t->Y));
    const struct uni_summary *s = uni_summary(h);
    t->objective = s->rounds[0].objective;
    printf("       %lld cells x %lld dims, %lld clusters, %lld rounds: %.1f s, %.2f GB, %s\n", (long long)s->n_cells,
           (long long)s->n_dims, (long long)s->n_clusters, (long long)s->n_rounds,
           s->seconds_open + s->seconds_run + s->seconds_read, (double)s->bytes * 1e-9, s->backend);
    fflush(stdout);
    uni_close(h);
}

static struct uni_options defaults(void)
{
    struct uni_options o;
    uni_options_init(&o, sizeof o);
    o.backend = UNI_BACKEND_CPU;
    return o;
}

/* ---- more than 2^24 cells in one level, K = 1 ------------------------------------------------------------------------------ */

static void one_cluster(int64_t n)
{
    struct cells c;
    struct tables t;
    struct uni_options o = defaults();
    make(&c, n, 2, 2, (double[]){0.875, 0.125});
    float *out = get((size_t)(n * 2), sizeof *out);
    double sum[2][2] = {{0}}, cells[2] = {0}, worst = 0, worst_cell = 0;
    for (int64_t i = 0; i < n; i++) {
        cells[c.level[i]]++;
        for (int j = 0; j < 2; j++)
            sum[c.level[i]][j] += (double)c.Z[i * 2 + j];
    }
    printf("one cluster: levels of %.0f and %.0f cells; 2^24 = 16777216\n", cells[0], cells[1]);
    o.n_clusters = 1;
    o.max_rounds = 1;
    run(&t, out, &c, 0, n, &o);
    double shift[2][2], largest = 0; /* (m_level - m_all) / (1 + alpha) */
    for (int l = 0; l < 2; l++)
        for (int j = 0; j < 2; j++) {
            shift[l][j] = (sum[l][j] / cells[l] - (sum[0][j] + sum[1][j]) / (double)n) / (1 + o.alpha);
            largest = fmax(largest, fabs(shift[l][j]));
        }
    for (int l = 0; l < 2; l++) {
        double off = 0;
        for (int j = 0; j < 2; j++)
            off = fmax(off, fabs((double)t.W[l * 2 + j] - shift[l][j]) / fmax(fabs(shift[l][0]), fabs(shift[l][1])));
        worst = fmax(worst, off);
    }
    check("shifts of both levels, relative", worst, 1e-5);
    check("masses of both levels, relative", fmax(fabs(t.O[0] / cells[0] - 1), fabs(t.O[1] / cells[1] - 1)), 5e-7);
    for (int64_t i = 0; i < n * 2; i++)
        worst_cell = fmax(worst_cell, fabs((double)out[i] - ((double)c.Z[i] - shift[c.level[i / 2]][i % 2])));
    check("every corrected cell, over the largest shift", worst_cell / largest, 1e-5);
    free(out), free(c.Z), free(c.level);
}

/* ---- more than 2^31 assignments in one run --------------------------------------------------------------------------------- */

static double norm(const float *z, int64_t d)
{
    double square = 0;
    for (int64_t j = 0; j < d; j++)
        square += (double)z[j] * (double)z[j];
    return sqrt(square);
}

/* Softmax over the clusters of -dist / sigma, theta being 0; returns -sigma ln of its sum: the cell's part of the objective. */
static double assign(double *r, const float *z, const double *Yt, int64_t d, int64_t K, double sigma)
{
    double scale = 2 / (sigma * norm(z, d)), total = 0;
    for (int64_t k = 0; k < K; k++)
        r[k] = -2 / sigma;
    for (int64_t j = 0; j < d; j++)
        for (int64_t k = 0; k < K; k++)
            r[k] += scale * (double)z[j] * Yt[j * K + k];
    for (int64_t k = 0; k < K; k++) { /* at sigma 0.1 the exponents lie above -40: no shift is needed */
        r[k] = exp(r[k]);
        total += r[k];
    }
    for (int64_t k = 0; k < K; k++)
        r[k] /= total;
    return -sigma * log(total);
}

struct plain {
    double O[MAX_LEVELS * MAX_K], S[MAX_LEVELS * MAX_DIMS * MAX_K], W[MAX_LEVELS * MAX_DIMS * MAX_K], objective;
};

/* One round at theta 0 in float64, and its correction with automatic lambda. S and W: (levels, dims, clusters). */
static void plain_round(struct plain *p, const struct cells *c, const double *Yt, int64_t K, const struct uni_options *o)
{
    double r[MAX_K];
    int64_t d = c->d, B = c->n_levels;
    memset(p, 0, sizeof *p);
    for (int64_t i = 0; i < c->n; i++) {
        const float *z = c->Z + i * d;
        double *O = p->O + c->level[i] * K, *S = p->S + c->level[i] * d * K;
        p->objective += assign(r, z, Yt, d, K, o->sigma) * 2000 / (double)c->n;
        for (int64_t k = 0; k < K; k++)
            O[k] += r[k];
        for (int64_t j = 0; j < d; j++)
            for (int64_t k = 0; k < K; k++)
                S[j * K + k] += r[k] * (double)z[j];
    }
    double cells[MAX_LEVELS] = {0};
    for (int64_t i = 0; i < c->n; i++)
        cells[c->level[i]]++;
    for (int64_t k = 0; k < K; k++) {
        double total = 0, q[MAX_LEVELS], lambda[MAX_LEVELS], weight = 0;
        for (int64_t l = 0; l < B; l++)
            total += p->O[l * K + k];
        for (int64_t l = 0; l < B; l++) {
            lambda[l] = o->alpha * total * cells[l] / (double)c->n;
            q[l] = lambda[l] / (p->O[l * K + k] + lambda[l]);
            weight += q[l] * p->O[l * K + k];
        }
        for (int64_t j = 0; j < d; j++) {
            double centre = 0;
            for (int64_t l = 0; l < B; l++)
                centre += q[l] * p->S[(l * d + j) * K + k] / weight;
            for (int64_t l = 0; l < B; l++)
                p->W[(l * d + j) * K + k] =
                    (p->S[(l * d + j) * K + k] - p->O[l * K + k] * centre) / (p->O[l * K + k] + lambda[l]);
        }
    }
}

/* Largest difference of a level's mass from its cells, over the cells. */
static double masses(const struct cells *c, const double *O, int64_t K)
{
    double worst = 0;
    int64_t *cells = get((size_t)c->n_levels, sizeof *cells);
    for (int64_t i = 0; i < c->n; i++)
        cells[c->level[i]]++;
    for (int64_t l = 0; l < c->n_levels; l++) {
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += O[l * K + k];
        worst = fmax(worst, fabs(sum / (double)cells[l] - 1));
    }
    free(cells);
    return worst;
}

/* Sum of |a - b - b2| over the sum of a. b2 may be NULL. */
static double apart(const double *a, const double *b, const double *b2, int64_t count)
{
    double off = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        off += fabs(a[i] - b[i] - (b2 ? b2[i] : 0));
        sum += fabs(a[i]);
    }
    return off / sum;
}

/* rms of (corrected - reference) over rms of (corrected - cell), for the first n cells of both. */
static double corrections_apart(const float *a, const float *b, const float *Z, int64_t count)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += ((double)a[i] - (double)Z[i]) * ((double)a[i] - (double)Z[i]);
    }
    return sqrt(off / size);
}

/* The cells at even distances, the last among them, against the float64 correction. */
static double sampled_apart(const float *out, const struct cells *c, const struct plain *p, const double *Yt, int64_t K,
                            double sigma)
{
    double r[MAX_K], off = 0, size = 0;
    int64_t d = c->d, count = c->n < SAMPLED ? c->n : SAMPLED;
    for (int64_t s = 0; s < count; s++) {
        int64_t i = c->n - 1 - s * ((c->n - 1) / count);
        (void)assign(r, c->Z + i * d, Yt, d, K, sigma);
        for (int64_t j = 0; j < d; j++) {
            double w = 0;
            for (int64_t k = 0; k < K; k++)
                w += r[k] * p->W[(c->level[i] * d + j) * K + k];
            double e = (double)c->Z[i * d + j] - (double)out[i * d + j] - w;
            off += e * e;
            size += w * w;
        }
    }
    return sqrt(off / size);
}

static void many_assignments(int64_t n)
{
    enum { D = 4, B = 3, K = 100 };
    static struct tables all, first, second;
    static struct plain plain;
    static double Yt[D * K];
    struct cells c;
    make(&c, n, D, B, (double[]){0.6, 0.3, 0.1});
    int64_t half = n / 2;
    float *out = get((size_t)(n * D), sizeof *out), *part = get((size_t)((n - half) * D), sizeof *part), Y[K * D];
    for (int64_t k = 0; k < K; k++)
        memcpy(Y + k * D, c.Z + k * (n / K) * D, sizeof(float) * D);
    struct uni_options o = defaults();
    o.centroids = Y, o.n_centroids = K;
    o.theta = (struct uni_values){1, {0}};
    o.max_rounds = 1;
    o.cutoff = 0;
    printf("%lld cells x %d clusters = %.3g assignments; 2^31 = 2.15e9\n", (long long)n, K, (double)n * K);

    run(&all, out, &c, 0, n, &o);
    for (int64_t k = 0; k < K; k++)
        for (int64_t j = 0; j < D; j++)
            Yt[j * K + k] = (double)all.Y[k * D + j];
    plain_round(&plain, &c, Yt, K, &o);
    double off = 0, size = 0;
    for (int64_t l = 0; l < B; l++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t j = 0; j < D; j++) {
                double w = plain.W[(l * D + j) * K + k], e = (double)all.W[(l * K + k) * D + j] - w;
                off += plain.O[l * K + k] * e * e, size += plain.O[l * K + k] * w * w;
            }
    check("theta 0: a level's mass against its cells, relative", masses(&c, all.O, K), 1e-6);
    check("theta 0: O against float64", apart(all.O, plain.O, NULL, B * K), 1e-5);
    check("theta 0: objective against float64, relative", fabs(all.objective / plain.objective - 1), 1e-5);
    check("theta 0: correction tables against float64, rms", sqrt(off / size), 1e-4);
    check("theta 0: corrected cells against float64, rms", sampled_apart(out, &c, &plain, Yt, K, o.sigma), 1e-3);
    run(&first, part, &c, 0, half, &o);
    run(&second, part, &c, half, n - half, &o);
    check("theta 0: O against the sum over two halves", apart(all.O, first.O, second.O, B * K), 1e-6);

    /* With theta 2 a half's cells have penalties of their own: equal but for the draw of the cells. */
    double draw = 1 / sqrt((double)half / K);
    o.theta = (struct uni_values){1, {2}};
    o.max_rounds = 2;
    run(&all, out, &c, 0, n, &o);
    check("theta 2: a level's mass against its cells, relative", masses(&c, all.O, K), 1e-6);
    run(&first, part, &c, 0, half, &o);
    check("theta 2: corrected cells against a run of the first half", corrections_apart(out, part, c.Z, half * D), 3 * draw);
    run(&second, part, &c, half, n - half, &o);
    check("theta 2: O against the sum over two halves", apart(all.O, first.O, second.O, B * K), 0.1 * draw);
    check("theta 2: corrected cells against a run of the second half",
          corrections_apart(out + half * D, part, c.Z + half * D, (n - half) * D), 3 * draw);
    free(out), free(part), free(c.Z), free(c.level);
}

int main(int argc, char **argv)
{
    double share = argc > 1 ? atof(argv[1]) : 1;
    if (!(share > 0 && share <= 2)) {
        fprintf(stderr, "usage: large_cells [SHARE]\n");
        return 2;
    }
    one_cluster((int64_t)(share * 20e6));
    many_assignments((int64_t)(share * 30e6));
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
