/* Convolutions, dense and depthwise of int8 on the vectors of RISC-V: sixteen channels at a time, on
 * vectors of any length from 128 bits on.
 *
 * A stream holds units of sixteen channels, the last one filled with zeros: the weights of each input
 * or tap as bytes; then biases, multipliers, and by how much results are shifted down.
 *
 * VSMUL is gemmlowp's high product. VSSRA rounds halves up, so negative numbers are one less before
 * it; where those are limited to -128 anyway that cannot be seen.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_RISCV_PRODUCTS_S8_H
#define EC_RISCV_PRODUCTS_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/gather_plane.h"
#include "kernels/common/product_sizes.h"

/* EC_RVV: whether there are vectors, of sixteen sums (EC_RVV_SUMS) and of bytes. */
#if defined(__riscv_vector) && defined(__GNUC__)
#include <riscv_vector.h>
#define EC_RVV 1
#define EC_RVV_SUMS vint32m4_t
#define EC_RVV_BYTES vint8m1_t
#else
#define EC_RVV 0
#define EC_RVV_SUMS int32_t
#define EC_RVV_BYTES int8_t
#endif

/* The window that moves over x [height][width][channels] to a row of `out_width` pixels of `outputs`
 * channels: its inputs, the steps between windows and between inputs, the padding above and left of x,
 * whether windows reach outside of x, and the value there. Then the results' zero point and limits. */
typedef struct {
    int32_t height, width, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t top, left, out_width, padded, zero_point;
    int32_t outputs, out_zero_point, minimum, maximum;
} ec_windows_rvv_sizes;

/* A sum of a channel in C: rescaled by its multiplier and shift, moved by limits[0], and limited. */
static inline EC_UNUSED int8_t ec_result_c_rvv(uint32_t sum, int32_t multiplier, int32_t shift,
                                               const int32_t *limits) {
    const int32_t value = ec_requantize_tflm_right((int32_t)sum, multiplier, -shift) + limits[0];
    return (int8_t)(value < limits[1] ? limits[1] : value > limits[2] ? limits[2] : value);
}

/* The first `count` channels of a row of outputs in C. A window has the inputs of all channels of x at
 * its taps, or with `is_own` only of the output's channel. */
static inline EC_UNUSED void ec_windows_c_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                              const ec_windows_rvv_sizes *n, int32_t row,
                                              int32_t is_own, int32_t count) {
    const int32_t limits[3] = { n->out_zero_point, n->minimum, n->maximum };
    const int32_t each = is_own ? 1 : n->channels, depth = n->kernel_h * n->kernel_w * each;
    for (int32_t at = 0; at < n->out_width * count; ++at) {
        const int32_t o = at % count, lane = o % 16, p = at / count;
        const int32_t *const unit = stream + o / 16 * (depth * 4 + 36);
        const int32_t *const scales = unit + depth * 4;
        uint32_t sum = (uint32_t)scales[lane];
        for (int32_t k = 0; k < depth; ++k) {
            const int32_t tap = k / each;
            const int32_t h = row * n->stride_h - n->top + tap / n->kernel_w * n->dilation_h;
            const int32_t w = p * n->stride_w - n->left + tap % n->kernel_w * n->dilation_w;
            const int32_t is_there = h >= 0 && h < n->height && w >= 0 && w < n->width;
            const int32_t c = is_own ? o : k % each;
            const int32_t input =
                is_there ? x[(h * n->width + w) * n->channels + c] : n->zero_point;
            sum += (uint32_t)(input * ((const int8_t *)unit)[k * 16 + lane]);
        }
        out[p * n->outputs + o] =
            ec_result_c_rvv(sum, scales[16 + lane], ((const int8_t *)(scales + 32))[lane], limits);
    }
}

