/* Matrix products of int8 as in matrix_s8.h, rescaled as ONNX Runtime does: the accumulator as
 * float32, times a float32, rounded half to even. For cores with a floating-point unit, whose
 * conversion VCVTR rounds so in its default mode.
 *
 * In a stream the last words of a pair are, in place of M, C, e of both channels, the scale of a
 * and a 256th of b's: sums of b come as 256 times themselves, and powers of two change no rounding.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_ONNX_H
#define EC_MATRIX_S8_ONNX_H

#include "kernels/common/store_s16.h"
#include "kernels/dsp/matrix_s8.h"

/* The sums of a pair to two results behind `out`: to int8, plus a zero point, or to int16, limited.
 * `at` points at the scale of a. */
static inline EC_INLINE void ec_store_pair_onnx_dsp(void *out, int32_t bytes, int32_t sum,
                                                    int32_t both, const int32_t *at,
                                                    const int32_t *limits) {
    const int32_t above = (int32_t)((uint32_t)both - (uint32_t)sum);
    const float a = ec_f32_from_bits((uint32_t)at[0]);
    const float b = ec_f32_from_bits((uint32_t)at[1]);
    if (bytes == 1) {
        int8_t *const to = (int8_t *)out;
        to[0] = ec_requantize_onnx_s8(sum, a, limits[0]);
        to[1] = ec_requantize_onnx_s8(above, b, limits[0]);
    } else {
        int16_t *const to = (int16_t *)out;
        to[0] = ec_limited_s16(ec_requantize_onnx(sum, a), limits[0], limits[1]);
        to[1] = ec_limited_s16(ec_requantize_onnx(above, b), limits[0], limits[1]);
    }
}

/* The sums of matrix_s8.h to results by the scales at `at`; returns their end. */
static inline EC_INLINE const int32_t *ec_store_onnx_dsp(void *out, int32_t bytes, int32_t step,
                                                         int32_t unit, const int32_t *sums,
                                                         const int32_t *at, const int32_t *limits) {
    int8_t *const to = (int8_t *)out;
    if (unit == 2) {
        for (int32_t p = 0; p < 3; ++p) {
            ec_store_pair_onnx_dsp(to + p * step * bytes, bytes, sums[p], sums[3 + p], at, limits);
        }
    } else {
        ec_store_pair_onnx_dsp(to, bytes, sums[0], sums[1], at, limits);
        ec_store_pair_onnx_dsp(to + 2 * bytes, bytes, sums[2], sums[3], at + 2, limits);
    }
    return at + unit;
}

/* The registers that the assembly here changes. */
#define EC_MATRIX_FLOATS "r12", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"

/* clang-format off */

/* Assembly: sums of three pixels in r8-r10, of a, and r11, r12, lr, of b, by the scales in the
 * stream. */
#define EC_MATRIX_3_ONNX \
    "vldmia r1!, {s0-s1}\n" \
    "vmov s2, s3, r8, r9\n" \
    "vmov s4, s5, r10, r11\n" \
    "vmov s6, s7, r12, lr\n" \
    ".irp x, s2, s3, s4, s5, s6, s7\n" \
    "vcvt.f32.s32 \\x, \\x\n" \
    ".endr\n" \
    ".irp x, s2, s3, s4\n" \
    "vmul.f32 \\x, \\x, s0\n" \
    ".endr\n" \
    ".irp x, s5, s6, s7\n" \
    "vmul.f32 \\x, \\x, s1\n" \
    ".endr\n" \
    ".irp x, s2, s3, s4, s5, s6, s7\n" \
    "vcvtr.s32.f32 \\x, \\x\n" \
    ".endr\n" \
    "vmov r8, r9, s2, s3\n" \
    "vmov r10, r11, s4, s5\n" \
    "vmov r12, lr, s6, s7\n"

/* Assembly: three pixels up to their results; `last` may change where the last are, in r7. What r6 is,
 * the zero point or the limits, is on the stack behind the number of channels. */
#define EC_MATRIX_3_ONNX_SUMS(last) \
    EC_MATRIX_BEGIN(last EC_MATRIX_3_SIZE) \
    "str r6, [sp, #32]\n" \
    "adr.w r7, 6f\n" \
    EC_MATRIX_LOOP(EC_MATRIX_3_PAIR, EC_MATRIX_3_FIRST, EC_MATRIX_3_STEP, "12", "92") \
    "6:\n" \
    "sub r11, r11, r8\n" \
    "sub r12, r12, r9\n" \
    "sub lr, lr, r10\n" \
    EC_MATRIX_3_ONNX

