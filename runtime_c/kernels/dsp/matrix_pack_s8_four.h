/* Inputs of matrix products of int8 for four pixels p to s, as matrix_s8_four.h sums them: three words
 * of each two inputs k and k + 2 in 12 bytes, [k or k + 2][2] of p + 128 and q; q + 128 and r; r + 128
 * and s. The bytes of 0x80 are that offset: it flips the highest bit. Inputs 0 and 2 of four come
 * first, then 1 and 3.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MATRIX_PACK_S8_FOUR_H
#define EC_MATRIX_PACK_S8_FOUR_H

#include "kernels/dsp/matrix_pack_s8.h"

/* Four inputs of two neighbouring pixels: a word of inputs 0 and 2, 12 bytes after it one of 1 and 3. */
static inline EC_UNUSED void ec_pack_pair_s8_dsp(int8_t *to, int32_t first, int32_t second) {
    const uint32_t low = (uint32_t)first ^ 0x80808080u;
    const uint32_t even = (low & 0x00FF00FFu) | ((uint32_t)second & 0x00FF00FFu) << 8;
    const uint32_t odd = (low >> 8 & 0x00FF00FFu) | ((uint32_t)second & 0xFF00FF00u);
    EC_COPY(EC_WORDS(to), &even, sizeof even);
    EC_COPY(EC_WORDS(to + 12), &odd, sizeof odd);
}

/* The next `words` words of int8 of four pixels, which begin `first` bytes after from[p] and need no
 * alignment; words lie `stride` bytes apart; words >= 1. The last pixel may lie at the end of `to`. */
static EC_KERNEL void ec_pack_4_s8_dsp(int8_t *to, const int8_t *const *from, int32_t first,
                                       int32_t words, int32_t stride) {
#if EC_DSP_ASM
    register int8_t *r0 __asm__("r0") = to;
    register const int8_t *const *r1 __asm__("r1") = from;
    register int32_t r2 __asm__("r2") = first;
    register int32_t r3 __asm__("r3") = words;
    register int32_t r12 __asm__("r12") = stride;
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r11, lr}\n"
                     "mov lr, r3\n"
                     "ldmia r1, {r4-r7}\n"
                     "adds r1, r4, r2\n"
                     "subs r2, r6, r4\n"
                     "subs r3, r5, r4\n"
                     "sub r11, r7, r4\n"
                     "mov r4, #0xff00ff00\n"
                     "uadd8 r4, r4, r4\n" /* now SEL takes odd bytes from its first operand */
                     "0:\n"
                     "ldr r4, [r1]\n"
                     "ldr r5, [r1, r3]\n"
                     "ldr r6, [r1, r2]\n"
                     "eor r4, r4, #0x80808080\n"
                     "lsr r8, r4, #8\n"
                     "sel r8, r5, r8\n"
                     "lsls r7, r5, #8\n"
                     "sel r4, r7, r4\n"
                     "eor r5, r5, #0x80808080\n"
                     "lsr r9, r5, #8\n"
                     "sel r9, r6, r9\n"
                     "lsls r7, r6, #8\n"
                     "sel r5, r7, r5\n"
                     "ldr r7, [r1, r11]\n"
                     "add r1, r1, r12\n"
                     "eor r6, r6, #0x80808080\n"
                     "lsr r10, r6, #8\n"
                     "sel r10, r7, r10\n"
                     "lsls r7, r7, #8\n"
                     "sel r6, r7, r6\n"
                     "stmia r0!, {r4-r6, r8-r10}\n"
                     "subs lr, #1\n"
                     "bne.n 0b\n"
                     "pop {r4-r11, lr}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), "+r"(r12)
                     :
                     : "cc", "memory");
#else
    for (int32_t word = 0; word < words; ++word, to += 24, first += stride) {
        int32_t pixels[4];
        for (int32_t p = 0; p < 4; ++p) {
            pixels[p] = ec_load_word(from[p] + first);
        }
        for (int32_t p = 0; p < 3; ++p) {
            ec_pack_pair_s8_dsp(to + 4 * p, pixels[p], pixels[p + 1]);
        }
    }
