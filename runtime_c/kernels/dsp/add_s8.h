/* Sums of two int8 tensors, element by element, for the DSP extension of Armv7E-M: four elements at a
 * time.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_ADD_S8_H
#define EC_ADD_S8_H

#include "edgec/ec_kernel.h"
#include "edgec/ec_math.h"

/* acc plus (wide times the low half of x) >> 16. */
static inline EC_UNUSED int32_t ec_smlawb(int32_t wide, int32_t x, int32_t acc) {
#if EC_DSP_ACLE
    return __smlawb(wide, x, acc);
#else
    return acc + (int32_t)((int64_t)wide * (int16_t)((uint32_t)x & 0xFFFFu) >> 16);
#endif
}

/* acc plus (wide times the high half of x) >> 16. */
static inline EC_UNUSED int32_t ec_smlawt(int32_t wide, int32_t x, int32_t acc) {
#if EC_DSP_ACLE
    return __smlawt(wide, x, acc);
#else
    return acc + (int32_t)((int64_t)wide * (x >> 16) >> 16);
#endif
}

/* The high half-words of x and y, each limited to 0..255, x below. */
static inline EC_UNUSED uint32_t ec_high_bytes(int32_t x, int32_t y) {
    return (uint32_t)ec_saturate_u8(x >> 16) | (uint32_t)ec_saturate_u8(y >> 16) << 16;
}

/* out[i] = (((a[i] * first >> 8) + (b[i] * second >> 8) + constant) >> 16) - 128, limited to int8, for
 * i < count, which is a multiple of 4. All sums fit in int32, whatever is added first. Four elements at
 * a time, which are read before they are written; nothing needs an alignment. */
static EC_KERNEL void ec_add_s8_dsp(int8_t *out, const int8_t *a, const int8_t *b, int32_t count,
                                    int32_t first, int32_t second, int32_t constant) {
#if EC_DSP_ASM
    register int8_t *r0 __asm__("r0") = out;
    register const int8_t *r1 __asm__("r1") = a;
    register const int8_t *r2 __asm__("r2") = b;
    register int32_t r3 __asm__("r3") = count;
    register int32_t r11 __asm__("r11") = first;
    register int32_t r12 __asm__("r12") = second;
    register int32_t lr __asm__("lr") = constant;
    /* clang-format off */
    __asm__ volatile(
        "mov r6, #0xFF00FF00\n"
        "1:\n"
        "ldr r4, [r1], #4\n"
        "ldr r5, [r2], #4\n"
        "and r8, r6, r4, lsl #8\n" /* elements 0 and 2, times 256 */
        "and r9, r6, r5, lsl #8\n"
        "ands r4, r4, r6\n" /* elements 1 and 3 */
        "ands r5, r5, r6\n"
        "smlawb r10, r11, r8, lr\n"
        "smlawt r8, r11, r8, lr\n"
        "smlawb r10, r12, r9, r10\n"
        "smlawt r8, r12, r9, r8\n"
        "smlawb r9, r11, r4, lr\n"
        "smlawt r4, r11, r4, lr\n"
        "smlawb r9, r12, r5, r9\n"
        "smlawt r4, r12, r5, r4\n"
        "pkhtb r8, r8, r10, asr #16\n"
        "pkhtb r4, r4, r9, asr #16\n"
        "usat16 r8, #8, r8\n"
        "usat16 r4, #8, r4\n"
        "orr r4, r8, r4, lsl #8\n"
        "eor r4, r4, #0x80808080\n"
        "str r4, [r0], #4\n"
        "subs r3, #4\n"
        "bne 1b\n"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        : "r"(r11), "r"(r12), "r"(lr)
        : "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory");
    /* clang-format on */
#else
    const uint32_t even = 0xFF00FF00u;
    do {
        const uint32_t x = (uint32_t)ec_load_word(a);
        const uint32_t y = (uint32_t)ec_load_word(b);
        const int32_t x0 = (int32_t)(x << 8 & even);
        const int32_t y0 = (int32_t)(y << 8 & even);
        const int32_t x1 = (int32_t)(x & even);
        const int32_t y1 = (int32_t)(y & even);
        const int32_t n0 = ec_smlawb(second, y0, ec_smlawb(first, x0, constant));
        const int32_t n2 = ec_smlawt(second, y0, ec_smlawt(first, x0, constant));
        const int32_t n1 = ec_smlawb(second, y1, ec_smlawb(first, x1, constant));
        const int32_t n3 = ec_smlawt(second, y1, ec_smlawt(first, x1, constant));
        const uint32_t sums = ec_high_bytes(n0, n2) | ec_high_bytes(n1, n3) << 8;
        ec_store_word(out, (int32_t)(sums ^ 0x80808080u));
        a += 4;
        b += 4;
        out += 4;
        count -= 4;
    } while (count != 0);
#endif
}

#endif /* EC_ADD_S8_H */
