/* A convolution as `edgec.external.host_libraries.sizes_of` describes it to C. */
#ifndef EDGEC_CONVOLUTION_H
#define EDGEC_CONVOLUTION_H

/* Names of its numbers, in their order. The last four are of int8 alone. */
enum {
    BATCH,
    HEIGHT,
    WIDTH,
    CHANNELS,
    OUT_CHANNELS,
    KERNEL_H,
    KERNEL_W,
    STRIDE_H,
    STRIDE_W,
    DILATION_H,
    DILATION_W,
    TOP,
    RIGHT,
    BOTTOM,
    LEFT,
    DEPTHWISE,
    OFFSET,
    ZERO_POINT,
    LOW,
    HIGH
};

#endif /* EDGEC_CONVOLUTION_H */
