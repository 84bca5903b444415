/* Matrix products of int8 as in matrix_s8.h, rescaled as ONNX Runtime does: the accumulator as
 * float32, times a float32, rounded half to even. For cores with a floating-point unit, whose
 * conversion VCVTR rounds so in its default mode.
 *
 * In a stream the last words of a pair are, instead of M, C, e of both channels, the scale of a and a
 * 256th of the scale of b: sums of b are multiplied by 256, and powers of two change no rounding. For
 * int4 weights, each scale is divided by the factor of the channel's sum. A stream for one pixel's int8
 * results begins with two more words: a scale that all channels share and a 256th of it, and then it has
 * no other scales; or zeros.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_ONNX_H
#define EC_MATRIX_S8_ONNX_H

#include "kernels/common/store_s16.h"
#include "kernels/dsp/matrix_s8_int4.h"

/* The sums of a pair to two results after `out`: to int8, plus a zero point, or to int16, limited.
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

/* The registers that this assembly changes. */
#define EC_MATRIX_FLOATS "r12", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"

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

/* Assembly: three pixels up to their results; `last` may change r7, the address of the last results. r6,
 * the zero point or the limits, is on the stack after the number of channels. */
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

/* Assembly: keep the zero point of one pixel, or its limits, in s8; choose the code that stores the
 * results. */
#define EC_MATRIX_1_ONNX_CHOOSE \
    "vmov s8, r6\n" \
    "adr.w r7, 6f\n"

/* Assembly: the same, and the scales that all channels share, if they do. */
#define EC_MATRIX_1_ONNX_SCALES \
    "vldr s0, [r1]\n" \
    "vldr s1, [r1, #4]\n" \
    "vldr s2, [r1]\n" \
    "vldr s3, [r1, #4]\n" \
    "ldr r5, [r1], #8\n" \
    EC_MATRIX_1_ONNX_CHOOSE \
    "cbz r5, 8f\n" \
    "adr.w r7, 7f\n" \
    "8:\n"

/* Assembly: rescale the sums of four channels by the scales in the stream, or from label 7 on by the
 * scales in registers. */
#define EC_MATRIX_1_ONNX \
    "vldmia r1!, {s0-s3}\n" \
    "7:\n" \
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
    "vmov r2, s8\n" \
    ".irp x, r10, r11, r12, lr\n" \
    "add \\x, \\x, r2\n" \
    "ssat \\x, #8, \\x\n" \
    "strb \\x, [r0], #1\n" \
    ".endr\n"

/* Assembly: the results of four channels, which `store` stores as `bytes` bytes, and the end of a frame. */
#define EC_MATRIX_1_ONNX_END(frame, store, bytes) \
    "6:\n" \
    EC_MATRIX_1_ONNX \
    store \
    EC_MATRIX_1_NEXT(bytes) \
    "9:\n" \
    "add sp, #" frame "\n"

/* Assembly: three pixels, all of it. */
#define EC_MATRIX_ONNX_3 \
    EC_MATRIX_RUN(quads, \
        EC_MATRIX_3_ONNX_SUMS("") \
        EC_MATRIX_3_STORE_S8 \
        EC_MATRIX_NEXT("r0", "1") \
        EC_MATRIX_END, \
        EC_MATRIX_FLOATS)

/* Assembly of one whole pixel; `load` loads inputs; octet, bytes: as in EC_MATRIX_1_BEGIN. */
#define EC_MATRIX_1_TO_S8_ONNX(octet, bytes, load) \
    EC_MATRIX_RUN(octets, \
        EC_MATRIX_1_BEGIN("28", octet, bytes, EC_MATRIX_1_ONNX_SCALES) \
        EC_MATRIX_1_OCTETS(load) \
        EC_MATRIX_1_ONNX_END("28", EC_MATRIX_1_STORE_S8, "4"), \
        EC_MATRIX_FLOATS)

/* Assembly: one pixel. */
#define EC_MATRIX_ONNX_1 EC_MATRIX_1_TO_S8_ONNX("4", "90", EC_MATRIX_1_PACKED)

/* Assembly: one pixel of int8 inputs that are not packed. */
#define EC_MATRIX_ONNX_PLAIN EC_MATRIX_1_TO_S8_ONNX("3", "106", EC_MATRIX_1_PLAIN)

/* Assembly: limit x by the limits in r3 and r2. */
#define EC_MATRIX_LIMIT_S16 \
    "cmp \\x, r3\n" \
    "it lt\n" \
    "movlt \\x, r3\n" \
    "cmp \\x, r2\n" \
    "it gt\n" \
    "movgt \\x, r2\n"

