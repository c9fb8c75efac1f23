/* SPDX-License-Identifier: BSD-3-Clause */
/* How the cells are cut for the device: pieces, tiles of 16 rows and chunks of 64 for the passes, batches of rows for the steps
   of a sweep. The cut depends on the problem and on the card's multiprocessors alone. */
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

int64_t uni_cuda_levels(const struct uni_problem *p)
{
    return p->V > 1 ? p->B : p->G;
}

static int64_t count_pieces(const struct uni_problem *p, int64_t *tiles, int64_t *chunks)
{
    int64_t pieces = 0;
    *tiles = *chunks = 0;
    for (int64_t i = 0; i < p->G * p->Q; i++) {
        int64_t n = p->piece[i + 1] - p->piece[i];
        pieces += n > 0;
        *tiles += (n + TILE - 1) / TILE;
        *chunks += (n + CHUNK - 1) / CHUNK;
    }
    return pieces;
}

/* The pieces of a block, by group. */
static int block_pieces(struct uni_cuda_lists *l, const struct uni_problem *p, int64_t q, int next)
{
    uint32_t before = 0;
    l->block_piece[q] = next;
    for (int64_t g = 0; g < p->G; g++) {
        int64_t n = piece_rows(p, g, q);
        l->group_piece[g * p->Q + q] = n > 0 ? next : -1;
        if (n == 0)
            continue;
        l->piece[next++] = {(uint32_t)p->piece[g * p->Q + q], (uint32_t)n, before, (int32_t)g, (int32_t)q};
        before += (uint32_t)n;
    }
    return next;
}

/* The part of a level that a piece begins, or goes on. */
static void enter_level(struct uni_cuda_lists *l, struct uni_cuda_place *place, int block, int64_t row, int *level_block,
                        int *after, int *next)
{
    place->first = level_block[row] != block;
    if (place->first) {
        level_block[row] = block;
        if (l->level_first[row] < 0)
            l->level_first[row] = *next;
        else
            after[l->level_last[row]] = *next;
        l->level_last[row] = (*next)++;
    }
    place->part = l->level_last[row];
}

/* The parts of a level follow each other in a ring. */
static void close_ring(int first, int last, int *before, int *after)
{
    int part = first;
    after[last] = first;
    do
        before[after[part]] = part;
    while ((part = after[part]) != first);
}

/* Where the pieces stand at their levels: parts are numbered by block. */
static int make_places(struct uni_cuda_lists *l, const struct uni_problem *p)
{
    int64_t levels = uni_cuda_levels(p), places = l->pieces * p->V;
    int next = p->V > 1 ? (int)l->pieces : 0, *block = (int *)malloc((size_t)levels * sizeof *block);
    int *after = (int *)malloc((size_t)(2 * (next + places)) * sizeof *after), *before = after + next + places; /* by part */
    if (!block || !after) {
        free(block), free(after);
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory for %lld levels of %lld pieces of cells", (long long)levels,
                                  (long long)l->pieces);
    }
    for (int64_t i = 0; i < levels; i++)
        block[i] = l->level_first[i] = l->level_last[i] = -1;
    for (int64_t i = 0; i < places; i++) {
        const struct uni_cuda_piece *piece = &l->piece[i / p->V];
        int32_t level = p->group_level[piece->group * p->V + i % p->V];
        enter_level(l, &l->place[i], piece->block, p->V > 1 ? level : piece->group, block, after, &next);
        l->place[i].theta = (float)p->level_theta[level];
        l->place[i].share = (float)p->level_share[level];
    }
    for (int64_t i = 0; i < levels; i++)
        if (l->level_first[i] >= 0)
            close_ring(l->level_first[i], l->level_last[i], before, after);
    for (int64_t i = 0; i < places; i++) {
        l->place[i].next = after[l->place[i].part];
        l->place[i].previous = before[l->place[i].part];
    }
    l->parts = next + p->Q;
    l->level_first[levels] = next;
    l->level_last[levels] = next + (int)p->Q - 1;
    free(block), free(after);
    return UNI_OK;
}

static int make_pieces(struct uni_cuda_lists *l, const struct uni_problem *p)
{
    int next = 0;
    for (int64_t q = 0; q < p->Q; q++)
        next = block_pieces(l, p, q, next);
    l->block_piece[p->Q] = next;
    for (int64_t i = 0; i < p->G * p->V; i++)
        l->group_row[i] = (int)(p->V > 1 ? p->group_level[i] : i);
    return make_places(l, p);
}

