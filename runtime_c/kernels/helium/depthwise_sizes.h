/* The sizes of depthwise convolutions on MVE.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_SIZES_H
#define EC_MVE_DEPTHWISE_SIZES_H

#include <stdint.h>

/* See ec_depthwise_s8_mve. pitch and tap are in the stream, too; zero_point is 0 where results are
 * int16. */
typedef struct {
    int32_t kernel_h, kernel_w, pitch, tap, row_step, rows, step, pixels, channels;
    int32_t zero_point, minimum, maximum;
} ec_depthwise_mve_sizes;

#endif /* EC_MVE_DEPTHWISE_SIZES_H */
