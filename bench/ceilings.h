/* SPDX-License-Identifier: BSD-3-Clause */
/* What one core of this machine can do, measured: float32 multiply-adds, and reading memory. */
#ifndef UNI_CEILINGS_H
#define UNI_CEILINGS_H

double ceiling_flops(void); /* a second, one core */
double ceiling_bytes(void); /* a second, one core */

#endif
