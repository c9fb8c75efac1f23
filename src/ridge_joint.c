/* SPDX-License-Identifier: BSD-3-Clause */
/* The ridge system of several variables (harmony2.md section 5), cluster by cluster. The levels of the variable with most kept
 * levels are eliminated first, by groups and without subtraction: with x a group's indicator of the other unknowns (intercept
 * first), and, over the groups of one eliminated level, O_l = sum O, u = sum O x, m = u / O_l, sum O x x' - u u' / (O_l + lambda)
 * = sum O (x - m)(x - m)' + m m' O_l lambda / (O_l + lambda), and likewise on the right. What is left is small, and solved by
 * Cholesky, else by pivoted LU. Moments that are there by level only, and covariates, whose own lambda is large, are eliminated
 * by subtraction, in double. */
#include <math.h>
#include <string.h>

#include "error.h"
#include "formula.h"
#include "method.h"

struct joint {
    struct uni_ridge *ridge;
    const struct uni_problem *p;
    const struct uni_sums *sums;
    float *W, *slope, *Y;
    int64_t *order, *order_first; /* groups by their level of the eliminated variable */
    int64_t *unknown;             /* (B) place among the unknowns that are left, 0: none */
    double *lambda;               /* (B) 0: takes no part */
    double *A, *A0, *b, *b0;      /* (t,t), (t,D) column-major */
    double *m, *SL, *w;           /* (t), (D), (B,D) */
    int big;                      /* the eliminated variable */
    int64_t s, t;                 /* unknowns that are left: intercept and levels; with the covariates, which come last */
    double moved, size;           /* sums of O |W - W_old|^2 and O |W|^2 */
    int64_t pruned, skipped;
};

enum { MOST_SHARES = 16 }; /* clusters are solved in so many shares, each with its own scratch, whatever the number of threads */

static int64_t shares_of(const struct uni_problem *p)
{
    return p->K < MOST_SHARES ? p->K : MOST_SHARES;
}

/* Most unknowns that can be left: the intercept, the levels of all variables but the smallest that can be eliminated, covariates.
 */
static int64_t most_unknowns(const struct uni_problem *p)
{
    int64_t largest = 0;
    for (int v = 0; v < p->V; v++)
        largest = p->level_first[v + 1] - p->level_first[v] > largest ? p->level_first[v + 1] - p->level_first[v] : largest;
    return 1 + p->B - largest + p->X;
}

static int64_t share_scratch(const struct uni_problem *p)
{
    int64_t s = most_unknowns(p);
    return p->G + 2 * p->B + 2 + p->B + 2 * s * s + 2 * s * p->D + 2 * s + p->D + p->B * p->D;
}

int64_t uni_joint_scratch(const struct uni_problem *p)
{
    return shares_of(p) * share_scratch(p);
}

static void deal_out(struct joint *j, double *scratch)
{
    const struct uni_problem *p = j->p;
    int64_t s = most_unknowns(p);
    j->A = scratch;
    j->A0 = j->A + s * s;
    j->b = j->A0 + s * s;
    j->b0 = j->b + s * p->D;
    j->m = j->b0 + s * p->D;
    j->SL = j->m + 2 * s; /* the second half: LU's pivots */
    j->w = j->SL + p->D;
    j->lambda = j->w + p->B * p->D;
    j->unknown = (int64_t *)(void *)(j->lambda + p->B);
    j->order_first = j->unknown + p->B;
    j->order = j->order_first + p->B + 2;
}

/* Levels of variable v that are kept in cluster k; a variable with one takes no part. */
static int64_t kept_levels(const struct uni_problem *p, const double *level_O, double cutoff, int v, int64_t k)
{
    int64_t kept = 0;
    for (int64_t l = p->level_first[v]; l < p->level_first[v + 1]; l++)
        kept += uni_pair_kept(level_O[l * p->K + k], p->level_mass[l], cutoff);
    return kept < 2 ? 0 : kept;
}

void uni_joint_parts(unsigned char *part, const struct uni_ridge *ridge, const double *level_O, const struct uni_problem *p)
{
    memset(part, 0, (size_t)(p->G * p->K));
    for (int v = 0; v < p->V; v++)
        for (int64_t k = 0; k < p->K; k++) {
            if (kept_levels(p, level_O, ridge->cutoff, v, k) == 0)
                continue;
            for (int64_t g = 0; g < p->G; g++) {
                int64_t l = p->group_level[g * p->V + v];
                part[g * p->K + k] |= (unsigned char)uni_pair_kept(level_O[l * p->K + k], p->level_mass[l], ridge->cutoff);
            }
        }
}

