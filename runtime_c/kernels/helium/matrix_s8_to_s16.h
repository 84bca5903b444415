/* Dense of int8 as in matrix_s8.h whose results are int16 without a zero point, by any shift: the
 * gates of recurrent layers.
 *
 * Every four channels have the same factors: a stream begins with these, then it is a stream of
 * ec_dense_s8_mve without factors. They are three vectors: the shifts of the sums, M, and the shifts of
 * the products.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_TO_S16_H
#define EC_MVE_MATRIX_S8_TO_S16_H

#include "edgec/ec_math.h"
#include "kernels/helium/matrix_s8.h"

/* clang-format off */

/* Assembly: eight sums rescaled with gemmlowp's rounding by the factors at r11. */
#define EC_DENSE_ANY_SHIFT_MVE \
    "ldr r0, [sp, #12]\n" \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vadd.i32 q0, q0, q2\n" \
    "vadd.i32 q1, q1, q3\n" \
    "vldrw.32 q2, [r11]\n" \
    "vshl.s32 q0, q0, q2\n" \
    "vshl.s32 q1, q1, q2\n" \
    "vldrw.32 q2, [r11, #16]\n" \
    "vqrdmulh.s32 q0, q0, q2\n" \
    "vqrdmulh.s32 q1, q1, q2\n" \
    "vldrw.32 q2, [r11, #32]\n" \
    "movs r2, #1\n" \
    EC_TIES_MVE("q0", "q2", "q4", "r2") \
    EC_TIES_MVE("q1", "q2", "q4", "r2") \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q2\n"

/* clang-format on */

/* out[o] for all channels of one pixel: as ec_dense_s8_mve, but int16, by the stream above. channels
 * is a multiple of eight. With `added`, results are added to what `out` holds, and limited again.
 *
 * Registers: as there, but that r11 is the factors. */
static EC_KERNEL void ec_dense_s8_s16_mve(int16_t *out, const int8_t *x, const int32_t *stream,
                                          int32_t depth, int32_t channels, int32_t added) {
#if EC_MVE_ASM
    int32_t given[9];
    ec_plan_dense_mve(given, x, depth, 2 * channels - 8, 0, INT16_MIN, INT16_MAX);
    given[4] = (int32_t)(uintptr_t)stream;
    given[7] = added;
    /* clang-format off */
    EC_DENSE_RUN_MVE(out, given, stream + 12,
        EC_DENSE_SUMS_S8_MVE
        EC_DENSE_ANY_SHIFT_MVE
        EC_DENSE_LIMIT_MVE
        "cbz r0, 7f\n"
        "vldrh.s32 q2, [r7]\n"
        "vldrh.s32 q3, [r7, #8]\n"
        "vadd.i32 q0, q0, q2\n"
        "vadd.i32 q1, q1, q3\n"
        EC_DENSE_LIMIT_MVE
        "7:\n"
        "vstrh.32 q0, [r7], #8\n"
        "vstrh.32 q1, [r7], #8\n"
        EC_DENSE_NEXT_MVE("16"));
    /* clang-format on */
#else
    const int32_t slices = (depth + 15) >> 4;
    const int32_t *const factors = stream;
    stream += 12;
    for (int32_t o = 0; o < channels; o += 8) {
        const int32_t *const end = stream + 32 * slices;
        for (int32_t i = 0; i < 8; ++i) {
            const int32_t *const by = factors + (i & 3);
            uint32_t sum = (uint32_t)end[i];
            ec_accumulate_run_s8_mve(&sum, x, (const int8_t *)stream + 16 * i, depth, 128);
            const int32_t share =
                ec_saturate_s16(ec_requantize_tflm((int32_t)sum, by[4], by[0] + by[8]));
            out[o + i] = ec_saturate_s16(share + (added != 0 ? out[o + i] : 0));
        }
        stream = end + 8;
    }
#endif
}

#endif /* EC_MVE_MATRIX_S8_TO_S16_H */
