#include "sim/network_algorithm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/test_error.h"
#include "base/test_files.h"
#include "sim/test_worlds.h"
#include "sim/world_stepper.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::sim {
namespace {

int64_t columns() { return std::ssize(observed_numbers()); }
int64_t column(std::string_view name) {
  return std::ranges::find(observed_numbers(), name, &WorldNumber::name) - observed_numbers().begin();
}

class Network : public ::testing::Test {
 protected:
  // Writes a network whose outputs are made from the columns of the input.
  std::string write(const std::function<ValueId(Builder&, ValueId)>& make,
                    std::map<std::string, std::string> metadata = {}, bool open = true) {
    Graph graph;
    Builder b(graph);
    const ValueId seen = open ? b.open_input("seen", DType::f32, {{-1, "worlds"}, {columns()}})
                              : b.input("seen", DType::f32, {1, columns()});
    b.output(make(b, seen), "commands");
    graph.metadata = std::move(metadata);
    std::string file = folder.file("policy.onnx");
    save_onnx(graph, file);
    return file;
  }
  static ValueId one(Builder& b, ValueId seen, std::string_view name) {
    return b.add("Gather", {seen, b.ints({column(name)})}, {{"axis", int64_t{1}}});
  }
  static ValueId times(Builder& b, ValueId value, double factor) {
    return b.add("Mul", {value, b.scalar(DType::f32, factor)});
  }
  // -0.4 of the offset: torque or degrees.
  static ValueId back(Builder& b, ValueId seen) { return times(b, one(b, seen, "offset"), -0.4); }

  static std::vector<UserWorld> run(const NetworkAlgorithm& network, int64_t count, int steps = 301) {
    UserDrive drive;
    drive.options = {.steps = steps, .seed = 5};
    return network.run(count, varied, drive);
  }
  TempFolder folder;
};

// The same loop by hand, without a network.
template <class Command>
std::vector<WorldResult> by_hand(int64_t count, const StepperOptions& options, int held, const Command& command,
                                 int steps = 301) {
  WorldStepper worlds(count, options);
  worlds.reset(nullptr, varied);
  std::vector<float> seen(static_cast<size_t>(count * columns())), commands(static_cast<size_t>(count * 2));
  for (int step = 0; step < steps; step += held) {
    worlds.observe(seen.data());
    for (int64_t i = 0; i < count; ++i)
      command(&seen[static_cast<size_t>(i * columns())], &commands[static_cast<size_t>(i * 2)]);
    for (int64_t i = 0; i < count; ++i) {
      if (worlds.diverged(i)) commands[static_cast<size_t>(i * 2)] = commands[static_cast<size_t>(i * 2 + 1)] = 0;
    }
    worlds.step(commands.data(), std::min(held, steps - step));
  }
  std::vector<WorldResult> results;
  for (int64_t i = 0; i < count; ++i) results.push_back(worlds.result(i));
  return results;
}

void expect_results(const std::vector<UserWorld>& got, const std::vector<WorldResult>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].failed, "") << i;
    EXPECT_EQ(got[i].result, expected[i]) << i;
  }
}

TEST_F(Network, DrivesAsItsCommandsWould) {
  constexpr int64_t kWorlds = 300;  // two slices and a part of one
  const auto expected = by_hand(kWorlds, {.tyres = Tyres::linear, .seed = 5}, 5, [](const float* seen, float* command) {
    command[0] = std::clamp(-0.4f * seen[column("offset")], -1.0f, 1.0f);
  });
  for (const bool open : {true, false}) {
    const NetworkAlgorithm network(write(back, {}, open));
    EXPECT_TRUE(network.torque());
    EXPECT_FALSE(network.longitudinal());
    EXPECT_EQ(network.name(), "policy.onnx");
    EXPECT_EQ(network.hash().size(), 32U);
    for (const int threads : {1, 3}) {
      const ThreadScope scope(threads);
      expect_results(run(network, kWorlds), expected);
    }
    expect_results(run(network, 7), {expected.begin(), expected.begin() + 7});
  }
}

TEST_F(Network, SteersByAnglesAndDrivesAsItsMetadataSays) {
  const NetworkAlgorithm network(write(
      [](Builder& b, ValueId seen) {
        return b.add("Concat",
                     {times(b, one(b, seen, "offset"), -900), times(b, one(b, seen, "target_acceleration"), 0.5)},
                     {{"axis", int64_t{1}}});
      },
      {{"sparkpilot-sim/steering", "angle"}, {"sparkpilot-sim/steps_per_action", "7"}}));
  EXPECT_FALSE(network.torque());
  EXPECT_TRUE(network.longitudinal());
  EXPECT_EQ(network.steps_per_action(), 7);
  expect_results(run(network, 20),
                 by_hand(20, {.torque = false, .longitudinal = true, .tyres = Tyres::linear, .seed = 5}, 7,
                         [](const float* seen, float* command) {
                           command[0] = std::clamp(-900.0f * seen[column("offset")], -480.0f, 480.0f);
                           command[1] = std::clamp(0.5f * seen[column("target_acceleration")], -3.5f, 2.0f);
                         }));
}

