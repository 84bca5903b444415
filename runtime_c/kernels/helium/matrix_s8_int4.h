/* Matrix products of int8 as in matrix_s8.h, by int4 weights, two to a byte in the stream.
 *
 * A vector of 16 bytes holds a slice of two channels of a unit: of channel i in the low halves, of
 * channel i + unit / 2 in the high ones. Products are of bytes.
 *
 * Convolution moves both to the high halves, by a shift and a mask, once for the pixels that it computes
 * together: its sums are multiplied by 16, and are shifted down. So it can sum fewer than 2^17 inputs.
 *
 * Dense has a single pixel, and one instruction for both: a byte is 16 * h + l + 8. Its sum is 16 times
 * the sum of h, plus the sum of l, plus 8 times the sum of the inputs, which is the same for all
 * channels; a shift extracts h. So l = byte - 16 * h - 8 holds for sums, too.
 *
 * matrix_s8_onnx_groups.h explains steps, whose weights are shifted.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_S4_H
#define EC_MVE_MATRIX_S8_S4_H

#include "kernels/helium/matrix_s8.h"

/* ec_windows_to_c_mve of int8 by int4 weights. */
static inline EC_INLINE void ec_s4_c_mve(int8_t *out, const int8_t *x, const int32_t *stream,
                                         const ec_sums_mve_sizes *n) {
    const int32_t run = n->run, unit = n->unit, channels = n->channels, slices = n->stored;
    const int32_t half = unit / 2;
    const int32_t below = 15 - ((run - 1) & 15);
    const int32_t steps = slices == 0 ? 0 : run / 16 / slices;
    const int32_t row = (run + below) * half + steps * unit; /* bytes of weights */
    for (int32_t p = 0; p < n->pixels; ++p) {
        const int32_t *at = stream;
        for (int32_t o = 0; o < channels; o += unit) {
            const uint8_t *const weights = (const uint8_t *)at;
            const int32_t *const end = at + n->kernel_h * row / 4;
            const int32_t first = o + unit > channels ? channels - unit : o;
            for (int32_t i = 0; i < unit; ++i) {
                const int32_t flip = i < half ? 8 ^ n->bytes : 8;
                uint32_t sum = (uint32_t)end[i];
                for (int32_t k = 0; k < n->kernel_h * run; ++k) {
                    const int32_t lane = k % run + below;
                    const int32_t value = x[k / run * n->pitch + p * n->step + k % run];
                    const int32_t slice = lane / 16;
                    const int32_t step_of = slices == 0 ? 0 : slice / slices;
                    const uint8_t *const own = weights + k / run * row + step_of * unit;
                    const int32_t both = own[(slice * half + i % half) * 16 + lane % 16];
                    const int32_t bits = i < half ? both & 15 : both >> 4;
                    uint32_t product = (uint32_t)(value * ((bits ^ flip) - 8));
                    if (slices != 0) {
                        const uint32_t up = own[(step_of + 1) * slices * half * 16 + i];
                        product <<= (i < half ? up + 4u : up) & 31u;
                    }
                    sum += product;
                }
                const int32_t result =
                    n->rescale((int32_t)sum, end + unit + i, unit) + n->zero_point;
                const int32_t limited = result < n->minimum   ? n->minimum
                                        : result > n->maximum ? n->maximum
                                                              : result;
                out[p * channels + first + i] = (int8_t)limited;
            }
            at = end + unit * (1 + n->tables);
        }
    }
}

/* clang-format off */

/* Assembly: a slice of inputs by the weights of two channels. */
#define EC_DENSE_PAIR_S4_MVE(low, high, op) \
    "vldrw.32 q1, [r3], #16\n" \
    "vshr.s8 q2, q1, #4\n" \
    op " " low ", q0, q1\n" \
    op " " high ", q0, q2\n"

/* Assembly: the same by the weights of eight channels; `op` is VMLADAV or VMLADAVA. */
#define EC_DENSE_SLICE_S4_MVE(load, op) \
    load " q0, [r1], #16\n" \
    EC_DENSE_PAIR_S4_MVE("r0", "r8", op) \
    EC_DENSE_PAIR_S4_MVE("r2", "r10", op) \
    EC_DENSE_PAIR_S4_MVE("r4", "r12", op) \
    EC_DENSE_PAIR_S4_MVE("r6", "lr", op)

/* Assembly: dense up to the sums of eight channels, in q0 and q1. */
#define EC_DENSE_SUMS_S4_MVE \
    EC_DENSE_SUMS_MVE("ldr lr, [r1, #36]\n", "vctp.8", \
        EC_DENSE_SLICE_S4_MVE("vldrbt.8", "vmladav.s8"), \
        EC_DENSE_SLICE_S4_MVE("vldrb.8", "vmladava.s8")) \
    "ldr r0, [sp, #16]\n" \
    "mvn r2, #15\n" \
    "vmla.s32 q0, q1, r2\n" \
    "vadd.i32 q0, q0, r0\n"

