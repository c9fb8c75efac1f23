/* SPDX-License-Identifier: BSD-3-Clause */
/* For vectors of 4 floats: base rows are a multiple of 4 long, so all their vectors are whole, and these are never reached. */
INLINE vf half_load_part(const uint16_t *at, lanes_t lanes)
{
    (void)lanes;
    return half_load(at);
}

INLINE vf load_part(const float *at, lanes_t lanes)
{
    (void)lanes;
    return load(at);
}

INLINE void half_store_part(uint16_t *at, vf v, lanes_t lanes)
{
    (void)lanes;
    half_store(at, v);
}

INLINE void store_part(float *at, vf v, lanes_t lanes)
{
    (void)lanes;
    store(at, v);
}
