/* Depthwise convolutions of int8 as in depthwise_windows_s8.h, rescaled as ONNX Runtime does: the
 * accumulator as float32, times a float32, rounded half to even. In a stream the last words of four
 * channels are their scales, in place of e and M.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_WINDOWS_S8_ONNX_H
#define EC_DEPTHWISE_WINDOWS_S8_ONNX_H

#include "kernels/dsp/depthwise_windows_s8.h"

/* clang-format off */

/* Assembly: rescale the sums of four channels with ONNX Runtime's rounding; r12 is `ends`. */
#define EC_DEPTHWISE_PIXEL_ONNX \
    "vldmia r1!, {s0-s3}\n" \
    "vmov s4, s5, r8, r9\n" \
    "vmov s6, s7, r10, r11\n" \
    ".irp x, 4, 5, 6, 7\n" \
    "vcvt.f32.s32 s\\x, s\\x\n" \
    ".endr\n" \
    "vmul.f32 s4, s4, s0\n" \
    "vmul.f32 s5, s5, s1\n" \
    "vmul.f32 s6, s6, s2\n" \
    "vmul.f32 s7, s7, s3\n" \
    ".irp x, 4, 5, 6, 7\n" \
    "vcvtr.s32.f32 s\\x, s\\x\n" \
    ".endr\n" \
    "ldr r12, [sp, #12]\n" \
    "vmov r8, r9, s4, s5\n" \
    "vmov r10, r11, s6, s7\n"

/* Assembly: the same plus a zero point, as int8. */
#define EC_DEPTHWISE_PIXEL_ONNX_S8 \
    ".irp x, r8, r9, r10, r11\n" \
    "add \\x, \\x, r12\n" \
    "ssat \\x, #8, \\x\n" \
    ".endr\n" \
    EC_DEPTHWISE_PIXEL_STORE_S8

/* One pixel; `store` converts the rescaled sums to results, with `ends` as its parameter. */
#define EC_DEPTHWISE_PIXEL_ONNX_DSP(store) \
    register const int8_t *r0 __asm__("r0") = x; \
    register const int32_t *r1 __asm__("r1") = stream; \
    register const int32_t *r2 __asm__("r2") = table; \
    register int32_t r3 __asm__("r3") = quads; \
    register void *r4 __asm__("r4") = out; \
    register int32_t r12 __asm__("r12") = ends; \
    __asm__ volatile( \
        ".syntax unified\n" \
        EC_DEPTHWISE_PIXEL_SUMS \
        EC_DEPTHWISE_PIXEL_ONNX \
        EC_DEPTHWISE_PIXEL_END(store) \
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r12) \
        : \
        : "r5", "r6", "r8", "r9", "r10", "lr", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", \
          "cc", "memory")

/* clang-format on */

/* ec_depthwise_pixel_s8_dsp with ONNX Runtime's rounding; ends: the zero point. */
static EC_KERNEL void ec_depthwise_pixel_onnx_s8_dsp(void *out, const int8_t *x,
                                                     const int32_t *stream, const int32_t *table,
                                                     int32_t quads, int32_t ends) {
#if EC_DSP_FPU_ASM
    EC_DEPTHWISE_PIXEL_ONNX_DSP(EC_DEPTHWISE_PIXEL_ONNX_S8);
#else
    int8_t *const to = (int8_t *)out;
    for (int32_t q = 0; q < quads; ++q) {
        uint32_t sums[4];
        const int32_t *const scales = ec_depthwise_sums_s8_dsp(sums, x + 4 * q, stream, table);
        for (int32_t c = 0; c < 4; ++c) {
            const float scale = ec_f32_from_bits((uint32_t)scales[c]);
            to[4 * q + c] = ec_requantize_onnx_s8((int32_t)sums[c], scale, ends);
        }
        stream = scales + 4;
    }
#endif
}

/* ec_depthwise_windows_s8_dsp with ONNX Runtime's rounding. */
static EC_KERNEL void ec_depthwise_windows_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                       const int32_t *stream,
                                                       const ec_window_sizes *n,
                                                       int32_t out_zero_point, int32_t pixel) {
    ec_depthwise_windows_row_dsp(out, x, stream, n, pixel, 1, out_zero_point,
                                 ec_depthwise_pixel_onnx_s8_dsp);
}

#endif /* EC_DEPTHWISE_WINDOWS_S8_ONNX_H */