/* How far results of `lanes` channels are shifted down, from their bytes. */
static inline EC_INLINE EC_RVV_SUMS ec_shifts_rvv(const int8_t *shifts, size_t lanes) {
#if EC_RVV
    return __riscv_vsext_vf4_i32m4(__riscv_vle8_v_i8m1(shifts, lanes), lanes);
#else
    (void)lanes;
    return *shifts;
#endif
}

/* Sums rescaled by multipliers and shifts, moved by limits[0], limited, as bytes. */
static inline EC_INLINE EC_RVV_BYTES ec_narrow_rvv(EC_RVV_SUMS sums, EC_RVV_SUMS by,
                                                   EC_RVV_SUMS down, const int32_t *limits,
                                                   size_t lanes) {
#if EC_RVV
    vint32m4_t value = __riscv_vsmul_vv_i32m4(sums, by, __RISCV_VXRM_RNU, lanes);
    value = __riscv_vadd_vv_i32m4(value, __riscv_vsra_vx_i32m4(value, 31u, lanes), lanes);
    value = __riscv_vssra_vv_i32m4(value, __riscv_vreinterpret_v_i32m4_u32m4(down),
                                   __RISCV_VXRM_RNU, lanes);
    value = __riscv_vadd_vx_i32m4(value, limits[0], lanes);
    {
        const vint16m2_t half = __riscv_vnclip_wx_i16m2(value, 0u, __RISCV_VXRM_RNU, lanes);
        const vint8m1_t bytes = __riscv_vnclip_wx_i8m1(half, 0u, __RISCV_VXRM_RNU, lanes);
        const vint8m1_t least = __riscv_vmax_vx_i8m1(bytes, (int8_t)limits[1], lanes);
        return __riscv_vmin_vx_i8m1(least, (int8_t)limits[2], lanes);
    }
#else
    (void)by, (void)down, (void)limits, (void)lanes;
    return (int8_t)sums;
#endif
}

/* Sums rescaled by the constants at `scales`, and stored. */
static inline EC_INLINE void ec_store_rvv(int8_t *out, EC_RVV_SUMS sums, const int32_t *scales,
                                          const int32_t *limits, size_t lanes) {
#if EC_RVV
    const vint32m4_t by = __riscv_vle32_v_i32m4(scales, lanes);
    const vint32m4_t down = ec_shifts_rvv((const int8_t *)(scales + 16), lanes);
    __riscv_vse8_v_i8m1(out, ec_narrow_rvv(sums, by, down, limits, lanes), lanes);
#else
    (void)out, (void)sums, (void)scales, (void)limits, (void)lanes;
#endif
}

/* Sums and the products of `count` inputs, `apart` from each other, by the weights at w. */
static inline EC_INLINE EC_RVV_SUMS ec_run_rvv(EC_RVV_SUMS sums, const int8_t *x, int32_t apart,
                                               const int8_t *w, int32_t count, size_t lanes) {
#if EC_RVV
    for (const int8_t *const end = w + 16 * count; w != end; w += 16, x += apart) {
        const vint16m2_t by = __riscv_vsext_vf2_i16m2(__riscv_vle8_v_i8m1(w, lanes), lanes);
        sums = __riscv_vwmacc_vx_i32m4(sums, *x, by, lanes);
    }
#else
    (void)x, (void)apart, (void)w, (void)count, (void)lanes;
#endif
    return sums;
}

