/* Matrix products of int8 for the DSP extension of Armv7E-M: convolutions.
 *
 * Two output channels a and b share a weight word. Its bytes are (a[k], b'[k], a[k+2], b'[k+2])
 * with b' = b - (a < 0), so that each half-word, signed, is a + 256 * b. SMLAD with the word as it
 * is gives the sum of a plus 256 times the sum of b; with its bytes 0 and 2 extended by SXTB16, the
 * sum of a alone. The difference is 256 times the sum of b, exact where that is below 2^23. One
 * load and one SXTB16 so serve four weights of one byte each.
 *
 * One pixel by two pairs of channels takes fewer instructions for the sum of a by Winograd's inner
 * product (1968), which is exact too: (x + d) * (y + c) = x * c + y * d + x * y + c * d. SXTAB16
 * extends and adds at once, so that two of these and one SMLAD do what two SXTB16 and two SMLAD
 * would. The products x * y are the same for all channels and added up once; the products of weights,
 * c * d, are constants, which the bias already has subtracted.
 *
 * A stream holds all constants in the order of use. Per pair of channels, in words:
 *   bias of a; bias of a + 256 * bias of b; the weights; then M, C, e of a, and of b.
 * Of two pairs, biases of a are less the products of weights c * d.
 * The last pair overlaps the one before where the number of channels is odd.
 *
 * Rescaling an accumulator x by M * 2^(-31 - e), 2^30 <= M < 2^31, e >= 1, with gemmlowp's double
 * rounding, is SMMULR(2x, M) (it rounds half up), minus one if x < 0 (ties away from zero), plus
 * C = 2^(e-1) + zero_point * 2^e, shifted right by e. With zero_point = -128 negative results are
 * limited to -128, so the minus one has no effect and is omitted; then b stays multiplied by 256, and
 * its C and e compensate for that.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_H
#define EC_MATRIX_S8_H

#include "kernels/dsp/matrix_c_s8.h"

/* Assembly of the kernels below: the words of weights of one load, for 3 pixels. */
#define EC_MATRIX_3_STEP(loaded, each) \
    "ldmia r1!, " loaded "\n"          \
    ".irp w, " each "\n"               \
    "ldmia r0!, {r2-r4}\n"             \
    "smlad r11, r2, \\w, r11\n"        \
    "smlad r12, r3, \\w, r12\n"        \
    "smlad lr, r4, \\w, lr\n"          \
    "sxtb16 \\w, \\w\n"                \
    "smlad r8, r2, \\w, r8\n"          \
    "smlad r9, r3, \\w, r9\n"          \
    "smlad r10, r4, \\w, r10\n"        \
    ".endr\n"

/* clang-format off */

/* The first word of weights, in r7, with both biases in r5 and r6. */
#define EC_MATRIX_3_FIRST \
    "ldmia r0!, {r2-r4}\n" \
    "smlad r11, r2, r7, r6\n" \
    "smlad r12, r3, r7, r6\n" \
    "smlad lr, r4, r7, r6\n" \
    "sxtb16 r7, r7\n" \
    "smlad r8, r2, r7, r5\n" \
    "smlad r9, r3, r7, r5\n" \
    "smlad r10, r4, r7, r5\n"

/* Run the assembly `code` with out, x and stream in r0 to r2, and the first three `sizes`, at r3, in
 * r4 to r6. The last parameters are the other registers that it changes. */
#define EC_MATRIX_RUN_BY(sizes, code, ...) \
    register void *r0 __asm__("r0") = out; \
    register const void *r1 __asm__("r1") = x; \
    register const int32_t *r2 __asm__("r2") = stream; \
    register const int32_t *r3 __asm__("r3") = sizes; \
    __asm__ volatile(".syntax unified\n" \
                     "push {r4-r11, lr}\n" \
                     "ldmia r3, {r4-r6}\n" code \
                     "pop {r4-r11, lr}\n" \
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3) \
                     : \
                     : __VA_ARGS__, "cc", "memory")

/* The same if `size`, channels and zero_point are all sizes. They come in registers, which needs less
 * stack; r7 may be the compiler's frame pointer, so it is saved here. */
