/* Vectors of int32 for kernels of int8 on x86: AVX-512 with VNNI, or AVX2. One text of each kernel
 * serves both; these macros are what differs.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_X86_BASE_S8_H
#define EC_X86_BASE_S8_H

#include "edgec/ec_fixed_point.h"
#include "edgec/ec_kernel.h"
#include "kernels/common/rescale_sums.h"

/* EC_X86_LANES: int32 in a vector, 0 without such vectors. EC_X86_WIDEST, EC_X86_UNITS: pixels of
 * one unit, and units, of a tile, whose sums stay in registers.
 *
 * Products take four inputs at a time in EC_X86_PARTS parts, each in every lane: VPDPBUSD all four, as
 * unsigned bytes, 128 more; without VNNI two int16, of which VPMADDWD adds the products exactly. Inputs
 * that several pixels or units share are copied in that form first (EC_V_MOVE of EC_X86_MOVE of them,
 * EC_X86_BYTES each), of which EC_V_PART reads a part; EC_V_RAW and EC_V_RAW_PART read inputs from the
 * image. EC_V_WEIGHTS: the weights of a part. EC_V_DOT: sums plus the products of a part. EC_V_WIDE:
 * int8 of one channel per lane, or of `left` channels. EC_V_MUL_ADD: sum + x * w, of int8 in lanes;
 * EC_V_LOW clears the upper half of each w, so that one of the two int16 products is 0: int16
 * products are faster than int32 products.
 *
 * EC_V_HIGH: (sum * m + nudge) / 2^31, rounded down, by 64-bit products of even and odd lanes, whose
 * nudges are EC_V_NUDGE or, in proportion to 2^e, EC_V_NUDGES(e). EC_V_DOWN: / 2^e, rounded half away
 * from zero, by EC_V_HALF and EC_V_SIGN_BY of e; EC_V_FLOOR: rounded down. Both require a sum that leaves room for 2^(e - 1). EC_V_ONNX:
 * the sum as float * scale, rounded half to even. EC_V_STORE: the lowest bytes of `left` lanes;
 * EC_V_STORE_WORDS: the lanes. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define EC_X86_LANES 16
#define EC_X86_WIDEST 16
#define EC_X86_UNITS 4
#define EC_V __m512i
#define EC_V_LOAD(p) _mm512_loadu_si512(p)
#define EC_V_ALL(n) _mm512_set1_epi32(n)
#define EC_X86_PARTS 1
#define EC_X86_BYTES 1
#define EC_X86_MOVE 64
#define EC_V_MOVE(to, p) _mm512_store_si512((to), ec_moved_x86(EC_V_LOAD(p)))
#define EC_V_MOVE_PART(to, p, left) \
    _mm512_store_si512((to),        \
                       ec_moved_x86(_mm512_maskz_loadu_epi8((UINT64_C(1) << (left)) - 1, (p))))
#define EC_V_PART(p, i) EC_V_ALL(ec_load_word(p))
#define EC_V_RAW(p) ec_moved_x86(EC_V_ALL(ec_load_word(p)))
#define EC_V_RAW_PART(x, i) (x)
#define EC_V_WEIGHTS(w, i) EC_V_LOAD(w)
#define EC_V_DOT(sum, x, w) ec_dot_vnni((sum), (x), (w))
#define EC_V_WIDE(p) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define EC_V_MASK(left) ((__mmask16)((left) < 16 ? (1 << (left)) - 1 : 0xFFFF))
#define EC_V_WIDE_PART(p, left) _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(EC_V_MASK(left), (p)))
#define EC_V_ADD(a, b) _mm512_add_epi32((a), (b))
#define EC_V_LOW(v) _mm512_and_si512((v), EC_V_ALL(0xFFFF))
#define EC_V_MUL_ADD(sum, x, w) _mm512_dpwssd_epi32((sum), (x), (w))
#define EC_V_CLAMP(v, low, high) _mm512_min_epi32(_mm512_max_epi32((v), (low)), (high))
#define EC_V_NUDGE _mm512_set1_epi64(1 << 30)
#define EC_V_NUDGES(e) \
    _mm512_sllv_epi64(EC_V_NUDGE, _mm512_srli_epi64(_mm512_slli_epi64((e), 32), 32))
#define EC_V_ODD(v) _mm512_srli_epi64((v), 32)
#define EC_V_EVEN_HIGH(v, m, nudge) \
    _mm512_srli_epi64(_mm512_add_epi64(_mm512_mul_epi32((v), (m)), (nudge)), 31)
#define EC_V_ODD_HIGH(v, m, nudge) \
    _mm512_slli_epi64(_mm512_add_epi64(_mm512_mul_epi32(EC_V_ODD(v), (m)), (nudge)), 1)
#define EC_V_HIGH(v, m, odd_m, even, odd)                                  \
    _mm512_mask_blend_epi32((__mmask16)0xAAAA, EC_V_EVEN_HIGH(v, m, even), \
                            EC_V_ODD_HIGH(v, odd_m, odd))
#define EC_V_FLOOR(v, e) _mm512_srav_epi32((v), (e))
#define EC_V_SHIFTED_ONE(e) _mm512_sllv_epi32(EC_V_ALL(1), (e))
#define EC_V_SIGN_BY(e)            \
    _mm512_add_epi32(EC_V_ALL(32), \
                     _mm512_srai_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), (e)), 31))
#define EC_V_DOWN(v, e, half, by) \
    EC_V_FLOOR(_mm512_sub_epi32(EC_V_ADD((v), (half)), _mm512_srlv_epi32((v), (by))), (e))
#define EC_V_HALF(e) _mm512_srli_epi32(EC_V_SHIFTED_ONE(e), 1)
#define EC_V_ONNX(v, scale) \
    _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(v), _mm512_castsi512_ps(scale)))
#define EC_V_ROUND_DOWN (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define EC_V_STORE(p, v, left) _mm_mask_storeu_epi8((p), EC_V_MASK(left), _mm512_cvtepi32_epi8(v))
#define EC_V_STORE_WORDS(p, v, left) _mm512_mask_storeu_epi32((p), EC_V_MASK(left), (v))
#elif defined(__AVX2__)
#include <immintrin.h>
#define EC_X86_LANES 8
#define EC_X86_WIDEST 8
#define EC_X86_UNITS 2
#define EC_V __m256i
#define EC_V_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define EC_V_ALL(n) _mm256_set1_epi32(n)
#define EC_X86_PARTS 2
#define EC_X86_BYTES 2
#define EC_X86_MOVE 16
#define EC_V_PAIRS(v) _mm256_cvtepi8_epi16(v)
#define EC_V_MOVE(to, p)                        \
    _mm256_store_si256((__m256i *)(void *)(to), \
                       EC_V_PAIRS(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define EC_V_MOVE_PART(to, p, left)              \
    for (int32_t at = 0; at < (left); ++at) {    \
        ((int16_t *)(void *)(to))[at] = (p)[at]; \
    }
#define EC_V_PART(p, i) EC_V_ALL(ec_load_word((p) + 4 * (i)))
#define EC_V_RAW(p) EC_V_PAIRS(_mm_set1_epi32(ec_load_word(p)))
#define EC_V_RAW_PART(x, i) \
    ((i) == 0 ? _mm256_shuffle_epi32((x), 0) : _mm256_shuffle_epi32((x), 0x55))
#define EC_V_WEIGHTS(w, i) \
    EC_V_PAIRS(_mm_loadu_si128((const __m128i *)(const void *)((w) + 4 * (i))))
#define EC_V_DOT(sum, x, w) EC_V_ADD((sum), _mm256_madd_epi16((x), (w)))
#define EC_V_WIDE(p) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define EC_V_WIDE_PART(p, left) _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(ec_bytes_x86((p), (left))))
#define EC_V_ADD(a, b) _mm256_add_epi32((a), (b))
#define EC_V_LOW(v) _mm256_and_si256((v), EC_V_ALL(0xFFFF))
#define EC_V_MUL_ADD(sum, x, w) EC_V_ADD((sum), _mm256_madd_epi16((x), (w)))
#define EC_V_CLAMP(v, low, high) _mm256_min_epi32(_mm256_max_epi32((v), (low)), (high))
#define EC_V_NUDGE _mm256_set1_epi64x(1 << 30)
#define EC_V_NUDGES(e) \
    _mm256_sllv_epi64(EC_V_NUDGE, _mm256_srli_epi64(_mm256_slli_epi64((e), 32), 32))
#define EC_V_ODD(v) _mm256_srli_epi64((v), 32)
#define EC_V_EVEN_HIGH(v, m, nudge) \
    _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epi32((v), (m)), (nudge)), 31)
#define EC_V_ODD_HIGH(v, m, nudge) \
    _mm256_slli_epi64(_mm256_add_epi64(_mm256_mul_epi32(EC_V_ODD(v), (m)), (nudge)), 1)
#define EC_V_HIGH(v, m, odd_m, even, odd) \
    _mm256_blend_epi32(EC_V_EVEN_HIGH(v, m, even), EC_V_ODD_HIGH(v, odd_m, odd), 0xAA)
#define EC_V_FLOOR(v, e) _mm256_srav_epi32((v), (e))
#define EC_V_SHIFTED_ONE(e) _mm256_sllv_epi32(EC_V_ALL(1), (e))
#define EC_V_SIGN_BY(e)            \
    _mm256_add_epi32(EC_V_ALL(32), \
                     _mm256_srai_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), (e)), 31))
#define EC_V_DOWN(v, e, half, by) \
    EC_V_FLOOR(_mm256_sub_epi32(EC_V_ADD((v), (half)), _mm256_srlv_epi32((v), (by))), (e))
#define EC_V_HALF(e) _mm256_srli_epi32(EC_V_SHIFTED_ONE(e), 1)
#define EC_V_ONNX(v, scale) \
    _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(v), _mm256_castsi256_ps(scale)))
#define EC_V_BYTES(v)                                                                             \
    _mm_packs_epi16(_mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256((v), 1)), \
                    _mm_setzero_si128())
#define EC_V_STORE(p, v, left) ec_store_bytes_x86((p), _mm_cvtsi128_si64(EC_V_BYTES(v)), (left))
#define EC_V_STORE_WORDS(p, v, left) \
    _mm256_maskstore_epi32(          \
        (int *)(void *)(p),          \
        _mm256_cmpgt_epi32(EC_V_ALL(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)), (v))
#else
#define EC_X86_LANES 0
#define EC_V int32_t
#endif

/* A number that compilers must take for a new one. */
#if defined(__GNUC__) && !defined(EC_NO_ASM)
#define EC_X86_NEW(n) __asm__("" : "+r"(n))
#else
#define EC_X86_NEW(n) ((void)(n))
#endif

