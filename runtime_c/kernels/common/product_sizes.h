/* The sizes of an int8 convolution, which kernels take as one argument.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_PRODUCT_SIZES_H
#define EC_PRODUCT_SIZES_H

#include <stdint.h>

/* A window: its rows are `pitch` bytes apart and its pixels `step`; numbers of pixels and channels; the
 * results' zero point and limits. */
typedef struct {
    int32_t kernel_h, kernel_w, in_channels, pitch, step, pixels, channels;
    int32_t zero_point, minimum, maximum;
} ec_conv_sizes;

/* The same of depthwise convolutions: from input to input of a row `tap` bytes, from row to row of
 * windows `row_step`. */
typedef struct {
    int32_t kernel_h, kernel_w, pitch, tap, row_step, rows, step, pixels, channels;
    int32_t zero_point, minimum, maximum;
} ec_depthwise_sizes;

/* How sums of depthwise convolutions become results. */
typedef struct {
    int32_t rounding, limits[3];
} ec_depthwise_results_sizes;

/* Pixels that are computed together: rows of `run` inputs of a window, `wide` pixels `step` bytes
 * apart, and how sums become results. */
typedef struct {
    int32_t kernel_h, run, pitch, step, channels, wide, rounding;
    int32_t limits[3];
} ec_tile_sizes;

#endif /* EC_PRODUCT_SIZES_H */
