/* Matrix products of int8 by int4 weights that are shifted group by group of inputs, rescaled
 * as in matrix_s8_onnx.h.
 *
 * A step is one to four whole slices of 16 inputs of a row of a window. VMLADAV begins its sums, without
 * an addend; then vector instructions shift the sums and add them to the sums of the steps before. The
 * low halves of bytes are multiplied by 16, the high halves are used in place.
 *
 * A stream has the layout of matrix_s8_int4.h, without the offset in the low halves, and a byte for each
 * channel of the unit after every step: the shift of its sum, up, or down if it is below 0.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_ONNX_GROUPS_H
#define EC_MVE_MATRIX_S8_ONNX_GROUPS_H

#include "kernels/helium/matrix_s8_onnx.h"

/* clang-format off */

/* Assembly: a step: shift its sums and add them to the sums in q4 and q5. `slice` is a slice by an op; the
 * word at `enter` on the stack is the address of the code for the other slices; `shifts` loads the shifts
 * of q0 to q2, and of q1 to `second`. */
#define EC_STEP_GROUPS_MVE(slice, enter, shifts, second) \
    "vmov.i32 q4, #0\n" \
    "vmov.i32 q5, #0\n" \
    "3:\n" \
    slice("vmladav.s8") \
    "ldr pc, [sp, #" enter "]\n" \
    ".rept 3\n" \
    slice("vmladava.s8") \
    ".endr\n" \
    "4:\n" \
    EC_VECTORS_OF_SUMS_MVE \
    shifts \
    "vshl.s32 q0, q0, q2\n" \
    "vshl.s32 q1, q1, " second "\n" \
    "vadd.i32 q4, q4, q0\n" \
    "vadd.i32 q5, q5, q1\n"

/* Assembly: a slice of one pixel by the weights of two channels. */
#define EC_DENSE_PAIR_GROUPS_MVE(low, high, op) \
    "vldrw.32 q1, [r3], #16\n" \
    "vshr.s8 q2, q1, #4\n" \
    "vshl.i8 q1, q1, #4\n" \
    op " " high ", q0, q2\n" \
    op " " low ", q0, q1\n"

/* Assembly: the same by the weights of eight channels, 84 bytes of code; `op` is VMLADAV or VMLADAVA. */
#define EC_DENSE_SLICE_GROUPS_MVE(op) \
    "vldrb.8 q0, [r1], #16\n" \
    EC_DENSE_PAIR_GROUPS_MVE("r0", "r8", op) \
    EC_DENSE_PAIR_GROUPS_MVE("r2", "r10", op) \
    EC_DENSE_PAIR_GROUPS_MVE("r4", "r12", op) \
    EC_DENSE_PAIR_GROUPS_MVE("r6", "lr", op)

/* Assembly: dense up to the sums of eight channels, in q0 and q1, by way of q4 and q5. */
#define EC_DENSE_SUMS_GROUPS_MVE \
    EC_DENSE_BEGIN_MVE("", "", "32", "84", "") \
    EC_STEP_GROUPS_MVE(EC_DENSE_SLICE_GROUPS_MVE, "8", \
        "vldrb.s32 q2, [r3], #4\n" \
        "vldrb.s32 q3, [r3], #4\n", "q3") \
    "subs r5, #1\n" \
    "bne.w 3b\n" \
    "vmov q0, q4\n" \
    "vmov q1, q5\n"

/* Assembly: a slice of two pixels by the weights of two channels. */
#define EC_CONV_PAIR_GROUPS_MVE(low, low2, high, high2, op) \
    "vldrw.32 q2, [r5], #16\n" \
    "vshl.i8 q3, q2, #4\n" \
    "vshr.s8 q2, q2, #4\n" \
    op " " low ", q0, q3\n" \
    op " " low2 ", q1, q3\n" \
    op " " high ", q0, q2\n" \
    op " " high2 ", q1, q2\n"

