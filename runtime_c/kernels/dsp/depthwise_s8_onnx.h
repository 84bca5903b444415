/* Depthwise 3x3 convolutions of int8 as in depthwise_s8.h, rescaled as ONNX Runtime does: the
 * accumulator as float32, times a float32, rounded half to even. In a stream the last two words of
 * a channel are the bias times 256, and a 256th of its scale: sums come as 256 times themselves,
 * and powers of two change no rounding.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_DEPTHWISE_S8_ONNX_H
#define EC_DEPTHWISE_S8_ONNX_H

#include "kernels/dsp/depthwise_s8.h"

/* clang-format off */

/* Assembly: four sums rescaled; s0 is the scale. */
#define EC_DEPTHWISE_3X3_FOUR_ONNX \
    "vmov s2, s3, r9, r10\n" \
    "vmov s4, s5, r11, r12\n" \
    ".irp x, s2, s3, s4, s5\n" \
    "vcvt.f32.s32 \\x, \\x\n" \
    "vmul.f32 \\x, \\x, s0\n" \
    "vcvtr.s32.f32 \\x, \\x\n" \
    ".endr\n" \
    "vmov r9, r10, s2, s3\n" \
    "vmov r11, r12, s4, s5\n"

/* Assembly: two sums rescaled. */
#define EC_DEPTHWISE_3X3_TWO_ONNX \
    "vmov s2, s3, r9, r10\n" \
    ".irp x, s2, s3\n" \
    "vcvt.f32.s32 \\x, \\x\n" \
    "vmul.f32 \\x, \\x, s0\n" \
    "vcvtr.s32.f32 \\x, \\x\n" \
    ".endr\n" \
    "vmov r9, r10, s2, s3\n"

/* Assembly: rescaled sums in registers to int8. */
#define EC_DEPTHWISE_3X3_TO_S8(sums) \
    "ldr r2, [sp, #24]\n" \
    ".irp x, " sums "\n" \
    "add \\x, \\x, r2\n" \
    "ssat \\x, #8, \\x\n" \
    ".endr\n"

/* The whole kernel, for results of `bytes` each: `keep` saves `ends`, in r12, on the stack, `four` and
 * `two` convert rescaled sums to results, and `store` stores a result. */
#define EC_DEPTHWISE_3X3_ONNX_DSP(bytes, keep, four, two, store) \
    register void *r0 __asm__("r0") = out; \
    register const int16_t *r1 __asm__("r1") = plane; \
    register const int32_t *r2 __asm__("r2") = stream; \
    register int32_t r3 __asm__("r3") = height; \
    register int32_t r4 __asm__("r4") = width; \
    register int32_t r5 __asm__("r5") = (bytes) * channels; \
    register int32_t r6 __asm__("r6") = (bytes) * channels * out_width; \
    register int32_t r12 __asm__("r12") = ends; \
    __asm__ volatile( \
        ".syntax unified\n" \
        EC_DEPTHWISE_3X3_BEGIN \
        "strd r9, r9, [sp, #16]\n" \
        keep \
        "vmov s0, r10\n" \
        EC_DEPTHWISE_3X3_COLUMNS("", EC_DEPTHWISE_3X3_FOUR_ONNX four, \
                                 EC_DEPTHWISE_3X3_TWO_ONNX two, store) \
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r12) \
        : \
        : "s0", "s1", "s2", "s3", "s4", "s5", "cc", "memory")

/* clang-format on */

/* Bytes of a result, number and distances of the outputs, and the parameter of `store`. */
typedef struct {
    int32_t bytes, height, width, out_width, channels, ends;
} ec_depthwise_3x3_c_sizes;

/* The same in C; `store` stores a rescaled sum, by `ends`. */
static inline EC_INLINE void
ec_depthwise_3x3_onnx_c_dsp(void *out, const int16_t *plane, const int32_t *stream,
                            const ec_depthwise_3x3_c_sizes *n,
                            void (*store)(void *, int32_t, float, int32_t)) {
    const float scale = ec_f32_from_bits((uint32_t)stream[4]);
    const int32_t step = n->bytes * n->out_width * n->channels;
    int32_t weights[6];
    ec_depthwise_weights_s8_dsp(weights, stream);
    for (int32_t w = 0; w < n->width; ++w) {
        const int16_t *x = plane + w * 32;
        int8_t *at = (int8_t *)out + n->bytes * w * n->channels;
        for (int32_t h = 0; h < n->height; h += 2, x += 2, at += 2 * step) {
            int32_t sums[2];
            if (h == n->height - 1) { /* an odd one, with the one above it */
                x -= 1;
                at -= step;
            }
            ec_depthwise_two_sums_s8_dsp(sums, x, weights, stream[3]);
            store(at, sums[0], scale, n->ends);
            store(at + step, sums[1], scale, n->ends);
        }
    }
}

/* A sum rescaled plus a zero point, stored as int8. */
static inline EC_UNUSED void ec_store_sum_onnx_s8_dsp(void *to, int32_t sum, float scale,
                                                      int32_t zero_point) {
    *(int8_t *)to = ec_requantize_onnx_s8(sum, scale, zero_point);
}

/* ec_depthwise_3x3_s8_dsp with ONNX Runtime's rounding; ends: the zero point, any. */
static EC_KERNEL void ec_depthwise_3x3_onnx_s8_dsp(int8_t *out, const int16_t *plane,
                                                   const int32_t *stream, int32_t height,
                                                   int32_t width, int32_t out_width,
                                                   int32_t channels, int32_t ends) {
#if EC_DSP_FPU_ASM
    EC_DEPTHWISE_3X3_ONNX_DSP(1, "str r12, [sp, #24]\n",
                              EC_DEPTHWISE_3X3_TO_S8("r9, r10, r11, r12"),
                              EC_DEPTHWISE_3X3_TO_S8("r9, r10"), "strb");
#else
    const ec_depthwise_3x3_c_sizes n = { 1, height, width, out_width, channels, ends };
    ec_depthwise_3x3_onnx_c_dsp(out, plane, stream, &n, ec_store_sum_onnx_s8_dsp);
#endif
}

#endif /* EC_DEPTHWISE_S8_ONNX_H */
