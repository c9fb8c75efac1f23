/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that io itself takes, without HDF5's, which keeps some of what it takes and loses some: the linker leads the calls
   of the objects of a target here (--wrap). So it costs nothing to see after every input that io gave back what it took, where
   looking for leaks takes as long as a hundred inputs. */
#include <sanitizer/common_interface_defs.h>

#include "fuzzing.h"

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
char *__real_strdup(const char *);
char *__real_strndup(const char *, size_t);
void __real_free(void *);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
char *__wrap_strdup(const char *);
char *__wrap_strndup(const char *, size_t);
void __wrap_free(void *);

/* No file of a target's size justifies that. */
enum { MOST_BYTES = 1 << 29 };

static _Thread_local long held;

long fuzz_memory_held(void)
{
    return held;
}

static void look_at_size(size_t size)
{
    static const char words[] = FUZZ_TOO_MUCH "\n";
    if (size < MOST_BYTES)
        return;
    if (write(STDERR_FILENO, words, sizeof words - 1) > 0)
        __sanitizer_print_stack_trace();
    _exit(1);
}

static void *taken(void *memory)
{
    held += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    look_at_size(size);
    return taken(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    look_at_size(size && count > SIZE_MAX / size ? SIZE_MAX : count * size);
    return taken(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    look_at_size(size);
    void *grown = __real_realloc(memory, size);
    held += !memory && grown;
    return grown;
}

char *__wrap_strdup(const char *text)
{
    return taken(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t most)
{
    return taken(__real_strndup(text, most));
}

void __wrap_free(void *memory)
{
    held -= memory != NULL;
    __real_free(memory);
}
