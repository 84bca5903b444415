#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

arm_cmsis_nn_status
arm_elementwise_mul_s8(const int8_t *input_1_vect, const int8_t *input_2_vect,
                       const int32_t input_1_offset, const int32_t input_2_offset, int8_t *output,
                       const int32_t out_offset, const int32_t out_mult, const int32_t out_shift,
                       const int32_t out_activation_min, const int32_t out_activation_max,
                       const int32_t block_size) {
    for (int32_t i = 0; i < block_size; ++i) {
        const int32_t product =
            (input_1_vect[i] + input_1_offset) * (input_2_vect[i] + input_2_offset);
        output[i] = arm_nn_limit(arm_nn_requantize(product, out_mult, out_shift) + out_offset,
                                 out_activation_min, out_activation_max);
    }
    return ARM_CMSIS_NN_SUCCESS;
}
