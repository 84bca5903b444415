/* Macros for compiling microkernels.
 *
 * edgec copies the pieces that a model uses into the model's own .c. Each piece has its own comment
 * before it, so that it can be cut out.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_KERNEL_H
#define EC_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* Without libc's headers, which a microcontroller's compiler may not have. */
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

/* EC_KERNEL: a function that stays one, however often it is called, and knows nothing of its
 * callers: repeated assembly is longer than compilers believe, and no literal may lie after it. It
 * is aligned to 4 bytes also where size counts: assembly computes addresses from the pc.
 * EC_UNUSED: a function that only the C beside some assembly calls. */
#if defined(__clang__)
#define EC_KERNEL __attribute__((noinline, unused, aligned(4)))
#define EC_UNUSED __attribute__((unused))
#elif defined(__GNUC__)
#define EC_KERNEL __attribute__((noipa, unused, aligned(4)))
#define EC_UNUSED __attribute__((unused))
#else
#define EC_KERNEL
#define EC_UNUSED
#endif

/* EC_SHARED: a function that stays one, whose callers may know which registers it leaves alone.
 * EC_PURE: its result follows from its arguments alone, and that is all it does. */
#if defined(__GNUC__)
#define EC_SHARED __attribute__((noinline, unused))
#define EC_PURE __attribute__((const))
#else
#define EC_SHARED
#define EC_PURE
#endif

/* In addition to `static inline`: a function that is always inlined, because its callers pass numbers
 * that are known at compile time. */
#if defined(__GNUC__)
#define EC_INLINE __attribute__((always_inline, unused))
#else
#define EC_INLINE
#endif

/* The next loop, whose number of rounds is known and small, becomes straight code. */
#if defined(__clang__)
#define EC_STRAIGHT _Pragma("unroll")
#elif defined(__GNUC__)
#define EC_STRAIGHT _Pragma("GCC unroll 8")
#else
#define EC_STRAIGHT
#endif

/* A memcpy that a compiler may write as a few loads and stores, where it knows how many bytes there
 * are; -ffreestanding keeps it from doing so for the function itself. */
#if defined(__GNUC__)
#define EC_COPY(to, from, bytes) __builtin_memcpy((to), (from), (bytes))
#else
#define EC_COPY(to, from, bytes) memcpy((to), (from), (bytes))
#endif

/* The same of memset. */
#if defined(__GNUC__)
#define EC_FILL(to, value, bytes) __builtin_memset((to), (value), (bytes))
#else
#define EC_FILL(to, value, bytes) memset((to), (value), (bytes))
#endif

/* Whether the compiler has vectors of GNU C and converts them. EC_NO_VECTORS leaves them out. */
#if defined(__clang__) && !defined(EC_NO_VECTORS)
#define EC_VECTORS 1
#elif defined(__GNUC__) && !defined(EC_NO_VECTORS)
#define EC_VECTORS (__GNUC__ >= 9)
#else
#define EC_VECTORS 0
#endif

/* A pointer that is known to be aligned to four bytes. */
#if defined(__GNUC__)
#define EC_WORDS(pointer) __builtin_assume_aligned((pointer), 4)
#else
#define EC_WORDS(pointer) (pointer)
#endif

/* A model of --no-asm includes them itself, at its top. */
#if defined(EC_NO_ASM) && defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h>
#endif

/* Whether the DSP instructions are functions of Arm's C Language Extensions, in place of assembly. */
#if defined(EC_NO_ASM) && defined(__ARM_FEATURE_SIMD32)
#define EC_DSP_ACLE 1
#else
#define EC_DSP_ACLE 0
#endif

/* Whether the compiler takes GNU assembly and the core has the DSP instructions of Armv7E-M.
 * EC_NO_ASM leaves assembly out. */
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(EC_NO_ASM)
#define EC_DSP_ASM 1
#else
#define EC_DSP_ASM 0
#endif

/* Whether it does and the core has a floating-point unit too. */
#if defined(__ARM_FP) && EC_DSP_ASM
#define EC_DSP_FPU_ASM 1
#else
#define EC_DSP_FPU_ASM 0
#endif

/* Whether it does and the core has the integer vectors of Armv8.1-M (MVE). */
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE) && !defined(EC_NO_ASM)
#define EC_MVE_ASM 1
#else
#define EC_MVE_ASM 0
#endif

/* Whether these vectors have floats too. */
#if defined(__ARM_FEATURE_MVE) && EC_MVE_ASM
#define EC_MVE_FLOAT_ASM ((__ARM_FEATURE_MVE & 2) != 0)
#else
#define EC_MVE_FLOAT_ASM 0
#endif

