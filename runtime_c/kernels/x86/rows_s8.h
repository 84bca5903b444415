/* Rows of an image of int8 with padding, for cores with libc's fast copies.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_X86_ROWS_S8_H
#define EC_X86_ROWS_S8_H

#include "edgec/ec_kernel.h"

/* x [height][width][channels] with zero_point around it: to[rows][out_width][channels] from row `row` on
 * of the padded image, in which x begins at row `top` and column `left`; x is cut where it does not
 * fit. to and x must not overlap. */
static EC_KERNEL void ec_pad_rows_s8_x86(int8_t *to, const int8_t *x, int32_t height, int32_t width,
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

#endif /* EC_X86_ROWS_S8_H */
