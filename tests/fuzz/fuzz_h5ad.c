/* SPDX-License-Identifier: BSD-3-Clause */
/* The input is an .h5ad file. HDF5 itself crashes on many: `run` sorts those out, and sees that the program answers them. */
#include "h5ad_here.h"

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
        if (!memcmp(data + i, "GCOL", 4)) {
            uint64_t bytes = number_at(data + i + 8);
            mend_heap(data + i + HEAP_HEAD, data + (bytes < size - i ? i + (size_t)bytes : size));
        }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"X_pca", "X_frame", "X_csr", "X_csc"}, *const columns[] = {"batch", "text", "n",
                                                                                                  "nullable"};
    static char path[64];
    static uint8_t mended[MOST_BYTES];
    if (size > sizeof mended)
        return -1;
    if (!path[0])
        fuzz_path(path, ".h5ad");
    keep_memory();
    memcpy(mended, data, size);
    if (drawn_of(data, size) % UNMENDED)
        mend_heaps(mended, size);
    fuzz_file(path, mended, size);
    hid_t held = hold_open(path);
    size_t looks = held < 0 ? 1 : sizeof keys / sizeof *keys;
    for (size_t i = 0; i < looks; i++) {
        read_here(path, keys[i]);
        labels_here(path, columns[i], 0);
    }
    let_go(held);
    unlink(path);
    return 0;
}
