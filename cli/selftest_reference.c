/* SPDX-License-Identifier: BSD-3-Clause */
/* The method in float64, cell by cell, with nothing rearranged for speed: harmony2.md sections 3 and 5. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_bits.h"
#include "selftest.h"

static const double SIGMA = 0.1, THETA = 2, ALPHA = 0.2, CUTOFF = 1e-5;
enum { SWEEPS = 4 };

/* ---- the data ----------------------------------------------------------------------------------------------------------------
 */

static double uniform(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* Types in all levels, a shift per level, one level of a few cells, one cell of zeros. */
static void make_cells(struct selftest_case *c)
{
    enum { TYPES = 7 };
    uint64_t state = 20260311;
    double *type = c->work, *shift = type + TYPES * c->d;
    for (int64_t i = 0; i < (TYPES + c->n_levels) * c->d; i++)
        type[i] = (i < TYPES * c->d ? 2 : 1) * (uniform(&state) - 0.5);
    for (int64_t i = 0; i < c->n; i++) {
        int64_t t = (int64_t)(uniform(&state) * TYPES);
        double which = uniform(&state);
        c->level[i] = (int32_t)(which < 0.004 ? c->n_levels - 1 : which * which * (double)(c->n_levels - 1));
        for (int64_t j = 0; j < c->d; j++)
            c->Z[i * c->d + j] = (float)(type[t * c->d + j] + shift[c->level[i] * c->d + j] + 3 * (uniform(&state) - 0.5));
    }
    memset(c->Z + c->d, 0, (size_t)c->d * sizeof *c->Z);
}

static void normalise(double *to, const double *from, int64_t d)
{
    double squares = 0;
    for (int64_t j = 0; j < d; j++)
        squares += from[j] * from[j];
    for (int64_t j = 0; j < d; j++)
        to[j] = squares > 0 ? from[j] / sqrt(squares) : 0;
}

static void make_start(struct selftest_case *c)
{
    for (int64_t k = 0; k < c->n_clusters; k++) {
        const float *cell = c->Z + (2 + k * 61 % (c->n - 2)) * c->d;
        double squares = 0;
        for (int64_t j = 0; j < c->d; j++)
            squares += (double)cell[j] * cell[j];
        for (int64_t j = 0; j < c->d; j++)
            c->start[k * c->d + j] = (float)(cell[j] / sqrt(squares));
    }
}

/* One cluster: every cell becomes z - (m_level - m_all) / (1 + alpha) (harmony2.md section 7). */
static void closed_form(struct selftest_case *c)
{
    double *mean = c->work, *cells = mean + (c->n_levels + 1) * c->d;
    memset(mean, 0, (size_t)((c->n_levels + 1) * (c->d + 1)) * sizeof *mean);
    for (int64_t i = 0; i < c->n; i++) {
        cells[c->level[i]]++;
        for (int64_t j = 0; j < c->d; j++) {
            mean[c->level[i] * c->d + j] += c->Z[i * c->d + j];
            mean[c->n_levels * c->d + j] += c->Z[i * c->d + j];
        }
    }
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j < c->d; j++)
            c->expected[i * c->d + j] =
                c->Z[i * c->d + j] -
                (mean[c->level[i] * c->d + j] / cells[c->level[i]] - mean[c->n_levels * c->d + j] / (double)c->n) / (1 + ALPHA);
}

/* ---- the method ---------------------------------------------------------------------------------------------------------------
 */

struct tables { /* K clusters, B levels */
    double *z, *base, *R, *Y, *O, *r, *cells, *S, *c, *W;
};

static void share_out(struct tables *t, const struct selftest_case *c)
{
    const int64_t n = c->n, d = c->d, K = c->n_clusters, B = c->n_levels;
    double **at[] = {&t->z, &t->base, &t->R, &t->Y, &t->O, &t->r, &t->cells, &t->S, &t->c, &t->W};
    const int64_t size[] = {n * d, n * K, n * K, K * d, B * K, K, B, B * K * d, K * d, B * K * d};
    double *next = c->work;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        *at[i] = next;
        next += size[i];
    }
}

static int64_t work_size(const struct selftest_case *c)
{
    const int64_t n = c->n, d = c->d, K = c->n_clusters, B = c->n_levels;
    return n * d + 2 * n * K + 2 * K * d + B * K + K + B + 2 * B * K * d + 64 * d;
}

/* base = softmax(-dist / sigma); R = base; O and r from it */
static void assign(struct tables *t, const struct selftest_case *c)
{
    const int64_t K = c->n_clusters, d = c->d;
    memset(t->O, 0, (size_t)(c->n_levels * K) * sizeof *t->O);
    memset(t->r, 0, (size_t)K * sizeof *t->r);
    for (int64_t i = 0; i < c->n; i++) {
        double *base = t->base + i * K, most = -HUGE_VAL, sum = 0;
        normalise(t->z + i * d, c->expected + i * d, d);
        for (int64_t k = 0; k < K; k++) {
            double dot = 0;
            for (int64_t j = 0; j < d; j++)
                dot += t->z[i * d + j] * t->Y[k * d + j];
            base[k] = -2 * (1 - dot) / SIGMA;
            most = fmax(most, base[k]);
        }
        for (int64_t k = 0; k < K; k++)
            sum += base[k] = exp(base[k] - most);
        for (int64_t k = 0; k < K; k++) {
            base[k] /= sum;
            t->R[i * K + k] = base[k];
            t->O[c->level[i] * K + k] += base[k];
            t->r[k] += base[k];
        }
    }
}

