// The table of driver functions against the toolkit's cuda.h: parameters, handles and constants.
#include <cuda.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "hw/cuda_api.h"
#include "hw/test_same_types.h"

namespace sparkpilot {

SPARKPILOT_SAME(CUcontext, cuda::ContextHandle)
SPARKPILOT_SAME(CUmodule, cuda::ModuleHandle)
SPARKPILOT_SAME(CUfunction, cuda::FunctionHandle)
SPARKPILOT_SAME(CUstream, cuda::StreamHandle)
SPARKPILOT_SAME(CUevent, cuda::EventHandle)
SPARKPILOT_SAME(CUgraph, cuda::GraphHandle)
SPARKPILOT_SAME(CUgraphExec, cuda::GraphExecHandle)
SPARKPILOT_SAME(CUgraphNode, cuda::NodeHandle)
SPARKPILOT_SAME(CUlaunchConfig, cuda::LaunchConfig)
SPARKPILOT_SAME(CUresult, int)
SPARKPILOT_SAME(CUdevice_attribute, int)
SPARKPILOT_SAME(CUfunction_attribute, int)
SPARKPILOT_SAME(CUstreamCaptureMode, int)

namespace cuda {
namespace {

TEST(CudaApi, IsThatOfTheToolkit) {
#define SPARKPILOT_CHECK(name, parameters) \
  static_assert(std::is_same_v<OurPointer<decltype(::name)>::type, decltype(CudaApi::name)>, #name);
  SPARKPILOT_CUDA_FUNCTIONS(SPARKPILOT_CHECK)
  // Constants: ours, theirs.
#define SPARKPILOT_EQUAL(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs));
  SPARKPILOT_EQUAL(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
  SPARKPILOT_EQUAL(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED)
  SPARKPILOT_EQUAL(kDeinitialized, CUDA_ERROR_DEINITIALIZED)
  SPARKPILOT_EQUAL(kNoDevice, CUDA_ERROR_NO_DEVICE)
  SPARKPILOT_EQUAL(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE)
  SPARKPILOT_EQUAL(kInvalidImage, CUDA_ERROR_INVALID_IMAGE)
  SPARKPILOT_EQUAL(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT)
  SPARKPILOT_EQUAL(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)
  SPARKPILOT_EQUAL(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
  SPARKPILOT_EQUAL(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE)
  SPARKPILOT_EQUAL(kNotFound, CUDA_ERROR_NOT_FOUND)
  SPARKPILOT_EQUAL(kNotReady, CUDA_ERROR_NOT_READY)
  SPARKPILOT_EQUAL(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)
  SPARKPILOT_EQUAL(kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
  SPARKPILOT_EQUAL(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT)
  SPARKPILOT_EQUAL(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED)
  SPARKPILOT_EQUAL(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED)
  SPARKPILOT_EQUAL(kNotSupported, CUDA_ERROR_NOT_SUPPORTED)
  SPARKPILOT_EQUAL(kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
  SPARKPILOT_EQUAL(kCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
  SPARKPILOT_EQUAL(kCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
  SPARKPILOT_EQUAL(kCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
  SPARKPILOT_EQUAL(kWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE)
  SPARKPILOT_EQUAL(kClockKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
  SPARKPILOT_EQUAL(kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
  SPARKPILOT_EQUAL(kIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED)
  SPARKPILOT_EQUAL(kComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
  SPARKPILOT_EQUAL(kMemoryClockKhz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
  SPARKPILOT_EQUAL(kMemoryBusBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
  SPARKPILOT_EQUAL(kL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
  SPARKPILOT_EQUAL(kThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
  SPARKPILOT_EQUAL(kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)
  SPARKPILOT_EQUAL(kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
  SPARKPILOT_EQUAL(kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
  SPARKPILOT_EQUAL(kSharedBytesPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
  SPARKPILOT_EQUAL(kManagedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)
  SPARKPILOT_EQUAL(kPageableAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
  SPARKPILOT_EQUAL(kConcurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)
  SPARKPILOT_EQUAL(kSharedBytesPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
  SPARKPILOT_EQUAL(kFunctionStaticShared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
  SPARKPILOT_EQUAL(kFunctionLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
  SPARKPILOT_EQUAL(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS)
  SPARKPILOT_EQUAL(kFunctionPtxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION)
  SPARKPILOT_EQUAL(kFunctionBinaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION)
  SPARKPILOT_EQUAL(kFunctionMostDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
  SPARKPILOT_EQUAL(kNonBlockingStream, CU_STREAM_NON_BLOCKING)
  SPARKPILOT_EQUAL(kThreadLocalCapture, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
  SPARKPILOT_EQUAL(kAttachGlobal, CU_MEM_ATTACH_GLOBAL)
  SPARKPILOT_EQUAL(kTimingEvent, CU_EVENT_DEFAULT)
  SPARKPILOT_EQUAL(kProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
  SPARKPILOT_EQUAL(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute))
  SPARKPILOT_EQUAL(offsetof(LaunchAttribute, value),
                   offsetof(CUlaunchAttribute, value.programmaticStreamSerializationAllowed))
  SPARKPILOT_EQUAL(sizeof(LaunchConfig), sizeof(CUlaunchConfig))
  SPARKPILOT_EQUAL(offsetof(LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes))
  SPARKPILOT_EQUAL(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream))
  SPARKPILOT_EQUAL(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs))
  SPARKPILOT_EQUAL(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs))
#undef SPARKPILOT_EQUAL
}

}  // namespace
}  // namespace cuda
}  // namespace sparkpilot
