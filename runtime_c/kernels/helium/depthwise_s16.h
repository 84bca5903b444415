/* Depthwise convolution of int16 inputs and int8 weights on MVE, to int16 or int8: eight channels at
 * a time.
 *
 * VMULLB and VMULLT multiply the even and the odd channels of eight to int32. A stream holds all
 * constants in the order of use. Per eight channels: the biases, even channels first; for each tap its
 * distance from the first tap in bytes, and eight bytes of weights; for the even and then the odd
 * channels four multipliers M * 2^15 and four numbers -e, by which ec_requantize_tflm16_high rescales.
 * If the number of channels is no multiple of eight, the second eight overlap the first.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_S16_H
#define EC_MVE_DEPTHWISE_S16_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/store_s16.h"

/* clang-format off */

/* Assembly: the sums in \a rescaled as int16x8 does it. */
#define EC_DEPTHWISE_RESCALE_S16_MVE \
    "vldrw.32 q0, [%[from]], #16\n" \
    "vmulh.s32 \\a, \\a, q0\n" \
    "vldrw.32 q0, [%[from]], #16\n" \
    "vrshl.s32 \\a, \\a, q0\n"

/* Assembly: one pixel, with the names of ec_depthwise_pixel_s16_mve. `limits` sets q6 and q7 from
 * `ends`, which %[input] holds at first; `load` loads eight inputs as int16 from an address in one of
 * `registers`; `rescale` rescales the sums in \a, and `store` stores the results of eight channels in
 * q0. Results advance by the `to_part` of %[bytes], inputs by the `at_part`. */
