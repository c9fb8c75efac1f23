/* SPDX-License-Identifier: BSD-3-Clause */
/* Cells are drawn one after another, each from numbers of its own (a counter, not a stream), so nothing depends on an order. Only
 * + - * / and square roots are used, which are exact to the last bit everywhere; the logarithm below is made of them.
 */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "random_bits.h"

static const double type_distance = 4.0; /* of a type's centre from the origin, in spreads */
static const double rare_share = 1e-3;   /* of the cells, per rare type */
static const double type_decay = 0.18;   /* how much smaller each type is than the one before, where uneven is 1 */
enum { CANDIDATES = 24 };                /* places tried for a type's centre: the one farthest from the others is taken */

enum { STREAM_CENTRE = 1, STREAM_SHIFT, STREAM_TYPE_SHIFT, STREAM_MIXTURE, STREAM_CELL };

struct design {
    const struct atlas *a;
    int64_t n_types;     /* rare ones included */
    double *scale;       /* (n_dims) standard deviation of a cell in each dimension; squares sum to 1 */
    double *centre;      /* (n_levels, n_types, n_dims) of the cells of a type in a level */
    double *level_up_to; /* (n_levels) share of the cells in this level and those before */
    double *type_up_to;  /* (n_levels, n_types) likewise within a level */
};

/* Number i of stream key, without those before it. */
static uint64_t mixed(uint64_t key, uint64_t i)
{
    uint64_t state = key + i * 0x9e3779b97f4a7c15u;
    return random_bits(&state);
}

static uint64_t stream(const struct atlas *a, int which, uint64_t i)
{
    return mixed(mixed(mixed((uint64_t)a->seed, 0), (uint64_t)which), i);
}

/* Strictly between 0 and 1. */
static double uniform(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* ln x for 0 < x < 1, to about 1e-11: x = m 2^e, ln m = 2 artanh((m - 1) / (m + 1)). */
static double logarithm(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double t = (m - 1) / (m + 1), s = t * t;
    double sum = 1 + s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * (1.0 / 9 + s * (1.0 / 11 + s * (1.0 / 13 + s / 15))))));
    return 2 * t * sum + e * 0.69314718055994531;
}

/* The standard normal quantile, to about 1e-7: Wichura's PPND7 (AS 241, Applied Statistics 37, 1988). */
static double normal(uint64_t bits)
{
    double p = uniform(bits), q = p - 0.5;
    if (q > -0.425 && q < 0.425) {
        double r = 0.180625 - q * q;
        return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
               (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
    }
    double r = sqrt(-logarithm(q < 0 ? p : 1 - p)), x;
    if (r <= 5) {
        r -= 1.6;
        x = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
            ((0.12021132975 * r + 0.73700164250) * r + 1.0);
    } else {
        r -= 5;
        x = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
            ((0.012258202635 * r + 0.24197894225) * r + 1.0);
    }
    return q < 0 ? -x : x;
}

/* A vector of the given length, its direction drawn with the dimensions' scales. */
static void draw_vector(const struct design *d, uint64_t key, double length, double *v)
{
    double square = 0;
    for (int64_t j = 0; j < d->a->n_dims; j++) {
        v[j] = d->scale[j] * normal(mixed(key, (uint64_t)j));
        square += v[j] * v[j];
    }
    for (int64_t j = 0; j < d->a->n_dims; j++)
        v[j] *= length / sqrt(square);
}

static double nearest_square(const double *v, const double *others, int64_t n_others, int64_t n_dims)
{
    double least = INFINITY;
    for (int64_t i = 0; i < n_others; i++) {
        double square = 0;
        for (int64_t j = 0; j < n_dims; j++)
            square += (v[j] - others[i * n_dims + j]) * (v[j] - others[i * n_dims + j]);
        least = square < least ? square : least;
    }
    return least;
}

/* Types apart from one another, as far as chance offers. types: (n_types, n_dims); v: room for one vector. */
static void draw_types(const struct design *d, double *types, double *v)
{
    int64_t n_dims = d->a->n_dims;
    for (int64_t t = 0; t < d->n_types; t++) {
        double best = -1;
        for (int c = 0; c < CANDIDATES; c++) {
            draw_vector(d, stream(d->a, STREAM_CENTRE, (uint64_t)(t * CANDIDATES + c)), type_distance, v);
            double square = nearest_square(v, types, t, n_dims);
            if (square > best) {
                best = square;
                memcpy(types + t * n_dims, v, (size_t)n_dims * sizeof *v);
            }
        }
    }
}

/* Shares that add up to less than one become running sums that end at one. */
static void run_up(double *share, int64_t n)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        total += share[i];
    for (int64_t i = 0; i < n; i++) {
        sum += share[i];
        share[i] = sum / total;
    }
    share[n - 1] = 1;
}

