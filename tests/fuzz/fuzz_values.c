/* SPDX-License-Identifier: BSD-3-Clause */
/* H5Dread and H5Dwrite as a target's objects call them (--wrap), but that the megabyte which HDF5 takes for converting values,
   and fills with zeros at every call, is as large as small files need. */
#include <hdf5.h>

#include "fuzzing.h"

herr_t __real_H5Dread(hid_t, hid_t, hid_t, hid_t, hid_t, void *);
herr_t __real_H5Dwrite(hid_t, hid_t, hid_t, hid_t, hid_t, const void *);
herr_t __wrap_H5Dread(hid_t, hid_t, hid_t, hid_t, hid_t, void *);
herr_t __wrap_H5Dwrite(hid_t, hid_t, hid_t, hid_t, hid_t, const void *);

enum { USUAL = 1 << 20, SMALL = 1 << 14 };

/* HDF5 makes its own larger for a value that does not fit, and refuses where somebody else's is too small. */
static int fits(hid_t dataset, hid_t memory_type)
{
    hid_t type = H5Dget_type(dataset);
    size_t size = type < 0 ? 0 : H5Tget_size(type), to = H5Tget_size(memory_type);
    if (type >= 0)
        H5Tclose(type);
    return size > 0 && size <= SMALL && to > 0 && to <= SMALL;
}

static hid_t usual;

void fuzz_values_ready(void)
{
    usual = H5Pcreate(H5P_DATASET_XFER);
}

static hid_t with_buffer(hid_t transfer, hid_t dataset, hid_t memory_type)
{
    hid_t list = transfer == H5P_DEFAULT ? usual : transfer;
    H5Pset_buffer(list, fits(dataset, memory_type) ? SMALL : USUAL, NULL, NULL);
    return list;
}

herr_t __wrap_H5Dread(hid_t dataset, hid_t memory_type, hid_t memory, hid_t file, hid_t transfer, void *values)
{
    return __real_H5Dread(dataset, memory_type, memory, file, with_buffer(transfer, dataset, memory_type), values);
}

herr_t __wrap_H5Dwrite(hid_t dataset, hid_t memory_type, hid_t memory, hid_t file, hid_t transfer, const void *values)
{
    return __real_H5Dwrite(dataset, memory_type, memory, file, with_buffer(transfer, dataset, memory_type), values);
}
