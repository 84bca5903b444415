/* Rows of an image for the vectors of Armv8.1-M (MVE): with padding, and windows side by side.
 *
 * Loops with tail predication (WLSTP, DLSTP, LETP) move 16 bytes at a time and never touch a byte
 * more than asked for.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_ROWS_S8_H
#define EC_MVE_ROWS_S8_H

#include "edgec/ec_kernel.h"

/* Copy bytes, the lowest first: `to` may overlap `from` from below. */
static inline void ec_copy_s8_mve(int8_t *to, const int8_t *from, int32_t bytes) {
#if EC_MVE_ASM
    __asm__ volatile("wlstp.8 lr, %2, 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%1], #16\n"
                     "vstrb.8 q0, [%0], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : "+&r"(to), "+&r"(from)
                     : "r"(bytes)
                     : "lr", "q0", "cc", "memory");
#else
    for (int32_t i = 0; i < bytes; ++i) {
        to[i] = from[i];
    }
#endif
}

/* Give all bytes one value. */
static inline void ec_fill_s8_mve(int8_t *to, int32_t value, int32_t bytes) {
#if EC_MVE_ASM
    __asm__ volatile("vdup.8 q0, %2\n"
                     "wlstp.8 lr, %1, 2f\n"
                     "1:\n"
                     "vstrb.8 q0, [%0], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : "+&r"(to)
                     : "r"(bytes), "r"(value)
                     : "lr", "q0", "cc", "memory");
#else
    for (int32_t i = 0; i < bytes; ++i) {
        to[i] = (int8_t)value;
    }
#endif
}

/* An image whose pixels have `channels` bytes, and rows of it; see ec_pad_rows_s8_mve. */
typedef struct {
    uint16_t height, width, channels, top, left, rows, out_width, by;
    int16_t zero_point;
} ec_pad_rows_mve_sizes;

/* Some rows of x [height][width][channels] with zero_point around it: to[rows][out_width][channels]
 * from row `row` on of the padded image, in which x begins at row `top` and column `left`; x is cut
 * where it does not fit. Unless row is 0, `to` already has the rows from row - `by` on: all rows except
 * the last `by` are only moved. to and x must not overlap. */
static EC_KERNEL void ec_pad_rows_s8_mve(int8_t *to, const int8_t *x,
                                         const ec_pad_rows_mve_sizes *n, int32_t row) {
    const int32_t height = n->height, width = n->width * n->channels;
    const int32_t bytes = n->out_width * n->channels, before = n->left * n->channels;
    const int32_t inside = width < bytes - before ? width : bytes - before;
    const int32_t zero_point = (uint8_t)n->zero_point;
    const int32_t stop = row - n->top + n->rows;
    int32_t i = row - n->top;
    if (row != 0) {
        const int32_t by = n->by, kept = (n->rows - by) * bytes;
        i = stop - by;
        ec_copy_s8_mve(to, to + by * bytes, kept);
        to += kept;
    }
    do {
        int32_t first = bytes;
        if ((uint32_t)i < (uint32_t)height) {
            first = before;
            ec_copy_s8_mve(to + before, x + i * width, inside);
            ec_fill_s8_mve(to + before + inside, zero_point, bytes - before - inside);
        }
        ec_fill_s8_mve(to, zero_point, first);
        to += bytes;
    } while (++i < stop);
}

/* Where the inputs of a window are: rows of `run` elements, `pitch` apart. */
static inline void ec_find_offsets_mve(uint16_t *offsets, int32_t kernel_h, int32_t run,
                                       int32_t pitch) {
    for (int32_t kh = 0; kh < kernel_h; ++kh) {
        for (int32_t i = kh * pitch; i < kh * pitch + run; ++i) {
            *offsets++ = (uint16_t)i;
        }
    }
}

/* Windows of a row, of kernel_h * kernel_w * channels inputs each. */
typedef struct {
    uint8_t kernel_h, kernel_w;
    uint16_t channels, stride_w, dilation_h, width, pixels;
} ec_columns_mve_sizes;

/* The windows of a row of `pixels` outputs, one after the other, of inputs of 1 or 2 bytes:
 * to[pixels][kernel_h][kernel_w * channels], from rows of `width` pixels. At most 64 inputs in a
 * window, none further than 65535 from the first. to and x must not overlap. */
