// The GPUs themselves: reachable, awake, cool, at their clocks.
#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <map>
#include <string>

#include "doctor/check.h"
#include "hw/probe.h"

namespace sparkpilot::doctor {
namespace {

using State = GpuDriverAnswers::State;
constexpr int kGpuIsLost = 15, kResetRequired = 16;  // nvmlReturn_t
constexpr int64_t kProhibited = 2;                   // compute mode

// NVML's bits for throttle reasons.
constexpr uint64_t kSoftwareThermal = 0x20, kHardwareThermal = 0x40, kPowerBrake = 0x80;

bool no_gpu(const Patient& patient, Says& says) {
  if (has_nvidia(patient)) return false;
  says.skip("no NVIDIA GPU");
  return true;
}

void lost(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  for (size_t i = 0; i < patient.nvml.devices.size(); ++i) {
    const int error = error_of(patient.nvml.devices[i], "handle");
    if (error == kGpuIsLost || error == kResetRequired) says.bad("GPU {}: {}", i, nvml_error_name(error));
  }
  if (says.wrong().empty()) says.good("every GPU answers");
}

void xid(const Patient& patient, Says& says) {
  // From NVIDIA's catalogue of Xid errors: what the GPU or its driver causes, and what programs do.
  struct Known {
    int number;
    const char* meaning;
  };
  constexpr std::array kOfPrograms = {13, 31, 32, 43, 45, 68, 69, 137};
  constexpr std::array kKnown = {Known{46, "the GPU stopped processing"},
                                 Known{48, "memory error that could not be corrected"},
                                 Known{61, "the GPU's controller met an error"},
                                 Known{62, "the GPU's controller halted"},
                                 Known{63, "a memory row was retired"},
                                 Known{64, "a memory row could not be retired"},
                                 Known{74, "NVLink error"},
                                 Known{79, "the GPU has fallen off the bus"},
                                 Known{92, "many memory errors were corrected"},
                                 Known{94, "a memory error was contained"},
                                 Known{95, "a memory error was not contained"},
                                 Known{109, "a context switch did not come back"},
                                 Known{119, "the GPU's system processor does not answer"},
                                 Known{120, "the GPU's system processor failed"},
                                 Known{140, "memory errors that were not recovered from"},
                                 Known{143, "the GPU could not be started"},
                                 Known{154, "the GPU asks for a reset"}};
  if (no_gpu(patient, says)) return;
  const auto lines = patient.source.kernel_log({"NVRM: Xid"});
  if (!lines) return says.skip("the kernel's log is not readable here (sudo dmesg)");
  std::array<int, kKnown.size()> counts = {};
  int programs = 0;
  std::map<int, int> others;
  for (const std::string& line : *lines) {
    const size_t colon = line.find("): ", line.find("NVRM: Xid"));
    const int number = colon == std::string::npos ? 0 : std::atoi(line.c_str() + colon + 3);
    const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& k) { return k.number == number; });
    if (known != kKnown.end()) ++counts[static_cast<size_t>(known - kKnown.begin())];
    else if (std::ranges::find(kOfPrograms, number) != kOfPrograms.end()) ++programs;
    else if (number > 0) ++others[number];
  }
  for (size_t i = 0; i < kKnown.size(); ++i) {
    if (counts[i] > 0)
      says.bad("Xid {} ({}), {} time{}", kKnown[i].number, kKnown[i].meaning, counts[i], counts[i] == 1 ? "" : "s");
  }
  for (const auto& [number, count] : others)
    says.bad("Xid {} (see NVIDIA's catalogue), {} time{}", number, count, count == 1 ? "" : "s");
  if (!says.wrong().empty()) return;
  if (programs > 0) return says.good("only Xid errors of programs ({})", programs);
  says.good("no Xid in the kernel's log");
}

void permission(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  if (patient.machine.identity.wsl) return says.skip("under WSL the GPU is reached through /dev/dxg");
  bool any = false;
  for (const char* device : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"}) {
    const Access access = patient.source.access(device);
    any = any || access != Access::absent;
    if (access == Access::denied || access == Access::read_only) says.bad("this user may not open {}", device);
  }
  if (!says.wrong().empty()) return;
  if (!any) return says.skip("no /dev/nvidia*");
  says.good("/dev/nvidia* can be opened");
}

