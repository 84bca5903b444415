/* Matrix products of int8 as in matrix_s8.h by int4 weights, eight to a word.
 *
 * Three pixels. A word has the weights of two output channels a and b for four inputs of a pixel, two
 * words of x. Each half-word has, from its highest bits down, the weights (a, b) of the first word of x
 * and (a, b) of the second. Shifted left by 0, 4, 8 and 12 bits and ANDed with 0xF000F000, the word
 * becomes two half-words of 4096 times each of these four weights: one AND with a shifted register for
 * each. So sums are multiplied by 4096, and are exact below 2^19.
 *
 * One pixel. A word has the weights of four output channels c0 to c3 for two inputs, one word of x. A
 * half-word is h = 4096 * c2 + 256 * (c1 + 8) + 16 * (c3 + 8) + (c0 + 8). Four sums add the products of x
 * and a part of h: all of h; h without its lowest four bits; h without bits 8 to 11 as well; bits 4 to 7
 * alone. The differences of these sums, and the last sum, are the sums of c0, of c1 times 256, of c2
 * times 4096 and of c3 times 16; eight times the sum of all x is subtracted from the channels to which 8
 * was added.
 *
 * A stream holds all constants in the order of use: per two or four channels, in words: the biases,
 * multiplied like the sums; the weights; then M, C, e of each channel, for its sum. The last channels
 * overlap the ones before if the number of channels is not divisible by two or four.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_INT4_H
#define EC_MATRIX_S8_INT4_H

#include "kernels/dsp/matrix_s8.h"

/* clang-format off */

/* Assembly of 3 pixels: fill a frame of `frame` bytes; r5 is channels and r6 the zero point. The loop has
 * 8 quads of 70 bytes of code; its first round skips quads, so that all rounds together take r4, the
 * size, or the size that `first` computes. */
#define EC_S4_3_BEGIN(frame, first) \
    "sub sp, #" frame "\n" \
    "str r1, [sp, #8]\n" \
    "str r5, [sp, #28]\n" \
    "str r6, [sp, #32]\n" \
    "adds r7, r0, r5\n" \
    "subs r7, #2\n" \
    "str r7, [sp, #24]\n" \
    "add r7, r4, r4, lsl #1\n" \
    "add r7, r1, r7, lsl #3\n" \
    "str r7, [sp, #12]\n" \
    "mov r1, r2\n" \
    first \
    "subs r4, #1\n" \
    "and r4, r4, #7\n" \
    "adds r4, #1\n" \
    "movs r5, #70\n" \
    "adr.w r7, 4f\n" \
    "mls r7, r4, r5, r7\n" \
    "orr r7, r7, #1\n" \
    "str r7, [sp]\n"

/* The operand in w for sums of three pixels. */
#define EC_S4_3_SUMS(w, s0, s1, s2) \
    "smlad " s0 ", r2, " w ", " s0 "\n" \
    "smlad " s1 ", r3, " w ", " s1 "\n" \
    "smlad " s2 ", r4, " w ", " s2 "\n"

/* A quad for both channels' sums of three pixels, by `sums` of an operand. */
#define EC_S4_3_QUAD(sums) \
    "ldmia r1!, {r5}\n" \
    "ldmia r0!, {r2-r4}\n" \
    "and.w r6, r5, r7\n" \
    sums("r6", "r8", "r9", "r10") \
    "and.w r6, r7, r5, lsl #4\n" \
    sums("r6", "r11", "r12", "lr") \
    "ldmia r0!, {r2-r4}\n" \
    "and.w r6, r7, r5, lsl #8\n" \
    EC_S4_3_SUMS("r6", "r8", "r9", "r10") \
    "and.w r5, r7, r5, lsl #12\n" \
    EC_S4_3_SUMS("r5", "r11", "r12", "lr")

