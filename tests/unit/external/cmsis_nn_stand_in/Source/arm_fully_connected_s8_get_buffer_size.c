#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *filter_dims) {
    return filter_dims->c * 4;
}
