/* Matrix products of int8 as in matrix_s8.h whose results are int16 without a zero point, by any
 * shift: the gates of recurrent layers.
 *
 * Every four channels have the same factors: a stream begins with these, then it is a stream of
 * ec_matrix_1_s8_dsp without factors. Per channel: M, C, e; the shift of its sum before the product, up
 * (down for the second channel of a pair, whose sum is multiplied by 256); and 31, or 32 if e = 0. A sum
 * shifted down by this last number is the correction for ties of negative results: it is 0 if no second
 * rounding follows.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_TO_S16_H
#define EC_MATRIX_S8_TO_S16_H

#include "edgec/ec_math.h"
#include "kernels/dsp/matrix_s8.h"

/* clang-format off */

/* Assembly: a sum by the words at r7, after a shift; `store` may change the result in r2. */
#define EC_MATRIX_TO_S16(sum, shift, store) \
    "ldmia r7!, {r2-r6}\n" \
    shift " " sum ", " sum ", r5\n" \
    "smmlar r2, " sum ", r2, r3\n" \
    "lsr " sum ", " sum ", r6\n" \
    "sub r2, r2, " sum "\n" \
    "asr r2, r2, r4\n" \
    "ssat r2, #16, r2\n" \
    store \
    "strh r2, [r0], #2\n"

/* Assembly: all four sums. */
#define EC_MATRIX_FOUR_TO_S16(store) \
    EC_MATRIX_TO_S16("r10", "lsl", store) \
    EC_MATRIX_TO_S16("r11", "asr", store) \
    EC_MATRIX_TO_S16("r12", "lsl", store) \
    EC_MATRIX_TO_S16("lr", "asr", store)

/* Assembly: with what is there. */
#define EC_MATRIX_ADD_S16 \
    "ldrsh r3, [r0]\n" \
    "adds r2, r2, r3\n" \
    "ssat r2, #16, r2\n"

/* Four inputs as they are: two pairs, in r2 and r4. */
#define EC_MATRIX_1_PLAIN_QUAD \
    "ldmia r0!, {r2}\n" \
    "sxtb16 r4, r2, ror #8\n" \
    "sxtb16 r2, r2\n"

/* Four inputs as they are, 54 bytes of code; and the loop of them. */
#define EC_MATRIX_1_PLAIN_QUADS \
    EC_MATRIX_1_TOTAL(EC_MATRIX_1_PLAIN_QUAD, "smlad r6, r2, r4, r6\n") \
    "3:\n" \
    ".rept 8\n" \
    EC_MATRIX_1_PLAIN_QUAD \
    EC_MATRIX_1_STEP("r2", "r4") \
    ".endr\n" EC_MATRIX_1_SUMS

/* clang-format on */

/* A sum, shifted already, rescaled by the words at `at` and limited to int16, with `before`. */
static inline EC_UNUSED int16_t ec_rescale_s16_dsp(int32_t sum, const int32_t *at, int32_t before) {
    const int32_t high = (int32_t)(((int64_t)sum * at[0] + (INT64_C(1) << 31)) >> 32);
    const int32_t tie = at[4] > 31 ? 0 : sum >> 31;
    return ec_saturate_s16(ec_saturate_s16((high + tie + at[1]) >> at[2]) + before);
}

/* out[o] for all channels of one pixel: as ec_matrix_1_plain_s8_dsp, but int16, by the stream above.
 * x[4 * quads]; channels is a multiple of four. With `added`, results are added to what `out` holds,
 * and limited again.
 *
 * Registers: as there, but that r2 is four inputs. */
static EC_KERNEL void ec_matrix_1_plain_s8_s16_dsp(int16_t *out, const int8_t *x,
                                                   const int32_t *stream, int32_t quads,
                                                   int32_t channels, int32_t added) {
#if EC_DSP_ASM
    /* As many bytes as lie before the last four results, and four. */
    const int32_t sizes[3] = { quads, 2 * channels - 4, added };
    /* clang-format off */
    EC_MATRIX_RUN_BY(sizes,
        EC_MATRIX_1_BEGIN("28", "2", "54",
            "add r7, r2, r6, lsl #1\n")
        "adds r1, #80\n"
        EC_MATRIX_1_PLAIN_QUADS
        /* The address of the factors, and with 2 added whether results are added. */
        "ldr r7, [sp, #16]\n"
        "lsrs r2, r7, #2\n"
        "bic r7, r7, #3\n"
        "bcs 7f\n"
        EC_MATRIX_FOUR_TO_S16("")
        EC_MATRIX_1_NEXT("8")
        "7:\n"
        EC_MATRIX_FOUR_TO_S16(EC_MATRIX_ADD_S16)
        "b 8b\n"
        "9:\n"
        "add sp, #28\n",
        "r12");
    /* clang-format on */
#else
    const int32_t *const factors = stream;
    int32_t sums[6] = { 0, 0, 0, 0, 0, 0 };
    stream += 20;
    for (int32_t o = 0; o < channels; o += 4) {
        stream = ec_plain_quads_s8_dsp(sums, x, stream, quads);
        for (int32_t i = 0; i < 4; ++i) {
            const int32_t *const by = factors + 5 * i;
            const uint32_t above = (uint32_t)sums[i] - (uint32_t)sums[i & 2];
            const int32_t sum =
                (i & 1) != 0 ? (int32_t)above >> by[3] : (int32_t)((uint32_t)sums[i] << by[3]);
            out[o + i] = ec_rescale_s16_dsp(sum, by, added != 0 ? out[o + i] : 0);
        }
    }
#endif
}

#endif /* EC_MATRIX_S8_TO_S16_H */
