/* SPDX-License-Identifier: BSD-3-Clause */
/* The static picture as PNG: librsvg draws it, at three times its size. */
#include <cairo.h>
#include <librsvg/rsvg.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { SCALE = 3 };
const int report_has_png = 1;

struct bytes {
    unsigned char *at;
    size_t used, room;
};

static cairo_status_t append(void *user, const unsigned char *data, unsigned length)
{
    struct bytes *b = user;
    if (b->room - b->used < length) {
        size_t room = 2 * b->room + length;
        unsigned char *grown = realloc(b->at, room);
        if (!grown)
            return CAIRO_STATUS_NO_MEMORY;
        b->at = grown;
        b->room = room;
    }
    memcpy(b->at + b->used, data, length);
    b->used += length;
    return CAIRO_STATUS_SUCCESS;
}

static const char *render(RsvgHandle *handle, struct bytes *png)
{
    gdouble width = 0, height = 0;
    if (!rsvg_handle_get_intrinsic_size_in_pixels(handle, &width, &height))
        return "the picture has no size";
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)(SCALE * width), (int)(SCALE * height));
    cairo_t *cairo = cairo_create(surface);
    RsvgRectangle all = {0, 0, SCALE * width, SCALE * height};
    cairo_status_t status = cairo_status(cairo);
    if (!status && !rsvg_handle_render_document(handle, cairo, &all, NULL))
        status = CAIRO_STATUS_INVALID_CONTENT;
    if (!status)
        status = cairo_surface_write_to_png_stream(surface, append, png);
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
    return status ? cairo_status_to_string(status) : NULL;
}

int report_png(const char *target, const char *svg)
{
    struct bytes png = {NULL, 0, 0};
    RsvgHandle *handle = rsvg_handle_new_from_data((const guint8 *)svg, strlen(svg), NULL);
    const char *why = "librsvg does not take it";
    if (handle) {
        /* Without it texts would be drawn at a size that is nobody's. */
        rsvg_handle_set_dpi(handle, 96);
        why = render(handle, &png);
        g_object_unref(handle);
    }
    int status = why                                        ? say_failed("--png %s: the picture cannot be drawn: %s", target, why)
                 : io_bytes_write(target, png.at, png.used) ? say_failed("%s", io_error())
                                                            : EXIT_DONE;
    free(png.at);
    return status;
}