static int make_tiles(struct uni_cuda_lists *l, const struct uni_problem *p)
{
    int64_t at = 0, chunk = 0;
    int *next = (int *)malloc((size_t)p->Q * sizeof *next); /* of each block, the next group's piece */
    if (!next)
        return uni_cuda_lib->fail(UNI_MEMORY, "no memory for %lld blocks of cells", (long long)p->Q);
    memcpy(next, l->block_piece, (size_t)p->Q * sizeof *next);
    for (int64_t g = 0; g < p->G; g++) {
        l->group_tile[g] = (uint32_t)at;
        l->group_chunk[g] = (uint32_t)chunk;
        for (int64_t q = 0; q < p->Q; q++) {
            int64_t n = piece_rows(p, g, q), row = p->piece[g * p->Q + q];
            int piece = n > 0 ? next[q]++ : 0;
            for (int64_t i = 0; i < n; i += TILE) {
                int64_t rows = n - i < TILE ? n - i : (int64_t)TILE;
                l->tile[at++] = {(uint32_t)(row + i), (uint32_t)piece << 5 | (uint32_t)rows};
            }
            for (int64_t i = 0; i < n; i += CHUNK)
                l->chunk[chunk++] = {(uint32_t)(row + i), (uint32_t)(n - i < CHUNK ? n - i : (int64_t)CHUNK), piece, (int32_t)g};
        }
    }
    l->group_tile[p->G] = (uint32_t)at;
    l->group_chunk[p->G] = (uint32_t)chunk;
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
        l->most_pieces = pieces > l->most_pieces ? pieces : l->most_pieces;
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
    l->pieces = count_pieces(p, &l->tiles, &l->chunks);
    l->batch_pieces = uni_cuda_batch_pieces(p);
    if (p->N > (int64_t)1 << 30 || (l->pieces * (p->V + 1) + p->Q) * (p->K + 8) > (int64_t)1 << 32)
        return uni_cuda_lib->fail(
            UNI_INPUT,
            "%lld cells in %lld pieces (levels times blocks) for %lld clusters are too many for the cuda backend; "
            "use backend cpu",
            (long long)p->N, (long long)l->pieces, (long long)p->K);
    l->batches = uni_cuda_batch_bound(p, l->pieces, grid);
    l->piece = (struct uni_cuda_piece *)malloc((size_t)l->pieces * sizeof *l->piece);
    l->place = (struct uni_cuda_place *)malloc((size_t)(l->pieces * p->V) * sizeof *l->place);
    l->tile = (struct uni_cuda_tile *)malloc((size_t)l->tiles * sizeof *l->tile);
    l->group_tile = (uint32_t *)malloc((size_t)(p->G + 1) * sizeof *l->group_tile);
    l->chunk = (struct uni_cuda_chunk *)malloc((size_t)l->chunks * sizeof *l->chunk);
    l->group_chunk = (uint32_t *)malloc((size_t)(p->G + 1) * sizeof *l->group_chunk);
    l->batch = (struct uni_cuda_batch *)malloc((size_t)l->batches * sizeof *l->batch);
    l->block_piece = (int *)malloc((size_t)(p->Q + 1) * sizeof *l->block_piece);
    l->group_piece = (int *)malloc((size_t)(p->G * p->Q) * sizeof *l->group_piece);
    l->group_row = (int *)malloc((size_t)(p->G * p->V) * sizeof *l->group_row);
    l->level_first = (int *)malloc((size_t)(uni_cuda_levels(p) + 1) * sizeof *l->level_first);
    l->level_last = (int *)malloc((size_t)(uni_cuda_levels(p) + 1) * sizeof *l->level_last);
    if (!l->piece || !l->place || !l->tile || !l->group_tile || !l->chunk || !l->group_chunk || !l->batch || !l->block_piece ||
        !l->group_piece || !l->group_row || !l->level_first || !l->level_last)
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
    free(l->place);
    free(l->tile);
    free(l->group_tile);
    free(l->chunk);
    free(l->group_chunk);
    free(l->batch);
    free(l->block_piece);
    free(l->group_piece);
    free(l->group_row);
    free(l->level_first);
    free(l->level_last);
    memset(l, 0, sizeof *l);
}
