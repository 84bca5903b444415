/* Inputs of matrix products as pairs of int16, for the DSP extension of Armv7E-M.
 *
 * SXTB16 extends bytes 0 and 2 of a word, and rotated by 8 bits bytes 1 and 3: four int8 become the
 * pairs (x[0], x[2]) and (x[1], x[3]). Weights are paired in the same way when edgec packs them.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_PACK_S8_H
#define EC_MATRIX_PACK_S8_H

#include "edgec/ec_kernel.h"
#include "kernels/common/window_sizes.h"

/* Four int8 as two pairs, which begin `step` int16 apart. */
static inline EC_UNUSED void ec_store_four_s8_dsp(int16_t *to, int32_t step, int32_t four) {
    ec_store_word(to, ec_sxtb16(four));
    ec_store_word(to + step, ec_sxtb16_odd(four));
}

/* octets * 8 int8 as pairs, to[octet][2][odd][2]; x needs no alignment. */
static EC_KERNEL void ec_pack_octets_s8_dsp(int16_t *to, const int8_t *x, int32_t octets) {
#if EC_DSP_ASM
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = x;
    register int32_t r2 __asm__("r2") = octets;
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r7}\n"
                     "0:\n"
                     "ldr r3, [r1], #4\n"
                     "ldr r12, [r1], #4\n"
                     "sxtb16 r4, r3\n"
                     "sxtb16 r5, r3, ror #8\n"
                     "sxtb16 r6, r12\n"
                     "sxtb16 r7, r12, ror #8\n"
                     "stmia r0!, {r4-r7}\n"
                     "subs r2, #1\n"
                     "bne 0b\n"
                     "pop {r4-r7}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2)
                     :
                     : "r3", "r12", "cc", "memory");
#else
    for (int32_t quad = 0; quad < 2 * octets; ++quad) {
        ec_store_four_s8_dsp(to + 4 * quad, 2, ec_load_word(x + 4 * quad));
    }
#endif
}

/* One row of `depth` int8 as pairs, to[octet][2][odd][2]; zeros fill the last octet. */
static inline void ec_pack_row_s8_dsp(int16_t *to, const int8_t *x, int32_t depth) {
    const int32_t whole = depth & ~7;
    if (whole != 0) {
        ec_pack_octets_s8_dsp(to, x, whole / 8);
    }
    if (whole != depth) {
        for (int32_t i = whole; i < whole + 8; ++i) {
            const int32_t from = (i & ~3) + ((i & 3) >> 1) + 2 * (i & 1);
            to[i] = from < depth ? x[from] : 0;
        }
    }
}

/* The next quads * 4 int8 of three pixels as pairs, to[quad][odd][pixel][2]. The pixels need no
 * alignment; quads >= 1. */
static EC_KERNEL void ec_pack_3_s8_dsp(int16_t *to, const int8_t *a, const int8_t *b,
                                       const int8_t *c, int32_t quads) {
#if EC_DSP_ASM
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register const int8_t *r3 __asm__("r3") = c;
    register int32_t r12 __asm__("r12") = quads;
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r11, lr}\n"
                     "and lr, r12, #3\n"
                     "lsr r12, r12, #2\n"
                     "rsb lr, lr, #4\n"
                     "cmp lr, #4\n"
                     "ite ne\n"
                     "addne r12, r12, #1\n"
                     "moveq lr, #0\n"
                     /* The loop has four; the first round starts after the missing ones. */
                     "movs r4, #40\n" /* bytes of code for one */
                     "mul lr, lr, r4\n"
                     "adr.w r4, 0f\n"
                     "add lr, r4, lr\n"
                     "orr lr, lr, #1\n"
                     "bx lr\n"
                     ".balign 4\n"
                     "0:\n"
                     ".rept 4\n"
                     "ldr r4, [r1], #4\n"
                     "ldr r5, [r2], #4\n"
                     "ldr r6, [r3], #4\n"
                     "sxtb16 r7, r4\n"
                     "sxtb16 r8, r5\n"
                     "sxtb16 r9, r6\n"
                     "sxtb16 r10, r4, ror #8\n"
                     "sxtb16 r11, r5, ror #8\n"
                     "sxtb16 lr, r6, ror #8\n"
                     "stmia r0!, {r7-r11, lr}\n"
                     ".endr\n"
                     "subs r12, #1\n"
                     "bne.w 0b\n"
                     "pop {r4-r11, lr}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r12)
                     :
                     : "cc", "memory");
