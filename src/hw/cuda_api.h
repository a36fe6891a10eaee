// The functions of NVIDIA's driver, libcuda, that sparkpilot computes with. It is loaded at run time and never linked,
// so the program starts on machines without it, and no header of the CUDA toolkit is needed; where the toolkit is
// installed, a test holds these declarations to its cuda.h.
//
// Symbols carry their version: an unversioned cuMemAlloc is an older function with other parameters.
#pragma once

#include <cstddef>
#include <string>

namespace sparkpilot::cuda {

using DevicePointer = unsigned long long;
using DeviceIndex = int;
using ContextHandle = struct Context_*;
using ModuleHandle = struct Module_*;
using FunctionHandle = struct Function_*;
using StreamHandle = struct Stream_*;
using EventHandle = struct Event_*;
using GraphHandle = struct Graph_*;
using GraphExecHandle = struct GraphExec_*;
using NodeHandle = struct Node_*;

// CUresult, as far as we act on single errors.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureWrongThread = 908,
};

// CUdevice_attribute and CUfunction_attribute, as far as we ask for them.
enum DeviceAttribute : int {
  kWarpSize = 10,
  kClockKhz = 13,
  kMultiprocessors = 16,
  kIntegrated = 18,
  kComputeMode = 20,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kUnifiedAddressing = 41,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedBytesPerMultiprocessor = 81,
  kManagedMemory = 83,
  kPageableAccess = 88,
  kConcurrentManagedAccess = 89,
  kSharedBytesPerBlock = 97,  // that a kernel can be allowed
};
enum FunctionAttribute : int {
  kFunctionStaticShared = 1,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionPtxVersion = 5,
  kFunctionBinaryVersion = 6,
  kFunctionMostDynamicShared = 8,
};

constexpr unsigned kNonBlockingStream = 1;  // apart from the legacy stream
constexpr int kThreadLocalCapture = 1;      // other threads may go on allocating
constexpr unsigned kAttachGlobal = 1;       // managed memory for all streams
constexpr unsigned kTimingEvent = 0;
constexpr unsigned kExternalEvent = 1;  // in a capture: recorded at each run of the graph

// CUlaunchAttribute, of which we use one kind, and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  alignas(8) int value;
  std::byte rest[60];
};
constexpr int kProgrammaticStreamSerialization = 6;
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

#define SPARKPILOT_CUDA_FUNCTIONS(F)                                                                      \
  F(cuInit, (unsigned flags))                                                                             \
  F(cuDriverGetVersion, (int* version))                                                                   \
  F(cuGetErrorName, (int error, const char** name))                                                       \
  F(cuDeviceGetCount, (int* count))                                                                       \
  F(cuDeviceGet, (DeviceIndex * device, int ordinal))                                                     \
  F(cuDeviceGetName, (char* name, int size, DeviceIndex device))                                          \
  F(cuDeviceGetPCIBusId, (char* id, int size, DeviceIndex device))                                        \
  F(cuDeviceTotalMem_v2, (std::size_t * bytes, DeviceIndex device))                                       \
  F(cuDeviceGetAttribute, (int* value, int attribute, DeviceIndex device))                                \
  F(cuDevicePrimaryCtxRetain, (ContextHandle * context, DeviceIndex device))                              \
  F(cuDevicePrimaryCtxRelease_v2, (DeviceIndex device))                                                   \
  F(cuCtxSetCurrent, (ContextHandle context))                                                             \
  F(cuModuleLoadData, (ModuleHandle * module, const void* image))                                         \
  F(cuModuleUnload, (ModuleHandle module))                                                                \
  F(cuModuleGetFunction, (FunctionHandle * function, ModuleHandle module, const char* name))              \
  F(cuFuncGetAttribute, (int* value, int attribute, FunctionHandle function))                             \
  F(cuFuncSetAttribute, (FunctionHandle function, int attribute, int value))                              \
  F(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                                           \
  F(cuMemAlloc_v2, (DevicePointer * pointer, std::size_t bytes))                                          \
  F(cuMemAllocManaged, (DevicePointer * pointer, std::size_t bytes, unsigned flags))                      \
  F(cuMemFree_v2, (DevicePointer pointer))                                                                \
  F(cuMemHostAlloc, (void** pointer, std::size_t bytes, unsigned flags))                                  \
  F(cuMemFreeHost, (void* pointer))                                                                       \
  F(cuMemcpyHtoDAsync_v2, (DevicePointer to, const void* from, std::size_t bytes, StreamHandle stream))   \
  F(cuMemcpyDtoHAsync_v2, (void* to, DevicePointer from, std::size_t bytes, StreamHandle stream))         \
  F(cuMemcpyDtoDAsync_v2, (DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream)) \
  F(cuMemsetD8Async, (DevicePointer to, unsigned char value, std::size_t bytes, StreamHandle stream))     \
  F(cuStreamCreate, (StreamHandle * stream, unsigned flags))                                              \
  F(cuStreamDestroy_v2, (StreamHandle stream))                                                            \
  F(cuStreamSynchronize, (StreamHandle stream))                                                           \
  F(cuStreamQuery, (StreamHandle stream))                                                                 \
  F(cuStreamWaitEvent, (StreamHandle stream, EventHandle event, unsigned flags))                          \
  F(cuStreamBeginCapture_v2, (StreamHandle stream, int mode))                                             \
  F(cuStreamEndCapture, (StreamHandle stream, GraphHandle * graph))                                       \
  F(cuGraphGetNodes, (GraphHandle graph, NodeHandle * nodes, std::size_t * count))                        \
  F(cuGraphInstantiateWithFlags, (GraphExecHandle * exec, GraphHandle graph, unsigned long long flags))   \
  F(cuGraphLaunch, (GraphExecHandle exec, StreamHandle stream))                                           \
  F(cuGraphExecDestroy, (GraphExecHandle exec))                                                           \
  F(cuGraphDestroy, (GraphHandle graph))                                                                  \
  F(cuEventCreate, (EventHandle * event, unsigned flags))                                                 \
  F(cuEventDestroy_v2, (EventHandle event))                                                               \
  F(cuEventRecord, (EventHandle event, StreamHandle stream))                                              \
  F(cuEventRecordWithFlags, (EventHandle event, StreamHandle stream, unsigned flags))                     \
  F(cuEventSynchronize, (EventHandle event))                                                              \
  F(cuEventElapsedTime, (float* milliseconds, EventHandle begin, EventHandle end))                        \
  F(cuLaunchKernelEx, (const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra))

// Each returns a CUresult; 0 is success.
struct CudaApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters
#define SPARKPILOT_CUDA_MEMBER(name, parameters) int(*name) parameters = nullptr;
  SPARKPILOT_CUDA_FUNCTIONS(SPARKPILOT_CUDA_MEMBER)
#undef SPARKPILOT_CUDA_MEMBER
};

// The driver of this process, loaded and initialised at the first call; null if it is absent or does not start, with
// the reason in `why_not`. Every call into it can hang where a driver is broken: ask_cuda() (gpu_driver.h) must have
// answered before, which is how commands choose their device. Several threads may call.
const CudaApi* cuda_api(std::string& why_not);

// "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY". Error of kind device.
[[noreturn]] void fail_cuda(const char* call, int error);

}  // namespace sparkpilot::cuda