/* Assembly: the same by the weights of four channels, 64 bytes of code. */
#define EC_CONV_SLICE_GROUPS_MVE(op) \
    "vldrb.8 q0, [r1], #16\n" \
    "vldrb.8 q1, [r3], #16\n" \
    EC_CONV_PAIR_GROUPS_MVE("r0", "r8", "r4", "r12", op) \
    EC_CONV_PAIR_GROUPS_MVE("r2", "r10", "r6", "lr", op)

/* Assembly of the whole convolution; sums of four channels are in q4 and q5. */
#define EC_CONV_GROUPS_MVE(rescale) \
    EC_CONV_BEGIN_MVE("", "32", "64") \
    EC_STEP_GROUPS_MVE(EC_CONV_SLICE_GROUPS_MVE, "36", "vldrb.s32 q2, [r5], #4\n", "q2") \
    EC_CONV_ROUND_MVE \
    "b.w 3b\n" \
    "6:\n" \
    "vmov q0, q4\n" \
    "vmov q1, q5\n" \
    EC_CONV_END_MVE(EC_CONV_STORE_S8_MVE(rescale), "4")

/* clang-format on */

/* Sizes of a dense layer in steps of `slices`, 1 to 4, which divide depth / 16. */
typedef struct {
    int32_t depth, channels, zero_point, minimum, maximum, slices;
} ec_dense_groups_mve_sizes;

/* ec_dense_onnx_s8_mve with the stream that the top of this file describes. */
static EC_KERNEL void ec_dense_groups_onnx_s8_mve(int8_t *out, const int8_t *x,
                                                  const int32_t *stream,
                                                  const ec_dense_groups_mve_sizes *n) {
#if EC_MVE_FLOAT_ASM
    int32_t given[9];
    ec_plan_dense_mve(given, x, n->depth, n->channels, n->zero_point, n->minimum, n->maximum);
    given[1] = n->depth / 16 / n->slices;
    given[8] = n->slices - 1;
    /* clang-format off */
    EC_DENSE_RUN_MVE(out, given, stream,
        EC_DENSE_MVE(EC_DENSE_SUMS_GROUPS_MVE, EC_DENSE_ONNX_MVE));
    /* clang-format on */
#else
    const ec_sums_mve_sizes sums = { 1,
                                     n->depth,
                                     0,
                                     0,
                                     1,
                                     n->channels,
                                     8,
                                     0,
                                     n->slices,
                                     1,
                                     ec_rescale_sum_onnx,
                                     n->zero_point,
                                     n->minimum,
                                     n->maximum };
    ec_s4_c_mve(out, x, stream, &sums);
#endif
}

/* ec_conv_onnx_s8_mve with the stream that the top of this file describes, in steps of `slices`, 1 to
 * 4, which divide kernel_w * in_channels / 16. */
static EC_KERNEL void ec_conv_groups_onnx_s8_mve(int8_t *out, const int8_t *x,
                                                 const int32_t *stream, const ec_conv_mve_sizes *n,
                                                 int32_t slices) {
    const int32_t run = n->kernel_w * n->in_channels;
#if EC_MVE_FLOAT_ASM
    int32_t given[19];
    given[0] = (int32_t)(uintptr_t)out;
    given[10] = (int32_t)(uintptr_t)stream;
    ec_plan_conv_mve(given, x, n, 0, 0);
    given[7] = run / 16 / slices;
    given[8] = n->kernel_h * given[7];
    given[15] = slices - 1;
    /* clang-format off */
    EC_CONV_RUN_MVE(given,
        EC_CONV_GROUPS_MVE(EC_CONV_ONNX_MVE));
    /* clang-format on */
#else
    const ec_sums_mve_sizes sums = {
        n->kernel_h, run,       n->pitch, n->step, n->pixels,           n->channels,
        4,           0,         slices,   1,       ec_rescale_sum_onnx, n->zero_point,
        n->minimum,  n->maximum
    };
    ec_s4_c_mve(out, x, stream, &sums);
#endif
}

#endif /* EC_MVE_MATRIX_S8_ONNX_GROUPS_H */
