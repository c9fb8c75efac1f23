/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA backend: the seam's operations on one device. What it holds is opened in cuda_open.cu; the kernels are in files of
 * their own. */
#include <string.h>

#include "../method.h"
#include "cuda_backend.h"

static struct uni_cuda *cuda_of(struct uni_backend *b)
{
    return (struct uni_cuda *)b->state;
}

/* Every operation's first line: this thread may be another one than open's, and the caller may want to stop. */
static int begin(struct uni_cuda *c, struct uni_cuda_visit *visit)
{
    if (c->p->cancel && *c->p->cancel)
        return uni_cuda_lib->fail(UNI_STOPPED, "cancelled by the caller");
    return uni_cuda_enter(visit, c->device);
}

static int give_O(struct uni_cuda *c, double *O)
{
    int err = 0;
    if (O)
        TRY(CUDA(cudaMemcpyAsync(O, c->v.O, (size_t)(c->p->G * c->p->K) * sizeof *O, cudaMemcpyDeviceToHost, c->stream)));
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
done:
    return err;
}

/* What the passes of the warpgroups divide by. */
static int know_scales(struct uni_cuda *c)
{
    int err = 0;
    if (!c->hopper || c->v.damped || c->scales_known)
        return UNI_OK;
    TRY(uni_cuda_row_scales(c, c->stream));
    c->scales_known = 1;
done:
    return err;
}

static int clear_moments(struct uni_cuda *c)
{
    int err = 0;
    c->moments_made = 0;
    if (c->S_clear)
        return UNI_OK;
    TRY(c->hopper ? uni_cuda_clear_moments(c, c->stream)
                  : CUDA(cudaMemsetAsync(c->v.S, 0, (size_t)(c->p->G * c->p->K * c->p->D) * sizeof *c->v.S, c->stream)));
    c->S_clear = 1;
done:
    return err;
}

static int make_moments(struct uni_cuda *c, int fit)
{
    int err = 0;
    if (c->moments_made)
        return UNI_OK;
    TRY(clear_moments(c));
    TRY(know_scales(c));
    c->S_clear = 0;
    TRY(c->hopper    ? uni_cuda_hopper_moments(c, fit, c->stream)
        : c->fast.kt ? uni_cuda_moments_fast(c, fit, c->stream)
                     : uni_cuda_moments_plain(c, c->stream));
    c->moments_made = 1;
done:
    return err;
}

/* The last of a round's: its moments begin while the host looks at the answer. */
static int give_fit(struct uni_cuda *c, struct uni_fit *fit, double *diversity, int last)
{
    int err = 0;
    double *result = (double *)c->pinned;
    TRY(CUDA(cudaMemcpyAsync(result, c->v.result, RESULTS * sizeof *result, cudaMemcpyDeviceToHost, c->stream)));
    TRY(CUDA(cudaEventRecord(c->answer, c->stream)));
    if (last)
        TRY(make_moments(c, 0));
    TRY(CUDA(cudaEventSynchronize(c->answer)));
    fit->entropy = result[RESULT_ENTROPY];
    fit->distance = result[RESULT_TOTAL] - result[RESULT_ENTROPY];
    *diversity = result[RESULT_DIVERSITY];
done:
    return err;
}

size_t uni_cuda_W_bytes(const struct uni_cuda *c)
{
    return (size_t)((c->v.V > 1 ? c->p->B : c->p->G) * c->p->K * c->p->D) * sizeof(float);
}

enum { NOT_PACKED, FRAGMENTS, ROWS }; /* W_fragments: of assign_fast; of hopper_assign */

static int layout_of_assign(const struct uni_cuda *c)
{
    return c->hopper ? ROWS : FRAGMENTS;
}

static int pack_W(struct uni_cuda *c, const float *W, int layout)
{
    int err = layout == ROWS ? uni_cuda_hopper_pack(c, W, 0, c->stream) : uni_cuda_pack_W(c, W, c->stream);
    c->packed = err ? (int)NOT_PACKED : layout;
    return err;
}

static int pack_Y(const struct uni_cuda *c)
{
    return c->hopper    ? uni_cuda_hopper_pack(c, NULL, 1, c->stream)
           : c->fast.kt ? uni_cuda_pack_Y(c, c->stream)
                        : uni_cuda_turn_Y(c, c->stream);
}

static int take_shift(struct uni_cuda *c, const struct uni_shift *shift, int layout)
{
    int err = 0;
    const float *W = shift ? shift->W : NULL;
    c->step = shift ? (float)shift->step : 1;
    if (W && W != UNI_KEPT) {
        TRY(CUDA(cudaMemcpyAsync(c->v.W[c->W_now], W, uni_cuda_W_bytes(c), cudaMemcpyHostToDevice, c->stream)));
        c->packed = NOT_PACKED;
    }
    if (W && c->fast.kt && c->packed != layout)
        TRY(pack_W(c, c->v.W[c->W_now], layout));
done:
    return err;
}

