/* Depthwise convolution of int16 inputs and int8 weights on MVE, to int16 or int8: eight channels at
 * a time.
 *
 * VMULLB and VMULLT multiply the even and the odd ones of eight channels to int32. A stream holds
 * all constants in the order of use. Per eight channels: the biases, those of even channels first;
 * for each tap, how many bytes it reads behind the first one, and eight bytes of weights; for the
 * even and then the odd channels four multipliers M * 2^15 and four times -e, by which
 * ec_requantize_tflm16_high rescales. Where channels are no multiple of eight, the second eight
 * overlap the first.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_MVE_DEPTHWISE_S16_H
#define EC_MVE_DEPTHWISE_S16_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "microkernels/c/store_s16.h"

/* clang-format off */

/* Assembly: the sums in \a rescaled as int16x8 does it. */
#define EC_DEPTHWISE_RESCALE_S16_MVE \
    "vldrw.32 q0, [%[from]], #16\n" \
    "vmulh.s32 \\a, \\a, q0\n" \
    "vldrw.32 q0, [%[from]], #16\n" \
    "vrshl.s32 \\a, \\a, q0\n"

/* Assembly: one pixel. `limits` sets q6 and q7 by what %[input] holds at first, `load` gives eight
 * inputs as int16, by an address in one of `registers`; `rescale` rescales the sums in \a, and `store`
 * stores the results of eight channels in q0. They take the `to_part` of %[bytes], and their inputs
 * the `at_part`. */
#define EC_DEPTHWISE_PIXEL_S16_MVE(limits, load, registers, rescale, store, to_part, at_part) \
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

/* The sums of eight channels behind x, of so many bytes each, by the stream `at`; returns where what
 * they are rescaled by begins. */
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

/* The results of eight channels behind x, by the stream `at`, and what is left of it. */
static inline EC_UNUSED const int32_t *
ec_depthwise_eight_s16_mve(int32_t *results, const int16_t *x, const int32_t *at, int32_t taps) {
    const int32_t *const scales = ec_depthwise_sums_mve(results, x, 2, at, taps);
    for (int32_t i = 0; i < 8; ++i) {
        const int32_t scale = 8 * (i & 1) + (i >> 1);
        results[i] = ec_requantize_tflm16_high(results[i], scales[scale], -scales[scale + 4]);
    }
    return scales + 16;
}

/* out[(h * pixels + p) * channels + c] for `rows` of `pixels` and all channels: int16 of the rescaled
 * sum over kh, kw of x[kh * pitch + kw * tap + h * row_step + p * step + c] * w[kh][kw][c] + bias[c].
 * channels >= 8. A pixel's inputs are read again after its first outputs are written. */
static EC_KERNEL void ec_depthwise_s16_mve(int16_t *out, const int16_t *x, const int32_t *stream,
                                           int32_t kernel_h, int32_t kernel_w, int32_t pitch,
                                           int32_t tap, int32_t row_step, int32_t rows,
                                           int32_t step, int32_t pixels, int32_t channels,
                                           int32_t minimum, int32_t maximum) {
    const int32_t taps = kernel_h * kernel_w;
    const int32_t blocks = (channels + 7) >> 3;
    const int32_t second = channels - 8 * (blocks - 1);
    (void)pitch; /* both are in the stream */
    (void)tap;
#if EC_MVE_ASM
    const int32_t limits = (int32_t)(((uint32_t)maximum << 16) | (uint16_t)minimum);
#endif
    for (int32_t p = 0; p < rows * pixels; ++p) {
#if EC_MVE_ASM
        const int32_t *from = stream;
        const int16_t *at = x;
        int16_t *to = out;
        int32_t left = blocks;
        int32_t bytes = 2 * second;
        int32_t input = limits; /* both in one: -O0 has no register more */
        EC_DEPTHWISE_PIXEL_S16_MVE(EC_DEPTHWISE_LIMITS_S16_MVE, "vldrh.u16", "r",
                                   EC_DEPTHWISE_RESCALE_S16_MVE, EC_DEPTHWISE_STORE_S16_MVE, "",
                                   "");
#else
        const int32_t *at = stream;
        for (int32_t block = 0; block < blocks; ++block) {
            const int32_t first = block == 0 ? 0 : second + 8 * (block - 1);
            int32_t results[8];
            at = ec_depthwise_eight_s16_mve(results, x + first, at, taps);
            for (int32_t i = 0; i < 8; ++i) {
                out[first + i] = ec_limited_s16(results[i], minimum, maximum);
            }
        }
#endif
        out += channels;
        x += p % pixels == pixels - 1 ? row_step - (pixels - 1) * step : step;
    }
}

/* The same to int8: the rescaled sum plus a zero point. */
static EC_KERNEL void ec_depthwise_s16_s8_mve(int8_t *out, const int16_t *x, const int32_t *stream,
                                              int32_t kernel_h, int32_t kernel_w, int32_t pitch,
                                              int32_t tap, int32_t row_step, int32_t rows,
                                              int32_t step, int32_t pixels, int32_t channels,
                                              int32_t zero_point, int32_t minimum,
                                              int32_t maximum) {
    const int32_t taps = kernel_h * kernel_w;
    const int32_t blocks = (channels + 7) >> 3;
    const int32_t second = channels - 8 * (blocks - 1);
    (void)pitch; /* both are in the stream */
    (void)tap;
#if EC_MVE_ASM
    const int32_t limits[3] = { zero_point, minimum, maximum };
#endif
    for (int32_t p = 0; p < rows * pixels; ++p) {
#if EC_MVE_ASM
        const int32_t *from = stream;
        const int16_t *at = x;
        int8_t *to = out;
        int32_t left = blocks;
        int32_t bytes = 2 * second;
        uintptr_t input = (uintptr_t)limits;
        EC_DEPTHWISE_PIXEL_S16_MVE("ldr lr, [%[input]]\n"
                                   "vdup.16 q3, lr\n"
                                   "ldr lr, [%[input], #4]\n"
                                   "vdup.16 q6, lr\n"
                                   "ldr lr, [%[input], #8]\n"
                                   "vdup.16 q7, lr\n",
                                   "vldrh.u16", "r", EC_DEPTHWISE_RESCALE_S16_MVE,
                                   "vqadd.s16 q0, q0, q3\n"
                                   "vmax.s16 q0, q0, q6\n"
                                   "vmin.s16 q0, q0, q7\n"
                                   "vstrb.16 q0, [%[to]]\n",
                                   ", lsr #1", "");
#else
        const int32_t *at = stream;
        for (int32_t block = 0; block < blocks; ++block) {
            const int32_t first = block == 0 ? 0 : second + 8 * (block - 1);
            int32_t results[8];
            at = ec_depthwise_eight_s16_mve(results, x + first, at, taps);
            for (int32_t i = 0; i < 8; ++i) {
                out[first + i] = (int8_t)ec_limited_s16(results[i] + zero_point, minimum, maximum);
            }
        }
#endif
        out += channels;
        x += p % pixels == pixels - 1 ? row_step - (pixels - 1) * step : step;
    }
}

#endif /* EC_MVE_DEPTHWISE_S16_H */
