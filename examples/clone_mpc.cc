// A network learns to follow cars as openpilot's longitudinal MPC does: DAgger (S. Ross, G. Gordon, D. Bagnell, 2011).
//
//   build/clone_mpc [POLICY.onnx] [ROUNDS]
//
// In worlds that are planned by the MPC, an observation says which acceleration it asks for. In the first round the car
// does as it asks; after that the network drives, and what the MPC asks for where the network came to is added to the
// samples. What drives is the mean of four networks, which differ in what they began with: where none was taught, they
// err in different ways. They see speeds, the gap and accelerations, and not what the MPC asks for. At the end both
// drive scenarios that no round had: how far the car's acceleration is from what the MPC asks for there, and its
// speed from the one that is set. POLICY.onnx steers too, by the curvature that is asked for, and drives
//
//   sparkpilot sim run --algorithm ./POLICY.onnx --planner mpc --scenarios stop_and_go
//
// Exit code 1: the network is more than 1.2 times as far off as the MPC itself, or runs into a car more often.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sparkpilot/builder.h"
#include "sparkpilot/onnx.h"
#include "sparkpilot/session.h"
#include "sparkpilot/sim_env.h"
#include "sparkpilot/training.h"

namespace sparkpilot {
namespace {

constexpr int64_t kWorlds = 128, kBatch = 512, kMembers = 4, kHidden = 64;
constexpr int kRounds = 8, kActions = 600;  // actions of 50 ms in a round
constexpr int kUpdates = 4000;              // of the weights in a round
constexpr const char* kScenarios =
    "stop_and_go_jam,stop_and_go_full_stop,stop_and_go_creep,follow_slower,standing_car,emergency_lead_brakes,"
    "emergency_revealed,cut_in_far,cut_in_near,merge_behind,lane_change_to_overtake,delay_powertrain";
constexpr const char* kHeldOut = "follow_waves,cut_in_braking,emergency_lead_stops_far";

// What the network sees, and how large it usually is.
struct Feature {
  const char* column;
  float scale;
};
constexpr Feature kFeatures[] = {{"speed", 20},    {"acceleration", 2}, {"target_speed", 20},    {"lead", 1},
                                 {"lead_gap", 40}, {"lead_speed", 20},  {"lead_acceleration", 1}};
constexpr double kLater[] = {0, 1, 3};  // s
constexpr int64_t kInputs = std::size(kFeatures) + 2 + std::size(kLater);

int64_t column(std::string_view name) {
  for (int32_t i = 0; const sparkpilot_sim_number* number = sparkpilot_sim_observation(i); ++i) {
    if (name == number->name) return i;
  }
  throw std::runtime_error("no column " + std::string(name));
}
int64_t columns() {
  int32_t count = 0;
  while (sparkpilot_sim_observation(count)) ++count;
  return count;
}
int32_t term(std::string_view name) {
  for (int32_t i = 0; const sparkpilot_sim_number* number = sparkpilot_sim_term(i); ++i) {
    if (name == number->name) return i;
  }
  throw std::runtime_error("no term " + std::string(name));
}

// --- the network

struct Layer {
  std::string weight, bias;
  int64_t in, out;
};
constexpr size_t kDepth = 3;
// Those of a member lie behind each other.
const std::vector<Layer> kLayers = [] {
  std::vector<Layer> layers;
  constexpr int64_t kWidths[kDepth + 1] = {kInputs, kHidden, kHidden, 1};
  for (int member = 0; member < kMembers; ++member) {
    for (size_t i = 0; i < kDepth; ++i) {
      const std::string name = std::to_string(member) + "." + std::to_string(i);
      layers.push_back({"w" + name, "b" + name, kWidths[i], kWidths[i + 1]});
    }
  }
  return layers;
}();

struct Weights {
  std::vector<Tensor> values;  // weight and bias of each layer

