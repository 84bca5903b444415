/* Matrix products of int16 inputs and int8 weights for the DSP extension of Armv7E-M: int16x8.
 *
 * The four weights k .. k + 3 of a channel share a word, as its bytes 0, 2, 1, 3: extended by SXTB16,
 * as it is and rotated by a byte, it gives two pairs that SMLAD multiplies by two words of inputs as
 * they lie in memory. Sums of 64 bits are for SMLALD.
 *
 * A stream holds all constants in the order of use. Per four channels, in words: their biases; the
 * weights, a word of each channel in turn; then the rescaling factors of each. If the number of channels
 * is no multiple of four, the last four channels overlap the four before. If the number of inputs is no
 * multiple of four, zeros fill the last words of weights.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S16_H
#define EC_MATRIX_S16_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/store_s16.h"

/* Four inputs, in two words, times a word of weights, added to acc. */
static inline EC_UNUSED int32_t ec_accumulate_4_s16_dsp(int32_t acc, int32_t low, int32_t high,
                                                        int32_t weights) {
    return ec_smlad(high, ec_sxtb16_odd(weights), ec_smlad(low, ec_sxtb16(weights), acc));
}

/* The same of 64 bits. */
static inline EC_UNUSED int64_t ec_accumulate_4_s64_dsp(int64_t acc, int32_t low, int32_t high,
                                                        int32_t weights) {
    return ec_smlald(high, ec_sxtb16_odd(weights), ec_smlald(low, ec_sxtb16(weights), acc));
}

/* clang-format off */

/* Assembly: four inputs in r3 and r12 by weights of a channel. */
#define EC_MATRIX_S16_CHANNEL(weights, sum) \
    "sxtb16 lr, " weights "\n" \
    "smlad " sum ", r3, lr, " sum "\n" \
    "sxtb16 lr, " weights ", ror #8\n" \
    "smlad " sum ", r12, lr, " sum "\n"

/* Assembly: four inputs in r2 and r3 by the next word of weights, to a sum of 64 bits. */
#define EC_MATRIX_S16_CHANNEL_S64(low, high) \
    "ldr r12, [r1], #4\n" \
    "sxtb16 lr, r12\n" \
    "smlald " low ", " high ", r2, lr\n" \
    "sxtb16 r12, r12, ror #8\n" \
    "smlald " low ", " high ", r3, r12\n"

/* clang-format on */

/* The products of `inputs`, a multiple of four, by four channels of weights, added to sums.
 *
 * Registers: r0 x, r1 weights, r2 and r3 four inputs, r4-r11 sums, r12 a word of weights, lr a pair of
 * them. On the stack: the end of x, sums. */
static inline EC_UNUSED void ec_four_sums_s16_s64_dsp(int64_t *sums, const int16_t *x,
                                                      const int32_t *weights, int32_t inputs) {
#if EC_DSP_ASM
    register const int16_t *r0 __asm__("r0") = x;
    register const int32_t *r1 __asm__("r1") = weights;
    register int32_t r2 __asm__("r2") = inputs;
    register int64_t *r3 __asm__("r3") = sums;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "add r2, r0, r2, lsl #1\n"
        "push {r2-r11, lr}\n"
        "ldmia r3, {r4-r11}\n"
        "1:\n"
        "ldmia r0!, {r2, r3}\n"
        EC_MATRIX_S16_CHANNEL_S64("r4", "r5")
        EC_MATRIX_S16_CHANNEL_S64("r6", "r7")
        EC_MATRIX_S16_CHANNEL_S64("r8", "r9")
        EC_MATRIX_S16_CHANNEL_S64("r10", "r11")
        "ldr r12, [sp]\n"
        "cmp r0, r12\n"
        "bne 1b\n"
        "ldr r3, [sp, #4]\n"
        "stmia r3, {r4-r11}\n"
        "pop {r2-r11, lr}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r12", "cc", "memory");
    /* clang-format on */
#else
    int64_t a = sums[0];
    int64_t b = sums[1];
    int64_t c = sums[2];
    int64_t d = sums[3];
    const int32_t *const end = weights + inputs;
    for (; weights != end; weights += 4, x += 4) {
        const int32_t low = ec_load_aligned(x);
        const int32_t high = ec_load_aligned(x + 2);
        a = ec_accumulate_4_s64_dsp(a, low, high, weights[0]);
        b = ec_accumulate_4_s64_dsp(b, low, high, weights[1]);
        c = ec_accumulate_4_s64_dsp(c, low, high, weights[2]);
        d = ec_accumulate_4_s64_dsp(d, low, high, weights[3]);
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#endif
}

/* The same modulo 2^32.
 *
 * Registers: r0 x, r1 weights, r2 the end of x, r3 and r12 four inputs, r4-r7 weight words, r8-r11
 * sums, lr a pair of weights. */
