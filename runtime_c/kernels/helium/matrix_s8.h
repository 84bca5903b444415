/* Matrix products of int8 for the vectors of Armv8.1-M (MVE): convolutions and dense.
 *
 * VMLADAVA multiplies 16 pairs of int8 and adds all products to a general register with an even number,
 * so there are at most eight sums: two pixels of four channels, or one pixel of eight.
 *
 * Inputs are loaded in slices of 16, as they lie in memory. If the length of a run of inputs is no
 * multiple of 16, the first slice begins below the run, and a predicate masks the bytes before the run;
 * so all later loads can step by 16.
 *
 * A stream holds all constants in the order of use. Per unit of channels (four or eight): the
 * weights, 16 of each channel in turn, for every slice of every run; then, as words, bias,
 * multiplier M and shift of each. The last unit overlaps the one before where the channels are no
 * whole number of units. With gemmlowp's rounding the biases are before the weights, and
 * shifts of units of four are bytes.
 *
 * Rescaling an accumulator x by M * 2^(shift - 31), shift <= 0, with gemmlowp's double rounding:
 * VQRDMULH(x, M), minus one if that is negative and shift < 0 (ties away from zero), shifted by VRSHL.
 * If the zero point is the lower limit, the minus one has no effect.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_MATRIX_S8_H
#define EC_MVE_MATRIX_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/rescale_sums.h"
#include "kernels/helium/conv_tflm.h"

/* Divide a run of `bytes` inputs into slices: cut[0] lanes of the first slice lie below the run, cut[1]
 * whole slices follow it; a loop of four slices runs cut[2] times, the first time only its last cut[3]
 * slices. */
static inline EC_UNUSED void ec_cut_slices_mve(int32_t *cut, int32_t bytes) {
    const int32_t whole = (bytes - 1) >> 4;
    cut[0] = 16 * (whole + 1) - bytes;
    cut[1] = whole;
    cut[2] = (whole + 3) >> 2;
    cut[3] = whole == 0 ? 0 : whole - 4 * (cut[2] - 1);
}

/* *sum + the products of a run of inputs and its weights, `step` bytes from slice to slice. */
static inline EC_UNUSED void ec_accumulate_run_s8_mve(uint32_t *sum, const int8_t *x,
                                                      const int8_t *weights, int32_t bytes,
                                                      int32_t step) {
    const int32_t below = 15 - ((bytes - 1) & 15);
    for (int32_t i = 0; i < bytes; ++i) {
        const int32_t lane = i + below;
        *sum += (uint32_t)(x[i] * weights[(lane >> 4) * step + (lane & 15)]);
    }
}

/* The sizes of sums in C: rows of `run` inputs of a window; units of channels; the sum over kh, i < run
 * of x[kh * pitch + p * step + i] * w[o][kh][i] + bias[o], rescaled by `tables` constants of a channel.
 * int8 weights: `bytes` of an input and `stored` bytes of a result, each 1 or 2. int4 weights: bytes is 8
 * if 8 was added to the weights in the low halves, else 0; stored: slices of a step, 0 without steps. */
typedef struct {
    int32_t kernel_h, run, pitch, step, pixels, channels, unit, bytes, stored, tables;
    int32_t (*rescale)(int32_t, const int32_t *, int32_t);
    int32_t zero_point, minimum, maximum;
} ec_sums_mve_sizes;