#else
    for (int32_t quad = 0; quad < quads; ++quad, to += 12) {
        ec_store_four_s8_dsp(to, 6, ec_load_word(a + 4 * quad));
        ec_store_four_s8_dsp(to + 2, 6, ec_load_word(b + 4 * quad));
        ec_store_four_s8_dsp(to + 4, 6, ec_load_word(c + 4 * quad));
    }
#endif
}

/* Three neighbouring rows of `depth` int8 as pairs, to[quad][odd][row][2]; zeros fill the last
 * quad. */
static inline void ec_pack_rows_3_s8_dsp(int16_t *to, const int8_t *x, int32_t depth) {
    const int32_t whole = depth & ~3;
    if (whole != 0) {
        ec_pack_3_s8_dsp(to, x, x + depth, x + 2 * depth, whole / 4);
    }
    if (whole != depth) {
        for (int32_t p = 0; p < 3; ++p) {
            int16_t *const at = to + 3 * whole + 2 * p;
            const int8_t *const from = x + p * depth + whole;
            at[0] = from[0];
            at[1] = whole + 2 < depth ? from[2] : 0;
            at[6] = whole + 1 < depth ? from[1] : 0;
            at[7] = 0;
        }
    }
}

/* One word of each of `rows` rows of three pixels as pairs, to[row][odd][pixel][2]; the pixels need
 * no alignment, their rows lie `stride` bytes apart; rows >= 1. */
static EC_KERNEL void ec_pack_words_3_s8_dsp(int16_t *to, const int8_t *a, const int8_t *b,
                                             const int8_t *c, int32_t rows, int32_t stride) {
#if EC_DSP_ASM
    const int32_t sizes[2] = { rows, stride };
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register const int8_t *r3 __asm__("r3") = c;
    register const int32_t *r12 __asm__("r12") = sizes;
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r11, lr}\n"
                     "ldr lr, [r12, #4]\n"
                     "ldr r12, [r12]\n"
                     "0:\n"
                     "ldr r4, [r1]\n"
                     "ldr r5, [r2]\n"
                     "ldr r6, [r3]\n"
                     "add r1, r1, lr\n"
                     "add r2, r2, lr\n"
                     "add r3, r3, lr\n"
                     "sxtb16 r7, r4\n"
                     "sxtb16 r8, r5\n"
                     "sxtb16 r9, r6\n"
                     "sxtb16 r10, r4, ror #8\n"
                     "sxtb16 r11, r5, ror #8\n"
                     "sxtb16 r6, r6, ror #8\n"
                     "stmia r0!, {r7-r11}\n"
                     "str r6, [r0], #4\n"
                     "subs r12, #1\n"
                     "bne.n 0b\n"
                     "pop {r4-r11, lr}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r12)
                     :
                     : "cc", "memory");
#else
    for (int32_t row = 0; row < rows; ++row) {
        ec_pack_3_s8_dsp(to + 12 * row, a + stride * row, b + stride * row, c + stride * row, 1);
    }
#endif
}

/* The windows of output pixels `pixel` to `pixel` + 2 as pairs, to[quad][odd][pixel][2]: kernel_h *
 * kernel_w * channels int8 each, row by row. Inputs outside of x are zero_point; if `padded` is 0, there
 * are none. channels is a multiple of 4; or kernel_w * channels is, without padding and without dilation
 * in width. */
