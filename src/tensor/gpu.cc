#include "tensor/gpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/error.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

using cuda::CudaApi;

constexpr int64_t kMostKept = int64_t{512} << 20;  // bytes
constexpr int64_t kAfterEnd = 64;                  // readable bytes behind a tensor
constexpr int64_t kReserve = int64_t{2} << 30;     // bytes of unified memory that are left to the system

[[noreturn]] void fail_device(const std::string& text) { throw Error(ErrorKind::device, text); }

// One device object for each GPU of the process.
std::mutex devices_mutex;
std::map<int, std::weak_ptr<GpuDevice>> devices;

const CudaApi& driver() {
  std::string why_not;
  const CudaApi* const api = cuda::cuda_api(why_not);
  if (!api) fail_device(why_not + "; `sparkpilot doctor` says what to do");
  return *api;
}

// The device whose context is current in this thread, so that it is set only when it changes. Not the context's handle:
// a context that ends and the next one of its GPU may have the same.
thread_local int64_t current_device = 0;
int64_t new_device_number() {
  static std::atomic<int64_t> last = 0;
  return ++last;
}

int attribute(const CudaApi& api, cuda::DeviceIndex device, cuda::DeviceAttribute number) {
  int value = 0;
  if (const int error = api.cuDeviceGetAttribute(&value, number, device))
    cuda::fail_cuda("cuDeviceGetAttribute", error);
  return value;
}

std::string gigabytes(int64_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

}  // namespace

#define CALL(function, ...) check(#function, api().function(__VA_ARGS__))

int GpuDevice::count() {
  std::string why_not;
  const CudaApi* const api = cuda::cuda_api(why_not);
  int count = 0;
  return api && api->cuDeviceGetCount(&count) == cuda::kSuccess ? count : 0;
}

std::shared_ptr<GpuDevice> GpuDevice::open(int ordinal, const GpuOptions& options) {
  const std::lock_guard lock(devices_mutex);
  if (auto device = devices[ordinal].lock()) {
    if (options.reserve) device->reserve_ = *options.reserve;
    return device;
  }
  std::shared_ptr<GpuDevice> device(new GpuDevice(ordinal, options));
  devices[ordinal] = device;
  return device;
}

GpuDevice::GpuDevice(int ordinal, const GpuOptions& options) : api_(&driver()), number_(new_device_number()) {
  int count = 0;
  check("cuDeviceGetCount", api_->cuDeviceGetCount(&count));
  if (ordinal < 0 || ordinal >= count) {
    fail_device(fmt::format("there is no GPU {}: CUDA shows {} (CUDA_VISIBLE_DEVICES decides which)", ordinal, count));
  }
  check("cuDeviceGet", api_->cuDeviceGet(&device_, ordinal));
  std::array<char, 256> text{};
  check("cuDeviceGetName", api_->cuDeviceGetName(text.data(), static_cast<int>(text.size()) - 1, device_));
  facts_.name = text.data();
  check("cuDeviceGetPCIBusId", api_->cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()) - 1, device_));
  facts_.pci = text.data();
  size_t total = 0;
  check("cuDeviceTotalMem_v2", api_->cuDeviceTotalMem_v2(&total, device_));
  const auto ask = [this](cuda::DeviceAttribute number) { return attribute(*api_, device_, number); };
  facts_.ordinal = ordinal;
  facts_.total_bytes = static_cast<int64_t>(total);
  facts_.capability = ask(cuda::kCapabilityMajor) * 10 + ask(cuda::kCapabilityMinor);
  facts_.multiprocessors = ask(cuda::kMultiprocessors);
  facts_.threads_per_multiprocessor = ask(cuda::kThreadsPerMultiprocessor);
  facts_.shared_bytes_per_block = ask(cuda::kSharedBytesPerBlock);
  facts_.l2_bytes = ask(cuda::kL2Bytes);
  check("cuDriverGetVersion", api_->cuDriverGetVersion(&facts_.driver));
  // A discrete GPU has managed memory, too; only an integrated one has no separate memory.
  const bool can = ask(cuda::kManagedMemory) && ask(cuda::kConcurrentManagedAccess);
  facts_.unified = options.unified == GpuOptions::on    ? can
                   : options.unified == GpuOptions::off ? false
                                                        : can && ask(cuda::kIntegrated);
  if (facts_.capability < 80) {
    fail_device(fmt::format("{} has compute capability {}.{}; 8.0 or newer is needed", facts_.name,
                            facts_.capability / 10, facts_.capability % 10));
  }
  reserve_ = options.reserve.value_or(facts_.unified ? kReserve : 0);
  check("cuDevicePrimaryCtxRetain", api_->cuDevicePrimaryCtxRetain(&context_, device_));
}