static int take_Y(struct uni_cuda *c, const float *Y)
{
    int err = 0;
    size_t bytes = (size_t)(c->p->K * c->p->D) * sizeof *Y;
    float *pinned = (float *)((double *)c->pinned + RESULTS);
    if (c->Y_known && memcmp(pinned, Y, bytes) == 0) /* those of the last solve are there, and packed */
        return UNI_OK;
    c->Y_known = 0;
    TRY(CUDA(cudaStreamSynchronize(c->stream))); /* an earlier copy may still read there */
    memcpy(pinned, Y, bytes);
    TRY(CUDA(cudaMemcpyAsync(c->v.Y, pinned, bytes, cudaMemcpyHostToDevice, c->stream)));
    TRY(pack_Y(c));
done:
    return err;
}

/* After it nothing but assign can follow. */
static int clear_tables(struct uni_cuda *c)
{
    int err = c->tables_clear ? UNI_OK : uni_cuda_clear_tables(c, c->stream);
    c->tables_clear = !err;
    return err;
}

static int cuda_assign(struct uni_backend *b, double *O, struct uni_fit *fit, const struct uni_shift *shift, const float *Y)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda *c = cuda_of(b);
    struct uni_cuda_pass pass = {};
    pass.to = (uint32_t)c->v.tiles;
    pass.corrected = shift != NULL;
    pass.fit = fit != NULL;
    int blocks = c->fast.kt ? c->cores : 2 * c->cores;
    TRY(begin(c, &visit));
    TRY(take_shift(c, shift, layout_of_assign(c)));
    TRY(take_Y(c, Y));
    TRY(clear_tables(c));
    c->tables_clear = 0;
    if (shift)
        TRY(know_scales(c));
    TRY(c->hopper    ? uni_cuda_hopper_assign(c, &pass, c->stream)
        : c->fast.kt ? uni_cuda_assign_fast(c, &pass, blocks, c->stream)
                     : uni_cuda_assign_plain(c, &pass, blocks, c->stream));
    c->sweeps = c->moments_made = c->scales_known = 0;
    c->v.recipe.n = 1;
    c->v.recipe.share[0] = 1;
    TRY(uni_cuda_start_tables(c, c->stream));
    if (O || fit)
        TRY(uni_cuda_end_tables(c, fit ? blocks : 0, 1, 0, c->stream));
    if (fit)
        TRY(give_fit(c, fit, &b->diversity, 0));
    if (O)
        TRY(give_O(c, O));
done:
    return err;
}

/* The objective needs R once more: of a round's last sweep it is made with the moments, for which R is made anyway. */
static int damped_sweep(struct uni_cuda *c, int fit, int64_t sweeps, int terms)
{
    int err = 0, with_moments = fit && !terms && c->fast.kt && c->sweeps == c->p->sweeps;
    TRY(uni_cuda_damped_sweeps(c, sweeps));
    if (with_moments)
        TRY(make_moments(c, 1));
    else if (fit)
        TRY(uni_cuda_damped_fit(c, terms, c->stream));
    TRY(uni_cuda_end_tables(c,
                            with_moments ? (c->hopper ? uni_cuda_hopper_moments_blocks(c) : uni_cuda_moments_blocks(c))
                            : fit        ? uni_cuda_fit_blocks(c)
                                         : 0,
                            !with_moments, 0, c->stream));
done:
    return err;
}

static int cuda_sweep(struct uni_backend *b, double *O, struct uni_fit *fit, int64_t sweeps, int terms)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda *c = cuda_of(b);
    TRY(begin(c, &visit));
    c->moments_made = 0;
    c->sweeps += sweeps;
    if (c->v.damped) {
        TRY(damped_sweep(c, fit != NULL, sweeps, terms));
    } else {
        TRY(uni_cuda_sweeps(c, sweeps, !fit ? 0 : c->one_sigma ? 1 : 2));
        c->scales_known = fit && sweeps > 0;
        if (fit && terms)
            TRY(uni_cuda_entropy(c, c->stream));
        TRY(uni_cuda_end_tables(c, fit ? c->v.Q * c->v.grid : 0, 0, terms, c->stream));
    }
    if (fit)
        TRY(give_fit(c, fit, &b->diversity, c->sweeps == c->p->sweeps));
    if (O)
        TRY(give_O(c, O));
done:
    return err;
}

static int cuda_moments(struct uni_backend *b, double *S, const unsigned char *part)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda *c = cuda_of(b);
    const struct uni_problem *p = c->p;
    int64_t rows = p->by_level ? p->B + 1 : p->G;
    size_t bytes = (size_t)(rows * p->K * p->D) * sizeof *S;
    long long *from = p->by_level ? c->v.level_S : c->v.S;
    TRY(begin(c, &visit));
    TRY(make_moments(c, 0));
    if (p->by_level) {
        TRY(CUDA(cudaMemcpyAsync(c->v.takes_part, part, (size_t)(p->G * p->K), cudaMemcpyHostToDevice, c->stream)));
        TRY(CUDA(cudaMemsetAsync(c->v.level_S, 0, bytes, c->stream)));
        TRY(uni_cuda_moments_by_level(c, c->stream));
    }
    TRY(uni_cuda_moments_to_double(c, from, rows, c->stream));
    c->moments_made = 0;
    TRY(CUDA(cudaMemcpyAsync(S, from, bytes, cudaMemcpyDeviceToHost, c->stream)));
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
done:
    return err;
}

