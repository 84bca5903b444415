/* Functions of floats without libm, the same bits on every machine.
 *
 * Only operations that IEEE 754 rounds correctly (+ - * / and comparisons) and integer operations
 * on the bits, in the order of `edgec/numerics/float_math.py`, which states the bounds of their errors.
 * Compile with -ffp-contract=off. edgec copies the functions a model uses into the model's own .c.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_FLOAT_H
#define EC_FLOAT_H

#include "edgec/ec_math.h"

/* 2^n, n from -126 to 127 */
static inline float ec_power_of_two_f32(int32_t n) {
    return ec_f32_from_bits((uint32_t)(n + 127) << 23);
}

/* The finite float16 whose bits these are: its exponent counts from 127 - 15 lower. */
static inline float ec_f32_from_f16(uint32_t bits) {
    const uint32_t low = ((bits & 0x8000u) << 16) | ((bits & 0x7FFFu) << 13);
    return ec_f32_from_bits(low) * ec_power_of_two_f32(112);
}

/* The float of the bits of a narrow one: sign, exponent, `mantissa` bits. kind: 0 IEEE 754; 1 the
 * largest magnitude is the only NaN; 2 minus zero is; 3 there is none. */
static inline float ec_widen_f32(uint32_t bits, int32_t width, int32_t mantissa, int32_t bias,
                                 int32_t kind) {
    const uint32_t top = 1u << (width - 1);
    const uint32_t size = bits & (top - 1u);
    const uint32_t end = kind == 0 ? top - (1u << mantissa) : kind == 1 ? top - 1u : top;
    const int is_negative = (bits & top) != 0u;
    float y = ec_f32_from_bits(size << (23 - mantissa)) * ec_power_of_two_f32(127 - bias);
    if (size > end || (size == end && kind != 0) || (kind == 2 && is_negative && size == 0u)) {
        return ec_f32_from_bits(0x7FC00000u);
    }
    if (size == end) {
        y = ec_f32_from_bits(0x7F800000u);
    }
    return is_negative ? -y : y;
}

/* The bits of the nearest narrow float, ties to even; beyond the largest that one if `saturate`. */
static inline uint32_t ec_narrow_f32(float x, int32_t width, int32_t mantissa, int32_t bias,
                                     int32_t kind, int32_t saturate) {
    const uint32_t bits = ec_bits_from_f32(x);
    const uint32_t size = bits & 0x7FFFFFFFu;
    const uint32_t top = 1u << (width - 1);
    const uint32_t end = kind == 0 ? top - (1u << mantissa) : kind == 1 ? top - 1u : top;
    if (size > 0x7F800000u) {
        return kind == 3 ? top : kind == 0 ? end | (1u << (mantissa - 1)) : end;
    }
    const int is_normal = size >= 0x00800000u;
    const uint32_t digits = is_normal ? (size & 0x007FFFFFu) | 0x00800000u : size;
    const int32_t place = (is_normal ? (int32_t)(size >> 23) : 1) - 127 + bias;
    int32_t shift = 23 - mantissa + (place < 1 ? 1 - place : 0);
    shift = shift > 25 ? 25 : shift;
    const uint32_t rest = digits & ((1u << shift) - 1u);
    const uint32_t half = 1u << (shift - 1);
    uint32_t found = digits >> shift;
    found += rest > half || (rest == half && (found & 1u) != 0u) ? 1u : 0u;
    found += (uint32_t)(place < 1 ? 0 : place - 1) << mantissa;
    if (found >= end) {
        found = saturate != 0 || kind == 3 ? end - 1u : end;
    }
    const int is_unsigned = found >= top || (kind == 2 && found == 0u);
    return found | ((bits >> 31) != 0u && !is_unsigned ? top : 0u);
}

