#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

cuda::DevicePointer device_pointer(const void* p) { return reinterpret_cast<cuda::DevicePointer>(p); }

}  // namespace

#define CALL(function, ...) gpu_->check(#function, gpu_->api().function(__VA_ARGS__))
// Of a stream, for what may read memory that was uploaded.
#define ENQUEUE(function, ...) gpu_->check(#function, api().function(__VA_ARGS__))

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

const cuda::CudaApi& GpuStream::api() const {
  if (!recording_) gpu_->finish_uploads();
  return gpu_->api();
}

void GpuStream::copy_to_gpu(void* to, const void* from, int64_t bytes) {
  ENQUEUE(cuMemcpyHtoDAsync_v2, device_pointer(to), from, static_cast<size_t>(bytes), stream_);
  ++counts_.to_gpu;
  counts_.bytes_to_gpu += bytes;
}
void GpuStream::copy_to_host(void* to, const void* from, int64_t bytes) {
  ENQUEUE(cuMemcpyDtoHAsync_v2, to, device_pointer(from), static_cast<size_t>(bytes), stream_);
  ++counts_.to_host;
  counts_.bytes_to_host += bytes;
}
void GpuStream::copy_on_gpu(void* to, const void* from, int64_t bytes) {
  ENQUEUE(cuMemcpyDtoDAsync_v2, device_pointer(to), device_pointer(from), static_cast<size_t>(bytes), stream_);
  ++counts_.on_gpu;
  counts_.bytes_on_gpu += bytes;
}
void GpuStream::fill(void* to, uint8_t value, int64_t bytes) {
  ENQUEUE(cuMemsetD8Async, device_pointer(to), value, static_cast<size_t>(bytes), stream_);
}

void GpuStream::launch_bytes(const GpuFunction& function, const GpuLaunch& how, const void* arguments) {
  void* parameters[] = {const_cast<void*>(arguments)};
  // From 9.0 on, the launch before this one need not be over when this one begins: kernels wait for it themselves.
  // Older drivers do not record that.
  const bool may_overlap = gpu_->facts().capability >= 90 && gpu_->facts().driver >= 12040;
  cuda::LaunchAttribute early{.id = cuda::kProgrammaticStreamSerialization, .value = 1, .rest = {}};
  const cuda::LaunchConfig config{.grid_x = how.grid_x,
                                  .grid_y = how.grid_y,
                                  .grid_z = how.grid_z,
                                  .block_x = how.threads,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .shared_bytes = static_cast<unsigned>(how.shared_bytes),
                                  .stream = stream_,
                                  .attributes = &early,
                                  .attribute_count = may_overlap ? 1U : 0U};
  const int error = api().cuLaunchKernelEx(&config, function.handle, parameters, nullptr);
  if (error != cuda::kSuccess) gpu_->check(("launch of " + function.name).c_str(), error);
  ++counts_.launches;
  if (list_) list_->push_back({&function, how});
}

GpuRecording GpuStream::record(const std::function<void()>& enqueue) {
  ENQUEUE(cuStreamBeginCapture_v2, stream_, cuda::kThreadLocalCapture);
  cuda::GraphHandle graph = nullptr;
  const auto discard = [&] {  // whatever was captured; while a capture lasts, no memory can be given back
    if (!graph) gpu_->api().cuStreamEndCapture(stream_, &graph);
    if (graph) gpu_->api().cuGraphDestroy(graph);
  };
  GpuRecording out;
  out.gpu_ = gpu_;
  recording_ = true;
  try {
    enqueue();
    recording_ = false;
    CALL(cuStreamEndCapture, stream_, &graph);
    CALL(cuGraphGetNodes, graph, nullptr, &out.nodes_);
    CALL(cuGraphInstantiateWithFlags, &out.executable_, graph, 0);
  } catch (...) {
    recording_ = false;
    out.executable_ = nullptr;
    discard();
    throw;
  }
  recording_ = false;
  discard();
  return out;
}

void GpuStream::run(const GpuRecording& recording) {
  ENQUEUE(cuGraphLaunch, recording.executable_, stream_);
  ++counts_.runs;
}

void GpuStream::wait() {
  ++counts_.waits;
  CALL(cuStreamSynchronize, stream_);
}

bool GpuStream::is_done() {
  const int error = gpu_->api().cuStreamQuery(stream_);
  if (error == cuda::kNotReady) return false;
  gpu_->check("cuStreamQuery", error);
  return true;
}

#undef CALL
#define CALL(function, ...) check(#function, api().function(__VA_ARGS__))

// Through pinned memory of our own: where a GPU reads the processor's page tables, a copy from other memory may still
// be under way when the call for it returns.
std::shared_ptr<Buffer> GpuDevice::upload(const void* data, int64_t bytes) {
  std::shared_ptr<Buffer> out = allocate(bytes, own_place());
  if (bytes == 0) return out;
  if (unified()) {
    std::memcpy(out->data(), data, static_cast<size_t>(bytes));
    return out;
  }
  constexpr int64_t kPiece = 1 << 20, kMost = 64 << 20;  // bytes
  const std::lock_guard lock(uploads_mutex_);
  Uploads& all = uploads_;
  if (all.total + bytes > kMost) end_batch();
  if (!all.stream) CALL(cuStreamCreate, &all.stream, cuda::kNonBlockingStream);
  if (all.used + bytes > all.size) {
    void* piece = nullptr;
    const int64_t size = std::max(bytes, kPiece);
    CALL(cuMemHostAlloc, &piece, static_cast<size_t>(size), 0);
    all.pieces.push_back(static_cast<std::byte*>(piece));
    all.size = size;
    all.used = 0;
  }
  std::byte* const from = all.pieces.back() + all.used;
  std::memcpy(from, data, static_cast<size_t>(bytes));
  CALL(cuMemcpyHtoDAsync_v2, device_pointer(out->data()), from, static_cast<size_t>(bytes), all.stream);
  all.used += bytes;
  all.total += bytes;
  uploading_ = true;
  return out;
}

// With the lock held. Gives everything back before it throws.
void GpuDevice::end_batch() {
  if (!uploads_.stream) return;
  const int error = api().cuStreamSynchronize(uploads_.stream);
  for (std::byte* const piece : uploads_.pieces) api().cuMemFreeHost(piece);
  api().cuStreamDestroy_v2(uploads_.stream);
  uploads_ = {};
  uploading_ = false;
  check("cuStreamSynchronize", error);
}

void GpuDevice::finish_uploads() {
  if (!uploading_) return;
  const std::lock_guard lock(uploads_mutex_);
  end_batch();
}

void GpuDevice::end_uploads() noexcept {
  try {
    end_batch();
  } catch (const Error&) {  // the context is lost
  }
}

#undef CALL
#define CALL(function, ...) gpu_->check(#function, gpu_->api().function(__VA_ARGS__))

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
void GpuTimer::mark(int event, GpuStream& stream) {
  if (stream.recording_) CALL(cuEventRecordWithFlags, events_[event], stream.stream_, cuda::kExternalEvent);
  else CALL(cuEventRecord, events_[event], stream.stream_);
}
void GpuTimer::begin(GpuStream& stream) { mark(0, stream); }
void GpuTimer::end(GpuStream& stream) { mark(1, stream); }
double GpuTimer::milliseconds() {
  CALL(cuEventSynchronize, events_[1]);
  float out = 0;
  CALL(cuEventElapsedTime, &out, events_[0], events_[1]);
  return out;
}

}  // namespace sparkpilot