/* Two channels: their sums are in r8-r10 and r11, r12, lr. r7 is the mask. */
#define EC_S4_3_LOOP \
    "mov.w r7, #0xF000F000\n" \
    "0:\n" \
    "str r0, [sp, #16]\n" \
    "ldr r0, [sp, #8]\n" \
    "ldmia r1!, {r8, r11}\n" \
    "mov r9, r8\n" \
    "mov r10, r8\n" \
    "mov r12, r11\n" \
    "mov lr, r11\n" \
    "ldr pc, [sp]\n" \
    "3:\n" \
    ".rept 8\n" \
    EC_S4_3_QUAD(EC_S4_3_SUMS) \
    ".endr\n" \
    "4:\n" \
    "ldr r2, [sp, #12]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n"

/* One pixel: a loop over octets of packed inputs adds them up in r6; eight times the sum is saved. */
#define EC_S4_1_TOTAL \
    "ldrd r7, r9, [sp, #4]\n" \
    "mov.w r8, #0x00010001\n" \
    "movs r6, #0\n" \
    "5:\n" \
    "ldmia r7!, {r2-r5}\n" \
    "smlad r6, r2, r8, r6\n" \
    "smlad r6, r3, r8, r6\n" \
    "smlad r6, r4, r8, r6\n" \
    "smlad r6, r5, r8, r6\n" \
    "cmp r7, r9\n" \
    "bne 5b\n" \
    "lsls r6, #3\n" \
    "str r6, [sp, #28]\n"

/* The same of int8 inputs that are not packed: they are added as unsigned bytes, plus 128. */
#define EC_S4_1_PLAIN_TOTAL \
    "ldrd r7, r9, [sp, #4]\n" \
    "sub r6, r9, r7\n" \
    "lsls r6, #7\n" \
    "rsbs r6, r6, #0\n" \
    "movs r5, #0\n" \
    "5:\n" \
    "ldmia r7!, {r2-r3}\n" \
    "eor r2, r2, #0x80808080\n" \
    "eor r3, r3, #0x80808080\n" \
    "usada8 r6, r2, r5, r6\n" \
    "usada8 r6, r3, r5, r6\n" \
    "cmp r7, r9\n" \
    "bne 5b\n" \
    "lsls r6, #3\n" \
    "str r6, [sp, #28]\n"

/* A word w of weights by the inputs x: the four sums go to r10-r12 and lr. */
#define EC_S4_1_WORD(x, w) \
    "smlad r10, " x ", " w ", r10\n" \
    "bic " w ", " w ", #0x000F000F\n" \
    "smlad r11, " x ", " w ", r11\n" \
    "and " w ", " w ", #0xF0F0F0F0\n" \
    "smlad r12, " x ", " w ", r12\n" \
    "uxtb16 " w ", " w "\n" \
    "smlad lr, " x ", " w ", lr\n"

/* The end of the loop: r10-r12 and lr are 1, 256, 4096 and 16 times the sums of the channels. */
#define EC_S4_1_DONE \
    "4:\n" \
    "ldr r2, [sp, #8]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n" \
    "ldr r0, [sp, #12]\n" \
    "ldr r2, [sp, #28]\n" \
    "sub r10, r10, r11\n" \
    "sub r11, r11, r12\n" \
    "sub r12, r12, lr\n" \
    "sub r10, r10, r2\n" \
    "sub r11, r11, r2, lsl #8\n" \
    "sub lr, lr, r2, lsl #4\n"

/* Eight inputs that `load` loads, 118 bytes of code if they are packed; and the loop over them. */
#define EC_S4_1_OCTETS(load) \
    EC_MATRIX_1_FOUR \
    "3:\n" \
    ".rept 8\n" \
    load \
    "ldmia r1!, {r6-r9}\n" \
    EC_S4_1_WORD("r2", "r6") \
    EC_S4_1_WORD("r3", "r7") \
    EC_S4_1_WORD("r4", "r8") \
    EC_S4_1_WORD("r5", "r9") \
    ".endr\n" EC_S4_1_DONE

