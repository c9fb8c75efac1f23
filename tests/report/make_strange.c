/* SPDX-License-Identifier: BSD-3-Clause */
/* make_strange FILE.h5ad CELLS LEVELS: two embeddings and two columns whose levels have names that a page could choke on, and so
 * many more levels that there are LEVELS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"

enum { LONG = 100000, DIMS = 3, NAME = 32 };

static const char *const strange[] = {
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror=\"window.hacked = 1\">",
    "\"quotes\" 'and' \\back\\slashes\\u003c",
    "lines \xe2\x80\xa8 and \xe2\x80\xa9",
    "control \x01\x1b[31m\t\n\x7f",
    "no UTF-8 \xff\xfe\xc0\x80",
    "turned \xe2\x80\xae round \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
    "\xf0\x9f\xa7\xac \xe7\xbb\x86\xe8\x83\x9e",
    "<!-- <script> --> ]]> &lt;b&gt; @DATA@ @TITLE@ ${hacked} %s%n",
    "",
    NULL, /* very long */
};
enum { STRANGE = sizeof strange / sizeof strange[0] };

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "make_strange: no memory\n");
        exit(1);
    }
    return memory;
}

/* Names that are not there yet get a number, so that all differ. */
static struct io_strings names_of(int64_t levels)
{
    struct io_strings names = {.count = levels, .at = room((size_t)levels, sizeof *names.at)};
    char *bytes = room((size_t)levels * NAME + LONG + 1, 1);
    names.bytes = bytes;
    for (int64_t l = 0; l < levels; l++) {
        names.at[l] = l < STRANGE && strange[l] ? strange[l] : bytes;
        if (l >= STRANGE)
            bytes += snprintf(bytes, NAME, "level %lld", (long long)l) + 1;
        else if (!strange[l]) {
            memset(bytes, 'x', LONG);
            bytes += LONG + 1;
        }
    }
    return names;
}

int main(int argc, char **argv)
{
    int64_t cells = argc > 3 ? atoll(argv[2]) : 0, levels = argc > 3 ? atoll(argv[3]) : 0;
    if (cells < 10 || levels < STRANGE) {
        fprintf(stderr, "make_strange FILE.h5ad CELLS LEVELS (at least %d)\n", STRANGE);
        return 2;
    }
    float *values = room((size_t)(cells * DIMS), sizeof *values);
    int32_t *batch = room((size_t)cells, sizeof *batch), *type = room((size_t)cells, sizeof *type);
    struct io_strings batches = names_of(STRANGE), types = names_of(levels);
    uint32_t state = 1;
    for (int64_t i = 0; i < cells; i++) {
        batch[i] = (int32_t)(i % STRANGE);
        type[i] = (int32_t)(i % levels);
        for (int64_t d = 0; d < DIMS; d++) {
            state = state * 1664525u + 1013904223u;
            values[i * DIMS + d] = (float)(state >> 8) / 16777216.0f + (float)(batch[i] % 3) * 0.3f;
        }
    }
    const char *const columns[] = {"<b onclick=\"window.hacked = 1\">'&amp;", "types \xe2\x80\xa8 <!--"};
    const int32_t *const level[] = {batch, type};
    const struct io_strings *const names[] = {&batches, &types};
    struct io_new_h5ad file = {.n_cells = cells,
                               .n_dims = DIMS,
                               .values = values,
                               .key = "X <img src=x onerror=window.hacked=1>",
                               .n_columns = 2,
                               .column = columns,
                               .level = level,
                               .level_names = names};
    int err = io_h5ad_create(argv[1], &file, 1);
    if (err)
        fprintf(stderr, "make_strange: %s\n", io_error());
    io_strings_close(&batches);
    io_strings_close(&types);
    free(values);
    free(batch);
    free(type);
    return err ? 1 : 0;
}
