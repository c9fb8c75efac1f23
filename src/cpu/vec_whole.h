/* SPDX-License-Identifier: BSD-3-Clause */
/* For vectors of at most 8 floats: base rows are a multiple of 8 long, so they have no half vectors, and these are never reached.
 */
INLINE vf half_load_low(const uint16_t *at)
{
    return half_load(at);
}

INLINE vf load_low(const float *at)
{
    return load(at);
}

INLINE void half_store_low(uint16_t *at, vf v)
{
    half_store(at, v);
}

INLINE void store_low(float *at, vf v)
{
    store(at, v);
}
