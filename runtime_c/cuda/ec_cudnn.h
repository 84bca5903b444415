/* Convolutions of float32 by NVIDIA's cuDNN, for models built with --external cudnn. The library is
 * opened when the model is set up, through prototypes of our own, as the driver is. Included by the
 * model's .c only.
 *
 * Names and meanings: NVIDIA, cuDNN API Reference (8 and 9). The first error is kept in the model's
 * ec_cuda: EC_DNN_MISSING if the library or one of its functions is absent, EC_DNN_ERROR and cuDNN's
 * status if it refuses something.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_CUDNN_H
#define EC_CUDNN_H

#include "ec_cuda_driver.h"

#define EC_DNN_MISSING 10000
#define EC_DNN_ERROR 10000

/* CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, CUDNN_CROSS_CORRELATION, CUDNN_FMA_MATH: products of float32,
 * not of TF32. */
#define EC_DNN_FLOAT 0
#define EC_DNN_NHWC 1
#define EC_DNN_CORRELATION 1
#define EC_DNN_FMA 3
/* CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN */
#define EC_DNN_RELU 1
#define EC_DNN_IDENTITY 5
#define EC_DNN_NO_NAN 0
/* CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, which alone ends in no activation: nothing is
 * searched for, so every run has the same bits. */
#define EC_DNN_ALGORITHM 1

/* Functions of cuDNN, by their place in a table. */
enum {
    EC_DNN_CREATE,
    EC_DNN_DESTROY,
    EC_DNN_STREAM,
    EC_DNN_TENSOR_CREATE,
    EC_DNN_TENSOR_SET,
    EC_DNN_TENSOR_DESTROY,
    EC_DNN_FILTER_CREATE,
    EC_DNN_FILTER_SET,
    EC_DNN_FILTER_DESTROY,
    EC_DNN_CONV_CREATE,
    EC_DNN_CONV_SET,
    EC_DNN_CONV_MATH,
    EC_DNN_CONV_DESTROY,
    EC_DNN_ACTIVATION_CREATE,
    EC_DNN_ACTIVATION_SET,
    EC_DNN_ACTIVATION_DESTROY,
    EC_DNN_WORKSPACE,
    EC_DNN_CONVOLVE
};

/* Call a function of cuDNN, unless something failed before. */
#define EC_DNN(gpu, dnn, number, type, arguments)                                      \
    do {                                                                               \
        if ((gpu)->error == 0) {                                                       \
            const int ec_status_of = ((int(*) type)(dnn)->functions[number])arguments; \
            (gpu)->error = ec_status_of == 0 ? 0 : EC_DNN_ERROR + ec_status_of;        \
        }                                                                              \
    } while (0)

/* Find cuDNN and its functions, in the GPU's context. */
EC_CUDA_PART void ec_cudnn_open(ec_cuda *gpu, ec_cudnn *dnn) {
    static const char *const names[EC_DNN_COUNT] = {
        "cudnnCreate",
        "cudnnDestroy",
        "cudnnSetStream",
        "cudnnCreateTensorDescriptor",
        "cudnnSetTensor4dDescriptorEx",
        "cudnnDestroyTensorDescriptor",
        "cudnnCreateFilterDescriptor",
        "cudnnSetFilter4dDescriptor",
        "cudnnDestroyFilterDescriptor",
        "cudnnCreateConvolutionDescriptor",
        "cudnnSetConvolution2dDescriptor",
        "cudnnSetConvolutionMathType",
        "cudnnDestroyConvolutionDescriptor",
        "cudnnCreateActivationDescriptor",
        "cudnnSetActivationDescriptor",
        "cudnnDestroyActivationDescriptor",
        "cudnnGetConvolutionForwardWorkspaceSize",
        "cudnnConvolutionBiasActivationForward",
    };
#ifdef EC_CUDNN_LIBRARY
    static const char *const libraries[] = { EC_CUDNN_LIBRARY };
#else
    static const char *const libraries[] = { "libcudnn.so.9", "libcudnn.so.8" };
#endif
    const ec_cudnn nothing = { 0 };
    *dnn = nothing;
    if (gpu->error != 0) {
        return;
    }
    for (size_t i = 0u; i < sizeof libraries / sizeof libraries[0] && dnn->library == NULL; ++i) {
        dnn->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    }
    for (int i = 0; i < EC_DNN_COUNT; ++i) {
        void *found = dnn->library == NULL ? NULL : dlsym(dnn->library, names[i]);
        if (found == NULL) {
            gpu->error = EC_DNN_MISSING;
            return;
        }
        (void)memcpy(&dnn->functions[i], &found, sizeof found);
    }
    EC_DNN(gpu, dnn, EC_DNN_CREATE, (void **), (&dnn->handle));
}

