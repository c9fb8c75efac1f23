/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface on small data and any options. A call that succeeds leaves finite numbers, rows of R that sum to 1 or 0, and
   blocks in range; one that fails has a sentence; and nothing takes longer than run allows. Whether the numbers are right is what
   the oracle's tests ask. */
#include <math.h>

#include "fuzzing.h"
#include "unisono.h"

enum { MOST_CELLS = 120, MOST_DIMS = 9, VARIABLES = 3 };

static double number(struct choices *c)
{
    static const double odd[] = {0,     -1,  1e-30, 1e30,  NAN,    INFINITY, -INFINITY, 1e-3,
                                 1e-12, 0.5, 2,     1e300, -1e300, 1e-310,   3,         100};
    unsigned byte = byte_of(c);
    return byte < 16 ? odd[byte] : byte < 128 ? (byte - 16) / 32.0 : (double)(byte - 128);
}

/* Options of the table by their texts: all there are, and what will come. */
static void set_options(struct choices *c, struct uni_options *options)
{
    static const char *const texts[] = {"",    "auto", "-1",      "0",   "1",   "2",  "nan", "inf",
                                        "0.5", "1,2",  "2,1,0.5", "1e9", "yes", "no", "7",   "1e-9"};
    int count = 0;
    while (uni_option_at(count))
        count++;
    for (unsigned n = pick(c, 8); n > 0; n--) {
        const struct uni_option *option = uni_option_at((int)pick(c, (unsigned)count));
        char text[64], back[256];
        unsigned how = byte_of(c);
        if (option->kind == UNI_KIND_CHOICE && how < 224) {
            const char *at = option->choices;
            for (unsigned k = how % 4; k > 0 && strchr(at, '|'); k--)
                at = strchr(at, '|') + 1;
            snprintf(text, sizeof text, "%.*s", (int)strcspn(at, "|"), at);
        } else if (how < 128) {
            snprintf(text, sizeof text, option->kind == UNI_KIND_INT ? "%.0f" : "%g", number(c));
        } else {
            snprintf(text, sizeof text, "%s", texts[how % 16]);
        }
        /* What takes as long as it is told to, and which device is there, are not the question. */
        if (!strcmp(option->name, "backend") || (!strcmp(option->name, "threads") && strlen(text) > 1))
            continue;
        if (uni_options_set(options, option->name, text) != UNI_OK)
            REQUIRE(uni_last_error()[0]);
        REQUIRE(uni_options_get(options, option->name, back, sizeof back) == UNI_OK && strlen(back) < sizeof back);
    }
    options->max_rounds = options->max_rounds > 6 ? 6 : options->max_rounds;
    options->sweeps = options->sweeps > 8 ? 8 : options->sweeps;
}

/* What the setters do not let through. */
static void set_fields(struct choices *c, struct uni_options *options)
{
    int64_t *const whole[] = {&options->n_clusters, &options->window, &options->seed,     &options->threads,
                              &options->theta.n,    &options->tau.n,  &options->lambda.n, &options->max_rounds};
    double *const real[] = {&options->sigma,     &options->alpha,      &options->cutoff,         &options->tol,
                            &options->sweep_tol, &options->block_size, &options->theta.value[0], &options->lambda.value[1]};
    static const int64_t odd[] = {-1, 0, 3, 9, INT32_MAX, INT64_MAX, INT64_MIN, 2};
    for (unsigned n = seldom(c, 4); n > 0; n--) {
        if (pick(c, 2))
            *real[pick(c, 8)] = number(c);
        else
            *whole[pick(c, 8)] = odd[pick(c, 8)];
    }
    if (options->max_rounds > 6)
        options->max_rounds = 6;
    if (options->threads > 3)
        options->threads = 3;
}

static float values[MOST_CELLS * MOST_DIMS];
static int32_t levels[VARIABLES][MOST_CELLS];

