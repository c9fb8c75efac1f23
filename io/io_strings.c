/* SPDX-License-Identifier: BSD-3-Clause */
/* Many strings in one block. */
#include <stdlib.h>
#include <string.h>

#include "io_internal.h"

int io_builder_add(struct io_builder *builder, const char *text, size_t length)
{
    if (builder->room - builder->used <= length) {
        size_t room = builder->room ? builder->room * 2 : 4096;
        while (room - builder->used <= length)
            room *= 2;
        char *bytes = realloc(builder->bytes, room);
        if (!bytes)
            return io_fail("no memory for names (%zu bytes)", room);
        builder->bytes = bytes;
        builder->room = room;
    }
    if (length)
        memcpy(builder->bytes + builder->used, text, length);
    builder->bytes[builder->used + length] = 0;
    builder->used += length + 1;
    builder->count++;
    return 0;
}

int io_builder_finish(struct io_builder *builder, struct io_strings *strings)
{
    memset(strings, 0, sizeof *strings);
    if (builder->count > 0) {
        const char **at = io_room(builder->count, sizeof *at);
        if (!at) {
            io_builder_close(builder);
            return io_fail("no memory for %lld names", (long long)builder->count);
        }
        char *bytes = realloc(builder->bytes, builder->used); /* names are kept for long, their spare room is not */
        strings->bytes = bytes ? bytes : builder->bytes;
        strings->at = at;
        strings->count = builder->count;
        const char *text = strings->bytes;
        for (int64_t i = 0; i < strings->count; i++) {
            at[i] = text;
            text += strlen(text) + 1;
        }
        builder->bytes = NULL;
    }
    io_builder_close(builder);
    return 0;
}

void io_builder_close(struct io_builder *builder)
{
    free(builder->bytes);
    memset(builder, 0, sizeof *builder);
}

void io_strings_close(struct io_strings *strings)
{
    free(strings->at);
    free(strings->bytes);
    memset(strings, 0, sizeof *strings);
}

char *io_copy_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        io_fail("no memory for a name");
    return copy;
}
