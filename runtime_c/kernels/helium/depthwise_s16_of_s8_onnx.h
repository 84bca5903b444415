/* Depthwise convolution of int8 as in depthwise_s16.h whose results are int16 without a zero point,
 * rescaled as ONNX Runtime does: the accumulator as float32, times a float32, rounded half to even by
 * VCVTN. For cores whose vectors have floats.
 *
 * A stream has the layout of depthwise_s16.h, with four scales for the even and then the odd channels
 * in place of multipliers and shifts.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_S16_OF_S8_ONNX_H
#define EC_MVE_DEPTHWISE_S16_OF_S8_ONNX_H

#include "kernels/helium/depthwise_s16.h"

/* clang-format off */

/* Assembly: the sums in \a rescaled with ONNX Runtime's rounding. */
#define EC_DEPTHWISE_RESCALE_ONNX_MVE \
    "vldrw.32 q0, [%[from]], #16\n" \
    "vcvt.f32.s32 \\a, \\a\n" \
    "vmul.f32 \\a, \\a, q0\n" \
    "vcvtn.s32.f32 \\a, \\a\n"

/* clang-format on */

/* ec_depthwise_rescale_s16_mve with ONNX Runtime's rounding. */
static inline EC_UNUSED const int32_t *ec_depthwise_rescale_onnx_mve(int32_t *sums,
                                                                     const int32_t *scales) {
    for (int32_t i = 0; i < 8; ++i) {
        const float scale = ec_f32_from_bits((uint32_t)scales[4 * (i & 1) + (i >> 1)]);
        sums[i] = ec_requantize_onnx(sums[i], scale);
    }
    return scales + 8;
}

/* One pixel of ec_depthwise_onnx_s8_s16_mve. */
static inline EC_INLINE void ec_depthwise_pixel_onnx_s8_s16_mve(void *out, const void *x,
                                                                const int32_t *stream, int32_t taps,
                                                                int32_t channels,
                                                                const int32_t *limits) {
#if EC_MVE_FLOAT_ASM
    EC_DEPTHWISE_PIXEL_S16_MVE(
        (uint32_t)ec_both_limits(limits[1], limits[2]), EC_DEPTHWISE_LIMITS_S16_MVE, "vldrb.s16",
        "l", EC_DEPTHWISE_RESCALE_ONNX_MVE, EC_DEPTHWISE_STORE_S16_MVE, "", ", lsr #1");
#else
    const ec_depthwise_pixel_c_sizes n = { 2, 1, taps, channels };
    ec_depthwise_pixel_c_mve(out, x, stream, &n, limits, ec_depthwise_rescale_onnx_mve);
#endif
}

/* ec_depthwise_s16_mve of int8, of any scales. */
static EC_KERNEL void ec_depthwise_onnx_s8_s16_mve(int16_t *out, const int8_t *x,
                                                   const int32_t *stream,
                                                   const ec_depthwise_s16_mve_sizes *n) {
    ec_depthwise_pixels_mve(out, 2, x, 1, stream, n, ec_depthwise_pixel_onnx_s8_s16_mve);
}

#endif /* EC_MVE_DEPTHWISE_S16_OF_S8_ONNX_H */
