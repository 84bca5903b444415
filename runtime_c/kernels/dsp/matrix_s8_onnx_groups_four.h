/* Matrix products of int8 as in matrix_s8_onnx_four.h, four pixels at a time, by int4 weights that are
 * shifted group by group of inputs.
 *
 * A step is a part of a group, up to 32 inputs. matrix_s8_int4_four.h computes its sums, which are 16
 * times the sums of matrix_s8_four.h. The stack holds each channel's sums negated. SMLAWB subtracts a
 * step's sums / 16 * (1 << shift) from them, by the factor -(1 << (12 + shift)), which fits in 16 bits.
 *
 * Per pair of channels a stream has, in words: 128 * (sum of weights) - 257 * bias of each; the upper byte of
 * that factor for each step and channel, up to a whole word; the weights as in matrix_s8_int4_four.h; how
 * sums are rescaled, as in matrix_s8_onnx_four.h, but to 2^7 times results.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_ONNX_GROUPS_FOUR_H
#define EC_MATRIX_S8_ONNX_GROUPS_FOUR_H

#include "kernels/dsp/matrix_s8_onnx_four.h"

/* clang-format off */

/* Assembly: the stack as EC_MATRIX_4_SUMS fills it, but in it the place after the first quad of a step, and
 * no other; behind, six sums, where the bytes of the next step are, and how many bytes a pair has. From
 * quads, channels and the zero point in r4-r6, and from the other sizes at r3. */
#define EC_GROUPS_4_BEGIN \
    "sub sp, #32\n" \
    EC_MATRIX_4_ONNX_BEGIN("r6", "7", "1 << 6") \
    "ldrd r6, r7, [r3, #12]\n" \
    "str r7, [sp, #28]\n" \
    "add r7, r4, r4, lsl #1\n" \
    "add r12, r1, r7, lsl #3\n" \
    "adr.w r9, 4f + 1\n" \
    "movs r7, #80\n" /* bytes of code of a quad */ \
    "mls r9, r6, r7, r9\n" \
    "push {r9, r10, r12}\n" \
    "adds r7, r0, r5\n" \
    "subs r7, #2\n" \
    "mov r3, r1\n" \
    "mov r4, r0\n" \
    "push {r3-r5, r7}\n" \
    "mov r0, r3\n" \
    "mov r1, r2\n"

/* Assembly: two channels begin. */
#define EC_GROUPS_4_PAIR \
    "0:\n" \
    "ldmia r1!, {r2, r5}\n" \
    "mov r3, r2\n" \
    "mov r4, r2\n" \
    "mov r6, r5\n" \
    "mov r7, r5\n" \
    "add r12, sp, #28\n" \
    "stmia r12!, {r2-r7}\n" \
    "ldr r2, [r12, #4]\n" \
    "str r1, [r12]\n" \
    "add r1, r1, r2\n"

/* Assembly: a step, whose first quad begins its sums. */
#define EC_GROUPS_4_STEP \
    "3:\n" \
    "ldmia r1!, {r5}\n" \
    "ldmia r0!, {r2-r4}\n" \
    "and r6, r5, #0xF0F0F0F0\n" \
    "sxtb16 r7, r6\n" \
    "smuad r8, r2, r7\n" \
    "smuad r9, r3, r7\n" \
    "smuad r10, r4, r7\n" \
    "sxtb16 r7, r6, ror #8\n" \
    "smuad r11, r2, r7\n" \
    "smuad r12, r3, r7\n" \
    "smuad lr, r4, r7\n" \
    "lsls r5, r5, #4\n" \
    "and r6, r5, #0xF0F0F0F0\n" \
    EC_MATRIX_4_STEP("r6") \
    "ldr pc, [sp, #16]\n" \
    ".rept 7\n" \
    EC_S4_4_QUAD \
    ".endr\n" \
    "4:\n"

/* Assembly: a step's sums of a channel, in s, t and u, times `factor`, and those at r7 added. */
#define EC_GROUPS_4_ADD(s, t, u, factor) \
    "ldmia r7!, {r2-r4}\n" \
    "smlawb " s ", " s ", " factor ", r2\n" \
    "smlawb " t ", " t ", " factor ", r3\n" \
    "smlawb " u ", " u ", " factor ", r4\n"