#endif
}

/* Four neighbouring rows of `depth` int8; zeros fill the last four. */
static inline void ec_pack_rows_4_s8_dsp(int8_t *to, const int8_t *x, int32_t depth) {
    const int32_t whole = depth & ~3;
    const int8_t *from[4] = { x, x + depth, x + 2 * depth, x + 3 * depth };
    if (whole != 0) {
        ec_pack_4_s8_dsp(to, from, 0, whole / 4, 4);
    }
    if (whole != depth) {
        int8_t last[4][4] = { { 0 } };
        for (int32_t p = 0; p < 4; ++p) {
            for (int32_t i = whole; i < depth; ++i) {
                last[p][i - whole] = x[p * depth + i];
            }
            from[p] = last[p];
        }
        ec_pack_4_s8_dsp(to + 6 * whole, from, 0, 1, 4);
    }
}

/* ec_pack_windows_4_s8_dsp with some inputs outside of x. The end of `to` holds their values; the last
 * pack reads them before it writes there. */
static EC_KERNEL void ec_pack_edges_4_s8_dsp(int8_t *to, const int8_t *x, const ec_window_sizes *n,
                                             int32_t pixel) {
    const int32_t channels = n->channels;
    int8_t *const around = to + (6 * n->kernel_h * n->kernel_w - 1) * channels;
    EC_FILL(around, n->zero_point, (size_t)channels);
    for (int32_t tap = 0; tap < n->kernel_h * n->kernel_w; ++tap) {
        const int32_t top = tap / n->kernel_w * n->dilation_h - n->top;
        const int32_t left = tap % n->kernel_w * n->dilation_w - n->left;
        const int8_t *from[4];
        for (int32_t p = 0; p < 4; ++p) {
            const int32_t y = (pixel + p) / n->out_width * n->stride_h + top;
            const int32_t z = (pixel + p) % n->out_width * n->stride_w + left;
            const int32_t is_in =
                (uint32_t)y < (uint32_t)n->height && (uint32_t)z < (uint32_t)n->width;
            from[p] = is_in ? x + (y * n->width + z) * channels : around;
        }
        ec_pack_4_s8_dsp(to, from, 0, channels / 4, 4);
        to += 6 * channels;
    }
}

/* One row of the windows of four neighbouring pixels, three columns wide: of six columns, from[2],
 * from[0] and three more that lie `step` bytes apart, and from[1]. The first column and the last
 * may lie at the end of `to` in the last row. */
