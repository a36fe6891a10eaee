// libcuda.so.1 on the emulator. Strict where the real one is undefined: the table in docs/cuda.md says how.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "emulated_cuda/driver.h"
#include "ops/cuda/kernels.h"

using namespace sparkpilot::cuda;
using namespace emulated_cuda;

namespace emulated_cuda {
extern thread_local Driver::Current current_context;
}

namespace {

const GpuKind* gpu_of(DeviceIndex device) {
  const auto& gpus = Driver::get().gpus;
  return device >= 0 && static_cast<size_t>(device) < gpus.size() ? gpus[static_cast<size_t>(device)] : nullptr;
}

template <typename T>
int remove(std::set<T*>& set, void* handle) {
  T* const object = static_cast<T*>(handle);
  if (!set.erase(object)) return kInvalidHandle;
  delete object;
  return kSuccess;
}

int copy_text(char* to, int size, const char* text) {
  if (!to || size <= 0) return kInvalidValue;
  std::snprintf(to, static_cast<size_t>(size), "%s", text);
  return kSuccess;
}

int attribute(const GpuKind& gpu, int number) {
  switch (number) {
    case kWarpSize: return 32;
    case kClockKhz: return gpu.clock_khz;
    case kMultiprocessors: return gpu.multiprocessors;
    case kIntegrated: return gpu.integrated;
    case kMemoryClockKhz: return gpu.memory_clock_khz;
    case kMemoryBusBits: return gpu.memory_bus_bits;
    case kL2Bytes: return gpu.l2_bytes;
    case kThreadsPerMultiprocessor: return gpu.threads_per_multiprocessor;
    case kUnifiedAddressing: return 1;
    case kCapabilityMajor: return gpu.major;
    case kCapabilityMinor: return gpu.minor;
    case kSharedBytesPerMultiprocessor: return gpu.shared_bytes_per_multiprocessor;
    case kManagedMemory: return gpu.managed;
    case kPageableAccess: return gpu.pageable;
    case kConcurrentManagedAccess: return gpu.concurrent_managed;
    case kSharedBytesPerBlock: return gpu.shared_bytes_per_block;
    default: return 0;
  }
}

sparkpilot::emulator::Schedule schedule() {
  const char* const seed = std::getenv("EMULATED_CUDA_SEED");
  return {.seed = seed ? static_cast<unsigned>(std::atoi(seed)) : 0, .late_copies = true};
}

int check_launch(const Function& f, const sparkpilot::emulator::LaunchShape& shape) {
  const GpuKind& gpu = Driver::get().current();
  const auto& [grid, block, shared] = shape;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool right = grid.x && grid.y && grid.z && grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535 &&
                     threads > 0 && threads <= 1024 && block.z <= 64 &&
                     shared <= static_cast<size_t>(f.most_dynamic_shared) &&
                     shared <= static_cast<size_t>(gpu.shared_bytes_per_block);
  return right ? kSuccess : kInvalidValue;
}

// EMULATED_CUDA_WRONG names a kernel. If it is of words.cu, its answer begins with another bit; others are left out.
bool is_left_out(const std::string& kernel) {
  const char* const wrong = std::getenv("EMULATED_CUDA_WRONG");
  return wrong && kernel == wrong && !kernel.starts_with("word_");
}
void plant_fault(const std::string& kernel, const std::vector<char>& arguments) {
  const char* const wrong = std::getenv("EMULATED_CUDA_WRONG");
  if (!wrong || kernel != wrong || !kernel.starts_with("word_")) return;
  sparkpilot::cuda::WordArguments words;
  std::memcpy(&words, arguments.data(), sizeof words);
  *static_cast<unsigned char*>(words.out) ^= 1;
}

}  // namespace

