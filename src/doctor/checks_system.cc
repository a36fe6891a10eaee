// The processor, its power, and the container that the program runs in.
#include <algorithm>

#include "doctor/check.h"
#include "hw/control_groups.h"
#include "hw/parse_text.h"

namespace sparkpilot::doctor {
namespace {

#if defined(__x86_64__)
constexpr const char* kBuiltFor = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kBuiltFor = "aarch64";
#else
constexpr const char* kBuiltFor = "another architecture";
#endif

void architecture(const Patient& patient, Says& says) {
  if (!patient.options.here) return says.skip("the machine is not this one");
  const std::string& machine = patient.machine.cpu.architecture;
  if (machine.empty()) return says.skip("the system does not say");
  if (machine != kBuiltFor) return says.bad("this program is built for {}, the machine is {}", kBuiltFor, machine);
  says.good("{}", machine);
}

void simd(const Patient& patient, Says& says) {
  const Cpu& cpu = patient.machine.cpu;
  if (cpu.architecture != "x86_64") return says.skip("no x86-64 processor");
  if (cpu.isa.empty() && cpu.model.empty()) return says.skip("the system does not say");
  if (std::find(cpu.isa.begin(), cpu.isa.end(), "avx2") == cpu.isa.end()) return says.bad("the processor has no AVX2");
  std::string isa;
  for (const std::string& one : cpu.isa) isa += (isa.empty() ? "" : " ") + one;
  says.good("{}", isa);
}

void offline(const Patient& patient, Says& says) {
  const auto there = read_word(patient.source, "/sys/devices/system/cpu/present");
  const auto online = read_word(patient.source, "/sys/devices/system/cpu/online");
  if (!there || !online) return says.skip("the system does not say");
  if (*there != *online) return says.bad("of the processors {} only {} are online", *there, *online);
  says.good("all processors are online");
}

void governor(const Patient& patient, Says& says) {
  constexpr const char* kFolder = "/sys/devices/system/cpu/cpu0/cpufreq/";
  const auto governor = read_word(patient.source, std::string(kFolder) + "scaling_governor");
  const auto driver = read_word(patient.source, std::string(kFolder) + "scaling_driver");
  if (!governor) return says.skip("clocks are not governed here");
  // With these drivers, "powersave" still raises the clock with the load.
  const bool own = driver && (*driver == "intel_pstate" || *driver == "amd-pstate-epp" || *driver == "amd_pstate_epp");
  if (*governor == "powersave" && !own) return says.bad("the governor is powersave");
  says.good("governor {}{}", *governor, driver ? " of " + *driver : "");
}

void quota(const Patient& patient, Says& says) {
  std::optional<double> most = group_processors([&](const std::string& path) { return patient.source.read(path); });
  // What `taskset` or a set of processors leaves.
  const std::string status = patient.source.read("/proc/self/status").value_or("");
  for (std::string_view left = status; const auto line = next_line(left);) {
    constexpr std::string_view kAllowed = "Cpus_allowed_list:";
    if (!line->starts_with(kAllowed)) continue;
    const size_t allowed = to_processors(trim(line->substr(kAllowed.size()))).size();
    if (allowed > 0) most = std::min(most.value_or(1e9), static_cast<double>(allowed));
  }
  if (!most || *most >= patient.machine.cpu.logical) return says.good("no limit is below all of them");
  says.bad("this process may use {:.3g} of {} processors", *most, patient.machine.cpu.logical);
}

void battery(const Patient& patient, Says& says) {
  constexpr const char* kFolder = "/sys/class/power_supply";
  bool mains = false, connected = false, discharging = false;
  for (const std::string& supply : patient.source.list(kFolder)) {
    const std::string folder = std::string(kFolder) + "/" + supply + "/";
    const auto type = read_word(patient.source, folder + "type");
    if (type == "Mains" || type == "USB") {
      mains = mains || type == "Mains";
      connected = connected || read_integer(patient.source, folder + "online") == 1;
    }
    // A mouse has a battery, too.
    if (type == "Battery" && read_word(patient.source, folder + "scope") != "Device")
      discharging = discharging || read_word(patient.source, folder + "status") == "Discharging";
  }
  if (discharging && !connected) return says.bad("the machine runs on its battery");
  if (!mains) return says.skip("no battery");
  says.good("the machine is plugged in");
}

void container(const Patient& patient, Says& says) {
  const Identity& identity = patient.machine.identity;
  if (!identity.container) return says.skip("no container");
  if (!has_nvidia(patient)) return says.good("in {}, on a machine without an NVIDIA GPU", *identity.container);
  if (patient.source.access("/dev/nvidiactl") == Access::absent &&
      patient.source.access("/dev/dxg") == Access::absent) {
    return says.bad("in {}: the machine has {}, the container has no /dev/nvidia*", *identity.container,
                    gpu_name(patient.machine.gpus.front()));
  }
  says.good("in {}, with the GPU", *identity.container);
}

void shared_memory(const Patient& patient, Says& says) {
  const std::optional<Space> space = patient.source.space("/dev/shm");
  if (!patient.machine.identity.container) return says.skip("no container");
  if (!space) return says.skip("no /dev/shm");
  if (space->total_bytes < (int64_t{1} << 30)) return says.bad("/dev/shm holds {} MiB", space->total_bytes >> 20);
  says.good("/dev/shm holds {}", human_bytes(space->total_bytes));
}

void wsl(const Patient& patient, Says& says) {
  if (!patient.machine.identity.wsl) return says.skip("no WSL");
  if (*patient.machine.identity.wsl == 1) return says.bad("this is WSL 1");
  says.good("WSL 2");
}

void library_path(const Patient& patient, Says& says) {
  const auto path = patient.source.variable("LD_LIBRARY_PATH");
  if (!path || path->empty()) return says.good("LD_LIBRARY_PATH is not set");
  for (size_t begin = 0; begin <= path->size();) {
    const size_t end = std::min(path->find(':', begin), path->size());
    const std::string folder = path->substr(begin, end - begin);
    if (folder.find("/stubs") != std::string::npos) says.bad("LD_LIBRARY_PATH names {}", folder);
    begin = end + 1;
  }
  if (says.wrong().empty()) says.good("LD_LIBRARY_PATH names no stubs");
}

constexpr Check kSystemChecks[] = {
    {{"system.architecture", "The program is built for this machine", Impact::slow,
      "It is emulated instruction by instruction, ten times slower, and cannot use a GPU.",
      "build it on this machine: make build"},
     architecture},
    {{"system.container", "A container has the machine's GPU", Impact::fatal,
      "A container sees only what it is given when it starts.",
      "start it with: docker run --gpus all ... (NVIDIA Container Toolkit on the host), podman run --device "
      "nvidia.com/gpu=all ..."},
     container},
    {{"system.shared_memory", "A container has shared memory", Impact::slow,
      "PyTorch's data loaders and NCCL pass data through /dev/shm and fail or slow down with Docker's 64 MiB.",
      "start the container with --shm-size=8g or --ipc=host"},
     shared_memory},
    {{"system.wsl", "WSL can use a GPU", Impact::slow, "WSL 1 translates system calls and has no GPU.",
      "in Windows: wsl --set-version <distribution> 2"},
     wsl},
    {{"system.library_path", "No stub libraries are in the way", Impact::fatal,
      "Stubs are for linking only: with them libcuda answers CUDA_ERROR_STUB_LIBRARY.",
      "take the folder out of LD_LIBRARY_PATH"},
     library_path},
    {{"cpu.simd", "The processor has AVX2", Impact::fatal,
      "Kernels for x86-64 are compiled for AVX2 at least: sparkpilot does not run here.",
      "use a newer machine; in a virtual machine: pass the host's processor through"},
     simd},
    {{"cpu.offline", "All processors are online", Impact::slow, "Work is spread over fewer processors than there are.",
      "echo 1 | sudo tee /sys/devices/system/cpu/cpu*/online"},
     offline},
    {{"cpu.governor", "Processor clocks follow the load", Impact::slow, "The processor stays at its lowest clock.",
      "sudo cpupower frequency-set -g schedutil"},
     governor},
    {{"cpu.quota", "All processors may be used", Impact::slow,
      "A limit of processor time, as in a container, makes threads wait for each other; using only as many threads as "
      "it allows is faster.",
      "start the container without --cpus, the process without taskset, or give sparkpilot --threads"},
     quota},
    {{"power.battery", "The machine is plugged in", Impact::slow,
      "On battery processor and GPU keep their clocks down.", "plug the supply in"},
     battery},
};

}  // namespace

std::span<const Check> system_checks() { return kSystemChecks; }

}  // namespace sparkpilot::doctor
