/* Matrix products of int8 as in matrix_s8.h for two pixels at a time: the end of rows whose length is no
 * multiple of three. Streams are the same.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_TWO_H
#define EC_MATRIX_S8_TWO_H

#include "kernels/dsp/matrix_s8.h"

/* EC_MATRIX_3_STEP for 2 pixels. */
#define EC_MATRIX_2_STEP(loaded, each) \
    "ldmia r1!, " loaded "\n"          \
    ".irp w, " each "\n"               \
    "ldmia r0!, {r2-r3}\n"             \
    "smlad r11, r2, \\w, r11\n"        \
    "smlad r12, r3, \\w, r12\n"        \
    "sxtb16 \\w, \\w\n"                \
    "smlad r8, r2, \\w, r8\n"          \
    "smlad r9, r3, \\w, r9\n"          \
    ".endr\n"

/* clang-format off */

/* EC_MATRIX_3_FIRST for 2 pixels. */
#define EC_MATRIX_2_FIRST \
    "ldmia r0!, {r2-r3}\n" \
    "smlad r11, r2, r7, r6\n" \
    "smlad r12, r3, r7, r6\n" \
    "sxtb16 r7, r7\n" \
    "smlad r8, r2, r7, r5\n" \
    "smlad r9, r3, r7, r5\n"

/* EC_MATRIX_3_SIZE for 2 pixels; r10 keeps x, and lr where results go. */
#define EC_MATRIX_2_SIZE \
    "lsl r7, r4, #1\n" \
    "mov r10, r1\n" \
    "mov lr, r0\n"

/* EC_MATRIX_3_PAIR for 2 pixels. */
#define EC_MATRIX_2_PAIR "mov r0, r10\n"

/* clang-format on */

/* ec_matrix_3_s8_dsp for 2 pixels, x [quad][odd][pixel][2]; the same stream.
 *
 * Registers: as there, but that r10 is x and lr is out. */
static EC_KERNEL void ec_matrix_2_s8_dsp(int8_t *out, const int16_t *x, const int32_t *stream,
                                         int32_t quads, int32_t channels, int32_t zero_point) {
#if EC_DSP_ASM
    /* clang-format off */
    EC_MATRIX_RUN(quads,
        EC_MATRIX_BEGIN(EC_MATRIX_2_SIZE)
        EC_MATRIX_CHOOSE
        EC_MATRIX_LOOP(EC_MATRIX_2_PAIR, EC_MATRIX_2_FIRST, EC_MATRIX_2_STEP, "10", "68")
        "6:\n" /* to int8, zero point -128 */
        "ldmia r1!, {r2-r7}\n"
        "sub r11, r11, r8\n"
        "sub r12, r12, r9\n"
        ".irp x, r8, r9\n"
        "lsl \\x, \\x, #1\n"
        "smmlar \\x, \\x, r2, r3\n"
        "asr \\x, \\x, r4\n"
        "ssat \\x, #8, \\x\n"
        ".endr\n"
        ".irp x, r11, r12\n"
        "smmla \\x, \\x, r5, r6\n"
        "asr \\x, \\x, r7\n"
        "ssat \\x, #8, \\x\n"
        ".endr\n"
        "ldr r2, [sp, #28]\n"
        "strb r9, [lr, r2]\n"
        "strb r8, [lr], #1\n"
        "strb r12, [lr, r2]\n"
        "strb r11, [lr], #1\n"
        EC_MATRIX_NEXT("lr", "1")
        "7:\n" /* to int8, any zero point */
        "ldr r7, [sp, #28]\n"
        "sub r11, r11, r8\n"
        "sub r12, r12, r9\n"
        "ldmia r1!, {r2-r4}\n"
        ".irp x, r8, r9\n"
        "lsl r5, \\x, #1\n"
        EC_MATRIX_ANY_ZERO_POINT
        ".endr\n"
        "strb r9, [lr, r7]\n"
        "strb r8, [lr], #1\n"
        "ldmia r1!, {r2-r4}\n"
        ".irp x, r11, r12\n"
        "asr r5, \\x, #7\n"
        EC_MATRIX_ANY_ZERO_POINT
        ".endr\n"
        "strb r12, [lr, r7]\n"
        "strb r11, [lr], #1\n"
        "b 8b\n"
        EC_MATRIX_END,
        "r12");
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 2) {
        const int32_t *const end = stream + 2 + 2 * quads;
        const int32_t first = o + 2 > channels ? channels - 2 : o;
        int32_t sums[2] = { stream[0], stream[0] };
        int32_t both[2] = { stream[1], stream[1] };
        for (int32_t k = 0; k < 2 * quads; ++k) {
            const int32_t own = ec_sxtb16(stream[2 + k]);
            for (int32_t p = 0; p < 2; ++p) {
                const int32_t inputs = ec_load_word(x + 2 * (2 * k + p));
                sums[p] = ec_smlad(inputs, own, sums[p]);
                both[p] = ec_smlad(inputs, stream[2 + k], both[p]);
            }
        }
        ec_store_pairs_s8_dsp(out + first, channels, sums, both, 2, end, zero_point);
        stream = end + 6;
    }
#endif
}

#endif /* EC_MATRIX_S8_TWO_H */
