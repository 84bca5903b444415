/* Matrix products of int8 as in matrix_s8_onnx.h whose results are int16 without a zero point, limited
 * to a range of their own. Streams are those of that file.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_S8_TO_S16_ONNX_H
#define EC_MATRIX_S8_TO_S16_ONNX_H

#include "kernels/dsp/matrix_s8_onnx.h"

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
#define EC_MATRIX_3_STORE_S16 \
    "ldrd r4, r3, [sp, #28]\n" \
    "ldr r0, [sp, #16]\n" \
    "asr r2, r3, #16\n" \
    "sxth r3, r3\n" \
    ".irp x, r8, r9, r10, r11, r12, lr\n" \
    EC_MATRIX_LIMIT_S16 \
    ".endr\n" \
    EC_MATRIX_3_STORE("strh", "r4", "2")

/* Assembly: results of four channels, limited. */
#define EC_MATRIX_1_STORE_S16 \
    "ldr r3, [sp, #24]\n" \
    "asr r2, r3, #16\n" \
    "sxth r3, r3\n" \
    ".irp x, r10, r11, r12, lr\n" \
    EC_MATRIX_LIMIT_S16 \
    "strh \\x, [r0], #2\n" \
    ".endr\n"

/* One pixel, all of it, by inputs that `load` gives; octet, bytes: as in EC_MATRIX_1_BEGIN. Sizes are as
 * many bytes as lie before the last four results, and four. */
#define EC_MATRIX_1_TO_S16_ONNX(octet, bytes, load) \
    const int32_t sizes[3] = { octets, 2 * channels - 4, ec_both_limits(minimum, maximum) }; \
    EC_MATRIX_RUN_BY(sizes, \
        EC_MATRIX_1_BEGIN("28", octet, bytes, EC_MATRIX_1_ONNX_CHOOSE) \
        EC_MATRIX_1_OCTETS(load) \
        EC_MATRIX_1_ONNX_END("28", EC_MATRIX_1_STORE_S16, "8"), \
        EC_MATRIX_FLOATS)

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
        EC_MATRIX_3_ONNX_SUMS(
            "subs r7, #2\n" /* the last two results take 4 bytes */
            "str r7, [sp, #24]\n")
        EC_MATRIX_3_STORE_S16
        EC_MATRIX_NEXT("r0", "2")
        EC_MATRIX_END,
        EC_MATRIX_FLOATS);
    /* clang-format on */
#else
    const int32_t limits[2] = { minimum, maximum };
    ec_matrix_c_dsp(out, 2, x, stream, quads, channels, 2, ec_pair_sums_3_s8_dsp, ec_store_onnx_dsp,
                    limits);
#endif
}

/* ec_matrix_1_onnx_s8_dsp to int16. */
static EC_KERNEL void ec_matrix_1_onnx_s8_s16_dsp(int16_t *out, const int16_t *x,
                                                  const int32_t *stream, int32_t octets,
                                                  int32_t channels, int32_t minimum,
                                                  int32_t maximum) {
#if EC_DSP_FPU_ASM
    EC_MATRIX_1_TO_S16_ONNX("4", "106", EC_MATRIX_1_PACKED);
#else
    const int32_t limits[2] = { minimum, maximum };
    ec_matrix_c_dsp(out, 2, x, stream, octets, channels, 4, ec_four_sums_s8_dsp, ec_store_onnx_dsp,
                    limits);
#endif
}

/* ec_matrix_1_plain_onnx_s8_dsp to int16. */
static EC_KERNEL void ec_matrix_1_plain_onnx_s8_s16_dsp(int16_t *out, const int8_t *x,
                                                        const int32_t *stream, int32_t octets,
                                                        int32_t channels, int32_t minimum,
                                                        int32_t maximum) {
#if EC_DSP_FPU_ASM
    EC_MATRIX_1_TO_S16_ONNX("3", "122", EC_MATRIX_1_PLAIN);
#else
    const int32_t limits[2] = { minimum, maximum };
    ec_matrix_c_dsp(out, 2, x, stream, octets, channels, 4, ec_four_plain_sums_s8_dsp,
                    ec_store_onnx_dsp, limits);
#endif
}

#endif /* EC_MATRIX_S8_TO_S16_ONNX_H */
