/* SPDX-License-Identifier: BSD-3-Clause */
/* How the cells are cut for the device: pieces, tiles of 16 rows for the passes, batches of rows for the steps of a sweep. The
   cut depends on the problem and on the card's multiprocessors alone. */
#include <stdlib.h>
#include <string.h>

#include "cuda_backend.h"

static int64_t piece_rows(const struct uni_problem *p, int64_t g, int64_t q)
{
    return p->piece[g * p->Q + q + 1] - p->piece[g * p->Q + q];
}

/* Their tables lie in shared memory. */
int uni_cuda_batch_pieces(const struct uni_problem *p)
{
    return p->K <= 512 ? BATCH_PIECES : BATCH_PIECES / 2;
}

int64_t uni_cuda_batch_bound(const struct uni_problem *p, int64_t pieces, int grid)
{
    return pieces / uni_cuda_batch_pieces(p) + p->N / (WARP_ROWS * STEP_WARPS) + p->Q * 2 * (grid + 1) + 1;
}

static int64_t count_pieces(const struct uni_problem *p, int64_t *tiles)
{
    int64_t pieces = 0;
    *tiles = 0;
    for (int64_t i = 0; i < p->G * p->Q; i++) {
        int64_t n = p->piece[i + 1] - p->piece[i];
        pieces += n > 0;
        *tiles += (n + TILE - 1) / TILE;
    }
    return pieces;
}

/* Pieces by (block, group), each with the one before it in its group's turn: the last one comes before the first. */
static int make_pieces(struct uni_cuda_lists *l, const struct uni_problem *p)
{
    int next = 0;
    int *first = (int *)malloc((size_t)p->G * sizeof *first);
    if (!first)
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory for %lld groups of cells", (long long)p->G);
    for (int64_t g = 0; g <= p->G; g++)
        l->group_last[g] = -1;
    for (int64_t q = 0; q < p->Q; q++) {
        uint32_t before = 0;
        l->block_piece[q] = next;
        for (int64_t g = 0; g < p->G; g++) {
            int32_t level = p->group_level[g * p->V];
            int64_t n = piece_rows(p, g, q);
            if (n == 0)
                continue;
            struct uni_cuda_piece *piece = &l->piece[next];
            memset(piece, 0, sizeof *piece);
            piece->row = (uint32_t)p->piece[g * p->Q + q];
            piece->n = (uint32_t)n;
            piece->before = before;
            piece->previous = l->group_last[g];
            piece->group = (int32_t)g;
            piece->block = (int32_t)q;
            piece->theta = (float)p->level_theta[level];
            piece->share = p->level_share[level];
            if (l->group_last[g] < 0)
                first[g] = next;
            l->group_last[g] = next++;
            before += (uint32_t)n;
        }
    }
    l->block_piece[p->Q] = next;
    for (int64_t g = 0; g < p->G; g++)
        l->piece[first[g]].previous = l->group_last[g];
    for (int64_t q = 0; q < p->Q; q++) { /* r: one part a block */
        struct uni_cuda_piece *piece = &l->piece[next + q];
        memset(piece, 0, sizeof *piece);
        piece->previous = next + (int)(q == 0 ? p->Q - 1 : q - 1);
        piece->group = (int32_t)p->G;
        piece->block = (int32_t)q;
    }
    l->group_last[p->G] = next + (int)p->Q - 1;
    free(first);
    return UNI_OK;
}

static int make_tiles(struct uni_cuda_lists *l, const struct uni_problem *p)
{
    int64_t at = 0;
    int *next = (int *)malloc((size_t)p->Q * sizeof *next); /* of each block, the next group's piece */
    if (!next)
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory for %lld blocks of cells", (long long)p->Q);
    memcpy(next, l->block_piece, (size_t)p->Q * sizeof *next);
    for (int64_t g = 0; g < p->G; g++) {
        l->group_tile[g] = (uint32_t)at;
        for (int64_t q = 0; q < p->Q; q++) {
            int64_t n = piece_rows(p, g, q), row = p->piece[g * p->Q + q];
            int piece = n > 0 ? next[q]++ : 0;
            for (int64_t i = 0; i < n; i += TILE) {
                int64_t rows = n - i < TILE ? n - i : TILE;
                l->tile[at++] = {(uint32_t)(row + i), (uint32_t)piece << 5 | (uint32_t)rows};
            }
        }
    }
    l->group_tile[p->G] = (uint32_t)at;
    free(next);
    return UNI_OK;
}