/* Assembly: add the sums of a step to the sums of the channels; go on to the next step, if any. */
#define EC_GROUPS_4_NEXT \
    "ldr r5, [sp, #52]\n" \
    "ldrh r6, [r5], #2\n" \
    "str r5, [sp, #52]\n" \
    "lsls r5, r6, #8\n" \
    "bic r6, r6, #0xFF\n" \
    "add r7, sp, #28\n" \
    EC_GROUPS_4_ADD("r8", "r9", "r10", "r5") \
    EC_GROUPS_4_ADD("r11", "r12", "lr", "r6") \
    "stmdb r7, {r8-r12, lr}\n" \
    "ldr r2, [sp, #24]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n"

/* Assembly: as EC_MATRIX_4_APART, of sums with the other sign. */
#define EC_GROUPS_4_APART(s, t, u, p, x) \
    "rsb " p ", " s ", " t ", lsl #8\n" \
    "rsb " x ", " u ", " p ", asr #16\n" \
    "pkhbt " p ", " p ", " x ", lsl #16\n" \
    "lsl " p ", " p ", #8\n" \
    "add " s ", " s ", " p ", asr #8\n" \
    "rsb " s ", " s ", #0\n" \
    "add " t ", " t ", " s ", asr #8\n" \
    "rsb " t ", " t ", #0\n" \
    "add " u ", " u ", " t ", asr #8\n" \
    "rsb " u ", " u ", #0\n"

/* clang-format on */

/* The sums of one channel of a pair by steps of `group` quads, as three words; factors: of its first step. */
static inline EC_UNUSED void ec_groups_sums_4_dsp(int32_t *sums, const int8_t *x,
                                                  const int32_t *weights, int32_t quads,
                                                  int32_t group, const uint8_t *factors,
                                                  int32_t is_second) {
    for (int32_t k = 0; k < 2 * quads; k += 2 * group, factors += 2) {
        int32_t part[3] = { 0, 0, 0 };
        for (int32_t m = k; m < k + 2 * group; ++m) {
            const uint32_t both = (uint32_t)weights[m / 2] << 4 * (m & 1) & 0xF0F0F0F0u;
            const int32_t own = is_second ? ec_sxtb16_odd((int32_t)both) : ec_sxtb16((int32_t)both);
            ec_accumulate_4_s8_dsp(part, x + 12 * m, own);
        }
        for (int32_t i = 0; i < 3; ++i) {
            const uint32_t factor = (256u - *factors) / 16;
            sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)(part[i] >> 4) * factor);
        }
    }
}

/* ec_matrix_4_onnx_s8_dsp with the stream that the top of this file describes, in steps of `group` quads,
 * 2 to 8, which divide all. Registers as in ec_matrix_4_s4_onnx_s8_dsp. */
static EC_KERNEL void ec_matrix_4_groups_onnx_s8_dsp(int8_t *out, const int8_t *x,
                                                     const int32_t *stream, int32_t quads,
                                                     int32_t group, int32_t channels,
                                                     int32_t zero_point) {
    const int32_t bytes = (quads / group + 1) / 2 * 4;
#if EC_DSP_FPU_ASM
    const int32_t sizes[5] = { quads, channels, zero_point, group - 1, bytes };
    /* clang-format off */
    EC_MATRIX_RUN_BY(sizes,
        EC_GROUPS_4_BEGIN
        EC_GROUPS_4_PAIR
        EC_GROUPS_4_STEP
        EC_GROUPS_4_NEXT
        EC_GROUPS_4_APART("r8", "r9", "r10", "r2", "r3")
        EC_GROUPS_4_APART("r11", "r12", "lr", "r3", "r4")
        EC_MATRIX_4_ONNX("7")
        EC_MATRIX_4_STORE
        "add sp, #60\n",
        "r12", "s0", "s1", "s2", "s3", "s11");
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 2) {
        int8_t *const to = out + (o + 2 > channels ? channels - 2 : o);
        const int32_t *const weights = stream + 2 + bytes / 4;
        const int32_t *const scales = weights + quads;
        for (int32_t i = 0; i < 2; ++i) {
            const int32_t first = (int32_t)(0u - (uint32_t)stream[i]);
            int32_t sums[3] = { first, first, first };
            ec_groups_sums_4_dsp(sums, x, weights, quads, group, (const uint8_t *)(stream + 2) + i,
                                 i);
            ec_store_4_onnx_s8_dsp(to + i, channels, sums, scales[i], zero_point, 7);
        }
        stream = scales + 2;
    }
#endif
}

#endif /* EC_MATRIX_S8_ONNX_GROUPS_FOUR_H */