/* Products in C, for all units of channels and all pixels. */
static inline EC_INLINE void ec_windows_to_c_mve(void *out, const void *x, const int32_t *stream,
                                                 const ec_sums_mve_sizes *n) {
    const int32_t run = n->run, bytes = n->bytes, unit = n->unit, channels = n->channels;
    const int32_t lanes = 16 / bytes;
    const int32_t below = lanes - 1 - ((run - 1) & (lanes - 1));
    const int32_t row = (run + below) * unit; /* bytes of weights */
    for (int32_t p = 0; p < n->pixels; ++p) {
        const int32_t *at = stream;
        for (int32_t o = 0; o < channels; o += unit) {
            /* Biases stand before the weights where assembly takes them so; shifts of units of four
             * or two are bytes then, in one word. */
            const int32_t ahead = bytes == 1 && n->stored == 1 && n->tables == 2;
            const int32_t has_bytes = ahead != 0 && unit <= 4;
            const int8_t *const weights = (const int8_t *)(at + unit * ahead);
            const int32_t *const end = at + unit * ahead + n->kernel_h * row / 4;
            const int32_t *const bias = ahead != 0 ? at : end;
            const int32_t *const tables = ahead != 0 ? end : end + unit;
            const int32_t first = o + unit > channels ? channels - unit : o;
            for (int32_t i = 0; i < unit; ++i) {
                uint32_t sum = (uint32_t)bias[i];
                for (int32_t k = 0; k < n->kernel_h * run; ++k) {
                    const int32_t lane = k % run + below;
                    const int32_t from = k / run * n->pitch + p * n->step + k % run;
                    const int32_t value =
                        bytes == 1 ? ((const int8_t *)x)[from] : ((const int16_t *)x)[from];
                    const int32_t slice = lane / lanes * unit + i;
                    sum +=
                        (uint32_t)(value * weights[k / run * row + slice * lanes + lane % lanes]);
                }
                const int32_t shift = has_bytes != 0   ? ((const int8_t *)(tables + unit))[i]
                                      : n->tables == 2 ? tables[unit + i]
                                                       : 0;
                const int32_t factors[2] = { tables[i], shift };
                const int32_t result = n->rescale((int32_t)sum, factors, 1) + n->zero_point;
                const int32_t limited = result < n->minimum   ? n->minimum
                                        : result > n->maximum ? n->maximum
                                                              : result;
                if (n->stored == 1) {
                    ((int8_t *)out)[p * channels + first + i] = (int8_t)limited;
                } else {
                    ((int16_t *)out)[p * channels + first + i] = (int16_t)limited;
                }
            }
            at = has_bytes != 0 ? tables + unit + 1 : tables + unit * n->tables;
        }
    }
}

/* clang-format off */

/* Runs the assembly `code` of dense with out, `given` and the stream in r0, r1 and r3. */
#define EC_DENSE_RUN_MVE(out, given, stream, code) \
    register void *r0 __asm__("r0") = (out); \
    register const int32_t *r1 __asm__("r1") = (given); \
    register const int32_t *r3 __asm__("r3") = (stream); \
    __asm__ volatile(".syntax unified\n" code \
                     : "+r"(r0), "+r"(r1), "+r"(r3) \
                     : \
                     : "r2", "r12", "q0", "q1", "q2", "q3", "cc", "memory")

/* The same of convolutions, with what is given in r0. */
#define EC_CONV_RUN_MVE(given, code) \
    register const int32_t *r0 __asm__("r0") = (given); \
    __asm__ volatile(".syntax unified\n" code \
                     : "+r"(r0) \
                     : \
                     : "r1", "r2", "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory")

/* Assembly: a slice of inputs by the weights of eight channels; `fetch` loads the weights of a channel, so
 * many bytes; `op` is VMLADAV or VMLADAVA. */
#define EC_DENSE_SLICE_MVE(load, fetch, bytes, op) \
    load " q0, [r1], #16\n" \
    ".irp d, r0, r2, r4, r6\n" \
    fetch " q1, [r3], #" bytes "\n" \
    op " \\d, q0, q1\n" \
    ".endr\n" \
    ".irp d, r8, r10, r12, lr\n" \
    fetch " q2, [r3], #" bytes "\n" \
    op " \\d, q0, q2\n" \
    ".endr\n"

/* Assembly: subtract one from negative sums if their shifts, in q2 and q3, are not 0. */
#define EC_DENSE_TIES_MVE \
    "movs r0, #1\n" \
    EC_TIES_MVE("q0", "q2", "q4", "r0") \
    EC_TIES_MVE("q1", "q3", "q4", "r0")

/* Assembly: eight sums rescaled with gemmlowp's rounding. */
#define EC_DENSE_TFLM_MVE \
    "ldr r0, [sp, #12]\n" \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vadd.i32 q0, q0, q2\n" \
    "vadd.i32 q1, q1, q3\n" \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "vqrdmulh.s32 q0, q0, q2\n" \
    "vqrdmulh.s32 q1, q1, q3\n" \
    "vldrw.32 q2, [r3], #16\n" \
    "vldrw.32 q3, [r3], #16\n" \
    "cbz r0, 6f\n" \
    EC_DENSE_TIES_MVE \
    "6:\n" \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q3\n"

/* Assembly: eight sums to q0 and q1. */
#define EC_VECTORS_OF_SUMS_MVE \
    "vmov q0[2], q0[0], r0, r4\n" \
    "vmov q0[3], q0[1], r2, r6\n" \
    "vmov q1[2], q1[0], r8, r12\n" \
    "vmov q1[3], q1[1], r10, lr\n"

