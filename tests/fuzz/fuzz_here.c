/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs that the fuzzer's own process takes. */
#include "fuzzing.h"

enum { MILLISECONDS = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_bounded(data, size, MILLISECONDS);
}
