/* Depthwise convolution of int16 inputs and int8 weights on MVE: eight channels at a time.
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
        __asm__ volatile("vdup.16 q6, %[input]\n"
                         "lsr %[input], %[input], #16\n"
                         "vdup.16 q7, %[input]\n"
                         "1:\n" /* eight channels */
                         "vldrw.32 q4, [%[from]], #16\n"
                         "vldrw.32 q5, [%[from]], #16\n"
                         "dls lr, %[taps]\n"
                         "2:\n"
                         "ldr %[input], [%[from]], #4\n"
                         "add %[input], %[input], %[at]\n"
                         "vldrb.s16 q1, [%[from]], #8\n"
                         "vldrh.u16 q0, [%[input]]\n"
                         "vmullb.s16 q2, q0, q1\n"
                         "vadd.i32 q4, q4, q2\n"
                         "vmullt.s16 q2, q0, q1\n"
                         "vadd.i32 q5, q5, q2\n"
                         "le lr, 2b\n"
                         ".irp a, q4, q5\n"
                         "vldrw.32 q0, [%[from]], #16\n"
                         "vmulh.s32 \\a, \\a, q0\n"
                         "vldrw.32 q0, [%[from]], #16\n"
                         "vrshl.s32 \\a, \\a, q0\n"
                         ".endr\n"
                         "vqmovnb.s32 q0, q4\n"
                         "vqmovnt.s32 q0, q5\n"
                         "vmax.s16 q0, q0, q6\n"
                         "vmin.s16 q0, q0, q7\n"
                         "vstrh.16 q0, [%[to]]\n"
                         "add %[to], %[to], %[bytes]\n"
                         "add %[at], %[at], %[bytes]\n"
                         "mov %[bytes], #16\n"
                         "subs %[left], %[left], #1\n"
                         "bne 1b\n"
                         : [from] "+&l"(from), [at] "+&r"(at), [to] "+&r"(to), [left] "+&r"(left),
                           [bytes] "+&r"(bytes), [input] "+&r"(input)
                         : [taps] "r"(taps)
                         : "lr", "q0", "q1", "q2", "q4", "q5", "q6", "q7", "cc", "memory");
#else
        const int32_t *at = stream;
        for (int32_t block = 0; block < blocks; ++block) {
            const int32_t first = block == 0 ? 0 : second + 8 * (block - 1);
            const int32_t *const scales = at + 8 + 3 * taps;
            for (int32_t i = 0; i < 8; ++i) {
                const int32_t lane = 4 * (i & 1) + (i >> 1);
                const int32_t scale = 8 * (i & 1) + (i >> 1);
                uint32_t sum = (uint32_t)at[lane];
                for (int32_t t = 0; t < taps; ++t) {
                    const int32_t *const own = at + 8 + 3 * t;
                    const int8_t weight = ((const int8_t *)(own + 1))[i];
                    sum += (uint32_t)(x[own[0] / 2 + first + i] * weight);
                }
                const int32_t value =
                    ec_requantize_tflm16_high((int32_t)sum, scales[scale], -scales[scale + 4]);
                out[first + i] = ec_limited_s16(value, minimum, maximum);
            }
            at = scales + 16;
        }
#endif
        out += channels;
        x += p % pixels == pixels - 1 ? row_step - (pixels - 1) * step : step;
    }
}

#endif /* EC_MVE_DEPTHWISE_S16_H */
