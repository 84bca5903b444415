/* Matrix products of int16 inputs and int8 weights on MVE, as in matrix_s8.h: int16x8.
 *
 * A slice is eight inputs; loading weights extends them to int16. In a stream a unit of channels is
 * their weights, eight of each channel in turn, then biases, multipliers M * 2^15 and -e, by which
 * ec_requantize_tflm16_high rescales: VMULH, VRSHL.
 *
 * Sums of 64 bits, and factors that are not as small as these, are for one pixel by four channels at
 * a time; their streams are in the order of dsp/matrix_s16.h.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S16_H
#define EC_MVE_MATRIX_S16_H

#include "edgec/ec_fixed_point.h"
#include "kernels/common/store_s16.h"
#include "kernels/helium/matrix_s8.h"

/* clang-format off */

/* Assembly: eight sums rescaled. */
#define EC_DENSE_RESCALE_S16_MVE \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vadd.i32 q0, q0, q2\n" \
    "vadd.i32 q1, q1, q3\n" \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vmulh.s32 q0, q0, q2\n" \
    "vmulh.s32 q1, q1, q3\n" \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q3\n"

/* Assembly: dense up to the sums of eight channels. */
#define EC_DENSE_SUMS_S16_MVE \
    EC_DENSE_SUMS_MVE("", "vctp.16", \
        EC_DENSE_SLICE_MVE("vldrht.u16", "vldrb.s16", "8", "vmladav.s16"), \
        EC_DENSE_SLICE_MVE("vldrh.u16", "vldrb.s16", "8", "vmladava.s16"))

/* Assembly: sums of two pixels rescaled. */
#define EC_CONV_RESCALE_S16_MVE \
    "vldrw.32 q2, [r5], #16\n" \
    "vadd.i32 q0, q0, q2\n" \
    "vadd.i32 q1, q1, q2\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vmulh.s32 q0, q0, q2\n" \
    "vmulh.s32 q1, q1, q2\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q2\n"

/* Assembly: convolution, all of it. */
#define EC_CONV_S16_MVE(store, bytes) \
    EC_CONV_WINDOWS_MVE("vctp.16", "56", \
        EC_CONV_SLICE_MVE("vldrht.u16", "vldrb.s16", "8", "vmladav.s16"), \
        EC_CONV_SLICE_MVE("vldrht.u16", "vldrb.s16", "8", "vmladava.s16"), \
        EC_CONV_SLICE_MVE("vldrh.u16", "vldrb.s16", "8", "vmladava.s16"), \
        store, \
        bytes)

/* clang-format on */

/* *sum + the products of a run of inputs and its weights, `step` bytes from slice to slice. */
static inline EC_UNUSED void ec_accumulate_run_s16_mve(int64_t *sum, const int16_t *x,
                                                       const int8_t *weights, int32_t inputs,
                                                       int32_t step) {
    const int32_t below = 7 - ((inputs - 1) & 7);
    for (int32_t i = 0; i < inputs; ++i) {
        const int32_t lane = i + below;
        const int32_t product = x[i] * weights[(lane >> 3) * step + (lane & 7)];
        *sum = (int64_t)((uint64_t)*sum + (uint64_t)product);
    }
}

/* Assembly: the whole convolution of int16. */
#define EC_CONV_S16_S16_MVE EC_CONV_S16_MVE(EC_CONV_STORE_S16_MVE(EC_CONV_RESCALE_S16_MVE), "8")

/* Products of int16 to int16; x is aligned to 2 bytes. */
#define EC_OF(name) name##_s16_mve
#define EC_OUT int16_t
#define EC_IN int16_t
#define EC_MOVED
#define EC_BY 0
#define EC_ASM EC_MVE_ASM
#define EC_PLAN ec_plan_dense_mve
#define EC_DENSE_CODE EC_DENSE_TO_S16_MVE(EC_DENSE_SUMS_S16_MVE, EC_DENSE_RESCALE_S16_MVE)
#define EC_CONV_RUN EC_CONV_GIVEN_MVE(EC_CONV_S16_S16_MVE, 1, 1)
#define EC_SUMS_C ec_windows_to_c_mve
#define EC_DENSE_FORM 8, 2, 2, 2, ec_rescale_sum_s16
#define EC_CONV_FORM 4, 2, 2, 2, ec_rescale_sum_s16
#include "kernels/helium/matrix.inc"

/* Assembly: the same to int8. */
#define EC_CONV_S16_S8_MVE EC_CONV_S16_MVE(EC_CONV_STORE_S8_MVE(EC_CONV_RESCALE_S16_MVE), "4")

/* The same to int8: the rescaled sum plus a zero point. */
#define EC_OF(name) name##_s16_s8_mve
#define EC_OUT int8_t
#define EC_IN int16_t
#define EC_MOVED int32_t zero_point,
#define EC_BY zero_point
#define EC_ASM EC_MVE_ASM
#define EC_PLAN ec_plan_dense_mve
#define EC_DENSE_CODE EC_DENSE_MVE(EC_DENSE_SUMS_S16_MVE, EC_DENSE_RESCALE_S16_MVE)
#define EC_CONV_RUN EC_CONV_GIVEN_MVE(EC_CONV_S16_S8_MVE, 0, 1)
#define EC_SUMS_C ec_windows_to_c_mve
#define EC_DENSE_FORM 8, 2, 1, 2, ec_rescale_sum_s16
#define EC_CONV_FORM 4, 2, 1, 2, ec_rescale_sum_s16
#include "kernels/helium/matrix.inc"