TEST_F(Network, NamesTheWorldsInWhichItGivesNoNumber) {
  const NetworkAlgorithm bad(write([](Builder& b, ValueId seen) {
    // Not a number beyond 20 m/s.
    const ValueId slow = b.add("Sub", {b.scalar(DType::f32, 20), one(b, seen, "target_speed")});
    return b.add("Add", {back(b, seen), times(b, b.add("Sqrt", {slow}), 0)});
  }));
  const NetworkAlgorithm good(write(back));
  const auto worlds = run(bad, 100, 100), others = run(good, 100, 100);
  int failed = 0;
  for (size_t i = 0; i < worlds.size(); ++i) {
    if (worlds[i].failed.empty()) {
      EXPECT_EQ(worlds[i].result, others[i].result);
      continue;
    }
    ++failed;
    EXPECT_NE(worlds[i].failed.find("policy.onnx: update at 0.00 s gave a lateral command of"), std::string::npos)
        << worlds[i].failed;
    EXPECT_EQ(worlds[i].result, WorldResult());
  }
  EXPECT_GT(failed, 10);
  EXPECT_LT(failed, 90);
}

TEST_F(Network, ATraceIsOfTheWorldThatRuns) {
  const NetworkAlgorithm network(write(back));
  const auto all = run(network, 40);
  UserDrive drive;
  drive.options = {.steps = 301, .seed = 5};
  for (const int64_t i : {0, 17, 39}) {
    const auto [trace, failed] = network.trace(varied(i), drive);
    EXPECT_EQ(failed, "");
    EXPECT_EQ(trace.result, all[static_cast<size_t>(i)].result);
    EXPECT_EQ(trace.rows.size(), 61U);
  }
  const auto latency = network.latency(varied(0), drive);
  ASSERT_TRUE(latency);
  EXPECT_GT(latency->p50_us, 0);
  EXPECT_GE(latency->p99_us, latency->p50_us);
}

TEST_F(Network, StopsWhereItIsAsked) {
  const std::atomic<bool> stop = true;
  UserDrive drive;
  drive.options = {.steps = 301};
  drive.stop = &stop;
  EXPECT_TRUE(NetworkAlgorithm(write(back)).run(300, varied, drive).empty());
}

TEST_F(Network, WhatIsNoAlgorithmIsRefused) {
  const auto refused = [&](const auto& make, const std::string& word,
                           const std::map<std::string, std::string>& metadata = {}) {
    const std::string file = write(make, metadata);
    const std::string said = error_of([&] { NetworkAlgorithm{file}; });
    EXPECT_NE(said.find(file + ": "), std::string::npos) << said;
    EXPECT_NE(said.find(word), std::string::npos) << said;
  };
  refused(back, "expected torque or angle, got \"wheel\"", {{"sparkpilot-sim/steering", "wheel"}});
  refused(back, "expected 1 to 1000, got \"0\"", {{"sparkpilot-sim/steps_per_action", "0"}});
  refused(back, "expected 1 to 1000, got \"5x\"", {{"sparkpilot-sim/steps_per_action", "5x"}});
  refused([](Builder& b, ValueId seen) { return b.add("Relu", {seen}); },
          "output \"commands\": expected f32 [b, 1] or [b, 2], lateral command and acceleration, got f32 [1,23]");
  refused(
      [](Builder& b, ValueId seen) {
        return b.add("Cast", {back(b, seen)}, {{"to", int64_t{11}}});
      },
      "output \"commands\": expected f32");
  refused(
      [](Builder& b, ValueId seen) {
        return b.add("ReduceMean", {back(b, seen), b.ints({0})});
      },
      "expected a row for each world");
  refused(
      [](Builder& b, ValueId seen) {
        return b.add("Add", {back(b, seen), b.add("RandomNormal", {}, {{"shape", std::vector<int64_t>{1, 1}}})});
      },
      "draws random numbers");

  Graph graph;
  Builder b(graph);
  const ValueId seen = b.open_input("seen", DType::f32, {{-1, "worlds"}, {7}});
  b.output(b.add("ReduceSum", {seen, b.ints({1})}), "commands");
  const std::string file = folder.file("narrow.onnx");
  save_onnx(graph, file);
  EXPECT_NE(error_of([&] { NetworkAlgorithm{file}; }).find("input \"seen\": expected f32 [b, 23] with b open or 1"),
            std::string::npos);
  write_text(folder / "text.onnx", "no network");
  EXPECT_NE(error_of([&] { NetworkAlgorithm{folder.file("text.onnx")}; }).find("text.onnx"), std::string::npos);
  EXPECT_NE(error_of([&] { NetworkAlgorithm{folder.file("absent.onnx")}; }).find("absent.onnx"), std::string::npos);
}

TEST_F(Network, AChangedFileIsNoticed) {
  const std::string file = write(back);
  const NetworkAlgorithm network(file);
  network.check_unchanged();
  write([](Builder& b, ValueId seen) { return one(b, seen, "offset"); });
  EXPECT_NE(error_of([&] { network.check_unchanged(); }).find("was changed meanwhile"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::sim