/* A pixel of `lanes` channels whose window begins at row h and column v of x. */
static EC_SHARED void ec_conv_pixel_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                        const ec_windows_rvv_sizes *n, int32_t h, int32_t v,
                                        size_t lanes) {
#if EC_RVV
    const int32_t limits[3] = { n->out_zero_point, n->minimum, n->maximum };
    const int8_t fill = (int8_t)n->zero_point;
    const int32_t depth = n->channels, run = n->kernel_w * depth;
    const int32_t below = v < 0 ? -v : 0, inside = n->width - v;
    const int32_t before = below < n->kernel_w ? below * depth : run;
    const int32_t end = inside < n->kernel_w ? (inside > 0 ? inside * depth : 0) : run;
    const int8_t *w = (const int8_t *)stream;
    const int32_t *const scales = stream + n->kernel_h * run * 4;
    vint32m4_t sums = __riscv_vle32_v_i32m4(scales, lanes);
    for (int32_t kh = 0; kh < n->kernel_h; ++kh, h += n->dilation_h, w += 16 * run) {
        if (h < 0 || h >= n->height || before >= end) {
            sums = ec_run_rvv(sums, &fill, 0, w, run, lanes);
        } else {
            const int8_t *const from = x + (h * n->width + v) * depth;
            sums = ec_run_rvv(sums, &fill, 0, w, before, lanes);
            sums = ec_run_rvv(sums, from + before, 1, w + 16 * before, end - before, lanes);
            sums = ec_run_rvv(sums, &fill, 0, w + 16 * end, run - end, lanes);
        }
    }
    ec_store_rvv(out, sums, scales + 16, limits, lanes);
#else
    (void)out, (void)x, (void)stream, (void)n, (void)h, (void)v, (void)lanes;
#endif
}

/* The products of input i of four pixels. */
#define EC_FOUR_RVV(i)                                                                       \
    do {                                                                                     \
        const vint16m2_t by = __riscv_vsext_vf2_i16m2(__riscv_vle8_v_i8m1(w, lanes), lanes); \
        a = __riscv_vwmacc_vx_i32m4(a, p[i], by, lanes);                                     \
        b = __riscv_vwmacc_vx_i32m4(b, q[i], by, lanes);                                     \
        c = __riscv_vwmacc_vx_i32m4(c, r[i], by, lanes);                                     \
        d = __riscv_vwmacc_vx_i32m4(d, s[i], by, lanes);                                     \
        w += 16;                                                                             \
    } while (0)

/* Four pixels of `lanes` channels, whose windows begin at row h and columns v and on of x, where they
 * are inside. */
static EC_SHARED void ec_conv_four_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                       const ec_windows_rvv_sizes *n, int32_t h, int32_t v,
                                       size_t lanes) {
#if EC_RVV
    const int32_t limits[3] = { n->out_zero_point, n->minimum, n->maximum };
    const int8_t fill = (int8_t)n->zero_point;
    const int32_t run = n->kernel_w * n->channels, channels = n->outputs;
    const ptrdiff_t step = n->stride_w * n->channels;
    const int32_t *const scales = stream + n->kernel_h * run * 4;
    const int8_t *w = (const int8_t *)stream;
    vint32m4_t a = __riscv_vle32_v_i32m4(scales, lanes), b, c, d;
    int32_t first = h;
    for (int32_t kh = 0; kh < n->kernel_h; ++kh, first += n->dilation_h, w += 16 * run) {
        if (first < 0 || first >= n->height) {
            a = ec_run_rvv(a, &fill, 0, w, run, lanes);
        }
    }
    b = c = d = a;
    w = (const int8_t *)stream;
    for (int32_t kh = 0; kh < n->kernel_h; ++kh, h += n->dilation_h) {
        const int8_t *p = x + (h * n->width + v) * n->channels;
        const int8_t *q = p + step, *r = q + step, *s = r + step;
        if (h < 0 || h >= n->height) {
            w += 16 * run;
            continue;
        }
        for (const int8_t *const most = p + (run & ~3); p != most; p += 4, q += 4, r += 4, s += 4) {
            EC_FOUR_RVV(0);
            EC_FOUR_RVV(1);
            EC_FOUR_RVV(2);
            EC_FOUR_RVV(3);
        }
        for (const int8_t *const end = p + (run & 3); p != end; ++p, ++q, ++r, ++s) {
            EC_FOUR_RVV(0);
        }
    }
    ec_store_rvv(out, a, scales + 16, limits, lanes);
    ec_store_rvv(out + channels, b, scales + 16, limits, lanes);
    ec_store_rvv(out + 2 * channels, c, scales + 16, limits, lanes);
    ec_store_rvv(out + 3 * channels, d, scales + 16, limits, lanes);
#else
    (void)out, (void)x, (void)stream, (void)n, (void)h, (void)v, (void)lanes;
#endif
}

