/* Arithmetic that compilers call by name, and that libgcc leaves out for the LX106 because the
 * ESP8266 has it in ROM. All are weak: a library's own win.
 *
 * Floating point is IEEE 754's, rounded to nearest, ties to even, with subnormals. Every number is
 * worked on as a mantissa of 63 bits, the last of which stands for all bits that were lost.
 */
#include <stdint.h>

#define GIVEN(type, name, ...) \
    type name(__VA_ARGS__);    \
    __attribute__((weak)) type name(__VA_ARGS__)

/* Two words of one product; a core with no wide multiply makes it of four. */
static uint64_t multiply_words(uint32_t a, uint32_t b) {
    const uint32_t al = a & 0xFFFFu;
    const uint32_t bl = b & 0xFFFFu;
    const uint32_t ah = a >> 16;
    const uint32_t bh = b >> 16;
    const uint32_t low = al * bl;
    const uint32_t cross = ah * bl + (low >> 16); /* below 2^32 */
    const uint32_t middle = al * bh + (cross & 0xFFFFu);
    const uint32_t high = ah * bh + (cross >> 16) + (middle >> 16);
    return ((uint64_t)high << 32) | (middle << 16) | (low & 0xFFFFu);
}

GIVEN(uint64_t, __umulsidi3, uint32_t a, uint32_t b) {
    return multiply_words(a, b);
}

GIVEN(uint64_t, __muldi3, uint64_t a, uint64_t b) {
    const uint32_t crossed = (uint32_t)a * (uint32_t)(b >> 32) + (uint32_t)(a >> 32) * (uint32_t)b;
    return multiply_words((uint32_t)a, (uint32_t)b) + ((uint64_t)crossed << 32);
}

static uint64_t size_of(int64_t value) {
    return value < 0 ? 0u - (uint64_t)value : (uint64_t)value;
}

/* `divide`, and by it the functions that compilers call, of numbers with and without a sign. Division
 * by zero returns all ones, and the remainder is the dividend. */
#define DIVISION(divide, word, number, bits, udiv, umod, div, mod)           \
    static word divide(word a, word b, word *rest) {                         \
        word quotient = 0u;                                                  \
        word left = 0u;                                                      \
        for (uint32_t bit = (bits); bit != 0u; bit--) {                      \
            const word carry = left >> ((bits)-1u);                          \
            left = (left << 1) | (a >> ((bits)-1u));                         \
            a <<= 1;                                                         \
            quotient <<= 1;                                                  \
            if (carry != 0u || left >= b) {                                  \
                left -= b;                                                   \
                quotient |= 1u;                                              \
            }                                                                \
        }                                                                    \
        *rest = left;                                                        \
        return quotient;                                                     \
    }                                                                        \
    GIVEN(word, udiv, word a, word b) {                                      \
        word rest;                                                           \
        return divide(a, b, &rest);                                          \
    }                                                                        \
    GIVEN(word, umod, word a, word b) {                                      \
        word rest;                                                           \
        (void)divide(a, b, &rest);                                           \
        return rest;                                                         \
    }                                                                        \
    GIVEN(number, div, number a, number b) {                                 \
        word rest;                                                           \
        const word size = divide((word)size_of(a), (word)size_of(b), &rest); \
        return (number)((a < 0) != (b < 0) ? 0u - size : size);              \
    }                                                                        \
    GIVEN(number, mod, number a, number b) {                                 \
        word rest;                                                           \
        (void)divide((word)size_of(a), (word)size_of(b), &rest);             \
        return (number)(a < 0 ? 0u - rest : rest);                           \
    }

DIVISION(divide_words, uint32_t, int32_t, 32u, __udivsi3, __umodsi3, __divsi3, __modsi3)
DIVISION(divide_long, uint64_t, int64_t, 64u, __udivdi3, __umoddi3, __divdi3, __moddi3)

