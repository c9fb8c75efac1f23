/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda_plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *room(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    if (!p)
        exit(2);
    return p;
}

void plain_open(struct plain *s, const struct uni_problem *p, const struct uni_matrix *m)
{
    float *row = room(p->D, sizeof *row);
    *s = (struct plain){p,
                        room(p->N_all * p->D, 8),
                        room(p->N * p->K, 8),
                        room(p->N * p->K, 8),
                        room(p->N * p->K, 8),
                        room(p->N, 8),
                        room(p->N, 8)};
    for (int64_t i = 0; i < p->N_all; i++) {
        uni_matrix_row(row, m, p->row[i]);
        for (int64_t d = 0; d < p->D; d++)
            s->Z[i * p->D + d] = row[d];
    }
    for (int64_t q = 0; q < p->G * p->Q; q++)
        for (int64_t i = p->piece[q]; i < p->piece[q + 1]; i++) {
            s->group[i] = q / p->Q;
            s->block[i] = q % p->Q;
        }
    free(row);
}

static void corrected_row(const struct plain *s, int64_t i, const struct uni_shift *shift, double *z)
{
    const struct uni_problem *p = s->p;
    for (int64_t d = 0; d < p->D; d++) {
        z[d] = s->Z[i * p->D + d];
        for (int64_t k = 0; shift && k < p->K; k++)
            for (int v = 0; v < p->V; v++) {
                int64_t row = p->V == 1 ? s->group[i] : p->group_level[s->group[i] * p->V + v];
                z[d] -= shift->step * s->R[i * p->K + k] * shift->W[(row * p->K + k) * p->D + d];
            }
    }
}

static void sums(const struct plain *s, double *O)
{
    const struct uni_problem *p = s->p;
    memset(O, 0, (size_t)(p->G * p->K) * sizeof *O);
    for (int64_t i = 0; i < p->N; i++)
        for (int64_t k = 0; k < p->K; k++)
            O[s->group[i] * p->K + k] += s->R[i * p->K + k];
}

static void fit_of(const struct plain *s, struct uni_fit *fit)
{
    const struct uni_problem *p = s->p;
    *fit = (struct uni_fit){0};
    for (int64_t i = 0; i < p->N * p->K; i++) {
        double r = s->R[i];
        fit->distance += r * s->dist[i];
        fit->entropy += r > 0 ? p->sigma[i % p->K] * r * log(r) : 0;
    }
}

void plain_assign(struct plain *s, double *O, struct uni_fit *fit, const struct uni_shift *shift, const float *Y)
{
    const struct uni_problem *p = s->p;
    double *z = room(p->D, 8);
    for (int64_t i = 0; i < p->N; i++) {
        double squares = 0, most = -HUGE_VAL, mass = 0, *base = s->base + i * p->K;
        corrected_row(s, i, shift, z);
        for (int64_t d = 0; d < p->D; d++)
            squares += z[d] * z[d];
        for (int64_t k = 0; k < p->K; k++) {
            double dot = 0;
            for (int64_t d = 0; d < p->D; d++)
                dot += squares > 0 ? z[d] / sqrt(squares) * Y[k * p->D + d] : 0;
            s->dist[i * p->K + k] = 2 * (1 - dot);
            base[k] = -2 * (1 - dot) / p->sigma[k];
            most = fmax(most, base[k]);
        }
        for (int64_t k = 0; k < p->K; k++)
            mass += base[k] = exp(base[k] - most);
        for (int64_t k = 0; k < p->K; k++)
            base[k] /= mass;
    }
    memcpy(s->R, s->base, (size_t)(p->N * p->K) * sizeof *s->R);
    sums(s, O);
    fit_of(s, fit);
    free(z);
}

/* O by level of all variables (B,K), and r: of a block, or of all cells (q < 0) */
static void add_cells(const struct plain *s, int64_t q, double sign, double *O, double *r)
{
    const struct uni_problem *p = s->p;
    for (int64_t i = 0; i < p->N; i++)
        for (int64_t k = 0; k < p->K && (q < 0 || s->block[i] == q); k++) {
            for (int v = 0; v < p->V; v++)
                O[p->group_level[s->group[i] * p->V + v] * p->K + k] += sign * s->R[i * p->K + k];
            r[k] += sign * s->R[i * p->K + k];
        }
}

/* R <- keep R + (1 - keep) base P / sum base P */
static void update_cell(const struct plain *s, int64_t i, double keep, const double *O, const double *r, double *P)
{
    const struct uni_problem *p = s->p;
    double sum = 0, *R = s->R + i * p->K;
    for (int64_t k = 0; k < p->K; k++) {
        P[k] = s->base[i * p->K + k];
        for (int v = 0; v < p->V; v++) {
            int64_t l = p->group_level[s->group[i] * p->V + v];
            double E = p->level_share[l] * r[k];
            P[k] *= pow((p->penalty_scale * E + p->penalty_add) / (O[l * p->K + k] + E + p->penalty_add), p->level_theta[l]);
        }
        sum += P[k];
    }
    for (int64_t k = 0; k < p->K; k++)
        R[k] = keep * R[k] + (1 - keep) * (sum > 0 ? P[k] / sum : 0);
}

void plain_sweep(struct plain *s, double *O, struct uni_fit *fit, int64_t sweeps)
{
    const struct uni_problem *p = s->p;
    double *r = room(p->K, 8), *level_O = room(p->B * p->K, 8), *P = room(p->K, 8);
    add_cells(s, -1, 1, level_O, r);
    for (int64_t step = 0; step < sweeps * p->Q; step++) {
        int64_t q = p->jacobi ? -1 : step % p->Q;
        if (!p->jacobi)
            add_cells(s, q, -1, level_O, r);
        for (int64_t i = 0; i < p->N; i++)
            if (p->jacobi || s->block[i] == q)
                update_cell(s, i, p->jacobi ? 0.5 : 0, level_O, r, P);
        if (p->jacobi) {
            memset(level_O, 0, (size_t)(p->B * p->K) * 8);
            memset(r, 0, (size_t)p->K * 8);
        }
        add_cells(s, q, 1, level_O, r);
    }
    sums(s, O);
    fit_of(s, fit);
    free(r), free(level_O), free(P);
}

void plain_moments(const struct plain *s, double *S)
{
    const struct uni_problem *p = s->p;
    memset(S, 0, (size_t)(p->G * p->K * p->D) * sizeof *S);
    for (int64_t i = 0; i < p->N; i++)
        for (int64_t k = 0; k < p->K; k++)
            for (int64_t d = 0; d < p->D; d++)
                S[(s->group[i] * p->K + k) * p->D + d] += s->R[i * p->K + k] * s->Z[i * p->D + d];
}

void plain_corrected(const struct plain *s, const struct uni_shift *shift, double *dst)
{
    const struct uni_problem *p = s->p;
    for (int64_t i = 0; i < p->N; i++)
        corrected_row(s, i, shift, dst + p->row[i] * p->D);
    for (int64_t i = p->N; i < p->N_all; i++)
        memcpy(dst + p->row[i] * p->D, s->Z + i * p->D, (size_t)p->D * sizeof *dst);
}

void plain_close(struct plain *s)
{
    free(s->Z);
    free(s->base);
    free(s->R);
    free(s->dist);
    free(s->group);
    free(s->block);
}
