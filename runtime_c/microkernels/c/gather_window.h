/* The inputs of one window of a convolution, one after the other.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_GATHER_WINDOW_H
#define EC_GATHER_WINDOW_H

#include <stdint.h>

/* to[i][j][c] = x[row + i * dilation][column + j][c], or `fill` outside of x, which has `height`
 * rows of `width` pixels of `channels`; i < kernel_h, j < kernel_w. */
static inline void ec_gather_window_s8(const int8_t *x, int8_t *to, int32_t height, int32_t width,
                                       int32_t channels, int32_t kernel_h, int32_t kernel_w,
                                       int32_t dilation, int32_t fill, int32_t row,
                                       int32_t column) {
    const int32_t first = column * channels;
    const int32_t last = first + kernel_w * channels;
    for (int32_t i = 0; i < kernel_h; ++i) {
        const int32_t length = row < 0 || row >= height ? 0 : width * channels;
        const int8_t *const from = x + row * width * channels;
        for (int32_t at = first; at < last; ++at) {
            *to++ = at < 0 || at >= length ? (int8_t)fill : from[at];
        }
        row += dilation;
    }
}

#endif /* EC_GATHER_WINDOW_H */
