/* Matrix products of int8 for the DSP extension of Armv7E-M: four pixels by two channels in six sums.
 *
 * Sums have 24 bits, so that the sums of four pixels p, q, r and s fit three words S, T and U. Seven
 * instructions take them apart again, each times 256 (four_sums.h).
 *
 * Inputs are packed as these sums want them (matrix_pack_s8_four.h): half-words of p + 128 + 256 * q,
 * and so on. A byte without a sign below one with a sign fills all of int16, so that no input is too
 * small; the products of 128 are taken off the biases. Weights are bytes of both channels in turn,
 * which SXTB16 extends. Four inputs take 12 SMLAD, 4 SXTB16 and 3 loads for 32 products: 0.59 a
 * product, where three pixels by words that two channels share take 0.69.
 *
 * A stream holds all constants in the order of use. Per pair of channels, in words: 257 * bias - 128 *
 * (sum of weights) of each; the weights (a[k], b[k], a[k+2], b[k+2]), k = 0, 1, 4, 5, 8, ...; then M, C,
 * e of a, and of b, which are as matrix_s8.h says. The last pair overlaps the one before where the number
 * of channels is odd.
 *
 * With a zero point of -128 all channels can often have one shift: M, shifted down until 256 * sum * M,
 * shifted right by 32, plus C, is 2^12 times the result. One instruction then shifts and limits. A pair
 * has M, C of a, and of b.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_FOUR_H
#define EC_MATRIX_S8_FOUR_H

#include "kernels/common/four_sums.h"
#include "kernels/dsp/matrix_s8.h"

/* Assembly: a word of weights. */
#define EC_MATRIX_4_STEP(w)      \
    "ldmia r0!, {r2-r4}\n"       \
    "sxtb16 r7, " w "\n"         \
    "smlad r8, r2, r7, r8\n"     \
    "smlad r9, r3, r7, r9\n"     \
    "smlad r10, r4, r7, r10\n"   \
    "sxtb16 r7, " w ", ror #8\n" \
    "smlad r11, r2, r7, r11\n"   \
    "smlad r12, r3, r7, r12\n"   \
    "smlad lr, r4, r7, lr\n"

/* clang-format off */

/* Assembly: both biases, and the first two words of weights; sums begin. */
#define EC_MATRIX_4_FIRST \
    "ldmia r1!, {r5-r7, lr}\n" \
    "ldmia r0!, {r2-r4}\n" \
    "sxtb16 r8, r7\n" \
    "smlad r9, r3, r8, r5\n" \
    "smlad r10, r4, r8, r5\n" \
    "smlad r8, r2, r8, r5\n" \
    "sxtb16 r11, r7, ror #8\n" \
    "smlad r12, r3, r11, r6\n" \
    "sxtb16 r5, lr\n" \
    "sxtb16 r7, lr, ror #8\n" \
    "smlad lr, r4, r11, r6\n" \
    "smlad r11, r2, r11, r6\n" \
    "ldmia r0!, {r2-r4}\n" \
    "smlad r8, r2, r5, r8\n" \
    "smlad r9, r3, r5, r9\n" \
    "smlad r10, r4, r5, r10\n" \
    "smlad r11, r2, r7, r11\n" \
    "smlad r12, r3, r7, r12\n" \
    "smlad lr, r4, r7, lr\n"

/* Assembly: take the sums S, T and U apart: 256 times the sums of q, r and s replace them, 256 times
 * the sum of p goes to a fourth register; `x` is free. */
#define EC_MATRIX_4_APART(s, t, u, p, x) \
    "sub " p ", " s ", " t ", lsl #8\n" \
    "add " x ", " u ", " p ", asr #16\n" \
    "pkhbt " p ", " p ", " x ", lsl #16\n" \
    "lsl " p ", " p ", #8\n" \
    "sub " s ", " s ", " p ", asr #8\n" \
    "sub " t ", " t ", " s ", asr #8\n" \
    "sub " u ", " u ", " t ", asr #8\n"

/* Assembly: the results of both channels by a shift that all have. */
#define EC_MATRIX_4_SHARED \
    "ldmia r1!, {r4-r7}\n" \
    ".irp x, r8, r9, r10, r2\n" \
    "smmla \\x, \\x, r4, r5\n" \
    "ssat \\x, #8, \\x, asr #12\n" \
    ".endr\n" \
    ".irp x, r11, r12, lr, r3\n" \
    "smmla \\x, \\x, r6, r7\n" \
    "ssat \\x, #8, \\x, asr #12\n" \
    ".endr\n"

/* Assembly: the results of one channel for any zero point and shift; r0 is free, sums shifted right by
 * `bits` are twice the channel's. */
#define EC_MATRIX_4_ANY(registers, bits) \
    "ldmia r1!, {r4-r6}\n" \
    ".irp x, " registers "\n" \
    "asr \\x, \\x, #" bits "\n" \
    "smmlar r0, \\x, r4, r5\n" \
    "add r0, r0, \\x, asr #31\n" \
    "asr r0, r0, r6\n" \
    "ssat \\x, #8, r0\n" \
    ".endr\n"