/* e^x: x = n ln 2 + r, a polynomial of r, and 2^n in two exact factors. */
static inline float ec_exp_f32(float x) {
    if (x != x) {
        return x;
    }
    const float limited = ec_min_f32(ec_max_f32(x, -104.0f), 89.0f);
    const float n = (limited * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float r = (limited - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 0.0001978926593437791f;
    p = p * r + 0.0013945752289146185f;
    p = p * r + 0.00833350419998169f;
    p = p * r + 0.04166628047823906f;
    p = p * r + 0.1666666567325592f;
    p = p * r + 0.5f;
    const float y = (r * r * p + r) + 1.0f;
    const int32_t power = (int32_t)n;
    const int32_t half = power >> 1;
    return y * ec_power_of_two_f32(half) * ec_power_of_two_f32(power - half);
}

/* The natural logarithm: x = 2^k (1 + f). -inf for zeros, NaN for negative numbers. */
static inline float ec_log_f32(float x) {
    uint32_t bits = ec_bits_from_f32(x);
    if ((bits & 0x7FFFFFFFu) == 0) {
        return ec_f32_from_bits(0xFF800000u);
    }
    if (bits >= 0x7F800000u) { /* negative, infinity or NaN */
        return x < 0.0f ? ec_f32_from_bits(0x7FC00000u) : x;
    }
    int32_t bias = 127;
    if (bits < 0x00800000u) { /* a denormal, whose exponent says nothing */
        bits = ec_bits_from_f32(x * 8388608.0f);
        bias = 127 + 23;
    }
    bits += 0x3F800000u - 0x3F3504F3u; /* the mantissa then starts at sqrt(1/2) */
    const float k = (float)((int32_t)(bits >> 23) - bias);
    const float f = ec_f32_from_bits((bits & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    const float s = f / (f + 2.0f);
    const float z = s * s;
    float p = 0.23584990203380585f;
    p = p * z + 0.28537169098854065f;
    p = p * z + 0.4000033736228943f;
    p = p * z + 0.6666666269302368f;
    const float half = 0.5f * f * f;
    const float low = s * (z * p + half) + k * -2.12194440e-4f;
    return k * 0.693359375f + (f - (half - low));
}

/* 1 / (1 + e^-x), by the exponential of -|x|, which cannot overflow. */
static inline float ec_sigmoid_f32(float x) {
    const float t = ec_exp_f32(x < 0.0f ? x : -x);
    return (x < 0.0f ? t : 1.0f) / (t + 1.0f);
}

/* A polynomial near zero, 1 - 2 / (e^(2|x|) + 1) elsewhere. */
static inline float ec_tanh_f32(float x) {
    const float size = x < 0.0f ? -x : x;
    if (size < 0.625f) {
        const float z = x * x;
        float p = 0.0021429588086903095f;
        p = p * z + -0.008177394978702068f;
        p = p * z + 0.021700700744986534f;
        p = p * z + -0.05394676327705383f;
        p = p * z + 0.1333320587873459f;
        p = p * z + -0.3333333134651184f;
        return x + x * z * p;
    }
    const float large = 1.0f - 2.0f / (ec_exp_f32(size + size) + 1.0f);
    return x < 0.0f ? -large : large;
}

/* The error function: a polynomial near zero, 1 - e^polynomial elsewhere. */
static inline float ec_erf_f32(float x) {
    if (x != x) {
        return x;
    }
    const float size = x < 0.0f ? -x : x;
    if (size < 1.0f) {
        const float z = x * x;
        float p = 0.0000785385738708079f;
        p = p * z + -0.0008010192541405559f;
        p = p * z + 0.005188327748328447f;
        p = p * z + -0.026853810995817184f;
        p = p * z + 0.1128358542919159f;
        p = p * z + -0.3761262595653534f;
        p = p * z + 0.12837916612625122f;
        return x + x * p;
    }
    const float limited = ec_min_f32(size, 4.0f);
    float p = 0.00018557484145276248f;
    p = p * limited + -0.0029396151658147573f;
    p = p * limited + 0.021805349737405777f;
    p = p * limited + -0.10303743183612823f;
    p = p * limited + -0.6382256150245667f;
    p = p * limited + -1.1270400285720825f;
    p = p * limited + -0.0003537095617502928f;
    const float large = 1.0f - ec_exp_f32(p);
    return x < 0.0f ? -large : large;
}

/* The square root, correctly rounded: an instruction where there is one, else digit by digit. */
static inline float ec_sqrt_f32(float x) {
#if defined(__GNUC__) && (defined(__SSE2__) || defined(__aarch64__) || \
                          (defined(__ARM_FP) && (__ARM_FP & 4) && !defined(__SOFTFP__)))
    return __builtin_sqrtf(x);
#else
    uint32_t bits = ec_bits_from_f32(x);
    if ((bits & 0x7FFFFFFFu) == 0 || bits == 0x7F800000u || x != x) {
        return x;
    }
    if ((bits >> 31) != 0) {
        return ec_f32_from_bits(0x7FC00000u);
    }
    int32_t exponent = (int32_t)(bits >> 23);
    uint32_t rest = bits & 0x007FFFFFu;
    if (exponent == 0) { /* a denormal: shift its first bit to where others have theirs */
        exponent = 1;
        while ((rest & 0x00800000u) == 0) {
            rest <<= 1;
            --exponent;
        }
    }
    rest |= 0x00800000u;
    exponent -= 127;
    if ((exponent & 1) != 0) {
        rest <<= 1;
        --exponent;
    }
    rest <<= 1;
    uint32_t root = 0;
    uint32_t taken = 0; /* twice the root so far */
    for (uint32_t digit = 0x01000000u; digit != 0; digit >>= 1) {
        if (taken + digit <= rest) {
            taken += digit + digit;
            rest -= taken - digit;
            root += digit;
        }
        rest <<= 1;
    }
    root += root & (rest != 0 ? 1u : 0u); /* 25 digits: the last one rounds; a tie is impossible */
    return ec_f32_from_bits((root >> 1) + ((uint32_t)((exponent >> 1) + 126) << 23));
#endif
}

/* 1 / sqrt(x), with both roundings. */
static inline float ec_rsqrt_f32(float x) {
    return 1.0f / ec_sqrt_f32(x);
}

/* The remainder of a / b towards zero, with the sign of a; exact. */
static inline float ec_fmod_f32(float a, float b) {
    const uint32_t sign = ec_bits_from_f32(a) & 0x80000000u;
    const uint32_t x = ec_bits_from_f32(a) & 0x7FFFFFFFu;
    const uint32_t y = ec_bits_from_f32(b) & 0x7FFFFFFFu;
    if (y == 0u || x >= 0x7F800000u || y > 0x7F800000u) {
        return ec_f32_from_bits(0x7FC00000u);
    }
    if (x < y) {
        return a;
    }
    uint32_t high = x >> 23;
    uint32_t low = y >> 23;
    uint32_t rest = x & 0x007FFFFFu;
    uint32_t divisor = y & 0x007FFFFFu;
    if (high != 0u) {
        rest |= 0x00800000u;
    } else {
        high = 1u;
    }
    if (low != 0u) {
        divisor |= 0x00800000u;
    } else {
        low = 1u;
    }
    rest %= divisor;
    while (high > low) { /* 24 bits and 8 more fit in 32 */
        const uint32_t bits = high - low < 8u ? high - low : 8u;
        rest = (rest << bits) % divisor;
        high -= bits;
    }
    while (rest != 0u && rest < 0x00800000u && low > 1u) {
        rest <<= 1;
        --low;
    }
    if (rest < 0x00800000u) { /* zero or a denormal */
        return ec_f32_from_bits(sign | rest);
    }
    return ec_f32_from_bits(sign | (low << 23) | (rest & 0x007FFFFFu));
}

/* x without its fraction, towards zero. */
static inline float ec_whole_f32(float x) {
    const float size = x < 0.0f ? -x : x;
    return size < 8388608.0f ? (float)(int32_t)x : x;
}

/* y with the sign of x where y is a zero. */
static inline float ec_signed_zero_f32(float y, float x) {
    const uint32_t sign = ec_bits_from_f32(x) & 0x80000000u;
    return y == 0.0f ? ec_f32_from_bits(sign) : y;
}

/* Round down to an integer. */
static inline float ec_floor_f32(float x) {
    const float whole = ec_whole_f32(x);
    return ec_signed_zero_f32(whole > x ? whole - 1.0f : whole, x);
}

/* Round up to an integer. */
static inline float ec_ceil_f32(float x) {
    const float whole = ec_whole_f32(x);
    return ec_signed_zero_f32(whole < x ? whole + 1.0f : whole, x);
}

/* The nearest integer, ties to even: adding 2^23 leaves no fraction. */
static inline float ec_round_f32(float x) {
    const float size = x < 0.0f ? -x : x;
    float y = x;
    if (size < 8388608.0f) {
        y = x < 0.0f ? (x - 8388608.0f) + 8388608.0f : (x + 8388608.0f) - 8388608.0f;
    }
    return ec_signed_zero_f32(y, x);
}

/* sin(|x| + ahead pi / 2): 24 bits of x by 96 of 2 / pi are 64 bits of a turn. */
static inline float ec_wave_f32(float x, uint32_t ahead) {
    static const uint32_t two_over_pi[8] = {
        0u,          0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u,
        0xF534DDC0u, 0xDB629599u, 0x3C439041u, 0xFE5163ABu,
    };
    const uint32_t bits = ec_bits_from_f32(x) & 0x7FFFFFFFu;
    if (bits >= 0x7F800000u) {
        return ec_f32_from_bits(0x7FC00000u);
    }
    uint32_t n = ahead;
    float r = x < 0.0f ? -x : x;
    if (bits >= 0x3F490FDBu) {
        const uint32_t place = (bits >> 23) - 120u;
        const uint64_t mantissa = (bits & 0x007FFFFFu) | 0x00800000u;
        uint64_t part[3];
        for (uint32_t i = 0; i < 3u; ++i) {
            const uint32_t at = (place >> 5) + i;
            const uint64_t pair =
                ((uint64_t)two_over_pi[at] << 32) | two_over_pi[at < 7u ? at + 1u : 7u];
            part[i] = (pair >> (32u - (place & 31u))) & 0xFFFFFFFFu;
        }
        const uint64_t turn =
            ((mantissa * part[0]) << 32) + mantissa * part[1] + ((mantissa * part[2]) >> 32);
        const uint64_t quarter = (turn + 0x2000000000000000u) >> 62;
        r = (float)(int64_t)(turn - (quarter << 62)) * 3.4061215800e-19f;
        n += (uint32_t)quarter;
    }
    const float z = r * r;
    float y;
    if ((n & 1u) != 0u) {
        float p = 2.443569064780604e-05f;
        p = p * z + -0.0013887344393879175f;
        p = p * z + 0.04166664555668831f;
        y = (1.0f - 0.5f * z) + z * z * p;
    } else {
        float p = 2.7180271899851505e-06f;
        p = p * z + -0.00019839305605273694f;
        p = p * z + 0.008333329111337662f;
        p = p * z + -0.1666666716337204f;
        y = r + r * z * p;
    }
    return (n & 2u) != 0u ? -y : y;
}

/* The sine, of any finite number as exact as of small ones. */
static inline float ec_sin_f32(float x) {
    const float y = ec_wave_f32(x, 0u);
    return (ec_bits_from_f32(x) >> 31) != 0u ? -y : y;
}

/* The cosine, of any finite number as exact as of small ones. */
static inline float ec_cos_f32(float x) {
    return ec_wave_f32(x, 1u);
}

/* The arc tangent; for x that is not small, by the one of -1 / x or of (x - 1) / (x + 1). */
static inline float ec_atan_f32(float x) {
    if (x == 0.0f) {
        return x;
    }
    const float size = x < 0.0f ? -x : x;
    float r = size;
    float start = 0.0f;
    if (size > 2.41421356f) {
        r = -1.0f / size;
        start = 1.57079633f;
    } else if (size > 0.41421356f) {
        r = (size - 1.0f) / (size + 1.0f);
        start = 0.785398163f;
    } else {
        start = 0.0f;
    }
    const float z = r * r;
    float p = 0.08059288561344147f;
    p = p * z + -0.13879556953907013f;
    p = p * z + 0.19977901875972748f;
    p = p * z + -0.33332955837249756f;
    const float y = start + (r + r * z * p);
    return x < 0.0f ? -y : y;
}

/* A polynomial near zero, half the difference of two exponentials elsewhere. */
static inline float ec_sinh_f32(float x) {
    const float size = x < 0.0f ? -x : x;
    if (size < 1.0f) {
        const float z = x * x;
        float p = 2.8174395083624404e-06f;
        p = p * z + 0.0001983606634894386f;
        p = p * z + 0.008333350531756878f;
        p = p * z + 0.1666666716337204f;
        return x + x * z * p;
    }
    const float root = ec_exp_f32(size * 0.5f);
    const float large = 0.5f * root * root - 0.5f / root / root;
    return x < 0.0f ? -large : large;
}

/* Half the sum of two exponentials, by roots that do not overflow. */
static inline float ec_cosh_f32(float x) {
    const float root = ec_exp_f32((x < 0.0f ? -x : x) * 0.5f);
    return 0.5f * root * root + 0.5f / root / root;
}

#endif /* EC_FLOAT_H */