void uvm(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  if (patient.source.access("/dev/nvidiactl") == Access::absent) return says.skip("no /dev/nvidia*");
  if (patient.source.access("/dev/nvidia-uvm") == Access::absent && patient.cuda.state != State::answered) {
    says.bad("/dev/nvidiactl is there and /dev/nvidia-uvm is not");
  } else {
    says.good("the memory driver is loaded");
  }
}

void hidden(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  const std::optional<std::string> visible = patient.source.variable("CUDA_VISIBLE_DEVICES");
  if (!visible) return says.good("CUDA_VISIBLE_DEVICES is not set");
  if (patient.nvml.state == State::answered && patient.cuda.devices.size() < patient.nvml.devices.size()) {
    return says.bad("CUDA_VISIBLE_DEVICES=\"{}\" leaves {} of {} GPUs", *visible, patient.cuda.devices.size(),
                    patient.nvml.devices.size());
  }
  says.good("CUDA_VISIBLE_DEVICES=\"{}\"", *visible);
}

void compute_mode(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  bool known = false;
  for (size_t i = 0; i < patient.nvml.devices.size(); ++i) {
    const std::optional<int64_t> mode = integer(patient.nvml.devices[i], "compute_mode");
    known = known || mode;
    if (mode == kProhibited) says.bad("GPU {} is in compute mode PROHIBITED", i);
  }
  if (!says.wrong().empty()) return;
  known ? says.good("programs may compute") : says.skip("the driver does not say");
}

void heat(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  bool known = false;
  for (const Gpu& gpu : patient.machine.gpus) {
    known = known || gpu.throttle_reasons || gpu.temperature_c;
    const uint64_t reasons = gpu.throttle_reasons.value_or(0);
    const std::string degrees = gpu.temperature_c ? fmt::format(" at {} °C", *gpu.temperature_c) : "";
    if (reasons & (kSoftwareThermal | kHardwareThermal)) {
      says.bad("{} holds its clocks down because of heat{}", gpu_name(gpu), degrees);
    } else if (gpu.temperature_c && gpu.slowdown_temperature_c && *gpu.temperature_c >= *gpu.slowdown_temperature_c) {
      says.bad("{} is{}, at its limit of {} °C", gpu_name(gpu), degrees, *gpu.slowdown_temperature_c);
    }
  }
  if (!says.wrong().empty()) return;
  known ? says.good("no GPU is slowed by heat") : says.skip("the driver does not say");
}

void power_brake(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  bool known = false;
  for (const Gpu& gpu : patient.machine.gpus) {
    known = known || gpu.throttle_reasons;
    if (gpu.throttle_reasons.value_or(0) & kPowerBrake) says.bad("{}: the power brake is on", gpu_name(gpu));
  }
  if (!says.wrong().empty()) return;
  known ? says.good("no power brake") : says.skip("the driver does not say");
}

// The usual rule for stuck low power on a Spark (a USB-C supply that negotiated too little power): under load, below
// 1,400 MHz and 40 W in every sample.
void low_power(const Patient& patient, Says& says) {
  const auto spark = std::find_if(patient.machine.gpus.begin(), patient.machine.gpus.end(), is_gb10);
  if (spark == patient.machine.gpus.end()) return says.skip("no GB10");
  if (!spark->nvml_index) return says.skip("the driver does not say");
  const auto index = static_cast<size_t>(*spark->nvml_index);
  std::vector<GpuDriverAnswers> samples = patient.options.under_load;
  if (samples.empty()) samples.push_back(patient.nvml);
  int64_t highest_mhz = 0, highest_mw = 0;
  int busy = 0;
  for (const GpuDriverAnswers& sample : samples) {
    if (index >= sample.devices.size()) continue;
    const Answers& gpu = sample.devices[index];
    const auto percent = integer(gpu, "gpu_percent"), mhz = integer(gpu, "sm_clock_mhz"), mw = integer(gpu, "power_mw");
    if (!percent || !mhz || !mw || *percent < 90 || *percent > 100) continue;
    ++busy;
    highest_mhz = std::max(highest_mhz, *mhz);
    highest_mw = std::max(highest_mw, *mw);
  }
  if (busy == 0) return says.skip("the GPU is not busy: sparkpilot doctor --load keeps it so for some seconds");
  const std::string seen =
      fmt::format("under load up to {} MHz and {:.0f} W", highest_mhz, static_cast<double>(highest_mw) / 1000);
  if (highest_mhz < 1400 && highest_mw < 40'000) {
    says.bad("{}, where about 2,400 MHz are healthy", seen);
  } else {
    says.good("{}", seen);
  }
}

