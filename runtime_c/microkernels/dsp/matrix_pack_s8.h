/* Inputs of matrix products as pairs of int16, for the DSP extension of Armv7E-M.
 *
 * SXTB16 extends bytes 0 and 2 of a word, and rotated by 8 bits bytes 1 and 3: four int8 become the
 * pairs (x[0], x[2]) and (x[1], x[3]). Weights are paired in the same way when edgec packs them.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_PACK_S8_H
#define EC_MATRIX_PACK_S8_H

#include "edgec/ec_kernel.h"

/* octets * 8 int8 as pairs, to[octet][2][odd][2]; x needs no alignment. */
static EC_KERNEL void ec_pack_octets_s8_dsp(int16_t *to, const int8_t *x, int32_t octets) {
#if EC_DSP_ASM
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = x;
    register int32_t r2 __asm__("r2") = octets;
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r7}\n"
                     "0:\n"
                     "ldr r3, [r1], #4\n"
                     "ldr r12, [r1], #4\n"
                     "sxtb16 r4, r3\n"
                     "sxtb16 r5, r3, ror #8\n"
                     "sxtb16 r6, r12\n"
                     "sxtb16 r7, r12, ror #8\n"
                     "stmia r0!, {r4-r7}\n"
                     "subs r2, #1\n"
                     "bne 0b\n"
                     "pop {r4-r7}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2)
                     :
                     : "r3", "r12", "cc", "memory");
#else
    for (int32_t quad = 0; quad < 2 * octets; ++quad) {
        for (int32_t i = 0; i < 4; ++i) {
            to[4 * quad + i] = x[4 * quad + (i >> 1) + 2 * (i & 1)];
        }
    }
#endif
}

/* One row of `depth` int8 as pairs, to[octet][2][odd][2]; zeros fill the last octet. */
static inline void ec_pack_row_s8_dsp(int16_t *to, const int8_t *x, int32_t depth) {
    const int32_t whole = depth & ~7;
    if (whole != 0) {
        ec_pack_octets_s8_dsp(to, x, whole / 8);
    }
    if (whole != depth) {
        for (int32_t i = whole; i < whole + 8; ++i) {
            const int32_t from = (i & ~3) + ((i & 3) >> 1) + 2 * (i & 1);
            to[i] = from < depth ? x[from] : 0;
        }
    }
}

/* The next quads * 4 int8 of three pixels as pairs, to[quad][odd][pixel][2]. The pixels need no
 * alignment; quads >= 1. */
static EC_KERNEL void ec_pack_3_s8_dsp(int16_t *to, const int8_t *a, const int8_t *b,
                                       const int8_t *c, int32_t quads) {
#if EC_DSP_ASM
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register const int8_t *r3 __asm__("r3") = c;
    register int32_t r12 __asm__("r12") = quads;
    __asm__ volatile(
        ".syntax unified\n"
        "push {r4-r11, lr}\n"
        "and lr, r12, #3\n"
        "lsr r12, r12, #2\n"
        "rsb lr, lr, #4\n"
        "cmp lr, #4\n"
        "ite ne\n"
        "addne r12, r12, #1\n"
        "moveq lr, #0\n"
        /* The loop takes four; the first time it is entered behind those that are missing. */
        "movs r4, #40\n" /* bytes of code for one */
        "mul lr, lr, r4\n"
        "adr.w r4, 0f\n"
        "add lr, r4, lr\n"
        "orr lr, lr, #1\n"
        "bx lr\n"
        ".balign 4\n"
        "0:\n"
        ".rept 4\n"
        "ldr r4, [r1], #4\n"
        "ldr r5, [r2], #4\n"
        "ldr r6, [r3], #4\n"
        "sxtb16 r7, r4\n"
        "sxtb16 r8, r5\n"
        "sxtb16 r9, r6\n"
        "sxtb16 r10, r4, ror #8\n"
        "sxtb16 r11, r5, ror #8\n"
        "sxtb16 lr, r6, ror #8\n"
        "stmia r0!, {r7-r11, lr}\n"
        ".endr\n"
        "subs r12, #1\n"
        "bne.w 0b\n"
        "pop {r4-r11, lr}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r12)
        :
        : "cc", "memory");
#else
    for (int32_t quad = 0; quad < quads; ++quad) {
        for (int32_t i = 0; i < 4; ++i) {
            const int32_t from = 4 * quad + (i >> 1) + 2 * (i & 1);
            int16_t *const at = to + 12 * quad + 6 * (i >> 1) + (i & 1);
            at[0] = a[from];
            at[2] = b[from];
            at[4] = c[from];
        }
    }
#endif
}

/* Three neighbouring rows of `depth` int8 as pairs, to[quad][odd][row][2]; zeros fill the last
 * quad. */
static inline void ec_pack_rows_3_s8_dsp(int16_t *to, const int8_t *x, int32_t depth) {
    const int32_t whole = depth & ~3;
    if (whole != 0) {
        ec_pack_3_s8_dsp(to, x, x + depth, x + 2 * depth, whole / 4);
    }
    if (whole != depth) {
        for (int32_t p = 0; p < 3; ++p) {
            int16_t *const at = to + 3 * whole + 2 * p;
            const int8_t *const from = x + p * depth + whole;
            at[0] = from[0];
            at[1] = whole + 2 < depth ? from[2] : 0;
            at[6] = whole + 1 < depth ? from[1] : 0;
            at[7] = 0;
        }
    }
}

#endif /* EC_MATRIX_PACK_S8_H */
