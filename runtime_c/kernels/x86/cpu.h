/* Whether the processor has the vectors of x86 that a file is compiled for.
 *
 * Source of the bits: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID;
 * volume 1, chapter 13, XCR0.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_X86_CPU_H
#define EC_X86_CPU_H

#include "edgec/ec_kernel.h"

/* The instruction CPUID as a function. */
#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#define EC_HAS_CPUID 1
#else
#define EC_HAS_CPUID 0
#endif

/* Bits that must be there: of leaf 1 in ecx, of leaf 7 in ebx and ecx, and of XCR0: the system saves the
 * registers. AVX2 comes with FMA, AVX-512 with its parts BW and VL. */
#if defined(__AVX512VNNI__)
#define EC_CPU_BITS \
    { 1u << 27 | 1u << 12, 1u << 5 | 1u << 16 | 1u << 30 | 1u << 31, 1u << 11, 0xE6u }
#elif defined(__AVX512BW__)
#define EC_CPU_BITS \
    { 1u << 27 | 1u << 12, 1u << 5 | 1u << 16 | 1u << 30 | 1u << 31, 0u, 0xE6u }
#elif defined(__AVX2__)
#define EC_CPU_BITS \
    { 1u << 27 | 1u << 12, 1u << 5, 0u, 6u }
#elif defined(__SSE4_2__)
#define EC_CPU_BITS \
    { 1u << 20, 0u, 0u, 0u }
#else
#define EC_CPU_BITS \
    { 0u, 0u, 0u, 0u }
#endif

/* Whether the processor has the vectors that this file is compiled for. */
static inline EC_UNUSED int ec_has_vectors_x86(void) {
#if EC_HAS_CPUID
    const uint32_t bits[4] = EC_CPU_BITS;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    __cpuid_count(1, 0, a, b, c, d);
    if ((c & bits[0]) != bits[0]) {
        return 0;
    }
    if (bits[3] == 0u) {
        return 1;
    }
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if ((a & bits[3]) != bits[3] || (uint32_t)__get_cpuid_max(0, NULL) < 7u) {
        return 0;
    }
    __cpuid_count(7, 0, a, b, c, d);
    return (b & bits[1]) == bits[1] && (c & bits[2]) == bits[2];
#else
    return 1;
#endif
}

#endif /* EC_X86_CPU_H */
