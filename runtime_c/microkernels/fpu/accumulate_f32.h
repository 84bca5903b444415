/* Sums of float32 products in their order: what kernels of convolutions share.
 *
 * Each output is its bias, then product after product added in the order of the window, two
 * roundings for each. Kernels only choose which outputs are computed together.
 *
 * How a window lies is told by `runs`: how many runs of inputs it has, the inputs of a run, and the
 * floats from one run to the next; and by `window`: the inputs of a whole window, how many of them
 * lie before the first that is used, and those from one run to the next.
 *
 * The vectors of MVE flush denormals to zero, and say so in FPSCR (IDC: an input was one, UFC: a
 * result would have been one). What was computed so is then computed again by scalars, which keep
 * denormals. Everything else is the same bits; of a NaN neither promises sign and payload.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_ACCUMULATE_F32_H
#define EC_FPU_ACCUMULATE_F32_H

#include "edgec/ec_kernel.h"

/* Four sums limited and stored: by limits[0] from below if bounds is odd, by limits[1] from above
 * if it is 2 or 3. What does not compare becomes the limit. */
static inline void ec_store_sums_f32(float *out, float a, float b, float c, float d, int32_t bounds,
                                     const float *limits) {
    if ((bounds & 1) != 0) {
        a = a > limits[0] ? a : limits[0];
        b = b > limits[0] ? b : limits[0];
        c = c > limits[0] ? c : limits[0];
        d = d > limits[0] ? d : limits[0];
    }
    if ((bounds & 2) != 0) {
        a = a < limits[1] ? a : limits[1];
        b = b < limits[1] ? b : limits[1];
        c = c < limits[1] ? c : limits[1];
        d = d < limits[1] ? d : limits[1];
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* out[c] for c < lanes, fewer than four: the channels of a unit that is not whole, one pixel. From
 * channel to channel inputs are `apart`, from input to input of a run `tap` floats. */
static EC_SHARED void ec_rest_of_unit_f32(float *out, int32_t lanes, const float *x, int32_t apart,
                                          int32_t tap, const float *w, const int32_t *window,
                                          const int32_t *runs, int32_t bounds,
                                          const float *limits) {
    for (int32_t c = 0; c < lanes; ++c) {
        const float *from = x + c * apart;
        const float *weights = w + lanes * (1 + window[1]) + c;
        float sum = w[c];
        for (int32_t row = 0; row < runs[0]; ++row) {
            for (int32_t i = 0; i < runs[1]; ++i) {
                sum += from[i * tap] * weights[i * lanes];
            }
            from += runs[2];
            weights += lanes * window[2];
        }
        if ((bounds & 1) != 0) {
            sum = sum > limits[0] ? sum : limits[0];
        }
        if ((bounds & 2) != 0) {
            sum = sum < limits[1] ? sum : limits[1];
        }
        out[c] = sum;
    }
}

/* clang-format off */

/* Assembly: four vectors of sums for MVE. `first` loads the biases at r2 into q0 to q3, `each` adds
 * one product to each. r0 points to words: 0 the first of four pointers, 1 the bytes from one to
 * the next, 2 another pointer, 3 runs, 4 steps of a run, 5 and 6 what the four and the other
 * advance between runs, 7 biases, 8 output, 9 the bytes from vector to vector of it, 10 bounds,
 * 11 limits, 12 bytes for r3. Leaves r0 = 0, or something else and stores nothing if a denormal was
 * flushed. */
#define EC_SUMS_F32_MVE(first, each) \
    "push {r4-r11, lr}\n" \
    "vpush {d8-d15}\n" \
    "vmrs r1, fpscr\n" \
    "bic r1, r1, #0x88\n" \
    "vmsr fpscr, r1\n" \
    "push {r0}\n" \
    "ldr r3, [r0, #48]\n" \
    "ldrd r8, r1, [r0]\n" \
    "ldrd r12, r4, [r0, #8]\n" \
    "ldrd r5, r6, [r0, #16]\n" \
    "ldrd r7, r2, [r0, #24]\n" \
    "add r9, r8, r1\n" \
    "add r10, r9, r1\n" \
    "add r11, r10, r1\n" \
    first \
    "2:\n" \
    "dls lr, r5\n" \
    "1:\n" \
    each \
    "le lr, 1b\n" \
    ".irp d, r8, r9, r10, r11\n" \
    "add \\d, \\d, r6\n" \
    ".endr\n" \
    "add r12, r12, r7\n" \
    "subs r4, r4, #1\n" \
    "bne 2b\n" \
    "pop {r12}\n" \
    "vmrs r0, fpscr\n" \
    "ands r0, r0, #0x88\n" \
    "bne 9f\n" \
    "ldrd r1, r2, [r12, #40]\n" \
    "lsls r3, r1, #31\n" \
    "beq 3f\n" \
    "ldr r3, [r2]\n" \
    "vdup.32 q4, r3\n" \
    ".irp d, q0, q1, q2, q3\n" \
    "vcmp.f32 gt, \\d, r3\n" \
    "vpsel \\d, \\d, q4\n" \
    ".endr\n" \
    "3:\n" \
    "lsls r3, r1, #30\n" \
    "bpl 4f\n" \
    "ldr r3, [r2, #4]\n" \
    "vdup.32 q4, r3\n" \
    ".irp d, q0, q1, q2, q3\n" \
    "vcmp.f32 gt, q4, \\d\n" \
    "vpsel \\d, \\d, q4\n" \
    ".endr\n" \
    "4:\n" \
    "ldrd r1, r2, [r12, #32]\n" \
    ".irp d, q0, q1, q2, q3\n" \
    "vstrw.32 \\d, [r1]\n" \
    "add r1, r1, r2\n" \
    ".endr\n" \
    "9:\n" \
    "vpop {d8-d15}\n" \
    "pop {r4-r11, lr}\n"

/* Assembly: one unit's biases for four vectors. */
#define EC_SAME_BIASES_F32_MVE \
    "vldrw.32 q0, [r2]\n" \
    "vmov q1, q0\n" \
    "vmov q2, q0\n" \
    "vmov q3, q0\n"

/* Assembly: the biases of four units, which are r1 bytes apart. */
#define EC_FOUR_BIASES_F32_MVE \
    ".irp d, q0, q1, q2, q3\n" \
    "vldrw.32 \\d, [r2]\n" \
    "add r2, r2, r1\n" \
    ".endr\n"

/* clang-format on */

/* The taps [*first, *last) of `kernel` that lie inside [0, extent); tap 0 is at `at`. */
static EC_SHARED void ec_clip_taps(int32_t *first, int32_t *last, int32_t at, int32_t kernel,
                                   int32_t dilation, int32_t extent) {
    int32_t begin = 0;
    int32_t end = kernel;
    while (begin < end && at + begin * dilation < 0) {
        ++begin;
    }
    while (end > begin && at + (end - 1) * dilation >= extent) {
        --end;
    }
    *first = begin;
    *last = end;
}

#endif /* EC_FPU_ACCUMULATE_F32_H */
