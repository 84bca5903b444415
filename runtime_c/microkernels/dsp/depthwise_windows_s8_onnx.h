/* Depthwise convolutions of int8 as in depthwise_windows_s8.h, rescaled as ONNX Runtime does: the
 * accumulator as float32, times a float32, rounded half to even. In a stream the last words of four
 * channels are their scales, in place of e and M.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_WINDOWS_S8_ONNX_H
#define EC_DEPTHWISE_WINDOWS_S8_ONNX_H

#include "microkernels/dsp/depthwise_windows_s8.h"

/* ec_depthwise_pixel_s8_dsp with ONNX Runtime's rounding. */
static EC_KERNEL void ec_depthwise_pixel_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                     const int32_t *stream, const int32_t *table,
                                                     int32_t quads, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    register const int8_t *r0 __asm__("r0") = x;
    register const int32_t *r1 __asm__("r1") = stream;
    register const int32_t *r2 __asm__("r2") = table;
    register int32_t r3 __asm__("r3") = quads;
    register int8_t *r4 __asm__("r4") = out;
    register int32_t r12 __asm__("r12") = zero_point;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_DEPTHWISE_PIXEL_SUMS
        "vldmia r1!, {s0-s3}\n"
        "vmov s4, s5, r8, r9\n"
        "vmov s6, s7, r10, r11\n"
        ".irp x, 4, 5, 6, 7\n"
        "vcvt.f32.s32 s\\x, s\\x\n"
        ".endr\n"
        "vmul.f32 s4, s4, s0\n"
        "vmul.f32 s5, s5, s1\n"
        "vmul.f32 s6, s6, s2\n"
        "vmul.f32 s7, s7, s3\n"
        ".irp x, 4, 5, 6, 7\n"
        "vcvtr.s32.f32 s\\x, s\\x\n"
        ".endr\n"
        "ldr r12, [sp, #12]\n"
        "vmov r8, r9, s4, s5\n"
        "vmov r10, r11, s6, s7\n"
        ".irp x, r8, r9, r10, r11\n"
        "add \\x, \\x, r12\n"
        "ssat \\x, #8, \\x\n"
        ".endr\n"
        EC_DEPTHWISE_PIXEL_END
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r12)
        :
        : "r5", "r6", "r8", "r9", "r10", "lr", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "cc",
          "memory");
    /* clang-format on */
#else
    for (int32_t q = 0; q < quads; ++q) {
        uint32_t sums[4];
        const int32_t *const scales = ec_depthwise_sums_s8_dsp(sums, x + 4 * q, stream, table);
        for (int32_t c = 0; c < 4; ++c) {
            const float scale = ec_f32_from_bits((uint32_t)scales[c]);
            out[4 * q + c] = ec_requantize_onnx_s8((int32_t)sums[c], scale, zero_point);
        }
        stream = scales + 4;
    }
#endif
}

/* ec_depthwise_windows_s8_dsp with ONNX Runtime's rounding. */
static EC_KERNEL void ec_depthwise_windows_onnx_s8_dsp(
    int8_t *out, const int8_t *x, const int32_t *stream, int32_t height, int32_t width,
    int32_t channels, int32_t kernel_h, int32_t kernel_w, int32_t stride_h, int32_t stride_w,
    int32_t dilation_h, int32_t dilation_w, int32_t top, int32_t left, int32_t out_width,
    int32_t padded, int32_t zero_point, int32_t out_zero_point, int32_t pixel) {
    const int32_t row = width * channels;
    const int32_t y = pixel / out_width * stride_h - top;
    const int32_t taps = kernel_h * kernel_w;
    const int32_t pairs = (taps + 1) / 2;
    const int32_t is_inside = y >= 0 && y + (kernel_h - 1) * dilation_h < height;
    for (int32_t w = 0; w < out_width; ++w, out += channels) {
        const int32_t z = w * stride_w - left;
        const int32_t *constants = stream + 4 * pairs;
        if (!padded || (is_inside && z >= 0 && z + (kernel_w - 1) * dilation_w < width)) {
            ec_depthwise_pixel_onnx_s8_dsp(out, x + y * row + z * channels, constants, stream,
                                           channels / 4, out_zero_point);
            continue;
        }
        for (int32_t c = 0; c < channels; c += 4, constants += 8 + 2 * pairs) {
            uint32_t inputs[10];
            EC_GATHER_WINDOW(inputs)
            ec_depthwise_pixel_onnx_s8_dsp(out + c, (const int8_t *)inputs, constants,
                                           stream + 2 * pairs, 1, out_zero_point);
        }
    }
}

#endif /* EC_DEPTHWISE_WINDOWS_S8_ONNX_H */
