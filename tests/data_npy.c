/* SPDX-License-Identifier: BSD-3-Clause */
#include "data_npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void broken(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(2);
}

/* The text after "'key':" in the header's dictionary. */
static const char *header_field(const char *header, const char *key, const char *path)
{
    const char *at = strstr(header, key);
    if (!at)
        broken(path, "header without a key that .npy files must have");
    at = strchr(at, ':') + 1;
    return at + strspn(at, " ");
}

static void read_shape(struct npy *array, const char *text, const char *path)
{
    array->count = 1;
    array->n_axes = 0;
    for (int i = 0; i < 4; i++)
        array->shape[i] = 1;
    for (const char *at = strchr(text, '(') + 1; *at != ')';) {
        char *end;
        long long length = strtoll(at, &end, 10);
        if (end == at || length < 0 || array->n_axes == 4)
            broken(path, "shape not understood");
        array->shape[array->n_axes++] = length;
        array->count *= length;
        at = end + strspn(end, ", ");
    }
}

static char *read_header(FILE *file, const char *path)
{
    unsigned char start[10];
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY\x01", 7) != 0)
        broken(path, "no .npy file of version 1");
    size_t length = start[8] + 256u * start[9];
    char *header = calloc(length + 1, 1);
    if (!header || fread(header, 1, length, file) != length)
        broken(path, "header cut short");
    return header;
}

static void read_values(struct npy *array, FILE *file, const char *type, const char *path)
{
    size_t count = (size_t)array->count, size = type[2] == '8' ? 8 : 4;
    void *raw = malloc(count * size + 1);
    if (!raw || fread(raw, size, count, file) != count || fgetc(file) != EOF)
        broken(path, "fewer or more values than the shape says");
    if (strncmp(type, "<i4", 3) == 0) {
        array->integer = raw;
        return;
    }
    if (strncmp(type, "<f8", 3) == 0) {
        array->real = raw;
        return;
    }
    if (strncmp(type, "<f4", 3) != 0)
        broken(path, "a type other than <f4, <f8, <i4");
    array->real = malloc(count * sizeof(double) + 1);
    if (!array->real)
        broken(path, "out of memory");
    for (size_t i = 0; i < count; i++)
        array->real[i] = ((const float *)raw)[i];
    free(raw);
}

int npy_read(struct npy *array, const char *path)
{
    memset(array, 0, sizeof *array);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    char *header = read_header(file, path);
    if (strncmp(header_field(header, "'fortran_order'", path), "False", 5) != 0)
        broken(path, "not in C order");
    read_shape(array, header_field(header, "'shape'", path), path);
    read_values(array, file, header_field(header, "'descr'", path) + 1, path);
    free(header);
    fclose(file);
    return 0;
}

void npy_free(struct npy *array)
{
    free(array->real);
    free(array->integer);
    memset(array, 0, sizeof *array);
}
