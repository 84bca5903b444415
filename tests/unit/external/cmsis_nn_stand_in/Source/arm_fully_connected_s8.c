#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

arm_cmsis_nn_status
arm_fully_connected_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *fc_params,
                       const cmsis_nn_per_tensor_quant_params *quant_params,
                       const cmsis_nn_dims *input_dims, const int8_t *input_data,
                       const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                       const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                       const cmsis_nn_dims *output_dims, int8_t *output_data) {
    (void)ctx;
    (void)bias_dims;
    (void)output_dims;
    for (int32_t n = 0; n < input_dims->n; ++n) {
        for (int32_t c = 0; c < filter_dims->c; ++c) {
            int32_t sum = bias_data[c];
            for (int32_t k = 0; k < filter_dims->n; ++k) {
                sum += (input_data[n * filter_dims->n + k] + fc_params->input_offset) *
                       filter_data[c * filter_dims->n + k];
            }
            sum = arm_nn_requantize(sum, quant_params->multiplier, quant_params->shift);
            *output_data++ = arm_nn_limit(sum + fc_params->output_offset, fc_params->activation.min,
                                          fc_params->activation.max);
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}
