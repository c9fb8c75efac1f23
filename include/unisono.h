/* SPDX-License-Identifier: BSD-3-Clause */
/* unisono: Harmony v2 batch integration of single-cell embeddings (Patikas, Yao et al. 2026).
 *
 * In: an embedding (cells x dimensions) and one label per cell for every batch variable. Out: the embedding with the batch effect
 * removed. One run is
 *
 *     struct uni_options options;
 *     struct uni_harmony *run = NULL;
 *     uni_options_init(&options, sizeof options);
 *     if (uni_open(&run, &embedding, &batch, 1, &options) == UNI_OK && uni_run(run) == UNI_OK)
 *         uni_read(run, UNI_CORRECTED, out);
 *     else
 *         fprintf(stderr, "%s\n", uni_last_error());
 *     uni_close(run);
 *
 * Conventions. Rows are cells, always; nothing is guessed from sizes. Sizes are int64_t. The caller's arrays are read during
 * uni_open only, are never changed, and may be freed, or used as output, as soon as it returns. The library prints nothing, reads no
 * environment but UNISONO_ISA (which forces an instruction set), UNISONO_CUDA_PLUGIN (the cuda backend's file; empty: none) and
 * UNISONO_CUDA_MEMORY (most bytes that a run takes of a card's memory), installs no handler and changes no global state.
 * It computes and writes in the default floating-point environment (round to nearest, subnormals kept, no traps) and the C locale whatever the caller has set, and gives him his own back, exception flags included: results
 * do not depend on them. Of what a call finds it may leave only errno changed (and the cuda backend keeps its plugin and the driver; on a
 * processor with AMX the process has asked for its use, so that stacks for signals must be as large as getauxval(AT_MINSIGSTKSZ) says).
 * A function that returns int returns UNI_OK (0) or another value of enum uni_status; uni_last_error() then has one sentence.
 * Threads: different runs may be used from different threads at once; one run from one thread at a time. The same input, options
 * and seed give the same bytes whatever the number of threads. Not promised: the same bytes on another instruction set or version.
 */
#ifndef UNISONO_H
#define UNISONO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define UNI_API __attribute__((visibility("default")))
#define UNI_MUST_USE __attribute__((warn_unused_result))
#else
#define UNI_API
#define UNI_MUST_USE
#endif

#define UNI_MAX_VARIABLES 8 /* batch variables of one run; continuous ones are counted apart, up to as many */

/* ---- status ------------------------------------------------------------------------------------------------------------- */

enum uni_status {
    UNI_OK = 0,
    UNI_MEMORY,  /* an allocation failed */
    UNI_INPUT,   /* the embedding or the labels cannot be used */
    UNI_OPTION,  /* an option has a value outside its range */
    UNI_BACKEND, /* the backend asked for is not in this build, or not on this machine */
    UNI_DEVICE,  /* a device call failed */
    UNI_COMM,    /* a message to another process failed */
    UNI_NUMERIC, /* the arithmetic broke down */
    UNI_STOPPED  /* the progress callback, or options.cancel, asked to stop */
};

/* "0.1.0". Static. */
UNI_API const char *uni_version(void);

/* "input" for UNI_INPUT and so on; "unknown" for any other number. Static. */
UNI_API const char *uni_status_name(int status);

/* The sentence of this thread's last failed call; "" when none failed. Valid until the next call from this thread. */
UNI_API const char *uni_last_error(void);

/* ---- input -------------------------------------------------------------------------------------------------------------- */

enum uni_dtype { UNI_FLOAT32, UNI_FLOAT64 };

/* An embedding as the caller has it: element (i, j) lies at (const char *)data + i * row_stride + j * col_stride. Strides are in
   bytes and may be negative, zero strides of both mean C order. Values must be finite and below 8e34; float64 is rounded to float32.
   data may lie in this machine's memory, or, for uni_open with backend cuda (or auto, which then is cuda), in the memory of the card that
   options.device names, or managed; nothing has to be said about it, the driver is asked. Memory of a card, managed memory and pinned
   memory (cudaMallocHost, cudaHostRegister) are read by the card itself, in the order of options.stream. Everything else that is given,
   labels included, lies in this machine's memory. */
