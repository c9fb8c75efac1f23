/* SPDX-License-Identifier: BSD-3-Clause */
#include "diagnosed.h"

static const char *const names[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"};

struct uni_batch labels(const char *name, const int32_t *level, int64_t n, int64_t n_levels)
{
    return (struct uni_batch){
        .name = name, .n_cells = n, .n_levels = n_levels, .level = level, .level_names = n_levels <= 10 ? names : NULL};
}

void open_diagnosed(struct diagnosed *x, const struct made_data *data, const struct uni_options *options)
{
    struct uni_matrix before = matrix_of(data), after;
    struct uni_batch batch = labels("donor", data->level, data->n, data->n_levels);
    struct uni_batch types = labels("type", data->type, data->n, data->n_types);
    product_run(&x->p, &before, &batch, options);
    after = (struct uni_matrix){.data = x->p.Zcorr, .dtype = UNI_FLOAT64, .n_cells = data->n, .n_dims = data->d};
    if (uni_diagnose(&x->found, x->p.run, &before, &after, &batch, 1, data->n_types ? &types : NULL, 0) != UNI_OK)
        fail_msg("%s", uni_last_error());
}

void close_diagnosed(struct diagnosed *x)
{
    uni_diagnosis_close(x->found);
    product_close(&x->p);
}
