/* One channel of an image as a plane of its own, with padding around it.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_GATHER_PLANE_H
#define EC_GATHER_PLANE_H

#include <stdint.h>

/* plane[h][w] = x[h - top][w - left], or `fill` outside of x; x[h][w] is `step` bytes after its
 * left neighbour and has `height` rows of `width`. The plane may end before x does. */
static inline void ec_gather_plane_s8(const int8_t *x, int8_t *plane, int32_t height, int32_t width,
                                      int32_t step, int32_t top, int32_t left, int32_t plane_height,
                                      int32_t plane_width, int32_t fill) {
    const int32_t columns = width < plane_width - left ? width : plane_width - left;
    const int32_t right = plane_width - left - columns;
    int8_t *to = plane;
    for (int32_t row = 0; row < plane_height; ++row) {
        const int8_t *from = x + (row - top) * width * step;
        int8_t *const end = to + plane_width;
        if (row < top || row - top >= height) {
            while (to < end) {
                *to++ = (int8_t)fill;
            }
            continue;
        }
        for (int32_t column = 0; column < left; ++column) {
            *to++ = (int8_t)fill;
        }
        for (int32_t column = columns >> 2; column > 0; --column) {
            to[0] = from[0];
            to[1] = from[step];
            from += 2 * step;
            to[2] = from[0];
            to[3] = from[step];
            from += 2 * step;
            to += 4;
        }
        for (int32_t column = columns & 3; column > 0; --column) {
            *to++ = *from;
            from += step;
        }
        for (int32_t column = 0; column < right; ++column) {
            *to++ = (int8_t)fill;
        }
    }
}

/* The same of int16; `step` counts elements. */
static inline void ec_gather_plane_s16(const int16_t *x, int16_t *plane, int32_t height,
                                       int32_t width, int32_t step, int32_t top, int32_t left,
                                       int32_t plane_height, int32_t plane_width, int32_t fill) {
    const int32_t columns = width < plane_width - left ? width : plane_width - left;
    int16_t *to = plane;
    for (int32_t row = 0; row < plane_height; ++row) {
        const int16_t *from = x + (row - top) * width * step;
        const int32_t inside = row < top || row - top >= height ? 0 : columns;
        int16_t *const end = to + plane_width;
        for (int32_t column = inside > 0 ? left : 0; column > 0; --column) {
            *to++ = (int16_t)fill;
        }
        for (int32_t column = inside; column > 0; --column) {
            *to++ = *from;
            from += step;
        }
        while (to < end) {
            *to++ = (int16_t)fill;
        }
    }
}

#endif /* EC_GATHER_PLANE_H */