/* Run the assembly `code` with x, stream and out in r0 to r2, quads in r3, channels in r4 and `last` in r5.
 * The last parameters are the other registers that it changes. r7 may be the compiler's frame pointer, so
 * it is saved here. */
#define EC_MATRIX_4_RUN(last, code, ...) \
    register const int8_t *r0 __asm__("r0") = x; \
    register const int32_t *r1 __asm__("r1") = stream; \
    register int8_t *r2 __asm__("r2") = out; \
    register int32_t r3 __asm__("r3") = quads; \
    register int32_t r4 __asm__("r4") = channels; \
    register int32_t r5 __asm__("r5") = (last); \
    __asm__ volatile(".syntax unified\n" \
                     "push {r7-r11, lr}\n" code \
                     "add sp, #28\n" \
                     "pop {r7-r11, lr}\n" \
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r5) \
                     : \
                     : "r6", "r12", "cc", __VA_ARGS__)

/* Assembly: four inputs of each pixel by two words of weights. */
#define EC_MATRIX_4_QUAD \
    "ldmia r1!, {r5, r6}\n" \
    EC_MATRIX_4_STEP("r5") \
    EC_MATRIX_4_STEP("r6")

/* Assembly: four pixels up to the end of the loop. `choose` sets r10, the address at which
 * EC_MATRIX_4_ABOVE begins, from r5. `first` begins the sums with a quad. `quad` adds a quad and has
 * `bytes` of code; the loop has `most` of them. */
#define EC_MATRIX_4_SUMS(choose, first, quad, bytes, most) \
    choose \
    "adds r7, r2, r4\n" \
    "subs r7, #2\n" \
    "add r6, r3, r3, lsl #1\n" \
    "add r12, r0, r6, lsl #3\n" \
    /* The first quad is done apart; the loop is entered so that it ends with the last. */ \
    "mov r9, r10\n" \
    "subs r3, #1\n" \
    "beq 8f\n" \
    "cmp r3, #" most "\n" \
    "it hi\n" \
    "subhi r10, r10, #8\n" /* whether the loop has to go on */ \
    "2:\n" \
    "subs r3, #" most "\n" \
    "bhi 2b\n" \
    "adr.w r9, 3f + 1\n" \
    "movs r5, #" bytes "\n" \
    "mls r9, r3, r5, r9\n" \
    "8:\n" \
    "push {r9, r10, r12}\n" \
    "push {r0, r2, r4, r7}\n" \
    "0:\n" /* a pair of channels */ \
    first \
    "ldr pc, [sp, #16]\n" \
    "3:\n" \
    ".rept " most "\n" \
    quad \
    ".endr\n" \
    "ldr pc, [sp, #20]\n"

/* Assembly: 256 times their sums, at `label`; the eight bytes before go on with the loop. */
#define EC_MATRIX_4_ABOVE(label) \
    "ldr r2, [sp, #24]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n" \
    label ":\n" \
    EC_MATRIX_4_APART("r8", "r9", "r10", "r2", "r3") \
    EC_MATRIX_4_APART("r11", "r12", "lr", "r3", "r4")

/* Assembly: the results stored, and on to the next pair, which may have to step back by one. */
#define EC_MATRIX_4_STORE \
    "ldmia sp, {r0, r4-r6}\n" \
    "add r7, r5, r5, lsl #1\n" \
    "strb r8, [r4, r5]\n" \
    "strb r9, [r4, r5, lsl #1]\n" \
    "strb r10, [r4, r7]\n" \
    "strb r2, [r4], #1\n" \
    "strb r11, [r4, r5]\n" \
    "strb r12, [r4, r5, lsl #1]\n" \
    "strb lr, [r4, r7]\n" \
    "strb r3, [r4], #1\n" \
    "str r4, [sp, #4]\n" \
    "cmp r4, r6\n" \
    "bls.w 0b\n" \
    "subs r2, r4, r6\n" \
    "str r6, [sp, #4]\n" \
    "cmp r2, #1\n" \
    "beq.w 0b\n"

/* Assembly: how many quads the loop has. A model defines what its layers need. */
#if defined(EC_MATRIX_4_MODEL_ROUND)
#define EC_MATRIX_4_ROUND EC_MATRIX_4_MODEL_ROUND
#else
#define EC_MATRIX_4_ROUND "15"
#endif

/* Assembly: the results by gemmlowp's rounding, stored, and on to the next pair: at 7 for any zero point and
 * shift, at 6 by `others`. bits: as for EC_MATRIX_4_ANY. */
#define EC_MATRIX_4_TFLM(others, bits) \
    EC_MATRIX_4_ABOVE("7") \
    EC_MATRIX_4_ANY("r8, r9, r10, r2", bits) \
    EC_MATRIX_4_ANY("r11, r12, lr, r3", bits) \
    "b 8f\n" \
    EC_MATRIX_4_ABOVE("6") \
    others \
    "8:\n" \
    EC_MATRIX_4_STORE

/* Assembly: where the results are made, by the shift in r5; and these. A model whose layers all share one
 * shift among channels defines EC_MATRIX_4_ONE_SHIFT. */