/* EC_STRAIGHT of up to sixteen rounds. */
#if defined(__GNUC__) && !defined(__clang__)
#define EC_STRAIGHT_16 _Pragma("GCC unroll 16")
#else
#define EC_STRAIGHT_16 EC_STRAIGHT
#endif

/* Bytes that copied inputs of a tile may take. */
#define EC_X86_MOVED 16384

/* int8 as unsigned bytes, 128 more. Only with VNNI. */
static inline EC_INLINE EC_V ec_moved_x86(EC_V x) {
#if EC_X86_LANES == 16
    return _mm512_xor_si512(x, EC_V_ALL((int32_t)0x80808080u));
#else
    return x;
#endif
}

/* sum plus the products of four uint8 of x by four int8 of w, in every lane. As assembly, since gcc 12
 * copies the intrinsic's sums from register to register, and spills many. Only with VNNI. */
static inline EC_UNUSED EC_V ec_dot_vnni(EC_V sum, EC_V x, EC_V w) {
#if EC_X86_LANES == 16 && defined(__GNUC__) && !defined(EC_NO_ASM)
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "vm"(w));
    return sum;
#elif EC_X86_LANES == 16
    return _mm512_dpbusd_epi32(sum, x, w);
#else
    (void)x, (void)w;
    return sum;
