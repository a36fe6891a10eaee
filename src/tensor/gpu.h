// A GPU that computes: its memory, its kernels, and streams of work for it. Everything that sparkpilot asks of CUDA
// goes through these two classes; no other file calls the driver to compute.
//
// Any thread may use a GpuDevice; a GpuStream is used by one thread at a time, but not always the same. Errors of the
// driver are Errors of kind `device` that name the call. After an error that ends a CUDA context (an illegal address, a
// lost GPU) every later call fails, and destructors give up silently.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "hw/cuda_api.h"
#include "sparkpilot/tensor.h"
#include "tensor/gpu_launch.h"

namespace sparkpilot {

struct GpuFacts {
  std::string name, pci;  // "NVIDIA GB10", "000F:01:00.0"
  int ordinal = 0;        // among those that CUDA shows, in PCI order
  int capability = 0;     // 121 for compute capability 12.1
  int driver = 0;         // 13000: CUDA 13.0
  int multiprocessors = 0, threads_per_multiprocessor = 0;
  int64_t shared_bytes_per_block = 0;  // that a kernel can be allowed
  int64_t l2_bytes = 0, total_bytes = 0;
  // Processor and GPU share one memory and may use it at the same time (integrated, concurrent managed access).
  bool unified = false;
};

struct GpuOptions {
  enum Unified { as_it_is, off, on };
  Unified unified = as_it_is;  // off: its own memory, explicit copies, even where it is one. on: for tests
  // Bytes of the GPU's memory that are left to others; empty: 2 GiB of unified memory, nothing of a GPU's own.
  std::optional<int64_t> reserve = {};
};

// A kernel's code on a GPU.
struct GpuFunction {
  cuda::FunctionHandle handle = nullptr;
  std::string name;
  int registers = 0;
  int binary = 0;                     // the architecture of the machine code: 120
  int ptx = 0;                        // that of the PTX which nvcc or the driver made it from: 80
  int64_t dynamic_shared = 48 << 10;  // bytes that a launch may ask for
};

class GpuDevice : public std::enable_shared_from_this<GpuDevice> {
 public:
  // The GPU `ordinal`; the same object for all callers while one lives, with the first caller's `options` and the
  // latest reserve that was given. Fails (device) if there is no driver or no such GPU, with what to do next.
  static std::shared_ptr<GpuDevice> open(int ordinal, const GpuOptions& options = {});
  // Of CUDA's GPUs; 0 without a driver.
  static int count();
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const GpuFacts& facts() const { return facts_; }
  bool unified() const { return facts_.unified; }

  // Memory at a multiple of 256, with 64 bytes after its end. Fails (device) before it asks the driver where less than
  // `bytes` can still be taken, with the figures: a DGX Spark that runs out of memory stops.
  std::shared_ptr<Buffer> allocate(int64_t bytes, Place place);
  // Memory that is kept when it is given back, for the next call that asks for as much there: to pin memory, or to free
  // a GPU's, takes longer than using it once does. At most 512 MiB are kept, of which some go for what is given back
  // later; all go when this object ends, or an allocation finds too little memory.
  std::shared_ptr<Buffer> allocate_kept(int64_t bytes, Place place);
  // Memory for the GPU alone with a copy of these bytes, which is there before anything that a stream of this GPU is
  // given afterwards; not inside a recording. `data` may change when the call returns.
  std::shared_ptr<Buffer> upload(const void* data, int64_t bytes);
  // Waits for the copies of upload(), all at once; does nothing if there are none.
  void finish_uploads();
  // Where the processor writes what the GPU reads and the other way round: unified memory, or pinned.
  Place shared_place() const { return unified() ? Place::unified : Place::pinned; }
  // Where the GPU alone reads and writes: the same memory where there is only one.
  Place own_place() const { return unified() ? Place::unified : Place::device; }
  // Bytes that can still be taken, without the reserve. Asks the system or the driver.
  int64_t available_bytes() const;
  int64_t allocated_bytes() const { return allocated_; }
  // The driver's time for functions so far that it had to compile from PTX, with their fat binaries' loading.
  int64_t ptx_ns() const { return ptx_ns_; }

  // The function `name` of a fat binary, which is loaded at the first call for it; not inside a recording.
  // `dynamic_shared`: the most that launches will ask for. Valid as long as this object. Where `is_from_ptx` says so of
  // what was loaded, the time counts in ptx_ns().
  const GpuFunction& function(const void* fat_binary, const std::string& name, int64_t dynamic_shared = 0,
                              bool (*is_from_ptx)(const GpuFunction&) = nullptr);

  // For GpuStream: makes the context this thread's current one, and checks an answer.
  const cuda::CudaApi& api() const;
  void check(const char* call, int error) const;

 private:
  GpuDevice(int ordinal, const GpuOptions& options);