/* cuDNN's objects of a convolution. */
typedef struct ec_cudnn_layer {
    void *x, *out, *bias, *filter, *conv, *activation;
} ec_cudnn_layer;

/* A tensor whose channels lie side by side: shape has images, height, width, channels. */
EC_CUDA_PART void *ec_cudnn_tensor(ec_cuda *gpu, const ec_cudnn *dnn, const int32_t *shape) {
    void *made = NULL;
    EC_DNN(gpu, dnn, EC_DNN_TENSOR_CREATE, (void **), (&made));
    EC_DNN(gpu, dnn, EC_DNN_TENSOR_SET, (void *, int, int, int, int, int, int, int, int, int),
           (made, EC_DNN_FLOAT, shape[0], shape[3], shape[1], shape[2],
            shape[1] * shape[2] * shape[3], 1, shape[2] * shape[3], shape[3]));
    return made;
}

/* n: the shapes of input and output, then height and width of kernel, stride, dilation and padding,
 * and whether it ends in ReLU. */
EC_CUDA_PART void ec_cudnn_describe(ec_cuda *gpu, const ec_cudnn *dnn, const int32_t *n,
                                    ec_cudnn_layer *layer) {
    const int32_t bias[4] = { 1, 1, 1, n[7] };
    layer->x = ec_cudnn_tensor(gpu, dnn, n);
    layer->out = ec_cudnn_tensor(gpu, dnn, n + 4);
    layer->bias = ec_cudnn_tensor(gpu, dnn, bias);
    EC_DNN(gpu, dnn, EC_DNN_FILTER_CREATE, (void **), (&layer->filter));
    EC_DNN(gpu, dnn, EC_DNN_FILTER_SET, (void *, int, int, int, int, int, int),
           (layer->filter, EC_DNN_FLOAT, EC_DNN_NHWC, n[7], n[3], n[8], n[9]));
    EC_DNN(gpu, dnn, EC_DNN_CONV_CREATE, (void **), (&layer->conv));
    EC_DNN(
        gpu, dnn, EC_DNN_CONV_SET, (void *, int, int, int, int, int, int, int, int),
        (layer->conv, n[14], n[15], n[10], n[11], n[12], n[13], EC_DNN_CORRELATION, EC_DNN_FLOAT));
    EC_DNN(gpu, dnn, EC_DNN_CONV_MATH, (void *, int), (layer->conv, EC_DNN_FMA));
    EC_DNN(gpu, dnn, EC_DNN_ACTIVATION_CREATE, (void **), (&layer->activation));
    EC_DNN(gpu, dnn, EC_DNN_ACTIVATION_SET, (void *, int, int, double),
           (layer->activation, n[16] != 0 ? EC_DNN_RELU : EC_DNN_IDENTITY, EC_DNN_NO_NAN, 0.0));
}

/* Also after an error. */
EC_CUDA_PART void ec_cudnn_forget(const ec_cudnn *dnn, const ec_cudnn_layer *layer) {
    void *const made[6] = { layer->x,      layer->out,  layer->bias,
                            layer->filter, layer->conv, layer->activation };
    static const int destroy[6] = { EC_DNN_TENSOR_DESTROY, EC_DNN_TENSOR_DESTROY,
                                    EC_DNN_TENSOR_DESTROY, EC_DNN_FILTER_DESTROY,
                                    EC_DNN_CONV_DESTROY,   EC_DNN_ACTIVATION_DESTROY };
    for (int i = 0; i < 6; ++i) {
        if (made[i] != NULL) {
            (void)((int (*)(void *))dnn->functions[destroy[i]])(made[i]);
        }
    }
}