/* Three pixels' sums in s0-s2 to int8 by M, C, e in the stream; `rescale` of twice a sum, in r5. */
#define EC_S4_3_STORE(s0, s1, s2, rescale) \
    "ldmia r1!, {r2-r4}\n" \
    ".irp x, " s0 ", " s1 ", " s2 "\n" \
    "asr r5, \\x, #11\n" \
    rescale \
    ".endr\n"

/* Twice a sum, in r5, to int8 by M, C, e in r2-r4, zero point -128. */
#define EC_S4_RELU \
    "smmlar r5, r5, r2, r3\n" \
    "asr r5, r5, r4\n" \
    "ssat \\x, #8, r5\n"

/* The sum of a channel to int8: `shift` of it is twice the sum. */
#define EC_S4_1_STORE(sum, shift, rescale) \
    "ldmia r1!, {r2-r4}\n" \
    ".irp x, " sum "\n" \
    shift "\n" \
    rescale \
    ".endr\n"

/* The sums of four channels to int8. */
#define EC_S4_1_STORES(rescale) \
    EC_S4_1_STORE("r10", "lsl r5, \\x, #1", rescale) \
    EC_S4_1_STORE("r11", "asr r5, \\x, #7", rescale) \
    EC_S4_1_STORE("r12", "asr r5, \\x, #11", rescale) \
    EC_S4_1_STORE("lr", "asr r5, \\x, #3", rescale)

/* Store the results of four channels, by the zero point, and the end. */
#define EC_S4_1_END \
    "ldr pc, [sp, #16]\n" \
    "7:\n" /* any zero point */ \
    EC_S4_1_STORES(EC_MATRIX_ANY_ZERO_POINT) \
    "b 5f\n" \
    "6:\n" /* zero point -128 */ \
    EC_S4_1_STORES(EC_S4_RELU) \
    "5:\n" \
    ".irp x, r10, r11, r12, lr\n" \
    "strb \\x, [r0], #1\n" \
    ".endr\n" \
    EC_MATRIX_1_NEXT("4") \
    "9:\n" \
    "add sp, #32\n"

/* Assembly: three pixels, all of it. */
#define EC_S4_TFLM_3 \
    EC_MATRIX_RUN(quads, \
        EC_S4_3_BEGIN("36", "") \
        EC_MATRIX_CHOOSE \
        "orr r7, r7, #1\n" \
        "str r7, [sp, #20]\n" \
        EC_S4_3_LOOP \
        "ldr pc, [sp, #20]\n" \
        "7:\n" /* any zero point */ \
        EC_S4_3_STORE("r8", "r9", "r10", EC_MATRIX_ANY_ZERO_POINT) \
        EC_S4_3_STORE("r11", "r12", "lr", EC_MATRIX_ANY_ZERO_POINT) \
        "b 5f\n" \
        "6:\n" /* zero point -128 */ \
        EC_S4_3_STORE("r8", "r9", "r10", EC_S4_RELU) \
        EC_S4_3_STORE("r11", "r12", "lr", EC_S4_RELU) \
        "5:\n" \
        "ldr r0, [sp, #16]\n" \
        "ldr r2, [sp, #28]\n" \
        EC_MATRIX_3_STORE("strb", "r2", "1") \
        EC_MATRIX_NEXT("r0", "1") \
        EC_MATRIX_END, \
        "r12")

/* Assembly of one whole pixel; `load` loads inputs, and `total` adds them up; octet, bytes: as in
 * EC_MATRIX_1_BEGIN. */
#define EC_S4_1_TFLM(octet, bytes, total, load) \
    EC_MATRIX_RUN(octets, \
        EC_MATRIX_1_BEGIN("32", octet, bytes, EC_MATRIX_CHOOSE) \
        total \
        EC_S4_1_OCTETS(load) \
        EC_S4_1_END, \
        "r12")

