/* SPDX-License-Identifier: BSD-3-Clause */
/* The input is an .h5ad file. HDF5 itself crashes on many: `run` sorts those out, and sees that the program answers them. */
#include "h5ad_here.h"
#include "h5ad_looks.h"

enum { MOST_BYTES = 1 << 16, HEAP_HEAD = 16, ENTRY_HEAD = 16, UNMENDED = 64 };

static uint64_t number_at(const uint8_t *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

/* The entries of a heap of texts: which (2 bytes, 0 is what is free), 6 bytes, size (8), and its bytes to a multiple of 8. One
   that does not fit gets what is left. */
static void mend_heap(uint8_t *at, uint8_t *end)
{
    while (end - at >= ENTRY_HEAD) {
        uint64_t left = (uint64_t)(end - at), size = number_at(at + 8);
        int is_free = !at[0] && !at[1];
        uint64_t taken = is_free ? size : size > left ? size : ENTRY_HEAD + (size + 7) / 8 * 8;
        if (taken < ENTRY_HEAD || taken > left) {
            taken = left;
            size = is_free ? left : left - ENTRY_HEAD;
            memcpy(at + 8, &size, sizeof size);
        }
        at += taken;
    }
}

/* HDF5 1.10 believes what the heaps of texts say of themselves, and most damaged files crash it there or keep it at work for
   ever. It would see little else: so they are mended, but in some inputs. */
static void mend_heaps(uint8_t *data, size_t size)
{
    for (size_t i = 0; i + HEAP_HEAD < size; i += 8)
        if (data[i] == 'G' && data[i + 1] == 'C' && data[i + 2] == 'O' && data[i + 3] == 'L') {
            uint64_t bytes = number_at(data + i + 8);
            mend_heap(data + i + HEAP_HEAD, data + (bytes < size - i ? i + (size_t)bytes : size));
        }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static char path[64];
    static uint8_t mended[MOST_BYTES];
    static struct fuzz_kept kept = {-1, 0};
    if (size == 0 || size > sizeof mended)
        return -1;
    if (!path[0])
        fuzz_path(path, ".h5ad");
    keep_memory();
    memcpy(mended, data, size);
    if (drawn_of(data, size) % UNMENDED)
        mend_heaps(mended, size);
    fuzz_file_again(&kept, path, mended, size);
    struct held held = hold_open(path);
    struct look look = look_of(mended[size - 1]);
    if (look.key)
        read_here(path, look.key);
    else
        labels_here(path, look.column, 0);
    if (!let_go(held)) {
        unlink(path);
        close(kept.fd);
        kept.fd = -1;
    }
    return 0;
}
