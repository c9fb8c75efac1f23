/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of text, or of bytes that another library made, as a whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io_internal.h"

int io_bytes_write(const char *target, const void *bytes, size_t count)
{
    struct io_target out;
    int err = io_target_begin(&out, target, 1);
    if (!err)
        err = io_target_write(&out, bytes, count);
    if (!err)
        return io_target_commit(&out);
    io_target_abandon(&out);
    return err;
}

int io_text_write(const char *target, const char *text)
{
    return io_bytes_write(target, text, strlen(text));
}

char *io_text_read(const char *path, int64_t most)
{
    struct stat info;
    FILE *in = fopen(path, "re");
    char *text = NULL;
    if (!in || fstat(fileno(in), &info))
        io_fail("%s: cannot be opened: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        io_fail("%s: is not a regular file", path);
    else if (info.st_size > most)
        io_fail("%s: has %" PRId64 " bytes, at most %" PRId64 " are read", path, (int64_t)info.st_size, most);
    else if (!(text = calloc(1, (size_t)info.st_size + 1)))
        io_fail_memory(path, "its text", (int64_t)info.st_size);
    else if (fread(text, 1, (size_t)info.st_size, in) != (size_t)info.st_size) {
        io_fail("%s: cannot be read: %s", path, ferror(in) ? strerror(errno) : "it became shorter meanwhile");
        free(text);
        text = NULL;
    }
    if (in)
        fclose(in);
    return text;
}
