/* The inputs of one window of a convolution, one after the other.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_GATHER_WINDOW_H
#define EC_GATHER_WINDOW_H

#include "edgec/ec_kernel.h"
#include "kernels/common/window_sizes.h"

/* An image, the part of it that is copied, and the value outside of it. */
typedef struct {
    int32_t height, width, channels, kernel_h, kernel_w, dilation, fill;
} ec_part_sizes;

/* to[i][j][c] = x[row + i * dilation][column + j][c], or `fill` outside of x, which has `height`
 * rows of `width` pixels of `channels`; i < kernel_h, j < kernel_w. */
static inline void ec_gather_window_s8(const int8_t *x, int8_t *to, const ec_part_sizes *n,
                                       int32_t row, int32_t column) {
    const int32_t first = column * n->channels;
    const int32_t last = first + n->kernel_w * n->channels;
    for (int32_t i = 0; i < n->kernel_h; ++i) {
        const int32_t length = row < 0 || row >= n->height ? 0 : n->width * n->channels;
        const int8_t *const from = x + row * n->width * n->channels;
        for (int32_t at = first; at < last; ++at) {
            *to++ = at < 0 || at >= length ? (int8_t)n->fill : from[at];
        }
        row += n->dilation;
    }
}

/* count limited to [0, most]. */
static inline int32_t ec_inside_window(int32_t count, int32_t most) {
    return count < 0 ? 0 : count > most ? most : count;
}

/* The same with 16 bits, run by run: a run that is partly outside is filled with `fill`, then its inside
 * is copied. */
static inline void ec_gather_window_s16(const int16_t *x, int16_t *to, const ec_part_sizes *n,
                                        int32_t row, int32_t column) {
    const int32_t run = n->kernel_w * n->channels;
    const int32_t before = ec_inside_window(-column * n->channels, run);
    const int32_t after =
        run - ec_inside_window((column + n->kernel_w - n->width) * n->channels, run);
    for (int32_t i = 0; i < n->kernel_h; ++i, row += n->dilation, to += run) {
        const int32_t end = row < 0 || row >= n->height ? before : after;
        if (end - before < run) {
            for (int32_t at = 0; at < run; ++at) {
                to[at] = (int16_t)n->fill;
            }
        }
        if (end > before) {
            const int16_t *const from = x + (row * n->width + column) * n->channels + before;
            (void)memcpy(to + before, from, (size_t)(end - before) * 2u);
        }
    }
}

/* Input by input of the window of output pixel `pixel`: kernel_h * kernel_w * channels int8, row by row.
 * Elements outside of x are zero_point if `padded`; otherwise there are none. */
static inline void ec_gather_pixel_s8(int8_t *to, const int8_t *x, const ec_window_sizes *n,
                                      int32_t pixel) {
    const int32_t above = pixel / n->out_width;
    const int32_t column = (pixel - above * n->out_width) * n->stride_w - n->left;
    const int32_t run = n->dilation_w == 1 ? n->kernel_w * n->channels : n->channels;
    int32_t row = above * n->stride_h - n->top;
    for (int32_t i = 0; i < n->kernel_h; ++i, row += n->dilation_h) {
        const int32_t length = row < 0 || row >= n->height ? 0 : n->width * n->channels;
        const int8_t *const from = x + row * n->width * n->channels;
        int32_t at = column * n->channels;
        for (int32_t j = 0; j < n->kernel_w * n->channels;
             j += run, at += n->dilation_w * n->channels) {
            if (at >= 0 && at + run <= length) {
                (void)memcpy(to, from + at, (size_t)run);
                to += run;
                continue;
            }
            for (int32_t k = at; k < at + run; ++k) {
                *to++ = k < 0 || k >= length ? (int8_t)n->zero_point : from[k];
            }
        }
    }
}

#endif /* EC_GATHER_WINDOW_H */
