/* Matrix products of int8 as in matrix_s8_four.h, four pixels at a time, rescaled as in
 * matrix_s8_onnx.h: the accumulator as float32, times a float32, rounded half to even. For cores with a
 * floating-point unit.
 *
 * In a stream the last words of a pair are how a and b are rescaled. For most scales an integer M gives
 * the same int8 for every sum: 256 * sum * M, shifted right by 32, is 2^12 times the result. If both a
 * and b have one, these are the words. Otherwise they are negative float32: minus a 256th of the
 * scales, for 256 times sums, which have 24 bits before, so that float32 holds them.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_ONNX_FOUR_H
#define EC_MATRIX_S8_ONNX_FOUR_H

#include "kernels/dsp/matrix_s8_int4_four.h"

/* The results of one channel from its sums, `step` apart, by the word `factor` of the stream; `shift` as
 * for EC_MATRIX_4_ONNX. */
static inline EC_UNUSED void ec_store_4_onnx_s8_dsp(int8_t *out, int32_t step, const int32_t *sums,
                                                    int32_t factor, int32_t zero_point,
                                                    int32_t shift) {
    const int32_t constant = zero_point * (1 << shift) + (1 << (shift - 1));
    int32_t above[4];
    ec_take_apart_4_s8(above, sums);
    for (int32_t p = 0; p < 4; ++p) {
        out[p * step] =
            factor < 0
                ? ec_requantize_onnx_s8(above[p], -ec_f32_from_bits((uint32_t)factor), zero_point)
                : ec_rescale_relu_s8_dsp(above[p], factor, constant, shift);
    }
}

/* All channels in C, by `sums_of` a pair. */
static inline EC_UNUSED void ec_matrix_4_onnx_c_dsp(
    int8_t *out, const int8_t *x, const int32_t *stream, int32_t quads, int32_t channels,
    int32_t zero_point, int32_t shift,
    const int32_t *(*sums_of)(int32_t (*)[3], const int8_t *, const int32_t *, int32_t)) {
    for (int32_t o = 0; o < channels; o += 2) {
        int8_t *const to = out + (o + 2 > channels ? channels - 2 : o);
        int32_t sums[2][3];
        stream = sums_of(sums, x, stream, quads);
        ec_store_4_onnx_s8_dsp(to, channels, sums[0], stream[0], zero_point, shift);
        ec_store_4_onnx_s8_dsp(to + 1, channels, sums[1], stream[1], zero_point, shift);
        stream += 2;
    }
}

/* clang-format off */

/* Assembly: set s11 to the term added before a shift: a half, plus the zero point in `register`. */
#define EC_MATRIX_4_ONNX_BEGIN(register, shift, half) \
    "lsls r6, " register ", #" shift "\n" \
    "add r6, r6, #" half "\n" \
    "vmov s11, r6\n"

/* Assembly: both channels' sums in r8-r10, r2 and r11, r12, lr, r3 to results, by integers and a shift;
 * or by floats, one of each channel after the other, in registers that rotate: for few pairs. shift: of
 * the upper words of products. */
#define EC_MATRIX_4_ONNX(shift) \
    "ldmia r1!, {r4, r5}\n" \
    "vmov r6, s11\n" \
    "cmp r4, #0\n" \
    "bpl 5f\n" \
    "vmov s0, s1, r4, r5\n" \
    "asrs r6, r6, #" shift "\n" /* the zero point */ \
    "movs r0, #4\n" \
    "9:\n" \
    "vmov s2, s3, r8, r11\n" \
    "vcvt.f32.s32 s2, s2\n" \
    "vcvt.f32.s32 s3, s3\n" \
    "vnmul.f32 s2, s2, s0\n" \
    "vnmul.f32 s3, s3, s1\n" \
    "vcvtr.s32.f32 s2, s2\n" \
    "vcvtr.s32.f32 s3, s3\n" \
    "mov r8, r9\n" \
    "mov r9, r10\n" \
    "mov r10, r2\n" \
    "mov r11, r12\n" \
    "mov r12, lr\n" \
    "mov lr, r3\n" \
    "vmov r2, r3, s2, s3\n" \
    "adds r2, r2, r6\n" \
    "adds r3, r3, r6\n" \
    "ssat r2, #8, r2\n" \
    "ssat r3, #8, r3\n" \
    "subs r0, #1\n" \
    "bne 9b\n" \
    "b 8f\n" \
    "5:\n" \
    ".irp x, r8, r9, r10, r2\n" \
    "smmla \\x, \\x, r4, r6\n" \
    "ssat \\x, #8, \\x, asr #" shift "\n" \
    ".endr\n" \
    ".irp x, r11, r12, lr, r3\n" \
    "smmla \\x, \\x, r5, r6\n" \
    "ssat \\x, #8, \\x, asr #" shift "\n" \
    ".endr\n" \
    "8:\n"

/* All channels in assembly; half: half of 1 << shift. The rest is as for EC_MATRIX_4_SUMS. */
#define EC_MATRIX_4_ONNX_RUN(shift, half, first, quad, bytes, most) \
    EC_MATRIX_4_RUN(zero_point, \
        EC_MATRIX_4_SUMS(EC_MATRIX_4_ONNX_BEGIN("r5", shift, half) "adr.w r10, 6f + 1\n", \
                         first, quad, bytes, most) \
        EC_MATRIX_4_ABOVE("6") \
        EC_MATRIX_4_ONNX(shift) \
        EC_MATRIX_4_STORE, \
        "s0", "s1", "s2", "s3", "s11", "memory")

/* Assembly: how many quads the loop has. A model defines what its layers need. */
#if defined(EC_MATRIX_4_ONNX_MODEL_ROUND)
#define EC_MATRIX_4_ONNX_ROUND EC_MATRIX_4_ONNX_MODEL_ROUND
#else
#define EC_MATRIX_4_ONNX_ROUND "15"
#endif

/* Assembly: the same by int4 weights. */
#if defined(EC_S4_4_ONNX_MODEL_ROUND)
#define EC_S4_4_ONNX_ROUND EC_S4_4_ONNX_MODEL_ROUND
#else
#define EC_S4_4_ONNX_ROUND "7"
#endif

/* clang-format on */

/* out[p * channels + o] for four pixels and all channels: the sum over k of x[k] * w[o][k] + bias[o],
 * rescaled by the scale of the channel. The rest is as for ec_matrix_4_s8_dsp. */
static EC_KERNEL void ec_matrix_4_onnx_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                              int32_t quads, int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    EC_MATRIX_4_ONNX_RUN("12", "1 << 11", EC_MATRIX_4_FIRST, EC_MATRIX_4_QUAD, "70",
                         EC_MATRIX_4_ONNX_ROUND);
#else
    ec_matrix_4_onnx_c_dsp(out, x, stream, quads, channels, zero_point, 12, ec_sums_4_s8_dsp);
#endif
}

/* The same by the stream of matrix_s8_int4_four.h: sums come as 4096 times themselves,
 * products with M as 2^11 times results. */
static EC_KERNEL void ec_matrix_4_s4_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, int32_t quads,
                                                 int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    EC_MATRIX_4_ONNX_RUN("11", "1 << 10", EC_S4_4_FIRST, EC_S4_4_QUAD, "80", EC_S4_4_ONNX_ROUND);
#else
    ec_matrix_4_onnx_c_dsp(out, x, stream, quads, channels, zero_point, 11, ec_s4_sums_4_s8_dsp);
#endif
}

#endif /* EC_MATRIX_S8_ONNX_FOUR_H */
