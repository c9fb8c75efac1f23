/* SPDX-License-Identifier: BSD-3-Clause */
/* The work on one run of cells: at most 1024 rows of one piece (one group, one block), sums in float32. Compiled once per
 * instruction set from cpu_kernels.c. Rows of tables over clusters are Kv floats (K padded to whole vectors; P, B-panels and sums
 * are zero or unused there), rows over dimensions Dv. base rows are Kb elements, half or float32, scaled by BASE_SCALE. Letters:
 * backend.h. */
#ifndef UNI_CPU_KERNELS_H
#define UNI_CPU_KERNELS_H

#include <stdint.h>

enum {
    RUN_ROWS = 1024,       /* rows whose sums may be added in float32 */
    MOST_TABLE_ROW = 1024, /* Kv, for tiles */
    MOST_TILE = 72         /* room for the rows that go through the products together, and those that a register block adds */
};
#define BASE_SCALE 32768.0f /* keeps small assignments out of half precision's subnormals */

struct uni_shape {
    int64_t D, K, Dv, Kv, Kb, Dr; /* Dr: D padded to whole register blocks of columns and whole vectors */
    int X;                        /* covariates */
    float a, b;                   /* of formula.h's penalty */
    int add;                      /* several variables: penalties are added */
    int single;                   /* base is float32 */
    int shift;                    /* exponents need the row's maximum taken out: some sigma < 0.06 */
    int tiles;                    /* the products may use a matrix unit, where the set has one: cpu_tiles.h */
    int tile_room;                /* there is room for what that takes */
};

/* R of the damped update: base (share[0] / sum_k base + sum over t > 0 of share[t] P_t / sum_k base P_t), P_t at table[t] (G,Kv).
 */
enum { MOST_TABLES = 25 };
struct uni_recipe {
    int n;
    float share[MOST_TABLES];
    const float *table[MOST_TABLES];
};

/* Rows behind one another that have penalties, and sums, of their own. */
struct uni_part {
    int64_t n;
    const float *P; /* (Kv) */
    float *sum;     /* (Kv) */
};

/* One run's rows, or those of several runs of a group behind one another. */
struct uni_run {
    const float *Z; /* (n,D) */
    void *base;     /* (n,Kb) */
    float *L;       /* (n) log-sum-exp of -dist / sigma */
    int64_t n;
    const void *next;    /* base of the run that a sweep goes on with, or NULL */
    const float *weight; /* (n) or NULL: 1 */
    const float *x;      /* (X,..) covariates, x_row apart */
    int64_t x_row;
    const float *minus_slope;        /* (X,Kv,Dv), with minus_W */
    const struct uni_recipe *recipe; /* NULL: R = base P / sum_k base P */
    int64_t at;                      /* with recipe: where the group's rows begin in its tables */
    const uint16_t *block;           /* (n) or NULL: cell i has the row block[i] of P (..,Kv) */
};

/* What assign needs besides: Yt (D,Kv) = 2 log2(e) Y / sigma by columns, bias (Kv) = -2 log2(e) / sigma, very small where padded,
   sigma (Kv); packed Yt, with tiles. */
struct uni_centroids {
    const float *Yt, *bias, *sigma, *packed;
};

enum {
    NEAREST_ROWS = 48, /* most that nearest looks at in a call */
    NEAR_CELLS = 64,   /* cells of a panel of find_near */
    NEAR_ROWS = 6      /* its queries come in multiples of this */
};

/* A cell that may be near to a query: score = bias + query . cell, and the same plus doubt bias, which is less. */
struct uni_found {
    int64_t cell;
    float score, low;
};

/* Which of a panel's cells score at least a query's limit. They are appended to what was found before; there must be room for all
   of the panel. */
struct uni_near {
    int64_t D, M;       /* M queries, a multiple of NEAR_ROWS */
    const float *panel; /* (D + 1,NEAR_CELLS) by columns: bias, then coordinates. What follows it in memory is fetched. */
    const float *query; /* (M,D) */
    const float *limit; /* (M) */
    float doubt;
    int64_t first;           /* the number of the panel's first cell */
    struct uni_found *found; /* (M,room) */
    int64_t *count;          /* (M) of them */
    int64_t room;
};

struct uni_cpu_kernels {
    const char *name;
    int width; /* floats a vector */
    /* Register block of the products: a multiple of it pads D to Dr. */
    int block_rows;

