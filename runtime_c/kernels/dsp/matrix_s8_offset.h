/* Matrix products of int8 as in matrix_s8.h, for one pixel whose inputs stay bytes.
 *
 * Four inputs are a word X as they lie in memory, but that bytes 0 and 2 have 128 added: each
 * half-word is z + 256 * y, z one of these bytes without a sign and y one of the others with its
 * sign. E = UXTB16(X) is (z0, z1). A weight word U has half-words v + 256 * u, V = SXTB16(U) is
 * (v0, v1). SMLSDX takes the difference of the products across, so that
 *
 *   SMLSDX(E, U) = z0 * (v1 + 256 * u1) - z1 * (v0 + 256 * u0)
 *   SMLSDX(V, X) = v0 * (z1 + 256 * y1) - v1 * (z0 + 256 * y0)
 *
 * add up to 256 * (z0 * u1 - z1 * u0 + v0 * y1 - v1 * y0): what does not have the factor 256 is
 * gone. With u1 = w[0], u0 = -w[2], v0 = w[3] and v1 = -w[1] that is 256 times the sum of four
 * products, exact where the whole sum is below 2^23, for one UXTB16 per word of inputs.
 *
 * Per four channels a stream has, in words: 256 times each bias, less 128 for each weight of a byte
 * with 128 added; the weights, one word of each channel in turn; then M, C, e of all four, as the
 * second channel of a pair has them. The last four overlap those before where channels is no
 * multiple of four. Quads are taken 16 at a time, of which one to 16 come first; so many of these as
 * three do not divide are the last of the row, and stand before all others.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_OFFSET_H
#define EC_MATRIX_S8_OFFSET_H

#include "kernels/dsp/matrix_s8.h"

/* clang-format off */

/* Four inputs x by a word of each channel, 56 bytes of code. */
#define EC_MATRIX_OFFSET_QUAD(x) \
    "uxtb16 r5, " x "\n" \
    "ldmia r1!, {r6-r9}\n" \
    "smlsdx r10, r5, r6, r10\n" \
    "smlsdx r11, r5, r7, r11\n" \
    "smlsdx r12, r5, r8, r12\n" \
    "smlsdx lr, r5, r9, lr\n" \
    "sxtb16 r6, r6\n" \
    "sxtb16 r7, r7\n" \
    "sxtb16 r8, r8\n" \
    "sxtb16 r9, r9\n" \
    "smlsdx r10, r6, " x ", r10\n" \
    "smlsdx r11, r7, " x ", r11\n" \
    "smlsdx r12, r8, " x ", r12\n" \
    "smlsdx lr, r9, " x ", lr\n"

/* 256 times a sum rescaled, zero point -128, by M, C, e in three registers. */
#define EC_MATRIX_OFFSET_RELU(x, m, c, e) \
    "smmla " x ", " x ", " m ", " c "\n" \
    "asr " x ", " x ", " e "\n"

/* The same with any zero point; r5 is free. */
#define EC_MATRIX_OFFSET_ANY(x, m, c, e) \
    "asr r5, " x ", #7\n" \
    "smmlar " x ", r5, " m ", " c "\n" \
    "add " x ", " x ", r5, asr #31\n" \
    "asr " x ", " x ", " e "\n"

/* clang-format on */

/* sixteens * 16 int8 with 128 added to every second one, from the first; x may be at `to` or above.
 * Both are aligned to 4 bytes. */
static EC_KERNEL void ec_offset_sixteens_s8_dsp(int16_t *to, const int8_t *x, int32_t sixteens) {
#if EC_DSP_ASM
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = x;
    register int32_t r2 __asm__("r2") = sixteens;
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r7}\n"
                     "mov.w r3, #0x00800080\n"
                     "0:\n"
                     "ldmia r1!, {r4-r7}\n"
                     "eors r4, r3\n"
                     "eors r5, r3\n"
                     "eors r6, r3\n"
                     "eors r7, r3\n"
                     "stmia r0!, {r4-r7}\n"
                     "subs r2, #1\n"
                     "bne 0b\n"
                     "pop {r4-r7}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2)
                     :
                     : "r3", "cc", "memory");
#else
    for (int32_t i = 0; i < 16 * sixteens; i += 4) {
        const uint32_t four = (uint32_t)ec_load_aligned(x + i);
        ec_store_word(&to[i >> 1], (int32_t)(four ^ 0x00800080u));
    }
#endif
}

/* One row of `depth` int8 in this way, in words; zeros fill the last one. */
static inline void ec_offset_row_s8_dsp(int16_t *to, const int8_t *x, int32_t depth) {
    const int32_t whole = depth & ~15;
    if (whole != 0) {
        ec_offset_sixteens_s8_dsp(to, x, whole / 16);
    }
    int32_t i = whole;
    for (; i < (depth & ~3); i += 4) {
        const uint32_t four = (uint32_t)ec_load_aligned(x + i);
        ec_store_word(&to[i >> 1], (int32_t)(four ^ 0x00800080u));
    }
    if (i != depth) {
        uint32_t four = 0;
        for (int32_t k = 0; i + k < depth; ++k) {
            four |= ((uint32_t)x[i + k] & 0xFFu) << 8 * k;
        }
        ec_store_word(&to[i >> 1], (int32_t)(four ^ 0x00800080u));
    }
}

/* out[o] for all channels of one pixel: int8 of the rescaled sum over k of x[k] * w[o][k] + bias[o].
 *
 * x: the pixel as ec_offset_row_s8_dsp gives it, 4 * quads bytes. stream: see the top of this file.
 * quads >= 2, channels >= 4. out and x must not overlap. x and stream are aligned to 4 bytes.
 *
 * Registers: r0 x, r1 stream, r2-r4 four inputs each, r5 bytes of them, r6-r9 weight words, r10-r12
 * and lr sums. On the stack: out, the last out, what stores the results, x, its last two words,
 * where the loop begins, and where it ends. */