/* A share's rows in batches that fit a block of threads; the first is in its place in the list, the others are appended. */
static int64_t cut_share(struct uni_cuda_lists *l, int piece, int end, int64_t from, int64_t to, int64_t first, int64_t at)
{
    struct uni_cuda_batch *b = &l->batch[first];
    *b = {0, 0, 0, 0, -1, 0};
    while (from < to) {
        while (from >= (int64_t)l->piece[piece].before + l->piece[piece].n)
            piece++;
        int pieces = 1;
        int64_t last = to - from < WARP_ROWS * STEP_WARPS ? to : from + WARP_ROWS * STEP_WARPS;
        while (pieces < l->batch_pieces && piece + pieces < end && (int64_t)l->piece[piece + pieces].before < last)
            pieces++;
        int64_t held = (int64_t)l->piece[piece + pieces - 1].before + l->piece[piece + pieces - 1].n;
        last = last < held ? last : held;
        if (b->pieces > 0) {
            b->next = (int32_t)at;
            b = &l->batch[at++];
        }
        *b = {(uint32_t)from, (uint32_t)last, piece, pieces, -1, 0};
        int64_t rows = (last - from + STEP_WARPS - 1) / STEP_WARPS + TILE; /* a warp's are whole chunks, of TILE rows at most */
        l->step_rows = rows > l->step_rows ? rows : l->step_rows;
        from = last;
    }
    return at;
}

/* A block's rows in equal shares for the grid. */
static int64_t cut_block(struct uni_cuda_lists *l, int64_t q, int grid, int64_t at)
{
    int piece = l->block_piece[q], end = l->block_piece[q + 1];
    int64_t rows = piece < end ? (int64_t)l->piece[end - 1].before + l->piece[end - 1].n : 0;
    for (int c = 0; c < grid; c++) {
        int64_t from = rows * c / grid, to = rows * (c + 1) / grid;
        while (from < to && from >= (int64_t)l->piece[piece].before + l->piece[piece].n)
            piece++;
        at = cut_share(l, piece, end, from, to, q * grid + c, at);
    }
    return at;
}

int uni_cuda_lists_open(struct uni_cuda_lists *l, const struct uni_problem *p, int grid)
{
    int err = 0;
    memset(l, 0, sizeof *l);
    l->pieces = count_pieces(p, &l->tiles);
    l->batch_pieces = uni_cuda_batch_pieces(p);
    if (p->N > (int64_t)1 << 30 || l->pieces + p->Q > (int64_t)1 << 27)
        return uni_cuda_lib->fail(UNI_INPUT,
                                  "%lld cells in %lld pieces: the cuda backend takes 2^30 cells in 2^27 pieces; use backend cpu",
                                  (long long)p->N, (long long)l->pieces);
    l->batches = uni_cuda_batch_bound(p, l->pieces, grid);
    l->piece = (struct uni_cuda_piece *)malloc((size_t)(l->pieces + p->Q) * sizeof *l->piece);
    l->tile = (struct uni_cuda_tile *)malloc((size_t)l->tiles * sizeof *l->tile);
    l->group_tile = (uint32_t *)malloc((size_t)(p->G + 1) * sizeof *l->group_tile);
    l->batch = (struct uni_cuda_batch *)malloc((size_t)l->batches * sizeof *l->batch);
    l->block_piece = (int *)malloc((size_t)(p->Q + 1) * sizeof *l->block_piece);
    l->group_last = (int *)malloc((size_t)(p->G + 1) * sizeof *l->group_last);
    if (!l->piece || !l->tile || !l->group_tile || !l->batch || !l->block_piece || !l->group_last)
        TRY(uni_cuda_lib->fail(UNI_MEMORY, "no memory for the lists of %lld tiles and %lld pieces of cells", (long long)l->tiles,
                               (long long)l->pieces));
    TRY(make_pieces(l, p));
    TRY(make_tiles(l, p));
    l->batches = p->Q * grid;
    for (int64_t q = 0; q < p->Q; q++)
        l->batches = cut_block(l, q, grid, l->batches);
done:
    if (err)
        uni_cuda_lists_close(l);
    return err;
}

void uni_cuda_lists_close(struct uni_cuda_lists *l)
{
    free(l->piece);
    free(l->tile);
    free(l->group_tile);
    free(l->batch);
    free(l->block_piece);
    free(l->group_last);
    memset(l, 0, sizeof *l);
}