/* out[p * outputs + o] for a row of pixels and all channels: int8 of the rescaled sum over the inputs
 * of window p of row `row` by the weights of channel o, and bias[o]. dilation_w is 1. Tiles of four
 * pixels where those are inside, else of one: their inputs are read again after the first of their
 * outputs are written. By gemmlowp's rounding. */
static EC_KERNEL void ec_conv_windows_s8_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                             const ec_windows_rvv_sizes *n, int32_t row) {
#if EC_RVV
    const int32_t h = row * n->stride_h - n->top, outputs = n->outputs;
    const int32_t unit = n->kernel_h * n->kernel_w * n->channels * 4 + 36;
    int32_t wide;
    for (int32_t p = 0; p < n->out_width; p += wide, out += wide * outputs) {
        const int32_t v = p * n->stride_w - n->left;
        const int32_t last = v + 3 * n->stride_w + n->kernel_w;
        const int32_t *at = stream;
        wide = p + 4 <= n->out_width && v >= 0 && last <= n->width ? 4 : 1;
        for (int32_t o = 0; o < outputs; o += 16, at += unit) {
            const size_t lanes = (size_t)(outputs - o < 16 ? outputs - o : 16);
            if (wide == 4) {
                ec_conv_four_rvv(out + o, x, at, n, h, v, lanes);
            } else {
                ec_conv_pixel_rvv(out + o, x, at, n, h, v, lanes);
            }
        }
    }
#else
    ec_windows_c_rvv(out, x, stream, n, row, 0, n->outputs);
#endif
}

/* The first 16 of a pixel's outputs, or of four, out[p * outputs + o], by windows that are all inside.
 * They are written when all inputs are read. */
static EC_KERNEL void ec_conv_tile_s8_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                          const ec_windows_rvv_sizes *n) {
#if EC_RVV
    if (n->out_width == 4) {
        ec_conv_four_rvv(out, x, stream, n, 0, 0, 16u);
    } else {
        ec_conv_pixel_rvv(out, x, stream, n, 0, 0, 16u);
    }
#else
    ec_windows_c_rvv(out, x, stream, n, 0, 0, 16);
#endif
}

/* A pixel of `lanes` channels, each by its own window, which begins at row h and column v of x. */
static EC_SHARED void ec_depthwise_pixel_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                             const ec_windows_rvv_sizes *n, int32_t h, int32_t v,
                                             size_t lanes) {
#if EC_RVV
    const int32_t limits[3] = { n->out_zero_point, n->minimum, n->maximum };
    const int32_t *const scales = stream + n->kernel_h * n->kernel_w * 4;
    const int8_t *w = (const int8_t *)stream;
    vint32m4_t sums = __riscv_vle32_v_i32m4(scales, lanes);
    for (int32_t kh = 0; kh < n->kernel_h; ++kh, h += n->dilation_h) {
        for (int32_t kw = 0; kw < n->kernel_w; ++kw, w += 16) {
            const int32_t at = v + kw * n->dilation_w;
            const vint16m2_t by = __riscv_vsext_vf2_i16m2(__riscv_vle8_v_i8m1(w, lanes), lanes);
            if (h >= 0 && h < n->height && at >= 0 && at < n->width) {
                const int8_t *const from = x + (h * n->width + at) * n->channels;
                const vint8m1_t in = __riscv_vle8_v_i8m1(from, lanes);
                sums = __riscv_vwmacc_vv_i32m4(sums, __riscv_vsext_vf2_i16m2(in, lanes), by, lanes);
            } else {
                sums = __riscv_vwmacc_vx_i32m4(sums, (int16_t)n->zero_point, by, lanes);
            }
        }
    }
    ec_store_rvv(out, sums, scales + 16, limits, lanes);
#else
    (void)out, (void)x, (void)stream, (void)n, (void)h, (void)v, (void)lanes;
#endif
}

