// NVML, NVIDIA's management library. Prototypes are those of its public header, copied here so that the header is not
// needed; the newest form of a function first, those of older drivers after it.
#include <algorithm>
#include <array>
#include <span>

#include "hw/gpu_driver_call.h"

namespace sparkpilot {
namespace {

using Device = void*;
constexpr int kSuccess = 0, kInsufficientSize = 7, kNoFunction = 13;
constexpr unsigned kMaxDevices = 64, kMaxProcesses = 1024;

enum class Shape {
  text,     // (device, char*, unsigned)
  number,   // (device, unsigned*)
  of_kind,  // (device, int, unsigned*)
  wide,     // (device, unsigned long long*)
  wide_of,  // (device, int, int, unsigned long long*)
  pair,     // (device, unsigned*, unsigned*); also a structure of two unsigned
  version,  // (device, int*, int*)
  memory,   // (device, structure)
  pci,      // (device, structure)
};

struct Ask {
  Shape shape;
  std::array<const char*, 3> symbols;
  std::array<std::string_view, 4> questions;
  int kind = 0, kind2 = 0;
};

// The kinds are NVML's enumerations: clocks SM 1, memory 2; thresholds shutdown 0, slowdown 1; ECC errors that could
// not be corrected 1, since the driver was loaded 0.

// Properties that a GPU keeps as long as its driver is loaded.
constexpr Ask kLasting[] = {
    {Shape::text, {"nvmlDeviceGetName"}, {"name"}},
    {Shape::pci,
     {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"},
     {"pci_domain", "pci_bus", "pci_device", "pci_id"}},
    {Shape::version, {"nvmlDeviceGetCudaComputeCapability"}, {"capability_major", "capability_minor"}},
    {Shape::number, {"nvmlDeviceGetNumGpuCores"}, {"cuda_cores"}},
    {Shape::of_kind, {"nvmlDeviceGetMaxClockInfo"}, {"max_sm_clock_mhz"}, 1},
    {Shape::of_kind, {"nvmlDeviceGetMaxClockInfo"}, {"max_memory_clock_mhz"}, 2},
    {Shape::of_kind, {"nvmlDeviceGetTemperatureThreshold"}, {"slowdown_temperature_c"}, 1},
    {Shape::of_kind, {"nvmlDeviceGetTemperatureThreshold"}, {"shutdown_temperature_c"}, 0},
    {Shape::number, {"nvmlDeviceGetMaxPcieLinkGeneration"}, {"pcie_max_generation"}},
    {Shape::number, {"nvmlDeviceGetMaxPcieLinkWidth"}, {"pcie_max_width"}},
};
constexpr Ask kChanging[] = {
    {Shape::memory,
     {"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"},
     {"memory_total_bytes", "memory_free_bytes", "memory_used_bytes"}},
    {Shape::pair, {"nvmlDeviceGetUtilizationRates"}, {"gpu_percent", "memory_percent"}},
    {Shape::pair, {"nvmlDeviceGetEncoderUtilization"}, {"encoder_percent"}},
    {Shape::pair, {"nvmlDeviceGetDecoderUtilization"}, {"decoder_percent"}},
    {Shape::of_kind, {"nvmlDeviceGetClockInfo"}, {"sm_clock_mhz"}, 1},
    {Shape::of_kind, {"nvmlDeviceGetClockInfo"}, {"memory_clock_mhz"}, 2},
    {Shape::number, {"nvmlDeviceGetPowerUsage"}, {"power_mw"}},
    {Shape::number, {"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"}, {"power_limit_mw"}},
    {Shape::wide, {"nvmlDeviceGetTotalEnergyConsumption"}, {"energy_mj"}},
    {Shape::of_kind, {"nvmlDeviceGetTemperature"}, {"temperature_c"}, 0},
    {Shape::wide,
     {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
     {"throttle_reasons"}},
    {Shape::number, {"nvmlDeviceGetPerformanceState"}, {"performance_state"}},
    {Shape::number, {"nvmlDeviceGetFanSpeed"}, {"fan_percent"}},
    {Shape::number, {"nvmlDeviceGetCurrPcieLinkGeneration"}, {"pcie_generation"}},
    {Shape::number, {"nvmlDeviceGetCurrPcieLinkWidth"}, {"pcie_width"}},
    {Shape::number, {"nvmlDeviceGetPersistenceMode"}, {"persistence"}},
    {Shape::number, {"nvmlDeviceGetDisplayActive"}, {"display"}},
    {Shape::number, {"nvmlDeviceGetComputeMode"}, {"compute_mode"}},
    {Shape::pair, {"nvmlDeviceGetEccMode"}, {"ecc", "ecc_pending"}},
    {Shape::wide_of, {"nvmlDeviceGetTotalEccErrors"}, {"ecc_uncorrected"}, 1, 0},
    {Shape::pair, {"nvmlDeviceGetMigMode"}, {"mig", "mig_pending"}},
};
constexpr std::string_view kSystemQuestions[] = {"driver_version", "nvml_version", "cuda_version", "device_count"};

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
// All versions of nvmlPciInfo begin with these.
struct Pci {
  char legacy_bus_id[16];
  unsigned domain, bus, device, id, subsystem_id;
  char rest[256];
};
struct ProcessV1 {
  unsigned pid;
  unsigned long long bytes;
};
struct ProcessV2 {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

Answer number_or(int error, unsigned long long value) {
  if (error != kSuccess) return {{}, error};
  return {static_cast<int64_t>(value), 0};
}

// True if every question has an answer, or an error that lasts as long as the driver: no such argument, sensor,
// permission or function. Any other error may come from a lost GPU.
bool steady(const Answers& answers) {
  return std::all_of(answers.begin(), answers.end(), [](const auto& item) {
    constexpr int kStanding[] = {kSuccess, 2, 3, 4, kNoFunction};
    return std::find(std::begin(kStanding), std::end(kStanding), item.second.error) != std::end(kStanding);
  });
}
bool steady(const GpuDriverAnswers& answers) {
  return answers.state == GpuDriverAnswers::State::answered && steady(answers.system) &&
         std::all_of(answers.devices.begin(), answers.devices.end(), [](const Answers& a) { return steady(a); });
}

class Nvml {
 public:
  Nvml(const Library& library, Watch& watch) : library_(library), watch_(watch) {}

  // Lasting properties are taken from `before`, unless GPUs came, went or were lost since.
  GpuDriverAnswers ask(const GpuDriverAnswers& before) {
    GpuDriverAnswers out;
    out.library = library_.path();
    const auto init = function<int (*)()>({"nvmlInit_v2", "nvmlInit"});
    const auto count = function<int (*)(unsigned*)>({"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
    const auto handle =
        function<int (*)(unsigned, Device*)>({"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
    if (!init || !count || !handle) {
      out.state = GpuDriverAnswers::State::unusable;
      out.reason = "it has no nvmlInit or no devices: no NVML";
      return out;
    }
    watch_.calling("nvmlInit");
    // NVML counts the calls and is never shut down: the first call is slow, and a monitor asks every second.
    out.error = init();
    out.state = out.error == kSuccess ? GpuDriverAnswers::State::answered : GpuDriverAnswers::State::failed;
    if (out.error != kSuccess) return out;
    unsigned devices = 0;
    watch_.calling("nvmlDeviceGetCount");
    const int uncounted = count(&devices);
    out.system["device_count"] = number_or(uncounted, devices);
    std::vector<Device> handles(uncounted == kSuccess ? std::min(devices, kMaxDevices) : 0);
    for (size_t i = 0; i < handles.size(); ++i) {
      Answers& answers = out.devices.emplace_back();
      std::vector<GpuProcess>& processes = out.processes.emplace_back();
      watch_.calling("nvmlDeviceGetHandleByIndex");
      const int lost = handle(static_cast<unsigned>(i), &handles[i]);
      if (lost != kSuccess) {
        answers["handle"] = {{}, lost};
        continue;
      }
      for (const Ask& question : kChanging) ask_device(handles[i], question, answers);
      const int denied = ask_processes(handles[i], true, processes);
      ask_processes(handles[i], false, processes);
      answers["compute_processes"] = number_or(denied, processes.size());
    }
    const bool same = before.devices.size() == out.devices.size() && steady(before) && steady(out);
    if (same) out.system = before.system;
    else ask_system(out.system);
    for (size_t i = 0; i < handles.size(); ++i) {
      Answers& answers = out.devices[i];
      if (answers.contains("handle")) continue;
      for (const Ask& question : kLasting) {
        if (same) take_over(before.devices[i], question, answers);
        else ask_device(handles[i], question, answers);
      }
    }
    return out;
  }

 private:
  template <typename Function>
  Function function(const std::array<const char*, 3>& symbols, std::string_view* used = nullptr) const {
    return library_.find<Function>(symbols, used);
  }

  void ask_system(Answers& answers) {
    for (const auto& [symbol, question] : {std::pair{"nvmlSystemGetDriverVersion", "driver_version"},
                                           std::pair{"nvmlSystemGetNVMLVersion", "nvml_version"}}) {
      if (const auto f = function<int (*)(char*, unsigned)>({symbol})) {
        char buffer[128] = {};
        watch_.calling(symbol);
        const int error = f(buffer, sizeof buffer);
        answers[question] = error == kSuccess ? Answer{text_of(buffer, sizeof buffer), 0} : Answer{{}, error};
      }
    }
    if (const auto f =
            function<int (*)(int*)>({"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"})) {
      int version = 0;
      watch_.calling("nvmlSystemGetCudaDriverVersion");
      const int error = f(&version);
      answers["cuda_version"] = error == kSuccess ? Answer{int64_t{version}, 0} : Answer{{}, error};
    }
  }

  static void take_over(const Answers& before, const Ask& ask, Answers& answers) {
    for (const std::string_view question : ask.questions) {
      if (const auto known = before.find(question); known != before.end()) answers.insert(*known);
    }
  }

  void ask_device(Device device, const Ask& ask, Answers& answers) {
    std::string_view used;
    if (!function<void (*)()>(ask.symbols, &used)) return;
    watch_.calling(used);
    const auto put = [&](size_t i, int error, unsigned long long value) {
      if (!ask.questions[i].empty()) answers[std::string(ask.questions[i])] = number_or(error, value);
    };
    switch (ask.shape) {
      case Shape::text: {
        char buffer[128] = {};
        const int error = function<int (*)(Device, char*, unsigned)>(ask.symbols)(device, buffer, sizeof buffer);
        answers[std::string(ask.questions[0])] =
            error == kSuccess ? Answer{text_of(buffer, sizeof buffer), 0} : Answer{{}, error};
        break;
      }
      case Shape::number: {
        unsigned value = 0;
        const int error = function<int (*)(Device, unsigned*)>(ask.symbols)(device, &value);
        put(0, error, value);
        break;
      }
      case Shape::of_kind: {
        unsigned value = 0;
        const int error = function<int (*)(Device, int, unsigned*)>(ask.symbols)(device, ask.kind, &value);
        put(0, error, value);
        break;
      }
      case Shape::wide: {
        unsigned long long value = 0;
        const int error = function<int (*)(Device, unsigned long long*)>(ask.symbols)(device, &value);
        put(0, error, value);
        break;
      }
      case Shape::wide_of: {
        unsigned long long value = 0;
        const int error =
            function<int (*)(Device, int, int, unsigned long long*)>(ask.symbols)(device, ask.kind, ask.kind2, &value);
        put(0, error, value);
        break;
      }
      case Shape::pair: {
        // Utilisation rates are one structure of two numbers; the others take two pointers. Both fill `values`.
        unsigned values[2] = {};
        const int error =
            used == "nvmlDeviceGetUtilizationRates"
                ? function<int (*)(Device, unsigned*)>(ask.symbols)(device, values)
                : function<int (*)(Device, unsigned*, unsigned*)>(ask.symbols)(device, values, values + 1);
        put(0, error, values[0]);
        put(1, error, values[1]);
        break;
      }
      case Shape::version: {
        int major = 0, minor = 0;
        const int error = function<int (*)(Device, int*, int*)>(ask.symbols)(device, &major, &minor);
        put(0, error, static_cast<unsigned>(major));
        put(1, error, static_cast<unsigned>(minor));
        break;
      }
      case Shape::memory: ask_memory(device, ask, used == "nvmlDeviceGetMemoryInfo_v2", put); break;
      case Shape::pci: {
        Pci pci = {};
        const int error = function<int (*)(Device, Pci*)>(ask.symbols)(device, &pci);
        put(0, error, pci.domain);
        put(1, error, pci.bus);
        put(2, error, pci.device);
        put(3, error, pci.id);
        break;
      }
    }
  }

  template <typename Put>
  void ask_memory(Device device, const Ask& ask, bool second, const Put& put) {
    MemoryV2 memory = {};
    int error = kSuccess;
    if (second) {
      memory.version = static_cast<unsigned>(sizeof memory) | 2U << 24;
      error = function<int (*)(Device, MemoryV2*)>(ask.symbols)(device, &memory);
    } else {
      MemoryV1 old = {};
      error = function<int (*)(Device, MemoryV1*)>(ask.symbols)(device, &old);
      memory.total = old.total, memory.free = old.free, memory.used = old.used;
    }
    put(0, error, memory.total);
    put(1, error, memory.free);
    put(2, error, memory.used);
  }

  // Adds to `out`; returns the error of the call, which differs from "there are none".
  int ask_processes(Device device, bool compute, std::vector<GpuProcess>& out) {
    std::string_view used;
    const std::array<const char*, 3> symbols =
        compute ? std::array<const char*, 3>{"nvmlDeviceGetComputeRunningProcesses_v3",
                                             "nvmlDeviceGetComputeRunningProcesses_v2",
                                             "nvmlDeviceGetComputeRunningProcesses"}
                : std::array<const char*, 3>{"nvmlDeviceGetGraphicsRunningProcesses_v3",
                                             "nvmlDeviceGetGraphicsRunningProcesses_v2",
                                             "nvmlDeviceGetGraphicsRunningProcesses"};
    const auto f = function<int (*)(Device, unsigned*, void*)>(symbols, &used);
    if (!f) return kNoFunction;
    const bool first = used.substr(used.size() - 3, 2) != "_v";
    if (first) {
      return ask_processes<ProcessV1>(device, f, used, compute, out);
    }
    return ask_processes<ProcessV2>(device, f, used, compute, out);
  }

  template <typename Process, typename Function>
  int ask_processes(Device device, Function f, std::string_view used, bool compute, std::vector<GpuProcess>& out) {
    // One more than the driver may fill: a driver that miscounts does no harm.
    std::vector<Process> processes(64 + 1);
    int error = kInsufficientSize;
    unsigned count = 0;
    while (error == kInsufficientSize) {
      count = static_cast<unsigned>(processes.size()) - 1;
      watch_.calling(used);
      error = f(device, &count, processes.data());
      if (error != kInsufficientSize) break;
      if (processes.size() > kMaxProcesses) return error;
      processes.resize(2 * processes.size());
    }
    if (error != kSuccess) return error;
    for (size_t i = 0; i < std::min<size_t>(count, processes.size() - 1); ++i) {
      const unsigned long long bytes = processes[i].bytes;
      const bool known = bytes <= static_cast<unsigned long long>(INT64_MAX);  // all ones: the driver does not know
      out.push_back({processes[i].pid, known ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt, compute});
    }
    return kSuccess;
  }

  const Library& library_;
  Watch& watch_;
};

}  // namespace

GpuDriverAnswers ask_nvml(double wait_seconds, const GpuDriverAnswers& before,
                          const std::vector<std::string>& libraries) {
  return ask_bounded(libraries, wait_seconds,
                     [before](const Library& library, Watch& watch) { return Nvml(library, watch).ask(before); });
}

std::vector<std::string_view> nvml_questions() {
  std::vector<std::string_view> out(std::begin(kSystemQuestions), std::end(kSystemQuestions));
  for (const std::span<const Ask> asks : {std::span<const Ask>(kLasting), std::span<const Ask>(kChanging)}) {
    for (const Ask& ask : asks) {
      for (const std::string_view question : ask.questions) {
        if (!question.empty()) out.push_back(question);
      }
    }
  }
  out.emplace_back("compute_processes");
  return out;
}

}  // namespace sparkpilot
