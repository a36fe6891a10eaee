#include "cli/sim_tinyphysics.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "adapters/load_model.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "sim/challenge_script.h"
#include "sim/csv.h"
#include "sim/tinyphysics.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct TinyPhysicsFlags {
  std::string model, controller = "pid", seed_path, out;
  std::vector<std::string> data, parameters;
  int64_t batch = 0;
  double most_lataccel = sim::TinyPhysicsOptions().most_lataccel, step_timeout = sim::WorkerOptions().step_timeout;
  bool trajectories = false;
};

struct RouteFile {
  std::string path, seed_path;  // as it was given; the text of which the seed is made
  uint32_t seed = 0;
  sim::ChallengeRoute route;
};

// A folder's routes by name, as the challenge takes them.
std::vector<std::string> files_of(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& path : given) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.path().extension() == ".csv") files.push_back((fs::path(path) / entry.path().filename()).string());
    }
    if (error) fail("{}: {}", path, error.message());
    if (files.size() == before) fail("{}: no file there ends in .csv", path);
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

// The template with {path}, {name} and {stem} replaced.
std::string seed_path_of(const std::string& form, const std::string& file) {
  if (form.empty()) return file;
  const fs::path path(file);
  std::string out;
  for (size_t at = 0; at < form.size(); ++at) {
    if (form[at] != '{') {
      out += form[at];
      continue;
    }
    const size_t end = form.find('}', at);
    const std::string word = form.substr(at, end == std::string::npos ? end : end + 1 - at);
    if (word == "{path}") out += file;
    else if (word == "{name}") out += path.filename().string();
    else if (word == "{stem}") out += path.stem().string();
    else fail("--seed-path: expected {{path}}, {{name}} or {{stem}}, got \"{}\"", word);
    at = end;
  }
  return out;
}

constexpr int64_t kToldFailures = 10;

bool is_script(const std::string& controller) { return controller.ends_with(".py"); }

std::vector<RouteFile> read_routes(const TinyPhysicsFlags& flags) {
  std::vector<RouteFile> routes;
  for (const std::string& file : files_of(flags.data)) {
    const std::string seed_path = seed_path_of(flags.seed_path, file);
    routes.push_back({file, seed_path, sim::challenge_seed(seed_path), sim::load_challenge_route(file)});
  }
  return routes;
}

std::vector<std::pair<std::string, double>> parameters_of(const TinyPhysicsFlags& flags) {
  std::vector<std::pair<std::string, double>> all;
  for (const std::string& text : flags.parameters) {
    const auto [key, value] = split_assignment(text, "--set");
    if (const std::string wrong = no_number<double>(value); !wrong.empty()) fail("--set {}: {}", key, wrong);
    double number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    for (const auto& [other, of_it] : all) {
      if (other == key) fail("--set {}: given twice", key);
    }
    all.emplace_back(key, number);
  }
  return all;
}

// The routes' files below DIR/trajectories: their own names, or with _2, _3 ... where several have the same.
std::vector<std::string> trajectory_names(const std::vector<RouteFile>& routes) {
  std::map<std::string, int> used;
  std::vector<std::string> names;
  for (const RouteFile& route : routes) names.push_back(file_name_of(fs::path(route.path).stem().string(), used));
  return names;
}

