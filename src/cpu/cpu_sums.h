/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over a run of R as it stands, whatever update left it. Included by cpu_kernels.c after a vec_....h. */
#ifndef UNI_CPU_SUMS_H
#define UNI_CPU_SUMS_H

/* What each of n rows counts, times x1 and x2 where given, into its factor. */
static void count_cells(const struct uni_run *run, int64_t first, int64_t n, const float *x1, const float *x2, float *factor)
{
    for (int64_t i = 0; run->weight && i < n; i++)
        factor[i] *= run->weight[first + i];
    for (int64_t i = 0; x1 && i < n; i++)
        factor[i] *= x1[first + i];
    for (int64_t i = 0; x2 && i < n; i++)
        factor[i] *= x2[first + i];
}

static void masses(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *x1, const float *x2,
                   float *sum, float *scratch)
{
    float factor[TILE];
    memset(sum, 0, (size_t)s->Kv * sizeof *sum);
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        weighted_tile(s, run, first, n, P, scratch, factor);
        count_cells(run, first, n, x1, x2, factor);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < s->Kv; k += WIDTH)
                store(sum + k, load(sum + k) + load(scratch + i * s->Kv + k) * factor[i]);
    }
}

static void masses_by_block(const struct uni_shape *s, const struct uni_run *run, const float *P, const uint16_t *block,
                            double *sums, float *scratch)
{
    float factor[TILE];
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        weighted_tile(s, run, first, n, P, scratch, factor);
        count_cells(run, first, n, NULL, NULL, factor);
        for (int64_t i = 0; i < n; i++) {
            double *sum = sums + block[first + i] * s->Kv;
            for (int64_t k = 0; k < s->Kv; k += WIDTH) {
                vf r = load(scratch + i * s->Kv + k) * factor[i];
                *(vd_at *)(sum + k) += __builtin_convertvector(r, vd);
            }
        }
    }
}

/* dist = -sigma (ln base + L); where base is zero, so is R. */
static void fit_of_any(const struct uni_shape *s, const struct uni_run *run, const float *P, const float *sigma, double *fit,
                       float *scratch)
{
    float factor[TILE];
    const vf scale = splat(1 / BASE_SCALE), least = splat(1e-37f);
    for (int64_t first = 0; first < run->n; first += TILE) {
        int64_t n = run->n - first < TILE ? run->n - first : TILE;
        weighted_tile(s, run, first, n, P, scratch, factor);
        for (int64_t i = 0; i < n; i++) {
            const void *base = base_row(s, run->base, first + i, s->single);
            vf distance = splat(0), entropy_part = splat(0), L = splat(run->L[first + i]);
            for (int64_t k = 0; k < s->Kb; k += WIDTH) {
                vf b = base_vector(s, base, k, s->single) * scale;
                vf r = load(scratch + i * s->Kv + k) * factor[i], weight = load(sigma + k) * r;
                distance += weight * (natural_log(larger(b, least)) + L);
                entropy_part += weight * natural_log(larger(r, least));
            }
            double counts = run->weight ? (double)run->weight[first + i] : 1;
            fit[0] -= counts * (double)add_across(distance);
            fit[1] += counts * (double)add_across(entropy_part);
        }
    }
}

#endif