/* The block's cells leave the tables (sign -1), or come back. */
static void move_block(struct tables *t, const struct selftest_case *c, const int32_t *block, int32_t q, double sign)
{
    const int64_t K = c->n_clusters;
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t k = 0; block[i] == q && k < K; k++) {
            t->O[c->level[i] * K + k] += sign * t->R[i * K + k];
            t->r[k] += sign * t->R[i * K + k];
        }
}

static void update_block(struct tables *t, const struct selftest_case *c, const int32_t *block, int32_t q)
{
    const int64_t K = c->n_clusters;
    move_block(t, c, block, q, -1);
    for (int64_t i = 0; i < c->n; i++) {
        double sum = 0, *R = t->R + i * K, share = t->cells[c->level[i]] / (double)c->n;
        if (block[i] != q)
            continue;
        for (int64_t k = 0; k < K; k++) {
            double E = t->r[k] * share, O = t->O[c->level[i] * K + k];
            sum += R[k] = t->base[i * K + k] * pow((2 * E + 1) / (O + E + 1), THETA);
        }
        for (int64_t k = 0; k < K; k++)
            R[k] /= sum;
    }
    move_block(t, c, block, q, 1);
}

/* W and Y of one cluster, over the levels that are kept. */
static void solve_cluster(struct tables *t, const struct selftest_case *c, int64_t k)
{
    const int64_t K = c->n_clusters, d = c->d;
    double schur = 0, kept = 0, *intercept = t->c + k * d;
    memset(intercept, 0, (size_t)d * sizeof *intercept);
    for (int64_t l = 0; l < c->n_levels; l++) {
        double O = t->O[l * K + k], lambda = ALPHA * t->r[k] * t->cells[l] / (double)c->n, q = lambda / (O + lambda);
        if (!(t->cells[l] > 0 && O / t->cells[l] > CUTOFF))
            continue;
        kept++;
        schur += q * O;
        for (int64_t j = 0; j < d; j++)
            intercept[j] += q * t->S[(l * K + k) * d + j];
    }
    for (int64_t l = 0; l < c->n_levels; l++) {
        double O = t->O[l * K + k], lambda = ALPHA * t->r[k] * t->cells[l] / (double)c->n;
        int used = kept >= 2 && t->cells[l] > 0 && O / t->cells[l] > CUTOFF;
        for (int64_t j = 0; j < d; j++)
            t->W[(l * K + k) * d + j] = used ? (t->S[(l * K + k) * d + j] - O * intercept[j] / schur) / (O + lambda) : 0;
    }
    if (kept >= 2)
        normalise(t->Y + k * d, intercept, d);
}

static void correct(struct tables *t, struct selftest_case *c)
{
    const int64_t K = c->n_clusters, d = c->d;
    memset(t->S, 0, (size_t)(c->n_levels * K * d) * sizeof *t->S);
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t j = 0; j < d; j++)
                t->S[(c->level[i] * K + k) * d + j] += t->R[i * K + k] * c->Z[i * d + j];
    for (int64_t k = 0; k < K; k++)
        solve_cluster(t, c, k);
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j < d; j++) {
            double z = c->Z[i * d + j];
            for (int64_t k = 0; k < K; k++)
                z -= t->R[i * K + k] * t->W[(c->level[i] * K + k) * d + j];
            c->expected[i * d + j] = z;
        }
}

void selftest_expect(struct selftest_case *c, const int32_t *block)
{
    struct tables t;
    int32_t blocks = 0;
    share_out(&t, c);
    memset(t.cells, 0, (size_t)c->n_levels * sizeof *t.cells);
    for (int64_t i = 0; i < c->n; i++) {
        t.cells[c->level[i]]++;
        blocks = block[i] >= blocks ? block[i] + 1 : blocks;
    }
    for (int64_t i = 0; i < c->n * c->d; i++)
        c->expected[i] = c->Z[i];
    for (int64_t i = 0; i < c->n_clusters * c->d; i++)
        t.Y[i] = c->start[i];
    for (int64_t round = 0; round < c->rounds; round++) {
        assign(&t, c);
        for (int sweep = 0; sweep < SWEEPS; sweep++)
            for (int32_t q = 0; q < blocks; q++)
                update_block(&t, c, block, q);
        correct(&t, c);
    }
}

/* ---- a case -------------------------------------------------------------------------------------------------------------------
 */

double selftest_distance(const struct selftest_case *c, const float *got)
{
    double off = 0, moved = 0;
    for (int64_t i = 0; i < c->n * c->d; i++) {
        off += (got[i] - c->expected[i]) * (got[i] - c->expected[i]);
        moved += (c->Z[i] - c->expected[i]) * (c->Z[i] - c->expected[i]);
    }
    return sqrt(off / moved);
}

int selftest_case_open(struct selftest_case *c, int64_t n_clusters)
{
    *c = (struct selftest_case){.n = 1501, .d = 23, .n_levels = 5, .n_clusters = n_clusters, .rounds = n_clusters == 1 ? 1 : 3};
    c->Z = calloc((size_t)(c->n * c->d), sizeof *c->Z);
    c->level = calloc((size_t)c->n, sizeof *c->level);
    c->start = calloc((size_t)(n_clusters * c->d), sizeof *c->start);
    c->expected = calloc((size_t)(c->n * c->d), sizeof *c->expected);
    c->work = calloc((size_t)work_size(c), sizeof *c->work);
    if (!c->Z || !c->level || !c->start || !c->expected || !c->work) {
        selftest_case_close(c);
        return 0;
    }
    make_cells(c);
    make_start(c);
    if (n_clusters == 1)
        closed_form(c);
    return 1;
}

void selftest_case_close(struct selftest_case *c)
{
    free(c->Z), free(c->level), free(c->start), free(c->expected), free(c->work);
    *c = (struct selftest_case){0};
}