  Weights() {
    std::mt19937 random(1);
    for (const Layer& layer : kLayers) {
      std::normal_distribution<float> normal(0, std::sqrt(1.0f / static_cast<float>(layer.in)));
      std::vector<float> weight(static_cast<size_t>(layer.in * layer.out));
      for (float& w : weight) w = normal(random);
      values.push_back(Tensor::of<float>({layer.in, layer.out}, weight));
      values.push_back(Tensor::zeros(DType::f32, {layer.out}));
    }
  }
};

// One column of [b, n] as [b, 1].
ValueId pick(Builder& b, ValueId from, std::string_view name) {
  return b.add("Gather", {from, b.ints({column(name)})}, {{"axis", int64_t{1}}});
}
ValueId number(Builder& b, double value) { return b.scalar(DType::f32, value); }

// Of observations [b, n]: the columns by their scales, how near the car ahead is, how fast it comes nearer, and by how
// much the gap is more than one to follow at, which openpilot's cost has too: with the car ahead as fast as it is, and
// as fast as it will be if it goes on to brake.
ValueId add_features(Builder& b, ValueId seen) {
  std::vector<ValueId> parts;
  for (const Feature& feature : kFeatures) {
    parts.push_back(b.add("Div", {pick(b, seen, feature.column), number(b, feature.scale)}));
  }
  const ValueId lead = pick(b, seen, "lead"), gap = b.add("Max", {pick(b, seen, "lead_gap"), number(b, 0)});
  const ValueId speed = pick(b, seen, "speed"), lead_speed = pick(b, seen, "lead_speed");
  const ValueId closing = b.add("Sub", {lead_speed, speed});
  parts.push_back(b.add("Div", {b.add("Mul", {lead, number(b, 20)}), b.add("Add", {gap, number(b, 10)})}));
  parts.push_back(b.add("Div", {b.add("Mul", {lead, closing}), number(b, 10)}));
  constexpr double kBrake = 2.5, kTimeGap = 1.45, kStandstill = 6;  // m/s^2, s, m: openpilot's
  const ValueId following = b.add("Add", {b.add("Mul", {speed, number(b, kTimeGap)}), number(b, kStandstill)});
  for (const double later : kLater) {
    const ValueId gain = b.add("Mul", {pick(b, seen, "lead_acceleration"), number(b, later)});
    const ValueId then = b.add("Max", {b.add("Add", {lead_speed, gain}), number(b, 0)});
    const ValueId squares = b.add("Sub", {b.add("Mul", {then, then}), b.add("Mul", {speed, speed})});
    const ValueId braking = b.add("Mul", {squares, number(b, 0.5 / kBrake)});
    const ValueId more = b.add("Sub", {b.add("Add", {gap, braking}), following});
    const ValueId scaled = b.add("Div", {more, b.add("Add", {speed, number(b, 10)})});
    parts.push_back(b.add("Clip", {b.add("Mul", {lead, scaled}), number(b, -3), number(b, 3)}));
  }
  return b.add("Concat", parts, {{"axis", int64_t{1}}});
}

// Acceleration in m/s^2 by each member, [b, kMembers], of features [b, kInputs]. `constants`: those of the weights.
ValueId add_members(Builder& b, ValueId features, const Weights& weights, std::vector<ValueId>& constants) {
  std::vector<ValueId> answers;
  ValueId x = features;
  for (size_t i = 0; i < kLayers.size(); ++i) {
    if (i % kDepth == 0) x = features;
    for (size_t k = 0; k < 2; ++k) constants.push_back(b.constant(weights.values[2 * i + k]));
    x = b.add("Add", {b.add("MatMul", {x, constants[2 * i]}), constants[2 * i + 1]});
    if (i % kDepth + 1 < kDepth) {
      x = b.add("Tanh", {x});
    } else {
      answers.push_back(x);
    }
  }
  return b.add("Concat", answers, {{"axis", int64_t{1}}});
}

// From observations [b, n] to actions [b, 2]: the torque that the asked curvature needs and brings the car back to its
// lane, and acceleration.
Graph policy(const Weights& weights) {
  Graph graph;
  Builder b(graph);
  const ValueId seen = b.open_input("seen", DType::f32, {{-1, "b"}, {columns()}});
  const ValueId speed = pick(b, seen, "speed");
  const ValueId asked = b.add("Mul", {b.add("Mul", {speed, speed}), pick(b, seen, "desired_curvature")});
  const ValueId torque =
      b.add("Sub", {b.add("Div", {asked, number(b, 1.653)}), b.add("Mul", {pick(b, seen, "offset"), number(b, 0.3)})});
  std::vector<ValueId> constants;
  const ValueId members = add_members(b, add_features(b, seen), weights, constants);
  const ValueId acceleration = b.add("ReduceMean", {members, b.ints({1})}, {{"keepdims", int64_t{1}}});
  b.output(b.add("Concat", {torque, acceleration}, {{"axis", int64_t{1}}}), "actions");
  return graph;
}

// Fits the weights to samples: rows of features, and the acceleration that was wanted there.
void fit(Weights& weights, const std::vector<float>& rows, const std::vector<float>& wanted, int updates) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {kBatch, columns()}), target = b.input("wanted", DType::f32, {kBatch, 1});
  std::vector<ValueId> constants;
  const ValueId error = b.add("Sub", {add_members(b, add_features(b, x), weights, constants), target});
  const ValueId loss = b.add("ReduceMean", {b.add("Mul", {error, error})}, {{"keepdims", int64_t{0}}});
  std::vector<TrainedWeights> trained;
  for (size_t i = 0; i < kLayers.size(); ++i) {
    trained.push_back({constants[2 * i], kLayers[i].weight});
    trained.push_back({constants[2 * i + 1], kLayers[i].bias, false});
  }
  Training training(std::move(graph), loss, std::move(trained), {.threads = 1, .weight_decay = 1e-4f});
  std::mt19937 random(2);
  const auto width = static_cast<size_t>(columns());
  double mean = 0;
  for (int update = 0; update < updates; ++update) {
    const std::span<float> to = training.input("x"), what = training.input("wanted");
    for (size_t i = 0; i < kBatch; ++i) {
      const size_t row = std::uniform_int_distribution<size_t>(0, wanted.size() - 1)(random);
      std::copy_n(&rows[row * width], width, &to[i * width]);
      what[i] = wanted[row];
    }
    training.step(3e-3 * 0.5 * (1 + std::cos(3.14159 * update / updates)));
    mean = update == 0 ? training.loss() : 0.99 * mean + 0.01 * training.loss();
  }
  for (size_t i = 0; i < kLayers.size(); ++i) {
    weights.values[2 * i] = training.weights(kLayers[i].weight);
    weights.values[2 * i + 1] = training.weights(kLayers[i].bias);
  }
  std::printf("  fitted to %zu samples: %.3f m/s^2 off\n", wanted.size(), std::sqrt(mean));
}

