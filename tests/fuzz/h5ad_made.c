/* SPDX-License-Identifier: BSD-3-Clause */
#include "h5ad_made.h"

#include "h5_made.h"

struct making {
    struct choices *c;
    hid_t file;
    int layout;
};

/* Returns 1 when it made something else in the place of what was to come. */
static int led_astray(const struct making *m, hid_t where, const char *name)
{
    switch (seldom(m->c, 24)) {
    case 23:
        return 1; /* nothing at all */
    case 22:
        H5Lcreate_soft("/nowhere/at/all", where, name, H5P_DEFAULT, H5P_DEFAULT);
        return 1;
    case 21:
        H5Lcreate_external("/etc/passwd", "/", where, name, H5P_DEFAULT, H5P_DEFAULT);
        return 1;
    case 20:
        H5Lcreate_soft(name, where, name, H5P_DEFAULT, H5P_DEFAULT); /* itself */
        return 1;
    case 19:
        H5Lcreate_hard(m->file, "/", where, name, H5P_DEFAULT, H5P_DEFAULT); /* a cycle */
        return 1;
    case 18:
        put(m->c, where, name, ANYTHING, (int)pick(m->c, 4), N, D);
        return 1;
    case 17:
        H5Gclose(H5Gcreate2(where, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        return 1;
    case 16: {
        hid_t type = H5Tcopy(H5T_NATIVE_INT);
        H5Tcommit2(where, name, type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT); /* a named type */
        H5Tclose(type);
        return 1;
    }
    case 15:
        H5Lcreate_soft("/obs", where, name, H5P_DEFAULT, H5P_DEFAULT);
        return 1;
    case 14:
        H5Lcreate_soft("/obsm/X_pca", where, name, H5P_DEFAULT, H5P_DEFAULT);
        return 1;
    default:
        return 0;
    }
}

static hid_t put_group(const struct making *m, hid_t where, const char *name, const char *encoding)
{
    hid_t group = H5Gcreate2(where, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (group >= 0 && m->layout == 0)
        put_attribute(m->c, group, "encoding-type", encoding);
    return group;
}

/* ---- obs
 * ----------------------------------------------------------------------------------------------------------------------------------
 */

static void put_categories(const struct making *m, hid_t obs, hid_t codes)
{
    hsize_t five = 10;
    if (m->layout == 0 || seldom(m->c, 2)) {
        put(m->c, codes, "categories", TEXTS, 1, five, 1);
        return;
    }
    hid_t group = H5Lexists(obs, "__categories", H5P_DEFAULT) > 0
                      ? H5Gopen2(obs, "__categories", H5P_DEFAULT)
                      : H5Gcreate2(obs, "__categories", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    put(m->c, group, "batch", TEXTS, 1, five, 1);
    if (seldom(m->c, 3) != 2 && codes >= 0) {
        hobj_ref_t reference = 0;
        if (seldom(m->c, 4) == 3)
            H5Rcreate(&reference, obs, ".", H5R_OBJECT, H5I_INVALID_HID);
        else
            H5Rcreate(&reference, group, "batch", H5R_OBJECT, H5I_INVALID_HID);
        if (seldom(m->c, 8) == 7)
            reference = byte_of(m->c) << 8;
        hid_t space = H5Screate(H5S_SCALAR),
              a = H5Acreate2(codes, "categories", H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT);
        H5Awrite(a, H5T_STD_REF_OBJ, &reference);
        H5Aclose(a);
        H5Sclose(space);
    }
    H5Gclose(group);
}

static void put_column(const struct making *m, hid_t obs, const char *name)
{
    hsize_t usual[2] = {N, D};
    if (led_astray(m, obs, name))
        return;
    unsigned how = seldom(m->c, 8);
    if (how >= 4) {
        put(m->c, obs, name, how == 4 ? TEXTS : how == 5 ? WHOLES : how == 6 ? REALS : BOOLEANS, 1, N, D);
    } else if (how == 3) {
        hid_t group = put_group(m, obs, name, "nullable-integer");
        put(m->c, group, "values", seldom(m->c, 2) ? TEXTS : WHOLES, 1, N, D);
        put(m->c, group, "mask", BOOLEANS, 1, N, D);
        H5Gclose(group);
    } else if (m->layout == 1) {
        hid_t codes = put_dataset(m->c, obs, name, WHOLES, 1, usual);
        put_categories(m, obs, codes);
        if (codes >= 0)
            H5Dclose(codes);
    } else {
        hid_t group = put_group(m, obs, name, "categorical");
        put(m->c, group, "codes", WHOLES, 1, N, D);
        put_categories(m, obs, group);
        H5Gclose(group);
    }
}

static void put_obs(const struct making *m)
{
    static const char *const order[] = {"batch"};
    if (led_astray(m, m->file, "obs"))
        return;
    hid_t obs = put_group(m, m->file, "obs", "dataframe");
    put_attribute(m->c, obs, "_index", "_index");
    put_list(m->c, obs, "column-order", order, 1);
    if (!led_astray(m, obs, "_index"))
        put(m->c, obs, "_index", TEXTS, 1, N, D);
    put_column(m, obs, "batch");
    H5Gclose(obs);
}

/* ---- obsm
 * ---------------------------------------------------------------------------------------------------------------------------------
 */

static void put_frame(const struct making *m, hid_t obsm)
{
    static const char *const order[] = {"u", "v", "w", "gone"};
    hid_t frame = put_group(m, obsm, "X_pca", "dataframe");
    put_attribute(m->c, frame, "_index", "_index");
    put_list(m->c, frame, "column-order", order, 3 + (seldom(m->c, 4) == 3));
    for (int j = 0; j < 3; j++) {
        if (seldom(m->c, 4) == 3) {
            hid_t group = put_group(m, frame, order[j], "nullable-integer");
            put(m->c, group, "values", WHOLES, 1, N, D);
            put(m->c, group, "mask", BOOLEANS, 1, N, D);
            H5Gclose(group);
        } else if (!led_astray(m, frame, order[j])) {
            put(m->c, frame, order[j], REALS, 1, N, D);
        }
    }
    H5Gclose(frame);
}

static void put_numbers(const struct making *m, hid_t group, const char *name, const int64_t *values, hsize_t count)
{
    int64_t changed[64];
    if (led_astray(m, group, name))
        return;
    memcpy(changed, values, (size_t)count * sizeof *values);
    if (seldom(m->c, 2))
        changed[pick(m->c, (unsigned)count)] = (int64_t)byte_of(m->c) - 64;
    count -= seldom(m->c, 8) == 7;
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t dataset =
        H5Dcreate2(group, name, seldom(m->c, 2) ? H5T_STD_I64LE : H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, changed);
    H5Dclose(dataset);
    H5Sclose(space);
}

static void put_sparse(const struct making *m, hid_t obsm, int by_columns)
{
    int64_t starts[N + 1], minor[N];
    int n_major = by_columns ? D : N;
    hid_t group = put_group(m, obsm, "X_pca", by_columns ? "csc_matrix" : "csr_matrix");
    for (int i = 0; i <= n_major; i++)
        starts[i] = (int64_t)i * N / n_major;
    for (int i = 0; i < N; i++)
        minor[i] = by_columns ? i % 4 : i % D;
    if (m->layout) {
        put_attribute(m->c, group, "h5sparse_format", by_columns ? "csc" : "csr");
        put_shape(m->c, group, "h5sparse_shape");
    } else {
        put_shape(m->c, group, "shape");
    }
    put_numbers(m, group, "indptr", starts, (hsize_t)n_major + 1);
    put_numbers(m, group, "indices", minor, N);
    if (!led_astray(m, group, "data"))
        put(m->c, group, "data", REALS, 1, N, D);
    H5Gclose(group);
}

static void put_obsm(const struct making *m)
{
    if (led_astray(m, m->file, "obsm"))
        return;
    hid_t obsm = put_group(m, m->file, "obsm", "dict");
    unsigned how = led_astray(m, obsm, "X_pca") ? 9 : pick(m->c, 6);
    if (how < 3)
        put(m->c, obsm, "X_pca", REALS, 2, N, D);
    else if (how == 3)
        put_frame(m, obsm);
    else if (how < 6)
        put_sparse(m, obsm, how == 4);
    H5Gclose(obsm);
}

/* ---- obs and obsm as anndata 0.6 had them: records
 * ---------------------------------------------------------------------------------------------------------------------------------
 */

static void put_records(const struct making *m, const char *name, hid_t type, hid_t file_type)
{
    hsize_t n = odd_extent(m->c, N), most;
    hid_t plist = layout_of(m->c, type, 1, &n, &most), space = H5Screate_simple(1, &n, &most);
    hid_t dataset = H5Dcreate2(m->file, name, file_type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    unsigned char *bytes = dataset >= 0 && worth_writing(plist, type, n) ? calloc((size_t)n + 1, H5Tget_size(type)) : NULL;
    int plain = H5Tdetect_class(type, H5T_STRING) <= 0 && H5Tdetect_class(type, H5T_VLEN) <= 0; /* no addresses, but NULL */
    for (size_t i = 0; bytes && plain && i < (size_t)n * H5Tget_size(type); i++)
        bytes[i] = (unsigned char)(i * 5 % 60);
    if (bytes && H5Pget_external_count(plist) == 0 && H5Pget_layout(plist) != H5D_VIRTUAL)
        H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes);
    free(bytes);
    if (dataset >= 0)
        H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(plist);
}

static void put_older(const struct making *m)
{
    hsize_t axes[3] = {odd_extent(m->c, D), 2, 2};
    hid_t text = text_type(m->c), batch = type_of(m->c, WHOLES), element = type_of(m->c, REALS);
    if (axes[0] < 1 || axes[0] > 100000)
        axes[0] = D;
    hid_t array = seldom(m->c, 4) == 3 ? H5Tcopy(element) : H5Tarray_create2(element, 1 + seldom(m->c, 3), axes);
    hid_t obs = H5Tcreate(H5T_COMPOUND, H5Tget_size(text) + H5Tget_size(batch)),
          obsm = H5Tcreate(H5T_COMPOUND, H5Tget_size(array));
    H5Tinsert(obs, seldom(m->c, 4) == 3 ? "name" : "index", 0, text);
    H5Tinsert(obs, "batch", H5Tget_size(text), batch);
    H5Tinsert(obsm, "X_pca", 0, array);
    if (!led_astray(m, m->file, "obs"))
        put_records(m, "obs", obs, obs);
    if (!led_astray(m, m->file, "obsm"))
        put_records(m, "obsm", obsm, obsm);
    hid_t uns = H5Gcreate2(m->file, "uns", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (seldom(m->c, 2) == 0)
        put(m->c, uns, "batch_categories", TEXTS, 1, 60, 1);
    H5Gclose(uns);
    H5Tclose(text);
    H5Tclose(batch);
    H5Tclose(element);
    H5Tclose(array);
    H5Tclose(obs);
    H5Tclose(obsm);
}

int make_h5ad(const char *path, struct choices *choices, int layout)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_fapl_core(access, 1 << 16, 1); /* in memory, and into the file when it is closed */
    H5Pset_sieve_buf_size(access, 2048);
    if (seldom(choices, 2))
        H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (seldom(choices, 8) == 7)
        H5Pset_userblock(create, 512);
    struct making m = {choices, H5Fcreate(path, H5F_ACC_TRUNC, create, access), layout};
    H5Pclose(access);
    H5Pclose(create);
    if (m.file < 0)
        return -1;
    if (layout == 2) {
        put_older(&m);
    } else {
        put_obsm(&m);
        put_obs(&m);
        if (seldom(choices, 2))
            led_astray(&m, m.file, "uns");
    }
    return H5Fclose(m.file) < 0 ? -1 : 0;
}
