/* Two C functions that run layers by TensorRT, for models built with --external tensorrt.
 * ec_tensorrt.h loads them when a model is set up. Compile this file where TensorRT 8.6 or newer is
 * installed:
 *
 *     g++ -std=c++17 -O2 -shared -fPIC ec_tensorrt.cpp -I/usr/local/cuda/include -lnvinfer \
 *         -o libedgec_tensorrt.so
 *
 * TensorRT's builder makes one engine for each layer, on the GPU, when a model is set up. Products are
 * float32, not TF32. The builder takes the first kernel that runs and measures none, so that every
 * start makes the same engines. If EDGEC_TENSORRT_PLANS names a folder, the builder measures kernels
 * and keeps the engines there: the next start reads them and computes the same bits. The folder belongs
 * to this GPU alone, and nobody else may write to it.
 *
 * Names and meanings: NVIDIA, TensorRT C++ API Reference (8.6 and 10).
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include <NvInfer.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/* Contents of n: shapes of input and output (images, height, width, channels), then height and width of
 * kernel, stride, dilation and padding (above and to the left, below and to the right), and the bits of
 * the limits of results. */
enum {
    EC_X = 0,
    EC_OUT = 4,
    EC_KERNEL = 8,
    EC_STRIDE = 10,
    EC_DILATION = 12,
    EC_BEFORE = 14
};
enum {
    EC_AFTER = 16,
    EC_LIMITS = 18,
    EC_NUMBERS = 20
};

struct Log final : nvinfer1::ILogger {
    void log(Severity severity, char const *message) noexcept override {
        if (severity <= Severity::kERROR) {
            std::fprintf(stderr, "edgec: TensorRT: %s\n", message);
        }
    }
};

/* One engine and its builder's objects; they are destroyed in reverse order. */
struct Layer {
    std::array<int32_t, EC_NUMBERS> numbers;
    std::array<uint64_t, 4> at;
    std::unique_ptr<nvinfer1::ICudaEngine> engine;
    std::unique_ptr<nvinfer1::IExecutionContext> context;
};

struct Engines {
    Log log;
    std::unique_ptr<nvinfer1::IRuntime> runtime;
    std::vector<Layer> layers;
};

template <typename T> std::unique_ptr<T> made(T *object) {
    if (object == nullptr) {
        throw std::runtime_error("TensorRT refused something");
    }
    return std::unique_ptr<T>(object);
}

template <typename T> T &part(T *object) {
    if (object == nullptr) {
        throw std::runtime_error("TensorRT refused a layer");
    }
    return *object;
}

void require(bool is_good) {
    if (!is_good) {
        throw std::runtime_error("TensorRT refused something");
    }
}

nvinfer1::Dims dims(std::initializer_list<int32_t> extents) {
    nvinfer1::Dims found{};
    found.nbDims = static_cast<int32_t>(extents.size());
    std::copy(extents.begin(), extents.end(), found.d);
    return found;
}

float limit(const int32_t *n, int which) {
    float number;
    std::memcpy(&number, n + EC_LIMITS + which, sizeof number);
    return std::max(-FLT_MAX, std::min(FLT_MAX, number));
}

/* Weights as TensorRT has them: the channels of the input before height and width. */
std::vector<float> reordered(const int32_t *n, const float *weights) {
    const size_t outs = size_t(n[EC_OUT + 3]), ins = size_t(n[EC_X + 3]);
    const size_t taps = size_t(n[EC_KERNEL]) * size_t(n[EC_KERNEL + 1]);
    std::vector<float> found(outs * ins * taps);
    for (size_t out = 0; out < outs; ++out) {
        for (size_t tap = 0; tap < taps; ++tap) {
            for (size_t in = 0; in < ins; ++in) {
                found[(out * ins + in) * taps + tap] = weights[(out * taps + tap) * ins + in];
            }
        }
    }
    return found;
}

/* A tensor whose channels lie side by side. */
nvinfer1::ITensor &named(nvinfer1::ITensor &tensor, const char *name) {
    tensor.setName(name);
    tensor.setAllowedFormats(1U << static_cast<uint32_t>(nvinfer1::TensorFormat::kHWC));
    return tensor;
}

void describe(nvinfer1::INetworkDefinition &network, const int32_t *n,
              const std::vector<float> &weights, const float *bias) {
    const auto two = [n](int at) { return dims({ n[at], n[at + 1] }); };
    nvinfer1::ITensor &x = part(network.addInput(
        "x", nvinfer1::DataType::kFLOAT, dims({ n[EC_X], n[EC_X + 3], n[EC_X + 1], n[EC_X + 2] })));
    nvinfer1::IConvolutionLayer &conv = part(network.addConvolutionNd(
        named(x, "x"), n[EC_OUT + 3], two(EC_KERNEL),
        nvinfer1::Weights{ nvinfer1::DataType::kFLOAT, weights.data(), int64_t(weights.size()) },
        nvinfer1::Weights{ nvinfer1::DataType::kFLOAT, bias, n[EC_OUT + 3] }));
    conv.setStrideNd(two(EC_STRIDE));
    conv.setDilationNd(two(EC_DILATION));
    conv.setPrePadding(two(EC_BEFORE));
    conv.setPostPadding(two(EC_AFTER));
    nvinfer1::ITensor *out = conv.getOutput(0);
    const float least = limit(n, 0), most = limit(n, 1);
    if (least > -FLT_MAX || most < FLT_MAX) {
        const bool is_relu = least == 0.0f && most == FLT_MAX;
        nvinfer1::IActivationLayer &end =
            part(network.addActivation(part(out), is_relu ? nvinfer1::ActivationType::kRELU
                                                          : nvinfer1::ActivationType::kCLIP));
        end.setAlpha(least);
        end.setBeta(most);
        out = end.getOutput(0);
    }
    network.markOutput(named(part(out), "out"));
}

