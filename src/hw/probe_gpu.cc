#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

constexpr size_t kMaxGpus = 64, kMaxPciDevices = 4096;
constexpr int64_t kMinMemory = int64_t{16} << 20, kMaxMemory = int64_t{1} << 44;
constexpr int64_t kMaxMhz = 30'000, kMaxMilliwatts = 5'000'000;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::optional<int> asked(const Answers& answers, std::string_view question, int64_t least, int64_t most) {
  return within(integer(answers, question), least, most);
}

std::optional<bool> asked_flag(const Answers& answers, std::string_view question) {
  const auto value = asked(answers, question, 0, 1);
  return value ? std::optional(*value == 1) : std::nullopt;
}

std::string asked_text(const Answers& answers, std::string_view question) {
  return plain(text(answers, question).value_or(""));
}

std::optional<int64_t> bytes(const Answers& answers, std::string_view question, int64_t least, int64_t most) {
  const auto value = integer(answers, question);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

std::string address(const Answers& answers) {
  const auto domain = asked(answers, "pci_domain", 0, 0x7fffffff), bus = asked(answers, "pci_bus", 0, 255),
             device = asked(answers, "pci_device", 0, 31);
  return domain && bus && device ? fmt::format("{:04x}:{:02x}:{:02x}.0", *domain, *bus, *device) : std::string();
}

std::optional<ComputeCapability> capability(const Answers& answers) {
  const auto major = asked(answers, "capability_major", 1, 99), minor = asked(answers, "capability_minor", 0, 9);
  return major && minor ? std::optional(ComputeCapability{*major, *minor}) : std::nullopt;
}

std::optional<double> watts(const Answers& answers, std::string_view question) {
  const auto milliwatts = asked(answers, question, 1, kMaxMilliwatts);
  return milliwatts ? std::optional(*milliwatts * 1e-3) : std::nullopt;
}

// A link is as fast as the slower end: its present state must lie within what is possible.
void put_pcie(const Answers& answers, Gpu& gpu) {
  gpu.pcie_max_generation = asked(answers, "pcie_max_generation", 1, 9);
  gpu.pcie_max_width = asked(answers, "pcie_max_width", 1, 32);
  gpu.pcie_generation = asked(answers, "pcie_generation", 1, gpu.pcie_max_generation.value_or(9));
  gpu.pcie_width = asked(answers, "pcie_width", 1, gpu.pcie_max_width.value_or(32));
}

// A process that computes and draws is listed twice, with the same memory. Empty if any process's memory is not known.
std::optional<int64_t> sum(const std::vector<GpuProcess>& processes) {
  std::map<int64_t, int64_t> by_pid;
  for (const GpuProcess& process : processes) {
    if (!process.bytes || *process.bytes < 0 || *process.bytes > kMaxMemory) return std::nullopt;
    int64_t& bytes = by_pid[process.pid];
    bytes = std::max(bytes, *process.bytes);
  }
  int64_t sum = 0;
  for (const auto& [pid, bytes] : by_pid) sum += bytes;
  return sum;
}

Gpu gpu_of_nvml(const Answers& answers, const std::vector<GpuProcess>& processes) {
  Gpu gpu;
  gpu.name = asked_text(answers, "name");
  gpu.pci = address(answers);
  // NVML's id has the device in the upper half, the vendor in the lower.
  if (const auto id = bytes(answers, "pci_id", 1, 0xffffffff)) {
    gpu.pci_id = fmt::format("{:04x}:{:04x}", *id & 0xffff, *id >> 16);
  }
  gpu.capability = capability(answers);
  gpu.memory_total = bytes(answers, "memory_total_bytes", kMinMemory, kMaxMemory);
  gpu.memory_used = bytes(answers, "memory_used_bytes", 0, gpu.memory_total.value_or(-1));
  put_pcie(answers, gpu);
  gpu.sm_clock_mhz = asked(answers, "sm_clock_mhz", 1, kMaxMhz);
  gpu.max_sm_clock_mhz = asked(answers, "max_sm_clock_mhz", 1, kMaxMhz);
  gpu.memory_clock_mhz = asked(answers, "memory_clock_mhz", 1, kMaxMhz);
  gpu.power_w = watts(answers, "power_mw");
  gpu.power_limit_w = watts(answers, "power_limit_mw");
  gpu.temperature_c = asked(answers, "temperature_c", 1, 150);
  gpu.slowdown_temperature_c = asked(answers, "slowdown_temperature_c", 1, 150);
  gpu.gpu_percent = asked(answers, "gpu_percent", 0, 100);
  gpu.memory_percent = asked(answers, "memory_percent", 0, 100);
  if (const auto reasons = asked(answers, "throttle_reasons", 0, INT32_MAX)) gpu.throttle_reasons = *reasons;
  gpu.persistence = asked_flag(answers, "persistence");
  gpu.ecc = asked_flag(answers, "ecc");
  gpu.mig = asked_flag(answers, "mig");
  gpu.display = asked_flag(answers, "display");
  if (error_of(answers, "compute_processes") == 0) gpu.process_memory = sum(processes);
  return gpu;
}

// Memory of the machine does not belong to the GPU, and a GB10 has no PCIe link.
void drop_what_it_lacks(Gpu& gpu) {
  if (is_gb10(gpu)) {
    gpu.unified_memory = true;
    gpu.pcie_generation = gpu.pcie_max_generation = gpu.pcie_width = gpu.pcie_max_width = std::nullopt;
  }
  if (gpu.unified_memory.value_or(false)) gpu.memory_total = gpu.memory_used = std::nullopt;
}

// Adds libcuda's answers; it sees the GPUs that this process may use.
void put_cuda(const Answers& answers, int index, Gpu& gpu) {
  constexpr int kProhibited = 2;
  if (integer(answers, "compute_mode") != kProhibited) gpu.cuda_index = index;
  if (gpu.name.empty()) gpu.name = asked_text(answers, "name");
  if (gpu.pci.empty()) gpu.pci = address(answers);
  if (const auto found = capability(answers)) gpu.capability = found;
  gpu.multiprocessors = asked(answers, "multiprocessors", 1, 4096);
  gpu.unified_memory = asked_flag(answers, "integrated");
  gpu.pageable_memory_access = asked_flag(answers, "pageable_memory_access");
  if (!gpu.memory_total) gpu.memory_total = bytes(answers, "memory_total_bytes", kMinMemory, kMaxMemory);
}

void merge_cuda(const GpuDriverAnswers& cuda, std::vector<Gpu>& gpus) {
  std::vector<bool> merged(gpus.size());
  for (size_t i = 0; i < cuda.devices.size() && i < kMaxGpus; ++i) {
    const Answers& answers = cuda.devices[i];
    if (!capability(answers)) continue;  // the device could not even be opened
    const std::string pci = address(answers), name = asked_text(answers, "name");
    size_t same = 0;
    while (same < gpus.size()) {
      const bool by_name = pci.empty() || gpus[same].pci.empty();
      if (by_name ? !merged[same] && gpus[same].name == name : gpus[same].pci == pci) break;
      ++same;
    }
    if (same == gpus.size()) {
      if (gpus.size() >= kMaxGpus) break;
      gpus.emplace_back();
      merged.push_back(false);
    }
    // A second device at the same address is a part of a partitioned GPU: the first stands for it.
    if (!merged[same]) put_cuda(answers, static_cast<int>(i), gpus[same]);
    merged[same] = true;
  }
}

// Display and 3D controllers, found without any driver.
struct PciGpu {
  std::string address, id, driver;  // id: "10de:2e12"
};
std::vector<PciGpu> pci_gpus(Source& source) {
  constexpr std::string_view kDisplay = "0x03";
  std::vector<PciGpu> out;
  size_t examined = 0;
  for (const std::string& name : source.list("/sys/bus/pci/devices")) {
    if (++examined > kMaxPciDevices || out.size() >= kMaxGpus) break;
    const std::string folder = "/sys/bus/pci/devices/" + name;
    if (read_plain(source, folder + "/class").substr(0, kDisplay.size()) != kDisplay) continue;
    const auto vendor = within(to_integer(read_plain(source, folder + "/vendor"), 16), 0, 0xffff);
    const auto device = within(to_integer(read_plain(source, folder + "/device"), 16), 0, 0xffff);
    const std::string address = pci_address(name);
    if (!vendor || !device || address.empty()) continue;
    out.push_back({address, fmt::format("{:04x}:{:04x}", *vendor, *device),
                   plain(base_name(source.link(folder + "/driver").value_or("")))});
  }
  return out;
}

void merge_pci(Source& source, Machine& machine) {
  for (const PciGpu& found : pci_gpus(source)) {
    const std::string vendor = found.id.substr(0, 4);
    if (vendor == "10de") {
      const auto same = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                     [&](const Gpu& gpu) { return gpu.pci == found.address; });
      if (same == machine.gpus.end() && machine.gpus.size() >= kMaxGpus) continue;
      Gpu& gpu = same == machine.gpus.end() ? machine.gpus.emplace_back() : *same;
      gpu.pci = found.address;
      gpu.pci_id = found.id;
      gpu.kernel_driver = found.driver;
    } else if (vendor == "1002" || vendor == "8086" ||
               vendor == "1ed5") {  // other vendors' devices only draw: server consoles, emulators
      machine.other_gpus.push_back((found.driver.empty() ? "no driver " : found.driver + " ") + found.id);
    }
  }
  // Qualcomm's GPUs are on no bus.
  if (const std::string model = read_plain(source, "/sys/class/kgsl/kgsl-3d0/gpu_model"); !model.empty()) {
    machine.other_gpus.push_back("kgsl " + model);
  }
}

