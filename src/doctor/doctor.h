// Finds what is wrong with a machine, why it matters, and how to fix it.
//
//   const Diagnosis diagnosis = examine(*system_source(), {});
//   for (const Finding& finding : diagnosis.findings) ...
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/source.h"
#include "sparkpilot/machine.h"

namespace sparkpilot {

enum class Impact {
  fatal,     // a part of the machine cannot be used at all
  slow,      // it works, but slower or with less than it could
  cosmetic,  // worth knowing
};
std::string_view impact_name(Impact impact);

struct Finding {
  std::string id = {}, title = {};  // of the check, see checks()
  Impact impact = Impact::cosmetic;
  std::string seen = {}, why = {}, fix = {};  // `fix`: commands, or what to do by hand
};

// A check that found no fault, or could not look.
struct Passed {
  std::string id = {}, seen = {};
  bool looked = true;  // else `seen` says why not
};

struct Diagnosis {
  Machine machine = {};
  std::vector<Finding> findings = {};  // the most severe first
  std::vector<Passed> passed = {};     // in the table's order
};

struct DoctorOptions {
  // Folders that the user works with. Empty: not checked.
  std::filesystem::path models = {}, data = {};
  // The machine is the one this process runs on, so the program's own build is checked too.
  bool here = true;
  // Also do what takes seconds: read the GPU code of large libraries on this machine.
  bool deep = false;
  // NVML's answers while the GPUs were kept busy (sample_under_load()). Empty: only the present readings are used.
  std::vector<GpuDriverAnswers> under_load = {};
  // The result of measure_disk(). Empty: not measured.
  std::optional<double> disk_bytes_per_second = {};
};

// Runs every check on one machine. Takes milliseconds, plus the drivers' time; changes nothing.
Diagnosis examine(Source& source, const DoctorOptions& options);

// Information on a check, in the order in which checks run.
struct CheckInfo {
  std::string_view id, title;
  Impact impact;
  std::string_view why, fix;
};
std::vector<CheckInfo> checks();

}  // namespace sparkpilot