/* The builder's plan of an engine. is_timed: whether it may take its time to choose. */
std::string plan_of(Engines &all, const int32_t *n, const float *weights, const float *bias,
                    bool is_timed) {
    const std::vector<float> ordered = reordered(n, weights); /* lives until it is built */
    const auto builder = made(nvinfer1::createInferBuilder(all.log));
    const auto network = made(builder->createNetworkV2(NV_TENSORRT_MAJOR < 10 ? 1U : 0U));
    const auto config = made(builder->createBuilderConfig());
    config->clearFlag(nvinfer1::BuilderFlag::kTF32);
    config->setMaxAuxStreams(0);
    if (!is_timed) {
        config->setBuilderOptimizationLevel(0);
    }
    describe(*network, n, ordered, bias);
    const auto plan = made(builder->buildSerializedNetwork(*network, *config));
    return std::string(static_cast<const char *>(plan->data()), plan->size());
}

/* FNV-1a, 64 bits. */
uint64_t hashed(uint64_t hash, const void *data, size_t bytes) {
    const uint8_t *at = static_cast<const uint8_t *>(data);
    for (size_t i = 0; i < bytes; ++i) {
        hash = (hash ^ at[i]) * 0x100000001B3u;
    }
    return hash;
}

/* The file of a layer's plan; "" if none is kept. */
std::string file_of(const int32_t *n, const float *weights, const float *bias) {
    const char *const folder = std::getenv("EDGEC_TENSORRT_PLANS");
    if (folder == nullptr || *folder == '\0') {
        return "";
    }
    const int32_t version = getInferLibVersion();
    const size_t outs = size_t(n[EC_OUT + 3]);
    const size_t each = size_t(n[EC_KERNEL]) * size_t(n[EC_KERNEL + 1]) * size_t(n[EC_X + 3]);
    uint64_t hash = hashed(0xCBF29CE484222325u, &version, sizeof version);
    hash = hashed(hash, n, EC_NUMBERS * sizeof *n);
    hash = hashed(hash, weights, outs * each * sizeof *weights);
    hash = hashed(hash, bias, outs * sizeof *bias);
    char name[32];
    (void)std::snprintf(name, sizeof name, "/%016llx.plan", static_cast<unsigned long long>(hash));
    return folder + std::string(name);
}

/* Whole or not at all; a plan that cannot be kept is made again. */
void keep(const std::string &file, const std::string &plan) {
    const std::string half = file + ".part";
    std::ofstream stream(half, std::ios::binary);
    stream.write(plan.data(), std::streamsize(plan.size()));
    stream.close();
    if (!stream || std::rename(half.c_str(), file.c_str()) != 0) {
        std::fprintf(stderr, "edgec: TensorRT: cannot write %s\n", file.c_str());
    }
}

/* An engine, from its file where that has one of this TensorRT and GPU. */
std::unique_ptr<nvinfer1::ICudaEngine> engine_of(Engines &all, const int32_t *n,
                                                 const float *weights, const float *bias) {
    const std::string file = file_of(n, weights, bias);
    if (!file.empty()) {
        std::ifstream stream(file, std::ios::binary);
        const std::string kept{ std::istreambuf_iterator<char>(stream), {} };
        std::unique_ptr<nvinfer1::ICudaEngine> found;
        if (!kept.empty()) {
            found.reset(all.runtime->deserializeCudaEngine(kept.data(), kept.size()));
        }
        if (found != nullptr) {
            return found;
        }
    }
    const std::string plan = plan_of(all, n, weights, bias, !file.empty());
    auto engine = made(all.runtime->deserializeCudaEngine(plan.data(), plan.size()));
    if (!file.empty()) {
        keep(file, plan);
    }
    return engine;
}

Layer &layer_of(Engines &all, const int32_t *n, const uint64_t *at, const float *weights,
                const float *bias) {
    for (Layer &layer : all.layers) {
        if (std::equal(layer.at.begin(), layer.at.end(), at) &&
            std::equal(layer.numbers.begin(), layer.numbers.end(), n)) {
            return layer;
        }
    }
    Layer layer{};
    std::copy_n(n, EC_NUMBERS, layer.numbers.begin());
    std::copy_n(at, 4, layer.at.begin());
    layer.engine = engine_of(all, n, weights, bias);
    layer.context = made(layer.engine->createExecutionContext());
    const auto place = [at](int i) { return reinterpret_cast<void *>(uintptr_t(at[i])); };
    require(layer.context->setTensorAddress("x", place(0)));
    require(layer.context->setTensorAddress("out", place(1)));
    all.layers.push_back(std::move(layer));
    return all.layers.back();
}

} // namespace

extern "C" {
/* Start the engine of a layer in a stream of the current context. engines: of a model, NULL before
 * the first. n: see above. at: where input, output, weights and bias lie on the device; weights (the
 * output's channels, height, width, the input's channels) and bias: the host's copies. Returns 0, or 1
 * after an error. */
int edgec_tensorrt_start_1(void **engines, const int32_t *n, const uint64_t *at,
                           const float *weights, const float *bias, void *stream) {
    try {
        if (*engines == nullptr) {
            auto all = std::make_unique<Engines>();
            all->runtime = made(nvinfer1::createInferRuntime(all->log));
            *engines = all.release();
        }
        Layer &layer = layer_of(*static_cast<Engines *>(*engines), n, at, weights, bias);
        require(layer.context->enqueueV3(static_cast<cudaStream_t>(stream)));
        return 0;
    } catch (const std::exception &) {
        return 1;
    }
}

void edgec_tensorrt_forget_1(void *engines) {
    delete static_cast<Engines *>(engines);
}
}