void write_whole(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Numbers as the shortest text that reads back to the same.
void write_trajectory(const fs::path& path, const RouteFile& from, const sim::TinyPhysicsRollout& rollout) {
  std::string text = "row,target_m_s2,lataccel_m_s2,action,token\n";
  for (size_t row = 0; row < rollout.lataccel.size(); ++row) {
    const auto at = static_cast<int64_t>(row) - sim::kChallengeStart;
    const std::string token = at < 0 ? "" : std::to_string(rollout.tokens[static_cast<size_t>(at)]);
    text += fmt::format("{},{},{},{},{}\n", row, from.route.target[row], rollout.lataccel[row], rollout.actions[row],
                        token);
  }
  write_whole(path, text);
}

bool has_result(const sim::TinyPhysicsRollout& rollout) {
  return rollout.costs || rollout.diverged_at >= 0 || !rollout.failed.empty();
}

void write_costs(const fs::path& path, const std::vector<RouteFile>& routes,
                 const std::vector<sim::TinyPhysicsRollout>& rollouts) {
  std::string text = "route,seed_path,seed,lataccel_cost,jerk_cost,total_cost,diverged_at_row,failed\n";
  for (size_t i = 0; i < routes.size(); ++i) {
    const sim::TinyPhysicsRollout& rollout = rollouts[i];
    if (!has_result(rollout)) continue;
    text +=
        fmt::format("{},{},{},", sim::csv_field(routes[i].path), sim::csv_field(routes[i].seed_path), routes[i].seed);
    if (rollout.costs)
      text += fmt::format("{},{},{},,\n", rollout.costs->lataccel, rollout.costs->jerk, rollout.costs->total);
    else if (!rollout.failed.empty()) text += fmt::format(",,,,{}\n", sim::csv_field(rollout.failed));
    else text += fmt::format(",,,{},\n", rollout.diverged_at);
  }
  write_whole(path, text);
}

struct RolloutSummary {
  int64_t routes = 0, diverged = 0, failed = 0, unfinished = 0, steps = 0;
  sim::ChallengeCosts mean;   // of those with costs
  std::vector<size_t> worst;  // the ten with the highest total, the worst first
  double seconds = 0;
  bool stopped = false;
};

RolloutSummary summary_of(const std::vector<sim::TinyPhysicsRollout>& rollouts) {
  RolloutSummary summary;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    summary.unfinished += !has_result(rollouts[i]);
    summary.diverged += rollouts[i].diverged_at >= 0;
    summary.failed += !rollouts[i].failed.empty();
    summary.steps += static_cast<int64_t>(rollouts[i].tokens.size());
    if (!rollouts[i].costs) continue;
    ++summary.routes;
    summary.mean.lataccel += rollouts[i].costs->lataccel;
    summary.mean.jerk += rollouts[i].costs->jerk;
    summary.mean.total += rollouts[i].costs->total;
    summary.worst.push_back(i);
  }
  const auto count = static_cast<double>(std::max<int64_t>(summary.routes, 1));
  summary.mean = {summary.mean.lataccel / count, summary.mean.jerk / count, summary.mean.total / count};
  std::stable_sort(summary.worst.begin(), summary.worst.end(),
                   [&](size_t a, size_t b) { return rollouts[a].costs->total > rollouts[b].costs->total; });
  if (summary.worst.size() > 10) summary.worst.resize(10);
  return summary;
}

Json costs_json(const sim::ChallengeCosts& costs) {
  return {{"lataccel_cost", costs.lataccel}, {"jerk_cost", costs.jerk}, {"total_cost", costs.total}};
}

Json route_json(const RouteFile& route, const sim::TinyPhysicsRollout& rollout) {
  Json json = {{"route", route.path}, {"seed_path", route.seed_path}, {"seed", route.seed}};
  if (rollout.costs) json.update(costs_json(*rollout.costs));
  else if (!rollout.failed.empty()) json["failed"] = rollout.failed;
  else json["diverged_at_row"] = rollout.diverged_at;
  return json;
}

void check_controller(const Program& program, const TinyPhysicsFlags& flags) {
  if (is_script(flags.controller)) return;
  if (std::ranges::count(sim::challenge_controllers(), flags.controller) == 0) {
    fail("--controller: expected pid, zero or a file that ends in .py, got \"{}\"", flags.controller);
  }
  if (std::ranges::count(given_flags(*program.at), "--step-timeout") > 0) {
    fail("--step-timeout has no effect with --controller {}: it is for scripts", flags.controller);
  }
}

// What drives, with all of its parameters.
struct Driver {
  std::unique_ptr<sim::ChallengeScript> script;  // if it is one
  sim::ChallengeControllerMaker maker;
  std::vector<std::pair<std::string, double>> parameters;
};

std::unique_ptr<sim::ChallengeScript> script_of(const Program& program, const TinyPhysicsFlags& flags) {
  if (!is_script(flags.controller)) return nullptr;
  return std::make_unique<sim::ChallengeScript>(flags.controller, parameters_of(flags),
                                                worker_options(program, flags.step_timeout));
}

Driver driver_of(const TinyPhysicsFlags& flags, std::unique_ptr<sim::ChallengeScript> script,
                 const std::atomic<bool>& stop) {
  Driver out;
  out.script = std::move(script);
  if (out.script) {
    out.maker = out.script->maker(&stop);
    out.parameters = out.script->parameters();
    return out;
  }
  const auto set = parameters_of(flags);
  out.maker = sim::challenge_controller(flags.controller, set);
  out.parameters = sim::challenge_parameters(flags.controller);
  for (auto& [name, value] : out.parameters) {
    const auto given = std::ranges::find(set, name, [](const auto& one) { return one.first; });
    if (given != set.end()) value = given->second;
  }
  return out;
}

