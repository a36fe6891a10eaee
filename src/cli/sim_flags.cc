#include "cli/sim_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "cli/choices.h"
#include "cli/short_waits.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "ops/cuda/images.h"
#include "sim/network_algorithm.h"
#include "sim/worker_algorithm.h"
#include "tensor/gpu.h"

namespace sparkpilot::cli {
namespace fs = std::filesystem;

void add_sim_flags(Command command, SimFlags& flags) {
  std::vector<std::string> algorithms, vehicles;
  for (const sim::Algorithm& algorithm : sim::algorithms()) algorithms.emplace_back(algorithm.name);
  for (const auto& [name, car] : sim::vehicle_presets()) vehicles.emplace_back(name);
  const auto no_algorithm = [algorithms](const std::string& text) {
    const bool known = sim::UserAlgorithm::names_file(text) || std::ranges::find(algorithms, text) != algorithms.end();
    return known ? std::string() : no_choice(text, algorithms);
  };
  command
      .add_option("--algorithm", flags.algorithm,
                  "the controller; or a file of your own: a shared library .so, a script .py, a network .onnx "
                  "(docs/algorithms.md)")
      .check(no_algorithm)
      .type_name("NAME|FILE");
  command
      .add_option("--vehicle", flags.vehicle,
                  "the car: a preset (sim list --vehicles), or a file that sim fit --out writes")
      .check([vehicles](const std::string& text) {
        const bool preset = std::find(vehicles.begin(), vehicles.end(), text) != vehicles.end();
        return preset || sim::is_car_file(text) ? std::string() : no_choice(text, vehicles) + ", or a file F.json";
      })
      .type_name("NAME|F.json");
  add_choice(
      command, "--plant", flags.plant, {"bicycle", "bicycle_linear", "kinematic"},
      "how it moves: bicycle, with tyres that saturate, around which bounds are drawn; bicycle_linear; kinematic, "
      "without slip",
      "NAME");
  add_choice(command, "--planner", flags.planner, {std::begin(sim::kPlannerNames), std::end(sim::kPlannerNames)},
             "what follows cars ahead: idm, the Intelligent Driver Model; mpc, openpilot's; cruise does not see them",
             "NAME");
  add_list(command, "--set", flags.set, "KEY=VALUE", "a parameter of the algorithm (sim list --algorithms)");
  add_number(command, "--step-timeout", flags.step_timeout, "how long a step of an algorithm of your own may take",
             "SECONDS");
  add_number(command, "--seed", flags.seed, "of the scenarios' parameters and noise");
}

sim::WorkerOptions worker_options(const Program& program, double step_timeout) {
  sim::WorkerOptions options{.step_timeout = step_timeout, .unset = variables_of_short_waits()};
  if (const std::string& python = program.settings["python"].value; !python.empty()) options.python = python;
  if (!program.quiet && (!program.comm || program.comm->rank() == 0)) options.on_failed_batch = note;
  return options;
}

std::shared_ptr<const sim::UserAlgorithm> user_algorithm(const Program& program, const SimFlags& flags) {
  if (!(flags.step_timeout > 0)) fail("--step-timeout {}: expected more than 0", flags.step_timeout);
  if (flags.algorithm.ends_with(".onnx")) return std::make_shared<sim::NetworkAlgorithm>(flags.algorithm);
  return std::make_shared<sim::WorkerAlgorithm>(flags.algorithm, worker_options(program, flags.step_timeout));
}

namespace {

void refuse_idle_sim_flags(const Program& program, const SimFlags& flags) {
  const bool own_program = sim::UserAlgorithm::names_file(flags.algorithm) && !flags.algorithm.ends_with(".onnx");
  for (const std::string& flag : given_flags(*program.at)) {
    if (!own_program && (flag == "--step-timeout" || flag == "--workers")) {
      fail("{} has no effect with --algorithm {}: it is for programs of your own (docs/algorithms.md)", flag,
           flags.algorithm);
    }
  }
}

}  // namespace

sim::ScenarioRunOptions scenario_run_options(const Program& program, const SimFlags& flags) {
  sim::ScenarioRunOptions options;
  options.seed = flags.seed;
  options.algorithm = flags.algorithm;
  options.vehicle = flags.vehicle;
  options.plant = flags.plant;
  options.planner = flags.planner;
  for (const std::string& text : flags.set) {
    const auto [name, number] = split_assignment(text, "--set");
    double value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || stop != number.data() + number.size() || !std::isfinite(value)) {
      fail("--set {}: expected a number, got \"{}\"", name, number);
    }
    if (std::ranges::find(options.set, name, &sim::Parameter::name) != options.set.end()) {
      fail("--set {}: given twice", name);
    }
    expect_used_parameter("--set", name, flags);
    options.set.push_back({name, value});
  }
  refuse_idle_sim_flags(program, flags);
  if (sim::UserAlgorithm::names_file(flags.algorithm)) options.user = user_algorithm(program, flags);
  return options;
}