  const cuda::CudaApi* api_;
  const int64_t number_;  // of this object among all of the process
  GpuFacts facts_;
  cuda::DeviceIndex device_ = 0;
  cuda::ContextHandle context_ = nullptr;
  friend class GpuLoad;
  // Makes the context this thread's current one: what cuCtxSetCurrent answered.
  int make_current() const;
  void check_available(int64_t bytes, const std::string& of_what);
  void end_batch();
  void end_uploads() noexcept;
  // Copies of upload() that nothing has waited for, in pinned memory that they are made from.
  struct Uploads {
    cuda::StreamHandle stream = nullptr;
    std::vector<std::byte*> pieces;
    int64_t size = 0, used = 0;  // of the last piece
    int64_t total = 0;
  };
  std::mutex uploads_mutex_, load_mutex_;
  Uploads uploads_;
  std::atomic<bool> uploading_ = false;
  std::atomic<int64_t> expected_ = 0;  // bytes that were found to be available and are not allocated yet
  std::atomic<int64_t> reserve_ = 0;
  mutable std::mutex mutex_;
  std::map<const void*, cuda::ModuleHandle> modules_;
  std::map<std::pair<const void*, std::string>, GpuFunction> functions_;
  std::atomic<int64_t> allocated_ = 0, ptx_ns_ = 0;
  std::byte* take(int64_t bytes, Place place);
  void give_back(std::byte* data, int64_t bytes, Place place) noexcept;
  void keep(std::byte* data, int64_t bytes, Place place) noexcept;
  bool give_back_kept() noexcept;                              // whether there was any
  std::multimap<std::pair<Place, int64_t>, std::byte*> kept_;  // for allocate_kept(); kept_bytes_ in all
  int64_t kept_bytes_ = 0;
};

// Something large that is loaded, one at a time on a GPU: what it needs is held against what can be taken before the
// first allocation, and then the system is not asked again for each.
class GpuLoad {
 public:
  // Fails (device) with the figures if less than `bytes` can be taken. `of_what` stands after them: "for weights".
  GpuLoad(GpuDevice& gpu, int64_t bytes, const std::string& of_what);
  ~GpuLoad() { gpu_.expected_ = 0; }
  GpuLoad(const GpuLoad&) = delete;
  GpuLoad& operator=(const GpuLoad&) = delete;
  // The same for what is still to be allocated, once it is known better. May be called without a GpuLoad.
  static void needs(GpuDevice& gpu, int64_t bytes, const std::string& of_what);

 private:
  GpuDevice& gpu_;
  std::lock_guard<std::mutex> lock_;
};

// What was enqueued once and can be run again by one call.
class GpuRecording {
 public:
  GpuRecording() = default;
  GpuRecording(GpuRecording&& other) noexcept { *this = std::move(other); }
  GpuRecording& operator=(GpuRecording&& other) noexcept;
  ~GpuRecording();
  bool empty() const { return executable_ == nullptr; }
  size_t nodes() const { return nodes_; }

 private:
  friend class GpuStream;
  std::shared_ptr<GpuDevice> gpu_;
  cuda::GraphExecHandle executable_ = nullptr;
  size_t nodes_ = 0;
};

struct GpuLaunched {
  const GpuFunction* function = nullptr;
  GpuLaunch how;
};

// Work in order. Every call only enqueues, except wait(), is_done() and record().
class GpuStream {
 public:
  explicit GpuStream(std::shared_ptr<GpuDevice> gpu);
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  GpuDevice& gpu() const { return *gpu_; }

  void copy_to_gpu(void* to, const void* from, int64_t bytes);
  void copy_to_host(void* to, const void* from, int64_t bytes);
  void copy_on_gpu(void* to, const void* from, int64_t bytes);
  void fill(void* to, uint8_t value, int64_t bytes);

  // `arguments` are copied before the call returns.
  template <typename Arguments>
  void launch(const GpuFunction& function, const GpuLaunch& how, const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= 4096);
    launch_bytes(function, how, &arguments);
  }

  // What `enqueue` enqueues here is recorded instead of done. It may neither allocate nor load, host memory must be
  // pinned, and all memory must stay where it is as long as the recording is used. If it throws, or recording failed,
  // nothing is left of it.
  GpuRecording record(const std::function<void()>& enqueue);
  void run(const GpuRecording& recording);

  // Until all that was enqueued is done; throws what went wrong with it.
  void wait();
  // Whether all that was enqueued is done, without waiting; throws what went wrong with it.
  bool is_done();
  // For a library that enqueues its own work here. The context must be this thread's current one: GpuDevice::api().
  cuda::StreamHandle handle() const { return stream_; }

  // What was enqueued since the construction, recorded or not; runs of recordings and waits.
  struct Counts {
    int64_t launches = 0, runs = 0, waits = 0, to_gpu = 0, to_host = 0, on_gpu = 0;
    int64_t bytes_to_gpu = 0, bytes_to_host = 0, bytes_on_gpu = 0;
  };
  const Counts& counts() const { return counts_; }
  // Every later launch is added to it; null: none.
  void list_launches(std::vector<GpuLaunched>* list) { list_ = list; }

 private:
  friend class GpuTimer;
  void launch_bytes(const GpuFunction& function, const GpuLaunch& how, const void* arguments);
  // The driver, once what was uploaded before is there.
  const cuda::CudaApi& api() const;

  std::shared_ptr<GpuDevice> gpu_;
  bool recording_ = false;
  cuda::StreamHandle stream_ = nullptr;
  std::vector<GpuLaunched>* list_ = nullptr;
  Counts counts_;
};

// Times on the GPU between two points of a stream; where those are recorded, of the recording's last run. It must live
// as long as the recording.
class GpuTimer {
 public:
  explicit GpuTimer(std::shared_ptr<GpuDevice> gpu);
  ~GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;
  void begin(GpuStream& stream);
  void end(GpuStream& stream);
  // Waits for the end, or, of a recording, must be called after a wait for its run.
  double milliseconds();

 private:
  void mark(int event, GpuStream& stream);
  void destroy_events();
  std::shared_ptr<GpuDevice> gpu_;
  cuda::EventHandle events_[2] = {};
};

}  // namespace sparkpilot