// --- driving

struct Drive {
  std::vector<float> rows, wanted;  // observations, and the acceleration that the MPC asks for
  double acceleration_rmse = 0, speed_rmse = 0;
  int64_t collisions = 0;
};

// Worlds of a seed, driven by the network, or as the MPC asks if there is no network.
Drive drive(const char* scenarios, uint64_t seed, const Weights* weights) {
  sparkpilot_sim_options options;
  sparkpilot_sim_default_options(&options);
  options.worlds = kWorlds;
  options.seed = seed;
  options.scenarios = scenarios;
  options.planner = "mpc";
  options.longitudinal = 1;
  const std::unique_ptr<sparkpilot_sim_env, void (*)(sparkpilot_sim_env*)> env(sparkpilot_sim_make(&options),
                                                                               sparkpilot_sim_free);
  if (!env) throw std::runtime_error(sparkpilot_sim_error());
  const auto check = [](int32_t failed) {
    if (failed) throw std::runtime_error(sparkpilot_sim_error());
  };
  const auto width = static_cast<size_t>(columns()), target = static_cast<size_t>(column("target_acceleration"));
  std::vector<float> seen(kWorlds * width), actions(kWorlds * 2), terms(kWorlds * SPARKPILOT_SIM_REWARDS);
  std::vector<uint8_t> terminated(kWorlds), truncated(kWorlds);
  const sparkpilot_sim_buffers out{.observations = seen.data(),
                                   .rewards = nullptr,
                                   .terminated = terminated.data(),
                                   .truncated = truncated.data(),
                                   .ended = nullptr,
                                   .final_observations = nullptr,
                                   .terms = terms.data()};
  Session session(policy(weights ? *weights : Weights()), {.threads = 1, .dims = {{"b", kWorlds}}});
  const auto acceleration_error = static_cast<size_t>(term("acceleration_error")),
             speed_error = static_cast<size_t>(term("speed_error")), collision = static_cast<size_t>(term("collision"));
  Drive drive;
  check(sparkpilot_sim_reset(env.get(), nullptr, nullptr, &out));
  for (int action = 0; action < kActions; ++action) {
    std::ranges::copy(seen, session.input<float>("seen").begin());
    session.run();
    std::ranges::copy(session.output<float>("actions"), actions.begin());
    for (size_t i = 0; i < kWorlds; ++i) {
      const float wanted = seen[i * width + target];
      if (!weights) actions[i * 2 + 1] = wanted;
      drive.rows.insert(drive.rows.end(), &seen[i * width], &seen[i * width] + width);
      drive.wanted.push_back(wanted);
    }
    check(sparkpilot_sim_step(env.get(), actions.data(), &out));
    for (size_t i = 0; i < kWorlds; ++i) {
      const float* const of_world = &terms[i * SPARKPILOT_SIM_REWARDS];
      drive.acceleration_rmse += static_cast<double>(of_world[acceleration_error]) / (kWorlds * kActions);
      drive.speed_rmse += static_cast<double>(of_world[speed_error]) / (kWorlds * kActions);
      drive.collisions += of_world[collision] > 0;
    }
  }
  drive.acceleration_rmse = std::sqrt(drive.acceleration_rmse);
  drive.speed_rmse = std::sqrt(drive.speed_rmse);
  return drive;
}

