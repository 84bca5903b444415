/* One channel of an image as a plane of its own, with padding around it.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_GATHER_PLANE_H
#define EC_GATHER_PLANE_H

#include <stdint.h>

/* An image: its `step` from pixel to pixel, its place in the plane, and the padding's value. */
typedef struct {
    int32_t height, width, step, top, left, plane_height, plane_width, fill;
} ec_plane_sizes;

/* plane[h][w] = x[h - top][w - left], or `fill` outside of x; x[h][w] is `step` bytes after its
 * left neighbour and has `height` rows of `width`. The plane may end before x does. */
static inline void ec_gather_plane_s8(const int8_t *x, int8_t *plane, const ec_plane_sizes *n) {
    const int32_t columns =
        n->width < n->plane_width - n->left ? n->width : n->plane_width - n->left;
    const int32_t right = n->plane_width - n->left - columns;
    int8_t *to = plane;
    for (int32_t row = 0; row < n->plane_height; ++row) {
        const int8_t *from = x + (row - n->top) * n->width * n->step;
        int8_t *const end = to + n->plane_width;
        if (row < n->top || row - n->top >= n->height) {
            while (to < end) {
                *to++ = (int8_t)n->fill;
            }
            continue;
        }
        for (int32_t column = 0; column < n->left; ++column) {
            *to++ = (int8_t)n->fill;
        }
        for (int32_t column = columns >> 2; column > 0; --column) {
            to[0] = from[0];
            to[1] = from[n->step];
            from += 2 * n->step;
            to[2] = from[0];
            to[3] = from[n->step];
            from += 2 * n->step;
            to += 4;
        }
        for (int32_t column = columns & 3; column > 0; --column) {
            *to++ = *from;
            from += n->step;
        }
        for (int32_t column = 0; column < right; ++column) {
            *to++ = (int8_t)n->fill;
        }
    }
}

/* The same of int16; `step` counts elements. */
static inline void ec_gather_plane_s16(const int16_t *x, int16_t *plane, const ec_plane_sizes *n) {
    const int32_t columns =
        n->width < n->plane_width - n->left ? n->width : n->plane_width - n->left;
    int16_t *to = plane;
    for (int32_t row = 0; row < n->plane_height; ++row) {
        const int16_t *from = x + (row - n->top) * n->width * n->step;
        const int32_t inside = row < n->top || row - n->top >= n->height ? 0 : columns;
        int16_t *const end = to + n->plane_width;
        for (int32_t column = inside > 0 ? n->left : 0; column > 0; --column) {
            *to++ = (int16_t)n->fill;
        }
        for (int32_t column = inside; column > 0; --column) {
            *to++ = *from;
            from += n->step;
        }
        while (to < end) {
            *to++ = (int16_t)n->fill;
        }
    }
}

#endif /* EC_GATHER_PLANE_H */
