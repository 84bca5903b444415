/* Stands in for TensorRT's library in tests: a plan has what the network says, an engine computes it as it
 * is defined, in the order of the stream. What may not be so ends in a refusal with a message.
 * Licence: Apache-2.0. Built with -DDRIVER="the emulated GPU's library".
 */
#include "NvInfer.h"

#include <dlfcn.h>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

static int live, calls, failing, runs, builds, timed;
extern "C" {
int stand_in_live(void) { return live; }
int stand_in_runs(void) { return runs; }
int stand_in_builds(void) { return builds; }
int stand_in_timed(void) { return timed; }
/* Begins to count anew; the call of this number, from 1 on, is refused. */
void stand_in_begin(int call) { calls = runs = builds = timed = 0, failing = call; }
int32_t getInferLibVersion() noexcept { return NV_TENSORRT_MAJOR * 10000; }
}
static bool refuses(void) { return ++calls == failing; }

namespace nvinfer1 {
Object::Object() { ++live; }
Object::~Object() { --live; }
static ILogger *logger;
static std::nullptr_t refused(char const *why) {
    logger->log(ILogger::Severity::kWARNING, "a warning, which nobody wants to read");
    logger->log(ILogger::Severity::kERROR, why);
    return nullptr;
}

/* All that an engine has to know. */
struct Plan {
    char magic[8];
    int32_t x[4], outs, kernel[2], stride[2], dilation[2], before[2], after[2], end;
    float alpha, beta;
};
static void two(int32_t *to, Dims const &from) { to[0] = int32_t(from.d[0]), to[1] = int32_t(from.d[1]); }

struct Tensor final : ITensor {
    std::string name;
    TensorFormats formats = 0;
    void setName(char const *given) noexcept override { name = given; }
    void setAllowedFormats(TensorFormats given) noexcept override { formats = given; }
};
struct Conv final : IConvolutionLayer {
    Plan &plan;
    mutable Tensor out;
    explicit Conv(Plan &given) : plan(given) {}
    ITensor *getOutput(int32_t) const noexcept override { return refuses() ? nullptr : &out; }
    void setStrideNd(GivenDims d) noexcept override { two(plan.stride, d); }
    void setDilationNd(GivenDims d) noexcept override { two(plan.dilation, d); }
    void setPrePadding(GivenDims d) noexcept override { two(plan.before, d); }
    void setPostPadding(GivenDims d) noexcept override { two(plan.after, d); }
};
struct End final : IActivationLayer {
    Plan &plan;
    mutable Tensor out;
    explicit End(Plan &given) : plan(given) {}
    ITensor *getOutput(int32_t) const noexcept override { return refuses() ? nullptr : &out; }
    void setAlpha(float a) noexcept override { plan.alpha = a; }
    void setBeta(float b) noexcept override { plan.beta = b; }
};
struct Network final : INetworkDefinition {
    Plan plan{};
    Tensor x;
    Conv conv{plan};
    End end{plan};
    Weights weights{}, bias{};
    Tensor *output = nullptr;
    ITensor *addInput(char const *name, DataType type, GivenDims d) noexcept override {
        if (refuses() || type != DataType::kFLOAT || d.nbDims != 4) return refused("an input");
        for (int i = 0; i < 4; ++i) plan.x[i] = int32_t(d.d[i]);
        x.name = name;
        return &x;
    }
    IConvolutionLayer *addConvolutionNd(ITensor &in, Extent outs, GivenDims kernel, Weights w,
                                        Weights b) noexcept override {
        two(plan.kernel, kernel);
        plan.outs = int32_t(outs);
        weights = w, bias = b;
        const int64_t each = int64_t(plan.x[1]) * plan.kernel[0] * plan.kernel[1];
        const bool fits = &in == &x && w.count == each * outs && b.count == outs && kernel.nbDims == 2;
        return refuses() || !fits ? (refused("a convolution"), nullptr) : &conv;
    }
    IActivationLayer *addActivation(ITensor &in, ActivationType type) noexcept override {
        if (refuses() || &in != &conv.out) return refused("an activation");
        plan.end = int32_t(type) + 1;
        return &end;
    }
    void markOutput(ITensor &tensor) noexcept override { output = static_cast<Tensor *>(&tensor); }
};
struct Config final : IBuilderConfig {
    bool has_tf32 = true;
    int streams = -1, level = 3;
    void clearFlag(BuilderFlag flag) noexcept override { has_tf32 = has_tf32 && flag != BuilderFlag::kTF32; }
    void setMaxAuxStreams(int32_t given) noexcept override { streams = given; }
    void setBuilderOptimizationLevel(int32_t given) noexcept override { level = given; }
};
struct Memory final : IHostMemory {
    mutable std::string bytes;
    void *data() const noexcept override { return bytes.data(); }
    std::size_t size() const noexcept override { return bytes.size(); }
};
struct Builder final : IBuilder {
    INetworkDefinition *createNetworkV2(uint32_t flags) noexcept override {
        const bool is_good = flags == (NV_TENSORRT_MAJOR < 10 ? 1u : 0u);
        return refuses() || !is_good ? (refused("a network"), nullptr) : new Network;
    }
    IBuilderConfig *createBuilderConfig() noexcept override { return refuses() ? nullptr : new Config; }
    IHostMemory *buildSerializedNetwork(INetworkDefinition &given, IBuilderConfig &how) noexcept override {
        auto &n = static_cast<Network &>(given);
        auto &config = static_cast<Config &>(how);
        const TensorFormats apart = 1u << int(TensorFormat::kHWC);
        const bool is_good = n.output && n.x.name == "x" && n.output->name == "out" &&
                             n.x.formats == apart && n.output->formats == apart &&
                             !config.has_tf32 && config.streams == 0;
        if (refuses() || !is_good) return refused("a plan");
        ++builds;
        timed += config.level == 3;
        auto *made = new Memory;
        memcpy(n.plan.magic, "stand-in", 8);
        made->bytes.assign(reinterpret_cast<char const *>(&n.plan), sizeof n.plan);
        made->bytes.append(static_cast<char const *>(n.weights.values), size_t(n.weights.count) * 4);
        made->bytes.append(static_cast<char const *>(n.bias.values), size_t(n.bias.count) * 4);
        return made;
    }
};

struct Job {
    Plan p;
    std::vector<float> weights;
    float const *x;
    float *out;
};
static float summed(Job const &j, int n, int k, int h, int w) {
    Plan const &p = j.p;
    float sum = 0.0f;
    for (int c = 0; c < p.x[1]; ++c)
        for (int r = 0; r < p.kernel[0]; ++r)
            for (int s = 0; s < p.kernel[1]; ++s) {
                const int y = h * p.stride[0] - p.before[0] + r * p.dilation[0];
                const int x = w * p.stride[1] - p.before[1] + s * p.dilation[1];
                if (y >= 0 && y < p.x[2] && x >= 0 && x < p.x[3])
                    sum += j.x[((n * p.x[2] + y) * p.x[3] + x) * p.x[1] + c] *
                           j.weights[size_t(((k * p.x[1] + c) * p.kernel[0] + r) * p.kernel[1] + s)];
            }
    return sum + j.weights[j.weights.size() - size_t(p.outs - k)];
}
static int extent(Plan const &p, int i) {
    const int reached = p.x[2 + i] + p.before[i] + p.after[i] - (p.kernel[i] - 1) * p.dilation[i] - 1;
    return reached / p.stride[i] + 1;
}
static float ended(Plan const &p, float sum) {
    if (p.end == int(ActivationType::kRELU) + 1) return sum < 0.0f ? 0.0f : sum;
    if (p.end == 0) return sum;
    return sum < p.alpha ? p.alpha : sum > p.beta ? p.beta : sum;
}
static void run(void *given) {
    Job const &j = *static_cast<Job *>(given);
    float *out = j.out;
    for (int n = 0; n < j.p.x[0]; ++n)
        for (int h = 0; h < extent(j.p, 0); ++h)
            for (int w = 0; w < extent(j.p, 1); ++w)
                for (int k = 0; k < j.p.outs; ++k) *out++ = ended(j.p, summed(j, n, k, h, w));
    ++runs;
}
struct Context final : IExecutionContext {
    std::shared_ptr<Job> job;
    bool setTensorAddress(char const *name, void *data) noexcept override {
        if (refuses()) return false;
        if (strcmp(name, "x") == 0) return job->x = static_cast<float const *>(data), true;
        return job->out = static_cast<float *>(data), strcmp(name, "out") == 0;
    }
    bool enqueueV3(cudaStream_t stream) noexcept override {
        if (refuses() || !job->x || !job->out) return false;
        int (*start)(void *, void (*)(void *), void *);
        void *found = dlsym(dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD), "cuLaunchHostFunc");
        memcpy(&start, &found, sizeof found);
        return start(stream, run, job.get()) == 0;
    }
};
struct Engine final : ICudaEngine {
    std::shared_ptr<Job> job = std::make_shared<Job>();
    IExecutionContext *createExecutionContext() noexcept override {
        if (refuses()) return refused("a context");
        auto *made = new Context;
        made->job = job;
        return made;
    }
};
struct Runtime final : IRuntime {
    ICudaEngine *deserializeCudaEngine(void const *plan, std::size_t size) noexcept override {
        auto const *bytes = static_cast<char const *>(plan);
        if (refuses() || size < sizeof(Plan) || memcmp(bytes, "stand-in", 8) != 0)
            return refused("no plan of this version");
        auto *made = new Engine;
        memcpy(&made->job->p, bytes, sizeof(Plan));
        made->job->weights.resize((size - sizeof(Plan)) / 4);
        memcpy(made->job->weights.data(), bytes + sizeof(Plan), size - sizeof(Plan));
        return made;
    }
};
IBuilder *createInferBuilder(ILogger &given) noexcept {
    return logger = &given, refuses() ? refused("a builder") : static_cast<IBuilder *>(new Builder);
}
IRuntime *createInferRuntime(ILogger &given) noexcept {
    return logger = &given, refuses() ? refused("a runtime") : static_cast<IRuntime *>(new Runtime);
}
} // namespace nvinfer1