/* The weights of a tap. */
#define EC_WEIGHTS_RVV(tap) \
    __riscv_vsext_vf2_i16m2(__riscv_vle8_v_i8m1(w + 16 * (tap), lanes), lanes)

/* sums and the products of a tap. */
#define EC_TAP_RVV(from, by) \
    __riscv_vwmacc_vv_i32m4( \
        sums, __riscv_vsext_vf2_i16m2(__riscv_vle8_v_i8m1((from), lanes), lanes), (by), lanes)

/* Add the products of a row of three taps to the sums. */
#define EC_ROW_RVV(first, second, third)        \
    do {                                        \
        sums = EC_TAP_RVV(at, first);           \
        sums = EC_TAP_RVV(at + tap, second);    \
        sums = EC_TAP_RVV(at + 2 * tap, third); \
    } while (0)

/* `count` pixels by windows of three by three, all inside; the first begins at row h and column v. */
static EC_SHARED void ec_depthwise_three_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                             const ec_windows_rvv_sizes *n, int32_t count,
                                             size_t lanes) {
#if EC_RVV
    const int32_t limits[3] = { n->out_zero_point, n->minimum, n->maximum };
    const ptrdiff_t tap = n->dilation_w * n->channels, step = n->stride_w * n->channels;
    const ptrdiff_t pitch = n->dilation_h * n->width * n->channels, outputs = n->outputs;
    const int8_t *const w = (const int8_t *)stream;
    const vint16m2_t w0 = EC_WEIGHTS_RVV(0), w1 = EC_WEIGHTS_RVV(1), w2 = EC_WEIGHTS_RVV(2);
    const vint16m2_t w3 = EC_WEIGHTS_RVV(3), w4 = EC_WEIGHTS_RVV(4), w5 = EC_WEIGHTS_RVV(5);
    for (; count > 0; --count, out += outputs, x += step) {
        const int8_t *at = x;
        vint32m4_t sums = __riscv_vle32_v_i32m4(stream + 36, lanes);
        EC_ROW_RVV(w0, w1, w2);
        at += pitch;
        EC_ROW_RVV(w3, w4, w5);
        at += pitch;
        EC_ROW_RVV(EC_WEIGHTS_RVV(6), EC_WEIGHTS_RVV(7), EC_WEIGHTS_RVV(8));
        ec_store_rvv(out, sums, stream + 52, limits, lanes);
    }
#else
    (void)out, (void)x, (void)stream, (void)n, (void)count, (void)lanes;
#endif
}

/* A row of pixels of `lanes` channels. */
static inline EC_INLINE void ec_depthwise_row_rvv(int8_t *out, const int8_t *x,
                                                  const int32_t *stream,
                                                  const ec_windows_rvv_sizes *n, int32_t h,
                                                  size_t lanes) {
    const int32_t is_three =
        n->kernel_h == 3 && n->kernel_w == 3 && h >= 0 && h + 2 * n->dilation_h < n->height;
    const int32_t room = n->width - 2 * n->dilation_w; /* where windows inside begin */
    int32_t wide;
    for (int32_t p = 0, v = -n->left; p < n->out_width; p += wide, v += wide * n->stride_w) {
        const int32_t inside = is_three && v >= 0 ? (room - v + n->stride_w - 1) / n->stride_w : 0;
        wide = 1;
        if (inside > 0) {
            wide = inside < n->out_width - p ? inside : n->out_width - p;
            ec_depthwise_three_rvv(out + p * n->outputs, x + (h * n->width + v) * n->channels,
                                   stream, n, wide, lanes);
        } else {
            ec_depthwise_pixel_rvv(out + p * n->outputs, x, stream, n, h, v, lanes);
        }
    }
}

