/* SPDX-License-Identifier: BSD-3-Clause */
/* Diagnostics of `unisono integrate`: made once the result is there, warned of, and put into --trace and uns/KEY. */
#ifndef UNI_CLI_DIAGNOSTICS_H
#define UNI_CLI_DIAGNOSTICS_H

#include "integrate.h"
#include "json.h"

/* Memory that they take beside the run. */
int64_t diagnostics_bytes(const struct integrate *);
/* before, after: (n_cells, n_dims), or both NULL: from the run's tables alone. */
int diagnostics_make(struct integrate *, const float *before, const float *after);
void diagnostics_warn(const struct integrate *);
void diagnostics_trace(struct json *, const struct integrate *);
int diagnostics_entries(struct entries *, const struct integrate *); /* 0, or -1: no memory */

#endif