/* Assembly: results of three pixels, limited; the limits are on the stack after the bytes of a pixel. */
#define EC_MATRIX_3_STORE_S16 \
    "ldrd r4, r3, [sp, #28]\n" \
    "ldr r0, [sp, #16]\n" \
    "asr r2, r3, #16\n" \
    "sxth r3, r3\n" \
    ".irp x, r8, r9, r10, r11, r12, lr\n" \
    EC_MATRIX_LIMIT_S16 \
    ".endr\n" \
    EC_MATRIX_3_STORE("strh", "r4", "2")

/* Assembly: results of four channels, limited. */
#define EC_MATRIX_1_STORE_S16 \
    "vmov r3, s8\n" \
    "asr r2, r3, #16\n" \
    "sxth r3, r3\n" \
    ".irp x, r10, r11, r12, lr\n" \
    EC_MATRIX_LIMIT_S16 \
    "strh \\x, [r0], #2\n" \
    ".endr\n"

/* One whole pixel; `load` loads inputs; octet, bytes: as in EC_MATRIX_1_BEGIN. The sizes are the number
 * of bytes before the last four results, and four. */
#define EC_MATRIX_1_TO_S16_ONNX(octet, bytes, load) \
    const int32_t sizes[3] = { octets, 2 * channels - 4, ec_both_limits(minimum, maximum) }; \
    EC_MATRIX_RUN_BY(sizes, \
        EC_MATRIX_1_BEGIN("28", octet, bytes, EC_MATRIX_1_ONNX_CHOOSE) \
        EC_MATRIX_1_OCTETS(load) \
        EC_MATRIX_1_ONNX_END("28", EC_MATRIX_1_STORE_S16, "8"), \
        EC_MATRIX_FLOATS)

/* Assembly: three pixels to int16, all of it. */
#define EC_MATRIX_ONNX_S16_3 \
    const int32_t sizes[3] = { quads, 2 * channels, ec_both_limits(minimum, maximum) }; \
    EC_MATRIX_RUN_BY(sizes, \
        EC_MATRIX_3_ONNX_SUMS( \
            "subs r7, #2\n" /* the last two results take 4 bytes */ \
            "str r7, [sp, #24]\n") \
        EC_MATRIX_3_STORE_S16 \
        EC_MATRIX_NEXT("r0", "2") \
        EC_MATRIX_END, \
        EC_MATRIX_FLOATS)

/* Assembly: one pixel to int16. */
#define EC_MATRIX_ONNX_S16_1 EC_MATRIX_1_TO_S16_ONNX("4", "90", EC_MATRIX_1_PACKED)

/* Assembly: one pixel to int16 of int8 inputs that are not packed. */
#define EC_MATRIX_ONNX_S16_PLAIN EC_MATRIX_1_TO_S16_ONNX("3", "106", EC_MATRIX_1_PLAIN)

/* Assembly: three pixels, all of it. */
#define EC_S4_ONNX_3 \
    EC_MATRIX_RUN(quads, \
        EC_S4_3_BEGIN("36", "") \
        EC_S4_3_LOOP \
        EC_MATRIX_3_ONNX \
        EC_MATRIX_3_STORE_S8 \
        EC_MATRIX_NEXT("r0", "1") \
        EC_MATRIX_END, \
        EC_MATRIX_FLOATS)

/* Assembly: one pixel, all of it, by inputs that `load` gives and `total` adds up; octet, bytes: as in
 * EC_MATRIX_1_BEGIN. */
#define EC_S4_1_ONNX(octet, bytes, total, load) \
    EC_MATRIX_RUN(octets, \
        EC_MATRIX_1_BEGIN("32", octet, bytes, EC_MATRIX_1_ONNX_CHOOSE) \
        total \
        EC_S4_1_OCTETS(load) \
        EC_MATRIX_1_ONNX_END("32", EC_MATRIX_1_STORE_S8, "4"), \
        EC_MATRIX_FLOATS)

/* Assembly: one pixel. */
#define EC_S4_ONNX_1 EC_S4_1_ONNX("4", "118", EC_S4_1_TOTAL, EC_MATRIX_1_PACKED)

/* Assembly: one pixel of int8 inputs that are not packed. */
#define EC_S4_ONNX_PLAIN \
    EC_S4_1_ONNX("3", "134", EC_S4_1_PLAIN_TOTAL, EC_MATRIX_1_PLAIN)

/* clang-format on */

/* The sums of matrix_s8_int4.h to int8 by the scales at `at`; returns their end. */
static inline EC_INLINE const int32_t *
ec_s4_store_onnx_s8_dsp(void *out, int32_t bytes, int32_t step, int32_t unit, const int32_t *sums,
                        const int32_t *at, const int32_t *limits) {
    int8_t *to = (int8_t *)out;
    (void)bytes;
    if (unit == 2) {
        const float a = ec_f32_from_bits((uint32_t)at[0]);
        const float b = ec_f32_from_bits((uint32_t)at[1]);
        for (int32_t p = 0; p < 3; ++p, to += step) {
            to[0] = ec_requantize_onnx_s8(sums[p], a, limits[0]);
            to[1] = ec_requantize_onnx_s8(sums[3 + p], b, limits[0]);
        }
        return at + 2;
    }
    for (int32_t i = 0; i < 4; ++i) {
        to[i] = ec_requantize_onnx_s8(sums[i], ec_f32_from_bits((uint32_t)at[i]), limits[0]);
    }
    return at + 4;
}

