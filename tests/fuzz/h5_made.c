/* SPDX-License-Identifier: BSD-3-Clause */
#include "h5_made.h"

/* ---- types
 * --------------------------------------------------------------------------------------------------------------------------------
 */

static hid_t boolean_type(int members)
{
    hid_t type = H5Tenum_create(H5T_STD_I8LE);
    for (signed char i = 0; i < members; i++) {
        char name[16];
        snprintf(name, sizeof name, members == 2 ? (i ? "TRUE" : "FALSE") : "member%d", i);
        H5Tenum_insert(type, name, &i);
    }
    return type;
}

hid_t text_type(struct choices *c)
{
    static const size_t widths[] = {H5T_VARIABLE, 8, 1, 3, 40, 9000};
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, widths[seldom(c, 6)]);
    H5Tset_cset(type, seldom(c, 2) ? H5T_CSET_ASCII : H5T_CSET_UTF8);
    H5Tset_strpad(type, seldom(c, 2) ? H5T_STR_SPACEPAD : H5T_STR_NULLTERM);
    return type;
}

/* Numbers of unusual shape. */
static hid_t odd_number(struct choices *c)
{
    hid_t type = H5Tcopy(pick(c, 2) ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT);
    switch (pick(c, 4)) {
    case 0:
        H5Tset_precision(type, 5 + pick(c, 20));
        break;
    case 1:
        H5Tset_size(type, 1 + pick(c, 32));
        break;
    case 2:
        H5Tset_offset(type, pick(c, 8));
        break;
    default:
        H5Tset_order(type, H5T_ORDER_BE);
    }
    return type;
}

hid_t any_type(struct choices *c)
{
    hsize_t three[2] = {3, 2};
    hid_t type;
    switch (pick(c, 10)) {
    case 0:
        type = H5Tcreate(H5T_COMPOUND, 16);
        H5Tinsert(type, "r", 0, H5T_NATIVE_DOUBLE);
        H5Tinsert(type, "i", 8, H5T_NATIVE_DOUBLE);
        return type;
    case 1:
        return H5Tarray_create2(H5T_NATIVE_FLOAT, 1 + pick(c, 2), three);
    case 2:
        type = H5Tcreate(H5T_OPAQUE, 5);
        H5Tset_tag(type, "opaque");
        return type;
    case 3:
        return H5Tcopy(H5T_STD_REF_OBJ);
    case 4:
        return H5Tcopy(H5T_STD_B16LE);
    case 5:
        return H5Tvlen_create(H5T_NATIVE_INT);
    case 6:
        return boolean_type(1 + (int)pick(c, 60));
    case 7:
        return odd_number(c);
    case 8:
        return H5Tcopy(H5T_UNIX_D32LE);
    default:
        return text_type(c);
    }
}

hid_t type_of(struct choices *c, enum kind kind)
{
    const hid_t reals[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_NATIVE_LDOUBLE, H5T_STD_I16LE, H5T_STD_U64BE};
    const hid_t wholes[] = {H5T_STD_I8LE, H5T_STD_I32LE, H5T_STD_I64LE, H5T_STD_U8LE, H5T_STD_U64LE, H5T_STD_I16BE};
    if (seldom(c, 8) == 7)
        return any_type(c);
    switch (kind) {
    case REALS:
        if (seldom(c, 8) == 1) { /* half precision */
            hid_t type = H5Tcopy(H5T_IEEE_F32LE);
            H5Tset_fields(type, 15, 10, 5, 0, 10);
            H5Tset_size(type, 2);
            H5Tset_ebias(type, 15);
            return type;
        }
        return H5Tcopy(reals[seldom(c, 6)]);
    case WHOLES:
        return H5Tcopy(wholes[seldom(c, 6)]);
    case TEXTS:
        return text_type(c);
    case BOOLEANS:
        return boolean_type(2);
    default:
        return any_type(c);
    }
}

/* ---- datasets
 * --------------------------------------------------------------------------------------------------------------------------------
 */

hsize_t odd_extent(struct choices *c, hsize_t usual)
{
    static const hsize_t odd[] = {0, 1, 1000, (hsize_t)1 << 31, (hsize_t)1 << 33, (hsize_t)1 << 62, ((hsize_t)1 << 63) + 1};
    switch (seldom(c, 16)) {
    default:
        return usual;
    case 9:
        return usual + 1;
    case 10:
        return usual - 1;
    case 11:
    case 12:
        return 1 + pick(c, 100);
    case 13:
    case 14:
    case 15:
        return odd[pick(c, 7)];
    }
}