struct uni_matrix {
    const void *data;
    enum uni_dtype dtype;
    int64_t n_cells, n_dims; /* >= 2, >= 1 */
    int64_t row_stride, col_stride;
};

/* One batch variable; a run takes several at once, each with its own theta, tau and lambda: the penalty is the product over variables, the
   correction one ridge regression on all of them. Nested and crossed variables are fine, and their order does not matter.
   A level 0 .. n_levels-1 for every cell; -1 is a missing label. Levels without cells are allowed and change
   nothing. n_cells must be the embedding's; it is asked for so that a mismatch is noticed. */
struct uni_batch {
    const char *name; /* for messages; NULL: "batch" */
    int64_t n_cells, n_levels;
    const int32_t *level;           /* (n_cells) */
    const char *const *level_names; /* (n_levels), for messages; or NULL */
};

/* A continuous variable to regress out, such as the log of a cell's counts: one value for every cell, finite, not all the same. The
   ridge system of every cluster gains a column for it, centred and scaled to unit spread and penalised like a level, with lambda =
   alpha times the cluster's mass; the assignments do not see it. Read docs/method.md on when not to use it. */
struct uni_covariate {
    const char *name; /* for messages; NULL: "covariate" */
    int64_t n_cells;
    const double *value; /* (n_cells); read during uni_open only */
};

/* ---- options ------------------------------------------------------------------------------------------------------------ */

enum uni_stop { UNI_STOP_CHANGE, UNI_STOP_OBJECTIVE };
enum uni_update { UNI_UPDATE_BLOCKS, UNI_UPDATE_JACOBI };
enum uni_flavor { UNI_HARMONY2, UNI_HARMONY1 };
enum uni_compat { UNI_COMPAT_NONE, UNI_COMPAT_R204 };
enum uni_precision { UNI_HALF, UNI_SINGLE };
enum uni_missing { UNI_MISSING_ERROR, UNI_MISSING_SKIP, UNI_MISSING_LEVEL };
enum uni_backend_kind { UNI_BACKEND_AUTO, UNI_BACKEND_CPU, UNI_BACKEND_CUDA };

/* One value for all batch variables (n = 1), or one for each (n = number of variables); n = 0: automatic, where that exists. */
struct uni_values {
    int64_t n;
    double value[UNI_MAX_VARIABLES];
};

struct uni_progress {
    int64_t round, max_rounds; /* rounds finished; the first call has 0: the starting centroids are there */
    double objective;          /* after the round's last sweep; before the first round, of the first base assignments */
    double change;             /* of the correction, see uni_round */
    double seconds;            /* since uni_run began */
};

/* Called in the thread of uni_run after every round. Non-zero stops the run: uni_run returns UNI_STOPPED, and what the last
   finished round left can be read. Must not call into this run. */
typedef int (*uni_progress_fn)(const struct uni_progress *, void *user);