static void make_values(struct choices *c, int64_t count, int64_t n_dims)
{
    static const double scales[] = {1, 1e-25, 1e25, 1e-38, 1e38, 1e6, 1e-6, 100};
    unsigned shape = pick(c, 6), seed = byte_of(c);
    double scale = scales[seldom(c, 8)];
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1103515245u + 12345u;
        double value = (double)(seed >> 16 & 1023) / 512 - 1 + ((i / n_dims) % 5 == i % n_dims);
        value = shape == 1 ? 1 : shape == 2 && (i / n_dims) % 3 == 0 ? 0 : shape == 3 ? (double)((i / n_dims) % 4) : value;
        values[i] = (float)(value * scale);
    }
    for (unsigned n = seldom(c, 3); n > 0; n--)
        values[(byte_of(c) << 8 | byte_of(c)) % count] = (float)number(c);
}

static void read_all(struct uni_harmony *run, int status)
{
    for (int what = UNI_CORRECTED; what <= UNI_SLOPES; what++) {
        int64_t shape[3];
        if (uni_shape(run, (enum uni_array)what, shape))
            continue;
        int64_t count = io_product(io_product(shape[0], shape[1]), shape[2]);
        double *dst = io_room(count, sizeof *dst); /* of the widest type */
        REQUIRE(dst && shape[0] >= 0 && shape[1] >= 0 && shape[2] >= 0);
        int err = uni_read(run, (enum uni_array)what, dst);
        int is_float = what <= UNI_START || what == UNI_CORRECTION || what == UNI_SLOPES;
        for (int64_t i = 0; i < count && !err && status == UNI_OK && what != UNI_BLOCKS; i++) {
            double value = is_float ? (double)((float *)(void *)dst)[i] : dst[i];
            if (!isfinite(value))
                fprintf(stderr, "array %d, element %lld of %lld x %lld x %lld is %g\n", what, (long long)i, (long long)shape[0],
                        (long long)shape[1], (long long)shape[2], value);
            REQUIRE(isfinite(value));
        }
        for (int64_t i = 0; what == UNI_ASSIGNMENTS && !err && status == UNI_OK && i < shape[0]; i++) {
            double sum = 0;
            for (int64_t k = 0; k < shape[1]; k++)
                sum += (double)((float *)(void *)dst)[i * shape[1] + k];
            REQUIRE(sum == 0 || fabs(sum - 1) < 1e-3);
        }
        free(dst);
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    struct choices c = {data, data + size};
    struct uni_options options;
    struct uni_batch batches[VARIABLES];
    struct uni_harmony *run = NULL;
    struct uni_plan plan;
    uni_options_init(&options, sizeof options);
    options.threads = 1;
    options.force = 1;
    options.max_rounds = 3;
    int n_batches = 1 + (int)seldom(&c, VARIABLES);
    int64_t n_cells = 2 + byte_of(&c) % (MOST_CELLS - 1), n_dims = 1 + pick(&c, MOST_DIMS);
    n_cells = n_cells > MOST_CELLS ? MOST_CELLS : n_cells;
    make_values(&c, n_cells * n_dims, n_dims);
    for (int v = 0; v < n_batches; v++) {
        int32_t n_levels = 1 + (int32_t)pick(&c, 8), turn = 1 + (int32_t)pick(&c, 5), missing = (int32_t)seldom(&c, 8);
        for (int64_t i = 0; i < n_cells; i++)
            levels[v][i] = missing && i % 9 == missing ? -1 : (int32_t)((i / turn + i % 3) % n_levels);
        if (seldom(&c, 16) == 15)
            levels[v][0] = (int32_t)byte_of(&c) - 4;
        batches[v] = (struct uni_batch){NULL, seldom(&c, 16) == 15 ? n_cells + 1 : n_cells, n_levels + (int64_t)seldom(&c, 3),
                                        levels[v], NULL};
    }
    set_options(&c, &options);
    set_fields(&c, &options);
    struct uni_matrix matrix = {values, UNI_FLOAT32, n_cells, n_dims, 0, 0};
    if (uni_plan(&plan, n_cells, n_dims, batches, n_batches, &options) == UNI_OK)
        REQUIRE(plan.bytes >= plan.bytes_open && plan.bytes_open >= 0);
    else
        REQUIRE(uni_last_error()[0]);
    int status = uni_open(&run, &matrix, batches, n_batches, &options);
    if (status == UNI_OK) {
        status = uni_run(run);
        REQUIRE(status == UNI_OK || uni_last_error()[0]);
        read_all(run, status);
    } else {
        REQUIRE(!run && uni_last_error()[0]);
    }
    uni_close(run);
    return 0;
}
