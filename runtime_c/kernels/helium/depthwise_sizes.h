/* Sizes of depthwise convolutions on MVE.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_SIZES_H
#define EC_MVE_DEPTHWISE_SIZES_H

#include <stdint.h>

/* Rows of pixels of a depthwise convolution: pixels of x are `step` elements apart, rows `row_step`. */
typedef struct {
    int32_t kernel_h, kernel_w, row_step, rows, step, pixels, channels, zero_point, minimum,
        maximum;
} ec_depthwise_sizes;

#endif /* EC_MVE_DEPTHWISE_SIZES_H */