/* out[p * outputs + c] for a row of pixels and all channels: int8 of the rescaled sum over the inputs
 * of channel c of window p of row `row` by its weights, and bias[c]. out and x must not overlap. By
 * gemmlowp's rounding. */
static EC_KERNEL void ec_depthwise_windows_s8_rvv(int8_t *out, const int8_t *x,
                                                  const int32_t *stream,
                                                  const ec_windows_rvv_sizes *n, int32_t row) {
#if EC_RVV
    const int32_t unit = n->kernel_h * n->kernel_w * 4 + 36, h = row * n->stride_h - n->top;
    for (int32_t c = 0; c < n->outputs; c += 16, stream += unit) {
        const int32_t left = n->outputs - c;
        ec_depthwise_row_rvv(out + c, x + c, stream, n, h, (size_t)(left < 16 ? left : 16));
    }
#else
    ec_windows_c_rvv(out, x, stream, n, row, 1, n->outputs);
#endif
}

/* to[h][w][c] = x[((h - top) * width + w - left) * step + c] of two channels, `fill` where that is
 * outside of x. All pointers are to half-words, and step is even. */
static EC_KERNEL void ec_pack_two_s8_rvv(int8_t *to, const int8_t *x, const ec_plane_sizes *n) {
    const int32_t room = n->plane_width - n->left, inside = n->width < room ? n->width : room;
    const int32_t end = n->plane_height - n->top;
    int32_t lanes = 1;
    for (int32_t h = -n->top; h < end; ++h, to += 2 * n->plane_width) {
        const int32_t count = h < 0 || h >= n->height ? 0 : inside;
        const int8_t *const row = x + h * n->width * n->step;
        for (int32_t w = 0; w < 2 * n->plane_width; w += lanes) {
#if EC_RVV
            lanes = (int32_t)__riscv_vsetvl_e8m8((size_t)(2 * n->plane_width - w));
            __riscv_vse8_v_i8m8(to + w, __riscv_vmv_v_x_i8m8((int8_t)n->fill, (size_t)lanes),
                                (size_t)lanes);
#else
            to[w] = (int8_t)n->fill;
#endif
        }
        for (int32_t w = 0; w < count; w += lanes) {
            int8_t *const at = to + 2 * (w + n->left);
            const int8_t *const from = row + w * n->step;
#if EC_RVV
            lanes = (int32_t)__riscv_vsetvl_e16m8((size_t)(count - w));
            __riscv_vse16_v_i16m8(
                (int16_t *)(void *)at,
                __riscv_vlse16_v_i16m8((const int16_t *)(const void *)from, n->step, (size_t)lanes),
                (size_t)lanes);
#else
            at[0] = from[0];
            at[1] = from[1];
#endif
        }
    }
}

/* Up to eight pixels of two channels, whose inputs are `step` bytes apart; by, down: what rescales. */
static inline EC_INLINE void ec_two_pixels_rvv(int8_t *out, const int8_t *x, const int16_t *w,
                                               const ec_depthwise_sizes *n, EC_RVV_SUMS sums,
                                               EC_RVV_SUMS by, EC_RVV_SUMS down, int32_t count) {
#if EC_RVV
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const size_t pixels = (size_t)count, lanes = 2u * pixels;
    EC_STRAIGHT
    for (int32_t k = 0; k < n->kernel_h * n->kernel_w; ++k) {
        const int8_t *const from = x + k / n->kernel_w * n->pitch + k % n->kernel_w * n->tap;
        const vint8m1_t both = __riscv_vreinterpret_v_i16m1_i8m1(__riscv_vmv_v_x_i16m1(w[k], 8));
        const vint8m1_t in = n->step == 2
                                 ? __riscv_vle8_v_i8m1(from, lanes)
                                 : __riscv_vreinterpret_v_i16m1_i8m1(__riscv_vlse16_v_i16m1(
                                       (const int16_t *)(const void *)from, n->step, pixels));
        sums = __riscv_vwadd_wv_i32m4(sums, __riscv_vwmul_vv_i16m2(in, both, lanes), lanes);
    }
    __riscv_vsse16_v_i16m1(
        (int16_t *)(void *)out, n->channels,
        __riscv_vreinterpret_v_i8m1_i16m1(ec_narrow_rvv(sums, by, down, limits, lanes)), pixels);
#else
    (void)out, (void)x, (void)w, (void)n, (void)sums, (void)by, (void)down, (void)count;
#endif
}