#define EC_MATRIX_RUN(size, code, ...) \
    register void *r0 __asm__("r0") = out; \
    register const void *r1 __asm__("r1") = x; \
    register const int32_t *r2 __asm__("r2") = stream; \
    register int32_t r4 __asm__("r4") = (size); \
    register int32_t r5 __asm__("r5") = channels; \
    register int32_t r6 __asm__("r6") = zero_point; \
    __asm__ volatile(".syntax unified\n" \
                     "push {r7-r11, lr}\n" code \
                     "pop {r7-r11, lr}\n" \
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r4), "+r"(r5), "+r"(r6) \
                     : \
                     : "r3", __VA_ARGS__, "cc", "memory")

/* r7 = the words of 3 pixels; r4 has the words of one. */
#define EC_MATRIX_3_SIZE "add r7, r4, r4, lsl #1\n"

/* A pair of channels begins: r0 is x. */
#define EC_MATRIX_3_PAIR \
    "str r0, [sp, #16]\n" \
    "ldr r0, [sp, #8]\n"

/* Assembly of some pixels, whose `size` is above: fill the stack; r4 is quads, r5 channels, r6 the
 * zero point. */
#define EC_MATRIX_BEGIN(size) \
    "sub sp, #36\n" \
    "str r1, [sp, #8]\n" \
    "str r5, [sp, #28]\n" \
    "adds r7, r0, r5\n" \
    "subs r7, #2\n" \
    "str r7, [sp, #24]\n" \
    "lsls r4, r4, #1\n" \
    size \
    "add r7, r1, r7, lsl #2\n" \
    "str r7, [sp, #12]\n" \
    "mov r1, r2\n"

/* Assembly of some pixels: save r7, the address of the code that stores the results, and begin the loop
 * over pairs of channels. The inner loop has `times` groups of three words; `step`, the code of a group,
 * has this many bytes. */
#define EC_MATRIX_LOOP(begin, first, step, times, bytes) \
    "orr r7, r7, #1\n" \
    "str r7, [sp, #20]\n" \
    /* The first word is done apart, 0 to 2 extra words too. */ \
    "subs r4, #1\n" \
    "movs r5, #3\n" \
    "udiv r6, r4, r5\n" \
    "mls r4, r6, r5, r4\n" \
    "adr.w r7, 5f\n" \
    "cbz r6, 8f\n" \
    "subs r6, #1\n" \
    "movs r5, #" times "\n" \
    "udiv r3, r6, r5\n" \
    "mls r6, r3, r5, r6\n" \
    "adds r6, #1\n" \
    "movs r5, #" bytes "\n" \
    "adr.w r7, 4f\n" \
    "mls r7, r6, r5, r7\n" \
    "8:\n" \
    "orr r7, r7, #1\n" \
    "str r7, [sp, #4]\n" \
    "cmp r4, #1\n" \
    "it eq\n" \
    "adreq.w r7, 2f\n" \
    "it hi\n" \
    "adrhi.w r7, 1f\n" \
    "orr r7, r7, #1\n" \
    "str r7, [sp]\n" \
    "0:\n" /* a pair of channels */ \
    begin \
    "ldmia r1!, {r5-r7}\n" \
    first \
    "ldr pc, [sp]\n" \
    "1:\n" \
    step("{r5-r6}", "r5, r6") \
    "ldr pc, [sp, #4]\n" \
    "2:\n" \
    step("{r5}", "r5") \
    "ldr pc, [sp, #4]\n" \
    "3:\n" \
    ".rept " times "\n" \
    step("{r5-r7}", "r5, r6, r7") \
    ".endr\n" \
    "4:\n" \
    "ldr r2, [sp, #12]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n" \
    "5:\n" \
    "ldr pc, [sp, #20]\n"

/* Assembly: store a pair of channels of three pixels, from r0 on; the register `step` is the number of
 * bytes from pixel to pixel. */
#define EC_MATRIX_3_STORE(store, step, bytes) \
    store " r8, [r0]\n" \
    store " r9, [r0, " step "]\n" \
    store " r10, [r0, " step ", lsl #1]\n" \
    "adds r0, #" bytes "\n" \
    store " r11, [r0]\n" \
    store " r12, [r0, " step "]\n" \
    store " lr, [r0, " step ", lsl #1]\n" \
    "adds r0, #" bytes "\n"