void report_json(const TinyPhysicsFlags& flags, const Driver& driver, const RolloutSummary& summary,
                 const std::vector<RouteFile>& routes, const std::vector<sim::TinyPhysicsRollout>& rollouts,
                 const sim::TinyPhysics& plant) {
  Json list = Json::array(), worst = Json::array(), parameters = Json::object();
  for (size_t i = 0; i < routes.size(); ++i)
    if (has_result(rollouts[i])) list.push_back(route_json(routes[i], rollouts[i]));
  for (const size_t i : summary.worst) worst.push_back(route_json(routes[i], rollouts[i]));
  for (const auto& [key, value] : driver.parameters) parameters[key] = value;
  print_json({{"model", flags.model},
              {"controller", flags.controller},
              {"parameters", parameters},
              {"batch", plant.batch()},
              {"device", plant.device()},
              {"routes_with_costs", summary.routes},
              {"routes_diverged", summary.diverged},
              {"routes_failed", summary.failed},
              {"routes_unfinished", summary.unfinished},
              {"mean", summary.routes > 0 ? costs_json(summary.mean) : Json()},
              {"worst", worst},
              {"network_steps", summary.steps},
              {"seconds", summary.seconds},
              {"routes_per_second", static_cast<double>(summary.routes) / summary.seconds},
              {"stopped", summary.stopped},
              {"routes", list}});
}

void report_text(const RolloutSummary& summary, const std::vector<RouteFile>& routes,
                 const std::vector<sim::TinyPhysicsRollout>& rollouts) {
  Table table({summary.routes > 10 ? "worst ten" : "route", "lataccel cost", "jerk cost", "total cost"});
  const auto add = [&](const std::string& what, const sim::ChallengeCosts& costs) {
    table.add({what, fixed(costs.lataccel, 3), fixed(costs.jerk, 2), fixed(costs.total, 2)});
  };
  for (const size_t i : summary.worst) add(routes[i].path, *rollouts[i].costs);
  if (summary.routes > 0) add(fmt::format("mean of {}", count_of(summary.routes, "route")), summary.mean);
  if (summary.routes > 0) print(table.str());
  int64_t told = 0;
  for (size_t i = 0; i < routes.size(); ++i) {
    if (!rollouts[i].failed.empty() && told++ < kToldFailures) {
      print(fmt::format("{}: failed: {}\n", routes[i].path, rollouts[i].failed));
    }
  }
  if (told > kToldFailures) print(fmt::format("{} more failed\n", told - kToldFailures));
  for (size_t i = 0; i < routes.size(); ++i) {
    if (rollouts[i].diverged_at < 0) continue;
    print(fmt::format("{}: diverged: in row {} the controller's action was not finite\n", routes[i].path,
                      rollouts[i].diverged_at));
  }
  print(fmt::format("{:.1f} s, {:.1f} routes a second\n", summary.seconds,
                    static_cast<double>(summary.routes) / summary.seconds));
  if (summary.stopped) print(fmt::format("stopped: {} without result\n", count_of(summary.unfinished, "route")));
}

// Routes that a GPU runs at once: no more than there are, and for a script, whose processes have a share each, as many
// as on the CPU for each of its `threads` (0: all). A power of two, so that few numbers of routes have bits of their
// own.
int64_t batch_on_gpu(size_t routes, std::optional<int> threads) {
  constexpr size_t kLeast = 16, kMost = 1024;
  size_t most = kMost;
  if (threads) {
    most = kLeast * static_cast<size_t>(*threads > 0 ? *threads : available_processors());
  }
  return static_cast<int64_t>(std::clamp(std::bit_ceil(routes), kLeast, std::min(most, kMost)));
}