static EC_KERNEL void ec_matrix_1_offset_s8_dsp(int8_t *out, const int16_t *x,
                                                const int32_t *stream, int32_t quads,
                                                int32_t channels, int32_t zero_point) {
#if EC_DSP_ASM
    /* clang-format off */
    EC_MATRIX_RUN(quads,
        "sub sp, #28\n"
        EC_MATRIX_CHOOSE
        "adds r7, #1\n"
        "str r7, [sp, #8]\n"
        "add r7, r1, r4, lsl #2\n"
        "sub r6, r7, #8\n"
        "str r1, [sp, #12]\n"
        "str r6, [sp, #16]\n"
        "adds r6, r0, r5\n"
        "subs r6, #4\n"
        "str r6, [sp, #4]\n"
        /* The loop takes 16 words; the first time it is entered after those that are missing, 56
         * bytes of code each, and 2 for three of them. */
        "subs r4, #1\n"
        "and r4, r4, #15\n"
        "adds r4, #1\n"
        "movs r5, #3\n"
        "udiv r6, r4, r5\n"
        "mls r5, r6, r5, r4\n"
        "sub r7, r7, r5, lsl #2\n"
        "str r7, [sp, #24]\n"
        "movs r5, #56\n"
        "lsls r6, r6, #1\n"
        "mla r6, r4, r5, r6\n"
        "adr.w r7, 4f\n"
        "subs r7, r7, r6\n"
        "adds r7, #1\n"
        "str r7, [sp, #20]\n"
        "mov r1, r2\n"
        "0:\n" /* four channels */
        "str r0, [sp]\n"
        "ldrd r0, r2, [sp, #12]\n"
        "ldmia r2!, {r3-r4}\n"
        "ldmia r1!, {r10-r12, lr}\n"
        "ldr pc, [sp, #20]\n"
        "3:\n"
        "ldmia r0!, {r4}\n"
        EC_MATRIX_OFFSET_QUAD("r4")
        ".rept 5\n"
        "ldmia r0!, {r2-r4}\n"
        EC_MATRIX_OFFSET_QUAD("r2")
        EC_MATRIX_OFFSET_QUAD("r3")
        EC_MATRIX_OFFSET_QUAD("r4")
        ".endr\n"
        "4:\n"
        "ldr r2, [sp, #24]\n"
        "cmp r0, r2\n"
        "bne.w 3b\n"
        "ldmia sp, {r0, r9, pc}\n"
        "7:\n" /* any zero point */
        "ldmia r1!, {r2-r4, r6-r8}\n"
        EC_MATRIX_OFFSET_ANY("r10", "r2", "r3", "r4")
        EC_MATRIX_OFFSET_ANY("r11", "r6", "r7", "r8")
        "ldmia r1!, {r2-r4, r6-r8}\n"
        EC_MATRIX_OFFSET_ANY("r12", "r2", "r3", "r4")
        EC_MATRIX_OFFSET_ANY("lr", "r6", "r7", "r8")
        "b 8f\n"
        "6:\n" /* zero point -128 */
        "ldmia r1!, {r2-r7}\n"
        EC_MATRIX_OFFSET_RELU("r10", "r2", "r3", "r4")
        EC_MATRIX_OFFSET_RELU("r11", "r5", "r6", "r7")
        "ldmia r1!, {r2-r7}\n"
        EC_MATRIX_OFFSET_RELU("r12", "r2", "r3", "r4")
        EC_MATRIX_OFFSET_RELU("lr", "r5", "r6", "r7")
        "8:\n"
        ".irp sum, r10, r11, r12, lr\n"
        "ssat \\sum, #8, \\sum\n"
        "strb \\sum, [r0], #1\n"
        ".endr\n"
        /* The next four may overlap these. */
        "subs r2, r0, r9\n"
        "bls.w 0b\n"
        "cmp r2, #4\n"
        "it ne\n"
        "movne r0, r9\n"
        "bne.w 0b\n"
        "add sp, #28\n",
        "r12");
    /* clang-format on */
#else
    const int32_t left = (((quads - 1) & 15) + 1) % 3;
    for (int32_t o = 0; o < channels; o += 4) {
        int8_t *const at = out + (o + 4 > channels ? channels - 4 : o);
        int32_t sums[4] = { stream[0], stream[1], stream[2], stream[3] };
        stream += 4;
        for (int32_t i = 0; i < quads; ++i, stream += 4) {
            const int32_t quad = i < left ? quads - left + i : i - left;
            const int32_t four = ec_load_aligned(x + 2 * quad);
            const int32_t low = (int32_t)((uint32_t)four & 0x00FF00FFu);
            for (int32_t c = 0; c < 4; ++c) {
                const int32_t sum = ec_smlsdx(low, stream[c], sums[c]);
                sums[c] = ec_smlsdx(ec_sxtb16(stream[c]), four, sum);
            }
        }
        for (int32_t i = 0; i < 4; ++i, stream += 3) {
            if (zero_point == -128) {
                at[i] = ec_rescale_relu_s8_dsp(sums[i], stream[0], stream[1], stream[2]);
            } else {
                const int32_t sum = sums[i] >> 8;
                const int32_t high = ec_high_of_double(sum, stream[0]) + (sum >> 31);
                at[i] = ec_saturate_s8((high + stream[1]) >> stream[2]);
            }
        }
    }
#endif
}

#endif /* EC_MATRIX_S8_OFFSET_H */
