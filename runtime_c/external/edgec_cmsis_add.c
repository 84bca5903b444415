/* A sum of CMSIS-NN. numbers: offset, multiplier and shift of both inputs, the left shift, offset,
 * multiplier and shift of the output, count. */
#include "edgec_cmsis_nn.h"

void edgec_cmsis_add_s8(const int8_t *a, const int8_t *b, int8_t *out, const int32_t *numbers);

void edgec_cmsis_add_s8(const int8_t *a, const int8_t *b, int8_t *out, const int32_t *numbers) {
    const int32_t *n = numbers;
    (void)arm_elementwise_add_s8(a, b, n[0], n[1], n[2], n[3], n[4], n[5], n[6], out, n[7], n[8],
                                 n[9], -128, 127, n[10]);
}
