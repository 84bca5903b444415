/* Convolutions of float32: one row of outputs, four pixels of four channels at a time.
 *
 * A stream holds bias and weights in the order of use. Per unit of four channels (the last one may
 * have fewer): the biases, then for each input of a window the weights of the unit's channels.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FPU_CONV_F32_H
#define EC_FPU_CONV_F32_H

#include "microkernels/fpu/accumulate_f32.h"

/* One input times four weights, added to four sums. */
#define EC_FOUR_PRODUCTS_F32(x, a, b, c, d) \
    do {                                    \
        const float taken = (x);            \
        a += taken * w0;                    \
        b += taken * w1;                    \
        c += taken * w2;                    \
        d += taken * w3;                    \
    } while (0)

/* Four channels of four pixels on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_four_f32_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    register uintptr_t r0 __asm__("r0") = (uintptr_t)words;
    /* clang-format off */
    __asm__ volatile(
        EC_SUMS_F32_MVE(EC_SAME_BIASES_F32_MVE,
            "vldrw.32 q4, [r12], #16\n"
            "ldr r0, [r8], #4\n"
            "ldr r1, [r9], #4\n"
            "ldr r2, [r10], #4\n"
            "ldr r3, [r11], #4\n"
            "vmul.f32 q5, q4, r0\n"
            "vmul.f32 q6, q4, r1\n"
            "vadd.f32 q0, q0, q5\n"
            "vmul.f32 q5, q4, r2\n"
            "vadd.f32 q1, q1, q6\n"
            "vmul.f32 q6, q4, r3\n"
            "vadd.f32 q2, q2, q5\n"
            "vadd.f32 q3, q3, q6\n")
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
    return (int32_t)r0;
#else
    (void)words;
    return 1;
#endif
}

/* out[p * channels + c] for p < 4 and c < whole, a multiple of 4: the sums of the windows of
 * x + p * step, limited. w: the stream. */