/* See that there is memory to work in for a convolution. */
EC_CUDA_PART void ec_cudnn_reserve(ec_cuda *gpu, ec_cudnn *dnn, const ec_cudnn_layer *layer) {
    size_t bytes = 0u;
    EC_DNN(
        gpu, dnn, EC_DNN_WORKSPACE, (void *, void *, void *, void *, void *, int, size_t *),
        (dnn->handle, layer->x, layer->filter, layer->conv, layer->out, EC_DNN_ALGORITHM, &bytes));
    if (gpu->error != 0 || bytes <= dnn->workspace_bytes) {
        return;
    }
    if (dnn->workspace != 0u) {
        EC_CU(gpu, EC_CU_FREE, (uint64_t), (dnn->workspace));
    }
    dnn->workspace = ec_cuda_allocate(gpu, bytes);
    dnn->workspace_bytes = gpu->error == 0 ? bytes : 0u;
}

/* out = bias + x * weights, with a ReLU if n requests it. at: input, output, weights (output channels,
 * height, width, input channels) and bias on the device; NULL only reserves the scratch memory that all
 * convolutions of a model share. */
EC_CUDA_PART void edgec_cudnn_conv_f32(ec_cuda *gpu, ec_cudnn *dnn, const int32_t *n,
                                       const uint64_t *at) {
    ec_cudnn_layer layer = { 0 };
    const float one = 1.0f, zero = 0.0f;
    ec_cudnn_describe(gpu, dnn, n, &layer);
    if (at == NULL) {
        ec_cudnn_reserve(gpu, dnn, &layer);
    } else {
        const void *const x = (const void *)(uintptr_t)at[0];
        void *const out = (void *)(uintptr_t)at[1];
        const void *const weights = (const void *)(uintptr_t)at[2];
        const void *const bias = (const void *)(uintptr_t)at[3];
        void *const workspace = (void *)(uintptr_t)dnn->workspace;
        EC_DNN(gpu, dnn, EC_DNN_STREAM, (void *, void *), (dnn->handle, gpu->stream));
        EC_DNN(gpu, dnn, EC_DNN_CONVOLVE,
               (void *, const void *, void *, const void *, void *, const void *, void *, int,
                void *, size_t, const void *, void *, const void *, void *, const void *, void *,
                void *, void *),
               (dnn->handle, &one, layer.x, x, layer.filter, weights, layer.conv, EC_DNN_ALGORITHM,
                workspace, dnn->workspace_bytes, &zero, layer.out, out, layer.bias, bias,
                layer.activation, layer.out, out));
    }
    ec_cudnn_forget(dnn, &layer);
}

/* Free everything, before the GPU's context; keeps the error. */
EC_CUDA_PART void ec_cudnn_close(ec_cuda *gpu, ec_cudnn *dnn) {
    const ec_cudnn nothing = { 0 };
    const int error = gpu->error;
    if (gpu->context != NULL && dnn->library != NULL) {
        gpu->error = 0;
        ec_cuda_enter(gpu);
        if (gpu->is_pending != 0) {
            ec_cuda_wait(gpu);
        }
        if (dnn->workspace != 0u) {
            EC_CU(gpu, EC_CU_FREE, (uint64_t), (dnn->workspace));
        }
        if (dnn->handle != NULL) {
            EC_DNN(gpu, dnn, EC_DNN_DESTROY, (void *), (dnn->handle));
        }
        ec_cuda_leave(gpu);
    }
    if (dnn->library != NULL) {
        (void)dlclose(dnn->library);
    }
    *dnn = nothing;
    gpu->error = error;
}

#endif /* EC_CUDNN_H */
