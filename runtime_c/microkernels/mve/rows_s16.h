/* Rows of an image of int16 on MVE, as in rows_s8.h.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_ROWS_S16_H
#define EC_MVE_ROWS_S16_H

#include "microkernels/mve/rows_s8.h"

/* ec_pad_rows_s8_mve with zeros. */
static inline void ec_pad_rows_s16_mve(int16_t *to, const int16_t *x, int32_t height, int32_t width,
                                       int32_t channels, int32_t top, int32_t left, int32_t rows,
                                       int32_t out_width, int32_t by, int32_t row) {
    ec_pad_rows_s8_mve((int8_t *)to, (const int8_t *)x, height, width, 2 * channels, top, left,
                       rows, out_width, by, 0, row);
}

/* ec_columns_s8_mve; no input of a window lies further than 65535 elements from the first. */
static EC_KERNEL void ec_columns_s16_mve(int16_t *to, const int16_t *x, int32_t kernel_h,
                                         int32_t kernel_w, int32_t channels, int32_t stride_w,
                                         int32_t dilation_h, int32_t width, int32_t pixels) {
    const int32_t depth = kernel_h * kernel_w * channels;
    uint16_t offsets[64];
    ec_find_offsets_mve(offsets, kernel_h, kernel_w * channels, dilation_h * width * channels);
    for (int32_t p = 0; p < pixels; ++p) {
#if EC_MVE_ASM
        int16_t *out = to;
        const uint16_t *at = offsets;
        __asm__ volatile("dlstp.16 lr, %3\n"
                         "1:\n"
                         "vldrh.u16 q1, [%1], #16\n"
                         "vldrh.u16 q0, [%2, q1, uxtw #1]\n"
                         "vstrh.16 q0, [%0], #16\n"
                         "letp lr, 1b\n"
                         : "+&l"(out), "+&r"(at)
                         : "r"(x), "r"(depth)
                         : "lr", "q0", "q1", "cc", "memory");
#else
        for (int32_t i = 0; i < depth; ++i) {
            to[i] = x[offsets[i]];
        }
#endif
        to += depth;
        x += stride_w * channels;
    }
}

#endif /* EC_MVE_ROWS_S16_H */
