/* SPDX-License-Identifier: BSD-3-Clause */
/* Does this build compute rightly on this machine? Every backend, and every instruction set of the CPU's, against the closed form
   and a float64 reference. */
#define _GNU_SOURCE
#include "selftest.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "unisono.h"

enum { HELP = 1 };
static const struct argument table[] = {{"help", 'h', HELP, NULL, NULL, NULL, "show this"}, {NULL, 0, 0, NULL, NULL, NULL, NULL}};

enum { ON_CPU = -1 };

/* How far from what is expected a result may be, as a share of the correction. */
static const double MOST_CLOSED_FORM = 1e-5, MOST_SINGLE = 2e-5, MOST_HALF = 5e-4;

void selftest_help(FILE *out)
{
    fprintf(out, "usage: unisono selftest\n\nComputes small problems with every backend and instruction set that this machine "
                 "can run, and holds the\n"
                 "results against the closed form of one cluster and against a float64 reference of the method. Takes some\n"
                 "seconds. Exit status 1, and a sentence, when one is wrong; UNISONO_ISA limits it to one instruction set.\n\n");
    arguments_help(out, table);
}

static int set(void *user, const struct argument *option, const char *value)
{
    if (!option)
        return say_usage("selftest takes no operand, so %s is one too many", value);
    *(int *)user = 1;
    return EXIT_DONE;
}

struct outcome {
    double closed_form, single, half, seconds;
    int same_bytes;
    char name[64];
};

/* One run: out (n,d), block (n). device: of the cuda backend; ON_CPU: none. */
static int run_once(const struct selftest_case *c, int device, enum uni_precision precision, int64_t threads,
                    float *out, int32_t *block, char name[64])
{
    struct uni_options o;
    struct uni_harmony *run = NULL;
    const struct uni_matrix embedding = {.data = c->Z, .dtype = UNI_FLOAT32, .n_cells = c->n, .n_dims = c->d};
    const struct uni_batch batch = {.n_cells = c->n, .n_levels = c->n_levels, .level = c->level};
    uni_options_init(&o, sizeof o);
    o.backend = device == ON_CPU ? UNI_BACKEND_CPU : UNI_BACKEND_CUDA;
    o.device = device == ON_CPU ? 0 : device;
    o.precision = precision;
    o.threads = threads;
    o.max_rounds = c->rounds;
    o.tol = -1;
    o.centroids = c->start;
    o.n_centroids = c->n_clusters;
    int err = uni_open(&run, &embedding, &batch, 1, &o);
    if (!err)
        err = uni_run(run);
    if (!err)
        err = uni_read(run, UNI_CORRECTED, out);
    if (!err)
        err = uni_read(run, UNI_BLOCKS, block);
    if (!err)
        snprintf(name, 64, "%s", uni_summary(run)->backend);
    uni_close(run);
    return err;
}

/* Both cases with one backend. */
static int examine(struct outcome *o, struct selftest_case *one, struct selftest_case *many, int device)
{
    double from = seconds_wall();
    size_t bytes = (size_t)(many->n * many->d) * sizeof(float);
    float *out = malloc(bytes), *again = malloc(bytes);
    int32_t *block = malloc((size_t)many->n * sizeof *block);
    int err = out && again && block ? UNI_OK : UNI_MEMORY;
    if (!err)
        err = run_once(one, device, UNI_SINGLE, 0, out, block, o->name);
    if (!err) {
        o->closed_form = selftest_distance(one, out);
        err = run_once(many, device, UNI_SINGLE, 0, out, block, o->name);
    }
    if (!err) {
        selftest_expect(many, block);
        o->single = selftest_distance(many, out);
        err = run_once(many, device, UNI_HALF, 1, again, block, o->name);
    }
    if (!err)
        err = run_once(many, device, UNI_HALF, 3, out, block, o->name);
    if (!err) {
        o->half = selftest_distance(many, out);
        o->same_bytes = memcmp(out, again, bytes) == 0;
    }
    o->seconds = seconds_wall() - from;
    free(out), free(again), free(block);
    return err;
}

/* Prints a backend's line. Returns EXIT_FAILED after a sentence when it is broken. */
static int test_backend(struct selftest_case *one, struct selftest_case *many, int device, const char *label)
{
    struct outcome o = {0};
    snprintf(o.name, sizeof o.name, "%s", label);
    if (examine(&o, one, many, device))
        return say_failed("backend %s is broken: %s", o.name, uni_last_error());
    int good =
        o.closed_form <= MOST_CLOSED_FORM && o.single <= MOST_SINGLE && o.half <= MOST_HALF && o.same_bytes; /* NaN is not */
    printf("%-14s  %-7s  %11.1e  %9.1e  %7.1e  %-10s  %.2f s\n", o.name, good ? "right" : "WRONG", o.closed_form, o.single,
           o.half, o.same_bytes ? "the same" : "differ", o.seconds);
    if (good)
        return EXIT_DONE;
    if (!o.same_bytes)
        return say_failed("backend %s is broken: one thread and three give different results", o.name);
    return say_failed(
        "backend %s is broken: its result is off by %.1e (closed form; at most %.0e), %.1e (single; at most %.0e) and %.1e "
        "(half; at most %.0e) of the correction",
        o.name, o.closed_form, MOST_CLOSED_FORM, o.single, MOST_SINGLE, o.half, MOST_HALF);
}

/* Every instruction set that this processor has; the user's choice alone where there is one. */
static int test_cpu(struct selftest_case *one, struct selftest_case *many, int *tested)
{
    static const char *const sets[] = {"amx", "avx512", "avx2", "neon", "plain"};
    struct uni_backend_info info;
    int status = EXIT_DONE, chosen = getenv("UNISONO_ISA") != NULL;
    for (size_t i = 0; i < (chosen ? 1 : sizeof sets / sizeof *sets); i++) {
        if (!chosen)
            setenv("UNISONO_ISA", sets[i], 1);
        if (uni_backend_at(0, &info) && info.usable) {
            (*tested)++;
            if (test_backend(one, many, ON_CPU, "cpu") != EXIT_DONE)
                status = EXIT_FAILED;
        } else if (chosen) {
            status = say_failed("backend cpu cannot be used: %s", info.detail);
        }
    }
    if (!chosen)
        unsetenv("UNISONO_ISA");
    return status;
}

static int test_all(struct selftest_case *one, struct selftest_case *many)
{
    struct uni_backend_info info;
    int tested = 0;
    printf("%-14s  %-7s  %11s  %9s  %7s  %-10s\n", "backend", "", "closed form", "single", "half", "threads");
    int status = test_cpu(one, many, &tested);
    for (int i = 1; uni_backend_at(i, &info); i++) {
        if (!info.usable) {
            printf("%-14s  cannot be used here: %s\n", info.name, info.detail);
            continue;
        }
        tested++;
        if (test_backend(one, many, i - 1, info.name) != EXIT_DONE)
            status = EXIT_FAILED;
    }
    if (!tested && status == EXIT_DONE)
        status = say_failed("no backend of this build can be used on this machine");
    return status;
}

int selftest_main(int argc, char **argv)
{
    int help = 0;
    int status = arguments_read(table, argc, argv, set, &help);
    if (status != EXIT_DONE)
        return status;
    if (help) {
        selftest_help(stdout);
        return EXIT_DONE;
    }
    struct selftest_case one, many = {0};
    if (!selftest_case_open(&one, 1) || !selftest_case_open(&many, 30)) {
        selftest_case_close(&one);
        return say_failed("no memory for the self test's cells");
    }
    status = test_all(&one, &many);
    selftest_case_close(&one);
    selftest_case_close(&many);
    return status;
}
