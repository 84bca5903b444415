/* Whether the processor has the vectors of 64-bit Arm that a file is compiled for.
 *
 * Source of the bits: Linux, Documentation/arm64/elf_hwcaps.rst, HWCAP_ASIMDDP and HWCAP2_I8MM.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_AARCH64_CPU_H
#define EC_AARCH64_CPU_H

#include "edgec/ec_kernel.h"

/* The system's list of CPU features. */
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define EC_HAS_AUXV 1
#else
#define EC_HAS_AUXV 0
#endif

/* Bits that must be there, of AT_HWCAP and of AT_HWCAP2. */
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define EC_HWCAP_BITS \
    { 1u << 20, 1u << 13 }
#elif defined(__ARM_FEATURE_DOTPROD)
#define EC_HWCAP_BITS \
    { 1u << 20, 0u }
#else
#define EC_HWCAP_BITS \
    { 0u, 0u }
#endif

/* Whether the processor has the vectors that this file is compiled for. */
static inline EC_UNUSED int ec_has_vectors_aarch64(void) {
#if EC_HAS_AUXV
    const uint32_t bits[2] = EC_HWCAP_BITS;
    return (getauxval(AT_HWCAP) & bits[0]) == bits[0] &&
           (getauxval(AT_HWCAP2) & bits[1]) == bits[1];
#else
    return 1;
#endif
}

#endif /* EC_AARCH64_CPU_H */
