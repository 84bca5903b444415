#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *conv_params,
                                                const cmsis_nn_dims *input_dims,
                                                const cmsis_nn_dims *filter_dims,
                                                const cmsis_nn_dims *output_dims) {
    (void)conv_params;
    (void)input_dims;
    (void)output_dims;
    return 4 * filter_dims->h * filter_dims->w * filter_dims->c;
}