/* Assembly of some pixels: go on to the next pair of channels. With an odd number of channels the last
 * pair begins one channel (`bytes` bytes) earlier. */
#define EC_MATRIX_NEXT(out, bytes) \
    "8:\n" \
    "ldr r3, [sp, #24]\n" \
    "cmp " out ", r3\n" \
    "bls.w 0b\n" \
    "subs r2, " out ", r3\n" \
    "cmp r2, #" bytes "\n" \
    "it eq\n" \
    "moveq " out ", r3\n" \
    "beq.w 0b\n" \
    "b 9f\n"

/* Assembly of some pixels: the end. */
#define EC_MATRIX_END \
    "9:\n" \
    "add sp, #36\n"

/* Convert twice an accumulator, in r5, to int8 by M, C, e in r2-r4; r6 is free. */
#define EC_MATRIX_ANY_ZERO_POINT \
    "smmlar r6, r5, r2, r3\n" \
    "add r6, r6, r5, asr #31\n" \
    "asr r6, r6, r4\n" \
    "ssat \\x, #8, r6\n"

/* Two pairs of inputs, x and y, by the words of both pairs of channels: those for y come first. */
#define EC_MATRIX_1_STEP(x, y) \
    "ldmia r1!, {r6-r9}\n" \
    "smlad r11, " y ", r6, r11\n" \
    "smlad lr, " y ", r7, lr\n" \
    "sxtab16 r6, " x ", r6\n" \
    "sxtab16 r7, " x ", r7\n" \
    "smlad r11, " x ", r8, r11\n" \
    "smlad lr, " x ", r9, lr\n" \
    "sxtab16 r8, " y ", r8\n" \
    "sxtab16 r9, " y ", r9\n" \
    "smlad r10, r6, r8, r10\n" \
    "smlad r12, r7, r9, r12\n"

/* Choose the code that stores the results, r7, by the zero point in r6. */
#define EC_MATRIX_CHOOSE \
    "adr.w r7, 6f\n" \
    "cmn r6, #128\n" \
    "it ne\n" \
    "adrne.w r7, 7f\n"

/* Assembly of one pixel: fill a stack frame of `frame` bytes. An octet of inputs has 1 << `octet`
 * bytes, and its code `bytes`; the loop has 8 octets. `choose` sets r7, the address of the code that
 * stores the results, from r5, channels, and r6, the zero point; r4 is octets. */
#define EC_MATRIX_1_BEGIN(frame, octet, bytes, choose) \
    "sub sp, #" frame "\n" \
    "add r7, r1, r4, lsl #" octet "\n" \
    "str r1, [sp, #4]\n" \
    "str r7, [sp, #8]\n" \
    "adds r7, r0, r5\n" \
    "subs r7, #4\n" \
    "str r7, [sp, #20]\n" \
    "mov r1, r2\n" \
    choose \
    "orr r7, r7, #1\n" \
    "str r7, [sp, #16]\n" \
    "subs r4, #1\n" \
    "and r4, r4, #7\n" \
    "adds r4, #1\n" \
    "movs r5, #" bytes "\n" \
    "adr.w r7, 4f\n" \
    "mls r7, r4, r5, r7\n" \
    "orr r7, r7, #1\n" \
    "str r7, [sp]\n"

/* Four channels begin; the first ones at 5. */
#define EC_MATRIX_1_FOUR \
    "0:\n" \
    "str r0, [sp, #12]\n" \
    "5:\n" \
    "ldr r0, [sp, #4]\n" \
    "ldmia r1!, {r10-r12, lr}\n" \
    "ldr pc, [sp]\n"

/* Add up the products x * y of all pairs of inputs: `load` loads inputs, and `total` adds their products
 * to r6. Then four channels begin. */
#define EC_MATRIX_1_TOTAL(load, total) \
    "str r0, [sp, #12]\n" \
    "ldrd r0, r7, [sp, #4]\n" \
    "movs r6, #0\n" \
    "5:\n" \
    load \
    total \
    "cmp r0, r7\n" \
    "bne 5b\n" \
    "str r6, [sp, #24]\n" \
    "b 5f\n" \
    EC_MATRIX_1_FOUR