GpuDevice::~GpuDevice() {
  end_uploads();
  give_back_kept();
  if (make_current() == cuda::kSuccess) {
    for (const auto& [image, module] : modules_) api_->cuModuleUnload(module);
  }
  api_->cuDevicePrimaryCtxRelease_v2(device_);
}

void GpuDevice::check(const char* call, int error) const {
  if (error != cuda::kSuccess) {
    throw Error(ErrorKind::device,
                fmt::format("{}: {}: {}", facts_.name.empty() ? "GPU" : facts_.name, call, cuda_error_name(error)));
  }
}

int GpuDevice::make_current() const {
  if (current_device == number_) return cuda::kSuccess;
  const int error = api_->cuCtxSetCurrent(context_);
  current_device = error == cuda::kSuccess ? number_ : 0;
  return error;
}

const CudaApi& GpuDevice::api() const {
  check("cuCtxSetCurrent", make_current());
  return *api_;
}

int64_t GpuDevice::available_bytes() const {
  int64_t free_bytes = 0;
  if (unified()) {
    // The driver counts as used what files are cached in.
    const std::unique_ptr<Source> system = system_source();
    Memory memory = probe_memory(*system);
    memory.unified = true;
    const std::optional<int64_t> allocatable = memory.allocatable();
    if (!allocatable) fail_device("how much memory can still be taken is unknown: /proc/meminfo cannot be read");
    free_bytes = *allocatable;
  } else {
    size_t free = 0, total = 0;
    CALL(cuMemGetInfo_v2, &free, &total);
    free_bytes = static_cast<int64_t>(free);
  }
  return std::max<int64_t>(free_bytes - reserve_, 0);
}

void GpuDevice::check_available(int64_t bytes, const std::string& of_what) {
  if (bytes <= available_bytes()) return;
  give_back_kept();
  const int64_t available = available_bytes(), reserve = reserve_;
  if (bytes <= available) return;
  fail_device(fmt::format("{}: {} are needed{} and {} can be taken{}", facts_.name, gigabytes(bytes), of_what,
                          gigabytes(available),
                          reserve > 0 ? fmt::format(" ({} are kept for the system)", gigabytes(reserve)) : ""));
}

GpuLoad::GpuLoad(GpuDevice& gpu, int64_t bytes, const std::string& of_what) : gpu_(gpu), lock_(gpu.load_mutex_) {
  needs(gpu, bytes, of_what);
}

void GpuLoad::needs(GpuDevice& gpu, int64_t bytes, const std::string& of_what) {
  gpu.expected_ = 0;
  gpu.check_available(bytes, of_what.empty() ? "" : " " + of_what);
  gpu.expected_ = bytes;
}

std::byte* GpuDevice::take(int64_t bytes, Place place) {
  if (bytes < 0 || place == Place::host) fail_internal("a GPU allocates {} bytes of {} memory", bytes, name(place));
  if (place == Place::unified && !unified()) fail_internal("unified memory on a GPU that has its own");
  const auto size = static_cast<size_t>(bytes + kAfterEnd);
  // Once more without what was kept, where the driver finds too little.
  const auto allocated = [&](const char* call, const auto& allocate) {
    int error = allocate(api());
    if (error == cuda::kOutOfMemory && give_back_kept()) error = allocate(api());
    check(call, error);
  };
  if (place == Place::pinned) {
    void* pointer = nullptr;
    allocated("cuMemHostAlloc", [&](const CudaApi& api) { return api.cuMemHostAlloc(&pointer, size, 0); });
    return static_cast<std::byte*>(pointer);
  }
  if ((expected_ -= bytes) < 0) {
    expected_ = 0;
    check_available(bytes + kAfterEnd, "");
  }
  cuda::DevicePointer pointer = 0;
  if (place == Place::unified) {
    allocated("cuMemAllocManaged",
              [&](const CudaApi& api) { return api.cuMemAllocManaged(&pointer, size, cuda::kAttachGlobal); });
  } else {
    allocated("cuMemAlloc_v2", [&](const CudaApi& api) { return api.cuMemAlloc_v2(&pointer, size); });
  }
  allocated_ += bytes;
  return reinterpret_cast<std::byte*>(pointer);  // NOLINT(performance-no-int-to-ptr): the driver's type
}