/* All defaults, ranges and help lines are in one table: uni_option_at(). Fill with uni_options_init() first, always. */
struct uni_options {
    size_t size;                                     /* sizeof this struct where the caller was compiled; set by uni_options_init */
    int64_t n_clusters;                              /* K; 0: max(1, min(100, round(n_cells / 30))) */
    double sigma;                                    /* softness of the assignments */
    const double *cluster_sigma;                     /* (n_clusters) instead of sigma, or NULL; read during uni_open */
    int64_t n_cluster_sigma;                         /* its length, which must be the number of clusters */
    struct uni_values theta, tau, lambda;            /* lambda.n = 0: automatic, alpha * E */
    double alpha, cutoff;                            /* of the automatic lambda; of O / N_level below which a pair is left out */
    int64_t max_rounds, sweeps, window;              /* window: objectives averaged by sweep_tol's rule */
    enum uni_stop stop;                              /* rule across rounds */
    double tol, sweep_tol;                           /* negative: never stop early. tol NaN: 0.03 for CHANGE, 0.01 for OBJECTIVE */
    double block_size;                               /* share of the cells updated at once */
    enum uni_update update;
    enum uni_flavor flavor;                          /* HARMONY1: the penalty and cross term of 2019, lambda 1 unless given, nothing left out */
    enum uni_compat compat;                          /* R204: as the R package where it differs, see docs/method.md; slower */
    int combine;                                     /* non-zero: several batch variables as one, of the joint levels that occur */
    double overcorrect;                              /* the correction between the first three rounds is taken times this; the result never is */
    int64_t seed;                                    /* of the starting centroids and the blocks */
    enum uni_missing missing;                        /* cells without label: an error, left uncorrected, or a level of their own */
    int force;                                       /* non-zero: accept labels that look like mistakes (a level per cell) */
    enum uni_precision precision;                    /* of the stored base assignments */
    int terms;                                       /* non-zero: split the objective into its terms (some 15 % slower) */
    enum uni_backend_kind backend;
    int64_t device;                                  /* of several cards the one that the cuda backend uses, from 0; uni_backend_at */
    int64_t threads;                                 /* 0: the CPUs that this process may use */
    const float *centroids;                          /* (n_centroids, n_dims) to start from instead of seeding, or NULL; any length */
    int64_t n_centroids;                             /* sets K; n_clusters must then be 0 or the same */
    const double *weights;                           /* (n_weights) what each cell counts, 1e-12 to 1e12: 2 is the cell twice; or NULL; read during uni_open */
    int64_t n_weights;                               /* must be the embedding's cells */
    const struct uni_covariate *covariates;          /* (n_covariates) or NULL; read during uni_open */
    int n_covariates;                                /* at most UNI_MAX_VARIABLES */
    uni_progress_fn progress;                        /* or NULL */
    void *progress_user;
    const volatile int *cancel; /* or NULL. Another thread or a signal handler may set it: uni_run then gives up within milliseconds with
                                   UNI_STOPPED, in the middle of a round, and nothing can be read. Must live as long as the run. */
    void *stream;               /* a cudaStream_t of the device, or NULL: the default stream. With backend cuda, memory that the card reads or
                                   writes itself (struct uni_matrix, uni_read) is used after what was queued there before the call; the call
                                   returns when it is done. Must live as long as the run. Other memory must be ready before the call. */
};

/* Fills in the defaults. size: sizeof(struct uni_options). */
UNI_API void uni_options_init(struct uni_options *options, size_t size);

enum uni_kind { UNI_KIND_INT, UNI_KIND_REAL, UNI_KIND_VALUES, UNI_KIND_CHOICE, UNI_KIND_FLAG };

/* One row of the option table: what a program or a binding needs to offer the option and to explain it. All static. */
struct uni_option {
    const char *name;       /* as on the command line, "max-rounds" */
    enum uni_kind kind;
    const char *initial;    /* the default as text; "auto" where automatic */
    const char *choices;    /* "change|objective" for UNI_KIND_CHOICE, else NULL */
    const char *range;      /* "> 0" in words */
    const char *help;       /* one line */
};

/* Row i = 0, 1, ... of the table; NULL past its end. */
UNI_API const struct uni_option *uni_option_at(int i);

/* Sets an option from text, "theta" from "2,1". "flavor" and "compat" also set what else that method has as its default (stop, tol, sweeps,
   sweep-tol): set them first. An unknown name, a text that is no number or a value out of range is UNI_OPTION, with
   a sentence that names the option, the value and the range; the options are then unchanged. */
