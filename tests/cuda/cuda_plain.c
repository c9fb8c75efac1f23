/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda_plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formula.h"

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

static void corrected_row(const struct plain *s, int64_t i, const float *W, double *z)
{
    const struct uni_problem *p = s->p;
    for (int64_t d = 0; d < p->D; d++) {
        z[d] = s->Z[i * p->D + d];
        for (int64_t k = 0; W && k < p->K; k++)
            z[d] -= s->R[i * p->K + k] * W[(s->group[i] * p->K + k) * p->D + d];
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

void plain_assign(struct plain *s, double *O, struct uni_fit *fit, const float *W, const float *Y)
{
    const struct uni_problem *p = s->p;
    double *z = room(p->D, 8);
    for (int64_t i = 0; i < p->N; i++) {
        double squares = 0, most = -HUGE_VAL, mass = 0, *base = s->base + i * p->K;
        corrected_row(s, i, W, z);
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

static void add_block(const struct plain *s, int64_t q, double sign, double *O, double *r)
{
    const struct uni_problem *p = s->p;
    for (int64_t i = 0; i < p->N; i++)
        for (int64_t k = 0; k < p->K && s->block[i] == q; k++) {
            O[s->group[i] * p->K + k] += sign * s->R[i * p->K + k];
            r[k] += sign * s->R[i * p->K + k];
        }
}

void plain_sweep(struct plain *s, double *O, struct uni_fit *fit, int64_t sweeps)
{
    const struct uni_problem *p = s->p;
    double *r = room(p->K, 8);
    sums(s, O);
    for (int64_t g = 0; g < p->G; g++)
        for (int64_t k = 0; k < p->K; k++)
            r[k] += O[g * p->K + k];
    for (int64_t step = 0; step < sweeps * p->Q; step++) {
        add_block(s, step % p->Q, -1, O, r);
        for (int64_t i = 0; i < p->N; i++) {
            double sum = 0, *R = s->R + i * p->K;
            if (s->block[i] != step % p->Q)
                continue;
            int32_t level = p->group_level[s->group[i] * p->V];
            for (int64_t k = 0; k < p->K; k++) {
                double E = p->level_share[level] * r[k];
                R[k] = s->base[i * p->K + k] *
                       pow(UNI_PENALTY_TOP(E) / UNI_PENALTY_BOTTOM(O[s->group[i] * p->K + k], E), p->level_theta[level]);
                sum += R[k];
            }
            for (int64_t k = 0; k < p->K; k++)
                R[k] = sum > 0 ? R[k] / sum : 0;
        }
        add_block(s, step % p->Q, 1, O, r);
    }
    fit_of(s, fit);
    free(r);
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

void plain_corrected(const struct plain *s, const float *W, double *dst)
{
    const struct uni_problem *p = s->p;
    for (int64_t i = 0; i < p->N; i++)
        corrected_row(s, i, W, dst + p->row[i] * p->D);
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