static void set_shares(struct design *d)
{
    const struct atlas *a = d->a;
    for (int64_t l = 0; l < a->n_levels; l++) {
        double *share = d->type_up_to + l * d->n_types, w = 1, total = 0;
        d->level_up_to[l] = 1 / (1 + a->uneven * (double)l);
        for (int64_t t = 0; t < a->n_types; t++) {
            share[t] = w * (1 - a->uneven * logarithm(uniform(stream(a, STREAM_MIXTURE, (uint64_t)(l * d->n_types + t)))));
            total += share[t];
            w /= 1 + type_decay * a->uneven;
        }
        for (int64_t t = a->n_types; t < d->n_types; t++)
            share[t] = total * rare_share / (1 - rare_share * (double)a->n_rare);
        run_up(share, d->n_types);
    }
    run_up(d->level_up_to, a->n_levels);
}

static void set_centres(struct design *d, double *types, double *v)
{
    const struct atlas *a = d->a;
    int64_t n_dims = a->n_dims;
    draw_types(d, types, v);
    for (int64_t l = 0; l < a->n_levels; l++) {
        double *at = d->centre + l * d->n_types * n_dims;
        memcpy(at, types, (size_t)(d->n_types * n_dims) * sizeof *at);
        draw_vector(d, stream(a, STREAM_SHIFT, (uint64_t)l), a->shift, v);
        for (int64_t i = 0; i < d->n_types * n_dims; i++)
            at[i] += v[i % n_dims];
        for (int64_t t = 0; t < d->n_types; t++) {
            draw_vector(d, stream(a, STREAM_TYPE_SHIFT, (uint64_t)(l * d->n_types + t)), a->type_shift, v);
            for (int64_t j = 0; j < n_dims; j++)
                at[t * n_dims + j] += v[j];
        }
    }
}

/* Place of u in running sums, by halving. */
static int64_t place(const double *up_to, int64_t n, double u)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (u < up_to[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void draw_cell(const struct design *d, int64_t i, float *row, int32_t *level, int32_t *type)
{
    int64_t n_dims = d->a->n_dims;
    uint64_t key = stream(d->a, STREAM_CELL, (uint64_t)i);
    /* The first cells go to one level each, so that no level is empty. */
    int64_t l = i < d->a->n_levels ? i : place(d->level_up_to, d->a->n_levels, uniform(mixed(key, (uint64_t)n_dims)));
    int64_t t = place(d->type_up_to + l * d->n_types, d->n_types, uniform(mixed(key, (uint64_t)n_dims + 1)));
    const double *centre = d->centre + (l * d->n_types + t) * n_dims;
    for (int64_t j = 0; j < n_dims; j++)
        row[j] = (float)(centre[j] + d->scale[j] * normal(mixed(key, (uint64_t)j)));
    *level = (int32_t)l;
    *type = (int32_t)t;
}

int atlas_make(const struct atlas *a, float *values, int32_t *level, int32_t *type)
{
    int64_t n_types = a->n_types + a->n_rare, n_dims = a->n_dims;
    int64_t count = n_dims + a->n_levels * n_types * n_dims + a->n_levels + a->n_levels * n_types + n_types * n_dims + n_dims;
    double *all = io_room_zeroed(count, sizeof *all), total = 0;
    if (!all)
        return -1;
    struct design d = {.a = a, .n_types = n_types, .scale = all};
    d.centre = d.scale + n_dims;
    d.level_up_to = d.centre + a->n_levels * n_types * n_dims;
    d.type_up_to = d.level_up_to + a->n_levels;
    double *types = d.type_up_to + a->n_levels * n_types;
    for (int64_t j = 0; j < n_dims; j++)
        total += 1 / (double)(j + 1);
    for (int64_t j = 0; j < n_dims; j++)
        d.scale[j] = sqrt(1 / ((double)(j + 1) * total));
    set_shares(&d);
    set_centres(&d, types, types + n_types * n_dims);
    for (int64_t i = 0; i < a->n_cells; i++)
        draw_cell(&d, i, values + i * n_dims, &level[i], &type[i]);
    free(all);
    return 0;
}