static EC_KERNEL void ec_pack_columns_6_s8_dsp(int8_t *to, const int8_t *const *from, int32_t step,
                                               int32_t channels) {
#if EC_DSP_ASM
    register int8_t *r0 __asm__("r0") = to;
    register const int8_t *const *r1 __asm__("r1") = from;
    register int32_t r2 __asm__("r2") = step;
    register int32_t r3 __asm__("r3") = channels;
    /* Five pairs of columns: r3-r5, r6, r7 have inputs 0 and 2 of the pairs, r6-r10 inputs 1 and 3;
     * three pairs are stored for each column of the windows. */
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r11, lr}\n"
                     "add r3, r3, r3, lsl #1\n"
                     "lsl r11, r3, #1\n"
                     "add r3, r0, r11\n"
                     "push {r3}\n"
                     "sub r11, r11, #24\n" /* to the next column of the windows */
                     "ldmia r1, {r1, r12, lr}\n"
                     "mov r4, #0xff00ff00\n"
                     "uadd8 r4, r4, r4\n" /* now SEL takes odd bytes from its first operand */
                     "0:\n"
                     "ldr r3, [lr], #4\n"
                     "ldr r4, [r1]\n"
                     "eor r3, r3, #0x80808080\n"
                     "lsrs r6, r3, #8\n"
                     "sel r6, r4, r6\n"
                     "lsls r7, r4, #8\n"
                     "sel r3, r7, r3\n"
                     "ldr r5, [r1, r2]\n"
                     "eor r4, r4, #0x80808080\n"
                     "lsrs r7, r4, #8\n"
                     "sel r7, r5, r7\n"
                     "lsl r8, r5, #8\n"
                     "sel r4, r8, r4\n"
                     "ldr r9, [r1, r2, lsl #1]\n"
                     "eor r5, r5, #0x80808080\n"
                     "lsr r8, r5, #8\n"
                     "sel r8, r9, r8\n"
                     "lsl r10, r9, #8\n"
                     "sel r5, r10, r5\n"
                     "stmia r0!, {r3-r8}\n"
                     "eor r6, r9, #0x80808080\n"
                     "adds r3, r1, r2\n"
                     "ldr r10, [r3, r2, lsl #1]\n"
                     "lsr r9, r6, #8\n"
                     "sel r9, r10, r9\n"
                     "lsl r3, r10, #8\n"
                     "sel r6, r3, r6\n"
                     "add r3, r0, r11\n"
                     "stmia r3!, {r4-r9}\n"
                     "eor r7, r10, #0x80808080\n"
                     "lsr r10, r7, #8\n"
                     "ldr r4, [r12], #4\n"
                     "sel r10, r4, r10\n"
                     "lsls r4, r4, #8\n"
                     "sel r7, r4, r7\n"
                     "add r3, r3, r11\n"
                     "stmia r3, {r5-r10}\n"
                     "adds r1, #4\n"
                     "ldr r3, [sp]\n"
                     "cmp r0, r3\n"
                     "bne.n 0b\n"
                     "pop {r3}\n"
                     "pop {r4-r11, lr}\n"
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
                     :
                     : "r12", "cc", "memory");
#else
    for (int32_t i = 0; i < channels; i += 4) {
        int32_t columns[6];
        for (int32_t c = 1; c < 5; ++c) {
            columns[c] = ec_load_word(from[0] + (c - 1) * step + i);
        }
        columns[0] = ec_load_word(from[2] + i);
        columns[5] = ec_load_word(from[1] + i);
        for (int32_t tap = 0; tap < 3; ++tap) {
            int8_t *const at = to + 6 * (channels * tap + i);
            for (int32_t p = 0; p < 3; ++p) {
                ec_pack_pair_s8_dsp(at + 4 * p, columns[tap + p], columns[tap + p + 1]);
            }
        }
    }
#endif
}

/* ec_pack_windows_4_s8_dsp for windows of three columns, one beside the other, and four pixels of one row:
 * of their six columns, only the first and the last may be outside. channels is a multiple of 4. The end
 * of `to` holds the values outside of x. */
static EC_KERNEL void ec_pack_neighbours_4_s8_dsp(int8_t *to, const int8_t *x,
                                                  const ec_window_sizes *n, int32_t pixel) {
    const int32_t channels = n->channels;
    const int32_t column = pixel % n->out_width - n->left;
    int8_t *const around = to + (18 * n->kernel_h - 1) * channels;
    int32_t y = pixel / n->out_width * n->stride_h - n->top;
    if (n->padded) {
        EC_FILL(around, n->zero_point, (size_t)channels);
    }
    for (int32_t kh = 0; kh < n->kernel_h; ++kh, y += n->dilation_h) {
        const int8_t *from[3] = { around, around, around };
        int32_t step = 0;
        if ((uint32_t)y < (uint32_t)n->height) {
            step = channels;
            from[0] = x + (y * n->width + column + 1) * step;
            if (column >= 0) {
                from[2] = from[0] - step;
            }
            if (column + 5 < n->width) {
                from[1] = from[0] + 4 * step;
            }
        }
        ec_pack_columns_6_s8_dsp(to, from, step, channels);
        to += 18 * channels;
    }
}

