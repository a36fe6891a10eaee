#include "doctor/doctor.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "doctor/check.h"
#include "hw/probe.h"
#include "hw/record.h"
#include "stack/library.h"

namespace sparkpilot {
namespace doctor {
namespace {

std::vector<std::span<const Check>> tables() {
  return {driver_checks(), gpu_checks(),  memory_checks(),  system_checks(), library_checks(),
          python_checks(), disk_checks(), network_checks(), program_checks()};
}

}  // namespace

bool has_nvidia(const Patient& patient) { return !patient.machine.gpus.empty(); }

std::string gpu_name(const Gpu& gpu) {
  const std::string which = gpu.nvml_index     ? fmt::format("GPU {}", *gpu.nvml_index)
                            : !gpu.pci.empty() ? "GPU at " + gpu.pci
                            : gpu.cuda_index   ? fmt::format("GPU cuda:{}", *gpu.cuda_index)
                                               : "a GPU";
  return gpu.name.empty() ? which : fmt::format("{} ({})", which, gpu.name);
}

std::optional<ComputeCapability> highest_capability(const Patient& patient) {
  std::optional<ComputeCapability> highest;
  for (const Gpu& gpu : patient.machine.gpus) {
    if (gpu.capability && (!highest || *highest < *gpu.capability)) highest = gpu.capability;
  }
  return highest;
}

std::optional<stack::Verdict> gpu_code(const Patient& patient, const std::string& path) {
  const std::optional<ComputeCapability> capability = highest_capability(patient);
  if (!capability) return std::nullopt;
  try {
    const stack::FileSource file{InputFile(path)};
    const stack::Library library = stack::inspect(file, path);
    if (!library.trouble.empty()) return std::nullopt;
    return stack::judge(library, *capability, patient.machine.cpu.architecture);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string human_bytes(int64_t bytes) {
  constexpr double kGib = 1 << 30;
  const double gib = static_cast<double>(bytes) / kGib;
  return gib >= 100 ? fmt::format("{:.0f} GiB", gib) : fmt::format("{:.1f} GiB", gib);
}

void fix_with_packages(const Patient& patient, Says& says, std::string (*command)(const CudaPackages&)) {
  const std::optional<ComputeCapability> serves = patient.machine.driver.cuda;
  if (!serves) return;
  if (serves->major >= 13) return says.fix(command({"13-0", "13", "cu130"}));
  const bool blackwell = highest_capability(patient) >= ComputeCapability{10, 0};
  const bool knows_blackwell = *serves >= ComputeCapability{12, 8};
  if (serves->major < 12 || (blackwell && !knows_blackwell)) {
    return says.fix(fmt::format("update NVIDIA's driver first, it serves CUDA {}.{}: then {}", serves->major,
                                serves->minor, command({"13-0", "13", "cu130"})));
  }
  const int minor = serves->minor == 7 ? 6 : serves->minor;  // there was no toolkit 12.7
  says.fix(command({fmt::format("12-{}", minor), "12", knows_blackwell ? "cu128" : "cu126"}));
}

}  // namespace doctor

std::string_view impact_name(Impact impact) {
  switch (impact) {
    case Impact::fatal: return "fatal";
    case Impact::slow: return "slow";
    case Impact::cosmetic: break;
  }
  return "cosmetic";
}

Diagnosis examine(Source& source, const DoctorOptions& options) {
  Recorder once(source);  // so that the drivers are asked only once
  Diagnosis out;
  out.machine = probe(once);
  const GpuDriverAnswers nvml = once.nvml(), cuda = once.cuda();
  const doctor::Patient patient{once, out.machine, nvml, cuda, options};
  for (const auto table : doctor::tables()) {
    for (const doctor::Check& check : table) {
      doctor::Says says;
      check.look(patient, says);
      for (const auto& [seen, fix] : says.wrong()) {
        out.findings.push_back({std::string(check.info.id), std::string(check.info.title), check.info.impact, seen,
                                std::string(check.info.why), fix.empty() ? std::string(check.info.fix) : fix});
      }
      if (!says.wrong().empty()) continue;
      if (!says.all_good() && !says.skipped()) fail_internal("the check {} said nothing", check.info.id);
      const bool looked = says.all_good().has_value();
      out.passed.push_back({std::string(check.info.id), looked ? *says.all_good() : *says.skipped(), looked});
    }
  }
  std::stable_sort(out.findings.begin(), out.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.impact < b.impact; });
  return out;
}

std::vector<CheckInfo> checks() {
  std::vector<CheckInfo> out;
  for (const auto table : doctor::tables()) {
    for (const doctor::Check& check : table) out.push_back(check.info);
  }
  return out;
}

}  // namespace sparkpilot