UNI_API UNI_MUST_USE int uni_options_set(struct uni_options *options, const char *name, const char *text);

/* Writes the option's present value as text ("0.1", "2,1", "auto", "blocks") into text, at most size bytes with the 0. */
UNI_API UNI_MUST_USE int uni_options_get(const struct uni_options *options, const char *name, char *text, size_t size);

/* ---- what a run would take ---------------------------------------------------------------------------------------------- */

struct uni_plan {
    int64_t n_cells, n_dims, n_levels, n_clusters; /* n_levels: with cells, over all variables */
    int64_t bytes;                                 /* most memory the run holds at once, the caller's own arrays not counted */
    int64_t bytes_card;                            /* beside it, of a card's memory; 0: no card is used */
    int64_t bytes_open;                            /* what of it is in use when uni_open returns, and the embedding may be freed */
    int64_t threads;
    const char *backend; /* static */
    char note[320];      /* a sentence where a card is used and not all fits it: what lies where instead, and what that costs; or "" */
};

/* Checks labels and options as uni_open does, without an embedding, and says what the run would take. UNI_MEMORY: it can never fit the
   card that options.backend insists on. */
UNI_API UNI_MUST_USE int uni_plan(struct uni_plan *plan, int64_t n_cells, int64_t n_dims, const struct uni_batch *batches, int n_batches,
                                  const struct uni_options *options);

/* Bytes that this process may still take: the least of what the machine, its cgroups and a limit on its address space leave; -1: not known.
   *address_space, unless NULL: the last of these alone, which counts what is asked for, used or not; -1: there is no limit. */
UNI_API int64_t uni_memory_left(int64_t *address_space);

/* ---- a run -------------------------------------------------------------------------------------------------------------- */

struct uni_harmony;

/* Checks everything, sorts the cells, takes all memory. On failure *run is NULL. batches: n_batches of them, 1 .. UNI_MAX_VARIABLES. */
UNI_API UNI_MUST_USE int uni_open(struct uni_harmony **run, const struct uni_matrix *embedding, const struct uni_batch *batches,
                                  int n_batches, const struct uni_options *options);

/* Runs to the end, once per uni_open. UNI_STOPPED: see uni_progress_fn. Not converging is no failure: see uni_summary. */
UNI_API UNI_MUST_USE int uni_run(struct uni_harmony *run);

/* Arrays that can be read after uni_run. B: levels of all variables in order, those without cells included (their rows are zeros);
   with combine those of the one variable, in the order of their first cells;
   cells in the caller's order; all C order. After a run that changed nothing (one level, no rounds) there are only UNI_CORRECTED and
   UNI_GIVEN to be read; shapes are known from uni_open on. */
enum uni_array {
    UNI_CORRECTED,   /* float  (n_cells, n_dims)  the embedding with the batch effect removed; missing cells as they came */
    UNI_ASSIGNMENTS, /* float  (n_cells, K)       R, rows sum to 1; rows of skipped cells are zeros */
    UNI_CENTROIDS,   /* float  (K, n_dims)        Y after the last correction, unit length */
    UNI_START,       /* float  (K, n_dims)        Y the run started from */
    UNI_OBSERVED,    /* double (B, K)             O, sum of R over the cells of a level */
    UNI_EXPECTED,    /* double (B, K)             E */
    UNI_LAMBDA,      /* double (B, K)             ridge penalty; 0 where the pair was left out */
    UNI_CORRECTION,  /* float  (B, K, n_dims)     W, what a cell of the level loses per unit of assignment;
                        with several variables a cell loses the sum over its levels */
    UNI_THETA,       /* double (B)                theta per level, after tau */
    UNI_SIGMA,       /* double (K) */
    UNI_BLOCKS,      /* int32  (n_cells)          the block of each cell in the last sweep; -1 for skipped cells */
    UNI_SLOPES,      /* float  (X, K, n_dims)     of X covariates: what a cell loses per unit of assignment and of the centred, scaled
                        covariate */
    UNI_GIVEN        /* float  (n_cells, n_dims)  the embedding as it was given */
};