/* The end of the loop; the code that stores the results follows. */
#define EC_MATRIX_1_SUMS \
    "4:\n" \
    "ldr r2, [sp, #8]\n" \
    "cmp r0, r2\n" \
    "bne.w 3b\n" \
    "ldr r0, [sp, #12]\n" \
    "ldr r2, [sp, #24]\n" \
    "sub r10, r10, r2\n" \
    "sub r12, r12, r2\n" \
    "sub r11, r11, r10\n" \
    "sub lr, lr, r12\n"

/* Load eight packed inputs: four pairs, to r2-r5. */
#define EC_MATRIX_1_PACKED "ldmia r0!, {r2-r5}\n"

/* The same of int8 inputs that are not packed: 16 bytes of code more. */
#define EC_MATRIX_1_PLAIN \
    "ldmia r0!, {r3, r5}\n" \
    "sxtb16 r2, r3\n" \
    "sxtb16 r3, r3, ror #8\n" \
    "sxtb16 r4, r5\n" \
    "sxtb16 r5, r5, ror #8\n"

/* Eight inputs that `load` loads, 90 bytes of code if they are packed; and the loop over them. */
#define EC_MATRIX_1_OCTETS(load) \
    EC_MATRIX_1_TOTAL(load, "smlad r6, r2, r3, r6\nsmlad r6, r4, r5, r6\n") \
    "3:\n" \
    ".rept 8\n" \
    load \
    EC_MATRIX_1_STEP("r2", "r3") \
    EC_MATRIX_1_STEP("r4", "r5") \
    ".endr\n" EC_MATRIX_1_SUMS \
    "ldr pc, [sp, #16]\n"

/* Go on to the next four channels of this many bytes, which may overlap the four before. */
#define EC_MATRIX_1_NEXT(bytes) \
    "8:\n" \
    "ldr r3, [sp, #20]\n" \
    "cmp r0, r3\n" \
    "bls.w 0b\n" \
    "5:\n" \
    "subs r2, r0, r3\n" \
    "cmp r2, #" bytes "\n" \
    "it ne\n" \
    "movne r0, r3\n" \
    "bne.w 0b\n" \
    "b 9f\n"

/* Convert a sum, which `shift` doubles, to int8 by M, C, e in three registers; r9 is free. */
#define EC_MATRIX_1_ANY(x, shift, m, c, e) \
    shift "\n" \
    "smmlar r9, " x ", " m ", " c "\n" \
    "add r9, r9, " x ", asr #31\n" \
    "asr r9, r9, " e "\n" \
    "ssat r9, #8, r9\n" \
    "strb r9, [r0], #1\n"

/* Store the results, and the end. */
#define EC_MATRIX_1_END \
    "6:\n" /* zero point -128 */ \
    ".irp x, r10, r12\n" \
    "lsl \\x, \\x, #1\n" \
    "ldmia r1!, {r2-r7}\n" \
    "smmlar \\x, \\x, r2, r3\n" \
    "asr \\x, \\x, r4\n" \
    "ssat \\x, #8, \\x\n" \
    "strb \\x, [r0], #1\n" \
    ".ifc \\x, r10\n" \
    "smmla r11, r11, r5, r6\n" \
    "asr r11, r11, r7\n" \
    "ssat r11, #8, r11\n" \
    "strb r11, [r0], #1\n" \
    ".else\n" \
    "smmla lr, lr, r5, r6\n" \
    "asr lr, lr, r7\n" \
    "ssat lr, #8, lr\n" \
    "strb lr, [r0], #1\n" \
    ".endif\n" \
    ".endr\n" \
    EC_MATRIX_1_NEXT("4") \
    "7:\n" /* any zero point */ \
    "ldmia r1!, {r2-r7}\n" \
    EC_MATRIX_1_ANY("r10", "lsl r10, r10, #1", "r2", "r3", "r4") \
    EC_MATRIX_1_ANY("r11", "asr r11, r11, #7", "r5", "r6", "r7") \
    "ldmia r1!, {r2-r7}\n" \
    EC_MATRIX_1_ANY("r12", "lsl r12, r12, #1", "r2", "r3", "r4") \
    EC_MATRIX_1_ANY("lr", "asr lr, lr, #7", "r5", "r6", "r7") \
    "ldr r3, [sp, #20]\n" \
    "cmp r0, r3\n" \
    "bls.w 0b\n" \
    "b 5b\n" \
    "9:\n" \
    "add sp, #28\n"

