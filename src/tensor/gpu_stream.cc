#include <utility>

#include "base/error.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

cuda::DevicePointer device_pointer(const void* p) { return reinterpret_cast<cuda::DevicePointer>(p); }

}  // namespace

#define CALL(function, ...) gpu_->check(#function, gpu_->api().function(__VA_ARGS__))

GpuRecording& GpuRecording::operator=(GpuRecording&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(executable_, other.executable_);
  std::swap(nodes_, other.nodes_);
  return *this;
}

GpuRecording::~GpuRecording() {
  if (!executable_) return;
  try {
    gpu_->api().cuGraphExecDestroy(executable_);
  } catch (const Error&) {  // the context is lost
  }
}

GpuStream::GpuStream(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {
  CALL(cuStreamCreate, &stream_, cuda::kNonBlockingStream);
}

GpuStream::~GpuStream() {
  try {
    gpu_->api().cuStreamDestroy_v2(stream_);
  } catch (const Error&) {
  }
}

void GpuStream::copy_to_gpu(void* to, const void* from, int64_t bytes) {
  CALL(cuMemcpyHtoDAsync_v2, device_pointer(to), from, static_cast<size_t>(bytes), stream_);
  ++counts_.to_gpu;
  counts_.bytes_to_gpu += bytes;
}
void GpuStream::copy_to_host(void* to, const void* from, int64_t bytes) {
  CALL(cuMemcpyDtoHAsync_v2, to, device_pointer(from), static_cast<size_t>(bytes), stream_);
  ++counts_.to_host;
  counts_.bytes_to_host += bytes;
}
void GpuStream::copy_on_gpu(void* to, const void* from, int64_t bytes) {
  CALL(cuMemcpyDtoDAsync_v2, device_pointer(to), device_pointer(from), static_cast<size_t>(bytes), stream_);
  ++counts_.on_gpu;
  counts_.bytes_on_gpu += bytes;
}
void GpuStream::fill(void* to, uint8_t value, int64_t bytes) {
  CALL(cuMemsetD8Async, device_pointer(to), value, static_cast<size_t>(bytes), stream_);
}

void GpuStream::launch_bytes(const GpuFunction& function, const GpuLaunch& how, const void* arguments) {
  void* parameters[] = {const_cast<void*>(arguments)};
  const int error = gpu_->api().cuLaunchKernel(function.handle, how.grid_x, how.grid_y, how.grid_z, how.threads, 1, 1,
                                               static_cast<unsigned>(how.shared_bytes), stream_, parameters, nullptr);
  if (error != cuda::kSuccess) gpu_->check(("launch of " + function.name).c_str(), error);
  ++counts_.launches;
}

GpuRecording GpuStream::record(const std::function<void()>& enqueue) {
  CALL(cuStreamBeginCapture_v2, stream_, cuda::kThreadLocalCapture);
  cuda::GraphHandle graph = nullptr;
  const auto discard = [&] {  // whatever was captured; while a capture lasts, no memory can be given back
    if (!graph) gpu_->api().cuStreamEndCapture(stream_, &graph);
    if (graph) gpu_->api().cuGraphDestroy(graph);
  };
  GpuRecording out;
  out.gpu_ = gpu_;
  try {
    enqueue();
    CALL(cuStreamEndCapture, stream_, &graph);
    CALL(cuGraphGetNodes, graph, nullptr, &out.nodes_);
    CALL(cuGraphInstantiateWithFlags, &out.executable_, graph, 0);
  } catch (...) {
    out.executable_ = nullptr;
    discard();
    throw;
  }
  discard();
  return out;
}

void GpuStream::run(const GpuRecording& recording) {
  CALL(cuGraphLaunch, recording.executable_, stream_);
  ++counts_.runs;
}

void GpuStream::wait() {
  ++counts_.waits;
  CALL(cuStreamSynchronize, stream_);
}

std::shared_ptr<Buffer> GpuDevice::upload(const void* data, int64_t bytes) {
  std::shared_ptr<Buffer> out = allocate(bytes, own_place());
  if (bytes == 0) return out;
  GpuStream stream(shared_from_this());
  stream.copy_to_gpu(out->data(), data, bytes);
  stream.wait();
  return out;
}

GpuTimer::GpuTimer(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {
  try {
    for (cuda::EventHandle& event : events_) CALL(cuEventCreate, &event, cuda::kTimingEvent);
  } catch (...) {
    destroy_events();
    throw;
  }
}
GpuTimer::~GpuTimer() {
  try {
    destroy_events();
  } catch (const Error&) {
  }
}
void GpuTimer::destroy_events() {
  for (const cuda::EventHandle event : events_) {
    if (event) gpu_->api().cuEventDestroy_v2(event);
  }
}
void GpuTimer::begin(GpuStream& stream) { CALL(cuEventRecord, events_[0], stream.stream_); }
void GpuTimer::end(GpuStream& stream) { CALL(cuEventRecord, events_[1], stream.stream_); }
double GpuTimer::milliseconds() {
  CALL(cuEventSynchronize, events_[1]);
  float out = 0;
  CALL(cuEventElapsedTime, &out, events_[0], events_[1]);
  return out;
}

}  // namespace sparkpilot
