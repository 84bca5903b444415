/* Depthwise 3x3 convolutions of int8 as in depthwise_s8.h, rescaled as ONNX Runtime does: the
 * accumulator as float32, times a float32, rounded half to even. In a stream the last two words of
 * a channel are the bias times 256, and a 256th of its scale: sums come as 256 times themselves,
 * and powers of two change no rounding.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_S8_ONNX_H
#define EC_DEPTHWISE_S8_ONNX_H

#include "microkernels/dsp/depthwise_s8.h"

/* clang-format off */

/* Assembly: four sums to int8; s0 is the scale. */
#define EC_DEPTHWISE_3X3_FOUR_ONNX \
    "vmov s2, s3, r9, r10\n" \
    "vmov s4, s5, r11, r12\n" \
    ".irp x, s2, s3, s4, s5\n" \
    "vcvt.f32.s32 \\x, \\x\n" \
    "vmul.f32 \\x, \\x, s0\n" \
    "vcvtr.s32.f32 \\x, \\x\n" \
    ".endr\n" \
    "ldr r2, [sp, #24]\n" \
    "vmov r9, r10, s2, s3\n" \
    "vmov r11, r12, s4, s5\n" \
    ".irp x, r9, r10, r11, r12\n" \
    "add \\x, \\x, r2\n" \
    "ssat \\x, #8, \\x\n" \
    ".endr\n"

/* Assembly: two sums to int8. */
#define EC_DEPTHWISE_3X3_TWO_ONNX \
    "vmov s2, s3, r9, r10\n" \
    ".irp x, s2, s3\n" \
    "vcvt.f32.s32 \\x, \\x\n" \
    "vmul.f32 \\x, \\x, s0\n" \
    "vcvtr.s32.f32 \\x, \\x\n" \
    ".endr\n" \
    "ldr r2, [sp, #24]\n" \
    "vmov r9, r10, s2, s3\n" \
    ".irp x, r9, r10\n" \
    "add \\x, \\x, r2\n" \
    "ssat \\x, #8, \\x\n" \
    ".endr\n"

/* clang-format on */

/* ec_depthwise_3x3_s8_dsp with ONNX Runtime's rounding, and with any zero point. */
static EC_KERNEL void ec_depthwise_3x3_onnx_s8_dsp(int8_t *out, const int16_t *plane,
                                                   const int32_t *stream, int32_t height,
                                                   int32_t width, int32_t out_width,
                                                   int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int16_t *r1 __asm__("r1") = plane;
    register const int32_t *r2 __asm__("r2") = stream;
    register int32_t r3 __asm__("r3") = height;
    register int32_t r4 __asm__("r4") = width;
    register int32_t r5 __asm__("r5") = channels;
    register int32_t r6 __asm__("r6") = channels * out_width;
    register int32_t r12 __asm__("r12") = zero_point;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_DEPTHWISE_3X3_BEGIN
        "strd r9, r9, [sp, #16]\n"
        "str r12, [sp, #24]\n"
        "vmov s0, r10\n"
        EC_DEPTHWISE_3X3_COLUMNS("", EC_DEPTHWISE_3X3_FOUR_ONNX, EC_DEPTHWISE_3X3_TWO_ONNX)
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r12)
        :
        : "s0", "s1", "s2", "s3", "s4", "s5", "cc", "memory");
    /* clang-format on */
#else
    const float scale = ec_f32_from_bits((uint32_t)stream[4]);
    const int32_t step = out_width * channels;
    int32_t weights[6];
    ec_depthwise_weights_s8_dsp(weights, stream);
    for (int32_t w = 0; w < width; ++w) {
        const int16_t *x = plane + w * 32;
        int8_t *at = out + w * channels;
        for (int32_t h = 0; h < height; h += 2, x += 2, at += 2 * step) {
            int32_t sums[2];
            if (h == height - 1) { /* an odd one, with the one above it */
                x -= 1;
                at -= step;
            }
            ec_depthwise_two_sums_s8_dsp(sums, x, weights, stream[3]);
            at[0] = ec_requantize_onnx_s8(sums[0], scale, zero_point);
            at[step] = ec_requantize_onnx_s8(sums[1], scale, zero_point);
        }
    }
#endif
}

#endif /* EC_DEPTHWISE_S8_ONNX_H */