typedef enum {
    ZERO,
    FINITE,
    INFINITE,
    NO_NUMBER
} kind_t;

/* mantissa * 2^(exponent - 62), with bit 62 of the mantissa set, if it is finite and not 0. */
typedef struct {
    kind_t kind;
    uint32_t sign;
    int32_t exponent;
    uint64_t mantissa;
} number_t;

/* Bits of the fraction and of the exponent. */
typedef struct {
    uint32_t fraction;
    uint32_t exponent;
} format_t;

static const format_t single = { 23u, 8u };
static const format_t twice = { 52u, 11u };

/* Shifts right; the last bit stays set if any that goes was. */
static uint64_t shift_right(uint64_t value, uint32_t by) {
    if (by > 63u) {
        return value != 0u ? 1u : 0u;
    }
    const uint64_t kept = value >> by;
    return kept | (kept << by != value ? 1u : 0u);
}

static number_t normal(number_t a) {
    if (a.mantissa == 0u) {
        a.kind = ZERO;
        return a;
    }
    const uint32_t high = (uint32_t)(a.mantissa >> 32);
    if (high >> 31 != 0u) {
        a.mantissa = (a.mantissa >> 1) | (a.mantissa & 1u);
        a.exponent++;
        return a;
    }
    const uint32_t zeros = high != 0u ? (uint32_t)__builtin_clz(high)
                                      : 32u + (uint32_t)__builtin_clz((uint32_t)a.mantissa);
    a.mantissa <<= zeros - 1u;
    a.exponent -= (int32_t)zeros - 1;
    return a;
}

static number_t unpack(uint64_t bits, format_t format) {
    const int32_t most = (1 << format.exponent) - 1;
    const int32_t exponent = (int32_t)(bits >> format.fraction) & most;
    const uint64_t hidden = UINT64_C(1) << format.fraction;
    const uint64_t fraction = bits & (hidden - 1u);
    const uint32_t sign = (uint32_t)(bits >> (format.fraction + format.exponent)) & 1u;
    number_t a = { FINITE, sign, 0, 0u };
    if (exponent == most) {
        a.kind = fraction != 0u ? NO_NUMBER : INFINITE;
        return a;
    }
    a.exponent = (exponent == 0 ? 1 : exponent) - (most >> 1);
    a.mantissa = (exponent == 0 ? fraction : fraction | hidden) << (62u - format.fraction);
    return normal(a);
}

/* The nearest number of the format, of two the even one; `shift` from 1 to 63. */
static uint64_t rounded(uint64_t mantissa, uint32_t shift) {
    const uint64_t half = UINT64_C(1) << (shift - 1u);
    const uint64_t kept = mantissa >> shift;
    const uint64_t rest = mantissa - (kept << shift);
    return kept + (rest > half || (rest == half && (kept & 1u) != 0u) ? 1u : 0u);
}

static uint64_t pack(number_t a, format_t format) {
    const uint64_t infinite = ((UINT64_C(1) << format.exponent) - 1u) << format.fraction;
    const uint64_t sign = (uint64_t)a.sign << (format.fraction + format.exponent);
    const int32_t exponent = a.exponent + (1 << (format.exponent - 1u)) - 1;
    const uint32_t shift = 62u - format.fraction;
    if (a.kind == NO_NUMBER) {
        return infinite | (UINT64_C(1) << (format.fraction - 1u));
    }
    if (a.kind == ZERO || exponent < -64) {
        return sign;
    }
    if (a.kind == INFINITE || exponent >= 1 << format.exponent) {
        return sign | infinite;
    }
    if (exponent <= 0) { /* subnormal, or rounded up to the least normal number */
        const uint32_t more = shift + (uint32_t)(1 - exponent);
        return sign | (more > 63u ? 0u : rounded(a.mantissa, more));
    }
    /* The mantissa's top bit adds one to the exponent, and rounding up may add another. */
    const uint64_t bits =
        ((uint64_t)(uint32_t)(exponent - 1) << format.fraction) + rounded(a.mantissa, shift);
    return sign | (bits < infinite ? bits : infinite);
}

