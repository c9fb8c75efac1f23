/* SPDX-License-Identifier: BSD-3-Clause */
#include "lisi_plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct neighbour {
    double distance;
    int32_t cell;
};

static int nearer(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;
    return x->distance != y->distance ? (x->distance > y->distance) - (x->distance < y->distance)
                                      : (x->cell > y->cell) - (x->cell < y->cell);
}

/* Moves the m nearest to the front, in no order: quickselect, so that a run over all cells stays quadratic. */
static void select_nearest(struct neighbour *all, int64_t n, int64_t m)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        struct neighbour pivot = all[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (nearer(&all[i], &pivot) < 0)
                i++;
            while (nearer(&all[j], &pivot) > 0)
                j--;
            if (i <= j) {
                struct neighbour swap = all[i];
                all[i++] = all[j], all[j--] = swap;
            }
        }
        if (m - 1 <= j)
            high = j;
        else if (m - 1 >= i)
            low = i;
        else
            return;
    }
}

/* Entropy of the kernel exp(-beta distance) over the neighbours; their normalised weights into weight. */
static double kernel(double *weight, const struct neighbour *near, int64_t m, double beta)
{
    double sum = 0, mean = 0;
    for (int64_t i = 0; i < m; i++) {
        weight[i] = exp(-beta * near[i].distance);
        sum += weight[i];
        mean += near[i].distance * weight[i];
    }
    if (sum == 0)
        return 0;
    for (int64_t i = 0; i < m; i++)
        weight[i] /= sum;
    return log(sum) + beta * mean / sum;
}

/* The kernel's width by bisection: 50 steps or an entropy within 1e-5 of log(perplexity). */
static void fit_kernel(double *weight, const struct neighbour *near, int64_t m, double perplexity)
{
    double beta = 1, low = -INFINITY, high = INFINITY;
    for (int step = 0; step <= 50; step++) {
        double off = kernel(weight, near, m, beta) - log(perplexity);
        if (fabs(off) < 1e-5)
            return;
        if (off > 0) {
            low = beta;
            beta = isinf(high) ? beta * 2 : (beta + high) / 2;
        } else {
            high = beta;
            beta = isinf(low) ? beta / 2 : (beta + low) / 2;
        }
    }
}

void lisi_plain(double *out, const double *X, const int32_t *label, int64_t n, int64_t d, double perplexity)
{
    int64_t m = (int64_t)(3 * perplexity) - 1;
    struct neighbour *all = malloc((size_t)n * sizeof *all);
    double *weight = malloc((size_t)m * sizeof *weight);
    if (!all || !weight)
        exit(2);
    for (int64_t i = 0; i < n; i++) {
        int64_t count = 0;
        for (int64_t c = 0; c < n; c++) {
            double square = 0;
            for (int64_t j = 0; j < d; j++)
                square += (X[i * d + j] - X[c * d + j]) * (X[i * d + j] - X[c * d + j]);
            if (c != i)
                all[count++] = (struct neighbour){sqrt(square), (int32_t)c};
        }
        select_nearest(all, count, m);
        qsort(all, (size_t)m, sizeof *all, nearer);
        fit_kernel(weight, all, m, perplexity);
        double same = 0, share[64] = {0};
        for (int64_t c = 0; c < m; c++)
            share[label[all[c].cell]] += weight[c];
        for (int l = 0; l < 64; l++)
            same += share[l] * share[l];
        out[i] = 1 / same;
    }
    free(all);
    free(weight);
}

double lisi_mean(const double *X, const int32_t *label, int64_t n, int64_t d)
{
    double mean = 0, *each = malloc((size_t)n * sizeof *each);
    if (!each)
        exit(2);
    lisi_plain(each, X, label, n, d, 30);
    for (int64_t i = 0; i < n; i++)
        mean += each[i] / (double)n;
    free(each);
    return mean;
}
