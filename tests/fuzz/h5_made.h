/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, datasets and attributes by choice: the usual one, or what nobody expects. */
#ifndef TESTS_FUZZ_H5_MADE_H
#define TESTS_FUZZ_H5_MADE_H

#include <hdf5.h>

#include "fuzzing.h"

enum { N = 12, D = 3 }; /* cells, dimensions */

enum kind { REALS, WHOLES, TEXTS, BOOLEANS, ANYTHING };

hid_t text_type(struct choices *);
hid_t any_type(struct choices *);
hid_t type_of(struct choices *, enum kind);
hsize_t odd_extent(struct choices *, hsize_t usual);
/* Contiguous where nothing else is chosen. Sets the extents that go with unlimited chunks. */
hid_t layout_of(struct choices *, hid_t type, int n_axes, const hsize_t *extent, hsize_t *most);

/* Are so many values of that type 128 KB at most, with all that is written with them? An input takes a millisecond. */
int worth_writing(hid_t plist, hid_t type, hsize_t count);

/* A dataset with values, where HDF5 makes one; put closes it. */
hid_t put_dataset(struct choices *, hid_t where, const char *name, enum kind, int n_axes, const hsize_t *usual);
void put(struct choices *, hid_t where, const char *name, enum kind, int n_axes, hsize_t n, hsize_t d);

void put_attribute(struct choices *, hid_t object, const char *name, const char *text);
void put_list(struct choices *, hid_t object, const char *name, const char *const *texts, hsize_t count);
void put_shape(struct choices *, hid_t object, const char *name); /* (N, D) as integers */

#endif
