/* Rows of an image of int16 on MVE, as in rows_s8.h.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_ROWS_S16_H
#define EC_MVE_ROWS_S16_H

#include "kernels/helium/rows_s8.h"

/* ec_pad_rows_s8_mve with zeros. */
static inline void ec_pad_rows_s16_mve(int16_t *to, const int16_t *x, int32_t height, int32_t width,
                                       int32_t channels, int32_t top, int32_t left, int32_t rows,
                                       int32_t out_width, int32_t by, int32_t row) {
    ec_pad_rows_s8_mve((int8_t *)to, (const int8_t *)x, height, width, 2 * channels, top, left,
                       rows, out_width, by, 0, row);
}

/* ec_columns_mve of int16. */
static EC_KERNEL void ec_columns_s16_mve(int16_t *to, const int16_t *x, int32_t kernel_h,
                                         int32_t kernel_w, int32_t channels, int32_t stride_w,
                                         int32_t dilation_h, int32_t width, int32_t pixels) {
    const ec_columns_mve_sizes n = { kernel_h,   kernel_w, channels, stride_w,
                                     dilation_h, width,    pixels };
    ec_columns_mve((int8_t *)to, (const int8_t *)x, 2, &n);
}

#endif /* EC_MVE_ROWS_S16_H */