#define EC_DEPTHWISE_PIXEL_S16_MVE(ends, limits, load, registers, rescale, store, to_part, at_part) \
    const int32_t *from = stream; \
    const void *at = x; \
    void *to = out; \
    int32_t left = (channels + 7) >> 3; \
    int32_t bytes = 2 * (((channels - 1) & 7) + 1); \
    uintptr_t input = (ends); /* in one register: at -O0 there is no other */ \
    __asm__ volatile( \
        limits \
        "1:\n" /* eight channels */ \
        "vldrw.32 q4, [%[from]], #16\n" \
        "vldrw.32 q5, [%[from]], #16\n" \
        "dls lr, %[taps]\n" \
        "2:\n" \
        "ldr %[input], [%[from]], #4\n" \
        "add %[input], %[input], %[at]\n" \
        "vldrb.s16 q1, [%[from]], #8\n" \
        load " q0, [%[input]]\n" \
        "vmullb.s16 q2, q0, q1\n" \
        "vadd.i32 q4, q4, q2\n" \
        "vmullt.s16 q2, q0, q1\n" \
        "vadd.i32 q5, q5, q2\n" \
        "le lr, 2b\n" \
        ".irp a, q4, q5\n" \
        rescale \
        ".endr\n" \
        "vqmovnb.s32 q0, q4\n" \
        "vqmovnt.s32 q0, q5\n" \
        store \
        "add %[to], %[to], %[bytes]" to_part "\n" \
        "add %[at], %[at], %[bytes]" at_part "\n" \
        "mov %[bytes], #16\n" \
        "subs %[left], %[left], #1\n" \
        "bne 1b\n" \
        : [from] "+&l"(from), [at] "+&r"(at), [to] "+&r"(to), [left] "+&r"(left), \
          [bytes] "+&r"(bytes), [input] "+&" registers(input) \
        : [taps] "r"(taps) \
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory")

/* Assembly: limits of int16 are in %[input], the upper one in its upper half. */
#define EC_DEPTHWISE_LIMITS_S16_MVE \
    "vdup.16 q6, %[input]\n" \
    "lsr %[input], %[input], #16\n" \
    "vdup.16 q7, %[input]\n"

/* Assembly: results of int16, limited. */
#define EC_DEPTHWISE_STORE_S16_MVE \
    "vmax.s16 q0, q0, q6\n" \
    "vmin.s16 q0, q0, q7\n" \
    "vstrh.16 q0, [%[to]]\n"

/* clang-format on */

/* The sums of eight channels of inputs of `bytes` each, from x on, by the stream `at`; returns the
 * address of the rescaling factors. */
static inline EC_UNUSED const int32_t *ec_depthwise_sums_mve(int32_t *sums, const void *x,
                                                             int32_t bytes, const int32_t *at,
                                                             int32_t taps) {
    for (int32_t i = 0; i < 8; ++i) {
        uint32_t sum = (uint32_t)at[4 * (i & 1) + (i >> 1)];
        for (int32_t t = 0; t < taps; ++t) {
            const int32_t *const own = at + 8 + 3 * t;
            const int32_t place = own[0] / bytes + i;
            const int32_t input =
                bytes == 1 ? ((const int8_t *)x)[place] : ((const int16_t *)x)[place];
            sum += (uint32_t)(input * ((const int8_t *)(own + 1))[i]);
        }
        sums[i] = (int32_t)sum;
    }
    return at + 8 + 3 * taps;
}

/* Rescale eight sums as int16x8 does, by the factors at `at`; returns the end of the factors. */
static inline EC_UNUSED const int32_t *ec_depthwise_rescale_s16_mve(int32_t *sums,
                                                                    const int32_t *scales) {
    for (int32_t i = 0; i < 8; ++i) {
        const int32_t scale = 8 * (i & 1) + (i >> 1);
        sums[i] = ec_requantize_tflm16_high(sums[i], scales[scale], -scales[scale + 4]);
    }
    return scales + 16;
}

/* Bytes of a result and of an input, taps, and channels. */
typedef struct {
    int32_t out_bytes, x_bytes, taps, channels;
} ec_depthwise_pixel_c_sizes;

/* One pixel in C; limits: a zero point, the least and the largest result. */
static inline EC_INLINE void
ec_depthwise_pixel_c_mve(void *out, const void *x, const int32_t *stream,
                         const ec_depthwise_pixel_c_sizes *n, const int32_t *limits,
                         const int32_t *(*rescale)(int32_t *, const int32_t *)) {
    const int32_t blocks = (n->channels + 7) >> 3;
    for (int32_t block = 0; block < blocks; ++block) {
        const int32_t first = block == 0 ? 0 : n->channels - 8 * (blocks - block);
        int32_t sums[8];
        stream = ec_depthwise_sums_mve(sums, (const int8_t *)x + n->x_bytes * first, n->x_bytes,
                                       stream, n->taps);
        stream = rescale(sums, stream);
        for (int32_t i = 0; i < 8; ++i) {
            ec_store_limited(out, n->out_bytes, first + i, sums[i] + limits[0], limits[1],
                             limits[2]);
        }
    }
}

/* As for ec_depthwise_s8_mve; zero_point is 0 where results are int16. */
typedef struct {
    int32_t row_step;
    uint16_t step, rows, pixels, channels;
    int16_t zero_point, minimum, maximum;
    uint8_t kernel_h, kernel_w;
} ec_depthwise_s16_mve_sizes;

/* Compute the pixels of ec_depthwise_s16_mve and its variants, each by `compute`; a result has out_bytes,
 * an input x_bytes. */
static inline EC_INLINE void ec_depthwise_pixels_mve(
    void *out, int32_t out_bytes, const void *x, int32_t x_bytes, const int32_t *stream,
    const ec_depthwise_s16_mve_sizes *n,
    void (*compute)(void *, const void *, const int32_t *, int32_t, int32_t, const int32_t *)) {
    const int32_t limits[3] = { n->zero_point, n->minimum, n->maximum };
    const int32_t row_step = n->row_step, step = n->step;
    const int32_t pixels = n->pixels, channels = n->channels, taps = n->kernel_h * n->kernel_w;
    int8_t *to = (int8_t *)out;
    const int8_t *at = (const int8_t *)x;
    for (int32_t p = 0, count = n->rows * pixels; p < count; ++p) {
        compute(to, at, stream, taps, channels, limits);
        to += out_bytes * channels;
        at += x_bytes * (p % pixels == pixels - 1 ? row_step - (pixels - 1) * step : step);
    }
}

/* One pixel of ec_depthwise_s16_mve; limits: as in ec_depthwise_pixel_c_mve. */
static inline EC_INLINE void ec_depthwise_pixel_s16_mve(void *out, const void *x,
                                                        const int32_t *stream, int32_t taps,
                                                        int32_t channels, const int32_t *limits) {
#if EC_MVE_ASM
    EC_DEPTHWISE_PIXEL_S16_MVE((uint32_t)ec_both_limits(limits[1], limits[2]),
                               EC_DEPTHWISE_LIMITS_S16_MVE, "vldrh.u16", "r",
                               EC_DEPTHWISE_RESCALE_S16_MVE, EC_DEPTHWISE_STORE_S16_MVE, "", "");
#else
    const ec_depthwise_pixel_c_sizes n = { 2, 2, taps, channels };
    ec_depthwise_pixel_c_mve(out, x, stream, &n, limits, ec_depthwise_rescale_s16_mve);
#endif
}

/* One pixel of ec_depthwise_s16_s8_mve. */
static inline EC_INLINE void ec_depthwise_pixel_s16_s8_mve(void *out, const void *x,
                                                           const int32_t *stream, int32_t taps,
                                                           int32_t channels,
                                                           const int32_t *limits) {
#if EC_MVE_ASM
    EC_DEPTHWISE_PIXEL_S16_MVE((uintptr_t)limits,
                               "ldr lr, [%[input]]\n"
                               "vdup.16 q3, lr\n"
                               "ldr lr, [%[input], #4]\n"
                               "vdup.16 q6, lr\n"
                               "ldr %[input], [%[input], #8]\n"
                               "vdup.16 q7, %[input]\n",
                               "vldrh.u16", "r", EC_DEPTHWISE_RESCALE_S16_MVE,
                               "vqadd.s16 q0, q0, q3\n"
                               "vmax.s16 q0, q0, q6\n"
                               "vmin.s16 q0, q0, q7\n"
                               "vstrb.16 q0, [%[to]]\n",
                               ", lsr #1", "");
#else
    const ec_depthwise_pixel_c_sizes n = { 1, 2, taps, channels };
    ec_depthwise_pixel_c_mve(out, x, stream, &n, limits, ec_depthwise_rescale_s16_mve);
#endif
}

/* out[(h * pixels + p) * channels + c] for `rows` of `pixels` and all channels: int16 of the rescaled
 * sum over kh, kw of x[kh * pitch + kw * tap + h * row_step + p * step + c] * w[kh][kw][c] + bias[c].
 * channels >= 8. A pixel's inputs are read again after its first outputs are written. */
static EC_KERNEL void ec_depthwise_s16_mve(int16_t *out, const int16_t *x, const int32_t *stream,
                                           const ec_depthwise_s16_mve_sizes *n) {
    ec_depthwise_pixels_mve(out, 2, x, 2, stream, n, ec_depthwise_pixel_s16_mve);
}

/* The same to int8: the rescaled sum plus a zero point. */
static EC_KERNEL void ec_depthwise_s16_s8_mve(int8_t *out, const int16_t *x, const int32_t *stream,
                                              const ec_depthwise_s16_mve_sizes *n) {
    ec_depthwise_pixels_mve(out, 1, x, 2, stream, n, ec_depthwise_pixel_s16_s8_mve);
}

#endif /* EC_MVE_DEPTHWISE_S16_H */
