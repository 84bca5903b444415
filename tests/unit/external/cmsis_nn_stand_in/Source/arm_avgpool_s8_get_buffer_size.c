#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

int32_t arm_avgpool_s8_get_buffer_size(const int dim_dst_width, const int ch_src) {
    (void)dim_dst_width;
    return ch_src * 4;
}