/* Shape of an array of this run; unused entries are 1. */
UNI_API UNI_MUST_USE int uni_shape(const struct uni_harmony *run, enum uni_array what, int64_t shape[3]);

/* Copies an array to dst, which is large enough for its shape. After a failed uni_run dst is filled with NaN (blocks: -1). With backend
   cuda dst may lie in the memory of the run's card, aligned for its elements, or be managed; there and into pinned memory the card writes
   the array itself, after what was queued on options.stream, and is done when this returns. Where dst cannot be written to (another card's
   memory, or backend cpu), or the card has failed for good, it is left as it is. */
UNI_API UNI_MUST_USE int uni_read(struct uni_harmony *run, enum uni_array what, void *dst);

/* UNI_CORRECTED without a second array: the cells are corrected and put in the caller's order where the run holds them. *corrected
   (n_cells, n_dims) is the run's, valid until uni_close; afterwards only arrays without a row per cell can be read. It takes as long as uni_read. */
UNI_API UNI_MUST_USE int uni_take(struct uni_harmony *run, const float **corrected);

enum uni_reason { UNI_NOT_RUN, UNI_CONVERGED, UNI_ROUND_LIMIT, UNI_STOPPED_BY_CALLER, UNI_ONE_LEVEL, UNI_NO_ROUNDS, UNI_FAILED, UNI_CANCELLED };

/* Objective after a sweep, times 2000 / n_cells as the R package scales it. */
struct uni_objective {
    int64_t round, sweep;                         /* from 1; 0, 0: the first base assignments */
    double total, distance, entropy, diversity;   /* distance, entropy: NaN unless options.terms */
};

struct uni_round {
    int64_t sweeps;
    double objective;        /* after the last sweep */
    double objective_change; /* (old - new) / |old| against the round before */
    double change;           /* of the correction: sqrt(sum O |W - W_old|^2 / sum O |W|^2); 1 after the first round */
    int64_t pruned_pairs;    /* pairs of level (with cells) and cluster left out of the correction */
    int64_t skipped_clusters;/* clusters without correction */
    double seconds;
};

struct uni_summary {
    int64_t n_cells, n_skipped, n_dims, n_levels, n_clusters, n_variables; /* n_levels: with cells, over all variables */
    int64_t bytes, bytes_card, threads; /* as in uni_plan */
    const char *backend; /* "cpu (avx512)" */
    enum uni_reason reason;
    const char *reason_text; /* "converged" */
    int64_t n_rounds, n_objectives, n_warnings;
    const struct uni_round *rounds;
    const struct uni_objective *objectives;
    const char *const *warnings; /* sentences */
    double seconds_open, seconds_seed, seconds_assign, seconds_sweep, seconds_moments, seconds_ridge, seconds_read, seconds_run;
};

/* What is known so far; valid until the next call on this run. Never NULL for a run that was opened. */
UNI_API const struct uni_summary *uni_summary(struct uni_harmony *run);

/* Frees everything. NULL is fine. */
UNI_API void uni_close(struct uni_harmony *run);

/* ---- pictures ----------------------------------------------------------------------------------------------------------- */

/* Places cells on a plane so that cells near each other in the embedding stay near: t-SNE (van der Maaten and Hinton 2008), with the
   affinities of the 3 * perplexity nearest cells, found exactly, and the repulsion of all pairs. For some thousand cells: time grows
   with the square of their number (4,000 cells: half a second on two threads). place (n_cells, 2), in no unit; NaN after a failure. start (n_cells, 2), of
   any scale, or NULL for the first two dimensions: the same start gives pictures of two embeddings that can be compared. perplexity:
   1 to 1000, 30 is usual, taken as at most (n_cells - 1) / 3. threads 0: the CPUs that this process may use. cancel: or NULL, as in
   uni_options. Nothing is random: the same input gives the same bytes for any number of threads. */
