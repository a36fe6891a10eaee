// The C interface of the environment for learning: what crosses it is checked, no exception does.
#include "sparkpilot/sim_env.h"

#include <charconv>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "capi/fault.h"
#include "sim/learning_env.h"
#include "sim/world_stepper_gpu.h"
#include "tensor/gpu.h"

using namespace sparkpilot;  // NOLINT: the names of the C interface are global

struct sparkpilot_sim_env {
  sim::LearningEnv env;
  int threads;
};

namespace {

using Numbers = std::vector<sparkpilot_sim_number>;

// Kept by hand: a thread's text has to outlive its last call.
thread_local std::string last_error;
thread_local int32_t last_kind = 0;

// Runs `work`, or keeps what was wrong and returns `failed`.
template <class Result, class Work>
Result guarded(Result failed, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    const capi::Fault fault = capi::fault_of(error);
    last_kind = fault.kind;
    try {
      last_error = fault.text;
    } catch (const std::exception&) {
      last_error.clear();
    }
  }
  return failed;
}

// Names are literals of the simulator, which end with 0.
Numbers numbers_of(std::span<const sim::WorldNumber> table) {
  Numbers all;
  for (const sim::WorldNumber& n : table) {
    all.push_back({n.name.data(), n.unit.data(), n.meaning.data(), n.low, n.high, n.scale});
  }
  return all;
}
const sparkpilot_sim_number* number_at(const Numbers& all, int32_t i) {
  return i >= 0 && i < std::ssize(all) ? &all[static_cast<size_t>(i)] : nullptr;
}

const char* text(const char* value, const char* name) {
  if (!value) fail("sim: {} is null", name);
  return value;
}
int between(int32_t value, int low, int high, const char* name) {
  if (value < low || value > high) fail("sim: {} is {}, expected {} to {}", name, value, low, high);
  return value;
}

std::vector<std::string> names_of(std::string_view list) {
  std::vector<std::string> names;
  while (true) {
    const size_t comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    if (comma == list.npos) return names;
    list.remove_prefix(comma + 1);
  }
}

// The GPU's number; none: the processor.
std::optional<int> gpu_named(std::string_view device) {
  if (device == "cpu") return {};
  if (device == "cuda") return 0;
  int number = -1;
  if (device.starts_with("cuda:")) {
    const std::string_view digits = device.substr(5);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0) return number;
  }
  fail("sim: no device \"{}\", expected cpu, cuda or cuda:N", device);
}

sim::LearningOptions learning_options(const sparkpilot_sim_options& o) {
  if (o.version != SPARKPILOT_SIM_VERSION) {
    fail("sim: options of version {}, this library has {}", o.version, SPARKPILOT_SIM_VERSION);
  }
  between(o.threads, 0, 4096, "threads");
  sim::LearningOptions to;
  to.worlds = o.worlds;
  to.scenarios = sim::select_scenarios(names_of(text(o.scenarios, "scenarios")));
  to.vehicle = text(o.vehicle, "vehicle");
  to.tyres = sim::plant_tyres(text(o.plant, "plant"));
  to.planner = sim::planner_named(text(o.planner, "planner"));
  to.torque = between(o.steering, 0, 1, "steering") == SPARKPILOT_SIM_TORQUE;
  to.longitudinal = between(o.longitudinal, 0, 1, "longitudinal") == 1;
  to.autoreset = static_cast<sim::Autoreset>(between(o.autoreset, 0, 2, "autoreset"));
  to.steps_per_action = o.steps_per_action;
  to.most_seconds = o.most_seconds;
  to.lane = o.lane;
  to.seed = o.seed;
  to.weights.assign(o.weights, o.weights + SPARKPILOT_SIM_REWARDS);
  if (const auto gpu = gpu_named(text(o.device, "device"))) to.elsewhere = sim::worlds_on_gpu(GpuDevice::open(*gpu));
  return to;
}

sim::LearningBuffers learning_buffers(const sparkpilot_sim_buffers* out) {
  if (!out) fail("sim: no buffers");
  return {out->observations,       out->rewards, out->terminated, out->truncated, out->ended,
          out->final_observations, out->terms};
}
sim::LearningEnv& checked(sparkpilot_sim_env* env) {
  if (!env) fail("sim: no environment");
  return env->env;
}

}  // namespace

