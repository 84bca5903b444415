/* Softmax of CMSIS-NN. */
#include "edgec_cmsis_nn.h"

void edgec_cmsis_softmax_s8(const int8_t *x, int8_t *out, int32_t rows, int32_t count,
                            int32_t multiplier, int32_t shift, int32_t least);

void edgec_cmsis_softmax_s8(const int8_t *x, int8_t *out, int32_t rows, int32_t count,
                            int32_t multiplier, int32_t shift, int32_t least) {
    arm_softmax_s8(x, rows, count, multiplier, shift, least, out);
}