/* Assembly: dense until eight channels begin; `more` may load lr, which is kept at [sp, #16]. A slice has
 * this many bytes of code; `none` may name the loop's entry for a round without slices. */
#define EC_DENSE_BEGIN_MVE(more, lanes, limits, slice, none) \
    "push {r4-r11, lr}\n" \
    "vpush {d8-d15}\n" \
    "ldm r1, {r4-r12}\n" \
    more \
    lanes \
    "vdup." limits " q6, r9\n" \
    "vdup." limits " q7, r10\n" \
    "movs r1, #" slice "\n" \
    "adr.w r6, 4f + 1\n" \
    "mls r6, r12, r1, r6\n" \
    none \
    "push {r4-r6, r11, lr}\n" \
    "add r9, r0, r7\n" \
    "subs r9, #8\n" \
    "mov r11, r8\n" \
    "mov r7, r0\n" \
    "0:\n" \
    "ldrd r1, r5, [sp]\n"

/* Assembly: eight channels' slices up to the end of a round. */
#define EC_DENSE_ROUND_MVE(first, whole) \
    "vpst\n" \
    first \
    "ldr pc, [sp, #8]\n" \
    "3:\n" \
    ".rept 4\n" \
    whole \
    ".endr\n" \
    "4:\n"

/* Assembly: dense up to the sums of eight channels, in q0 and q1; `lanes` makes the predicate of the
 * first slice. */
#define EC_DENSE_SUMS_MVE(more, lanes, first, whole) \
    EC_DENSE_BEGIN_MVE(more, lanes " r6\nvpnot\n", "32", "68", \
        "cmp r12, #0\n" \
        "it eq\n" \
        "adreq.w r6, 5f + 1\n") \
    EC_DENSE_ROUND_MVE(first, whole) \
    "subs r5, #1\n" \
    "bne.w 3b\n" \
    "5:\n" \
    EC_VECTORS_OF_SUMS_MVE

/* Assembly: the same of int8. */
#define EC_DENSE_SUMS_S8_MVE \
    EC_DENSE_SUMS_MVE("", "vctp.8", \
        EC_DENSE_SLICE_MVE("vldrbt.8", "vldrw.32", "16", "vmladav.s8"), \
        EC_DENSE_SLICE_MVE("vldrb.8", "vldrw.32", "16", "vmladava.s8"))

/* Assembly: limited. */
#define EC_DENSE_LIMIT_MVE \
    "vmax.s32 q0, q0, q6\n" \
    "vmax.s32 q1, q1, q6\n" \
    "vmin.s32 q0, q0, q7\n" \
    "vmin.s32 q1, q1, q7\n"

/* Assembly: eight results of int16, limited and stored. */
#define EC_DENSE_STORE_S16_MVE \
    EC_DENSE_LIMIT_MVE \
    "vstrh.32 q0, [r7], #8\n" \
    "vstrh.32 q1, [r7], #8\n"

/* Assembly: go on to the next eight channels, whose results have this many bytes, and the end. */
#define EC_DENSE_NEXT_MVE(bytes) \
    "cmp r7, r9\n" \
    "bls.w 0b\n" \
    "subs r2, r7, r9\n" /* the last unit may have to step back */ \
    "cmp r2, #" bytes "\n" \
    "it ne\n" \
    "movne r7, r9\n" \
    "bne.w 0b\n" \
    "add sp, #20\n" \
    "vpop {d8-d15}\n" \
    "pop {r4-r11, lr}\n"

/* Assembly of the whole dense layer: `sums` computes eight sums in q0 and q1, `rescale` their results. */
#define EC_DENSE_MVE(sums, rescale) \
    sums \
    rescale \
    "vadd.i32 q0, q0, r11\n" \
    "vadd.i32 q1, q1, r11\n" \
    EC_DENSE_LIMIT_MVE \
    "vstrb.32 q0, [r7], #4\n" \
    "vstrb.32 q1, [r7], #4\n" \
    EC_DENSE_NEXT_MVE("8")

/* Assembly: the same to int16, without a zero point. */
#define EC_DENSE_TO_S16_MVE(sums, rescale) \
    sums \
    rescale \
    EC_DENSE_STORE_S16_MVE \
    EC_DENSE_NEXT_MVE("16")

/* Assembly of the whole dense layer with gemmlowp's rounding. Biases come first in a stream, so that sums
 * begin with them. Even channels are in q0 and odd ones in q1; narrowing restores their order. After the
 * last round, its counter shows whether ties matter; see ec_plan_dense_tflm_mve. */