UNI_API UNI_MUST_USE int uni_tsne(float *place, const struct uni_matrix *embedding, const float *start, double perplexity,
                                  int64_t threads, const volatile int *cancel);

/* ---- diagnostics -------------------------------------------------------------------------------------------------------- */

/* Did the correction go too far, or rest on too little? Tables of what moved, and sentences about what is worth a look. docs/diagnostics.md has the
   formula of every number, and every threshold with what it was measured on. Lengths are Euclidean and in the embedding's units. A group is a
   combination of the batch variables' levels that occurs (one variable: a level). A number that is not known is NaN: without a run all that comes
   from its tables, without embeddings all that comes from cells. The spread of a set of cells is the root mean square distance of
   a cell from the centre of the set in its group; sets count where they have at least UNI_FEWEST cells of a group. */
#define UNI_FEWEST 10

/* One batch level; rows are in the order of UNI_OBSERVED's. */
struct uni_level_diagnosis {
    const char *name;                               /* of the level; "number 3" where it has none, "(missing)" */
    int variable;                                   /* of the batches given; 0 where the run combined them, see options.combine */
    int64_t level;                                  /* of that variable; its n_levels: the level of the cells without a label */
    int64_t cells;
    double length_median, length_rms, length_999, length_max; /* of the correction, |after - before|, over the level's cells */
    double distance;                                /* length_median / (1 - share of the cells): of the level from the rest, which halves or
                                                       tenths of the cells do not change as they do the length */
    double spread, spread_kept;                     /* before; after over before */
    double uncorrected;                             /* share of its mass in clusters where it is not corrected: left out, or the only one */
    int64_t pruned, thin;                           /* clusters where it is left out; where it is corrected on less than one cell's mass */
    double thin_mass;                               /* share of its mass in the latter */
};

struct uni_cluster_diagnosis {
    double mass;                      /* cells: sum of R */
    double length_median, length_999, length_max; /* of W over the levels (of all variables), by O: half, 99.9 % of it at most so long */
    int64_t longest;                  /* row of the level with length_max; -1: none is corrected */
    double mixing;                    /* 1 - sum |O - E| / 2 mass of the first variable: 1 where every level has what is expected */
    int64_t levels, pruned, thin;     /* levels with cells, of all variables; of them left out; corrected on less than one cell's mass */
};

struct uni_type_diagnosis {
    const char *name;
    int64_t cells;
    int64_t levels[UNI_MAX_VARIABLES];            /* levels of each variable with at least UNI_FEWEST of its cells */
    double length_median, length_999;             /* of the correction over its cells */
    double moved;                                 /* of its centre */
    double spread, removed;                       /* before; share of its square that was removed, negative where it grew */
    int64_t nearest;                              /* the type that came closest to it in the groups that have both; -1: none has both */
    double nearest_before, nearest_after;         /* distance of the two types' centres in these groups, less what chance adds */
};

enum uni_finding_kind {
    UNI_SMALL_LEVEL,     /* a level with very few cells */
    UNI_FAR_LEVEL,       /* a level that moved much farther than the others */
    UNI_FAR_CELLS,       /* some cells of a level moved much farther than the rest of it */
    UNI_LEVEL_SHRUNK,    /* a level's own spread shrank: differences between its cells went */
    UNI_LEVEL_TORN,      /* a level's own spread grew: cells that lay together were moved apart */
    UNI_THIN_LEVEL,      /* much of a level is corrected on less than one cell a cluster */
    UNI_LONE_LEVEL,      /* a level, or levels, with no cell type that another one has */
    UNI_LONE_TYPE,       /* a type of one level moved, although no other level says how far */
    UNI_TYPE_SHRUNK,     /* a type's own spread shrank */
    UNI_TYPE_TORN,       /* it grew */
    UNI_TYPES_MERGED     /* two types came much closer within their batches */
};