extern "C" {

int32_t sparkpilot_sim_version(void) { return SPARKPILOT_SIM_VERSION; }
const char* sparkpilot_sim_error(void) { return last_error.c_str(); }
int32_t sparkpilot_sim_error_kind(void) { return last_kind; }

void sparkpilot_sim_default_options(sparkpilot_sim_options* options) {
  if (!options) return;
  const sim::LearningOptions o;
  *options = {};
  options->version = SPARKPILOT_SIM_VERSION;
  options->worlds = 1;
  options->seed = o.seed;
  options->scenarios = "all";
  options->vehicle = "civic";
  options->plant = "bicycle";
  options->planner = "idm";
  options->device = "cpu";
  options->steering = SPARKPILOT_SIM_TORQUE;
  options->autoreset = SPARKPILOT_SIM_SAME_STEP;
  options->steps_per_action = o.steps_per_action;
  options->most_seconds = o.most_seconds;
  options->lane = o.lane;
  for (int32_t i = 0; i < SPARKPILOT_SIM_REWARDS; ++i) {
    const sparkpilot_sim_number* term = sparkpilot_sim_term(i);
    options->weights[i] = term ? static_cast<float>(term->scale) : 0;
  }
}

sparkpilot_sim_env* sparkpilot_sim_make(const sparkpilot_sim_options* options) {
  return guarded<sparkpilot_sim_env*>(nullptr, [&] {
    if (!options) fail("sim: no options");
    return new sparkpilot_sim_env{sim::LearningEnv(learning_options(*options)),
                                  options->threads > 0 ? options->threads : available_processors()};
  });
}
void sparkpilot_sim_free(sparkpilot_sim_env* env) { delete env; }

const sparkpilot_sim_number* sparkpilot_sim_observation(int32_t i) {
  return guarded<const sparkpilot_sim_number*>(nullptr, [&] {
    static const Numbers all = numbers_of(sim::observed_numbers());
    return number_at(all, i);
  });
}
const sparkpilot_sim_number* sparkpilot_sim_term(int32_t i) {
  return guarded<const sparkpilot_sim_number*>(nullptr, [&] {
    static const Numbers all = numbers_of(sim::reward_terms());
    return number_at(all, i);
  });
}
const sparkpilot_sim_number* sparkpilot_sim_action(const sparkpilot_sim_env* env, int32_t i) {
  return guarded<const sparkpilot_sim_number*>(nullptr, [&] {
    static const Numbers torque = numbers_of(sim::learning_actions(true)),
                         angle = numbers_of(sim::learning_actions(false));
    if (!env) fail("sim: no environment");
    const bool there = i < std::ssize(env->env.actions());
    return there ? number_at(env->env.options().torque ? torque : angle, i) : nullptr;
  });
}

int32_t sparkpilot_sim_reset(sparkpilot_sim_env* env, const uint8_t* mask, const uint64_t* seeds,
                             const sparkpilot_sim_buffers* out) {
  return guarded(-1, [&] {
    sim::LearningEnv& worlds = checked(env);
    const ThreadScope scope(env->threads);
    worlds.reset(mask, seeds, learning_buffers(out));
    return 0;
  });
}

int32_t sparkpilot_sim_step(sparkpilot_sim_env* env, const float* actions, const sparkpilot_sim_buffers* out) {
  return guarded(-1, [&] {
    sim::LearningEnv& worlds = checked(env);
    if (!actions) fail("sim: no actions");
    const ThreadScope scope(env->threads);
    worlds.step(actions, learning_buffers(out));
    return 0;
  });
}

const char* sparkpilot_sim_scenario(const sparkpilot_sim_env* env, int64_t world) {
  return guarded<const char*>(nullptr, [&] {
    if (!env) fail("sim: no environment");
    if (world < 0 || world >= env->env.options().worlds) fail("sim: no world {}", world);
    return env->env.scenario(world).name.c_str();
  });
}

}  // extern "C"