/* The products of `inputs` by four channels of weights, added to sums; slices as in a stream.
 *
 * Registers: r0 x, r1 weights, r2 slices, r3 sums, r4-r11 sums, lr slices left. */
static inline EC_UNUSED void ec_four_sums_s64_mve(int64_t *sums, const int16_t *x,
                                                  const int32_t *weights, int32_t inputs) {
#if EC_MVE_ASM
    const int32_t whole = (inputs - 1) >> 3;
    const int32_t below = 8 * (whole + 1) - inputs;
    register uintptr_t r0 __asm__("r0") = (uintptr_t)x - 2u * (uintptr_t)below;
    register const int32_t *r1 __asm__("r1") = weights;
    register int32_t r2 __asm__("r2") = whole + 1;
    register int64_t *r3 __asm__("r3") = sums;
    register int32_t r12 __asm__("r12") = below;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r4-r11, lr}\n"
        "ldm r3, {r4-r11}\n"
        "vctp.16 r12\n"
        "vpnot\n"
        "vpst\n"
        "vldrht.u16 q0, [r0], #16\n"
        "dls lr, r2\n"
        "b 2f\n"
        "1:\n"
        "vldrh.u16 q0, [r0], #16\n"
        "2:\n"
        "vldrb.s16 q1, [r1], #8\n"
        "vmlaldava.s16 r4, r5, q0, q1\n"
        "vldrb.s16 q1, [r1], #8\n"
        "vmlaldava.s16 r6, r7, q0, q1\n"
        "vldrb.s16 q1, [r1], #8\n"
        "vmlaldava.s16 r8, r9, q0, q1\n"
        "vldrb.s16 q1, [r1], #8\n"
        "vmlaldava.s16 r10, r11, q0, q1\n"
        "le lr, 1b\n"
        "stm r3, {r4-r11}\n"
        "pop {r4-r11, lr}\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r12)
        :
        : "q0", "q1", "cc", "memory");
    /* clang-format on */
#else
    for (int32_t i = 0; i < 4; ++i) {
        ec_accumulate_run_s16_mve(sums + i, x, (const int8_t *)weights + 8 * i, inputs, 32);
    }
#endif
}

/* As ec_matrix_1_s16_to_any_dsp, of any number of inputs, x aligned to 2; weights are in slices. With
 * `wide` of 1, not 0, as ec_matrix_1_s16_to_s64_dsp. */
static inline EC_INLINE void ec_matrix_1_s16_to_any_mve(void *out, int32_t bytes, const int16_t *x,
                                                        const int32_t *stream, int32_t wide,
                                                        int32_t inputs,
                                                        const ec_matrix_s16_sizes *n) {
    /* Here: for a compiler, results may lie over what n points to. */
    const int32_t channels = n->channels;
    const int32_t zero_point = n->zero_point;
    const int32_t minimum = n->minimum;
    const int32_t maximum = n->maximum;
    const int32_t biases = 4 + 4 * wide;
    const int32_t words = biases + 8 * ((inputs + 7) >> 3);
    for (int32_t o = 0; o < channels; o += 4, stream += 8 + words) {
        void *const to = ec_element(out, bytes, o + 4 > channels ? channels - 4 : o);
        int64_t sums[4];
        if (wide != 0) {
            ec_load_four_s64(sums, stream);
        } else {
            for (int32_t i = 0; i < 4; ++i) {
                sums[i] = stream[i];
            }
        }
        ec_four_sums_s64_mve(sums, x, stream + biases, inputs);
        for (int32_t i = 0; i < 4 && wide == 0; ++i) {
            sums[i] = (int32_t)(uint32_t)(uint64_t)sums[i];
        }
        ec_store_four_s16(to, bytes, sums, stream + words, zero_point, minimum, maximum);
    }
}

/* As ec_matrix_1_s16_any_dsp, of any number of inputs, x aligned to 2; weights are in slices. */
static EC_KERNEL void ec_matrix_1_s16_any_mve(int16_t *out, const int16_t *x, const int32_t *stream,
                                              const ec_matrix_s16_sizes *n) {
    ec_matrix_1_s16_to_any_mve(out, 2, x, stream, 0, n->kernel_h * n->kernel_w * n->in_channels, n);
}

/* The same with sums and biases of 64 bits, the lower word of a bias first. */
static EC_KERNEL void ec_matrix_1_s16_s64_mve(int16_t *out, const int16_t *x, const int32_t *stream,
                                              const ec_matrix_s16_sizes *n) {
    ec_matrix_1_s16_to_any_mve(out, 2, x, stream, 1, n->kernel_h * n->kernel_w * n->in_channels, n);
}

/* ec_matrix_1_s16_any_mve to int8: the rescaled sum plus a zero point. */
static EC_KERNEL void ec_matrix_1_s16_s8_any_mve(int8_t *out, const int16_t *x,
                                                 const int32_t *stream,
                                                 const ec_matrix_s16_sizes *n) {
    ec_matrix_1_s16_to_any_mve(out, 1, x, stream, 0, n->kernel_h * n->kernel_w * n->in_channels, n);
}

/* The same with sums and biases of 64 bits, the lower word of a bias first. */
static EC_KERNEL void ec_matrix_1_s16_s8_s64_mve(int8_t *out, const int16_t *x,
                                                 const int32_t *stream,
                                                 const ec_matrix_s16_sizes *n) {
    ec_matrix_1_s16_to_any_mve(out, 1, x, stream, 1, n->kernel_h * n->kernel_w * n->in_channels, n);
}

#endif /* EC_MVE_MATRIX_S16_H */