/* The levels that take part in cluster k, and where their unknowns stand. Returns 0 where no variable does. */
static int choose(struct joint *j, int64_t k, int64_t *pruned)
{
    const struct uni_problem *p = j->p;
    const double *level_O = j->sums->level_O;
    int64_t most = 0;
    j->big = -1;
    j->s = 1;
    for (int v = 0; v < p->V; v++) {
        int64_t kept = kept_levels(p, level_O, j->ridge->cutoff, v, k);
        for (int64_t l = p->level_first[v]; l < p->level_first[v + 1]; l++) {
            double fixed = j->ridge->lambda[l];
            j->lambda[l] = 0;
            if (kept && uni_pair_kept(level_O[l * p->K + k], p->level_mass[l], j->ridge->cutoff))
                j->lambda[l] = fixed > 0 ? fixed : uni_lambda_auto(j->ridge->alpha, j->sums->E[l * p->K + k]);
        }
        if (kept >= 2 && p->level_first[v + 1] - p->level_first[v] > most) {
            most = p->level_first[v + 1] - p->level_first[v];
            j->big = v;
        }
    }
    for (int v = 0; v < p->V; v++)
        for (int64_t l = p->level_first[v]; l < p->level_first[v + 1]; l++) {
            *pruned += p->level_share[l] > 0 && !(j->lambda[l] > 0);
            j->unknown[l] = v != j->big && j->lambda[l] > 0 ? j->s++ : 0;
        }
    j->t = j->s + p->X;
    return j->big >= 0;
}

/* The unknowns of group g that are left: the intercept, and its levels' places. Returns how many. */
static int support(const struct joint *j, int64_t g, int64_t *at)
{
    const struct uni_problem *p = j->p;
    int n = 1;
    at[0] = 0;
    for (int v = 0; v < p->V; v++) {
        int64_t place = j->unknown[p->group_level[g * p->V + v]];
        if (place)
            at[n++] = place;
    }
    return n;
}

/* sum S of group g, which is not there by level */
static const double *moments_of(const struct joint *j, int64_t g, int64_t k)
{
    return j->sums->S + (g * j->p->K + k) * j->p->D;
}

/* Adds weight x x' and x S for one group whose level of the eliminated variable takes no part. */
static void add_plain_group(struct joint *j, int64_t g, int64_t k)
{
    const struct uni_problem *p = j->p;
    int64_t at[UNI_MAX_VARIABLES + 1];
    int n = support(j, g, at);
    const double O = j->sums->O[g * p->K + k];
    if (n == 1)
        return; /* none of its levels takes part: neither do its cells */
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < n; b++)
            j->A0[at[a] * j->t + at[b]] += O;
        for (int64_t d = 0; !p->by_level && d < p->D; d++)
            j->b0[d * j->t + at[a]] += moments_of(j, g, k)[d];
    }
}

/* m (t) = sum O x / O_l and SL (D) = sum S over the groups of level l. Returns O_l. */
static double mean_of_level(struct joint *j, int64_t l, int64_t k)
{
    const struct uni_problem *p = j->p;
    double O_l = 0;
    memset(j->m, 0, (size_t)j->t * sizeof *j->m);
    memset(j->SL, 0, (size_t)p->D * sizeof *j->SL);
    for (int64_t i = j->order_first[l]; i < j->order_first[l + 1]; i++) {
        int64_t at[UNI_MAX_VARIABLES + 1], g = j->order[i];
        const double O = j->sums->O[g * p->K + k];
        for (int a = 0, n = support(j, g, at); a < n; a++)
            j->m[at[a]] += O;
        for (int x = 0; x < p->X; x++)
            j->m[j->s + x] += j->sums->xO[(x * p->G + g) * p->K + k];
        for (int64_t d = 0; !p->by_level && d < p->D; d++)
            j->SL[d] += moments_of(j, g, k)[d];
        O_l += O;
    }
    if (p->by_level)
        memcpy(j->SL, moments_of(j, l, k), (size_t)p->D * sizeof *j->SL);
    for (int64_t a = 0; a < j->t; a++)
        j->m[a] /= O_l;
    return O_l;
}

/* What elimination of a level takes from the covariates' rows and columns, and, by level, from the right side of the others. */
static void subtract_level(struct joint *j, double O_l, double q)
{
    const struct uni_problem *p = j->p;
    const double rest = 1 - q; /* O_l / (O_l + lambda) */
    for (int64_t a = p->by_level ? 0 : j->s; a < j->t; a++)
        for (int64_t d = 0; d < p->D; d++)
            j->b0[d * j->t + a] -= j->m[a] * j->SL[d] * rest;
    for (int64_t a = j->s; a < j->t; a++)
        for (int64_t b = 0; b < j->t; b++) {
            double part = j->m[a] * j->m[b] * O_l * rest;
            j->A0[b * j->t + a] -= part;
            if (b < j->s)
                j->A0[a * j->t + b] -= part;
        }
}

