/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole runs on the card: beside the CPU backend from the same start, beside the closed form, and for the same bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_check.h"

/* The corrected embedding, and the last objective. */
static double *run_whole(const struct bench *n, enum uni_backend_kind kind, int64_t rounds, const float *start, float **start_out,
                         double *objective)
{
    const struct uni_summary *s;
    struct uni_harmony *h = NULL;
    struct uni_options o = n->options;
    int64_t ND = n->made.n * n->made.d, shape[3];
    float *Z = malloc((size_t)ND * 4);
    double *wide = malloc((size_t)ND * 8);
    o.backend = kind;
    o.max_rounds = rounds;
    o.tol = -1;
    if (start) {
        o.centroids = start;
        o.n_centroids = o.n_clusters;
    }
    poison(Z, ND * 4);
    must("whole run", "open, run, read",
         uni_open(&h, &n->matrix, n->batch, n->variables, &o) || uni_run(h) || uni_read(h, UNI_CORRECTED, Z));
    if (h && start_out && uni_shape(h, UNI_START, shape) == UNI_OK) {
        *start_out = malloc((size_t)(shape[0] * shape[1]) * 4);
        must("whole run", "start", uni_read(h, UNI_START, *start_out));
    }
    for (int64_t i = 0; i < ND; i++)
        wide[i] = Z[i];
    s = h ? uni_summary(h) : NULL;
    *objective = s && s->n_objectives > 0 ? s->objectives[s->n_objectives - 1].total : NAN;
    if (s && s->n_objectives > 0 && kind == UNI_BACKEND_CUDA && n->made.n < 2000) {
        must("whole run", "shape", uni_shape(h, UNI_EXPECTED, shape));
        double *E = malloc(sizeof *E * (size_t)(shape[0] * shape[1]));
        must("whole run", "expected", uni_read(h, UNI_EXPECTED, E));
        free(E);
    }
    uni_close(h);
    free(Z);
    return wide;
}

void check_whole(const struct shape *s, int64_t rounds)
{
    struct bench n;
    double cpu, cuda;
    float *start = NULL;
    bench_open(&n, s);
    double *a = run_whole(&n, UNI_BACKEND_CPU, rounds, NULL, &start, &cpu),
           *b = run_whole(&n, UNI_BACKEND_CUDA, rounds, start, NULL, &cuda);
    double difference = 0, size = 0, worst = 0;
    for (int64_t i = 0; i < s->n * s->d; i++) {
        double z = a[i] - n.made.Z[i], x = b[i] - a[i];
        difference += x * x;
        size += z * z;
        worst = fmax(worst, fabs(x));
    }
    printf("  %-40s cpu and cuda apart by %.2e of the correction, worst entry %.1e\n", s->name, sqrt(difference / size), worst);
    expect(s->name, "correction beside the CPU's", isnan(difference) ? HUGE_VAL : sqrt(difference / size),
           s->single ? 1e-5 : 5e-5);
    expect(s->name, "objective beside the CPU's", fabs(cuda / cpu - 1), 5e-5); /* of terms that cancel */
    free(a), free(b), free(start);
    bench_close(&n);
}

/* With one cluster, automatic lambda: z - (m_level - m_all) / (1 + alpha), m_all the mean of all cells. */
void check_closed_form(int single, int damped)
{
    struct shape s = {"closed form", 5000, 19, 1, 7, .skew = 2, .single = single, .damped = damped};
    struct bench n;
    double objective;
    bench_open(&n, &s);
    double *z = run_whole(&n, UNI_BACKEND_CUDA, 1, NULL, NULL, &objective), difference = 0, size = 0;
    double *mean = calloc((size_t)(8 * s.d), 8), cells[8] = {0};
    for (int64_t i = 0; i < s.n; i++) {
        int64_t l = n.made.level[i];
        cells[l]++;
        for (int64_t j = 0; j < s.d; j++) {
            mean[l * s.d + j] += n.made.Z[i * s.d + j];
            mean[7 * s.d + j] += n.made.Z[i * s.d + j];
        }
    }
    for (int64_t i = 0; i < s.n; i++)
        for (int64_t j = 0; j < s.d; j++) {
            int64_t l = n.made.level[i];
            double shift = (mean[l * s.d + j] / cells[l] - mean[7 * s.d + j] / (double)s.n) / 1.2,
                   x = z[i * s.d + j] - (n.made.Z[i * s.d + j] - shift);
            difference += x * x;
            size += shift * shift;
        }
    expect(s.name, single ? "single" : "half", isnan(difference) ? HUGE_VAL : sqrt(difference / size), 1e-5);
    free(z), free(mean);
    bench_close(&n);
}

void check_same_bytes(const struct shape *s, int times)
{
    struct bench n;
    double objective;
    bench_open(&n, s);
    double *first = run_whole(&n, UNI_BACKEND_CUDA, 5, NULL, NULL, &objective);
    for (int i = 1; i < times; i++) {
        double *again = run_whole(&n, UNI_BACKEND_CUDA, 5, NULL, NULL, &objective);
        expect(s->name, "same bytes again", memcmp(first, again, (size_t)(s->n * s->d) * 8) != 0, 0);
        free(again);
    }
    free(first);
    bench_close(&n);
}

/* Free memory of the card for each of the three ways: between what one and the next take. */
static void limits_of(int64_t limit[3], const struct bench *n)
{
    struct uni_plan plan;
    struct uni_options o = n->options;
    int64_t takes[3];
    char text[32];
    o.backend = UNI_BACKEND_CUDA;
    for (int i = 0; i < 3; i++) {
        must("a small card", "plan", uni_plan(&plan, n->made.n, n->made.d, n->batch, n->variables, &o));
        takes[i] = plan.bytes_card;
        limit[i] = i == 0 ? takes[0] : (takes[i - 1] + takes[i]) / 2;
        expect("a small card", "less of the card", i > 0 && takes[i] >= takes[i - 1], 0);
        expect("a small card", "is told", (i > 0) != (strstr(plan.note, "PCIe") != NULL), 0);
        snprintf(text, sizeof text, "%lld", (long long)takes[i] - 1);
        setenv("UNISONO_CUDA_MEMORY", text, 1);
    }
    expect("a small card", "is refused", uni_plan(&plan, n->made.n, n->made.d, n->batch, n->variables, &o) != UNI_MEMORY, 0);
    unsetenv("UNISONO_CUDA_MEMORY");
}

void check_ways(const struct shape *s)
{
    struct bench n;
    char text[32];
    double objective, other;
    int64_t limit[3];
    bench_open(&n, s);
    limits_of(limit, &n);
    double *first = run_whole(&n, UNI_BACKEND_CUDA, 5, NULL, NULL, &objective);
    for (int i = 1; i < 3; i++) {
        snprintf(text, sizeof text, "%lld", (long long)limit[i]);
        setenv("UNISONO_CUDA_MEMORY", text, 1);
        double *again = run_whole(&n, UNI_BACKEND_CUDA, 5, NULL, NULL, &other);
        expect(s->name, i == 1 ? "Z on the host, same bytes" : "Z and base on the host, same bytes",
               memcmp(first, again, (size_t)(s->n * s->d) * 8) != 0 || memcmp(&objective, &other, 8) != 0, 0);
        free(again);
    }
    unsetenv("UNISONO_CUDA_MEMORY");
    free(first);
    bench_close(&n);
}