#endif
}

/* `left` bytes at p, or eight, the first in the lowest bits. */
static inline EC_UNUSED int64_t ec_bytes_x86(const int8_t *p, int32_t left) {
    int64_t bytes = 0;
    EC_COPY(&bytes, p, (size_t)(left < 8 ? left : 8));
    return bytes;
}

/* The lowest `left` bytes, or all eight, to p. */
static inline EC_UNUSED void ec_store_bytes_x86(int8_t *p, int64_t bytes, int32_t left) {
    if (left >= 8) {
        EC_COPY(p, &bytes, sizeof bytes);
    } else {
        EC_COPY(p, &bytes, (size_t)left);
    }
}

/* For a unit's channels, once for all its pixels: multipliers, odd lanes' multipliers and shifts, then
 * the rounding constant of each lane, or of even and odd lanes. */
static inline EC_INLINE void ec_scales_x86(EC_V *found, const int32_t *scales, int32_t rounding) {
#if EC_X86_LANES
    if (rounding == EC_ROUND_NONE) {
        return;
    }
    found[0] = EC_V_LOAD(scales);
    if (rounding >= EC_ROUND_LINES) {
        found[1] = EC_V_LOAD(scales + EC_X86_LANES);
        found[2] = EC_V_LOAD(scales + 2 * EC_X86_LANES);
        found[3] = EC_V_LOAD(scales + 3 * EC_X86_LANES);
    } else if (rounding != EC_ROUND_ONNX) {
        found[1] = EC_V_ODD(found[0]);
        found[2] = EC_V_LOAD(scales + EC_X86_LANES);
    }
    if (rounding == EC_ROUND_TFLM) {
        found[3] = EC_V_HALF(found[2]);
        found[4] = EC_V_SIGN_BY(found[2]);
    } else if (rounding == EC_ROUND_SINGLE) {
        found[3] = EC_V_NUDGES(found[2]);
        found[4] = EC_V_NUDGES(EC_V_ODD(found[2]));
    }
#else
    (void)found, (void)scales, (void)rounding;
#endif
}