/* The covariates' part of the system before anything is eliminated, and what is there by level. */
static void start_system(struct joint *j, int64_t k)
{
    const struct uni_problem *p = j->p;
    const struct uni_sums *s = j->sums;
    const int64_t t = j->t;
    double mass = 0;
    memset(j->A0, 0, (size_t)(t * t) * sizeof *j->A0);
    memset(j->b0, 0, (size_t)(t * p->D) * sizeof *j->b0);
    for (int64_t d = 0; p->by_level && d < p->D; d++) {
        j->b0[d * t] = moments_of(j, p->B, k)[d];
        for (int64_t l = 0; l < p->B; l++)
            if (j->unknown[l])
                j->b0[d * t + j->unknown[l]] = moments_of(j, l, k)[d];
    }
    for (int64_t g = 0; p->X && g < p->G; g++) {
        int64_t at[UNI_MAX_VARIABLES + 1];
        int n = support(j, g, at);
        mass += s->O[g * p->K + k];
        if (n == 1 && !(j->lambda[p->group_level[g * p->V + j->big]] > 0))
            continue;
        for (int x = 0; x < p->X; x++)
            for (int a = 0; a < n; a++) {
                j->A0[at[a] * t + j->s + x] += s->xO[(x * p->G + g) * p->K + k];
                j->A0[(j->s + x) * t + at[a]] += s->xO[(x * p->G + g) * p->K + k];
            }
    }
    for (int64_t x = 0; x < p->X; x++) {
        for (int64_t y = 0; y < p->X; y++)
            j->A0[(j->s + x) * t + j->s + y] = s->xx[(x * p->X + y) * p->K + k];
        j->A0[(j->s + x) * (t + 1)] += uni_lambda_auto(j->ridge->alpha, mass);
        for (int64_t d = 0; d < p->D; d++)
            j->b0[d * t + j->s + x] = s->xS[(x * p->K + k) * p->D + d];
    }
}

/* Eliminates one level: adds sum O (x-m)(x-m)' + m m' O_l q and sum (x-m) S + m SL q, q = lambda / (O_l + lambda). */
static void add_level(struct joint *j, int64_t l, int64_t k)
{
    const struct uni_problem *p = j->p;
    const int64_t s = j->s, t = j->t, first = j->order_first[l], end = j->order_first[l + 1];
    double O_l = mean_of_level(j, l, k), q = uni_intercept_weight(O_l, j->lambda[l]);
    double *x = j->m + t;
    for (int64_t a = 0; a < s; a++) {
        if (j->m[a] == 0)
            continue;
        for (int64_t b = 0; b < s; b++)
            j->A0[a * t + b] += j->m[a] * j->m[b] * O_l * q;
        for (int64_t d = 0; !p->by_level && d < p->D; d++)
            j->b0[d * t + a] += j->m[a] * j->SL[d] * q;
    }
    subtract_level(j, O_l, q);
    for (int64_t i = first; i < end && end - first > 1; i++) { /* a level of one group has x = m */
        int64_t at[UNI_MAX_VARIABLES + 1], g = j->order[i];
        int n = support(j, g, at);
        const double O = j->sums->O[g * p->K + k];
        for (int64_t a = 0; a < s; a++)
            x[a] = -j->m[a];
        for (int a = 0; a < n; a++)
            x[at[a]] += 1;
        for (int64_t a = 0; a < s; a++) {
            if (x[a] == 0)
                continue;
            for (int64_t b = 0; b < s; b++)
                j->A0[a * t + b] += O * x[a] * x[b];
            for (int64_t d = 0; !p->by_level && d < p->D; d++)
                j->b0[d * t + a] += x[a] * moments_of(j, g, k)[d];
        }
    }
}

/* Counting sort of the groups by their level of the eliminated variable. */
static void order_groups(struct joint *j)
{
    const struct uni_problem *p = j->p;
    memset(j->order_first, 0, (size_t)(p->B + 2) * sizeof *j->order_first);
    for (int64_t g = 0; g < p->G; g++)
        j->order_first[p->group_level[g * p->V + j->big] + 2]++;
    for (int64_t l = 0; l < p->B; l++)
        j->order_first[l + 2] += j->order_first[l + 1];
    for (int64_t g = 0; g < p->G; g++)
        j->order[j->order_first[p->group_level[g * p->V + j->big] + 1]++] = g;
}