#define EC_DENSE_TFLM_S8_MVE \
    EC_DENSE_BEGIN_MVE("", "vctp.8 r6\nvpnot\n", "16", "68", "") \
    "ldmia.w r3!, {r0, r2, r4, r6, r8, r10, r12, lr}\n" \
    EC_DENSE_ROUND_MVE( \
        EC_DENSE_SLICE_MVE("vldrbt.8", "vldrw.32", "16", "vmladava.s8"), \
        EC_DENSE_SLICE_MVE("vldrb.8", "vldrw.32", "16", "vmladava.s8")) \
    "subs r5, #2\n" \
    "bhi.w 3b\n" \
    "vmov q0[2], q0[0], r0, r8\n" \
    "vmov q0[3], q0[1], r4, r12\n" \
    "vmov q1[2], q1[0], r2, r10\n" \
    "vmov q1[3], q1[1], r6, lr\n" \
    "vld20.32 {q2, q3}, [r3]\n" \
    "vld21.32 {q2, q3}, [r3]!\n" \
    "vqrdmulh.s32 q0, q0, q2\n" \
    "vqrdmulh.s32 q1, q1, q3\n" \
    "vld20.32 {q2, q3}, [r3]\n" \
    "vld21.32 {q2, q3}, [r3]!\n" \
    "beq 6f\n" \
    EC_DENSE_TIES_MVE \
    "6:\n" \
    "vrshl.s32 q0, q0, q2\n" \
    "vrshl.s32 q1, q1, q3\n" \
    "vqmovnb.s32 q0, q0\n" \
    "vqmovnt.s32 q0, q1\n" \
    "vqadd.s16 q0, q0, r11\n" \
    "vmax.s16 q0, q0, q6\n" \
    "vmin.s16 q0, q0, q7\n" \
    "vstrb.16 q0, [r7], #8\n" \
    EC_DENSE_NEXT_MVE("8")

/* clang-format on */

/* What the assembly of dense is given. */
static inline EC_UNUSED void ec_plan_dense_mve(int32_t *given, const int8_t *x, int32_t depth,
                                               int32_t channels, int32_t zero_point,
                                               int32_t minimum, int32_t maximum) {
    int32_t cut[4];
    ec_cut_slices_mve(cut, depth);
    given[0] = (int32_t)((uintptr_t)x - (uintptr_t)cut[0]);
    given[1] = cut[2];
    given[2] = cut[0];
    given[3] = channels;
    given[4] = zero_point;
    given[5] = minimum;
    given[6] = maximum;
    given[7] = minimum < zero_point;
    given[8] = cut[3];
}

/* The same with gemmlowp's rounding. There is at least one round; the first may have no slice. The counter
 * starts at twice the rounds, minus one if ties matter, and keeps that one after the last round. */
static inline EC_UNUSED void ec_plan_dense_tflm_mve(int32_t *given, const int8_t *x, int32_t depth,
                                                    int32_t channels, int32_t zero_point,
                                                    int32_t minimum, int32_t maximum) {
    const int32_t whole = (depth - 1) >> 4;
    given[2] = (int32_t)(-(uint32_t)depth & 15u);
    given[0] = (int32_t)((uintptr_t)x - (uintptr_t)given[2]);
    given[1] = 2 * (whole >> 2) + (minimum < zero_point ? 1 : 2);
    given[3] = channels;
    given[4] = zero_point;
    given[5] = minimum;
    given[6] = maximum;
    given[7] = depth; /* not used */
    given[8] = whole & 3;
}

/* clang-format off */

/* Assembly: slices of inputs of two pixels by the weights of four channels. */
#define EC_CONV_SLICE_MVE(load, fetch, bytes, op) \
    load " q0, [r1], #16\n" \
    load " q1, [r3], #16\n" \
    ".irp w, q2, q3, q4, q5\n" \
    fetch " \\w, [r5], #" bytes "\n" \
    ".endr\n" \
    op " r0, q0, q2\n" \
    op " r8, q1, q2\n" \
    op " r2, q0, q3\n" \
    op " r10, q1, q3\n" \
    op " r4, q0, q4\n" \
    op " r12, q1, q4\n" \
    op " r6, q0, q5\n" \
    op " lr, q1, q5\n"

/* Assembly: the head of a convolution, up to the first four channels of two pixels. `slice`: bytes of
 * code of a slice. `limits`: bits of a limit. */
