/* A product of CMSIS-NN. numbers: offsets of both inputs and of the output, multiplier, shift, count. */
#include "edgec_cmsis_nn.h"

void edgec_cmsis_mul_s8(const int8_t *a, const int8_t *b, int8_t *out, const int32_t *numbers);

void edgec_cmsis_mul_s8(const int8_t *a, const int8_t *b, int8_t *out, const int32_t *numbers) {
    const int32_t *n = numbers;
    (void)arm_elementwise_mul_s8(a, b, n[0], n[1], out, n[2], n[3], n[4], -128, 127, n[5]);
}