static inline void ec_pack_windows_3_s8_dsp(int16_t *to, const int8_t *x, int32_t height,
                                            int32_t width, int32_t channels, int32_t kernel_h,
                                            int32_t kernel_w, int32_t stride_h, int32_t stride_w,
                                            int32_t dilation_h, int32_t dilation_w, int32_t top,
                                            int32_t left, int32_t out_width, int32_t padded,
                                            int32_t zero_point, int32_t pixel) {
    const int32_t row = width * channels;
    int32_t h[3], w[3], at[3];
    int32_t is_inside = 1;
    for (int32_t p = 0; p < 3; ++p) {
        h[p] = (pixel + p) / out_width * stride_h - top;
        w[p] = (pixel + p) % out_width * stride_w - left;
        at[p] = h[p] * row + w[p] * channels;
        is_inside &= h[p] >= 0 && h[p] + (kernel_h - 1) * dilation_h < height && w[p] >= 0 &&
                     w[p] + (kernel_w - 1) * dilation_w < width;
    }
    if (!padded || is_inside) {
        const int32_t run = kernel_w * channels; /* bytes that lie one after the other */
        if (dilation_w == 1 && run == 4) {
            ec_pack_words_3_s8_dsp(to, x + at[0], x + at[1], x + at[2], kernel_h, dilation_h * row);
            return;
        }
        for (int32_t kh = 0; kh < kernel_h; ++kh) {
            const int8_t *const from = x + kh * dilation_h * row;
            if (kernel_w == 1 || dilation_w == 1) {
                ec_pack_3_s8_dsp(to, from + at[0], from + at[1], from + at[2], run / 4);
                to += 3 * run;
                continue;
            }
            for (int32_t kw = 0; kw < kernel_w; ++kw) {
                const int8_t *const tap = from + kw * dilation_w * channels;
                ec_pack_3_s8_dsp(to, tap + at[0], tap + at[1], tap + at[2], channels / 4);
                to += 3 * channels;
            }
        }
        return;
    }
    for (int32_t kh = 0; kh < kernel_h; ++kh) {
        for (int32_t kw = 0; kw < kernel_w; ++kw) {
            const int32_t step = kh * dilation_h * row + kw * dilation_w * channels;
            const int8_t *from[3];
            uint32_t outside = 0u;
            for (int32_t p = 0; p < 3; ++p) {
                const uint32_t y = (uint32_t)(h[p] + kh * dilation_h);
                const uint32_t z = (uint32_t)(w[p] + kw * dilation_w);
                const int32_t is_in = y < (uint32_t)height && z < (uint32_t)width;
                from[p] = is_in ? x + at[p] + step : x;
                outside |= is_in ? 0u : 1u << p;
            }
            if (outside != 7u) {
                ec_pack_3_s8_dsp(to, from[0], from[1], from[2], channels / 4);
            }
            for (int32_t p = 0; p < 3; ++p) {
                if ((outside >> p & 1u) != 0u) {
                    for (int32_t i = 0; i < channels / 2; ++i) {
                        to[6 * i + 2 * p] = (int16_t)zero_point;
                        to[6 * i + 2 * p + 1] = (int16_t)zero_point;
                    }
                }
            }
            to += 3 * channels;
        }
    }
}

/* One word of each of `rows` rows of two pixels as pairs, to[row][odd][pixel][2]; the pixels need no
 * alignment, their rows lie `stride` bytes apart; rows >= 1. */
static EC_KERNEL void ec_pack_words_2_s8_dsp(int16_t *to, const int8_t *a, const int8_t *b,
                                             int32_t rows, int32_t stride) {
#if EC_DSP_ASM
    register int16_t *r0 __asm__("r0") = to;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register int32_t r3 __asm__("r3") = stride;
    register int32_t r12 __asm__("r12") = rows;
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r7}\n"
                     "0:\n"
                     "ldr r6, [r1]\n"
                     "ldr r7, [r2]\n"
                     "add r1, r1, r3\n"
                     "add r2, r2, r3\n"
                     "sxtb16 r4, r6\n"
                     "sxtb16 r5, r7\n"
                     "sxtb16 r6, r6, ror #8\n"
                     "sxtb16 r7, r7, ror #8\n"
                     "stmia r0!, {r4-r7}\n"
                     "subs r12, #1\n"
                     "bne.n 0b\n"
                     "pop {r4-r7}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r12)
                     : "r"(r3)
                     : "cc", "memory");
#else
    for (int32_t row = 0; row < rows; ++row) {
        for (int32_t i = 0; i < 4; ++i) {
            const int32_t from = stride * row + (i >> 1) + 2 * (i & 1);
            int16_t *const at = to + 8 * row + 4 * (i >> 1) + (i & 1);
            at[0] = a[from];
            at[2] = b[from];
        }
    }
#endif
}

/* Two neighbouring rows of `depth` int8 as pairs, to[quad][odd][row][2]; zeros fill the last
 * quad. */