// Each function begins so: the lock, the count, an injected failure, the context.
#define ENTER(name, ...)               \
  Driver& d = Driver::get();           \
  const std::lock_guard lock(d.mutex); \
  if (const int error = d.enter(#name __VA_OPT__(, ) __VA_ARGS__)) return error
#define NOT_IN_CAPTURE() \
  if (const int error = d.forbidden_in_capture()) return error

extern "C" {

// For tests in the same process: what report() says, and a new beginning that reads the environment again.
const char* emulated_cuda_report() {
  static std::string text;
  text = Driver::get().report();
  return text.c_str();
}
void emulated_cuda_reset() {
  Driver::reset();
  current_context = {};
}

// For other emulated libraries. Work as the driver's own: `run` returns a CUresult, kNotReady while it has to wait.
int emulated_cuda_enqueue(StreamHandle stream, const char* what, int (*run)(void*), void* with) {
  ENTER(emulated_cuda_enqueue);
  return d.submit(stream, {what, [=] { return run(with); }});
}
// Whether the GPU of this thread's context reaches these bytes.
int emulated_cuda_reaches(DevicePointer pointer, size_t bytes) {
  ENTER(emulated_cuda_reaches);
  return d.memory->is_on_gpu(pointer, bytes) ? kSuccess : kInvalidValue;
}
// The GPU of this thread's context; null without one.
const char* emulated_cuda_current_gpu() {
  Driver& d = Driver::get();
  const std::lock_guard lock(d.mutex);
  return current_context.gpu < 0 ? nullptr : d.current().pci;
}

int cuInit(unsigned) {
  ENTER(cuInit, false);
  if (d.gpus.empty()) return kNoDevice;
  d.initialised = true;
  return kSuccess;
}
int cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
int cuGetErrorName(int error, const char** name) { return *name = error ? "CUDA_ERROR" : "CUDA_SUCCESS", kSuccess; }
int cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount, false);
  return *count = static_cast<int>(d.gpus.size()), kSuccess;
}
int cuDeviceGet(DeviceIndex* device, int ordinal) {
  ENTER(cuDeviceGet, false);
  return gpu_of(ordinal) ? (*device = ordinal, kSuccess) : kInvalidDevice;
}
int cuDeviceGetName(char* name, int size, DeviceIndex device) {
  ENTER(cuDeviceGetName, false);
  return gpu_of(device) ? copy_text(name, size, gpu_of(device)->name) : kInvalidDevice;
}
int cuDeviceGetPCIBusId(char* id, int size, DeviceIndex device) {
  ENTER(cuDeviceGetPCIBusId, false);
  return gpu_of(device) ? copy_text(id, size, gpu_of(device)->pci) : kInvalidDevice;
}
int cuDeviceTotalMem_v2(size_t* bytes, DeviceIndex device) {
  ENTER(cuDeviceTotalMem_v2, false);
  return gpu_of(device) ? (*bytes = gpu_of(device)->memory_bytes, kSuccess) : kInvalidDevice;
}
int cuDeviceGetAttribute(int* value, int number, DeviceIndex device) {
  ENTER(cuDeviceGetAttribute, false);
  return gpu_of(device) ? (*value = attribute(*gpu_of(device), number), kSuccess) : kInvalidDevice;
}
int cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceIndex device) {
  ENTER(cuDevicePrimaryCtxRetain, false);
  if (!gpu_of(device)) return kInvalidDevice;
  ++d.retained[static_cast<size_t>(device)];
  return *context = reinterpret_cast<ContextHandle>(&d.retained[static_cast<size_t>(device)]), kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(DeviceIndex device) {
  ENTER(cuDevicePrimaryCtxRelease_v2, false);
  if (!gpu_of(device) || d.retained[static_cast<size_t>(device)] == 0) return kInvalidContext;
  if (--d.retained[static_cast<size_t>(device)] == 0) ++d.ended[static_cast<size_t>(device)];
  return kSuccess;
}
int cuCtxSetCurrent(ContextHandle context) {
  ENTER(cuCtxSetCurrent, false);
  current_context = {};
  if (!context) return kSuccess;
  const auto gpu = reinterpret_cast<int*>(context) - d.retained.data();
  if (gpu < 0 || static_cast<size_t>(gpu) >= d.gpus.size()) return kInvalidContext;
  if (d.retained[static_cast<size_t>(gpu)] == 0) return kContextIsDestroyed;
  current_context = {static_cast<int>(gpu), d.ended[static_cast<size_t>(gpu)]};
  return kSuccess;
}

int cuModuleLoadData(ModuleHandle* module, const void* image) {
  ENTER(cuModuleLoadData);
  NOT_IN_CAPTURE();
  std::string chosen;
  if (const int error = choose_image(image, d.current(), chosen)) return error;
  d.images.push_back(chosen);
  auto* const made = new Module{chosen};
  d.modules.insert(made);
  return *module = reinterpret_cast<ModuleHandle>(made), kSuccess;
}
int cuModuleUnload(ModuleHandle module) {
  ENTER(cuModuleUnload);
  NOT_IN_CAPTURE();
  auto* const gone = reinterpret_cast<Module*>(module);
  std::erase_if(d.functions, [&](const auto& entry) { return entry.first.first == gone; });
  return remove(d.modules, gone);
}
int cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  ENTER(cuModuleGetFunction);
  auto* const owner = reinterpret_cast<Module*>(module);
  if (!d.modules.contains(owner)) return kInvalidHandle;
  const auto found = kernels().find(name);
  if (found == kernels().end()) return kNotFound;
  auto& slot = d.functions[{owner, name}];
  if (!slot) slot = std::make_unique<Function>(Function{name, &found->second, owner});
  return *function = reinterpret_cast<FunctionHandle>(slot.get()), kSuccess;
}
int cuFuncGetAttribute(int* value, int number, FunctionHandle function) {
  ENTER(cuFuncGetAttribute);
  const Function& f = *reinterpret_cast<Function*>(function);
  const GpuKind& gpu = d.current();
  const bool ptx = f.module->image.starts_with("compute_");
  const int number_of_image = std::atoi(f.module->image.c_str() + f.module->image.find('_') + 1);
  switch (number) {
    case kFunctionBinaryVersion: return *value = ptx ? gpu.major * 10 + gpu.minor : number_of_image, kSuccess;
    // All sources but words.cu are read twice, as for compute_80 and compute_90 (cmake/cuda.cmake).
    case kFunctionPtxVersion:
      return *value = f.name.starts_with("word_") ? number_of_image : number_of_image < 90 ? 80 : 90, kSuccess;
    case kFunctionMostDynamicShared: return *value = f.most_dynamic_shared, kSuccess;
    default: return *value = 0, kSuccess;
  }
}
int cuFuncSetAttribute(FunctionHandle function, int number, int value) {
  ENTER(cuFuncSetAttribute);
  if (number != kFunctionMostDynamicShared || value < 0 || value > d.current().shared_bytes_per_block)
    return kInvalidValue;
  reinterpret_cast<Function*>(function)->most_dynamic_shared = value;
  return kSuccess;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER(cuMemGetInfo_v2);
  *total = d.memory->limit();
  *free = *total - d.memory->used(Kind::device) - d.memory->used(Kind::managed);
  if (d.current().memory_info_misleads) *free = std::min(*free, size_t{2} << 30);
  return kSuccess;
}
static int allocate(Driver& d, std::uintptr_t* pointer, size_t bytes, Kind kind) {
  NOT_IN_CAPTURE();
  if (bytes == 0) return kInvalidValue;
  *pointer = d.memory->allocate(bytes, kind);
  if (*pointer && d.checker) d.checker->add_memory(reinterpret_cast<void*>(*pointer), bytes, true);
  return *pointer ? kSuccess : kOutOfMemory;
}
int cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  ENTER(cuMemAlloc_v2);
  std::uintptr_t made = 0;
  const int error = allocate(d, &made, bytes, Kind::device);
  return *pointer = made, error;
}
int cuMemAllocManaged(DevicePointer* pointer, size_t bytes, unsigned flags) {
  ENTER(cuMemAllocManaged);
  if (flags != kAttachGlobal) return kInvalidValue;
  if (!d.current().managed) return kNotSupported;
  std::uintptr_t made = 0;
  const int error = allocate(d, &made, bytes, Kind::managed);
  return *pointer = made, error;
}
// As the real one, waits for all work first.
static int free_memory(Driver& d, std::uintptr_t pointer, bool host) {
  NOT_IN_CAPTURE();
  if (const int error = d.run_everything()) return error;
  if (d.checker) d.checker->remove_memory(reinterpret_cast<void*>(pointer));
  return d.memory->free(pointer, host) ? kSuccess : kInvalidValue;
}
int cuMemFree_v2(DevicePointer pointer) {
  ENTER(cuMemFree_v2);
  return free_memory(d, pointer, false);
}
int cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  ENTER(cuMemHostAlloc);
  std::uintptr_t made = 0;
  const int error = allocate(d, &made, bytes, Kind::host);
  return *pointer = reinterpret_cast<void*>(made), error;
}
int cuMemFreeHost(void* pointer) {
  ENTER(cuMemFreeHost);
  return free_memory(d, reinterpret_cast<std::uintptr_t>(pointer), true);
}