/* Assembly: one pixel. */
#define EC_S4_TFLM_1 EC_S4_1_TFLM("4", "118", EC_S4_1_TOTAL, EC_MATRIX_1_PACKED)

/* Assembly: one pixel of int8 inputs that are not packed. */
#define EC_S4_TFLM_PLAIN \
    EC_S4_1_TFLM("3", "134", EC_S4_1_PLAIN_TOTAL, EC_MATRIX_1_PLAIN)

/* clang-format on */

/* 4096 times the sums of a pair of channels for three pixels, a's and then b's; `from` points at the
 * pair's biases. Returns the end of its weights. */
static inline EC_UNUSED const int32_t *ec_s4_3_sums_s8_dsp(int32_t *sums, const void *given,
                                                           const int32_t *from, int32_t quads) {
    const int16_t *x = (const int16_t *)given;
    int32_t a0 = from[0];
    int32_t a1 = a0;
    int32_t a2 = a0;
    int32_t b0 = from[1];
    int32_t b1 = b0;
    int32_t b2 = b0;
    const int32_t *const end = from + 2 + quads;
    for (from += 2; from != end; ++from, x += 12) {
        uint32_t word = (uint32_t)*from;
        for (int32_t s = 0; s < 12; s += 6, word <<= 8) {
            const int32_t a = (int32_t)(word & 0xF000F000u);
            const int32_t b = (int32_t)(word << 4 & 0xF000F000u);
            const int32_t first = ec_load_word(x + s);
            const int32_t second = ec_load_word(x + s + 2);
            const int32_t third = ec_load_word(x + s + 4);
            a0 = ec_smlad(first, a, a0);
            a1 = ec_smlad(second, a, a1);
            a2 = ec_smlad(third, a, a2);
            b0 = ec_smlad(first, b, b0);
            b1 = ec_smlad(second, b, b1);
            b2 = ec_smlad(third, b, b2);
        }
    }
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = b0;
    sums[4] = b1;
    sums[5] = b2;
    return end;
}

/* Multiply a word of two int16 by a word of weights; add to the four sums that the top of this file
 * describes. */
static inline EC_UNUSED void ec_s4_accumulate_s8_dsp(int32_t *sums, int32_t x, int32_t word) {
    const uint32_t left = (uint32_t)word & 0xFFF0FFF0u;
    sums[0] = ec_smlad(x, word, sums[0]);
    sums[1] = ec_smlad(x, (int32_t)left, sums[1]);
    sums[2] = ec_smlad(x, (int32_t)(left & 0xF0F0F0F0u), sums[2]);
    sums[3] = ec_smlad(x, (int32_t)(left & 0x00F000F0u), sums[3]);
}

/* Convert these sums to the sums of the channels, by the sum of all x. */
static inline EC_UNUSED void ec_s4_settle_s8_dsp(int32_t *sums, int32_t total) {
    const uint32_t offset = (uint32_t)total * 8u;
    const uint32_t last = (uint32_t)sums[3];
    sums[0] = (int32_t)((uint32_t)sums[0] - (uint32_t)sums[1] - offset);
    sums[1] = (int32_t)((uint32_t)sums[1] - (uint32_t)sums[2] - (offset << 8));
    sums[2] = (int32_t)((uint32_t)sums[2] - last);
    sums[3] = (int32_t)(last - (offset << 4));
}

/* 1, 256, 4096 and 16 times the sums of four channels; `from` points at their biases. Returns the end
 * of their weights. */
static inline EC_UNUSED const int32_t *ec_s4_1_sums_s8_dsp(int32_t *sums, const void *given,
                                                           const int32_t *from, int32_t octets) {
    const int16_t *x = (const int16_t *)given;
    int32_t kept[4] = { from[0], from[1], from[2], from[3] };
    int32_t total = 0;
    const int32_t *const end = from + 4 + 4 * octets;
    for (from += 4; from != end; ++from, x += 2) {
        const int32_t inputs = ec_load_aligned(x);
        total = ec_smlad(inputs, 0x00010001, total);
        ec_s4_accumulate_s8_dsp(kept, inputs, *from);
    }
    ec_s4_settle_s8_dsp(kept, total);
    sums[0] = kept[0];
    sums[1] = kept[1];
    sums[2] = kept[2];
    sums[3] = kept[3];
    return end;
}