std::optional<std::string> version(std::string_view text) {
  const std::string value = plain(text);
  const bool sane = !value.empty() && value.size() <= 32 && value.find_first_not_of("0123456789.") == std::string::npos;
  return sane ? std::optional(value) : std::nullopt;
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build ...": the first word with a point
// among digits.
std::optional<std::string> kernel_version(Source& source) {
  if (auto found = version(read_plain(source, "/sys/module/nvidia/version"))) return found;
  const std::string text = read_text(source, "/proc/driver/nvidia/version", 4096);
  std::string_view left = text;
  const auto line = next_line(left);
  if (!line || line->substr(0, 5) != "NVRM ") return std::nullopt;
  for (const std::string_view word : words(*line, 32)) {
    if (contains(word, ".") && version(word)) return version(word);
  }
  return std::nullopt;
}

// 13000 is 13.0, 12080 is 12.8.
std::optional<ComputeCapability> cuda_version(const Answers& system) {
  const auto number = asked(system, "cuda_version", 1000, 99'990);
  return number ? std::optional(ComputeCapability{*number / 1000, *number % 1000 / 10}) : std::nullopt;
}

std::string problem(const GpuDriverAnswers& answers, const char* library, std::string (*error_name)(int)) {
  switch (answers.state) {
    case GpuDriverAnswers::State::absent:
    case GpuDriverAnswers::State::answered: return {};
    case GpuDriverAnswers::State::failed:
      return fmt::format("{} does not start: {}", library, error_name(answers.error));
    case GpuDriverAnswers::State::unusable:
    case GpuDriverAnswers::State::timed_out: break;
  }
  const std::string reason = plain(std::string_view(answers.reason).substr(0, 256));
  return fmt::format("{} {}{}{}", library,
                     answers.state == GpuDriverAnswers::State::timed_out ? "hangs" : "cannot be loaded",
                     reason.empty() ? "" : ": ", reason);
}

}  // namespace

std::string pci_address(std::string_view text) {
  const std::string value = lower(text);
  const size_t colon = value.find(':');
  if (colon == std::string::npos || colon < 4 || colon > 8 || value.size() != colon + 8) return {};
  const std::string_view tail = std::string_view(value).substr(colon);
  if (tail[3] != ':' || tail[6] != '.' || !is_hex(value.substr(0, colon)) || !is_hex(tail.substr(1, 2)) ||
      !is_hex(tail.substr(4, 2)) || tail[7] < '0' || tail[7] > '7') {
    return {};
  }
  const auto domain = to_integer(std::string_view(value).substr(0, colon), 16);
  return domain ? fmt::format("{:04x}{}", *domain, tail) : std::string();
}

std::vector<Gpu> nvml_gpus(const GpuDriverAnswers& nvml) {
  std::vector<Gpu> out;
  for (size_t i = 0; i < nvml.devices.size() && i < kMaxGpus; ++i) {
    const bool counted = i < nvml.processes.size();
    Gpu& gpu = out.emplace_back(gpu_of_nvml(nvml.devices[i], counted ? nvml.processes[i] : std::vector<GpuProcess>()));
    if (gpu.name.empty() && gpu.pci.empty()) {
      gpu = {};
      continue;
    }
    if (!counted) gpu.process_memory.reset();
    gpu.nvml_index = static_cast<int>(i);
    drop_what_it_lacks(gpu);
  }
  return out;
}

std::string nvml_problem(const GpuDriverAnswers& nvml) { return problem(nvml, "NVML", nvml_error_name); }

void probe_gpus(Source& source, Machine& machine) {
  const GpuDriverAnswers nvml = source.nvml(), cuda = source.cuda();
  Driver& driver = machine.driver;
  driver.nvml_answers = nvml.state == GpuDriverAnswers::State::answered;
  driver.cuda_answers = cuda.state == GpuDriverAnswers::State::answered;
  driver.nvml_problem = nvml_problem(nvml);
  driver.cuda_problem = problem(cuda, "libcuda", cuda_error_name);
  driver.version = version(text(nvml.system, "driver_version").value_or(""));
  driver.kernel_version = kernel_version(source);
  driver.cuda = cuda_version(cuda.system);
  if (!driver.cuda) driver.cuda = cuda_version(nvml.system);

  machine.gpus = nvml_gpus(nvml);
  std::erase_if(machine.gpus, [](const Gpu& gpu) { return !gpu.nvml_index; });  // the PCI bus may still know it
  merge_cuda(cuda, machine.gpus);
  merge_pci(source, machine);
  for (Gpu& gpu : machine.gpus) drop_what_it_lacks(gpu);
}

}  // namespace sparkpilot