// To a GPU. From memory that is not pinned, the real driver reads before the call returns; within a capture nobody
// knows when.
int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, StreamHandle stream) {
  ENTER(cuMemcpyHtoDAsync_v2);
  if (!d.memory->is_on_gpu(to, bytes)) return kInvalidValue;
  d.copied["cuMemcpyHtoDAsync_v2"] += bytes;
  if (d.memory->holds(reinterpret_cast<std::uintptr_t>(from), bytes, Kind::host)) {
    return d.submit(stream, {"cuMemcpyHtoDAsync_v2",
                             [=] { return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0; }, Places{to}});
  }
  auto* const target = reinterpret_cast<Stream*>(stream);
  if (d.streams.contains(target) && target->capturing) return target->spoilt = true, kCaptureUnsupported;
  auto staged =
      std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  return d.submit(stream,
                  {"cuMemcpyHtoDAsync_v2",
                   [=] { return std::memcpy(reinterpret_cast<void*>(to), staged->data(), bytes), 0; }, Places{to}});
}
int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, StreamHandle stream) {
  ENTER(cuMemcpyDtoHAsync_v2);
  if (!d.memory->is_on_gpu(from, bytes)) return kInvalidValue;
  d.copied["cuMemcpyDtoHAsync_v2"] += bytes;
  auto* const target = reinterpret_cast<Stream*>(stream);
  const bool pinned = d.memory->holds(reinterpret_cast<std::uintptr_t>(to), bytes, Kind::host);
  if (!pinned && d.streams.contains(target) && target->capturing) return target->spoilt = true, kCaptureUnsupported;
  const int error = d.submit(
      stream,
      {"cuMemcpyDtoHAsync_v2", [=] { return std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0; }, Places{from}});
  return error || pinned ? error : d.run(*target);
}
int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream) {
  ENTER(cuMemcpyDtoDAsync_v2);
  if (!d.memory->is_on_gpu(to, bytes) || !d.memory->is_on_gpu(from, bytes)) return kInvalidValue;
  d.copied["cuMemcpyDtoDAsync_v2"] += bytes;
  return d.submit(stream,
                  {"cuMemcpyDtoDAsync_v2",
                   [=] { return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), 0; },
                   Places{to, from}});
}
int cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, StreamHandle stream) {
  ENTER(cuMemsetD8Async);
  if (!d.memory->is_on_gpu(to, bytes)) return kInvalidValue;
  d.copied["cuMemsetD8Async"] += bytes;
  return d.submit(stream, {"cuMemsetD8Async", [=] { return std::memset(reinterpret_cast<void*>(to), value, bytes), 0; },
                           Places{to}});
}