#define EC_CONV_BEGIN_MVE(lanes, limits, slice) \
    "push {r4-r11, lr}\n" \
    "vpush {d8-d15}\n" \
    "sub sp, #56\n" \
    "ldm r0!, {r1-r7}\n" \
    "stm sp, {r1-r7}\n" \
    "ldm r0!, {r1-r7}\n" \
    "add r12, sp, #28\n" \
    "stm r12, {r1-r7}\n" \
    "ldm r0, {r1-r4, r11}\n" \
    lanes \
    "vdup." limits " q6, r3\n" \
    "vdup." limits " q7, r4\n" \
    "movs r1, #" slice "\n" \
    "adr.w r3, 4f + 1\n" \
    "mls r3, r2, r1, r3\n" \
    "str r3, [sp, #36]\n" \
    "9:\n" /* a pair of pixels */ \
    "ldr r5, [sp, #40]\n" \
    "0:\n" /* four channels */ \
    "ldrd r1, r3, [sp, #20]\n" \
    "ldrd r7, r9, [sp, #28]\n"

/* Assembly: the end of a round of slices; then the next row of the window begins, or label 6 follows. */
#define EC_CONV_ROUND_MVE \
    "subs r9, #1\n" \
    "beq 6f\n" \
    "subs r7, #1\n" \
    "bne.w 3b\n" \
    "add r1, r1, r11\n" \
    "add r3, r3, r11\n" \
    "ldr r7, [sp, #28]\n"

/* Assembly of the whole convolution. `lanes` computes the predicate of first slices, and sets q5 if they
 * use it. Slices, each of `slice` bytes of code: `first` of a window, `more`: the first slices of its
 * other rows, `whole`: all others. `store` rescales the sums in q0 and q1 and stores the results, four in
 * `bytes` bytes; it does not change q5. */
#define EC_CONV_WINDOWS_MVE(lanes, slice, first, more, whole, store, bytes) \
    EC_CONV_BEGIN_MVE(lanes " r1\nvpnot\n", "32", slice) \
    "vpstt\n" \
    first \
    "ldr pc, [sp, #36]\n" \
    "3:\n" \
    ".rept 4\n" \
    whole \
    ".endr\n" \
    "4:\n" \
    EC_CONV_ROUND_MVE \
    "vpstt\n" \
    more \
    "ldr pc, [sp, #36]\n" \
    "6:\n" \
    EC_VECTORS_OF_SUMS_MVE \
    EC_CONV_END_MVE(store, bytes)

/* Assembly: convolution after the sums of four channels of two pixels. */
#define EC_CONV_END_MVE(store, bytes) \
    "ldm sp, {r0, r2, r4, r6, r7}\n" \
    store \
    "strd r0, r2, [sp]\n" \
    "cmp r0, r4\n" \
    "bls.w 0b\n" \
    "subs r6, r0, r4\n" /* the last unit may have to step back */ \
    "cmp r6, #" bytes "\n" \
    "beq 8f\n" \
    "subs r0, r0, r6\n" \
    "subs r2, r2, r6\n" \
    "strd r0, r2, [sp]\n" \
    "b.w 0b\n" \
    "8:\n" /* to the next pair; the last pixel may be alone, and is done twice */ \
    "ldrd r6, r7, [sp, #44]\n" \
    "subs r6, #2\n" \
    "ble 8f\n" \
    "ldr r4, [sp, #52]\n" \
    "ldr r1, [sp, #24]\n" \
    "str r6, [sp, #44]\n" \
    "add r0, r2, r7\n" \
    "add r1, r1, r4\n" \
    "add r3, r1, r4\n" \
    "cmp r6, #1\n" \
    "itt eq\n" \
    "moveq r0, r2\n" \
    "moveq r3, r1\n" \
    "strd r1, r3, [sp, #20]\n" \
    "add r4, r2, r7\n" \
    "subs r4, #" bytes "\n" \
    "strd r2, r0, [sp]\n" \
    "str r4, [sp, #8]\n" \
    "b.w 9b\n" \
    "8:\n" \
    "add sp, #56\n" \
    "vpop {d8-d15}\n" \
    "pop {r4-r11, lr}\n"

/* Assembly: results of the sums of int8, stored; `rescale` makes them without a zero point. */
#define EC_CONV_STORE_S8_MVE(rescale) \
    rescale \
    "vadd.i32 q0, q0, r6\n" \
    "vadd.i32 q1, q1, r6\n" \
    EC_DENSE_LIMIT_MVE \
    "vstrb.32 q0, [r0], #4\n" \
    "vstrb.32 q1, [r2], #4\n"