#if defined(EC_MATRIX_4_ONE_SHIFT)
#define EC_MATRIX_4_CHOOSE "adr.w r10, 6f + 1\n"
#define EC_MATRIX_4_RESULTS \
    EC_MATRIX_4_ABOVE("6") \
    EC_MATRIX_4_SHARED \
    EC_MATRIX_4_STORE
#else
#define EC_MATRIX_4_CHOOSE \
    "adr.w r10, 7f + 1\n" \
    "cbz r5, 2f\n" \
    "adr.w r10, 6f + 1\n" \
    "2:\n"
#define EC_MATRIX_4_RESULTS EC_MATRIX_4_TFLM(EC_MATRIX_4_SHARED, "7")
#endif

/* clang-format on */

/* A word of weights of one channel times a word of each sum. */
static inline EC_UNUSED void ec_accumulate_4_s8_dsp(int32_t *sums, const int8_t *x,
                                                    int32_t weights) {
    sums[0] = ec_smlad(ec_load_aligned(x), weights, sums[0]);
    sums[1] = ec_smlad(ec_load_aligned(x + 4), weights, sums[1]);
    sums[2] = ec_smlad(ec_load_aligned(x + 8), weights, sums[2]);
}

/* The sums of a pair of channels, as words; returns the end of the weights in the stream. */
static inline EC_UNUSED const int32_t *ec_sums_4_s8_dsp(int32_t sums[2][3], const int8_t *x,
                                                        const int32_t *stream, int32_t quads) {
    for (int32_t i = 0; i < 3; ++i) {
        sums[0][i] = stream[0];
        sums[1][i] = stream[1];
    }
    stream += 2;
    for (int32_t k = 0; k < 2 * quads; ++k) {
        ec_accumulate_4_s8_dsp(sums[0], x + 12 * k, ec_sxtb16(stream[k]));
        ec_accumulate_4_s8_dsp(sums[1], x + 12 * k, ec_sxtb16_odd(stream[k]));
    }
    return stream + 2 * quads;
}

/* The results of one channel from its sums, `step` apart, by M, C and e, or by M and C and a shift that
 * all channels have. */
static inline EC_UNUSED void ec_store_4_s8_dsp(int8_t *out, int32_t step, const int32_t *sums,
                                               const int32_t *at, int32_t shift) {
    int32_t above[4];
    ec_take_apart_4_s8(above, sums);
    for (int32_t p = 0; p < 4; ++p) {
        const int32_t sum = above[p] >> 8;
        const int32_t high = ec_high_of_double(sum, at[0]) + (sum >> 31);
        out[p * step] = shift != 0 ? ec_rescale_relu_s8_dsp(above[p], at[0], at[1], shift)
                                   : ec_saturate_s8((high + at[1]) >> at[2]);
    }
}

/* out[p * channels + o] for four pixels and all channels: the rescaled sum over k of x[k] * w[o][k] +
 * bias[o], with gemmlowp's rounding.
 *
 * x: quads * 2 * 3 words, as matrix_pack_s8_four.h packs inputs. stream: see above. shift: 12 where all
 * channels have it, for a zero point of -128; otherwise 0. channels >= 2. out and x must not overlap. x and
 * stream are aligned to 4 bytes.
 *
 * Registers: r0 x, r1 stream, r2-r4 a word of each sum, r5, r6 weights, r7 these extended, r8-r10 S, T,
 * U of a, r11, r12, lr of b. On the stack: x, out, channels, the last out, where the loop begins, what
 * follows it, the end of x. */
static EC_KERNEL void ec_matrix_4_by_s8_dsp(const int8_t *x, const int32_t *stream, int8_t *out,
                                            int32_t quads, int32_t channels, int32_t shift) {
#if EC_DSP_ASM
    /* clang-format off */
    EC_MATRIX_4_RUN(shift,
        EC_MATRIX_4_SUMS(EC_MATRIX_4_CHOOSE, EC_MATRIX_4_FIRST, EC_MATRIX_4_QUAD, "70",
                         EC_MATRIX_4_ROUND)
        EC_MATRIX_4_RESULTS,
        "memory");
    /* clang-format on */
#else
    const int32_t words = shift != 0 ? 2 : 3;
    for (int32_t o = 0; o < channels; o += 2) {
        int8_t *const to = out + (o + 2 > channels ? channels - 2 : o);
        int32_t sums[2][3];
        stream = ec_sums_4_s8_dsp(sums, x, stream, quads);
        ec_store_4_s8_dsp(to, channels, sums[0], stream, shift);
        ec_store_4_s8_dsp(to + 1, channels, sums[1], stream + words, shift);
        stream += 2 * words;
    }
#endif
}

/* The same; the stream has the zero point. */
static inline void ec_matrix_4_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                      int32_t quads, int32_t channels, int32_t zero_point,
                                      int32_t shift) {
    (void)zero_point;
    ec_matrix_4_by_s8_dsp(x, stream, out, quads, channels, shift);
}

#endif /* EC_MATRIX_S8_FOUR_H */