int cuStreamCreate(StreamHandle* stream, unsigned flags) {
  ENTER(cuStreamCreate);
  NOT_IN_CAPTURE();
  if (flags != kNonBlockingStream) return kInvalidValue;  // the others wait for the legacy stream
  auto* const made = new Stream;
  d.streams.insert(made);
  return *stream = reinterpret_cast<StreamHandle>(made), kSuccess;
}
int cuStreamDestroy_v2(StreamHandle stream) {
  ENTER(cuStreamDestroy_v2);
  auto* const gone = reinterpret_cast<Stream*>(stream);
  if (d.streams.contains(gone)) d.run(*gone);
  return remove(d.streams, gone);
}
int cuStreamSynchronize(StreamHandle stream) {
  ENTER(cuStreamSynchronize);
  auto* const waited = reinterpret_cast<Stream*>(stream);
  if (!d.streams.contains(waited)) return kInvalidHandle;
  if (waited->capturing) return waited->spoilt = true, kCaptureUnsupported;
  return d.run(*waited);
}
int cuStreamQuery(StreamHandle stream) {
  ENTER(cuStreamQuery);
  auto* const asked = reinterpret_cast<Stream*>(stream);
  if (!d.streams.contains(asked)) return kInvalidHandle;
  if (asked->capturing) return asked->spoilt = true, kCaptureUnsupported;
  return d.run(*asked, ~size_t{0}, false);
}

