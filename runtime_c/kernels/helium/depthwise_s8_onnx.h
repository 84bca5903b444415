/* Depthwise convolution of int8 as in depthwise_s8.h, rescaled as ONNX Runtime does: the accumulator
 * as float32, times a float32, rounded half to even by VCVTN. For cores whose vectors have floats.
 * In a stream the last words of 16 channels are their scales, four vectors.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_S8_ONNX_H
#define EC_MVE_DEPTHWISE_S8_ONNX_H

#include "kernels/helium/depthwise_s8.h"

/* clang-format off */

/* Assembly: the sums in q4 to q7 rescaled with ONNX Runtime's rounding. */
#define EC_DEPTHWISE_ONNX_MVE \
    ".irp a, q4, q5, q6, q7\n" \
    "vldrw.32 q0, [r2], #16\n" \
    "vcvt.f32.s32 \\a, \\a\n" \
    "vmul.f32 \\a, \\a, q0\n" \
    "vcvtn.s32.f32 \\a, \\a\n" \
    ".endr\n"

/* clang-format on */

/* ec_depthwise_blocks_s8_mve with ONNX Runtime's rounding; scales are below a half, or
 * rescaled sums below 2^30. */
static EC_KERNEL void ec_depthwise_blocks_onnx_s8_mve(int8_t *out, const int8_t *x,
                                                      const int32_t *stream,
                                                      const ec_depthwise_mve_sizes *n) {
#if EC_MVE_FLOAT_ASM
    EC_DEPTHWISE_RUN_MVE(EC_DEPTHWISE_ANY_BLOCKS_MVE(EC_DEPTHWISE_ONNX_MVE), n->zero_point,
                         n->minimum, n->maximum);
#else
    ec_blocks_c_mve(out, x, stream, n, 1, ec_rescale_sum_onnx);
#endif
}

/* ec_depthwise_s8_mve with ONNX Runtime's rounding. */
static inline void ec_depthwise_onnx_s8_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                            const ec_depthwise_mve_sizes *n) {
    ec_depthwise_in_blocks_mve(out, x, stream, n, ec_depthwise_blocks_onnx_s8_mve);
}

#endif /* EC_MVE_DEPTHWISE_S8_ONNX_H */