int rollout(const Program& program, const TinyPhysicsFlags& flags) {
  expect_one_process();
  constexpr int64_t kMostAtOnce = 4096;
  expect_at_least("--batch", flags.batch, 0);
  if (flags.batch > kMostAtOnce) fail("--batch {}: expected at most {}", flags.batch, kMostAtOnce);
  if (flags.trajectories && flags.out.empty()) fail("--trajectories needs --out");
  check_controller(program, flags);
  if (!flags.out.empty()) expect_new_folder(flags.out);
  const std::vector<RouteFile> routes = read_routes(flags);
  const std::vector<std::string> names = trajectory_names(routes);
  const fs::path folder = fs::path(flags.out) / "trajectories";
  auto script = script_of(program, flags);  // while it loads a signal ends the program at once
  const StopOnInterrupt stop(!flags.out.empty());
  const Driver driver = driver_of(flags, std::move(script), stop.requested());
  tell_about_device(program, program.settings["device"].value);

  Progress progress(!program.quiet, count_of(static_cast<int64_t>(routes.size()), "route"));
  sim::TinyPhysicsOptions options;
  if (flags.batch > 0) options.batch = flags.batch;
  options.most_lataccel = flags.most_lataccel;
  options.threads = chosen_threads(program).value_or(0);
  options.batch_on_gpu = batch_on_gpu(routes.size(), driver.script ? std::optional(options.threads) : std::nullopt);
  options.device = program.settings["device"].value;
  options.memory_reserve = memory_reserve(program);
  options.trajectories = flags.trajectories;
  options.stop = &stop.requested();
  options.progress = [&](double share) { progress.at(share); };
  if (flags.trajectories) {
    options.finished = [&](size_t i, const sim::TinyPhysicsRollout& done) {
      write_trajectory(folder / (names[i] + ".csv"), routes[i], done);
    };
  }
  sim::TinyPhysics plant(load_model(flags.model), flags.model, options);
  if (!flags.out.empty()) make_folders(flags.trajectories ? folder : fs::path(flags.out));
  std::vector<sim::TinyPhysicsTask> tasks;
  for (const RouteFile& route : routes) tasks.push_back({&route.route, route.seed, route.path});
  const int64_t begin = now_ns();
  const std::vector<sim::TinyPhysicsRollout> rollouts = plant.run(tasks, driver.maker);
  RolloutSummary summary = summary_of(rollouts);
  summary.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  summary.stopped = stop.requested() && summary.unfinished > 0;
  if (!flags.out.empty()) write_costs(fs::path(flags.out) / "costs.csv", routes, rollouts);
  if (program.json) report_json(flags, driver, summary, routes, rollouts, plant);
  else report_text(summary, routes, rollouts);
  if (summary.stopped) return kInterrupted;
  return summary.diverged + summary.failed > 0 ? kCheckFailed : kDone;
}

}  // namespace

void add_sim_tinyphysics(Program& program, Command group) {
  const auto flags = std::make_shared<TinyPhysicsFlags>();
  const Command command =
      add_command(program, group, "tinyphysics", "comma's controls challenge: the costs of a controller on its routes",
                  "  sparkpilot sim tinyphysics tinyphysics.onnx data\n"
                  "  sparkpilot sim tinyphysics tinyphysics.onnx data --set p=0.25 --out out/p25 --trajectories\n"
                  "  sparkpilot sim tinyphysics tinyphysics.onnx data --controller controllers/mine.py\n"
                  "  sparkpilot sim tinyphysics tinyphysics.onnx /disk/SYNTHETIC --seed-path 'data/{name}' --json\n\n"
                  "Exit code 4 where a controller diverged or failed.",
                  [&program, flags] { return rollout(program, *flags); });
  command.add_option("model", flags->model, "ONNX network: states and tokens in, logits of bins out")
      .required()
      .type_name("MODEL");
  add_list(command, "data", flags->data, "DATA", "routes as CSV files, or folders of them").required();
  command
      .add_option(
          "--controller", flags->controller,
          "the algorithm: pid (the default), zero, or a file in Python with a class Controller, as the challenge has")
      .type_name("NAME|FILE.py");
  add_list(command, "--set", flags->parameters, "KEY=VALUE",
           "a parameter of it (repeatable): p, i, d of pid; a script's attribute that is a number");
  add_number(command, "--step-timeout", flags->step_timeout, "how long a step of a script may take", "SECONDS");
  command
      .add_option("--seed-path", flags->seed_path,
                  "text of which a route's seed is made, with {path}, {name} and {stem}; default: its path as given")
      .type_name("TEMPLATE");
  command.add_option("--out", flags->out, "write DIR/costs.csv; a new or an empty folder").type_name("DIR");
  command.add_flag("--trajectories", flags->trajectories, "also write DIR/trajectories/<route>.csv");
  add_number(
      command, "--batch", flags->batch,
      "routes that the network runs at once, on a thread or on a GPU, up to 4096; 0: 16, on a GPU up to 1024, or as "
      "many as it takes");
  add_number(command, "--most-lataccel", flags->most_lataccel,
             "m/s^2: the network's bins are points from minus this to this", "X");
  add_device_flags(program, command);
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
