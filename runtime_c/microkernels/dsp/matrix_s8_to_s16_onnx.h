/* Matrix products of int8 as in matrix_s8_onnx.h whose results are int16 without a zero point, limited
 * to a range of their own. Streams are those of that file.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_TO_S16_ONNX_H
#define EC_MATRIX_S8_TO_S16_ONNX_H

#include "microkernels/c/store_s16.h"
#include "microkernels/dsp/matrix_s8_onnx.h"

/* The accumulators of a pair, from the two sums, to int16: `at` points at the scale of a. */
static inline EC_UNUSED void ec_store_pair_onnx_s16_dsp(int16_t *to, int32_t sum, int32_t both,
                                                        const int32_t *at, int32_t minimum,
                                                        int32_t maximum) {
    const int32_t above = (int32_t)((uint32_t)both - (uint32_t)sum);
    const int32_t a = ec_requantize_onnx(sum, ec_f32_from_bits((uint32_t)at[0]));
    const int32_t b = ec_requantize_onnx(above, ec_f32_from_bits((uint32_t)at[1]));
    to[0] = ec_limited_s16(a, minimum, maximum);
    to[1] = ec_limited_s16(b, minimum, maximum);
}

/* Two limits of int16 in a word. */
static inline EC_UNUSED int32_t ec_both_limits(int32_t minimum, int32_t maximum) {
    return (int32_t)(((uint32_t)maximum << 16) | (uint16_t)minimum);
}

/* clang-format off */

/* Assembly: x limited to what r3 and r2 hold. */
#define EC_MATRIX_LIMIT_S16 \
    "cmp \\x, r3\n" \
    "it lt\n" \
    "movlt \\x, r3\n" \
    "cmp \\x, r2\n" \
    "it gt\n" \
    "movgt \\x, r2\n"

/* Assembly: results of three pixels, limited; the limits are on the stack behind the bytes of a pixel. */
#define EC_MATRIX_3_ONNX_STORE_S16 \
    EC_MATRIX_3_ONNX \
    "ldrd r4, r3, [sp, #28]\n" \
    "ldr r0, [sp, #16]\n" \
    "asr r2, r3, #16\n" \
    "sxth r3, r3\n" \
    ".irp x, r8, r9, r10, r11, r12, lr\n" \
    EC_MATRIX_LIMIT_S16 \
    ".endr\n" \
    "strh r8, [r0]\n" \
    "strh r9, [r0, r4]\n" \
    "strh r10, [r0, r4, lsl #1]\n" \
    "adds r0, #2\n" \
    "strh r11, [r0]\n" \
    "strh r12, [r0, r4]\n" \
    "strh lr, [r0, r4, lsl #1]\n" \
    "adds r0, #2\n"

/* Assembly: results of four channels, limited, and the end. */
#define EC_MATRIX_1_ONNX_END_S16 \
    "6:\n" \
    EC_MATRIX_1_ONNX \
    "ldr r3, [sp, #24]\n" \
    "asr r2, r3, #16\n" \
    "sxth r3, r3\n" \
    ".irp x, r10, r11, r12, lr\n" \
    EC_MATRIX_LIMIT_S16 \
    "strh \\x, [r0], #2\n" \
    ".endr\n" \
    EC_MATRIX_1_NEXT("8") \
    "9:\n" \
    "add sp, #28\n" \
    "pop {r4-r11, lr}\n"

/* clang-format on */

