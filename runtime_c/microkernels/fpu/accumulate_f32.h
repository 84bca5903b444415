/* Sums of float32 products in their order: what kernels of convolutions share.
 *
 * A stream holds bias and weights in the order of use. Per unit of four channels (the last one may
 * have fewer): the biases, then for each input of a window the weights of the unit's channels.
 *
 * Each output is its bias, then product after product added in the order of the window, two
 * roundings for each. Kernels only choose which outputs are computed together.
 *
 * How a window lies is told by `runs`: how many runs of inputs it has, the inputs of a run, and the
 * floats from one run to the next; and by `window`: the inputs of a whole window, how many of them
 * lie before the first that is used, and those from one run to the next. From channel to channel
 * inputs are `apart` (0: channels share them), from input to input of a run `tap` floats.
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
#include "microkernels/c/clip_taps.h"

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

/* One input of each channel times its weight, added to four sums; x goes on to the next. */
#define EC_FOUR_PRODUCTS_F32(x, a, b, c, d) \
    do {                                    \
        a += (x)[0] * w0;                   \
        b += (x)[apart] * w1;               \
        c += (x)[2 * apart] * w2;           \
        d += (x)[3 * apart] * w3;           \
        (x) += tap;                         \
    } while (0)

/* out[p * channels + c] for p < 4 and c < whole, a multiple of 4: the sums of the windows of
 * x + p * step, limited. w: the stream. by_vectors: computes a unit by EC_SUMS_F32_MVE, and returns
 * 0 if it did. */
static inline EC_INLINE void ec_sums_of_four_f32(float *out, int32_t channels, int32_t whole,
                                                 const float *x, int32_t step, int32_t apart,
                                                 int32_t tap, const float *w, const int32_t *window,
                                                 const int32_t *runs, int32_t bounds,
                                                 const float *limits,
                                                 int32_t (*by_vectors)(const uintptr_t *)) {
    for (int32_t c = 0; c < whole; c += 4, w += 4 * (1 + window[0])) {
        const float *from = x + c * apart;
        const float *weights = w + 4 * (1 + window[1]);
#if EC_MVE_FLOAT_ASM
        const uintptr_t words[13] = {
            (uintptr_t)from,
            (uintptr_t)(4 * step),
            (uintptr_t)weights,
            (uintptr_t)runs[0],
            (uintptr_t)runs[1],
            (uintptr_t)(4 * (runs[2] - tap * runs[1])),
            (uintptr_t)(16 * (window[2] - runs[1])),
            (uintptr_t)w,
            (uintptr_t)(out + c),
            (uintptr_t)(4 * channels),
            (uintptr_t)bounds,
            (uintptr_t)limits,
            (uintptr_t)(4 * tap),
        };
        if (runs[0] > 0 && runs[1] > 0 && by_vectors(words) == 0) {
            continue;
        }
#else
        (void)by_vectors;
#endif
        float a0 = w[0], a1 = w[1], a2 = w[2], a3 = w[3];
        float b0 = a0, b1 = a1, b2 = a2, b3 = a3;
        float c0 = a0, c1 = a1, c2 = a2, c3 = a3;
        float d0 = a0, d1 = a1, d2 = a2, d3 = a3;
        for (int32_t row = 0; row < runs[0]; ++row) {
            const float *xa = from;
            const float *xb = xa + step;
            const float *xc = xb + step;
            const float *xd = xc + step;
            const float *v = weights;
            for (int32_t i = runs[1]; i > 0; --i) {
                const float w0 = v[0], w1 = v[1], w2 = v[2], w3 = v[3];
                v += 4;
                EC_FOUR_PRODUCTS_F32(xa, a0, a1, a2, a3);
                EC_FOUR_PRODUCTS_F32(xb, b0, b1, b2, b3);
                EC_FOUR_PRODUCTS_F32(xc, c0, c1, c2, c3);
                EC_FOUR_PRODUCTS_F32(xd, d0, d1, d2, d3);
            }
            from += runs[2];
            weights += 4 * window[2];
        }
        ec_store_sums_f32(out + c, a0, a1, a2, a3, bounds, limits);
        ec_store_sums_f32(out + channels + c, b0, b1, b2, b3, bounds, limits);
        ec_store_sums_f32(out + 2 * channels + c, c0, c1, c2, c3, bounds, limits);
        ec_store_sums_f32(out + 3 * channels + c, d0, d1, d2, d3, bounds, limits);
    }
}

