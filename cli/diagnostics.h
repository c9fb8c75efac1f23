/* SPDX-License-Identifier: BSD-3-Clause */
/* Diagnostics of `unisono integrate`: made once the result is there, warned of, and put into --trace and uns/KEY. */
#ifndef UNI_CLI_DIAGNOSTICS_H
#define UNI_CLI_DIAGNOSTICS_H

#include "integrate.h"
#include "json.h"

/* Memory that they take beside the run of a plan. types: NULL without --label. */
int64_t diagnostics_bytes(const struct integrate *, const struct uni_plan *, const struct uni_batch *batches,
                          const struct uni_batch *types);
/* Of the job's open run, of these labels. before, after: (n_cells, n_dims), or both NULL: from the run's tables alone. Returns the
   library's status. */
int diagnostics_make(struct uni_diagnosis **, struct integrate *, const float *before, const float *after,
                     const struct uni_batch *batches, const struct uni_batch *types);
void diagnostics_warn(const struct integrate *); /* of what stands out in all runs */
void diagnostics_trace(struct json *, const struct integrate *, const struct uni_diagnosis *); /* NULL: nothing */
int diagnostics_entries(struct entries *, const struct integrate *); /* 0, or -1: no memory */

#endif