/* Assembly: three pixels, all of it. */
#define EC_MATRIX_TFLM_3 \
    EC_MATRIX_RUN(quads, \
        EC_MATRIX_BEGIN(EC_MATRIX_3_SIZE) \
        EC_MATRIX_CHOOSE \
        EC_MATRIX_LOOP(EC_MATRIX_3_PAIR, EC_MATRIX_3_FIRST, EC_MATRIX_3_STEP, "12", "92") \
        "6:\n" /* to int8, zero point -128 */ \
        "ldr r0, [sp, #16]\n" \
        "ldmia r1!, {r2-r7}\n" \
        "sub r11, r11, r8\n" \
        "sub r12, r12, r9\n" \
        "sub lr, lr, r10\n" \
        ".irp x, r8, r9, r10\n" \
        "lsl \\x, \\x, #1\n" \
        "smmlar \\x, \\x, r2, r3\n" \
        "asr \\x, \\x, r4\n" \
        "ssat \\x, #8, \\x\n" \
        ".endr\n" \
        ".irp x, r11, r12, lr\n" \
        "smmla \\x, \\x, r5, r6\n" \
        "asr \\x, \\x, r7\n" \
        "ssat \\x, #8, \\x\n" \
        ".endr\n" \
        "ldr r2, [sp, #28]\n" \
        EC_MATRIX_3_STORE("strb", "r2", "1") \
        EC_MATRIX_NEXT("r0", "1") \
        "7:\n" /* to int8, any zero point */ \
        "ldr r0, [sp, #16]\n" \
        "ldr r7, [sp, #28]\n" \
        "sub r11, r11, r8\n" \
        "sub r12, r12, r9\n" \
        "sub lr, lr, r10\n" \
        "ldmia r1!, {r2-r4}\n" \
        ".irp x, r8, r9, r10\n" \
        "lsl r5, \\x, #1\n" \
        EC_MATRIX_ANY_ZERO_POINT \
        ".endr\n" \
        "ldmia r1!, {r2-r4}\n" \
        ".irp x, r11, r12, lr\n" \
        "asr r5, \\x, #7\n" \
        EC_MATRIX_ANY_ZERO_POINT \
        ".endr\n" \
        EC_MATRIX_3_STORE("strb", "r7", "1") \
        "b 8b\n" \
        EC_MATRIX_END, \
        "r12")

/* Assembly of one whole pixel; `load` loads inputs; octet, bytes: as in EC_MATRIX_1_BEGIN. */
#define EC_MATRIX_1_TFLM(octet, bytes, load) \
    EC_MATRIX_RUN(octets, \
        EC_MATRIX_1_BEGIN("28", octet, bytes, EC_MATRIX_CHOOSE) \
        EC_MATRIX_1_OCTETS(load) \
        EC_MATRIX_1_END, \
        "r12")

/* Assembly: one pixel. */
#define EC_MATRIX_TFLM_1 EC_MATRIX_1_TFLM("4", "90", EC_MATRIX_1_PACKED)

/* Assembly: one pixel of int8 inputs that are not packed. */
#define EC_MATRIX_TFLM_PLAIN EC_MATRIX_1_TFLM("3", "106", EC_MATRIX_1_PLAIN)

/* clang-format on */

/* With gemmlowp's rounding. */
#define EC_OF(name) name##_s8_dsp
#define EC_OUT int8_t
#define EC_ENDS int32_t zero_point
#define EC_LIMITS zero_point
#define EC_ASM EC_DSP_ASM
#define EC_CODE_3 EC_MATRIX_TFLM_3
#define EC_CODE_1 EC_MATRIX_TFLM_1
#define EC_CODE_PLAIN EC_MATRIX_TFLM_PLAIN
#define EC_SUMS_3 ec_pair_sums_3_s8_dsp
#define EC_SUMS_1 ec_four_sums_s8_dsp
#define EC_SUMS_PLAIN ec_four_plain_sums_s8_dsp
#define EC_STORE ec_store_sums_s8_dsp
#define EC_HEAD 0
#include "kernels/dsp/matrix.inc"

#endif /* EC_MATRIX_S8_H */
