/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzz targets share: a file in memory that holds the input, choices made by its bytes, and what must hold after every
 * call. */
#ifndef TESTS_FUZZING_H
#define TESTS_FUZZING_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a target is: takes one input; 0, or -1 where it is none that counts. */
int fuzz_input(const uint8_t *data, size_t size);
/* That, within so much time of the processor; what takes longer is said and ends the process. */
int fuzz_bounded(const uint8_t *data, size_t size, int milliseconds);
#define FUZZ_TOO_LONG "fuzzing: the input takes too long"
#define FUZZ_TOO_MUCH "fuzzing: more than half a gigabyte at once"
/* How many blocks of memory the target's own objects hold (fuzz_memory.c, which few targets have). */
long fuzz_memory_held(void);
/* Before the first values are read or written (fuzz_values.c, which the same targets have). */
void fuzz_values_ready(void);

#define REQUIRE(condition)                                                                                                       \
    do {                                                                                                                         \
        if (!(condition)) {                                                                                                      \
            fprintf(stderr, "%s:%d: does not hold: %s; the last sentence: %s\n", __FILE__, __LINE__, #condition, io_error());    \
            abort();                                                                                                             \
        }                                                                                                                        \
    } while (0)

/* A failure is -1 and one printable sentence; anything else is 0. */
static inline int fails(int result)
{
    if (result == 0)
        return 0;
    REQUIRE(result == -1);
    const char *sentence = io_error();
    size_t length = strlen(sentence);
    REQUIRE(length > 0 && length < 2048);
    for (size_t i = 0; i < length; i++)
        REQUIRE((unsigned char)sentence[i] >= 0x20 && sentence[i] != 0x7f);
    return 1;
}

/* ---- choices: what the input does not say is 0, which is the usual choice everywhere ---- */

struct choices {
    const uint8_t *at, *end;
};

static inline unsigned byte_of(struct choices *c)
{
    return c->at < c->end ? *c->at++ : 0;
}

/* 0 .. n - 1 */
static inline unsigned pick(struct choices *c, unsigned n)
{
    return byte_of(c) % n;
}

/* The usual value three times of four, so that not all is wrong at once. */
static inline unsigned seldom(struct choices *c, unsigned n)
{
    unsigned byte = byte_of(c);
    return byte < 192 ? 0 : (byte - 192) % n;
}

/* A number that is the same for the same input, and has nothing to do with what is in it. */
static inline unsigned drawn_of(const uint8_t *data, size_t size)
{
    uint64_t sum = 1469598103934665603u, eight = 0;
    for (; size >= sizeof eight; data += sizeof eight, size -= sizeof eight) {
        memcpy(&eight, data, sizeof eight);
        sum = (sum ^ eight) * 1099511628211u;
        sum ^= sum >> 32;
    }
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ data[i]) * 1099511628211u;
    return (unsigned)(sum >> 40);
}

/* ---- files ---- */

/* A name in memory's file system that this process has to itself, and with its workers (fuzz_apart.c). */
static inline void fuzz_path(char path[64], const char *ending)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", *owner = getenv("FUZZ_OWNER");
    snprintf(path, 64, "%s/unisono-fuzz-%ld%s", folder, owner ? atol(owner) : (long)getpid(), ending);
}

/* A disk that is full, or a folder that was removed, is no finding. */
#define FUZZ_NO_ROOM "fuzzing: this machine has no room for the file of an input"
static inline void fuzz_no_room(const char *path)
{
    fprintf(stderr, FUZZ_NO_ROOM ", %s\n", path);
    _exit(77);
}

static inline void fuzz_file(const char *path, const void *bytes, size_t size)
{
    for (int attempt = 0; attempt < 10; attempt++) {
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        int written = fd >= 0 && write(fd, bytes, size) == (ssize_t)size;
        if (fd >= 0)
            close(fd);
        if (written)
            return;
        sleep(1);
    }
    fuzz_no_room(path);
}

/* The same where one file after the other is written: into what is there, which costs less than a new one. */
struct fuzz_kept {
    int fd; /* -1: there is none yet */
    size_t size;
};

static inline void fuzz_file_again(struct fuzz_kept *kept, const char *path, const void *bytes, size_t size)
{
    for (int attempt = 0; attempt < 10; attempt++) {
        if (kept->fd < 0) {
            kept->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
            kept->size = 0;
        }
        int whole = kept->fd >= 0 && pwrite(kept->fd, bytes, size, 0) == (ssize_t)size;
        if (whole && (kept->size <= size || ftruncate(kept->fd, (off_t)size) == 0)) {
            kept->size = size;
            return;
        }
        sleep(1);
    }
    fuzz_no_room(path);
}

/* ---- what was read ---- */

static inline void require_strings(const struct io_strings *strings)
{
    size_t length = 0;
    REQUIRE(strings->count >= 0);
    for (int64_t i = 0; i < strings->count; i++)
        length += strlen(strings->at[i]);
    REQUIRE(length < SIZE_MAX);
}

static inline void require_labels(const struct io_labels *labels)
{
    int64_t missing = 0;
    require_strings(&labels->names);
    REQUIRE(labels->names.count == labels->n_levels && labels->name);
    for (int64_t i = 0; i < labels->n_cells; i++) {
        REQUIRE(labels->level[i] >= -1 && labels->level[i] < labels->n_levels);
        missing += labels->level[i] < 0;
    }
    REQUIRE(missing == labels->n_missing);
}

/* After a failure nothing is left. */
static inline void require_no_labels(const struct io_labels *labels)
{
    REQUIRE(!labels->name && !labels->level && !labels->names.at && labels->n_cells == 0);
}

enum { MOST_VALUES = 1 << 22 };

#endif