/* Level l's groups are order[order_first[l]] .. order[order_first[l + 1] - 1]. Returns 0 where the system cannot be solved. */
static int solve_cluster(struct joint *j, int64_t k)
{
    const struct uni_problem *p = j->p;
    const int64_t t = j->t;
    start_system(j, k);
    for (int64_t l = p->level_first[j->big]; l < p->level_first[j->big + 1]; l++) {
        if (j->lambda[l] > 0)
            add_level(j, l, k);
        for (int64_t i = j->order_first[l]; !(j->lambda[l] > 0) && i < j->order_first[l + 1]; i++)
            add_plain_group(j, j->order[i], k);
    }
    for (int64_t l = 0; l < p->B; l++)
        if (j->unknown[l])
            j->A0[j->unknown[l] * (t + 1)] += j->lambda[l];
    if (!uni_solve_dense(j->A, j->b, j->A0, j->b0, (int)t, (int)p->D, (int *)(void *)(j->m + t)))
        return 0;
    for (int64_t l = 0; l < p->B; l++) {
        double *w = j->w + l * p->D;
        int is_big = l >= p->level_first[j->big] && l < p->level_first[j->big + 1];
        if (!(j->lambda[l] > 0))
            memset(w, 0, (size_t)p->D * sizeof *w);
        double O_l = j->lambda[l] > 0 && is_big ? mean_of_level(j, l, k) : 0;
        for (int64_t d = 0; d < p->D && j->lambda[l] > 0; d++) {
            double c = 0;
            for (int64_t a = 0; is_big && a < t; a++)
                c += j->m[a] * j->b[d * t + a];
            w[d] = is_big ? uni_correction(j->SL[d], O_l, c, j->lambda[l]) : j->b[d * t + j->unknown[l]];
        }
    }
    return 1;
}

/* W by level, and the slopes; adds up how far W moved. */
static void store(struct joint *j, int64_t k, int solved, double *moved, double *size)
{
    const struct uni_problem *p = j->p;
    for (int64_t l = 0; l < p->B; l++) {
        float *W = j->W + (l * p->K + k) * p->D;
        double level_moved = 0, level_size = 0;
        for (int64_t d = 0; d < p->D; d++) {
            double old = W[d], now = W[d] = solved ? (float)j->w[l * p->D + d] : 0;
            level_moved += (now - old) * (now - old);
            level_size += now * now;
        }
        *moved += j->sums->level_O[l * p->K + k] * level_moved;
        *size += j->sums->level_O[l * p->K + k] * level_size;
    }
    for (int64_t x = 0; x < p->X; x++)
        for (int64_t d = 0; d < p->D; d++)
            j->slope[(x * p->K + k) * p->D + d] = solved ? (float)j->b[d * j->t + j->s + x] : 0;
}

struct shares {
    struct joint all[MOST_SHARES];
    double *scratch;
};

static void solve_share(void *context, int64_t share)
{
    struct shares *shares = context;
    struct joint *j = &shares->all[share];
    const struct uni_problem *p = j->p;
    int ordered = -1;
    deal_out(j, shares->scratch + share * share_scratch(p));
    for (int64_t k = p->K * share / shares_of(p); k < p->K * (share + 1) / shares_of(p); k++) {
        int solved = choose(j, k, &j->pruned);
        j->skipped += !solved;
        if (solved && j->big != ordered) {
            order_groups(j);
            ordered = j->big;
        }
        solved = solved && solve_cluster(j, k);
        if (solved)
            uni_ridge_centroid(j->Y + k * p->D, j->b, j->t, p->D);
        store(j, k, solved, &j->moved, &j->size);
    }
}

int uni_ridge_joint(struct uni_ridge *ridge, float *W, float *slope, float *Y, const struct uni_sums *sums,
                    const struct uni_problem *p, struct uni_backend *b, double *scratch)
{
    struct shares shares = {.scratch = scratch};
    double moved = 0, size = 0;
    for (int64_t i = 0; i < shares_of(p); i++)
        shares.all[i] = (struct joint){.ridge = ridge, .p = p, .sums = sums, .W = W, .slope = slope, .Y = Y};
    int err = b->each(b, shares_of(p), solve_share, &shares);
    if (err)
        return err;
    ridge->pruned_pairs = ridge->skipped_clusters = 0;
    for (int64_t i = 0; i < shares_of(p); i++) {
        ridge->pruned_pairs += shares.all[i].pruned;
        ridge->skipped_clusters += shares.all[i].skipped;
        moved += shares.all[i].moved;
        size += shares.all[i].size;
    }
    return uni_ridge_settle(ridge, moved, size);
}
