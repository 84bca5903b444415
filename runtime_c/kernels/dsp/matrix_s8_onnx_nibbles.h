/* Matrix products of int8 by weights of four bits as in matrix_s8_nibbles.h, rescaled as ONNX Runtime
 * does it: see matrix_s8_onnx.h.
 *
 * In a stream the last words of two or four channels are their scales, each divided by the factor
 * that the channel's sum comes with: powers of two change no rounding.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_ONNX_NIBBLES_H
#define EC_MATRIX_S8_ONNX_NIBBLES_H

#include "kernels/dsp/matrix_s8_nibbles.h"
#include "kernels/dsp/matrix_s8_onnx.h"

/* ec_matrix_3_onnx_s8_dsp with the stream of matrix_s8_nibbles.h. Registers as there, but that r5
 * is a word of weights, r6 an operand, and r7 the mask. */
static EC_KERNEL void ec_matrix_3_nibbles_onnx_s8_dsp(int8_t *out, const int16_t *x,
                                                      const int32_t *stream, int32_t quads,
                                                      int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_RUN(quads,
        EC_NIBBLES_3_BEGIN("36", "")
        EC_NIBBLES_3_LOOP
        EC_MATRIX_3_ONNX
        EC_MATRIX_3_STORE_S8
        EC_MATRIX_NEXT("r0", "1")
        EC_MATRIX_END,
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 2) {
        const int32_t *const end = stream + 2 + quads;
        const float a = ec_f32_from_bits((uint32_t)end[0]);
        const float b = ec_f32_from_bits((uint32_t)end[1]);
        int8_t *at = out + (o + 2 > channels ? channels - 2 : o);
        int32_t sums[6];
        ec_nibbles_3_sums_s8_dsp(sums, x, stream, quads);
        for (int32_t p = 0; p < 3; ++p, at += channels) {
            at[0] = ec_requantize_onnx_s8(sums[p], a, zero_point);
            at[1] = ec_requantize_onnx_s8(sums[3 + p], b, zero_point);
        }
        stream = end + 2;
    }
#endif
}

/* Four sums to int8 by the scales at `at`. */
static inline EC_UNUSED void ec_nibbles_store_4_onnx_s8_dsp(int8_t *out, const int32_t *sums,
                                                            const int32_t *at, int32_t zero_point) {
    for (int32_t i = 0; i < 4; ++i) {
        out[i] = ec_requantize_onnx_s8(sums[i], ec_f32_from_bits((uint32_t)at[i]), zero_point);
    }
}

/* ec_matrix_1_onnx_s8_dsp with the stream of matrix_s8_nibbles.h. Registers as there; on the stack
 * there is also eight times the sum of x. */
static EC_KERNEL void ec_matrix_1_nibbles_onnx_s8_dsp(int8_t *out, const int16_t *x,
                                                      const int32_t *stream, int32_t octets,
                                                      int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_RUN(octets,
        EC_MATRIX_1_BEGIN("32", "4", "118", EC_MATRIX_1_ONNX_CHOOSE)
        EC_NIBBLES_1_TOTAL
        EC_NIBBLES_1_OCTETS(EC_MATRIX_1_PACKED)
        EC_MATRIX_1_ONNX_END("32", EC_MATRIX_1_STORE_S8, "4"),
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 4) {
        const int32_t *const end = stream + 4 + 4 * octets;
        int32_t sums[4];
        ec_nibbles_1_sums_s8_dsp(sums, x, stream, octets);
        ec_nibbles_store_4_onnx_s8_dsp(out + (o + 4 > channels ? channels - 4 : o), sums, end,
                                       zero_point);
        stream = end + 4;
    }
#endif
}

/* ec_matrix_1_plain_onnx_s8_dsp with this stream. */
static EC_KERNEL void ec_matrix_1_plain_nibbles_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                            const int32_t *stream, int32_t octets,
                                                            int32_t channels, int32_t zero_point) {
#if EC_DSP_FPU_ASM
    /* clang-format off */
    EC_MATRIX_RUN(octets,
        EC_MATRIX_1_BEGIN("32", "3", "134", EC_MATRIX_1_ONNX_CHOOSE)
        EC_NIBBLES_1_PLAIN_TOTAL
        EC_NIBBLES_1_OCTETS(EC_MATRIX_1_PLAIN)
        EC_MATRIX_1_ONNX_END("32", EC_MATRIX_1_STORE_S8, "4"),
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 4) {
        const int32_t *const end = stream + 4 + 4 * octets;
        int32_t sums[4];
        ec_nibbles_1_plain_sums_s8_dsp(sums, x, stream, octets);
        ec_nibbles_store_4_onnx_s8_dsp(out + (o + 4 > channels ? channels - 4 : o), sums, end,
                                       zero_point);
        stream = end + 4;
    }
#endif
}

#endif /* EC_MATRIX_S8_ONNX_NIBBLES_H */