/* The word at p, which needs no alignment. */
static inline EC_UNUSED int32_t ec_load_word(const void *p) {
    int32_t word;
    EC_COPY(&word, p, sizeof word);
    return word;
}

/* A word stored at p, which needs no alignment. */
static inline EC_UNUSED void ec_store_word(void *p, int32_t word) {
    EC_COPY(p, &word, sizeof word);
}

/* The word at p, which is aligned to 4 bytes; a compiler that knows may load two at once. */
static inline EC_UNUSED int32_t ec_load_aligned(const void *p) {
    int32_t word;
#if defined(__GNUC__)
    EC_COPY(&word, __builtin_assume_aligned(p, 4), sizeof word);
#else
    EC_COPY(&word, p, sizeof word);
#endif
    return word;
}

/* Two int16 in x times two in y, added to acc; modulo 2^32. */
static inline EC_UNUSED int32_t ec_smlad(int32_t x, int32_t y, int32_t acc) {
#if EC_DSP_ACLE
    return __smlad(x, y, acc);
#elif EC_DSP_ASM
    int32_t sum;
    __asm__("smlad %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc));
    return sum;
#else
    const uint32_t low =
        (uint32_t)((int16_t)((uint32_t)x & 0xFFFFu) * (int16_t)((uint32_t)y & 0xFFFFu));
    return (int32_t)((uint32_t)acc + low + (uint32_t)((x >> 16) * (y >> 16)));
#endif
}

/* Two int16 in x times two in y, added to acc; modulo 2^64. */
static inline EC_UNUSED int64_t ec_smlald(int32_t x, int32_t y, int64_t acc) {
#if EC_DSP_ACLE
    return __smlald(x, y, acc);
#elif EC_DSP_ASM
    __asm__("smlald %Q0, %R0, %1, %2" : "+r"(acc) : "r"(x), "r"(y));
    return acc;
#else
    const int32_t low_x = (int16_t)((uint32_t)x & 0xFFFFu);
    const int32_t low_y = (int16_t)((uint32_t)y & 0xFFFFu);
    return acc + low_x * low_y + (x >> 16) * (y >> 16);
#endif
}

/* Bytes 0 and 2 of x as two int16. */
static inline EC_UNUSED int32_t ec_sxtb16(int32_t x) {
#if EC_DSP_ACLE
    return (int32_t)__sxtb16(x);
#elif EC_DSP_ASM
    int32_t pair;
    __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(x));
    return pair;
#else
    const uint32_t low = (uint32_t)(int8_t)((uint32_t)x & 0xFFu) & 0xFFFFu;
    return (int32_t)(low | (uint32_t)(int8_t)((uint32_t)x >> 16 & 0xFFu) << 16);
#endif
}

/* Bytes 1 and 3 of x as two int16. */
static inline EC_UNUSED int32_t ec_sxtb16_odd(int32_t x) {
#if EC_DSP_ASM
    int32_t pair;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(x));
    return pair;
#else
    return ec_sxtb16((int32_t)((uint32_t)x >> 8 | (uint32_t)x << 24));
#endif
}

/* Bytes 0 and 2 of x added to the two int16 of sums. */
static inline EC_UNUSED int32_t ec_sxtab16(int32_t sums, int32_t x) {
#if EC_DSP_ASM
    int32_t both;
    __asm__("sxtab16 %0, %1, %2" : "=r"(both) : "r"(sums), "r"(x));
    return both;
#elif EC_DSP_ACLE
    return __sxtab16(sums, x);
#else
    const uint32_t low = (uint32_t)sums + (uint32_t)(int8_t)((uint32_t)x & 0xFFu);
    const uint32_t high = ((uint32_t)sums >> 16) + (uint32_t)(int8_t)((uint32_t)x >> 16 & 0xFFu);
    return (int32_t)((low & 0xFFFFu) | high << 16);
#endif
}

/* Bytes 1 and 3 of x added to the two int16 of sums. */
static inline EC_UNUSED int32_t ec_sxtab16_odd(int32_t sums, int32_t x) {
#if EC_DSP_ASM
    int32_t both;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(both) : "r"(sums), "r"(x));
    return both;
#else
    return ec_sxtab16(sums, (int32_t)((uint32_t)x >> 8 | (uint32_t)x << 24));
#endif
}

/* The low half-words of x and y as one word, x below. */
static inline EC_UNUSED int32_t ec_low_halves(int32_t x, int32_t y) {
    return (int32_t)(((uint32_t)x & 0xFFFFu) | (uint32_t)y << 16);
}

/* The high half-words of x and y as one word, x below. */
static inline EC_UNUSED int32_t ec_high_halves(int32_t x, int32_t y) {
    return (int32_t)((uint32_t)x >> 16 | ((uint32_t)y & 0xFFFF0000u));
}

#endif /* EC_KERNEL_H */