void pcie(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  bool known = false;
  for (const Gpu& gpu : patient.machine.gpus) {
    if (gpu.unified_memory.value_or(false) || !gpu.pcie_width || !gpu.pcie_max_width) continue;  // a Spark's is bogus
    known = true;
    // Two cards share 16 lanes by design, and many laptops connect only 8.
    if (*gpu.pcie_width < std::min(*gpu.pcie_max_width, 8))
      says.bad("{} runs on {} of {} PCIe lanes", gpu_name(gpu), *gpu.pcie_width, *gpu.pcie_max_width);
  }
  if (!says.wrong().empty()) return;
  known ? says.good("enough PCIe lanes are in use") : says.skip("no PCIe link to judge");
}

void persistence(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  if (patient.machine.identity.wsl) return says.skip("under WSL Windows keeps the driver");
  // A desktop keeps the driver awake, as does a Spark's own service.
  const auto shows = [](const Gpu& gpu) { return gpu.display == true; };
  const std::vector<Gpu>& gpus = patient.machine.gpus;
  if (!patient.machine.other_gpus.empty() || std::any_of(gpus.begin(), gpus.end(), shows))
    return says.skip("a machine with a display");
  bool known = false;
  for (const Gpu& gpu : gpus) {
    known = known || gpu.persistence;
    if (gpu.persistence == false && !gpu.unified_memory.value_or(false))
      says.bad("{} goes to sleep when no program uses it", gpu_name(gpu));
  }
  if (!says.wrong().empty()) return;
  known ? says.good("the driver stays awake") : says.skip("the driver does not say");
}