std::shared_ptr<GpuDevice> sim_gpu(const Program& program, const sim::ScenarioRunOptions& options,
                                   const std::string& asked, bool tell) {
  if (tell) tell_about_device(program, asked);
  const bool automatic = asked == "auto";
  if (automatic && (options.user || cuda::images().empty())) return nullptr;
  const std::string device = chosen_device(asked, this_device_facts());
  if (device == "cpu") return nullptr;
  const auto open = [&] {
    const int ordinal = std::stoi(device.substr(std::string("cuda:").size()));
    return GpuDevice::open(ordinal, {.reserve = memory_reserve(program)});
  };
  if (!automatic) return open();
  std::string why;
  try {
    std::shared_ptr<GpuDevice> gpu = open();
    why = sim::gpu_refusal(sim::ScenarioRun(options), gpu);
    if (why.empty()) return gpu;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    why = error.what();
  }
  if (tell) note(fmt::format("{}: {}; the worlds run on the CPU", device, why));
  return nullptr;
}

void expect_one_process() {
  const std::string launcher = launcher_variable();
  if (launcher.empty() || launcher.ends_with("=1")) return;
  const std::string why =
      fmt::format("started by a launcher ({}): of sim only sim run shares its work among processes", launcher);
  let_first_process_tell();
  if (launcher_rank() > 0) throw FailedElsewhere(ErrorKind::user, why);
  fail("{}", why);
}

void expect_new_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) || (fs::is_directory(folder, error) && fs::is_empty(folder, error))) return;
  fail("{}: exists; name a folder that does not, or an empty one", folder.string());
}

void expect_other_file(const std::string& flag, const std::string& path, const std::string& other_flag,
                       const std::string& other) {
  std::error_code error;
  const bool stream = fs::exists(path, error) && !fs::is_regular_file(path, error);  // a device takes both
  if (path.empty() || other.empty() || stream) return;
  const auto full = [&](const std::string& name) { return fs::weakly_canonical(fs::absolute(name, error), error); };
  if (full(path) == full(other)) fail("{}: {} and {} name one file", path, flag, other_flag);
}

void expect_used_parameter(const std::string& flag, const std::string& name, const SimFlags& flags) {
  const auto shared = sim::shared_parameters();
  const auto found = std::ranges::find(shared, name, &sim::AlgorithmParameter::name);
  if (found == shared.end()) return;
  // A network sees the gap that these two ask for, whichever planner drives (docs/sim_env.md).
  if (flags.algorithm.ends_with(".onnx") && (name == "time_gap" || name == "standstill")) return;
  for (const std::string planner : {"idm", "mpc"}) {
    if (planner == flags.planner || !found->meaning.starts_with(planner + ":")) continue;
    fail("{} {} has no effect with --planner {}: it is a parameter of --planner {}", flag, name, flags.planner,
         planner);
  }
}

std::vector<std::string> split_names(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      if (end > at) names.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  return names;
}

}  // namespace sparkpilot::cli