struct uni_finding {
    enum uni_finding_kind kind;
    const char *name;        /* of the kind, "small_level"; static */
    int64_t row, other;      /* of levels or types; other: the second type, or -1 */
    double value, threshold; /* what was found, and the limit that it passed */
    int64_t more;            /* of this kind that are not listed: after the third, they are only counted here */
    const char *text;        /* a sentence */
};

struct uni_diagnosis {
    int64_t n_cells, n_skipped, n_dims, n_variables, n_levels, n_clusters, n_types, n_findings;
    double length_median, length_rms, length_999, length_max; /* over all cells that take part */
    const struct uni_level_diagnosis *levels;     /* (n_levels) of all variables, those without cells included */
    const struct uni_cluster_diagnosis *clusters; /* (n_clusters); 0: no run, or one that changed nothing */
    const double *observed, *expected, *length;   /* (n_levels, n_clusters) O, E, |W|; NULL with n_clusters 0 */
    const double *lambda;                         /* likewise; 0 where the pair was left out */
    const struct uni_type_diagnosis *types;       /* (n_types) */
    const struct uni_finding *findings;           /* (n_findings) by kind, the worst of each first */
};

/* Looks at a finished run, at an embedding before and after a correction (any correction), or at both. run: or NULL; it must have
   ended, and its tables must be readable. before, after: both or neither; not changed. batches: those of the run. types: a
   cell type for every cell, -1 unknown; or NULL. threads: 0 is the CPUs that this process may use; the numbers do not depend on it.
   The result is freed by uni_diagnosis_close; nothing of the caller's is needed for it. On failure *diagnosis is NULL. Takes at most
   uni_diagnose_bytes while it works: 16 bytes a cell, and tables. */
UNI_API UNI_MUST_USE int uni_diagnose(struct uni_diagnosis **diagnosis, struct uni_harmony *run, const struct uni_matrix *before,
                                      const struct uni_matrix *after, const struct uni_batch *batches, int n_batches,
                                      const struct uni_batch *types, int64_t threads);

/* Most memory that uni_diagnose takes at once; -1: more than can be said. plan: of the run; without one its n_dims, and zeros. */
UNI_API int64_t uni_diagnose_bytes(const struct uni_plan *plan, const struct uni_batch *batches, int n_batches,
                                   const struct uni_batch *types);

/* Frees it. NULL is fine. */
UNI_API void uni_diagnosis_close(struct uni_diagnosis *);

/* ---- scores ------------------------------------------------------------------------------------------------------------- */

/* LISI, the local inverse Simpson's index (Korsunsky et al. 2019): how many levels there are around a cell, weighted by nearness. 1: all its
   neighbours are of one level; the number of levels: they are there in equal parts. For a batch variable (iLISI) high is well mixed, for
   cell types (cLISI) 1 is well kept apart. It is what the authors' R package lisi and harmonypy before 2 compute (harmonypy 2.1 takes one neighbour more): over the floor(3 perplexity) - 1
   nearest other cells, weights proportional to exp(-beta d), d the Euclidean distance, beta by bisection from 1 on until the entropy of
   the weights is within 1e-5 of ln perplexity, in 50 steps at most; then 1 / sum over levels of (sum of their weights)^2.
   The neighbours are exact: by distances in float64 of the values as given, of equally far cells the first. A cell is never its own
   neighbour, its duplicates are. A neighbour without a label is left out and the weights of the others are scaled to sum to 1; a cell
   whose neighbours all lack one has no value, nor has one whose neighbours are so far (1e17 or so) that no beta is found: NaN. */

/* Called in the thread of uni_lisi, some hundred times at most, with the cells that have a value by then, of those that will. */
typedef void (*uni_lisi_progress_fn)(int64_t done, int64_t n_sampled, void *user);