static number_t no_number(void) {
    const number_t none = { NO_NUMBER, 0u, 0, 0u };
    return none;
}

/* The sum of finite numbers, the first with the greater exponent. */
static number_t add_finite(number_t a, number_t b) {
    const uint64_t other = shift_right(b.mantissa, (uint32_t)(a.exponent - b.exponent));
    if (a.sign == b.sign) {
        a.mantissa += other;
    } else if (a.mantissa >= other) {
        a.mantissa -= other;
        a.sign = a.mantissa == 0u ? 0u : a.sign;
    } else {
        a.mantissa = other - a.mantissa;
        a.sign = b.sign;
    }
    return normal(a);
}

static number_t add(number_t a, number_t b) {
    if (a.kind == NO_NUMBER || b.kind == NO_NUMBER) {
        return no_number();
    }
    if (a.kind == INFINITE || b.kind == INFINITE) {
        const int differ = a.kind == b.kind && a.sign != b.sign;
        return differ ? no_number() : a.kind == INFINITE ? a : b;
    }
    if (a.kind == ZERO && b.kind == ZERO) {
        a.sign &= b.sign;
        return a;
    }
    if (a.kind == ZERO || b.kind == ZERO) {
        return a.kind == ZERO ? b : a;
    }
    return a.exponent >= b.exponent ? add_finite(a, b) : add_finite(b, a);
}

static number_t negative(number_t a) {
    a.sign ^= 1u;
    return a;
}

/* Bits 62 to 125 of the product, the last with all below it. */
static uint64_t multiply_high(uint64_t a, uint64_t b) {
    const uint64_t low = multiply_words((uint32_t)a, (uint32_t)b);
    const uint64_t left = multiply_words((uint32_t)(a >> 32), (uint32_t)b) + (low >> 32);
    const uint64_t right = multiply_words((uint32_t)a, (uint32_t)(b >> 32)) + (left & UINT32_MAX);
    const uint64_t high =
        multiply_words((uint32_t)(a >> 32), (uint32_t)(b >> 32)) + (left >> 32) + (right >> 32);
    const uint64_t rest = (right << 32) | (low & UINT32_MAX);
    return (high << 2) | (rest >> 62) | (rest << 2 != 0u ? 1u : 0u);
}

static number_t multiply(number_t a, number_t b) {
    number_t product = { a.kind > b.kind ? a.kind : b.kind, a.sign ^ b.sign, 0, 0u };
    if (product.kind == NO_NUMBER || (product.kind == INFINITE && (!a.kind || !b.kind))) {
        return no_number();
    }
    if (a.kind == FINITE && b.kind == FINITE) {
        product.exponent = a.exponent + b.exponent;
        product.mantissa = multiply_high(a.mantissa, b.mantissa);
        return normal(product);
    }
    product.kind = product.kind == INFINITE ? INFINITE : ZERO;
    return product;
}

static uint64_t divide_mantissas(uint64_t a, uint64_t b) {
    uint64_t quotient = 0u;
    for (uint32_t bit = 63u; bit != 0u; bit--) {
        quotient <<= 1;
        if (a >= b) {
            a -= b;
            quotient |= 1u;
        }
        a <<= 1;
    }
    return quotient | (a != 0u ? 1u : 0u);
}

static number_t divide(number_t a, number_t b) {
    number_t quotient = { ZERO, a.sign ^ b.sign, 0, 0u };
    if (a.kind == NO_NUMBER || b.kind == NO_NUMBER || (a.kind == b.kind && a.kind != FINITE)) {
        return no_number();
    }
    if (a.kind == INFINITE || b.kind == ZERO) {
        quotient.kind = INFINITE;
        return quotient;
    }
    if (a.kind == ZERO || b.kind == INFINITE) {
        return quotient;
    }
    quotient.kind = FINITE;
    quotient.exponent = a.exponent - b.exponent;
    quotient.mantissa = divide_mantissas(a.mantissa, b.mantissa);
    return normal(quotient);
}

