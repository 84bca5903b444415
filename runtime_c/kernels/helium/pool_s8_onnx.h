/* Sums of int8 channels in floats, as ONNX Runtime takes means, for the vectors of Armv8.1-M with
 * floats (MVE-F).
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_POOL_S8_ONNX_H
#define EC_MVE_POOL_S8_ONNX_H

#include "edgec/ec_kernel.h"

/* out[c] = the sum of (x[k * channels + c] - zero_point) * s over k < kernel_h * kernel_w, one after
 * the other in floats; s is the float of these bits, large enough for no sum to be denormal. channels
 * is a multiple of 8. out is aligned to 4 bytes and overlaps x nowhere. */
static EC_KERNEL void ec_sum_real_channels_s8_mve(float *out, const int8_t *x, int32_t kernel_h,
                                                  int32_t kernel_w, int32_t channels,
                                                  int32_t zero_point, int32_t scale_bits) {
    const int32_t count = kernel_h * kernel_w;
    for (int32_t c = 0; c < channels; c += 8) {
#if EC_MVE_FLOAT_ASM
        const int8_t *at = x + c;
        __asm__ volatile("vmov.i32 q0, #0\n"
                         "vmov.i32 q1, #0\n"
                         "dls lr, %2\n"
                         "1:\n"
                         "vldrb.s32 q2, [%0]\n"
                         "vldrb.s32 q3, [%0, #4]\n"
                         "vsub.i32 q2, q2, %4\n"
                         "vsub.i32 q3, q3, %4\n"
                         "vcvt.f32.s32 q2, q2\n"
                         "vcvt.f32.s32 q3, q3\n"
                         "vmul.f32 q2, q2, %5\n"
                         "vmul.f32 q3, q3, %5\n"
                         "vadd.f32 q0, q0, q2\n"
                         "vadd.f32 q1, q1, q3\n"
                         "add %0, %0, %3\n"
                         "le lr, 1b\n"
                         "vstrw.32 q0, [%1]\n"
                         "vstrw.32 q1, [%1, #16]\n"
                         : "+&l"(at)
                         : "r"(out + c), "r"(count), "r"(channels), "r"(zero_point), "r"(scale_bits)
                         : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
#else
        float scale;
        EC_COPY(&scale, &scale_bits, sizeof scale);
        for (int32_t i = c; i < c + 8; ++i) {
            float sum = 0.0f;
            for (int32_t k = 0; k < count; ++k) {
                sum += (float)(x[k * channels + i] - zero_point) * scale;
            }
            out[i] = sum;
        }
#endif
    }
}

#endif /* EC_MVE_POOL_S8_ONNX_H */
