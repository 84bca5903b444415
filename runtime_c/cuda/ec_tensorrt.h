/* float32 layers that NVIDIA's TensorRT computes, in models built with --external tensorrt. Included
 * by the model's .c only.
 *
 * TensorRT has a C++ interface only. The library of ec_tensorrt.cpp exports two C functions, and
 * ec_tensorrt_open loads it when the model is set up.
 *
 * The model's ec_cuda keeps the first error: EC_TENSORRT_MISSING if that library or TensorRT itself
 * is absent, EC_TENSORRT_ERROR if TensorRT reports an error, which it prints to stderr.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_TENSORRT_H
#define EC_TENSORRT_H

#include "ec_cuda_driver.h"

#ifndef EC_TENSORRT_LIBRARY
#define EC_TENSORRT_LIBRARY "libedgec_tensorrt.so"
#endif

#define EC_TENSORRT_MISSING 20000
#define EC_TENSORRT_ERROR 20001

/* Functions of ec_tensorrt.cpp, by their index in a table. */
enum {
    EC_TENSORRT_START,
    EC_TENSORRT_FORGET
};

/* Find the library and its functions. */
EC_CUDA_PART void ec_tensorrt_open(ec_cuda *gpu, ec_tensorrt *rt) {
    static const char *const names[2] = { "edgec_tensorrt_start_1", "edgec_tensorrt_forget_1" };
    const ec_tensorrt nothing = { 0 };
    *rt = nothing;
    if (gpu->error != 0) {
        return;
    }
    rt->library = dlopen(EC_TENSORRT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < 2; ++i) {
        void *found = rt->library == NULL ? NULL : dlsym(rt->library, names[i]);
        if (found == NULL) {
            gpu->error = EC_TENSORRT_MISSING;
            return;
        }
        (void)memcpy(&rt->functions[i], &found, sizeof found);
    }
}

/* Start an engine, which is made where there is none yet: before a graph is recorded. n: see
 * ec_tensorrt.cpp. at: where input, output, weights and bias lie on the device; NULL, for memory to
 * work in, does nothing: an engine has its own. */
EC_CUDA_PART void edgec_tensorrt_conv_f32(ec_cuda *gpu, ec_tensorrt *rt, const int32_t *n,
                                          const uint64_t *at) {
    int (*start)(void **, const int32_t *, const uint64_t *, const float *, const float *, void *);
    if (at == NULL || gpu->error != 0) {
        return;
    }
    const void *const weights = gpu->constants + (at[2] - gpu->weights);
    const void *const bias = gpu->constants + (at[3] - gpu->weights);
    (void)memcpy(&start, &rt->functions[EC_TENSORRT_START], sizeof start);
    if (start(&rt->engines, n, at, (const float *)weights, (const float *)bias, gpu->stream) != 0) {
        gpu->error = EC_TENSORRT_ERROR;
    }
}

/* Free everything, before the GPU's context; keeps the error. */
EC_CUDA_PART void ec_tensorrt_close(ec_cuda *gpu, ec_tensorrt *rt) {
    const ec_tensorrt nothing = { 0 };
    const int error = gpu->error;
    if (gpu->context != NULL && rt->engines != NULL) {
        gpu->error = 0;
        ec_cuda_enter(gpu);
        ec_cuda_wait(gpu);
        ((void (*)(void *))rt->functions[EC_TENSORRT_FORGET])(rt->engines);
        ec_cuda_leave(gpu);
    }
    if (rt->library != NULL) {
        (void)dlclose(rt->library);
    }
    *rt = nothing;
    gpu->error = error;
}

#endif /* EC_TENSORRT_H */
