// libcuda, the driver's compute library: what its devices can do. No context is created, so no GPU memory is used.
// Prototypes and attribute numbers are those of the public header cuda.h.
#include <array>

#include "hw/gpu_driver_call.h"

namespace sparkpilot {
namespace {

constexpr int kSuccess = 0, kMaxDevices = 64;

struct Attribute {
  int number;
  std::string_view question;
};
constexpr Attribute kAttributes[] = {
    {75, "capability_major"},
    {76, "capability_minor"},
    {16, "multiprocessors"},
    {13, "clock_khz"},
    {36, "memory_clock_khz"},
    {37, "memory_bus_bits"},
    {38, "l2_cache_bytes"},
    {39, "threads_per_multiprocessor"},
    {81, "shared_memory_per_multiprocessor_bytes"},
    {97, "shared_memory_per_block_bytes"},
    {18, "integrated"},
    {20, "compute_mode"},
    {40, "copy_engines"},
    {41, "unified_addressing"},
    {83, "managed_memory"},
    {88, "pageable_memory_access"},
    {89, "concurrent_managed_access"},
    {99, "host_register"},
    {100, "pageable_memory_by_host_page_tables"},
    {113, "host_register_read_only"},
    {115, "memory_pools"},
    {116, "gpudirect_rdma"},
    {50, "pci_domain"},
    {33, "pci_bus"},
    {34, "pci_device"},
};

GpuDriverAnswers ask(const Library& library, Watch& watch) {
  GpuDriverAnswers out;
  out.library = library.path();
  const auto find = [&](auto type, std::array<const char*, 2> symbols) {
    return library.find<decltype(type)>(symbols);
  };
  using Numbered = int (*)(int*);
  const auto init = find(static_cast<int (*)(unsigned)>(nullptr), {"cuInit"});
  const auto count = find(Numbered{}, {"cuDeviceGetCount"});
  const auto get = find(static_cast<int (*)(int*, int)>(nullptr), {"cuDeviceGet"});
  const auto attribute = find(static_cast<int (*)(int*, int, int)>(nullptr), {"cuDeviceGetAttribute"});
  if (!init || !count || !get || !attribute) {
    out.state = GpuDriverAnswers::State::unusable;
    out.reason = "it has no cuInit or no devices: no libcuda";
    return out;
  }
  watch.calling("cuInit");
  out.error = init(0);
  out.state = out.error == kSuccess ? GpuDriverAnswers::State::answered : GpuDriverAnswers::State::failed;
  const auto put = [](Answers& answers, std::string_view question, int error, int64_t value) {
    answers[std::string(question)] = error == kSuccess ? Answer{value, 0} : Answer{{}, error};
  };
  if (const auto version = find(Numbered{}, {"cuDriverGetVersion"})) {
    int value = 0;
    watch.calling("cuDriverGetVersion");
    const int error = version(&value);
    put(out.system, "cuda_version", error, value);
  }
  if (out.error != kSuccess) return out;
  int devices = 0;
  watch.calling("cuDeviceGetCount");
  const int error = count(&devices);
  put(out.system, "device_count", error, devices);
  if (error != kSuccess) return out;
  const auto name = find(static_cast<int (*)(char*, int, int)>(nullptr), {"cuDeviceGetName"});
  const auto total = find(static_cast<int (*)(size_t*, int)>(nullptr), {"cuDeviceTotalMem_v2", "cuDeviceTotalMem"});
  for (int i = 0; i < std::min(devices, kMaxDevices); ++i) {
    Answers& answers = out.devices.emplace_back();
    int device = 0;
    watch.calling("cuDeviceGet");
    if (const int lost = get(&device, i); lost != kSuccess) {
      answers["handle"] = {{}, lost};
      continue;
    }
    if (name) {
      char buffer[128] = {};
      watch.calling("cuDeviceGetName");
      const int failed = name(buffer, sizeof buffer, device);
      answers["name"] = failed == kSuccess ? Answer{text_of(buffer, sizeof buffer), 0} : Answer{{}, failed};
    }
    if (total) {
      size_t bytes = 0;
      watch.calling("cuDeviceTotalMem");
      const int failed = total(&bytes, device);
      put(answers, "memory_total_bytes", failed, static_cast<int64_t>(bytes));
    }
    for (const auto& [number, question] : kAttributes) {
      int value = 0;
      watch.calling("cuDeviceGetAttribute");
      const int failed = attribute(&value, number, device);
      put(answers, question, failed, value);
    }
  }
  return out;
}

}  // namespace

GpuDriverAnswers ask_cuda(double wait_seconds, const std::vector<std::string>& libraries) {
  return ask_bounded(libraries, wait_seconds, ask);
}

std::vector<std::string_view> cuda_questions() {
  std::vector<std::string_view> out = {"cuda_version", "device_count", "name", "memory_total_bytes"};
  for (const Attribute& attribute : kAttributes) out.push_back(attribute.question);
  return out;
}

}  // namespace sparkpilot