static inline void ec_pack_rows_2_s8_dsp(int16_t *to, const int8_t *x, int32_t depth) {
    const int32_t whole = depth & ~3;
    if (whole != 0) {
        ec_pack_words_2_s8_dsp(to, x, x + depth, whole / 4, 4);
    }
    if (whole != depth) {
        for (int32_t p = 0; p < 2; ++p) {
            int16_t *const at = to + 2 * whole + 2 * p;
            const int8_t *const from = x + p * depth + whole;
            at[0] = from[0];
            at[1] = whole + 2 < depth ? from[2] : 0;
            at[4] = whole + 1 < depth ? from[1] : 0;
            at[5] = 0;
        }
    }
}

/* ec_pack_windows_3_s8_dsp for output pixels `pixel` and `pixel` + 1. */
static inline void ec_pack_windows_2_s8_dsp(int16_t *to, const int8_t *x, int32_t height,
                                            int32_t width, int32_t channels, int32_t kernel_h,
                                            int32_t kernel_w, int32_t stride_h, int32_t stride_w,
                                            int32_t dilation_h, int32_t dilation_w, int32_t top,
                                            int32_t left, int32_t out_width, int32_t padded,
                                            int32_t zero_point, int32_t pixel) {
    const int32_t row = width * channels;
    int32_t h[2], w[2], at[2];
    int32_t is_inside = 1;
    for (int32_t p = 0; p < 2; ++p) {
        h[p] = (pixel + p) / out_width * stride_h - top;
        w[p] = (pixel + p) % out_width * stride_w - left;
        at[p] = h[p] * row + w[p] * channels;
        is_inside &= h[p] >= 0 && h[p] + (kernel_h - 1) * dilation_h < height && w[p] >= 0 &&
                     w[p] + (kernel_w - 1) * dilation_w < width;
    }
    if (!padded || is_inside) {
        const int32_t run = kernel_w * channels; /* bytes that lie one after the other */
        if (dilation_w == 1 && run == 4) {
            ec_pack_words_2_s8_dsp(to, x + at[0], x + at[1], kernel_h, dilation_h * row);
            return;
        }
        for (int32_t kh = 0; kh < kernel_h; ++kh) {
            const int8_t *const from = x + kh * dilation_h * row;
            if (kernel_w == 1 || dilation_w == 1) {
                ec_pack_words_2_s8_dsp(to, from + at[0], from + at[1], run / 4, 4);
                to += 2 * run;
                continue;
            }
            for (int32_t kw = 0; kw < kernel_w; ++kw) {
                const int8_t *const tap = from + kw * dilation_w * channels;
                ec_pack_words_2_s8_dsp(to, tap + at[0], tap + at[1], channels / 4, 4);
                to += 2 * channels;
            }
        }
        return;
    }
    for (int32_t kh = 0; kh < kernel_h; ++kh) {
        for (int32_t kw = 0; kw < kernel_w; ++kw) {
            const int32_t step = kh * dilation_h * row + kw * dilation_w * channels;
            const int8_t *from[2];
            uint32_t outside = 0u;
            for (int32_t p = 0; p < 2; ++p) {
                const uint32_t y = (uint32_t)(h[p] + kh * dilation_h);
                const uint32_t z = (uint32_t)(w[p] + kw * dilation_w);
                const int32_t is_in = y < (uint32_t)height && z < (uint32_t)width;
                from[p] = is_in ? x + at[p] + step : x;
                outside |= is_in ? 0u : 1u << p;
            }
            if (outside != 3u) {
                ec_pack_words_2_s8_dsp(to, from[0], from[1], channels / 4, 4);
            }
            for (int32_t p = 0; p < 2; ++p) {
                if ((outside >> p & 1u) != 0u) {
                    for (int32_t i = 0; i < channels / 2; ++i) {
                        to[4 * i + 2 * p] = (int16_t)zero_point;
                        to[4 * i + 2 * p + 1] = (int16_t)zero_point;
                    }
                }
            }
            to += 2 * channels;
        }
    }
}

