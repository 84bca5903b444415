/* Vectors of 64-bit Arm for kernels of int8: how sums become results, and parts of vectors.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_BASE_S8_H
#define EC_AARCH64_BASE_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/rescale_sums.h"

/* EC_NEON: whether there are vectors, of four sums (EC_V4) and of sixteen int8 (EC_B16). */
#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__) && !defined(__ARM_BIG_ENDIAN)
#include <arm_neon.h>
#define EC_NEON 1
#define EC_V4 int32x4_t
#define EC_B16 int8x16_t
#else
#define EC_NEON 0
#define EC_V4 int32_t
#define EC_B16 int8_t
#endif

/* Whether they have products of four int8. */
#if defined(__ARM_FEATURE_DOTPROD)
#define EC_DOTPROD EC_NEON
#else
#define EC_DOTPROD 0
#endif

/* Whether they have products of matrices of int8, two rows of eight by two of eight. */
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define EC_I8MM EC_NEON
#else
#define EC_I8MM 0
#endif

/* EC_ROUND_TFLM where negative results are limited to -128, whichever way they are rounded, and nothing
 * else is limited. */
#define EC_ROUND_TFLM_RELU 3

/* A sum of a channel in C: rescaled by its constants, `lanes` words apart, moved and limited. */
static inline EC_UNUSED int8_t ec_result_c_64(uint32_t sum, const int32_t *scales, int32_t lanes,
                                              int32_t rounding, const int32_t *limits) {
    int32_t value;
    if (rounding == EC_ROUND_ONNX) {
        value = ec_rescale_sum_onnx((int32_t)sum, scales, lanes);
    } else if (rounding != EC_ROUND_SINGLE) {
        value = ec_requantize_tflm_right((int32_t)sum, scales[0], scales[lanes]);
    } else {
        value = ec_requantize_single((int32_t)sum, scales[0], scales[lanes]);
    }
    value += limits[0];
    return (int8_t)(value < limits[1] ? limits[1] : value > limits[2] ? limits[2] : value);
}

/* Four sums, rescaled by the constants of their channels, `lanes` words apart. SQRDMULH is gemmlowp's
 * high product; SRSHL rounds halves up, so negative numbers are one less before it. */
static inline EC_INLINE EC_V4 ec_rescale_neon(EC_V4 sums, const int32_t *scales, int32_t lanes,
                                              int32_t rounding) {
#if EC_NEON
    const int32x4_t scale = vld1q_s32(scales);
    if (rounding == EC_ROUND_ONNX) {
        return vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(sums), vreinterpretq_f32_s32(scale)));
    } else {
        const int32x4_t up = vld1q_s32(scales + lanes);
        if (rounding == EC_ROUND_TFLM_RELU) {
            return vrshlq_s32(vqrdmulhq_s32(sums, scale), up);
        } else if (rounding == EC_ROUND_TFLM) {
            const int32x4_t high = vqrdmulhq_s32(sums, scale);
            return vrshlq_s32(vsraq_n_s32(high, vandq_s32(high, up), 31), up);
        } else {
            const int64x2_t low = vmull_s32(vget_low_s32(sums), vget_low_s32(scale));
            const int64x2_t high = vmull_high_s32(sums, scale);
            const int32x4_t all = vsubq_s32(up, vdupq_n_s32(31));
            return vuzp1q_s32(vreinterpretq_s32_s64(vrshlq_s64(low, vmovl_s32(vget_low_s32(all)))),
                              vreinterpretq_s32_s64(vrshlq_s64(high, vmovl_high_s32(all))));
        }
    }
#else
    (void)scales, (void)lanes, (void)rounding;
    return sums;
#endif
}

/* Sixteen rescaled sums as int8: moved by limits[0], and limited. */
static inline EC_INLINE EC_B16 ec_narrow_neon(EC_V4 a, EC_V4 b, EC_V4 c, EC_V4 d,
                                              const int32_t *limits, int32_t rounding) {
#if EC_NEON
    const int16x8_t zero_point = vdupq_n_s16((int16_t)limits[0]);
    const int16x8_t low = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(a), b), zero_point);
    const int16x8_t high = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(c), d), zero_point);
    const int8x16_t both = vqmovn_high_s16(vqmovn_s16(low), high);
    if (rounding == EC_ROUND_TFLM_RELU) {
        return both;
    }
    return vminq_s8(vmaxq_s8(both, vdupq_n_s8((int8_t)limits[1])), vdupq_n_s8((int8_t)limits[2]));
#else
    (void)a, (void)b, (void)c, (void)d, (void)limits, (void)rounding;
    return 0;
#endif
}

/* The first `left` bytes, or all sixteen, to p. */
static inline EC_INLINE void ec_store_neon(int8_t *p, EC_B16 bytes, int32_t left) {
#if EC_NEON
    if (left >= 16) {
        vst1q_s8(p, bytes);
    } else {
        int8_t all[16];
        if (left >= 8) {
            vst1_s8(p, vget_low_s8(bytes));
        }
        vst1q_s8(all, bytes);
        for (int32_t i = left & ~7; i < left; ++i) {
            p[i] = all[i];
        }
    }
#else
    (void)p, (void)bytes, (void)left;
#endif
}

/* `left` bytes at p, or sixteen. */
static inline EC_INLINE EC_B16 ec_load_neon(const int8_t *p, int32_t left) {
#if EC_NEON
    int8_t all[16] = { 0 };
    if (left >= 16) {
        return vld1q_s8(p);
    }
    if (left == 8) {
        return vcombine_s8(vld1_s8(p), vdup_n_s8(0));
    }
    EC_COPY(all, p, (size_t)left);
    return vld1q_s8(all);
#else
    (void)left;
    return *p;
#endif
}

/* Four bytes at p, in the lowest ones. */
static inline EC_INLINE EC_B16 ec_load_four_neon(const int8_t *p) {
#if EC_NEON
    const int32x4_t four = { ec_load_word(p), 0, 0, 0 };
    return vreinterpretq_s8_s32(four);
#else
    return *p;
#endif
}

#endif /* EC_AARCH64_BASE_S8_H */
