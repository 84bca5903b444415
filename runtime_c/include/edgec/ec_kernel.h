/* How microkernels are compiled.
 *
 * edgec copies what a model uses into the model's own .c. Each piece stands after a comment of its
 * own, so that it can be cut out.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_KERNEL_H
#define EC_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* Without libc's headers, which a microcontroller's compiler may not have. */
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

/* EC_KERNEL: a function that stays one, however often it is called, and knows nothing of its
 * callers: repeated assembly is longer than compilers believe, and no literal may lie behind it. It
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

/* A function that stays one, whose callers may know which registers it leaves alone. */
#if defined(__GNUC__)
#define EC_SHARED __attribute__((noinline, unused))
#else
#define EC_SHARED
#endif

/* memcpy and memset that a compiler may write as a few loads and stores, where it knows how many
 * bytes there are; -ffreestanding keeps it from doing so for the functions themselves. */
#if defined(__GNUC__)
#define EC_COPY(to, from, bytes) __builtin_memcpy((to), (from), (bytes))
#define EC_FILL(to, value, bytes) __builtin_memset((to), (value), (bytes))
#else
#define EC_COPY(to, from, bytes) memcpy((to), (from), (bytes))
#define EC_FILL(to, value, bytes) memset((to), (value), (bytes))
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

#endif /* EC_KERNEL_H */