void ecc(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  bool known = false;
  for (size_t i = 0; i < patient.nvml.devices.size(); ++i) {
    const std::optional<int64_t> errors = integer(patient.nvml.devices[i], "ecc_uncorrected");
    if (!errors || *errors < 0 || *errors > 1'000'000'000) continue;
    known = true;
    if (*errors > 0)
      says.bad("GPU {}: {} memory errors that could not be corrected since the driver was loaded", i, *errors);
  }
  if (!says.wrong().empty()) return;
  known ? says.good("no uncorrected memory errors") : says.skip("no GPU that counts them");
}

void mig(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  bool known = false;
  for (const Gpu& gpu : patient.machine.gpus) {
    known = known || gpu.mig;
    if (gpu.mig == true) says.bad("{} is divided (MIG): a program sees one part of it", gpu_name(gpu));
  }
  if (!says.wrong().empty()) return;
  known ? says.good("no GPU is divided") : says.skip("no GPU that can be divided");
}

void busy(const Patient& patient, Says& says) {
  constexpr int64_t kLow = int64_t{2} << 30;
  if (no_gpu(patient, says)) return;
  bool known = false;
  for (const Gpu& gpu : patient.machine.gpus) {
    if (!gpu.memory_total || !gpu.memory_used) continue;
    known = true;
    const int64_t free = *gpu.memory_total - *gpu.memory_used;
    if (free >= std::min(kLow, *gpu.memory_total / 4)) continue;
    std::string who;
    const auto index = static_cast<size_t>(gpu.nvml_index.value_or(INT_MAX));
    if (index < patient.nvml.processes.size()) {
      for (const GpuProcess& process : patient.nvml.processes[index]) {
        if (who.size() < 60 && process.compute)
          who += fmt::format("{}{}", who.empty() ? ", used by processes " : " ", process.pid);
      }
    }
    says.bad("{} has {} of {} left{}", gpu_name(gpu), human_bytes(free), human_bytes(*gpu.memory_total), who);
  }
  if (!says.wrong().empty()) return;
  known ? says.good("enough GPU memory is free") : says.skip("no GPU with its own memory that the driver speaks of");
}

constexpr Check kGpuChecks[] = {
    {{"gpu.lost", "Every GPU answers", Impact::fatal,
      "A GPU that is lost or asks for a reset does not come back by itself.",
      "switch the machine off for a minute, then on; if the error returns: sudo nvidia-bug-report.sh"},
     lost},
    {{"gpu.xid", "The kernel's log is free of GPU errors", Impact::slow,
      "These Xid errors come from the GPU or its driver, not from a program.",
      "sudo dmesg | grep -i xid, and look the numbers up in NVIDIA's Xid catalogue; update the driver; test with dcgmi "
      "diag"},
     xid},
    {{"gpu.permission", "This user may use the GPU", Impact::fatal, "Programs of this user do not see a GPU.",
      "sudo usermod -aG video,render $USER, then log in again"},
     permission},
    {{"gpu.uvm", "The GPU's memory driver is loaded", Impact::fatal, "CUDA cannot start without /dev/nvidia-uvm.",
      "sudo nvidia-modprobe -u -c=0"},
     uvm},
    {{"gpu.hidden", "No GPU is hidden by a variable", Impact::cosmetic,
      "Programs started from this shell see fewer GPUs than there are. That may be meant.",
      "unset CUDA_VISIBLE_DEVICES"},
     hidden},
    {{"gpu.compute_mode", "Programs may compute on the GPU", Impact::fatal, "No program can open the GPU in this mode.",
      "sudo nvidia-smi -c DEFAULT"},
     compute_mode},
    {{"gpu.heat", "No GPU is slowed by heat", Impact::slow,
      "Measurements taken now are of a hot machine, and a DGX Spark may switch itself off.",
      "let air in: nothing on top of or beside the machine, vents free of dust; then wait some minutes"},
     heat},
    {{"gpu.power_brake", "No GPU is slowed by its power supply", Impact::slow,
      "The board or the supply asks the GPU to take less power.",
      "check the power cables and the supply; on a DGX Spark use the supply that came with it"},
     power_brake},
    {{"gpu.low_power", "A Spark's GPU reaches its clocks under load", Impact::slow,
      "A USB-C supply that negotiated too little keeps the GPU at a fraction of its speed until it is unplugged.",
      "shut down, unplug the power cable for 60 seconds, plug in the supply that came with the machine"},
     low_power},
    {{"gpu.pcie", "PCIe links are wide", Impact::slow, "Frames and weights reach the GPU more slowly.",
      "put the card into a full slot and reseat it; check the firmware for divided slots (bifurcation)"},
     pcie},
    {{"gpu.persistence", "The driver keeps the GPU awake", Impact::cosmetic,
      "Every program has to wake the GPU first, which takes up to a second, on large servers many.",
      "sudo systemctl enable --now nvidia-persistenced"},
     persistence},
    {{"gpu.ecc", "GPU memory has no errors", Impact::slow, "Results since then may be wrong.",
      "restart running programs; sudo nvidia-smi --gpu-reset; if errors return, have the card replaced"},
     ecc},
    {{"gpu.mig", "No GPU is divided", Impact::cosmetic, "Speed and memory are those of one part.",
      "sudo nvidia-smi -mig 0, if nobody else uses the other parts"},
     mig},
    {{"gpu.memory_used", "GPU memory is free", Impact::slow, "Models may not fit into what is left.",
      "end the processes that are named: nvidia-smi lists them"},
     busy},
};

}  // namespace

std::span<const Check> gpu_checks() { return kGpuChecks; }

}  // namespace sparkpilot::doctor
