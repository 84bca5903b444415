/* Matrix products of int8 as in matrix_s8_four.h, four pixels at a time, by int4 weights, eight to a word.
 *
 * A byte has the weight of one channel for inputs k and k + 1 in its upper and lower half. Masked, it is
 * 16 times a weight, so that all sums are 16 times the sums of matrix_s8_four.h. The same instructions
 * separate the sums, of 20 bits, as 4096 times themselves. Four inputs take 22 instructions, not 19.
 *
 * Per pair of channels a stream has, in words: 16 * (257 * bias - 128 * (sum of weights)) of each; the
 * weights of four inputs in a word, the bytes of which are (a[k], b[k], a[k+2], b[k+2]); then M, C, e of
 * a, and of b, for sums as they are.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_INT4_FOUR_H
#define EC_MATRIX_S8_INT4_FOUR_H

#include "kernels/dsp/matrix_s8_four.h"

/* clang-format off */

/* Assembly: both biases, and the first word of weights; sums begin. */
#define EC_S4_4_FIRST \
    "ldmia r1!, {r5-r7}\n" \
    "ldmia r0!, {r2-r4}\n" \
    "and lr, r7, #0xF0F0F0F0\n" \
    "sxtb16 r8, lr\n" \
    "smlad r9, r3, r8, r5\n" \
    "smlad r10, r4, r8, r5\n" \
    "smlad r8, r2, r8, r5\n" \
    "sxtb16 r11, lr, ror #8\n" \
    "smlad r12, r3, r11, r6\n" \
    "smlad lr, r4, r11, r6\n" \
    "smlad r11, r2, r11, r6\n" \
    "lsls r7, r7, #4\n" \
    "and r5, r7, #0xF0F0F0F0\n" \
    EC_MATRIX_4_STEP("r5")

/* Assembly: four inputs of each pixel by a word of weights. */
#define EC_S4_4_QUAD \
    "ldmia r1!, {r5}\n" \
    "and r6, r5, #0xF0F0F0F0\n" \
    EC_MATRIX_4_STEP("r6") \
    "lsls r5, r5, #4\n" \
    "and r6, r5, #0xF0F0F0F0\n" \
    EC_MATRIX_4_STEP("r6")

/* Assembly: the results of one channel for a zero point of -128. */
#define EC_S4_4_RELU(registers) \
    "ldmia r1!, {r4-r6}\n" \
    ".irp x, " registers "\n" \
    "asr \\x, \\x, #11\n" \
    "smmlar \\x, \\x, r4, r5\n" \
    "asr \\x, \\x, r6\n" \
    "ssat \\x, #8, \\x\n" \
    ".endr\n"

/* clang-format on */

/* As ec_sums_4_s8_dsp, 16 times the sums. */
static inline EC_UNUSED const int32_t *ec_s4_sums_4_s8_dsp(int32_t sums[2][3], const int8_t *x,
                                                           const int32_t *stream, int32_t quads) {
    for (int32_t i = 0; i < 3; ++i) {
        sums[0][i] = stream[0];
        sums[1][i] = stream[1];
    }
    stream += 2;
    for (int32_t k = 0; k < 2 * quads; ++k) {
        const uint32_t weights = (uint32_t)stream[k / 2] << 4 * (k & 1) & 0xF0F0F0F0u;
        ec_accumulate_4_s8_dsp(sums[0], x + 12 * k, ec_sxtb16((int32_t)weights));
        ec_accumulate_4_s8_dsp(sums[1], x + 12 * k, ec_sxtb16_odd((int32_t)weights));
    }
    return stream + quads;
}

/* As ec_store_4_s8_dsp. */
static inline EC_UNUSED void ec_s4_store_4_s8_dsp(int8_t *out, int32_t step, const int32_t *sums,
                                                  const int32_t *at) {
    int32_t above[4];
    ec_take_apart_4_s8(above, sums);
    for (int32_t p = 0; p < 4; ++p) {
        const int32_t sum = above[p] >> 12;
        out[p * step] =
            ec_saturate_s8((ec_high_of_double(sum, at[0]) + (sum >> 31) + at[1]) >> at[2]);
    }
}

/* ec_matrix_4_s8_dsp with this stream. */
static EC_KERNEL void ec_matrix_4_s4_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                            int32_t quads, int32_t channels, int32_t zero_point) {
#if EC_DSP_ASM
    /* clang-format off */
    EC_MATRIX_4_RUN(zero_point,
        EC_MATRIX_4_SUMS("adr.w r10, 7f + 1\n"
                         "cmn r5, #128\n"
                         "bne 2f\n"
                         "adr.w r10, 6f + 1\n"
                         "2:\n",
                         EC_S4_4_FIRST, EC_S4_4_QUAD, "80", "7")
        EC_MATRIX_4_TFLM(EC_S4_4_RELU("r8, r9, r10, r2") EC_S4_4_RELU("r11, r12, lr, r3"), "11"),
        "memory");
    /* clang-format on */
#else
    (void)zero_point; /* C has it */
    for (int32_t o = 0; o < channels; o += 2) {
        int8_t *const to = out + (o + 2 > channels ? channels - 2 : o);
        int32_t sums[2][3];
        stream = ec_s4_sums_4_s8_dsp(sums, x, stream, quads);
        ec_s4_store_4_s8_dsp(to, channels, sums[0], stream);
        ec_s4_store_4_s8_dsp(to + 1, channels, sums[1], stream + 3);
        stream += 6;
    }
#endif
}

#endif /* EC_MATRIX_S8_INT4_FOUR_H */