    /* NULL, or what a matrix unit wants: B (rows,columns), whole vectors of columns, into uni_packed_floats of them. */
    void (*pack)(float *packed, const float *B, int64_t rows, int64_t columns);
    /* z = normalise(Z - R W), R from base and the parts' P (minus_W (Kv,Dv) = -W, with tiles followed by it packed; NULL:
       normalise(Z)); new base and L; the parts' sum = sum of R = base. The parts are all of the run. fit[2], unless NULL, += sum
       base dist and sum sigma base ln base. scratch: uni_scratch_floats. */
    void (*assign)(const struct uni_shape *, const struct uni_run *, const struct uni_part *, const float *minus_W,
                   const struct uni_centroids *, double *fit, float *scratch);
    /* G (Kv) = sum of base / s, s = sum_k base P. fit, unless NULL, += - sum (sum_k sigma R) (ln s + L), sP (Kv) = sigma P. */
    void (*sweep)(const struct uni_shape *, const struct uni_run *, const float *P, const float *sP, float *G, double *fit,
                  float *scratch);
    /* S (Dr,Kv) = sum of Z^T R over the run; added to what is there where add. x (n), unless NULL, weighs the cells as well. */
    void (*moments)(const struct uni_shape *, const struct uni_run *, const struct uni_part *, float *S, int add, const float *x,
                    float *scratch);
    /* sum (Kv) = sum of x1 x2 R over the run, x1 and x2 (n), or NULL: 1 */
    void (*masses)(const struct uni_shape *, const struct uni_run *, const float *P, const float *x1, const float *x2, float *sum,
                   float *scratch);
    /* sums[block[i]] (..,Kv) += R of row i */
    void (*masses_by_block)(const struct uni_shape *, const struct uni_run *, const float *P, const uint16_t *block, double *sums,
                            float *scratch);
    /* fit[2] += sum R dist and sum sigma R ln R, whatever R is */
    void (*fit)(const struct uni_shape *, const struct uni_run *, const float *P, const float *sigma, double *fit,
                float *scratch);
    /* dst[row[i]] = Z - R W, rows of D; row NULL: dst[i], which may be Z itself */
    void (*correct)(const struct uni_shape *, const struct uni_run *, const float *P, const float *minus_W, const uint32_t *row,
                    float *dst, float *scratch);
    /* dst[row[i]] = R, rows of K */
    void (*assignments)(const struct uni_shape *, const struct uni_run *, const float *P, const uint32_t *row, float *dst,
                        float *scratch);
    /* sum sigma R ln R */
    double (*entropy)(const struct uni_shape *, const struct uni_run *, const float *P, const float *sigma, float *scratch);
    /* A piece leaves O: O -= mass. P (Kv) = pen / its largest entry, pen = ((a E + b) / (O + E + b))^theta with E = share r; O,
       r, mass (Kv). Zero in the padding. */
    void (*leave)(const struct uni_shape *, float *P, double *O, const float *mass, const double *r, double share, double theta);
    /* The same of a product, or sum, over V variables, O (V) rows (Kv) of their levels, which the piece has left already. */
    void (*penalty)(const struct uni_shape *, float *P, const double *const *O, const double *r, const double *share,
                    const double *theta, int V);
    /* It comes back: mass, which is G, *= P; O += mass; came += mass */
    void (*come_back)(const struct uni_shape *, float *mass, double *O, double *came, const float *P);
    /* to (n) += sign mass, n whole vectors */
    void (*move)(double *to, const float *mass, double sign, int64_t n);
    /* total (Dr,Kv) += S */
    void (*add_moments)(const struct uni_shape *, double *total, const float *S);
    /* sum_k weight O ln P, 0 ln 0 = 0 */
    double (*log_dot)(const struct uni_shape *, const float *O, const float *P, const float *weight);
    /* Nearest of the centroids Yt (D,Kv) for n <= NEAREST_ROWS rows of X (n,D); bias (Kv) 0, very small where padded. */
    void (*nearest)(const struct uni_shape *, int32_t *index, float *score, const float *X, int64_t n, const float *Yt,
                    const float *bias, float *scratch);
    /* sum (D) += the n rows of X (..,D) that rows (n) names */
    void (*add_rows)(const struct uni_shape *, double *sum, const float *X, const int32_t *rows, int64_t n);
    /* For exact neighbours: see struct uni_near. */
    void (*find_near)(const struct uni_near *);
};

/* Floats of scratch that the kernels need per thread. */
static inline int64_t uni_scratch_floats(const struct uni_shape *s)
{
    int64_t most = s->Kv > s->Dv ? s->Kv : s->Dv, more = s->tile_room ? most : s->X ? s->Kv : 0;
    return MOST_TILE * (s->Kv + more) + (MOST_TILE + 12) * s->Dv + 2 * RUN_ROWS + 64;
}

/* Floats that a factor B (rows,columns) of a product takes packed, 0 without room for tiles. */
static inline int64_t uni_packed_floats(const struct uni_shape *s, int64_t rows, int64_t columns)
{
    return s->tile_room ? ((rows + 15) / 16 + 1) * 16 * columns : 0;
}

extern const struct uni_cpu_kernels
    *const uni_cpu_kernel_sets[]; /* best first, NULL last; made by the build for the processor's family */
int uni_cpu_can_run(const struct uni_cpu_kernels *);

/* The set that UNISONO_ISA names, else the best that this processor runs. NULL, with a sentence, where UNISONO_ISA cannot be
 * served. */
const struct uni_cpu_kernels *uni_cpu_choose(void);

#endif