int cuEventCreate(EventHandle* event, unsigned) {
  ENTER(cuEventCreate);
  auto* const made = new Event;
  d.events.insert(made);
  return *event = reinterpret_cast<EventHandle>(made), kSuccess;
}
int cuEventDestroy_v2(EventHandle event) {
  ENTER(cuEventDestroy_v2);
  if (const int error = d.run_everything()) return error;
  return remove(d.events, event);
}
int cuEventRecord(EventHandle handle, StreamHandle stream) {
  ENTER(cuEventRecord);
  auto* const event = reinterpret_cast<Event*>(handle);
  auto* const recorded = reinterpret_cast<Stream*>(stream);
  if (!d.events.contains(event) || !d.streams.contains(recorded)) return kInvalidHandle;
  if (recorded->capturing)
    return recorded->spoilt = true, kCaptureUnsupported;  // a second stream of a capture is not emulated
  *event = {recorded, recorded->done + recorded->queue.size() + 1, true, -1};
  return d.submit(stream, {"cuEventRecord", [event, &d] { return event->seconds = d.now(), 0; }, Places{}});
}
int cuEventRecordWithFlags(EventHandle handle, StreamHandle stream, unsigned flags) {
  ENTER(cuEventRecordWithFlags);
  auto* const event = reinterpret_cast<Event*>(handle);
  auto* const recorded = reinterpret_cast<Stream*>(stream);
  if (flags != kExternalEvent) return kInvalidValue;
  if (!d.events.contains(event) || !d.streams.contains(recorded)) return kInvalidHandle;
  if (!recorded->capturing) return kCaptureUnmatched;  // the real one would take it as cuEventRecord
  return d.submit(stream, {"cuEventRecordWithFlags", [event, recorded, &d] {
                             *event = {recorded, 0, true, d.now()};
                             return 0;
                           }});
}
int cuEventSynchronize(EventHandle handle) {
  ENTER(cuEventSynchronize);
  auto* const event = reinterpret_cast<Event*>(handle);
  if (!d.events.contains(event)) return kInvalidHandle;
  return event->recorded && d.streams.contains(event->stream) ? d.run(*event->stream, event->position) : kSuccess;
}
int cuStreamWaitEvent(StreamHandle stream, EventHandle handle, unsigned) {
  ENTER(cuStreamWaitEvent);
  auto* const event = reinterpret_cast<Event*>(handle);
  if (!d.events.contains(event)) return kInvalidHandle;
  const Event then = *event;
  return d.submit(stream,
                  {"cuStreamWaitEvent", [&d, then] {
                     return then.recorded && d.streams.contains(then.stream) ? d.run(*then.stream, then.position) : 0;
                   }});
}
int cuEventElapsedTime(float* milliseconds, EventHandle begin, EventHandle end) {
  ENTER(cuEventElapsedTime);
  const auto* const a = reinterpret_cast<Event*>(begin);
  const auto* const b = reinterpret_cast<Event*>(end);
  if (!a->recorded || !b->recorded) return kInvalidHandle;
  if (a->seconds < 0 || b->seconds < 0) return kNotReady;
  return *milliseconds = static_cast<float>((b->seconds - a->seconds) * 1e3), kSuccess;
}

int cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  ENTER(cuStreamBeginCapture_v2);
  auto* const captured = reinterpret_cast<Stream*>(stream);
  if (!d.streams.contains(captured) || mode != kThreadLocalCapture) return kInvalidValue;
  if (captured->capturing) return kCaptureUnsupported;
  captured->capturing = true;
  captured->capturing_thread = std::this_thread::get_id();
  captured->spoilt = false;
  captured->captured.clear();
  return kSuccess;
}
int cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  ENTER(cuStreamEndCapture);
  auto* const captured = reinterpret_cast<Stream*>(stream);
  *graph = nullptr;
  if (!d.streams.contains(captured) || !captured->capturing) return kCaptureUnmatched;
  if (captured->capturing_thread != std::this_thread::get_id()) return kCaptureWrongThread;
  captured->capturing = false;
  if (captured->spoilt) return kCaptureInvalidated;
  auto* const made = new Graph{std::move(captured->captured)};
  d.graphs.insert(made);
  return *graph = reinterpret_cast<GraphHandle>(made), kSuccess;
}
int cuGraphGetNodes(GraphHandle graph, NodeHandle* nodes, size_t* count) {
  ENTER(cuGraphGetNodes);
  auto* const asked = reinterpret_cast<Graph*>(graph);
  if (!d.graphs.contains(asked) || nodes) return kInvalidValue;
  return *count = asked->nodes.size(), kSuccess;
}
int cuGraphInstantiateWithFlags(GraphExecHandle* executable, GraphHandle graph, unsigned long long) {
  ENTER(cuGraphInstantiateWithFlags);
  NOT_IN_CAPTURE();
  auto* const asked = reinterpret_cast<Graph*>(graph);
  if (!d.graphs.contains(asked)) return kInvalidValue;
  auto* const made = new Graph(*asked);
  d.executables.insert(made);
  return *executable = reinterpret_cast<GraphExecHandle>(made), kSuccess;
}
int cuGraphLaunch(GraphExecHandle executable, StreamHandle stream) {
  ENTER(cuGraphLaunch);
  auto* const launched = reinterpret_cast<Graph*>(executable);
  if (!d.executables.contains(launched)) return kInvalidHandle;
  for (const Work& node : launched->nodes) {
    if (const int error = d.submit(stream, node)) return error;
  }
  return kSuccess;
}
int cuGraphExecDestroy(GraphExecHandle executable) {
  ENTER(cuGraphExecDestroy);
  return remove(d.executables, executable);
}
int cuGraphDestroy(GraphHandle graph) {
  ENTER(cuGraphDestroy);
  return remove(d.graphs, graph);
}

int cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra) {
  ENTER(cuLaunchKernelEx);
  if (extra || !parameters) return kInvalidValue;
  const LaunchConfig& c = *config;
  const StreamHandle stream = c.stream;
  for (unsigned i = 0; i < c.attribute_count; ++i) {
    if (c.attributes[i].id != kProgrammaticStreamSerialization || d.current().major < 9) return kNotSupported;
  }
  const Function& f = *reinterpret_cast<Function*>(function);
  const sparkpilot::emulator::LaunchShape shape{
      {c.grid_x, c.grid_y, c.grid_z}, {c.block_x, c.block_y, c.block_z}, c.shared_bytes};
  if (const int error = check_launch(f, shape)) return error;
  // Copied now: the caller's may be gone when the work runs.
  const auto* const from = static_cast<const char*>(parameters[0]);
  std::vector<char> arguments(from, from + f.kernel->argument_bytes);
  return d.submit(stream, {f.name, [&d, shape, arguments = std::move(arguments), name = f.name, kernel = f.kernel] {
                             try {
                               ++d.launched[name];
                               auto how = schedule();
                               how.checker = d.checker.get();
                               if (!d.idle && !is_left_out(name)) kernel->run(shape, how, arguments.data());
                               d.take_time(name, shape);
                               d.take_checks(name);
                               plant_fault(name, arguments);
                               return static_cast<int>(kSuccess);
                             } catch (const std::exception& error) {
                               std::fprintf(stderr, "emulated CUDA: %s: %s\n", name.c_str(), error.what());
                               return static_cast<int>(kLaunchFailed);
                             }
                           }});
}
}