/* Gather the window of output pixel `pixel`, padded with zeros to whole quads. */
static inline EC_INLINE void ec_gather_taps_s8_dsp(int8_t *to, const int8_t *x,
                                                   const ec_window_sizes *n, int32_t pixel) {
    const int32_t row = n->width * n->channels;
    const int32_t run = n->kernel_w * n->channels;
    const int32_t h = pixel / n->out_width * n->stride_h - n->top;
    const int32_t w = pixel % n->out_width * n->stride_w - n->left;
    int8_t *at = to;
    EC_FILL(at + (n->kernel_h * run + 3) / 4 * 4 - 4, 0, 4u);
    if (!n->padded || (h >= 0 && h + (n->kernel_h - 1) * n->dilation_h < n->height && w >= 0 &&
                       w + n->kernel_w <= n->width)) {
        const int8_t *from = x + h * row + w * n->channels;
        for (int32_t kh = 0; kh < n->kernel_h; ++kh) {
            EC_COPY(at, from + kh * n->dilation_h * row, (size_t)run);
            at += run;
        }
        return;
    }
    const int32_t begin = ec_max_s32(-w, 0) * n->channels;
    const int32_t end = ec_min_s32(n->width - w, n->kernel_w) * n->channels;
    EC_FILL(at, n->zero_point, (size_t)(n->kernel_h * run));
    for (int32_t kh = 0; kh < n->kernel_h; ++kh) {
        const int32_t y = h + kh * n->dilation_h;
        for (int32_t i = begin; y >= 0 && y < n->height && i < end; ++i) {
            at[i] = x[y * row + w * n->channels + i];
        }
        at += run;
    }
}

/* The same as ec_pack_windows_3_s8_dsp for any number of channels, at most `stride` inputs in a window,
 * not dilated in width; zeros fill the last quad. windows: room for three copies. */
static inline EC_INLINE void ec_pack_copies_3_s8_dsp(int16_t *to, const int8_t *x,
                                                     const ec_window_sizes *n, int32_t pixel,
                                                     int8_t *windows, int32_t stride) {
    for (int32_t p = 0; p < 3; ++p) {
        ec_gather_taps_s8_dsp(windows + p * stride, x, n, pixel + p);
    }
    ec_pack_3_s8_dsp(to, windows, windows + stride, windows + 2 * stride,
                     (n->kernel_h * n->kernel_w * n->channels + 3) / 4);
}

/* The same for at most 80 inputs. */
static inline void ec_pack_taps_3_s8_dsp(int16_t *to, const int8_t *x, const ec_window_sizes *n,
                                         int32_t pixel) {
    int8_t windows[3 * 80];
    ec_pack_copies_3_s8_dsp(to, x, n, pixel, windows, 80);
}

/* The same for at most 32 inputs, which takes 144 bytes less of the stack. */
static inline void ec_pack_few_taps_3_s8_dsp(int16_t *to, const int8_t *x, const ec_window_sizes *n,
                                             int32_t pixel) {
    int8_t windows[3 * 32];
    ec_pack_copies_3_s8_dsp(to, x, n, pixel, windows, 32);
}

/* An image, its place in the padded image, and the value of the padding. */
typedef struct {
    int32_t height, width, channels, top, left, out_height, out_width, zero_point;
} ec_pad_sizes;

/* A copy of x [height][width][channels] with zero_point around it: to[out_height][out_width][
 * channels], where x begins at row `top` and column `left`, and is cut where it does not fit. */
static inline void ec_pad_s8(int8_t *to, const int8_t *x, const ec_pad_sizes *n) {
    const int32_t inside = n->width < n->out_width - n->left ? n->width : n->out_width - n->left;
    for (int32_t h = 0; h < n->out_height; ++h) {
        int8_t *const row = to + h * n->out_width * n->channels;
        if (h < n->top || h >= n->top + n->height) {
            (void)memset(row, n->zero_point, (size_t)(n->out_width * n->channels));
            continue;
        }
        for (int32_t i = 0; i < n->left * n->channels; ++i) {
            row[i] = (int8_t)n->zero_point;
        }
        (void)memcpy(row + n->left * n->channels, x + (h - n->top) * n->width * n->channels,
                     (size_t)(inside * n->channels));
        for (int32_t i = (n->left + inside) * n->channels; i < n->out_width * n->channels; ++i) {
            row[i] = (int8_t)n->zero_point;
        }
    }
}

#endif /* EC_MATRIX_PACK_S8_H */