/* The same of int8 inputs that are not packed. */
static inline EC_UNUSED const int32_t *
ec_s4_1_plain_sums_s8_dsp(int32_t *sums, const void *given, const int32_t *from, int32_t octets) {
    const int8_t *x = (const int8_t *)given;
    int32_t kept[4] = { from[0], from[1], from[2], from[3] };
    int32_t total = 0;
    const int32_t *const end = from + 4 + 4 * octets;
    for (from += 4; from != end; from += 2, x += 4) {
        const int32_t inputs = ec_load_aligned(x);
        const int32_t even = ec_sxtb16(inputs);
        const int32_t odd = ec_sxtb16_odd(inputs);
        total = ec_smlad(even, 0x00010001, total);
        total = ec_smlad(odd, 0x00010001, total);
        ec_s4_accumulate_s8_dsp(kept, even, from[0]);
        ec_s4_accumulate_s8_dsp(kept, odd, from[1]);
    }
    ec_s4_settle_s8_dsp(kept, total);
    sums[0] = kept[0];
    sums[1] = kept[1];
    sums[2] = kept[2];
    sums[3] = kept[3];
    return end;
}

/* A sum to int8 by M, C, e at `at`. */
static inline EC_UNUSED int8_t ec_s4_rescale_s8_dsp(int32_t sum, const int32_t *at) {
    return ec_saturate_s8((ec_high_of_double(sum, at[0]) + (sum >> 31) + at[1]) >> at[2]);
}

/* Sums to int8 by M, C, e of each channel at `at`: of two channels for three pixels, or of four for
 * one. Returns their end. */
static inline EC_INLINE const int32_t *ec_s4_store_s8_dsp(void *out, int32_t bytes, int32_t step,
                                                          int32_t unit, const int32_t *sums,
                                                          const int32_t *at,
                                                          const int32_t *limits) {
    int8_t *to = (int8_t *)out;
    (void)bytes;
    (void)limits; /* C has the zero point */
    if (unit == 2) {
        for (int32_t p = 0; p < 3; ++p, to += step) {
            to[0] = ec_s4_rescale_s8_dsp(sums[p] >> 12, at);
            to[1] = ec_s4_rescale_s8_dsp(sums[3 + p] >> 12, at + 3);
        }
        return at + 6;
    }
    to[0] = ec_s4_rescale_s8_dsp(sums[0], at);
    to[1] = ec_s4_rescale_s8_dsp(sums[1] >> 8, at + 3);
    to[2] = ec_s4_rescale_s8_dsp(sums[2] >> 12, at + 6);
    to[3] = ec_s4_rescale_s8_dsp(sums[3] >> 4, at + 9);
    return at + 12;
}

/* With gemmlowp's rounding. */
#define EC_OF(name) name##_s4_s8_dsp
#define EC_OUT int8_t
#define EC_ENDS int32_t zero_point
#define EC_LIMITS zero_point
#define EC_ASM EC_DSP_ASM
#define EC_CODE_3 EC_S4_TFLM_3
#define EC_CODE_1 EC_S4_TFLM_1
#define EC_CODE_PLAIN EC_S4_TFLM_PLAIN
#define EC_SUMS_3 ec_s4_3_sums_s8_dsp
#define EC_SUMS_1 ec_s4_1_sums_s8_dsp
#define EC_SUMS_PLAIN ec_s4_1_plain_sums_s8_dsp
#define EC_STORE ec_s4_store_s8_dsp
#define EC_HEAD 0
#include "kernels/dsp/matrix.inc"

#endif /* EC_MATRIX_S8_INT4_H */