enum { UNI_LISI_WARNING = 400 };

struct uni_lisi_options {
    size_t size;       /* set by uni_lisi_options_init */
    double perplexity; /* > 1. Where floor(3 perplexity) is more than the cells there are, (n_cells - 1) / 3 is used, and the plan has a note */
    int64_t sample;    /* cells to look at, among all cells as neighbours: drawn by the seed, without replacement; 0, or n_cells and more: every cell */
    int64_t seed;
    int64_t threads;   /* 0: the CPUs that this process may use; the result is the same bytes for any number */
    const volatile int *cancel; /* or NULL. Another thread or a signal handler may set it: UNI_STOPPED within milliseconds, with a card when
                                   it has looked for the neighbours of 16,384 cells at most */
    uni_lisi_progress_fn progress; /* or NULL */
    void *progress_user;
    int backend;    /* of enum uni_backend_kind: what goes through all cells for the nearest. The same bytes. auto: a card, if there is
                       one that can do it, and the cells looked at times all cells are 10^9 or more; else, and where the card fails, the CPU */
    int64_t device; /* of several cards the one that backend cuda uses, from 0 */
    char *warning;  /* (UNI_LISI_WARNING) or NULL. uni_lisi writes a sentence where a card is there that auto would have used, and why it
                       could not; else "" */
};

/* Perplexity 30, 20,000 cells, seed 0, backend auto. size: sizeof(struct uni_lisi_options). */
UNI_API void uni_lisi_options_init(struct uni_lisi_options *options, size_t size);

struct uni_lisi_plan {
    int64_t n_cells, n_dims, n_sampled; /* n_sampled: cells that will be looked at */
    int64_t n_neighbours;               /* of each */
    int64_t bytes;                      /* most memory that uni_lisi takes, the caller's own arrays not counted */
    int64_t threads;
    double perplexity;                  /* that will be used */
    char note[200];                     /* why it is another one than asked for; or "" */
};

/* Of one labelling, over the cells looked at that have a value. */
struct uni_lisi_score {
    int64_t n_levels, n_missing, n_values; /* levels with cells, cells without label, cells with a value */
    double mean, median;                   /* NaN: no cell has a value */
    double standard_error;                 /* of the mean, as an estimate of that of all cells; 0 where all were looked at; NaN: one value only */
};

/* Checks options and sizes, and says what uni_lisi would do and take. The embedding's data may be NULL, the labels' levels too. */
UNI_API UNI_MUST_USE int uni_lisi_plan(struct uni_lisi_plan *plan, const struct uni_matrix *embedding, const struct uni_batch *labels,
                                       int n_labels, const struct uni_lisi_options *options);

/* LISI of n_labels labellings at once, which costs hardly more than one. values (n_labels, n_sampled), cells (n_sampled) those
   looked at, in rising order, scores (n_labels); n_sampled as the plan says. Each may be NULL. Nothing of the caller's is kept. On failure
   values is filled with NaN. Embedding: as in uni_open, of 5 cells or more, at most 1,000,000 dimensions. */
UNI_API UNI_MUST_USE int uni_lisi(const struct uni_matrix *embedding, const struct uni_batch *labels, int n_labels,
                                  const struct uni_lisi_options *options, double *values, int64_t *cells, struct uni_lisi_score *scores);

/* ---- backends ----------------------------------------------------------------------------------------------------------- */

struct uni_backend_info {
    const char *name;   /* "cpu" */
    int usable;         /* on this machine */
    char detail[160];   /* "avx512, 2 CPUs", or why not */
};

/* Backend i = 0, 1, ... of this build; returns 0 past the end, else 1. 0 is the CPU; 1 and up are the cuda backend's devices 0 and up, of
   which there is at least the first, usable or not, where the build has that backend. */
UNI_API int uni_backend_at(int i, struct uni_backend_info *info);

#ifdef __cplusplus
}
#endif
#endif