static number_t from_integer(uint32_t sign, uint32_t size) {
    const number_t a = { FINITE, sign, 62, size };
    return normal(a);
}

/* Rounded towards 0, and limited to `most`. */
static uint32_t to_integer(number_t a, uint32_t most) {
    if (a.kind == ZERO || (a.kind == FINITE && a.exponent < 0)) {
        return 0u;
    }
    if (a.kind != FINITE || a.exponent > 31) {
        return most;
    }
    const uint32_t size = (uint32_t)(a.mantissa >> (62 - a.exponent));
    return size < most ? size : most;
}

static int32_t to_signed(number_t a) {
    const uint32_t size = to_integer(a, a.sign != 0u ? 0x80000000u : 0x7FFFFFFFu);
    return (int32_t)(a.sign != 0u ? 0u - size : size);
}

static number_t of_single(float value) {
    uint32_t bits;
    (void)__builtin_memcpy(&bits, &value, sizeof bits);
    return unpack(bits, single);
}

static number_t of_double(double value) {
    uint64_t bits;
    (void)__builtin_memcpy(&bits, &value, sizeof bits);
    return unpack(bits, twice);
}

static float to_single(number_t a) {
    const uint32_t bits = (uint32_t)pack(a, single);
    float value;
    (void)__builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static double to_double(number_t a) {
    const uint64_t bits = pack(a, twice);
    double value;
    (void)__builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

GIVEN(float, __addsf3, float a, float b) {
    return to_single(add(of_single(a), of_single(b)));
}

GIVEN(float, __subsf3, float a, float b) {
    return to_single(add(of_single(a), negative(of_single(b))));
}

GIVEN(float, __mulsf3, float a, float b) {
    return to_single(multiply(of_single(a), of_single(b)));
}

GIVEN(float, __divsf3, float a, float b) {
    return to_single(divide(of_single(a), of_single(b)));
}

GIVEN(double, __adddf3, double a, double b) {
    return to_double(add(of_double(a), of_double(b)));
}

GIVEN(double, __subdf3, double a, double b) {
    return to_double(add(of_double(a), negative(of_double(b))));
}

GIVEN(double, __muldf3, double a, double b) {
    return to_double(multiply(of_double(a), of_double(b)));
}

GIVEN(double, __divdf3, double a, double b) {
    return to_double(divide(of_double(a), of_double(b)));
}

GIVEN(double, __extendsfdf2, float a) {
    return to_double(of_single(a));
}

GIVEN(float, __truncdfsf2, double a) {
    return to_single(of_double(a));
}

GIVEN(float, __floatsisf, int32_t a) {
    return to_single(from_integer(a < 0 ? 1u : 0u, (uint32_t)size_of(a)));
}

GIVEN(float, __floatunsisf, uint32_t a) {
    return to_single(from_integer(0u, a));
}

GIVEN(double, __floatsidf, int32_t a) {
    return to_double(from_integer(a < 0 ? 1u : 0u, (uint32_t)size_of(a)));
}

GIVEN(double, __floatunsidf, uint32_t a) {
    return to_double(from_integer(0u, a));
}

GIVEN(int32_t, __fixsfsi, float a) {
    return to_signed(of_single(a));
}

GIVEN(int32_t, __fixdfsi, double a) {
    return to_signed(of_double(a));
}

GIVEN(uint32_t, __fixunssfsi, float a) {
    const number_t x = of_single(a);
    return x.sign != 0u ? 0u : to_integer(x, UINT32_MAX);
}

GIVEN(uint32_t, __fixunsdfsi, double a) {
    const number_t x = of_double(a);
    return x.sign != 0u ? 0u : to_integer(x, UINT32_MAX);
}