static inline EC_UNUSED void ec_four_sums_s16_dsp(int32_t *sums, const int16_t *x,
                                                  const int32_t *weights, int32_t inputs) {
#if EC_DSP_ASM
    register const int16_t *r0 __asm__("r0") = x;
    register const int32_t *r1 __asm__("r1") = weights;
    register int32_t r2 __asm__("r2") = inputs;
    register int32_t *r3 __asm__("r3") = sums;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r3-r11, lr}\n"
        "ldmia r3, {r8-r11}\n"
        "subs r4, r2, #4\n" /* the loop takes four words of each channel, the first time fewer */
        "ubfx r4, r4, #2, #2\n"
        "adds r4, #1\n"
        "movs r5, #70\n"
        "adr.w r6, 4f\n"
        "mls r6, r4, r5, r6\n"
        "orr r6, r6, #1\n"
        "add r2, r0, r2, lsl #1\n"
        "bx r6\n"
        ".balign 4\n"
        "3:\n"
        ".rept 4\n"
        "ldmia.w r0!, {r3, r12}\n"
        "ldmia r1!, {r4-r7}\n"
        EC_MATRIX_S16_CHANNEL("r4", "r8")
        EC_MATRIX_S16_CHANNEL("r5", "r9")
        EC_MATRIX_S16_CHANNEL("r6", "r10")
        EC_MATRIX_S16_CHANNEL("r7", "r11")
        ".endr\n"
        "4:\n"
        "cmp r0, r2\n"
        "bne.w 3b\n"
        "ldr r3, [sp]\n"
        "stmia r3, {r8-r11}\n"
        "pop {r3-r11, lr}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r12", "cc", "memory");
    /* clang-format on */
#else
    /* Sums have 32 bits: with 64 bits, ResNet8 would take a fifth more instructions. */
    int32_t a = sums[0];
    int32_t b = sums[1];
    int32_t c = sums[2];
    int32_t d = sums[3];
    const int32_t *const end = weights + inputs;
    for (; weights != end; weights += 4, x += 4) {
        const int32_t low = ec_load_aligned(x);
        const int32_t high = ec_load_aligned(x + 2);
        a = ec_accumulate_4_s16_dsp(a, low, high, weights[0]);
        b = ec_accumulate_4_s16_dsp(b, low, high, weights[1]);
        c = ec_accumulate_4_s16_dsp(c, low, high, weights[2]);
        d = ec_accumulate_4_s16_dsp(d, low, high, weights[3]);
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#endif
}

/* The inputs of x after the last whole four, and zeros: at `tail`, two words. */
static inline EC_UNUSED const int16_t *ec_tail_s16_dsp(void *tail, const int16_t *x,
                                                       int32_t inputs) {
    int16_t *const to = (int16_t *)tail;
    const int32_t left = inputs % 4;
    for (int32_t i = 0; i < 4; ++i) {
        to[i] = i < left ? x[inputs - left + i] : (int16_t)0;
    }
    return to;
}

/* Four biases. */
static inline EC_INLINE void ec_load_four_s32(int32_t *sums, const int32_t *words) {
    sums[0] = words[0];
    sums[1] = words[1];
    sums[2] = words[2];
    sums[3] = words[3];
}

/* Four sums to results by M * 2^15, 2^(e-1) and e of each. */
static inline EC_INLINE void ec_store_four_high_s16_dsp(void *out, int32_t bytes,
                                                        const int32_t *sums, const int32_t *scales,
                                                        int32_t zero_point, int32_t minimum,
                                                        int32_t maximum) {
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t high = (int32_t)(((int64_t)sums[i] * scales[3 * i]) >> 32);
        const int32_t value = ((high + scales[3 * i + 1]) >> scales[3 * i + 2]) + zero_point;
        ec_store_limited(out, bytes, i, value, minimum, maximum);
    }
}

/* The same by any factor: M and the shift of ec_requantize_tflm16. */
static inline EC_INLINE void ec_store_four_any_s16_dsp(void *out, int32_t bytes,
                                                       const int32_t *sums, const int32_t *scales,
                                                       int32_t zero_point, int32_t minimum,
                                                       int32_t maximum) {
    const int64_t wide[4] = { sums[0], sums[1], sums[2], sums[3] };
    ec_store_four_s16(out, bytes, wide, scales, zero_point, minimum, maximum);
}

/* Sums of 32 bits by factors that ec_requantize_tflm16_high takes. */
#define EC_OF(name) name##_dsp
#define EC_TO ec_matrix_1_s16_to_dsp
#define EC_SUM int32_t
#define EC_BIASES 4
#define EC_LOAD ec_load_four_s32
#define EC_ADD ec_four_sums_s16_dsp
#define EC_STORE ec_store_four_high_s16_dsp
#define EC_SCALES 12
#include "kernels/dsp/matrix_s16.inc"

/* The same by any factor. */
#define EC_OF(name) name##_any_dsp
#define EC_TO ec_matrix_1_s16_to_any_dsp
#define EC_SUM int32_t
#define EC_BIASES 4
#define EC_LOAD ec_load_four_s32
#define EC_ADD ec_four_sums_s16_dsp
#define EC_STORE ec_store_four_any_s16_dsp
#define EC_SCALES 8
#include "kernels/dsp/matrix_s16.inc"

/* The same with sums and biases of 64 bits, the lower word of a bias first. */
#define EC_OF(name) name##_s64_dsp
#define EC_TO ec_matrix_1_s16_to_s64_dsp
#define EC_SUM int64_t
#define EC_BIASES 8
#define EC_LOAD ec_load_four_s64
#define EC_ADD ec_four_sums_s16_s64_dsp
#define EC_STORE ec_store_four_s16
#define EC_SCALES 8
#include "kernels/dsp/matrix_s16.inc"

#endif /* EC_MATRIX_S16_H */