static int know_lambda(struct uni_cuda *c, const struct uni_ridge *ridge)
{
    int err = 0;
    if (c->lambda_known)
        return UNI_OK;
    for (int64_t g = 0; g < c->p->G; g++)
        TRY(CUDA(cudaMemcpyAsync(c->v.lambda + g, ridge->lambda + c->p->group_level[g], sizeof(double), cudaMemcpyHostToDevice,
                                 c->stream)));
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
    c->lambda_known = 1;
done:
    return err;
}

/* What the next round begins with, while the host looks at the answer. */
static int prepare_assign(struct uni_cuda *c)
{
    int err = 0;
    const float *W = c->v.W[c->W_now ^ 1];
    c->Y_known = 0;
    c->packed = NOT_PACKED;
    if (c->hopper) {
        TRY(uni_cuda_hopper_pack(c, W, 1, c->stream));
        c->packed = ROWS;
    } else {
        if (c->fast.kt)
            TRY(pack_W(c, W, FRAGMENTS));
        TRY(pack_Y(c));
    }
    TRY(clear_tables(c));
    if (!c->degenerate) /* else the library may ask for the moments once more */
        TRY(clear_moments(c));
done:
    return err;
}

static int cuda_solve(struct uni_backend *b, struct uni_ridge *ridge, float *Y, int *solved)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda *c = cuda_of(b);
    double *result = (double *)c->pinned;
    float *centroids = (float *)(result + RESULTS);
    size_t bytes = (size_t)(c->p->K * c->p->D) * sizeof *Y;
    *solved = 0;
    TRY(begin(c, &visit));
    if (c->v.V > 1) /* the library does */
        return UNI_OK;
    TRY(know_lambda(c, ridge));
    TRY(make_moments(c, 0));
    TRY(uni_cuda_ridge(c, ridge->alpha, ridge->cutoff, c->stream));
    TRY(CUDA(cudaMemcpyAsync(result, c->v.result, RESULTS * sizeof *result + bytes, cudaMemcpyDeviceToHost, c->stream)));
    TRY(CUDA(cudaEventRecord(c->answer, c->stream)));
    TRY(prepare_assign(c));
    TRY(CUDA(cudaEventSynchronize(c->answer)));
    *solved = result[RESULT_DEGENERATE] == 0;
    if (!*solved) {
        c->packed = NOT_PACKED;
        c->degenerate = 1;
        return UNI_OK;
    }
    ridge->change = result[RESULT_CHANGE];
    ridge->pruned_pairs = (int64_t)result[RESULT_PRUNED];
    ridge->skipped_clusters = (int64_t)result[RESULT_SKIPPED];
    memcpy(Y, centroids, bytes);
    c->Y_known = 1;
    c->W_now ^= 1;
done:
    return err;
}

static int cuda_tables(struct uni_backend *b, double *O, float *W)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda *c = cuda_of(b);
    TRY(uni_cuda_enter(&visit, c->device));
    if (W)
        TRY(CUDA(cudaMemcpyAsync(W, c->v.W[c->W_now], uni_cuda_W_bytes(c), cudaMemcpyDeviceToHost, c->stream)));
    TRY(give_O(c, O));
done:
    return err;
}

static int cuda_read(struct uni_backend *b, enum uni_cells what, const struct uni_shift *shift, void *dst)
{
    int err = 0;
    struct uni_cuda_visit visit;
    struct uni_cuda *c = cuda_of(b);
    TRY(begin(c, &visit));
    TRY(take_shift(c, shift, FRAGMENTS));
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
    TRY(uni_cuda_rows_out(c, what, shift != NULL, dst));
done:
    return err;
}

static int cuda_nearest(struct uni_backend *b, int32_t *index, float *score, double *sum, int64_t *count, int wanted,
                        const struct uni_rows *rows, const float *Y, int64_t n)
{
    struct uni_cuda_visit visit;
    int err = begin(cuda_of(b), &visit);
    return err ? err : uni_cuda_nearest(b, index, score, sum, count, wanted, rows, Y, n);
}

void uni_cuda_operations(struct uni_backend *b)
{
    b->open = uni_cuda_open;
    b->bytes = uni_cuda_bytes;
    b->nearest = cuda_nearest;
    b->assign = cuda_assign;
    b->sweep = cuda_sweep;
    b->moments = cuda_moments;
    b->solve = cuda_solve;
    b->tables = cuda_tables;
    b->read = cuda_read;
    b->each = uni_cuda_each;
    b->close = uni_cuda_close;
}