/* All pixels of two channels. */
static inline EC_INLINE void ec_two_planes_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                               const ec_depthwise_sizes *n) {
#if EC_RVV
    const int16_t *const w = (const int16_t *)(stream + 4);
    const int8_t *const shifts = (const int8_t *)(w + n->kernel_h * n->kernel_w);
    const vuint32m4_t lane = __riscv_vand_vx_u32m4(__riscv_vid_v_u32m4(16), 1u, 16);
    const vint32m4_t bias = __riscv_vrgather_vv_i32m4(__riscv_vle32_v_i32m4(stream, 2), lane, 16);
    const vint32m4_t by = __riscv_vrgather_vv_i32m4(__riscv_vle32_v_i32m4(stream + 2, 2), lane, 16);
    const vint32m4_t down = __riscv_vrgather_vv_i32m4(ec_shifts_rvv(shifts, 2), lane, 16);
    for (int32_t h = 0; h < n->rows; ++h, x += n->row_step) {
        const int8_t *from = x;
        for (int32_t left = n->pixels; left > 0; left -= 8, from += 8 * n->step) {
            const int32_t count = left < 8 ? left : 8;
            ec_two_pixels_rvv(out, from, w, n, bias, by, down, count);
            out += count * n->channels;
        }
    }
#else
    (void)out, (void)x, (void)stream, (void)n;
#endif
}

/* out[(h * pixels + p) * channels + c] for `rows` of `pixels` and two channels: int8 of the rescaled sum
 * over kh, kw of x[h * row_step + p * step + kh * pitch + kw * tap + c] * w[kh][kw][c] + bias[c]. A
 * stream holds biases, multipliers, the weights of each tap, and shifts. By gemmlowp's rounding; out and
 * x are half-words. */
static EC_KERNEL void ec_depthwise_two_s8_rvv(int8_t *out, const int8_t *x, const int32_t *stream,
                                              const ec_depthwise_sizes *n) {
#if EC_RVV
    ec_depthwise_sizes own = *n; /* out, which is bytes, may be *n for all compilers know */
    if (own.kernel_h == 3 && own.kernel_w == 3 && own.step == 2) {
        own.kernel_h = 3;
        own.kernel_w = 3;
        own.step = 2;
        ec_two_planes_rvv(out, x, stream, &own);
    } else {
        ec_two_planes_rvv(out, x, stream, &own);
    }
#else
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int32_t taps = n->kernel_h * n->kernel_w, pixels = n->pixels;
    const int8_t *const w = (const int8_t *)(stream + 4);
    for (int32_t at = 0; at < n->rows * pixels * 2; ++at) {
        const int32_t c = at % 2, p = at / 2;
        const int8_t *const from = x + p / pixels * n->row_step + p % pixels * n->step + c;
        uint32_t sum = (uint32_t)stream[c];
        for (int32_t k = 0; k < taps; ++k) {
            const int32_t input = from[k / n->kernel_w * n->pitch + k % n->kernel_w * n->tap];
            sum += (uint32_t)(input * w[2 * k + c]);
        }
        out[p * n->channels + c] = ec_result_c_rvv(sum, stream[2 + c], w[2 * taps + c], limits);
    }
#endif
}

#endif /* EC_RISCV_PRODUCTS_S8_H */
