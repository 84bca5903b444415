/* Stands in for TensorRT's header in tests: the few classes that runtime_c/cuda/ec_tensorrt.cpp uses, with
 * the names and arguments of TensorRT's API Reference. NV_TENSORRT_MAJOR 8 has extents of 32 bits that are
 * given by value, 10 has extents of 64 bits and takes them by reference.
 * Licence: Apache-2.0.
 */
#ifndef STAND_IN_NV_INFER_H
#define STAND_IN_NV_INFER_H
#include <cstddef>
#include <cstdint>

#ifndef NV_TENSORRT_MAJOR
#define NV_TENSORRT_MAJOR 10
#endif
struct CUstream_st;
typedef CUstream_st *cudaStream_t;
extern "C" int32_t getInferLibVersion() noexcept;

namespace nvinfer1 {
#if NV_TENSORRT_MAJOR < 10
typedef int32_t Extent;
struct Dims;
typedef Dims GivenDims;
#else
typedef int64_t Extent;
struct Dims;
typedef Dims const &GivenDims;
#endif
struct Dims { int32_t nbDims; Extent d[8]; };
enum class DataType : int32_t { kFLOAT = 0, kHALF = 1 };
enum class TensorFormat : int32_t { kLINEAR = 0, kHWC = 8 };
typedef uint32_t TensorFormats;
enum class ActivationType : int32_t { kRELU = 0, kSIGMOID = 1, kCLIP = 8 };
enum class BuilderFlag : int32_t { kFP16 = 0, kTF32 = 7 };
struct Weights { DataType type; void const *values; int64_t count; };

class ILogger {
public:
    enum class Severity : int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3 };
    virtual void log(Severity severity, char const *message) noexcept = 0;
    virtual ~ILogger() = default;
};
class Object { /* what is made and given back */
public:
    Object();
    Object(Object const &) = delete;
    virtual ~Object();
};
class ITensor : public Object {
public:
    virtual void setName(char const *name) noexcept = 0;
    virtual void setAllowedFormats(TensorFormats formats) noexcept = 0;
};
class ILayer : public Object {
public:
    virtual ITensor *getOutput(int32_t index) const noexcept = 0;
};
class IConvolutionLayer : public ILayer {
public:
    virtual void setStrideNd(GivenDims stride) noexcept = 0;
    virtual void setDilationNd(GivenDims dilation) noexcept = 0;
    virtual void setPrePadding(GivenDims padding) noexcept = 0;
    virtual void setPostPadding(GivenDims padding) noexcept = 0;
};
class IActivationLayer : public ILayer {
public:
    virtual void setAlpha(float alpha) noexcept = 0;
    virtual void setBeta(float beta) noexcept = 0;
};
class INetworkDefinition : public Object {
public:
    virtual ITensor *addInput(char const *name, DataType type, GivenDims dimensions) noexcept = 0;
    virtual IConvolutionLayer *addConvolutionNd(ITensor &input, Extent outs, GivenDims kernel,
                                                Weights weights, Weights bias) noexcept = 0;
    virtual IActivationLayer *addActivation(ITensor &input, ActivationType type) noexcept = 0;
    virtual void markOutput(ITensor &tensor) noexcept = 0;
};
class IBuilderConfig : public Object {
public:
    virtual void clearFlag(BuilderFlag flag) noexcept = 0;
    virtual void setMaxAuxStreams(int32_t streams) noexcept = 0;
    virtual void setBuilderOptimizationLevel(int32_t level) noexcept = 0;
};
class IHostMemory : public Object {
public:
    virtual void *data() const noexcept = 0;
    virtual std::size_t size() const noexcept = 0;
};
class IBuilder : public Object {
public:
    virtual INetworkDefinition *createNetworkV2(uint32_t flags) noexcept = 0;
    virtual IBuilderConfig *createBuilderConfig() noexcept = 0;
    virtual IHostMemory *buildSerializedNetwork(INetworkDefinition &network,
                                                IBuilderConfig &config) noexcept = 0;
};
class IExecutionContext : public Object {
public:
    virtual bool setTensorAddress(char const *name, void *data) noexcept = 0;
    virtual bool enqueueV3(cudaStream_t stream) noexcept = 0;
};
class ICudaEngine : public Object {
public:
    virtual IExecutionContext *createExecutionContext() noexcept = 0;
};
class IRuntime : public Object {
public:
    virtual ICudaEngine *deserializeCudaEngine(void const *plan, std::size_t size) noexcept = 0;
};
IBuilder *createInferBuilder(ILogger &logger) noexcept;
IRuntime *createInferRuntime(ILogger &logger) noexcept;
} // namespace nvinfer1
#endif