static inline EC_INLINE void ec_columns_mve(int8_t *to, const int8_t *x, int32_t bytes,
                                            const ec_columns_mve_sizes *n) {
    const int32_t run = n->kernel_w * n->channels, depth = n->kernel_h * run;
    const int32_t step = n->stride_w * n->channels * bytes;
    uint16_t offsets[64];
    ec_find_offsets_mve(offsets, n->kernel_h, run, n->dilation_h * n->width * n->channels);
    for (int32_t p = n->pixels; p > 0; --p) {
#if EC_MVE_ASM
        int8_t *out = to;
        const uint16_t *at = offsets;
        if (bytes == 1) {
            __asm__ volatile("dlstp.16 lr, %3\n"
                             "1:\n"
                             "vldrh.u16 q1, [%1], #16\n"
                             "vldrb.u16 q0, [%2, q1]\n"
                             "vstrb.16 q0, [%0], #8\n"
                             "letp lr, 1b\n"
                             : "+&l"(out), "+&r"(at)
                             : "r"(x), "r"(depth)
                             : "lr", "q0", "q1", "cc", "memory");
        } else {
            __asm__ volatile("dlstp.16 lr, %3\n"
                             "1:\n"
                             "vldrh.u16 q1, [%1], #16\n"
                             "vldrh.u16 q0, [%2, q1, uxtw #1]\n"
                             "vstrh.16 q0, [%0], #16\n"
                             "letp lr, 1b\n"
                             : "+&l"(out), "+&r"(at)
                             : "r"(x), "r"(depth)
                             : "lr", "q0", "q1", "cc", "memory");
        }
#else
        for (int32_t i = 0; i < depth; ++i) {
            EC_COPY(to + i * bytes, x + offsets[i] * bytes, (size_t)bytes);
        }
#endif
        to += depth * bytes;
        x += step;
    }
}

/* ec_columns_mve of int8. */
static EC_KERNEL void ec_columns_s8_mve(int8_t *to, const int8_t *x,
                                        const ec_columns_mve_sizes *n) {
    ec_columns_mve(to, x, 1, n);
}

/* The same of 3x3 windows of three channels, without dilation, that step by one pixel or by two: rows of
 * nine bytes, which a vector holds. */
static EC_KERNEL void ec_columns_rgb_s8_mve(int8_t *to, const int8_t *x, int32_t stride_w,
                                            int32_t width, int32_t pixels) {
#if EC_MVE_ASM
    const int8_t *second = x + 3 * width;
    const int8_t *third = second + 3 * width;
    /* clang-format off */
    __asm__ volatile(
        "vctp.8 %6\n"
        "dls lr, %4\n"
        "cmp %5, #1\n"
        "beq 2f\n"
        "1:\n" /* a window, two pixels from the next */
        "vpstttt\n"
        "vldrbt.8 q0, [%1], #6\n"
        "vstrbt.8 q0, [%0], #9\n"
        "vldrbt.8 q0, [%2], #6\n"
        "vstrbt.8 q0, [%0], #9\n"
        "vpstt\n"
        "vldrbt.8 q0, [%3], #6\n"
        "vstrbt.8 q0, [%0], #9\n"
        "le lr, 1b\n"
        "b 3f\n"
        "2:\n" /* a window, next to the next */
        "vpstttt\n"
        "vldrbt.8 q0, [%1], #3\n"
        "vstrbt.8 q0, [%0], #9\n"
        "vldrbt.8 q0, [%2], #3\n"
        "vstrbt.8 q0, [%0], #9\n"
        "vpstt\n"
        "vldrbt.8 q0, [%3], #3\n"
        "vstrbt.8 q0, [%0], #9\n"
        "le lr, 2b\n"
        "3:\n"
        : "+&r"(to), "+&r"(x), "+&r"(second), "+&r"(third)
        : "r"(pixels), "r"(stride_w), "r"(9)
        : "lr", "q0", "cc", "memory");
    /* clang-format on */
#else
    for (int32_t i = 0; i < 27 * pixels; ++i) {
        to[i] = x[3 * (i % 27 / 9 * width + i / 27 * stride_w) + i % 9];
    }
#endif
}

#endif /* EC_MVE_ROWS_S8_H */
