/* SPDX-License-Identifier: BSD-3-Clause */
/* Which backend does a run, and who reads the embedding where it lies. */
#include "error.h"
#include "harmony.h"

enum { AUTO_CELLS = 100000 }; /* fewer are done on the CPU before a card is ready to begin */

/* What of this run the cuda backend does not do, or NULL. */
static const char *beyond_cuda(const struct uni_harmony *h)
{
    const struct uni_problem *p = &h->cells.problem;
    return h->cells.weighted                             ? "cell weights"
           : p->X > 0                                    ? "covariates"
           : p->redraw || (p->add_penalties && p->V > 1) ? "compat r-2.0.4"
                                                         : NULL;
}

int uni_choose_backend(struct uni_harmony *h)
{
    struct uni_backend_info info;
    int present = 0, usable = 0;
    const char *beyond = beyond_cuda(h);
    if (h->where == UNI_ON_CARD && beyond && h->options.backend != UNI_BACKEND_CPU)
        return uni_fail(UNI_BACKEND,
                        "backend cuda does not do %s; copy the embedding to this machine's memory and use backend cpu", beyond);
    if (h->options.backend == UNI_BACKEND_CUDA || (h->options.backend == UNI_BACKEND_AUTO && h->where == UNI_ON_CARD))
        return beyond ? uni_fail(UNI_BACKEND, "backend cuda does not do %s; use backend cpu, or auto", beyond)
                      : uni_cuda_backend(&h->backend, h->options.device);
    if (h->options.backend == UNI_BACKEND_AUTO && h->cells.problem.N >= AUTO_CELLS)
        usable = uni_cuda_describe(&info, h->options.device, &present) && info.usable;
    if (usable && !beyond)
        return uni_cuda_backend(&h->backend, h->options.device);
    if (usable)
        uni_warn(&h->warnings, "backend cuda does not do %s, so the CPU is used", beyond);
    else if (present)
        uni_warn(&h->warnings, "backend cuda cannot be used, so the CPU is: %s", info.detail);
    uni_cpu_backend(&h->backend);
    return UNI_OK;
}

int uni_take_embedding(struct uni_harmony *h, const struct uni_matrix *given, struct uni_matrix *plain)
{
    int err = 0;
    int64_t device = 0;
    struct uni_problem *p = &h->cells.problem;
    TRY(uni_matrix_plain(given, plain));
    h->where = uni_matrix_where(plain, &device);
    if (h->where == UNI_PAGEABLE)
        TRY(uni_matrix_check_on(h->pool, given, plain, &h->warnings));
    TRY(uni_choose_backend(h));
    if (h->where == UNI_PAGEABLE)
        return UNI_OK;
    if (!h->backend.solve)
        return uni_matrix_check_on(h->pool, given, plain, &h->warnings);
    if (h->where == UNI_UNSAID)
        return uni_fail(UNI_DEVICE,
                        "the driver of the card cannot say where the embedding lies: an earlier call of this process has failed");
    if (h->where == UNI_TORN)
        return uni_matrix_torn(device);
    if (h->where == UNI_ON_CARD && device != p->device)
        return uni_fail(UNI_INPUT, "the embedding lies in the memory of device %lld, and device is %lld; set it to the same",
                        (long long)device, (long long)p->device);
    p->reached = (int)h->where;
    TRY(uni_matrix_warn(p, plain, &h->warnings));
done:
    return err;
}