int clone(const std::string& file, int rounds) {
  Weights weights;
  std::vector<float> rows, wanted;
  for (int round = 0; round < rounds; ++round) {
    const Drive seen = drive(kScenarios, 1000000 * static_cast<uint64_t>(round + 1), round == 0 ? nullptr : &weights);
    std::printf("round %d: %s drives: acceleration %.3f m/s^2, speed %.3f m/s off, %lld collisions\n", round,
                round == 0 ? "the MPC" : "the network", seen.acceleration_rmse, seen.speed_rmse,
                static_cast<long long>(seen.collisions));
    rows.insert(rows.end(), seen.rows.begin(), seen.rows.end());
    wanted.insert(wanted.end(), seen.wanted.begin(), seen.wanted.end());
    fit(weights, rows, wanted, kUpdates);
  }
  const Drive mpc = drive(kHeldOut, 1, nullptr), network = drive(kHeldOut, 1, &weights);
  const double acceleration = network.acceleration_rmse / mpc.acceleration_rmse,
               speed = network.speed_rmse / mpc.speed_rmse;
  std::printf("other scenarios:               MPC  network  ratio\n");
  std::printf("  acceleration RMSE m/s^2  %6.3f   %6.3f   %.3f\n", mpc.acceleration_rmse, network.acceleration_rmse,
              acceleration);
  std::printf("  speed RMSE m/s           %6.3f   %6.3f   %.3f\n", mpc.speed_rmse, network.speed_rmse, speed);
  std::printf("  collisions               %6lld   %6lld\n", static_cast<long long>(mpc.collisions),
              static_cast<long long>(network.collisions));
  save_onnx(policy(weights), file);
  return acceleration <= 1.2 && speed <= 1.2 && network.collisions <= mpc.collisions ? 0 : 1;
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? std::atoi(argv[2]) : sparkpilot::kRounds;
  if (argc > 3 || (argc > 1 && argv[1][0] == '-') || rounds < 1) {
    std::fprintf(stderr, "usage: clone_mpc [POLICY.onnx] [ROUNDS]\n");
    return 2;
  }
  try {
    return sparkpilot::clone(argc > 1 ? argv[1] : "policy.onnx", rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "clone_mpc: %s\n", error.what());
    return 2;
  }
}