/* Assembly: results of int16, which have no zero point, stored; `rescale` makes them. */
#define EC_CONV_STORE_S16_MVE(rescale) \
    rescale \
    EC_DENSE_LIMIT_MVE \
    "vstrh.32 q0, [r0], #8\n" \
    "vstrh.32 q1, [r2], #8\n"

/* Assembly of the whole convolution of int8 inputs. */
#define EC_CONV_S8_MVE(store, bytes) \
    EC_CONV_WINDOWS_MVE("vctp.8", "56", \
        EC_CONV_SLICE_MVE("vldrbt.8", "vldrw.32", "16", "vmladav.s8"), \
        EC_CONV_SLICE_MVE("vldrbt.8", "vldrw.32", "16", "vmladava.s8"), \
        EC_CONV_SLICE_MVE("vldrb.8", "vldrw.32", "16", "vmladava.s8"), \
        store, \
        bytes)

/* Assembly: the same to int8. */
#define EC_CONV_MVE(rescale) EC_CONV_S8_MVE(EC_CONV_STORE_S8_MVE(rescale), "4")

/* clang-format on */

/* Sizes of a convolution, in elements. */
typedef struct {
    int32_t kernel_h, kernel_w, in_channels, pitch, step, pixels, channels;
    int16_t zero_point, minimum, maximum, unused; /* up to a whole word */
} ec_conv_mve_sizes;

/* Prepare the parameters of the assembly of a convolution; out and the stream are set already. `wide`,
 * `wide_x`: 1 if results, or inputs, are int16, else 0. */
static inline EC_UNUSED void ec_plan_conv_mve(int32_t *given, const void *x,
                                              const ec_conv_mve_sizes *n, int32_t wide,
                                              int32_t wide_x) {
    const int32_t channels = n->channels << wide;
    const int32_t bytes = (n->kernel_w * n->in_channels) << wide_x;
    const int32_t whole = (bytes - 1) >> 4;
    const int32_t rounds =
        whole == 0 ? 1 : (whole + 3) >> 2; /* of a row; one also without slices */
    const int32_t unused = 16 * (whole + 1) - bytes;
    int32_t second = 0; /* all bits where there is a second pixel */
    if (n->pixels > 1) {
        second = -1;
    }
    given[1] = given[0] + (channels & second);
    given[2] = given[0] + channels - (4 << wide);
    given[3] = n->zero_point;
    given[4] = n->minimum < n->zero_point;
    given[5] = (int32_t)((uintptr_t)x - (uintptr_t)unused);
    given[6] = given[5] + ((n->step << wide_x) & second);
    given[7] = rounds;
    given[8] = n->kernel_h * rounds;
    given[9] = rounds; /* not used: where the loop is entered */
    given[11] = n->pixels;
    given[12] = channels;
    given[13] = n->step << wide_x;
    given[14] = unused >> wide_x; /* lanes */
    given[15] = whole - 4 * (rounds - 1);
    given[16] = n->minimum;
    given[17] = n->maximum;
    given[18] = (n->pitch << wide_x) - 16 * (whole + 1);
}

/* clang-format off */

/* Convolution by the assembly `code`. `wide`, `wide_x`: see ec_plan_conv_mve. */
#define EC_CONV_GIVEN_MVE(code, wide, wide_x) \
    int32_t given[19]; \
    given[0] = (int32_t)(uintptr_t)out; \
    given[10] = (int32_t)(uintptr_t)stream; \
    ec_plan_conv_mve(given, x, n, wide, wide_x); \
    EC_CONV_RUN_MVE(given, code)

/* clang-format on */

/* Products of int8 with gemmlowp's rounding. */
#define EC_OF(name) name##_s8_mve
#define EC_OUT int8_t
#define EC_IN int8_t
#define EC_MOVED int32_t zero_point,
#define EC_BY zero_point
#define EC_ASM EC_MVE_ASM
#define EC_PLAN ec_plan_dense_tflm_mve
#define EC_DENSE_CODE EC_DENSE_TFLM_S8_MVE
#define EC_CONV_RUN EC_CONV_TFLM_RUN_MVE
#define EC_SUMS_C ec_windows_to_c_mve
#define EC_DENSE_FORM 8, 1, 1, 2, ec_rescale_sum_tflm
#define EC_CONV_FORM 4, 1, 1, 2, ec_rescale_sum_tflm
#include "kernels/helium/matrix.inc"

#endif /* EC_MVE_MATRIX_S8_H */
