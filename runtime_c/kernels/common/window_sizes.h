/* The sizes of a window, which kernels take as one argument.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_WINDOW_SIZES_H
#define EC_WINDOW_SIZES_H

#include <stdint.h>

/* The window that moves over x [height][width][channels] to a row of `out_width` outputs: its inputs,
 * the steps between windows and between inputs, how far the first lies above and left of x, whether
 * some reach outside of x, and what stands there. */
typedef struct {
    int32_t height, width, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t top, left, out_width, padded, zero_point;
} ec_window_sizes;

#endif /* EC_WINDOW_SIZES_H */
