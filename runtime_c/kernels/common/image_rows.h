/* Rows of an image of int8 with padding, and as windows, for cores with fast copies.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_IMAGE_ROWS_H
#define EC_IMAGE_ROWS_H

#include "edgec/ec_kernel.h"

/* Some rows of a padded image, for ec_pad_rows_s8. */
typedef struct {
    int32_t height, width, channels, top, left, rows, out_width, zero_point;
} ec_pad_rows_sizes;

/* A row of `pixels` windows side by side, in an image of `width` pixels. */
typedef struct {
    int32_t kernel_h, kernel_w, channels, stride_w, dilation_h, width, pixels;
} ec_columns_sizes;

/* x [height][width][channels] with zero_point around it: to[rows][out_width][channels] from row `row` on
 * of the padded image, in which x begins at row `top` and column `left`; x is cut where it does not
 * fit. to and x must not overlap. */
static EC_KERNEL void ec_pad_rows_s8(int8_t *to, const int8_t *x, const ec_pad_rows_sizes *n,
                                     int32_t row) {
    /* first, since stores of bytes may change *n, for all that compilers know */
    const int32_t height = n->height, across = n->width * n->channels, fill = n->zero_point;
    const int32_t bytes = n->out_width * n->channels, before = n->left * n->channels;
    const int32_t inside = across < bytes - before ? across : bytes - before;
    const int32_t first = row - n->top, end = first + n->rows;
    for (int32_t i = first; i < end; ++i) {
        if (i < 0 || i >= height) {
            memset(to, fill, (size_t)bytes);
        } else {
            memset(to, fill, (size_t)before);
            memcpy(to + before, x + i * across, (size_t)inside);
            memset(to + before + inside, fill, (size_t)(bytes - before - inside));
        }
        to += bytes;
    }
}

/* to[p][kh][i] = x[kh * dilation_h * width * channels + p * stride_w * channels + i] for i < kernel_w *
 * channels: the windows of `pixels` side by side. to and x must not overlap. */
static EC_KERNEL void ec_columns_s8(int8_t *to, const int8_t *x, const ec_columns_sizes *n) {
    const int32_t kernel_h = n->kernel_h, run = n->kernel_w * n->channels;
    const int32_t row = n->dilation_h * n->width * n->channels, step = n->stride_w * n->channels;
    const int32_t pixels = n->pixels;
    for (int32_t p = 0; p < pixels; ++p, x += step) {
        const int8_t *from = x;
        for (int32_t kh = 0; kh < kernel_h; ++kh, to += run, from += row) {
            if (run > 16 || run < 4) {
                (void)memcpy(to, from, (size_t)run);
            } else if (run >= 8) { /* both halves, which may share some bytes */
                EC_COPY(to, from, 8u);
                EC_COPY(to + run - 8, from + run - 8, 8u);
            } else {
                EC_COPY(to, from, 4u);
                EC_COPY(to + run - 4, from + run - 4, 4u);
            }
        }
    }
}

#endif /* EC_IMAGE_ROWS_H */
