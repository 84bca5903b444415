/* Rows of an image of int8 with padding, and as windows, for cores with fast copies.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_IMAGE_ROWS_H
#define EC_IMAGE_ROWS_H

#include "edgec/ec_kernel.h"

/* x [height][width][channels] with zero_point around it: to[rows][out_width][channels] from row `row` on
 * of the padded image, in which x begins at row `top` and column `left`; x is cut where it does not
 * fit. to and x must not overlap. */
static EC_KERNEL void ec_pad_rows_s8(int8_t *to, const int8_t *x, int32_t height, int32_t width,
                                     int32_t channels, int32_t top, int32_t left, int32_t rows,
                                     int32_t out_width, int32_t zero_point, int32_t row) {
    const int32_t bytes = out_width * channels;
    const int32_t before = left * channels;
    const int32_t inside = (width < out_width - left ? width : out_width - left) * channels;
    for (int32_t i = row - top; i < row - top + rows; ++i) {
        if (i < 0 || i >= height) {
            memset(to, zero_point, (size_t)bytes);
        } else {
            memset(to, zero_point, (size_t)before);
            memcpy(to + before, x + i * width * channels, (size_t)inside);
            memset(to + before + inside, zero_point, (size_t)(bytes - before - inside));
        }
        to += bytes;
    }
}

/* to[p][kh][i] = x[kh * dilation_h * width * channels + p * stride_w * channels + i] for i < kernel_w *
 * channels: the windows of `pixels` side by side. to and x must not overlap. */
static EC_KERNEL void ec_columns_s8(int8_t *to, const int8_t *x, int32_t kernel_h, int32_t kernel_w,
                                    int32_t channels, int32_t stride_w, int32_t dilation_h,
                                    int32_t width, int32_t pixels) {
    const int32_t run = kernel_w * channels;
    for (int32_t p = 0; p < pixels; ++p, x += stride_w * channels) {
        const int8_t *from = x;
        for (int32_t kh = 0; kh < kernel_h;
             ++kh, to += run, from += dilation_h * width * channels) {
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
