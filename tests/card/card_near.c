/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of the neighbours as the stand-in does it: its own lines, compiled as C. */
#include <stdlib.h>

#include "../../src/cuda/cuda_near_block.h"
#include "card.h"

void card_near(const struct near_work *given, unsigned blocks)
{
    struct near_work work = *given;
    char *shared = aligned_alloc(64, (size_t)(near_shared_bytes(work.D, work.R) + 63) / 64 * 64);
    work.panels = card_storage(given->panels);
    work.query = card_storage(given->query);
    work.kept = card_storage(given->kept);
    work.list = card_storage(given->list);
    for (unsigned block = 0; shared && block < blocks; block++)
        near_block_work(&work, block, shared);
    free(shared);
}