/* ec_matrix_3_onnx_s8_dsp to int16. */
static EC_KERNEL void ec_matrix_3_onnx_s8_s16_dsp(int16_t *out, const int16_t *x,
                                                  const int32_t *stream, int32_t quads,
                                                  int32_t channels, int32_t minimum,
                                                  int32_t maximum) {
#if EC_DSP_FPU_ASM
    const int32_t sizes[3] = { quads, 2 * channels, ec_both_limits(minimum, maximum) };
    /* clang-format off */
    EC_MATRIX_RUN_BY(sizes,
        EC_MATRIX_BEGIN(
            "subs r7, #2\n" /* the last two results take 4 bytes */
            "str r7, [sp, #24]\n"
            EC_MATRIX_3_SIZE)
        "str r6, [sp, #32]\n"
        "adr.w r7, 6f\n"
        EC_MATRIX_LOOP(EC_MATRIX_3_PAIR, EC_MATRIX_3_FIRST, EC_MATRIX_3_STEP, "12", "92")
        "6:\n"
        "sub r11, r11, r8\n"
        "sub r12, r12, r9\n"
        "sub lr, lr, r10\n"
        EC_MATRIX_3_ONNX_STORE_S16
        EC_MATRIX_NEXT("r0", "2")
        EC_MATRIX_END,
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 2) {
        const int32_t *const end = stream + 2 + 2 * quads;
        const int32_t first = o + 2 > channels ? channels - 2 : o;
        int32_t sums[6];
        ec_pair_sums_3_s8_dsp(sums, x, stream, quads);
        for (int32_t p = 0; p < 3; ++p) {
            ec_store_pair_onnx_s16_dsp(out + p * channels + first, sums[p], sums[3 + p], end,
                                       minimum, maximum);
        }
        stream = end + 2;
    }
#endif
}

/* ec_matrix_1_onnx_s8_dsp to int16. */
static EC_KERNEL void ec_matrix_1_onnx_s8_s16_dsp(int16_t *out, const int16_t *x,
                                                  const int32_t *stream, int32_t octets,
                                                  int32_t channels, int32_t minimum,
                                                  int32_t maximum) {
#if EC_DSP_FPU_ASM
    /* As many bytes as lie before the last four results, and four. */
    const int32_t sizes[3] = { octets, 2 * channels - 4, ec_both_limits(minimum, maximum) };
    /* clang-format off */
    EC_MATRIX_RUN_BY(sizes,
        EC_MATRIX_1_BEGIN("28", "4", "106", EC_MATRIX_1_ONNX_CHOOSE)
        EC_MATRIX_1_OCTETS(EC_MATRIX_1_PACKED)
        EC_MATRIX_1_ONNX_END_S16,
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 4) {
        const int32_t *const end = stream + 4 + 8 * octets;
        int16_t *const to = out + (o + 4 > channels ? channels - 4 : o);
        int32_t sums[4];
        ec_four_sums_s8_dsp(sums, x, stream, octets);
        ec_store_pair_onnx_s16_dsp(to, sums[0], sums[1], end, minimum, maximum);
        ec_store_pair_onnx_s16_dsp(to + 2, sums[2], sums[3], end + 2, minimum, maximum);
        stream = end + 4;
    }
#endif
}

/* ec_matrix_1_plain_onnx_s8_dsp to int16. */
static EC_KERNEL void ec_matrix_1_plain_onnx_s8_s16_dsp(int16_t *out, const int8_t *x,
                                                        const int32_t *stream, int32_t octets,
                                                        int32_t channels, int32_t minimum,
                                                        int32_t maximum) {
#if EC_DSP_FPU_ASM
    const int32_t sizes[3] = { octets, 2 * channels - 4, ec_both_limits(minimum, maximum) };
    /* clang-format off */
    EC_MATRIX_RUN_BY(sizes,
        EC_MATRIX_1_BEGIN("28", "3", "122", EC_MATRIX_1_ONNX_CHOOSE)
        EC_MATRIX_1_OCTETS(EC_MATRIX_1_PLAIN)
        EC_MATRIX_1_ONNX_END_S16,
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    for (int32_t o = 0; o < channels; o += 4) {
        const int32_t *const end = stream + 4 + 8 * octets;
        int16_t *const to = out + (o + 4 > channels ? channels - 4 : o);
        int32_t sums[4];
        ec_four_plain_sums_s8_dsp(sums, x, stream, 2 * octets);
        ec_store_pair_onnx_s16_dsp(to, sums[0], sums[1], end, minimum, maximum);
        ec_store_pair_onnx_s16_dsp(to + 2, sums[2], sums[3], end + 2, minimum, maximum);
        stream = end + 4;
    }
#endif
}

#endif /* EC_MATRIX_S8_TO_S16_ONNX_H */
