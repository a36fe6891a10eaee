// The flags of commands that drive scenarios, with the same texts everywhere.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "sim/scenario_run.h"
#include "sim/user_algorithm.h"
#include "sim/worker_process.h"

namespace sparkpilot::cli {

struct SimFlags {
  std::string algorithm = "lateral_torque", vehicle = "civic", plant = "bicycle", planner = "idm";
  std::vector<std::string> set;
  uint64_t seed = 1;
  double step_timeout = 1;
};
void add_sim_flags(Command command, SimFlags& flags);
// Without scenarios. Starts a user's algorithm. Fails (user) on a --set that is no NAME=NUMBER.
sim::ScenarioRunOptions scenario_run_options(const Program& program, const SimFlags& flags);
// Of a user's program: the Python of the setting, and without the variables of short_waits.h.
sim::WorkerOptions worker_options(const Program& program, double step_timeout);
// The algorithm in the file that --algorithm names.
std::shared_ptr<const sim::UserAlgorithm> user_algorithm(const Program& program, const SimFlags& flags);
// The GPU for these scenarios by a setting of device, null for the CPU. `auto` takes the fastest one that gives the
// CPU's bits for the first worlds, and tells why not; fails (device) where another one is named that cannot be opened.
std::shared_ptr<GpuDevice> sim_gpu(const Program& program, const sim::ScenarioRunOptions& options,
                                   const std::string& device, bool tell);
// Fails (user) under a launcher of several processes, as each would do all of the work; the first one tells.
void expect_one_process();
// Fails (user) where there is more than an empty folder, so that nothing is replaced.
void expect_new_folder(const std::filesystem::path& folder);
// Fails (user) where two flags name one file, in which only what is written last would be kept.
void expect_other_file(const std::string& flag, const std::string& path, const std::string& other_flag,
                       const std::string& other);
// Fails (user) where that parameter, which `flag` names, is of a planner that does not drive.
void expect_used_parameter(const std::string& flag, const std::string& name, const SimFlags& flags);
// Names that commas separate, too.
std::vector<std::string> split_names(const std::vector<std::string>& texts);

}  // namespace sparkpilot::cli
