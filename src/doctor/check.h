// A check is a record in a table: its name, why it matters, how to fix it, and a function that looks.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "doctor/doctor.h"
#include "hw/gpu_driver.h"
#include "stack/verdict.h"

namespace sparkpilot::doctor {

// Everything that a check may read.
struct Patient {
  Source& source;
  const Machine& machine;
  const GpuDriverAnswers& nvml;
  const GpuDriverAnswers& cuda;
  const DoctorOptions& options;
};

// A check's findings, at least one: that all is good, that something is wrong (once for each fault), or why it did not
// look.
class Says {
 public:
  template <typename... Args>
  void good(fmt::format_string<Args...> format, Args&&... args) {
    good_ = fmt::format(format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void bad(fmt::format_string<Args...> format, Args&&... args) {
    bad_.push_back({fmt::format(format, std::forward<Args>(args)...), ""});
  }
  // The last fault needs another remedy than the check's own.
  void fix(std::string how) { bad_.back().second = std::move(how); }
  // The check does not apply here.
  template <typename... Args>
  void skip(fmt::format_string<Args...> format, Args&&... args) {
    skipped_ = fmt::format(format, std::forward<Args>(args)...);
  }

  const std::optional<std::string>& all_good() const { return good_; }
  const std::optional<std::string>& skipped() const { return skipped_; }
  const std::vector<std::pair<std::string, std::string>>& wrong() const { return bad_; }

 private:
  std::optional<std::string> good_, skipped_;
  std::vector<std::pair<std::string, std::string>> bad_;  // what was found; another remedy or ""
};

struct Check {
  CheckInfo info;
  void (*look)(const Patient&, Says&);
};

// The tables, one for each file.
std::span<const Check> driver_checks();
std::span<const Check> gpu_checks();
std::span<const Check> memory_checks();
std::span<const Check> system_checks();
std::span<const Check> library_checks();
std::span<const Check> python_checks();
std::span<const Check> program_checks();
std::span<const Check> disk_checks();
std::span<const Check> network_checks();

// Helpers of several tables.
bool has_nvidia(const Patient& patient);  // an NVIDIA GPU on the bus, usable or not
std::string gpu_name(const Gpu& gpu);     // "GPU 0 (NVIDIA GB10)"
std::optional<ComputeCapability> highest_capability(const Patient& patient);
// How well the GPU code in a file suits this machine's best GPU; empty if it cannot be read.
std::optional<stack::Verdict> gpu_code(const Patient& patient, const std::string& path);
std::string human_bytes(int64_t bytes);  // "12.3 GiB"

// How packages for the driver's CUDA are named: a driver runs programs of its own major version and of older ones.
struct CudaPackages {
  std::string version = {}, major = {}, index = {};  // "12-8", "12", and PyTorch's "cu128"
};
// Of the last fault: the remedy that `command` makes of those packages; to update the driver first if it serves none
// that know the GPU. Leaves the check's own if the driver does not say which CUDA it serves.
void fix_with_packages(const Patient& patient, Says& says, std::string (*command)(const CudaPackages&));

}  // namespace sparkpilot::doctor