/* Assembly: results of three pixels stored as int8. */
#define EC_MATRIX_3_STORE_S8 \
    "ldrd r2, r3, [sp, #28]\n" \
    "ldr r0, [sp, #16]\n" \
    ".irp x, r8, r9, r10, r11, r12, lr\n" \
    "add \\x, \\x, r3\n" \
    "ssat \\x, #8, \\x\n" \
    ".endr\n" \
    EC_MATRIX_3_STORE("strb", "r2", "1")

/* Assembly: keep the zero point of one pixel, and what stores the results. */
#define EC_MATRIX_1_ONNX_CHOOSE \
    "str r6, [sp, #24]\n" \
    "adr.w r7, 6f\n"

/* Assembly: sums of four channels by the scales in the stream. */
#define EC_MATRIX_1_ONNX \
    "vldmia r1!, {s0-s3}\n" \
    "vmov s4, s5, r10, r11\n" \
    "vmov s6, s7, r12, lr\n" \
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
    "vmov r10, r11, s4, s5\n" \
    "vmov r12, lr, s6, s7\n"

/* Assembly: results of four channels stored as int8. */
#define EC_MATRIX_1_STORE_S8 \
    "ldr r2, [sp, #24]\n" \
    ".irp x, r10, r11, r12, lr\n" \
    "add \\x, \\x, r2\n" \
    "ssat \\x, #8, \\x\n" \
    "strb \\x, [r0], #1\n" \
    ".endr\n"

/* Assembly: the results of four channels, so many bytes that `store` stores, and the end of a frame. */
#define EC_MATRIX_1_ONNX_END(frame, store, bytes) \
    "6:\n" \
    EC_MATRIX_1_ONNX \
    store \
    EC_MATRIX_1_NEXT(bytes) \
    "9:\n" \
    "add sp, #" frame "\n" \
    "pop {r4-r11, lr}\n"

/* clang-format on */

/* ec_matrix_3_s8_dsp with ONNX Runtime's rounding. Registers of floats: s0, s1 scales, s2-s7 the
 * results. */
static EC_KERNEL void ec_matrix_3_onnx_s8_dsp(int8_t *out, const int16_t *x, const int32_t *stream,
                                              int32_t quads, int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_RUN(quads,
        EC_MATRIX_3_ONNX_SUMS("")
        EC_MATRIX_3_STORE_S8
        EC_MATRIX_NEXT("r0", "1")
        EC_MATRIX_END,
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    ec_matrix_c_dsp(out, 1, x, stream, quads, channels, 2, ec_pair_sums_3_s8_dsp, ec_store_onnx_dsp,
                    &zero_point);
#endif
}

/* ec_matrix_1_s8_dsp with ONNX Runtime's rounding. */
static EC_KERNEL void ec_matrix_1_onnx_s8_dsp(int8_t *out, const int16_t *x, const int32_t *stream,
                                              int32_t octets, int32_t channels,
                                              int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_RUN(octets,
        EC_MATRIX_1_BEGIN("28", "4", "106", EC_MATRIX_1_ONNX_CHOOSE)
        EC_MATRIX_1_OCTETS(EC_MATRIX_1_PACKED)
        EC_MATRIX_1_ONNX_END("28", EC_MATRIX_1_STORE_S8, "4"),
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    ec_matrix_c_dsp(out, 1, x, stream, octets, channels, 4, ec_four_sums_s8_dsp, ec_store_onnx_dsp,
                    &zero_point);
#endif
}

/* ec_matrix_1_plain_s8_dsp with ONNX Runtime's rounding. */
static EC_KERNEL void ec_matrix_1_plain_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                    const int32_t *stream, int32_t octets,
                                                    int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_RUN(octets,
        EC_MATRIX_1_BEGIN("28", "3", "122", EC_MATRIX_1_ONNX_CHOOSE)
        EC_MATRIX_1_OCTETS(EC_MATRIX_1_PLAIN)
        EC_MATRIX_1_ONNX_END("28", EC_MATRIX_1_STORE_S8, "4"),
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    ec_matrix_c_dsp(out, 1, x, stream, octets, channels, 4, ec_four_plain_sums_s8_dsp,
                    ec_store_onnx_dsp, &zero_point);
#endif
}

#endif /* EC_MATRIX_S8_ONNX_H */