static void set_filters(struct choices *c, hid_t plist, hid_t type)
{
    if (seldom(c, 2))
        H5Pset_shuffle(plist);
    H5T_class_t class = H5Tget_class(type);
    unsigned how = seldom(c, 7);
    if ((how == 4 || how == 5) && class != H5T_FLOAT && class != H5T_INTEGER)
        how = 1; /* HDF5 dies of these two where the values are no plain numbers, as it writes */
    switch (how) {
    case 1:
    case 2:
        H5Pset_deflate(plist, 1);
        break;
    case 3:
        H5Pset_fletcher32(plist);
        break;
    case 4:
        H5Pset_nbit(plist);
        break;
    case 5:
        H5Pset_scaleoffset(plist, class == H5T_FLOAT ? H5Z_SO_FLOAT_DSCALE : H5Z_SO_INT, (int)pick(c, 5));
        break;
    case 6:
        H5Pset_filter(plist, 32001 + (H5Z_filter_t)pick(c, 20), H5Z_FLAG_OPTIONAL, 0, NULL); /* blosc and such */
        break;
    default:
        break;
    }
}

hid_t layout_of(struct choices *c, hid_t type, int n_axes, const hsize_t *extent, hsize_t *most)
{
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space;
    hsize_t chunk[4];
    for (int i = 0; i < n_axes; i++)
        most[i] = extent[i];
    switch (seldom(c, 8)) {
    case 1:
        H5Pset_layout(plist, H5D_COMPACT);
        break;
    case 2:
    case 3:
    case 4:
        for (int i = 0; i < n_axes; i++) {
            unsigned how = pick(c, 6);
            chunk[i] = how < 3 ? 1 + how * 4 : how == 3 ? extent[i] : how == 4 ? 5000 : 4;
            most[i] = how == 5 ? H5S_UNLIMITED : chunk[i] > extent[i] ? H5S_UNLIMITED : extent[i];
        }
        if (n_axes > 0)
            H5Pset_chunk(plist, n_axes, chunk);
        set_filters(c, plist, type);
        break;
    case 5:
        H5Pset_external(plist, "/etc/passwd", 0, H5F_UNLIMITED);
        break;
    case 6:
        H5Pset_alloc_time(plist, H5D_ALLOC_TIME_LATE);
        break;
    case 7:
        space = n_axes > 0 ? H5Screate_simple(n_axes, extent, NULL) : H5Screate(H5S_SCALAR);
        H5Pset_virtual(plist, space, pick(c, 2) ? "." : "elsewhere-%b.h5", "x", space);
        H5Sclose(space);
        break;
    default:
        break;
    }
    return plist;
}

int worth_writing(hid_t plist, hid_t type, hsize_t count)
{
    enum { MOST = 1 << 17 };
    hsize_t chunk[4], width = H5Tget_size(type);
    int n_axes = H5Pget_layout(plist) == H5D_CHUNKED ? H5Pget_chunk(plist, 4, chunk) : 0;
    for (int i = 0; i < n_axes && width <= MOST; i++)
        width = chunk[i] > MOST ? MOST + 1 : width * chunk[i]; /* a chunk is written whole */
    return count > 0 && count <= 4096 && width <= MOST && (n_axes > 0 || count * width <= MOST);
}

/* Values for any type, by its class; NULL where there is no memory. */
static void *values_of(struct choices *c, hid_t type, hsize_t count, char **texts)
{
    static char words[][24] = {"a", "b", "cell_1", "", "12", "0.5", "\xc3\xa9", "nan", "a much longer label", "\x1b[31m\n"};
    size_t width = H5Tget_size(type);
    unsigned char *bytes = calloc((size_t)count, width);
    unsigned turn = 2 + pick(c, 8), odd = seldom(c, 4);
    for (hsize_t i = 0; bytes && i < count; i++) {
        unsigned char *at = bytes + i * width;
        if (H5Tis_variable_str(type) > 0) {
            texts[i] = i % 7 == 6 && odd ? NULL : words[(i % turn + odd) % 10];
            memcpy(at, &texts[i], sizeof texts[i]);
        } else if (H5Tget_class(type) == H5T_STRING) {
            snprintf((char *)at, width, "%s", words[i % turn]);
        } else if (H5Tget_class(type) == H5T_VLEN || H5Tget_class(type) == H5T_REFERENCE) {
            continue;
        } else if (H5Tget_class(type) == H5T_ENUM || H5Tget_class(type) == H5T_INTEGER) {
            at[0] = (unsigned char)(i % turn);
            if (odd && i == byte_of(c) % count)
                memset(at, (int)byte_of(c), width);
        } else {
            for (size_t b = 0; b < width; b++)
                at[b] = (unsigned char)((i * 7 + b * 13) % (odd ? 256 : 64));
        }
    }
    return bytes;
}