/* The windows of output pixels `pixel` to `pixel` + 3, under the conditions of ec_pack_windows_3_s8_dsp. */
static inline EC_INLINE void ec_pack_windows_4_s8_dsp(int8_t *to, const int8_t *x,
                                                      const ec_window_sizes *n, int32_t pixel) {
    const int32_t row = n->width * n->channels;
    const int8_t *from[4];
    if (n->padded) {
        int32_t is_inside = 1;
        for (int32_t p = 0; p < 4; ++p) {
            const int32_t h = (pixel + p) / n->out_width * n->stride_h - n->top;
            const int32_t w = (pixel + p) % n->out_width * n->stride_w - n->left;
            is_inside &= h >= 0 && h + (n->kernel_h - 1) * n->dilation_h < n->height && w >= 0 &&
                         w + (n->kernel_w - 1) * n->dilation_w < n->width;
        }
        if (!is_inside) {
            ec_pack_edges_4_s8_dsp(to, x, n, pixel);
            return;
        }
    }
    for (int32_t p = 0; p < 4; ++p) {
        const int32_t h = (pixel + p) / n->out_width * n->stride_h - n->top;
        const int32_t w = (pixel + p) % n->out_width * n->stride_w - n->left;
        from[p] = x + h * row + w * n->channels;
    }
    const int32_t taps = n->dilation_w == 1 ? 1 : n->kernel_w;
    const int32_t run = n->kernel_w / taps * n->channels; /* bytes that lie one after the other */
    if (taps == 1 && run == 4) {
        ec_pack_4_s8_dsp(to, from, 0, n->kernel_h, n->dilation_h * row);
        return;
    }
    for (int32_t kh = 0; kh < n->kernel_h; ++kh) {
        for (int32_t tap = 0; tap < taps; ++tap, to += 6 * run) {
            ec_pack_4_s8_dsp(to, from, kh * n->dilation_h * row + tap * n->dilation_w * n->channels,
                             run / 4, 4);
        }
    }
}

/* Three windows of `words` words, `stride` bytes apart, and a fourth one at the end of `to`. */
static EC_KERNEL void ec_pack_gathered_4_s8_dsp(int8_t *to, const int8_t *windows, int32_t stride,
                                                int32_t words) {
    const int8_t *const from[4] = { windows, windows + stride, windows + 2 * stride,
                                    to + 20 * words };
    ec_pack_4_s8_dsp(to, from, 0, words, 4);
}

/* ec_pack_windows_4_s8_dsp for any number of channels, at most `stride` inputs in a window, not dilated in
 * width; zeros fill the last four. windows: room for three copies. */
static inline EC_INLINE void ec_pack_copies_4_s8_dsp(int8_t *to, const int8_t *x,
                                                     const ec_window_sizes *n, int32_t pixel,
                                                     int8_t *windows, int32_t stride) {
    const int32_t words = (n->kernel_h * n->kernel_w * n->channels + 3) / 4;
    for (int32_t p = 0; p < 4; ++p) {
        ec_gather_taps_s8_dsp(p < 3 ? windows + p * stride : to + 20 * words, x, n, pixel + p);
    }
    ec_pack_gathered_4_s8_dsp(to, windows, stride, words);
}

/* The same for at most 80 inputs. */
static inline EC_INLINE void ec_pack_taps_4_s8_dsp(int8_t *to, const int8_t *x,
                                                   const ec_window_sizes *n, int32_t pixel) {
    int8_t windows[3 * 80];
    ec_pack_copies_4_s8_dsp(to, x, n, pixel, windows, 80);
}

/* The same for at most 28 inputs, which takes 156 bytes less of the stack. */
static inline EC_INLINE void ec_pack_few_taps_4_s8_dsp(int8_t *to, const int8_t *x,
                                                       const ec_window_sizes *n, int32_t pixel) {
    int8_t windows[3 * 28];
    ec_pack_copies_4_s8_dsp(to, x, n, pixel, windows, 28);
}

#endif /* EC_MATRIX_PACK_S8_FOUR_H */