/* ec_store_onnx_dsp to int8; limits: the zero point, and what a stream of one pixel begins with. */
static inline EC_INLINE const int32_t *ec_store_onnx_s8_dsp(void *out, int32_t bytes, int32_t step,
                                                            int32_t unit, const int32_t *sums,
                                                            const int32_t *at,
                                                            const int32_t *limits) {
    if (unit == 2 || limits[1] == 0) {
        return ec_store_onnx_dsp(out, bytes, step, unit, sums, at, limits);
    }
    ec_store_pair_onnx_dsp(out, bytes, sums[0], sums[1], limits + 1, limits);
    ec_store_pair_onnx_dsp((int8_t *)out + 2, bytes, sums[2], sums[3], limits + 1, limits);
    return at;
}

/* To int8. */
#define EC_OF(name) name##_onnx_s8_dsp
#define EC_OUT int8_t
#define EC_ENDS int32_t zero_point
#define EC_LIMITS zero_point, stream[0], stream[1]
#define EC_ASM EC_DSP_FPU_ASM
#define EC_CODE_3 EC_MATRIX_ONNX_3
#define EC_CODE_1 EC_MATRIX_ONNX_1
#define EC_CODE_PLAIN EC_MATRIX_ONNX_PLAIN
#define EC_SUMS_3 ec_pair_sums_3_s8_dsp
#define EC_SUMS_1 ec_four_sums_s8_dsp
#define EC_SUMS_PLAIN ec_four_plain_sums_s8_dsp
#define EC_STORE ec_store_onnx_s8_dsp
#define EC_HEAD 2
#include "kernels/dsp/matrix.inc"

/* ec_matrix_1_onnx_s8_dsp, for a stream with one scale for all channels. */
static inline void ec_matrix_1_shared_onnx_s8_dsp(int8_t *out, const int16_t *x,
                                                  const int32_t *stream, int32_t octets,
                                                  int32_t channels, int32_t zero_point) {
    ec_matrix_1_onnx_s8_dsp(out, x, stream, octets, channels, zero_point);
}

/* ec_matrix_1_plain_onnx_s8_dsp, for such a stream. */
static inline void ec_matrix_1_plain_shared_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                        const int32_t *stream, int32_t octets,
                                                        int32_t channels, int32_t zero_point) {
    ec_matrix_1_plain_onnx_s8_dsp(out, x, stream, octets, channels, zero_point);
}

/* To int16 without a zero point, limited to a range of its own. */
#define EC_OF(name) name##_onnx_s8_s16_dsp
#define EC_OUT int16_t
#define EC_ENDS int32_t minimum, int32_t maximum
#define EC_LIMITS minimum, maximum
#define EC_ASM EC_DSP_FPU_ASM
#define EC_CODE_3 EC_MATRIX_ONNX_S16_3
#define EC_CODE_1 EC_MATRIX_ONNX_S16_1
#define EC_CODE_PLAIN EC_MATRIX_ONNX_S16_PLAIN
#define EC_SUMS_3 ec_pair_sums_3_s8_dsp
#define EC_SUMS_1 ec_four_sums_s8_dsp
#define EC_SUMS_PLAIN ec_four_plain_sums_s8_dsp
#define EC_STORE ec_store_onnx_dsp
#define EC_HEAD 0
#include "kernels/dsp/matrix.inc"

/* To int8 by int4 weights. */
#define EC_OF(name) name##_s4_onnx_s8_dsp
#define EC_OUT int8_t
#define EC_ENDS int32_t zero_point
#define EC_LIMITS zero_point
#define EC_ASM EC_DSP_FPU_ASM
#define EC_CODE_3 EC_S4_ONNX_3
#define EC_CODE_1 EC_S4_ONNX_1
#define EC_CODE_PLAIN EC_S4_ONNX_PLAIN
#define EC_SUMS_3 ec_s4_3_sums_s8_dsp
#define EC_SUMS_1 ec_s4_1_sums_s8_dsp
#define EC_SUMS_PLAIN ec_s4_1_plain_sums_s8_dsp
#define EC_STORE ec_s4_store_onnx_s8_dsp
#define EC_HEAD 0
#include "kernels/dsp/matrix.inc"

#endif /* EC_MATRIX_S8_ONNX_H */
