// Says what is wrong with a machine, why it matters, and what mends it.
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
  fatal,     // something that the machine has cannot be used at all
  slow,      // it works, slower or with less than it could
  cosmetic,  // worth knowing
};
std::string_view impact_name(Impact impact);

struct Finding {
  std::string id = {}, title = {};  // of the check, see checks()
  Impact impact = Impact::cosmetic;
  std::string seen = {}, why = {}, mend = {};  // `mend`: commands, or what to do by hand
};

// A check that found nothing, or could not look.
struct Passed {
  std::string id = {}, seen = {};
  bool looked = true;  // else `seen` says why not
};

struct Diagnosis {
  Machine machine = {};
  std::vector<Finding> findings = {};  // the gravest first
  std::vector<Passed> passed = {};     // in the table's order
};

struct DoctorOptions {
  // Folders that the user works with. Empty: not looked at.
  std::filesystem::path models = {}, data = {};
  // The machine is the one this process runs on, so what the program itself was built with counts, too.
  bool here = true;
  // Also what takes seconds: reading the GPU code of large libraries on this machine.
  bool deep = false;
  // NVML's answers while the GPUs were kept busy (sample_under_load()). Empty: the moment has to do.
  std::vector<DriverAnswers> under_load = {};
  // What measure_disk() measured. Empty: nothing was measured.
  std::optional<double> disk_bytes_per_second = {};
};

// Every check on one machine. Takes milliseconds, besides the drivers' own time; changes nothing.
Diagnosis examine(Source& source, const DoctorOptions& options);

// What is known of a check, in the order in which they are made.
struct CheckInfo {
  std::string_view id, title;
  Impact impact;
  std::string_view why, mend;
};
std::vector<CheckInfo> checks();

}  // namespace sparkpilot