void GpuDevice::give_back(std::byte* data, int64_t bytes, Place place) noexcept {
  if (place != Place::pinned) allocated_ -= bytes;
  if (make_current() != cuda::kSuccess) return;
  if (place == Place::pinned) api_->cuMemFreeHost(data);
  else api_->cuMemFree_v2(reinterpret_cast<cuda::DevicePointer>(data));
}

std::shared_ptr<Buffer> GpuDevice::allocate(int64_t bytes, Place place) {
  const std::shared_ptr<GpuDevice> self = shared_from_this();
  std::byte* const data = take(bytes, place);
  return std::make_shared<Buffer>(place, data, bytes,
                                  [self, data, bytes, place] { self->give_back(data, bytes, place); });
}

std::shared_ptr<Buffer> GpuDevice::allocate_kept(int64_t bytes, Place place) {
  const std::shared_ptr<GpuDevice> self = shared_from_this();
  std::byte* data = nullptr;
  int64_t size = bytes;
  {
    const std::lock_guard lock(mutex_);
    const auto fits = kept_.lower_bound({place, bytes});
    if (fits != kept_.end() && fits->first.first == place && fits->first.second / 2 <= bytes) {
      size = fits->first.second, data = fits->second;
      kept_bytes_ -= size;
      kept_.erase(fits);
    }
  }
  if (!data) data = take(size, place);
  return std::make_shared<Buffer>(place, data, bytes, [self, data, size, place] { self->keep(data, size, place); });
}

void GpuDevice::keep(std::byte* data, int64_t bytes, Place place) noexcept {
  std::multimap<std::pair<Place, int64_t>, std::byte*> gone;
  try {
    const std::lock_guard lock(mutex_);
    if (bytes <= kMostKept) {
      while (kept_bytes_ + bytes > kMostKept) {  // other sizes are in use now
        kept_bytes_ -= kept_.begin()->first.second;
        gone.insert(kept_.extract(kept_.begin()));
      }
      kept_.emplace(std::pair(place, bytes), data);
      kept_bytes_ += bytes;
      data = nullptr;
    }
  } catch (const std::bad_alloc&) {
  }
  for (const auto& [what, other] : gone) give_back(other, what.second, what.first);
  if (data) give_back(data, bytes, place);
}

bool GpuDevice::give_back_kept() noexcept {
  std::multimap<std::pair<Place, int64_t>, std::byte*> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(kept_);
    kept_bytes_ = 0;
  }
  for (const auto& [what, data] : all) give_back(data, what.second, what.first);
  return !all.empty();
}

const GpuFunction& GpuDevice::function(const void* fat_binary, const std::string& name, int64_t dynamic_shared,
                                       bool (*is_from_ptx)(const GpuFunction&)) {
  const std::lock_guard lock(mutex_);
  const int64_t start = now_ns();
  cuda::ModuleHandle& module = modules_[fat_binary];
  if (!module) {
    const int error = api().cuModuleLoadData(&module, fat_binary);
    if (error != cuda::kSuccess) {
      modules_.erase(fat_binary);
      if (error == cuda::kNoBinaryForGpu || error == cuda::kInvalidImage || error == cuda::kUnsupportedPtxVersion) {
        fail_device(fmt::format(
            "{} (compute capability {}.{}, driver for CUDA {}.{}) takes none of the GPU code in this program: {}",
            facts_.name, facts_.capability / 10, facts_.capability % 10, facts_.driver / 1000,
            facts_.driver % 1000 / 10, cuda_error_name(error)));
      }
      check("cuModuleLoadData", error);
    }
  }
  GpuFunction& out = functions_[{fat_binary, name}];
  if (!out.handle) {
    cuda::FunctionHandle handle = nullptr;
    if (const int error = api().cuModuleGetFunction(&handle, module, name.c_str())) {
      functions_.erase({fat_binary, name});
      fail_device(fmt::format("{}: kernel {}: {}", facts_.name, name, cuda_error_name(error)));
    }
    CALL(cuFuncGetAttribute, &out.registers, cuda::kFunctionRegisters, handle);
    CALL(cuFuncGetAttribute, &out.binary, cuda::kFunctionBinaryVersion, handle);
    CALL(cuFuncGetAttribute, &out.ptx, cuda::kFunctionPtxVersion, handle);
    if (is_from_ptx && is_from_ptx(out)) ptx_ns_ += now_ns() - start;
    out.name = name;
    out.handle = handle;
  }
  if (dynamic_shared > out.dynamic_shared) {
    CALL(cuFuncSetAttribute, out.handle, cuda::kFunctionMostDynamicShared, static_cast<int>(dynamic_shared));
    out.dynamic_shared = dynamic_shared;
  }
  return out;
}

}  // namespace sparkpilot
