/* SPDX-License-Identifier: BSD-3-Clause */
/* Levels and clusters from a run's tables O, E, lambda and W: no loop over cells here. */
#include <math.h>
#include <stdlib.h>

#include "../arena.h"
#include "../error.h"
#include "diagnose.h"

static const double THIN = 1; /* cells: a correction that rests on less mass is learnt from no cell in particular */

static int is_thin(const struct uni_diagnose_work *w, int64_t pair)
{
    return w->lambda[pair] > 0 && w->observed[pair] < THIN;
}

static void measure_level(struct uni_diagnose_work *w, int64_t l)
{
    const int64_t K = w->answer.n_clusters;
    struct uni_level_diagnosis *level = &w->levels[l];
    double mass = 0, left = 0, thin = 0;
    for (int64_t pair = l * K; pair < (l + 1) * K; pair++) {
        mass += w->observed[pair];
        left += w->lambda[pair] > 0 ? 0 : w->observed[pair];
        level->pruned += !(w->lambda[pair] > 0);
        level->thin += is_thin(w, pair);
        thin += is_thin(w, pair) ? w->observed[pair] : 0;
    }
    level->thin_mass = mass > 0 ? thin / mass : NAN;
    level->uncorrected = mass > 0 ? left / mass : NAN;
}

static int by_length(const void *a, const void *b)
{
    double x = ((const struct uni_weighed *)a)->length, y = ((const struct uni_weighed *)b)->length;
    return (x > y) - (x < y);
}

/* Lengths of W such that half of the corrected mass, and 99.9 % of it, move no farther. */
static void measure_lengths(struct uni_diagnose_work *w, int64_t k)
{
    struct uni_cluster_diagnosis *cluster = &w->clusters[k];
    const int64_t K = w->answer.n_clusters;
    struct uni_weighed *pairs = w->weighed;
    int64_t n = 0;
    double total = 0, below = 0;
    for (int64_t pair = k; pair < w->answer.n_levels * K; pair += K)
        if (w->lambda[pair] > 0) {
            pairs[n++] = (struct uni_weighed){w->length[pair], w->observed[pair]};
            total += w->observed[pair];
        }
    qsort(pairs, (size_t)n, sizeof *pairs, by_length);
    for (int64_t i = 0; i < n; i++) {
        below += pairs[i].mass;
        if (isnan(cluster->length_median) && below >= total / 2)
            cluster->length_median = pairs[i].length;
        if (isnan(cluster->length_999) && (below >= total * 0.999 || i + 1 == n))
            cluster->length_999 = pairs[i].length;
    }
}

static void measure_cluster(struct uni_diagnose_work *w, int64_t k)
{
    const int64_t K = w->answer.n_clusters;
    struct uni_cluster_diagnosis *cluster = &w->clusters[k];
    double apart = 0;
    *cluster = (struct uni_cluster_diagnosis){.length_median = NAN, .length_999 = NAN, .length_max = NAN, .longest = -1};
    measure_lengths(w, k);
    for (int64_t l = 0; l < w->answer.n_levels; l++) {
        int64_t pair = l * K + k;
        if (!w->levels[l].cells)
            continue;
        cluster->levels++;
        cluster->pruned += !(w->lambda[pair] > 0);
        cluster->thin += is_thin(w, pair);
        if (w->lambda[pair] > 0 && !(w->length[pair] <= cluster->length_max)) {
            cluster->length_max = w->length[pair];
            cluster->longest = l;
        }
        if (w->levels[l].variable == 0) {
            cluster->mass += w->observed[pair];
            apart += fabs(w->observed[pair] - w->expected[pair]);
        }
    }
    cluster->mixing = cluster->mass > 0 ? 1 - apart / (2 * cluster->mass) : NAN;
}

static int read_lengths(struct uni_diagnose_work *w, struct uni_harmony *run)
{
    int err = 0;
    float *W;
    const int64_t pairs = w->answer.n_levels * w->answer.n_clusters, D = w->answer.n_dims;
    struct uni_arena arena = {0};
    const struct uni_array_row list[] = {UNI_ARRAY(W, pairs * D)};
    TRY(uni_arena_open(&arena, list, 1, "the corrections of batches and clusters"));
    TRY(uni_read(run, UNI_CORRECTION, W));
    for (int64_t pair = 0; pair < pairs; pair++) {
        double sum = 0;
        for (int64_t j = 0; j < D; j++)
            sum += (double)W[pair * D + j] * (double)W[pair * D + j];
        w->length[pair] = sqrt(sum);
    }
done:
    uni_arena_close(&arena);
    return err;
}

int uni_diagnose_tables(struct uni_diagnose_work *w, struct uni_harmony *run)
{
    int err = 0;
    if (!w->answer.n_clusters)
        return UNI_OK;
    TRY(uni_read(run, UNI_OBSERVED, w->observed));
    TRY(uni_read(run, UNI_EXPECTED, w->expected));
    TRY(uni_read(run, UNI_LAMBDA, w->lambda));
    TRY(read_lengths(w, run));
    for (int64_t l = 0; l < w->answer.n_levels; l++)
        if (w->levels[l].cells)
            measure_level(w, l);
    for (int64_t k = 0; k < w->answer.n_clusters; k++)
        measure_cluster(w, k);
done:
    return err;
}
