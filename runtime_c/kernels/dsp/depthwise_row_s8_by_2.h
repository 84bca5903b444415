/* Rows of depthwise 3x3 convolutions of int8 whose windows step by two, for the DSP extension of
 * Armv7E-M, without any copy of the input: as depthwise_row_s8.h, with the same streams.
 *
 * Two neighbouring windows share one column: the last of one is the first of the next.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_ROW_S8_BY_2_H
#define EC_DEPTHWISE_ROW_S8_BY_2_H

#include "kernels/dsp/depthwise_row_s8.h"

/* Assembly: the column at r0, which only the output `a` reads; r12, lr and `n` are free. */
#define EC_ROW_2_ODD(a, n)            \
    "ldrsb r12, [r0]\n"               \
    "ldrsb lr, [r0, r2]\n"            \
    "ldrsb " n ", [r0, r2, lsl #1]\n" \
    "pkhbt r12, r12, lr, lsl #16\n"   \
    "smlad " a ", r12, r6, " a "\n"   \
    "smlabt " a ", " n ", r8, " a "\n"

/* Assembly: add the products of two columns to the output `a`, which is then complete, and to the next
 * one, n. */
#define EC_ROW_2_COLUMNS(a, n)      \
    EC_ROW_2_ODD(a, n)              \
    "add r0, r0, r4\n"              \
    "ldrsb r12, [r0]\n"             \
    "ldrsb lr, [r0, r2]\n"          \
    "ldr " n ", [sp]\n"             \
    "pkhbt r12, r12, lr, lsl #16\n" \
    "ldrsb lr, [r0, r2, lsl #1]\n"  \
    "smlad " a ", r12, r7, " a "\n" \
    "smlad " n ", r12, r5, " n "\n" \
    "smlabt " a ", lr, r9, " a "\n" \
    "smlabb " n ", lr, r8, " n "\n" \
    "add r0, r0, r4\n" EC_ROW_OUTPUT(a, "[r1]") "add r1, r1, r4\n"

/* Row `row` of the outputs, as ec_depthwise_row_s8_dsp, of windows that step by two.
 *
 * Registers: r0 a column of x, r1 its output, r2 bytes from row to row, r3 M, r4 channels, r5-r9
 * weights, r10, r11 sums of two outputs, r12, lr inputs. The stack is as there, and then has the
 * bytes from the first column of x to its output. */
static EC_KERNEL void ec_depthwise_row_2_s8_dsp(int8_t *out, const int8_t *x, const int32_t *stream,
                                                const ec_depthwise_row_sizes *n, int32_t row) {
    const int32_t step = n->width * n->channels;
    const int32_t y = 2 * row - n->top;
    const int32_t outside = y < 0 ? 1 : (y + 2 >= n->height ? 2 : 0);
    const int32_t right = n->padded != 0 && 2 * n->out_width + 1 - n->left > n->width ? 1 : 0;
    const int32_t whole = n->out_width - right;
#if EC_DSP_ASM
    const uint32_t at = (uint32_t)(uintptr_t)(x + (y < 0 ? 0 : y) * step);
    const uint32_t words[10] = {
        at,
        at + (uint32_t)((2 * whole + 1 - n->left) * n->channels),
        (uint32_t)(uintptr_t)stream,
        at + (uint32_t)n->channels,
        ((uint32_t)n->zero_point & 0xFFFFu) * 0x00010001u,
        (uint32_t)outside,
        (uint32_t)n->left,
        (uint32_t)whole & 1u,
        (uint32_t)right,
        (uint32_t)(uintptr_t)out - at,
    };
    register uint32_t r0 __asm__("r0") = at;
    register int8_t *r1 __asm__("r1") = out;
    register int32_t r2 __asm__("r2") = outside != 0 ? step / 2 : step;
    register const uint32_t *r3 __asm__("r3") = words;
    register int32_t r4 __asm__("r4") = n->channels;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        EC_ROW_BEGIN("adr.w r11, 7f\n"
                     "adr.w lr, 8f\n"
                     "cmp r7, #0\n"
                     "it ne\n"
                     "movne r11, lr\n")
        "ldr r3, [r3, #16]\n"
        "str r3, [sp, #44]\n"
        EC_ROW_CHANNEL
        "8:\n" /* the outputs are odd in number */
        "mov r11, r10\n"
        "b 9f\n"
        ".balign 4\n"
        "7:\n"
        EC_ROW_2_COLUMNS("r10", "r11")
        "9:\n"
        EC_ROW_2_COLUMNS("r11", "r10")
        "ldr lr, [sp, #12]\n"
        "cmp r0, lr\n"
        "bne 7b\n"
        "ldr pc, [sp, #40]\n"
        EC_ROW_END(EC_ROW_2_ODD("r10", "r11"), "[r1]",
                   "ldr r1, [sp, #44]\n"
                   "add r1, r0, r1\n")
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4)
        :
        : "r5", "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory");
    /* clang-format on */
#else
    const ec_row_any_sizes any = { outside != 0 ? step / 2 : step,
                                   outside,
                                   n->channels,
                                   n->left,
                                   whole,
                                   right,
                                   n->zero_point,
                                   2 };
    ec_row_any_s8_dsp(out, x + (y < 0 ? 0 : y) * step, stream, &any);
#endif
}

#endif /* EC_DEPTHWISE_ROW_S8_BY_2_H */
