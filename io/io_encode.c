/* SPDX-License-Identifier: BSD-3-Clause */
/* Labels to levels. Every kind of column (strings, integers, booleans, whole floats, fields of a table) comes here as text, so
   that the same labels give the same levels whatever they were stored as. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io_internal.h"

/* Mixes eight bytes at a time; the last step makes the low bits depend on all of them. */
static uint32_t hash_of(const char *text, size_t length)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)length, word;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    word = 0;
    if (length)
        memcpy(&word, text, length);
    h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 29;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)(h >> 32);
}

/* The slot that holds the text, or the empty one where it belongs. */
static uint64_t slot_of(const struct io_encoder *encoder, const char *text, size_t length, uint32_t hash)
{
    uint64_t mask = encoder->n_slots - 1, slot = hash & mask;
    for (; encoder->slots[slot]; slot = (slot + 1) & mask) {
        const struct io_known *known = &encoder->known[encoder->slots[slot] - 1];
        if (known->hash == hash && known->length == length &&
            (length == 0 || memcmp(encoder->texts.bytes + known->start, text, length) == 0))
            break;
    }
    return slot;
}

/* Room for one more text, at most half of the slots taken. */
static int grow(struct io_encoder *encoder)
{
    if (encoder->count == encoder->room) {
        int64_t room = encoder->room ? encoder->room * 2 : 64;
        struct io_known *known = io_room_grown(encoder->known, room, sizeof *known);
        if (!known)
            return io_fail("no memory for %" PRId64 " levels", room);
        encoder->known = known;
        encoder->room = room;
    }
    if ((uint64_t)encoder->count * 2 >= encoder->n_slots) {
        uint64_t n_slots = encoder->n_slots ? encoder->n_slots * 4 : 256;
        uint32_t *slots = io_room_zeroed((int64_t)n_slots, sizeof *slots);
        if (!slots)
            return io_fail("no memory for %" PRId64 " levels", encoder->count);
        for (int64_t i = 0; i < encoder->count; i++) {
            uint64_t slot = encoder->known[i].hash & (n_slots - 1);
            while (slots[slot])
                slot = (slot + 1) & (n_slots - 1);
            slots[slot] = (uint32_t)i + 1;
        }
        free(encoder->slots);
        encoder->slots = slots;
        encoder->n_slots = n_slots;
    }
    return 0;
}

int32_t io_encoder_add(struct io_encoder *encoder, const char *text, size_t length)
{
    uint32_t hash = hash_of(text, length);
    if (encoder->n_slots) {
        uint32_t number = encoder->slots[slot_of(encoder, text, length, hash)];
        if (number)
            return (int32_t)(number - 1);
    }
    if (encoder->count == INT32_MAX || length > UINT32_MAX)
        return io_fail("more than %d different labels", INT32_MAX);
    if (grow(encoder))
        return -1;
    size_t start = encoder->texts.used;
    if (io_builder_add(&encoder->texts, text, length))
        return -1;
    encoder->known[encoder->count] = (struct io_known){.start = start, .length = (uint32_t)length, .hash = hash};
    encoder->count++;
    encoder->slots[slot_of(encoder, text, length, hash)] = (uint32_t)encoder->count;
    return (int32_t)(encoder->count - 1);
}

int32_t io_encoder_find(const struct io_encoder *encoder, const char *text, size_t length)
{
    if (!encoder->n_slots)
        return -1;
    return (int32_t)encoder->slots[slot_of(encoder, text, length, hash_of(text, length))] - 1;
}

const char *io_encoder_text(const struct io_encoder *encoder, int32_t number)
{
    return encoder->texts.bytes + encoder->known[number].start;
}

void io_encoder_close(struct io_encoder *encoder)
{
    io_builder_close(&encoder->texts);
    free(encoder->known);
    free(encoder->slots);
    memset(encoder, 0, sizeof *encoder);
}

static int number_of(const struct io_encoder *encoder, int64_t i, double *value)
{
    return io_parse_number(io_encoder_text(encoder, (int32_t)i), encoder->known[i].length, value);
}

int32_t io_encoder_continuous(const struct io_encoder *encoder)
{
    int32_t first = -1;
    double value;
    for (int64_t i = 0; i < encoder->count; i++) {
        if (number_of(encoder, i, &value))
            return -1;
        if (first < 0 && !isnan(value) && value != floor(value))
            first = (int32_t)i;
    }
    return first;
}

int io_fail_continuous(const char *path, const char *column, const char *value, int64_t cell)
{
    return io_fail("%s: column \"%s\" holds numbers that are not whole (first %s at cell %" PRId64
                   "): a continuous variable is no batch; --regress %s takes out what is linear in it, --force makes every "
                   "distinct value a level",
                   path, column, value, cell + 1, column);
}

struct rank {
    double value;
    const char *text;
    size_t length;
    int32_t number;
};

static int by_bytes(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    size_t least = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, least);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static int by_value(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value) : by_bytes(a, b);
}

/* Numbers the levels anew in their final order and writes their names. */
static int sort_levels(const struct io_encoder *encoder, int32_t *level, int64_t n_cells, struct io_builder *names)
{
    int64_t count = encoder->count;
    struct rank *ranks = io_room(count, sizeof *ranks);
    int32_t *place = io_room(count, sizeof *place);
    int numbers = 1, err = ranks && place ? 0 : io_fail("no memory to sort %" PRId64 " levels", count);
    for (int64_t i = 0; !err && i < count; i++) {
        ranks[i] =
            (struct rank){.text = io_encoder_text(encoder, (int32_t)i), .length = encoder->known[i].length, .number = (int32_t)i};
        /* NaN has no place in an order; as text it has. */
        if (numbers && (number_of(encoder, i, &ranks[i].value) || isnan(ranks[i].value)))
            numbers = 0;
    }
    if (!err)
        qsort(ranks, (size_t)count, sizeof *ranks, numbers ? by_value : by_bytes);
    for (int64_t i = 0; !err && i < count; i++) {
        place[ranks[i].number] = (int32_t)i;
        err = io_builder_add(names, ranks[i].text, ranks[i].length);
    }
    for (int64_t i = 0; !err && i < n_cells; i++)
        if (level[i] >= 0)
            level[i] = place[level[i]];
    free(ranks);
    free(place);
    return err;
}

int io_labels_finish(struct io_labels *labels, const char *column, struct io_encoder *encoder, int32_t **level, int64_t n_cells,
                     int sorted)
{
    struct io_builder names = {0};
    memset(labels, 0, sizeof *labels);
    int err = sorted && encoder->count > 0 ? sort_levels(encoder, *level, n_cells, &names) : 0;
    if (!err && (!sorted || encoder->count == 0)) {
        names = encoder->texts;
        memset(&encoder->texts, 0, sizeof encoder->texts);
    }
    if (!err)
        err = io_builder_finish(&names, &labels->names);
    if (!err && !(labels->name = io_copy_text(column)))
        err = -1;
    if (!err) {
        labels->n_cells = n_cells;
        labels->n_levels = labels->names.count;
        for (int64_t i = 0; i < n_cells; i++)
            labels->n_missing += (*level)[i] < 0;
        labels->level = *level;
        *level = NULL;
    } else {
        io_labels_close(labels);
    }
    io_builder_close(&names);
    io_encoder_close(encoder);
    free(*level);
    *level = NULL;
    return err;
}

void io_labels_close(struct io_labels *labels)
{
    free(labels->name);
    free(labels->level);
    io_strings_close(&labels->names);
    memset(labels, 0, sizeof *labels);
}