hid_t put_dataset(struct choices *c, hid_t where, const char *name, enum kind kind, int n_axes, const hsize_t *usual)
{
    hsize_t extent[4], most[4], count = 1;
    if (seldom(c, 8) == 7)
        n_axes = (int)pick(c, 4);
    for (int i = 0; i < n_axes; i++) {
        extent[i] = odd_extent(c, usual[i < 2 ? i : 1]);
        count = extent[i] > 4096 ? 5000 : count * extent[i] > 5000 ? 5000 : count * extent[i];
    }
    hid_t type = type_of(c, kind), plist = layout_of(c, type, n_axes, extent, most);
    hid_t space = n_axes > 0 ? H5Screate_simple(n_axes, extent, most) : H5Screate(seldom(c, 2) ? H5S_NULL : H5S_SCALAR);
    hid_t dataset = H5Dcreate2(where, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    static char *texts[5000];
    int writes = dataset >= 0 && seldom(c, 16) != 15 && worth_writing(plist, type, count);
    void *values = writes ? values_of(c, type, count, texts) : NULL;
    if (values && H5Pget_external_count(plist) == 0 && H5Pget_layout(plist) != H5D_VIRTUAL)
        H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    free(values);
    H5Sclose(space);
    H5Pclose(plist);
    H5Tclose(type);
    return dataset;
}

void put(struct choices *c, hid_t where, const char *name, enum kind kind, int n_axes, hsize_t n, hsize_t d)
{
    hsize_t usual[2] = {n, d};
    hid_t dataset = put_dataset(c, where, name, kind, n_axes, usual);
    if (dataset >= 0)
        H5Dclose(dataset);
}

/* ---- attributes and links
 * --------------------------------------------------------------------------------------------------------------------------------
 */

void put_attribute(struct choices *c, hid_t object, const char *name, const char *text)
{
    unsigned how = seldom(c, 8);
    const char *const odd[] = {"", "dataframe", "csr_matrix", "categorical", "a/b", "\x1b]0;x\x07\n"};
    const char *value = how == 6 ? odd[pick(c, 6)] : text;
    if (how == 7)
        return;
    hsize_t three = 3;
    hid_t type = how == 5 ? any_type(c) : H5Tcopy(H5T_C_S1),
          space = how == 4 ? H5Screate_simple(1, &three, NULL) : H5Screate(H5S_SCALAR);
    if (how != 5)
        H5Tset_size(type, how == 3 ? strlen(value) + 1 : H5T_VARIABLE);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute >= 0 && how < 3)
        H5Awrite(attribute, type, &value);
    if (attribute >= 0 && how == 3)
        H5Awrite(attribute, type, value);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
}

void put_list(struct choices *c, hid_t object, const char *name, const char *const *texts, hsize_t count)
{
    if (seldom(c, 4) == 3) {
        put_attribute(c, object, name, texts[0]);
        return;
    }
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &count, NULL);
    H5Tset_size(type, H5T_VARIABLE);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, texts);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
}

void put_shape(struct choices *c, hid_t object, const char *name)
{
    int64_t odd[] = {0, -1, 1, 11, 13, INT32_MAX, INT64_MAX, INT64_MIN}, shape[4] = {N, D, 1, 1};
    hsize_t count = seldom(c, 4) == 3 ? 1 + pick(c, 4) : 2;
    for (int i = 0; i < 2; i++)
        if (seldom(c, 4))
            shape[i] = odd[pick(c, 8)];
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t attribute = H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, H5T_NATIVE_INT64, shape);
    H5Aclose(attribute);
    H5Sclose(space);
}
