/* A stand-in for what CMSIS-NN's functions share: TFLite Micro's double rounding, see README.md. */
#ifndef ARM_NNSUPPORTFUNCTIONS_H
#define ARM_NNSUPPORTFUNCTIONS_H

#include <stdint.h>

static inline int32_t arm_nn_doubling_high_mult(int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b;
    return (int32_t)((product + (product < 0 ? 1 - (1 << 30) : 1 << 30)) / ((int64_t)1 << 31));
}

static inline int32_t arm_nn_divide_by_power_of_two(int32_t x, int32_t exponent) {
    const int32_t mask = (int32_t)(((uint32_t)1 << exponent) - 1);
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0) ? 1 : 0);
}

static inline int32_t arm_nn_requantize(int32_t x, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t high = arm_nn_doubling_high_mult((int32_t)((uint32_t)x << left), multiplier);
    return arm_nn_divide_by_power_of_two(high, shift > 0 ? 0 : -shift);
}

static inline int8_t arm_nn_limit(int32_t x, int32_t least, int32_t most) {
    return (int8_t)(x < least ? least : x > most ? most : x);
}

#endif
