/* Matrix products of int8 as in matrix_s8_four.h, four pixels at a time, rescaled as in
 * matrix_s8_onnx.h: the accumulator as float32, times a float32, rounded half to even. For cores with a
 * floating-point unit.
 *
 * In a stream the last words of a pair are a 256th of the scale of a and of b: sums come as 256 times
 * themselves, which have 24 bits before, so that float32 holds them.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_ONNX_FOUR_H
#define EC_MATRIX_S8_ONNX_FOUR_H

#include "kernels/dsp/matrix_s8_int4_four.h"

/* The results of one channel from its sums, `step` apart; scale: a 256th. */
static inline EC_UNUSED void ec_store_4_onnx_s8_dsp(int8_t *out, int32_t step, const int32_t *sums,
                                                    int32_t scale, int32_t zero_point) {
    int32_t above[4];
    ec_take_apart_4_s8_dsp(above, sums);
    for (int32_t p = 0; p < 4; ++p) {
        out[p * step] =
            ec_requantize_onnx_s8(above[p], ec_f32_from_bits((uint32_t)scale), zero_point);
    }
}

/* All channels in C, by `sums_of` a pair. */
static inline EC_UNUSED void ec_matrix_4_onnx_c_dsp(
    int8_t *out, const int8_t *x, const int32_t *stream, int32_t quads, int32_t channels,
    int32_t zero_point,
    const int32_t *(*sums_of)(int32_t (*)[3], const int8_t *, const int32_t *, int32_t)) {
    for (int32_t o = 0; o < channels; o += 2) {
        int8_t *const to = out + (o + 2 > channels ? channels - 2 : o);
        int32_t sums[2][3];
        stream = sums_of(sums, x, stream, quads);
        ec_store_4_onnx_s8_dsp(to, channels, sums[0], stream[0], zero_point);
        ec_store_4_onnx_s8_dsp(to + 1, channels, sums[1], stream[1], zero_point);
        stream += 2;
    }
}

/* clang-format off */

/* Assembly: both channels' sums in r8-r10, r2 and r11, r12, lr, r3 to results; r0 is free, the zero point
 * is in s10. */
#define EC_MATRIX_4_ONNX \
    "vldmia r1!, {s0-s1}\n" \
    "vmov s2, s3, r8, r9\n" \
    "vmov s4, s5, r10, r2\n" \
    "vmov s6, s7, r11, r12\n" \
    "vmov s8, s9, lr, r3\n" \
    ".irp x, s2, s3, s4, s5, s6, s7, s8, s9\n" \
    "vcvt.f32.s32 \\x, \\x\n" \
    ".endr\n" \
    ".irp x, s2, s3, s4, s5\n" \
    "vmul.f32 \\x, \\x, s0\n" \
    ".endr\n" \
    ".irp x, s6, s7, s8, s9\n" \
    "vmul.f32 \\x, \\x, s1\n" \
    ".endr\n" \
    ".irp x, s2, s3, s4, s5, s6, s7, s8, s9\n" \
    "vcvtr.s32.f32 \\x, \\x\n" \
    ".endr\n" \
    "vmov r8, r9, s2, s3\n" \
    "vmov r10, r2, s4, s5\n" \
    "vmov r11, r12, s6, s7\n" \
    "vmov lr, r3, s8, s9\n" \
    "vmov r0, s10\n" \
    ".irp x, r8, r9, r10, r2, r11, r12, lr, r3\n" \
    "add \\x, \\x, r0\n" \
    "ssat \\x, #8, \\x\n" \
    ".endr\n"

/* clang-format on */

/* out[p * channels + o] for four pixels and all channels: the sum over k of x[k] * w[o][k] + bias[o],
 * rescaled by the scale of the channel. The rest is as for ec_matrix_4_s8_dsp. */
static EC_KERNEL void ec_matrix_4_onnx_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                              int32_t quads, int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_4_RUN(zero_point,
        EC_MATRIX_4_SUMS("vmov s10, r5\nadr.w r10, 6f + 1\n", EC_MATRIX_4_FIRST, EC_MATRIX_4_QUAD, "70", "15")
        EC_MATRIX_4_ABOVE("6")
        EC_MATRIX_4_ONNX
        EC_MATRIX_4_STORE,
        "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "memory");
    /* clang-format on */
#else
    ec_matrix_4_onnx_c_dsp(out, x, stream, quads, channels, zero_point, ec_sums_4_s8_dsp);
#endif
}

/* The same by the stream of matrix_s8_int4_four.h, with a 4096th of the scales. */
static EC_KERNEL void ec_matrix_4_s4_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, int32_t quads,
                                                 int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_4_RUN(zero_point,
        EC_MATRIX_4_SUMS("vmov s10, r5\nadr.w r10, 6f + 1\n", EC_S4_4_FIRST, EC_S4_4_QUAD, "80", "7")
        EC_MATRIX_4_ABOVE("6")
        EC_MATRIX_4_ONNX
        EC_MATRIX_4_STORE,
        "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "memory");
    /* clang-format on */
#else
    ec_matrix_4_onnx_c_dsp(out, x, stream, quads, channels, zero_point, ec_s4_sums_4_s8_dsp);
#endif
}

#endif /* EC_MATRIX_S8_ONNX_FOUR_H */