static EC_SHARED void ec_conv_four_f32(float *out, int32_t channels, int32_t whole, const float *x,
                                       int32_t step, const float *w, const int32_t *window,
                                       const int32_t *runs, int32_t bounds, const float *limits) {
    for (int32_t c = 0; c < whole; c += 4, w += 4 * (1 + window[0])) {
#if EC_MVE_FLOAT_ASM
        const uintptr_t words[13] = {
            (uintptr_t)(x),
            (uintptr_t)(4 * step),
            (uintptr_t)(w + 4 * (1 + window[1])),
            (uintptr_t)runs[0],
            (uintptr_t)runs[1],
            (uintptr_t)(4 * (runs[2] - runs[1])),
            (uintptr_t)(16 * (window[2] - runs[1])),
            (uintptr_t)w,
            (uintptr_t)(out + c),
            (uintptr_t)(4 * channels),
            (uintptr_t)bounds,
            (uintptr_t)limits,
            0,
        };
        if (runs[0] > 0 && runs[1] > 0 && ec_conv_four_f32_mve(words) == 0) {
            continue;
        }
#endif
        float a0 = w[0], a1 = w[1], a2 = w[2], a3 = w[3];
        float b0 = a0, b1 = a1, b2 = a2, b3 = a3;
        float c0 = a0, c1 = a1, c2 = a2, c3 = a3;
        float d0 = a0, d1 = a1, d2 = a2, d3 = a3;
        const float *from = x;
        const float *weights = w + 4 * (1 + window[1]);
        for (int32_t row = 0; row < runs[0]; ++row) {
            const float *xa = from;
            const float *xb = xa + step;
            const float *xc = xb + step;
            const float *xd = xc + step;
            const float *v = weights;
            for (int32_t i = runs[1]; i > 0; --i) {
                const float w0 = v[0], w1 = v[1], w2 = v[2], w3 = v[3];
                v += 4;
                EC_FOUR_PRODUCTS_F32(*xa++, a0, a1, a2, a3);
                EC_FOUR_PRODUCTS_F32(*xb++, b0, b1, b2, b3);
                EC_FOUR_PRODUCTS_F32(*xc++, c0, c1, c2, c3);
                EC_FOUR_PRODUCTS_F32(*xd++, d0, d1, d2, d3);
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

/* Sixteen channels of one pixel on vectors: 0 if they are stored. */
static EC_KERNEL int32_t ec_conv_one_f32_mve(const uintptr_t *words) {
#if EC_MVE_FLOAT_ASM
    register uintptr_t r0 __asm__("r0") = (uintptr_t)words;
    /* clang-format off */
    __asm__ volatile(
        EC_SUMS_F32_MVE(EC_FOUR_BIASES_F32_MVE,
            "ldr r0, [r12], #4\n"
            "vldrw.32 q4, [r8], #16\n"
            "vldrw.32 q5, [r9], #16\n"
            "vmul.f32 q4, q4, r0\n"
            "vldrw.32 q6, [r10], #16\n"
            "vmul.f32 q5, q5, r0\n"
            "vadd.f32 q0, q0, q4\n"
            "vldrw.32 q7, [r11], #16\n"
            "vmul.f32 q6, q6, r0\n"
            "vadd.f32 q1, q1, q5\n"
            "vmul.f32 q7, q7, r0\n"
            "vadd.f32 q2, q2, q6\n"
            "vadd.f32 q3, q3, q7\n")
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r12", "q0", "q1", "q2", "q3", "cc", "memory");
    /* clang-format on */
    return (int32_t)r0;
#else
    (void)words;
    return 1;
#endif
}

/* The same of one pixel. */
static EC_SHARED void ec_conv_one_f32(float *out, int32_t whole, const float *x, const float *w,
                                      const int32_t *window, const int32_t *runs, int32_t bounds,
                                      const float *limits) {
    for (int32_t c = 0; c < whole; c += 4) {
#if EC_MVE_FLOAT_ASM
        const uintptr_t words[13] = {
            (uintptr_t)(w + 4 * (1 + window[1])),
            (uintptr_t)(16 * (1 + window[0])),
            (uintptr_t)(x),
            (uintptr_t)runs[0],
            (uintptr_t)runs[1],
            (uintptr_t)(16 * (window[2] - runs[1])),
            (uintptr_t)(4 * (runs[2] - runs[1])),
            (uintptr_t)w,
            (uintptr_t)(out + c),
            16,
            (uintptr_t)bounds,
            (uintptr_t)limits,
            0,
        };
        if (whole - c >= 16 && runs[0] > 0 && runs[1] > 0 && ec_conv_one_f32_mve(words) == 0) {
            c += 12;
            w += 16 * (1 + window[0]);
            continue;
        }
#endif
        float a0 = w[0], a1 = w[1], a2 = w[2], a3 = w[3];
        const float *from = x;
        const float *weights = w + 4 * (1 + window[1]);
        for (int32_t row = 0; row < runs[0]; ++row) {
            const float *xa = from;
            const float *v = weights;
            for (int32_t i = runs[1]; i > 0; --i) {
                const float w0 = v[0], w1 = v[1], w2 = v[2], w3 = v[3];
                v += 4;
                EC_FOUR_PRODUCTS_F32(*xa++, a0, a1, a2, a3);
            }
            from += runs[2];
            weights += 4 * window[2];
        }
        ec_store_sums_f32(out + c, a0, a1, a2, a3, bounds, limits);
        w += 4 * (1 + window[0]);
    }
}

/* out[p][o] for p < pixels and o < channels: bias[o], and the window of output `row` and column p
 * over x [height, width, in_channels], whose first tap is at (row * stride_h - top, p * stride_w -
 * left); what lies outside of x is left out. bounds: 1 if there is a lower limit, plus 2 if there
 * is an upper one; low and high are the bits of these floats. Pixels are computed in order, up to
 * four at once. Nothing is read but x, within its rows, and the stream. */
static EC_SHARED void ec_conv_row_f32(float *out, const float *x, const float *stream,
                                      int32_t height, int32_t width, int32_t in_channels,
                                      int32_t kernel_h, int32_t kernel_w, int32_t stride_h,
                                      int32_t stride_w, int32_t dilation_h, int32_t top,
                                      int32_t left, int32_t pixels, int32_t channels,
                                      int32_t bounds, int32_t low, int32_t high, int32_t row) {
    const int32_t first = row * stride_h - top;
    const int32_t step = stride_w * in_channels;
    const int32_t pitch = kernel_w * in_channels;
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
    runs[2] = dilation_h * width * in_channels;
    window[0] = kernel_h * pitch;
    window[2] = pitch;
    const float *const rows = x + (first + from * dilation_h) * width * in_channels;
    const int32_t above = from * pitch;
    for (int32_t p = 0; p < pixels;) {
        const int32_t column = p * stride_w - left;
        int32_t some = 1;
        ec_clip_taps(&from, &to, column, kernel_w, 1, width);
        if (to - from == kernel_w && pixels - p >= 4 && column + 3 * stride_w + kernel_w <= width) {
            some = 4;
        }
        runs[1] = (to - from) * in_channels;
        window[1] = above + from * in_channels;
        const float *const inputs = rows + (column + from) * in_channels;
        if (some == 4) {
            ec_conv_four_f32(out, channels, whole, inputs, step, stream, window, runs, bounds,
                             limits);
        } else {
            ec_conv_one_f32(out, whole, inputs, stream, window, runs, bounds, limits);
        }
        for (; some > 0; --some, ++p) {
            ec_rest_of_unit_f32(out + whole, channels - whole,
                                rows + (p * stride_w - left + from) * in_channels, 0, 1, last,
                                window, runs, bounds, limits);
            out += channels;
        }
    }
}

#endif /* EC_FPU_CONV_F32_H */