/* The same of one pixel; by_vectors: four units at once. */
static inline EC_INLINE void ec_sums_of_one_f32(float *out, int32_t whole, const float *x,
                                                int32_t apart, int32_t tap, const float *w,
                                                const int32_t *window, const int32_t *runs,
                                                int32_t bounds, const float *limits,
                                                int32_t (*by_vectors)(const uintptr_t *)) {
    for (int32_t c = 0; c < whole; c += 4) {
        const float *from = x + c * apart;
        const float *weights = w + 4 * (1 + window[1]);
#if EC_MVE_FLOAT_ASM
        const uintptr_t words[13] = {
            (uintptr_t)weights,
            (uintptr_t)(16 * (1 + window[0])),
            (uintptr_t)from,
            (uintptr_t)runs[0],
            (uintptr_t)runs[1],
            (uintptr_t)(16 * (window[2] - runs[1])),
            (uintptr_t)(4 * (runs[2] - tap * runs[1])),
            (uintptr_t)w,
            (uintptr_t)(out + c),
            16,
            (uintptr_t)bounds,
            (uintptr_t)limits,
            (uintptr_t)(4 * tap),
        };
        if (whole - c >= 16 && runs[0] > 0 && runs[1] > 0 && by_vectors(words) == 0) {
            c += 12;
            w += 16 * (1 + window[0]);
            continue;
        }
#else
        (void)by_vectors;
#endif
        float a0 = w[0], a1 = w[1], a2 = w[2], a3 = w[3];
        for (int32_t row = 0; row < runs[0]; ++row) {
            const float *xa = from;
            const float *v = weights;
            for (int32_t i = runs[1]; i > 0; --i) {
                const float w0 = v[0], w1 = v[1], w2 = v[2], w3 = v[3];
                v += 4;
                EC_FOUR_PRODUCTS_F32(xa, a0, a1, a2, a3);
            }
            from += runs[2];
            weights += 4 * window[2];
        }
        ec_store_sums_f32(out + c, a0, a1, a2, a3, bounds, limits);
        w += 4 * (1 + window[0]);
    }
}

/* out[c] for c < lanes, fewer than four: the channels of a unit that is not whole, one pixel. */
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

/* out[p][c] for p < pixels and c < channels: bias[c], and the window of output `row` and column p
 * over x [height, width, across], whose first tap is at (row * stride_h - top, p * stride_w -
 * left); what lies outside of x is left out. A tap has `depth` inputs of each channel. bounds: 1 if
 * there is a lower limit, plus 2 if there is an upper one; low and high are the bits of these
 * floats. Pixels are computed in order, by `four` as many at once and by `one`. Nothing is read but
 * x, within its rows, and the stream. */
static inline EC_INLINE void ec_row_of_sums_f32(
    float *out, const float *x, const float *stream, int32_t height, int32_t width, int32_t across,
    int32_t depth, int32_t apart, int32_t tap, int32_t kernel_h, int32_t kernel_w, int32_t stride_h,
    int32_t stride_w, int32_t dilation_h, int32_t dilation_w, int32_t top, int32_t left,
    int32_t pixels, int32_t channels, int32_t bounds, int32_t low, int32_t high, int32_t row,
    void (*four)(float *, int32_t, int32_t, const float *, int32_t, int32_t, const float *,
                 const int32_t *, const int32_t *, int32_t, const float *),
    void (*one)(float *, int32_t, const float *, int32_t, const float *, const int32_t *,
                const int32_t *, int32_t, const float *)) {
    const int32_t first = row * stride_h - top;
    const int32_t reach = (kernel_w - 1) * dilation_w + 1;
    const int32_t pitch = kernel_w * depth;
    const int32_t whole = channels / 4 * 4;
    const float *const last = stream + whole * (1 + kernel_h * pitch);
    float limits[2];
    int32_t runs[3];
    int32_t window[3];
    int32_t from;
    int32_t to;
    EC_COPY(limits, &low, sizeof low);
    EC_COPY(limits + 1, &high, sizeof high);
    ec_clip_taps(&from, &to, first, kernel_h, dilation_h, height);
    runs[0] = to - from;
    runs[2] = dilation_h * width * across;
    window[0] = kernel_h * pitch;
    window[2] = pitch;
    const float *const rows = x + (first + from * dilation_h) * width * across;
    const int32_t above = from * pitch;
    for (int32_t p = 0; p < pixels;) {
        const int32_t column = p * stride_w - left;
        int32_t some = 1;
        ec_clip_taps(&from, &to, column, kernel_w, dilation_w, width);
        if (to - from == kernel_w && pixels - p >= 4 && column + 3 * stride_w + reach <= width) {
            some = 4;
        }
        runs[1] = (to - from) * depth;
        window[1] = above + from * depth;
        const float *inputs = rows + (column + from * dilation_w) * across;
        if (some == 4) {
            four(out, channels, whole, inputs, stride_w * across, tap, stream, window, runs, bounds,
                 limits);
        } else {
            one(out, whole, inputs, tap, stream, window, runs, bounds, limits);
        }
        for (; some > 0; --some, ++p) {
            ec_rest_of_unit_f32(out + whole, channels - whole, inputs + whole * apart, apart, tap,
                                last, window, runs, bounds, limits);
            inputs += stride_w * across;
            out += channels;
        }
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

/* What a kernel does and returns that runs EC_SUMS_F32_MVE on `words`. */
#define EC_RUN_SUMS_F32_MVE(words, first, each) \
    register uintptr_t r0 __asm__("r0") = (uintptr_t)(words); \
    __asm__ volatile(EC_SUMS_F32_MVE(first, each) \
        : "+r"(r0) \
        : \
        : "r1", "r2", "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory"); \
    return (int32_t)r0

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

#endif /* EC_FPU_ACCUMULATE_F32_H */