/* `left` of these sums to p: rescaled by the lines that ec_scales_x86 found, moved and limited. Only
 * with VNNI. */
static inline EC_INLINE void ec_store_lines_x86(int8_t *p, EC_V sums, const EC_V *lines,
                                                int32_t rounding, const int32_t *limits,
                                                int32_t left) {
#if EC_X86_LANES == 16
    const __m512 sum = _mm512_cvtepi32_ps(sums), above = _mm512_castsi512_ps(lines[2]);
    const __m512 start =
        rounding == EC_ROUND_LINE
            ? above
            : _mm512_mask_mov_ps(above, _mm512_movepi32_mask(sums), _mm512_castsi512_ps(lines[3]));
    const __m512 rest = _mm512_fmadd_ps(sum, _mm512_castsi512_ps(lines[1]), start);
    const __m512 line =
        _mm512_fmadd_round_ps(sum, _mm512_castsi512_ps(lines[0]), rest, EC_V_ROUND_DOWN);
    const __m512i results = _mm512_cvt_roundps_epi32(line, EC_V_ROUND_DOWN);
    __m128i bytes = _mm512_cvtsepi32_epi8(EC_V_ADD(results, EC_V_ALL(limits[0])));
    if (rounding != EC_ROUND_LINE) {
        bytes = _mm_min_epi8(_mm_max_epi8(bytes, _mm_set1_epi8((char)limits[1])),
                             _mm_set1_epi8((char)limits[2]));
    }
    _mm_mask_storeu_epi8(p, EC_V_MASK(left), bytes);
#else
    (void)p, (void)sums, (void)lines, (void)rounding, (void)limits, (void)left;
#endif
}

/* A vector of sums: rescaled by what ec_scales_x86 found, moved and limited. */
static inline EC_INLINE EC_V ec_rescale_x86(EC_V sums, const EC_V *scales, int32_t rounding,
                                            const int32_t *limits) {
#if EC_X86_LANES
    EC_V value;
    if (rounding == EC_ROUND_ONNX) {
        value = EC_V_ONNX(sums, scales[0]);
    } else if (rounding == EC_ROUND_TFLM) {
        value = EC_V_HIGH(sums, scales[0], scales[1], EC_V_NUDGE, EC_V_NUDGE);
        value = EC_V_DOWN(value, scales[2], scales[3], scales[4]);
    } else {
        value = EC_V_HIGH(sums, scales[0], scales[1], scales[3], scales[4]);
        value = EC_V_FLOOR(value, scales[2]);
    }
    value = EC_V_ADD(value, EC_V_ALL(limits[0]));
    return EC_V_CLAMP(value, EC_V_ALL(limits[1]), EC_V_ALL(limits[2]));
#else
    (void)scales, (void)rounding, (void)limits;
    return sums;
#endif
}

/* `left` of these sums to p, as int8 or as they are. */
static inline EC_INLINE void ec_store_x86(int8_t *p, EC_V sums, const EC_V *scales,
                                          int32_t rounding, const int32_t *limits, int32_t left) {
#if EC_X86_LANES
    if (rounding == EC_ROUND_NONE) {
        EC_V_STORE_WORDS(p, sums, left);
    } else if (rounding >= EC_ROUND_LINES) {
        ec_store_lines_x86(p, sums, scales, rounding, limits, left);
    } else {
        EC_V_STORE(p, ec_rescale_x86(sums, scales, rounding, limits), left);
    }
#else
    (void)p, (void)sums, (void)scales, (void)rounding, (void)limits, (void)left;
#endif
}

/* A sum of a channel in C: rescaled by its constants, `lanes` words apart, moved and limited. */
static inline EC_UNUSED int8_t ec_result_c_x86(uint32_t sum, const int32_t *scales, int32_t lanes,
                                               int32_t rounding, const int32_t *limits) {
    int32_t value;
    if (rounding == EC_ROUND_ONNX) {
        value = ec_rescale_sum_onnx((int32_t)sum, scales, lanes);
    } else if (rounding >= EC_ROUND_LINES) {
        value = ec_rescale_sum_lines((int32_t)sum, scales, lanes);
    } else if (rounding == EC_ROUND_TFLM) {
        value = ec_requantize_tflm_right((int32_t)sum, scales[0], -scales[lanes]);
    } else {
        value = ec_requantize_single((int32_t)sum, scales[0], -scales[lanes]);
    }
    value += limits[0];
    return (int8_t)(value < limits[1] ? limits[1] : value > limits[2] ? limits[2] : value);
}

#endif /* EC_X86_BASE_S8_H */