/* Assembly: a slice of inputs of two pixels by the weights of four channels. */
#define EC_CONV_SLICE_S4_MVE(load, op) \
    load " q0, [r1], #16\n" \
    load " q1, [r3], #16\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vldrw.32 q3, [r5], #16\n" \
    "vshl.i8 q4, q2, #4\n" \
    op " r0, q0, q4\n" \
    op " r8, q1, q4\n" \
    "vand q2, q2, q5\n" \
    op " r4, q0, q2\n" \
    op " r12, q1, q2\n" \
    "vshl.i8 q4, q3, #4\n" \
    op " r2, q0, q4\n" \
    op " r10, q1, q4\n" \
    "vand q3, q3, q5\n" \
    op " r6, q0, q3\n" \
    op " lr, q1, q3\n"

/* Assembly: sums of two pixels rescaled with gemmlowp's rounding. */
#define EC_CONV_TFLM_MVE \
    "vldrw.32 q2, [r5], #16\n" \
    "vadd.i32 q0, q0, q2\n" \
    "vadd.i32 q1, q1, q2\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "vqrdmulh.s32 q0, q0, q2\n" \
    "vqrdmulh.s32 q1, q1, q2\n" \
    "vldrw.32 q2, [r5], #16\n" \
    "cbz r7, 7f\n" \
    EC_TIES_MVE("q0", "q2", "q3", "r7") \
    EC_TIES_MVE("q1", "q2", "q3", "r7") \
    "7:\n" \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q2\n"

/* Assembly of the whole convolution; `rescale` turns the sums in q0 and q1 into results. */
#define EC_CONV_S4_MVE(rescale) \
    EC_CONV_WINDOWS_MVE("vmov.i8 q5, #0xF0\n" "vctp.8", "64", \
        EC_CONV_SLICE_S4_MVE("vldrbt.8", "vmladav.s8"), \
        EC_CONV_SLICE_S4_MVE("vldrbt.8", "vmladava.s8"), \
        EC_CONV_SLICE_S4_MVE("vldrb.8", "vmladava.s8"), \
        "vshr.s32 q0, q0, #4\n" \
        "vshr.s32 q1, q1, #4\n" \
        EC_CONV_STORE_S8_MVE(rescale), \
        "4")

/* clang-format on */

/* The sum of this many inputs. */
static inline EC_UNUSED int32_t ec_sum_inputs_s8_mve(const int8_t *x, int32_t inputs) {
    int32_t sum = 0;
#if EC_MVE_ASM
    register int32_t left __asm__("r0") = inputs;
    register int32_t total __asm__("r2") = 0;
    register const int8_t *at __asm__("r1") = x;
    __asm__ volatile(".syntax unified\n"
                     "dlstp.8 lr, r0\n"
                     "1:\n"
                     "vldrb.8 q0, [r1], #16\n"
                     "vaddva.s8 r2, q0\n"
                     "letp lr, 1b\n"
                     : "+r"(left), "+r"(at), "+r"(total)
                     :
                     : "lr", "q0", "cc", "memory");
    sum = total;
#else
    for (int32_t i = 0; i < inputs; ++i) {
        sum += x[i];
    }
#endif
    return sum;
}

/* What the assembly of dense is given. */
static inline EC_UNUSED void ec_plan_dense_s4_mve(int32_t *given, const int8_t *x, int32_t depth,
                                                  int32_t channels, int32_t zero_point,
                                                  int32_t minimum, int32_t maximum) {
    ec_plan_dense_mve(given, x, depth, channels, zero_point, minimum, maximum);
    given[9] = -8 * ec_sum_inputs_s8_mve(x, depth);
}

/* Products of int8 by weights in [-8, 7] with gemmlowp's rounding. Fewer than 2^17 inputs are summed. */
#define EC_OF(name) name##_s4_s8_mve
#define EC_OUT int8_t
#define EC_IN int8_t
#define EC_MOVED int32_t zero_point,
#define EC_BY zero_point
#define EC_ASM EC_MVE_ASM
#define EC_PLAN ec_plan_dense_s4_mve
#define EC_DENSE_CODE EC_DENSE_MVE(EC_DENSE_SUMS_S4_MVE, EC_DENSE_TFLM_MVE)
#define EC_CONV_RUN EC_CONV_GIVEN_MVE(EC_CONV_S4_MVE(EC_CONV_TFLM_MVE), 0, 0)
#define EC_SUMS_C ec_s4_c_mve
#define EC_DENSE_FORM 8, 8, 0, 2, ec_rescale_sum_tflm
#define EC_CONV_FORM 4, 0, 0, 2, ec_rescale_sum_tflm
#include "kernels/helium/matrix.inc"

#endif /* EC_MVE_MATRIX_S8_S4_H */
