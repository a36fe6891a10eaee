// Tiles, parts and warps of kernels on the emulated GPU, chosen by times that the test plants (EMULATED_CUDA_TIMES).
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/test_files.h"
#include "gpu_sessions.h"
#include "hw/cpu.h"
#include "onnx/zoo.h"
#include "runtime/tuning_file.h"

namespace sparkpilot {
namespace gpu_tuner_test {

namespace fs = std::filesystem;

class GpuTuner : public GpuSession {
 protected:
  static void plant(const char* gpu, const char* times) {
    if (times) setenv("EMULATED_CUDA_TIMES", times, 1);
    else unsetenv("EMULATED_CUDA_TIMES");
    emulate(gpu);
  }
  SessionOptions options(Tune tune) {
    said_.clear();
    return {.device = "cuda",
            .threads = 1,
            .tuning_file = file(),
            .tune = tune,
            .say = [this](const std::string& line) { said_.push_back(line); },
            .profile = true};
  }
  std::string file() const { return folder_.file("tuning.json"); }
  // What stands in the file, by key; those of GPUs only.
  std::map<std::string, std::string> kept() const {
    std::map<std::string, std::string> out;
    const TuningFile whole(file(), cpu_features().model);
    for (const auto& [key, kernel] : whole.kernels()) {
      if (key.starts_with("NVIDIA")) out[key] = kernel;
    }
    return out;
  }
  static bool has_timed() { return driver_count("call cuEventRecordWithFlags") > 0; }

  TempFolder folder_;
  std::vector<std::string> said_;
};

// y = x weights, with that many rows; 40 of them are a product by tiles of 32x32 or, nearly as fast by the model,
// 64x64.
Graph product(int64_t rows, int64_t k = 64, int64_t n = 96) {
  Graph graph;
  Builder b(graph);
  Tensor weights(DType::f32, Shape{k, n});
  Random random(1);
  for (float& value : weights.data<float>()) value = static_cast<float>(random.uniform(-1, 1));
  graph.add_output(b.add("MatMul", {b.input("x", DType::f32, {rows, k}), b.constant(weights)}), "y");
  return graph;
}

// What a session chose and computed. It is gone afterwards, so the driver can become another.
struct Outcome {
  KernelDecision choice;
  NodeProfile node;
  std::vector<float> y;
  Session::LoadTimes times;
};
Outcome run_once(Graph graph, const SessionOptions& options) {
  Session session(std::move(graph), options);
  const std::span<float> x = session.input<float>("x");
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  session.run();
  const auto y = session.output<float>("y");
  Outcome out{.choice = {}, .node = {}, .y = {y.begin(), y.end()}, .times = session.load_times()};
  if (const auto choices = session.choices(); !choices.empty()) out.choice = choices[0];
  if (const auto profile = session.profile(); !profile.nodes.empty()) out.node = profile.nodes.back();
  return out;
}

constexpr const char* kWideIsFast = "gemm_f32_64x64=5,gemm_f32_32x32=20";

TEST_F(GpuTuner, TakesWhatIsFastestAndKeepsIt) {
  NEEDS_IMAGES();
  for (const char* gpu : {"gb10", "rtx4090"}) {
    fs::remove(file());
    plant(gpu, kWideIsFast);
    const Outcome rules = run_once(product(40), options(Tune::off));
    EXPECT_EQ(rules.choice.by, ChosenBy::rules);
    EXPECT_EQ(rules.choice.kernel, "mma 32x32");
    EXPECT_EQ(rules.node.launches.at(0).kernel, "gemm_f32_32x32");
    EXPECT_EQ(rules.times.tuning_ms, 0);

    plant(gpu, kWideIsFast);
    const Outcome timed = run_once(product(40), options(Tune::automatic));
    EXPECT_EQ(timed.choice.kernel, "mma 64x64");
    EXPECT_EQ(timed.choice.by, ChosenBy::measured);
    EXPECT_EQ(timed.choice.node, rules.choice.node);
    ASSERT_EQ(timed.node.launches.size(), 1u);
    EXPECT_EQ(timed.node.launches[0].kernel, "gemm_f32_64x64");
    EXPECT_EQ(timed.node.kernel, timed.choice.kernel);
    EXPECT_EQ(timed.node.chosen_by, ChosenBy::measured);
    ASSERT_EQ(said_.size(), 1u);
    EXPECT_TRUE(said_[0].starts_with("timing the kernels of 1 kind of nodes on NVIDIA ")) << said_[0];
    EXPECT_NE(said_[0].find(", for 1.0 s at most"), std::string::npos) << said_[0];
    EXPECT_GT(timed.times.tuning_ms, 0);
    for (size_t i = 0; i < timed.y.size(); ++i) ASSERT_NEAR(timed.y[i], rules.y[i], 1e-4f);
    ASSERT_EQ(kept().size(), 1u);

    // Another process on the same GPU times nothing and computes the same bits.
    plant(gpu, nullptr);
    setenv("EMULATED_CUDA_TIMES", "gemm_f32_64x64=50", 1);
    SessionOptions again = options(Tune::automatic);
    again.profile = false;
    const Outcome known = run_once(product(40), again);
    EXPECT_EQ(known.choice.kernel, timed.choice.kernel);
    EXPECT_EQ(known.choice.by, ChosenBy::measured);
    EXPECT_FALSE(has_timed());
    EXPECT_EQ(said_, std::vector<std::string>());
    EXPECT_EQ(known.y, timed.y);
    // Its choices are all that a session needs.
    SessionOptions given = options(Tune::off);
    given.choices = {timed.choice};
    const Outcome restored = run_once(product(40), given);
    EXPECT_EQ(restored.choice.kernel, timed.choice.kernel);
    EXPECT_EQ(restored.choice.by, ChosenBy::restored);
    EXPECT_EQ(restored.y, timed.y);
    // Tune::off, and requests for kernels: by the rules.
    EXPECT_EQ(run_once(product(40), options(Tune::off)).y, rules.y);
    SessionOptions asked = options(Tune::automatic);
    asked.kernels = "no-onednn";
    EXPECT_EQ(run_once(product(40), asked).choice.kernel, rules.choice.kernel);
  }
}

TEST_F(GpuTuner, TheSecondLaunchCounts) {
  NEEDS_IMAGES();
  const std::string halves = "gemm_f32_32x32:2x3x1=12,gemm_f32_32x32:2x3x2=5,gemm_sum_f32=";
  for (const auto& [sum, kernel] : {std::pair("9", "mma 32x32"), {"1", "mma 32x32 in 2 parts"}}) {
    plant("gb10", (halves + sum).c_str());
    EXPECT_EQ(Session(product(40, 128), options(Tune::full)).choices().at(0).kernel, kernel) << sum;
  }
}

TEST_F(GpuTuner, TheModelsChoiceStaysWithinATwentieth) {
  NEEDS_IMAGES();
  const std::string rules = Session(product(1, 1024), options(Tune::off)).choices().at(0).kernel;
  const std::string warps = rules.substr(rules.find(' ') + 1);
  // One row: a block has 4 warps, of which this many share a row.
  const auto grid = [](int share) { return "gemv_f32:" + std::to_string(96 * share / 4) + "x1x1="; };
  const int taken = std::atoi(warps.c_str());
  ASSERT_GT(taken, 1) << rules;
  for (const auto& [us, wins] : {std::pair("9.7", false), {"9.2", true}}) {
    fs::remove(file());
    plant("gb10", (grid(taken / 2) + us).c_str());
    Session session(product(1, 1024), options(Tune::automatic));
    EXPECT_EQ(session.choices().at(0).kernel != rules, wins) << us;
    EXPECT_EQ(session.choices()[0].by, ChosenBy::measured);
  }
}

TEST_F(GpuTuner, TimesNothingWhereItWasNotAskedTo) {
  NEEDS_IMAGES();
  plant("gb10", kWideIsFast);
  SessionOptions nowhere = options(Tune::automatic);
  for (const std::string& path : {std::string(), std::string("/dev/null/tuning.json"), folder_.path().string()}) {
    nowhere.tuning_file = path;
    EXPECT_EQ(Session(product(40), nowhere).choices().at(0).by, ChosenBy::rules) << path;
  }
  EXPECT_EQ(Session(product(40), options(Tune::off)).choices().at(0).by, ChosenBy::rules);
  EXPECT_FALSE(has_timed());
  EXPECT_FALSE(fs::exists(file()));
  // `full` times without a file, too.
  nowhere.tune = Tune::full;
  nowhere.tuning_file = "";
  EXPECT_EQ(Session(product(40), nowhere).choices().at(0).kernel, "mma 64x64");
}

TEST_F(GpuTuner, WhatAnotherGpuDriverOrProgramFoundIsIgnored) {
  NEEDS_IMAGES();
  plant("gb10", kWideIsFast);
  const KernelDecision choice = run_once(product(40), options(Tune::automatic)).choice;
  ASSERT_EQ(kept().size(), 1u);
  const std::string text = read_text(file()), key = kept().begin()->first, holds_for = key.substr(0, key.find(": "));
  const std::string code = holds_for.substr(holds_for.rfind(", ") + 2);
  ASSERT_EQ(code.size(), 16u) << key;
  for (const auto& [from, to] : {std::pair<std::string, std::string>("NVIDIA GB10, ", "NVIDIA GB11, "),
                                 {"CUDA 13.0", "CUDA 13.1"},
                                 {", 12.1,", ", 12.0,"},
                                 {code, std::string(16, '0')}}) {
    std::string other = text;
    const size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_text(file(), other.replace(at, from.size(), to));
    plant("gb10", "gemm_f32_64x64=20");
    EXPECT_EQ(run_once(product(40), options(Tune::automatic)).choice.kernel, "mma 32x32") << from;
    EXPECT_EQ(kept().size(), 2u);
  }
  write_text(file(), text);
  plant("h100", kWideIsFast);
  run_once(product(40), options(Tune::automatic));
  EXPECT_EQ(kept().size(), 2u);
  // A choice of one GPU says nothing about another.
  SessionOptions given = options(Tune::off);
  given.choices = {choice};
  EXPECT_EQ(run_once(product(40), given).choice.by, ChosenBy::rules);
}

TEST_F(GpuTuner, PoisonedFilesAndStaleChoicesLeaveTheModelsChoice) {
  NEEDS_IMAGES();
  plant("gb10", kWideIsFast);
  const Outcome rules = run_once(product(40), options(Tune::off));
  run_once(product(40), options(Tune::automatic));
  ASSERT_EQ(kept().size(), 1u);
  const std::string key = kept().begin()->first;
  for (const std::string name :
       {"mma 1x1", "mma 64x64 in 99 parts", "mma 64x64 in 0 parts", "mma 128x64", "tiles 64x64", "64x64", " ", "mma  ",
        "mma 64x64\n", "simd", "onednn", "reference", "4 warps", "mma 4 warps"}) {
    ASSERT_TRUE(TuningFile(file(), cpu_features().model).keep_kernels({{key, name}}));
    const Outcome poisoned = run_once(product(40), options(Tune::automatic));
    EXPECT_EQ(poisoned.choice.kernel, rules.choice.kernel) << name;
    EXPECT_EQ(poisoned.choice.by, ChosenBy::rules) << name;
    EXPECT_EQ(poisoned.y, rules.y) << name;
    SessionOptions given = options(Tune::off);
    given.choices = {{.node = rules.choice.node, .kernel = name}};
    const Outcome stale = run_once(product(40), given);
    EXPECT_EQ(stale.choice.kernel, rules.choice.kernel) << name;
    EXPECT_FALSE(stale.choice.note.empty()) << name;
    EXPECT_EQ(stale.y, rules.y) << name;
  }
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string(2 << 20, ' ')}) {
    write_text(file(), text);
    EXPECT_EQ(run_once(product(40), options(Tune::automatic)).choice.by, ChosenBy::measured);
  }
}

// A kernel that does not compute what the model's choice does is not taken, however fast it is.
TEST_F(GpuTuner, AWrongVariantIsNotTaken) {
  NEEDS_IMAGES();
  for (const bool wrong : {true, false}) {
    fs::remove(file());
    if (wrong) setenv("EMULATED_CUDA_WRONG", "gemm_f32_64x64", 1);
    else unsetenv("EMULATED_CUDA_WRONG");
    plant("gb10", kWideIsFast);
    const std::string taken = Session(product(40), options(Tune::automatic)).choices().at(0).kernel;
    EXPECT_EQ(taken == "mma 64x64", !wrong) << taken;
  }
}

// Weights that a run of the network finds in memory are found there when kernels are timed.
TEST_F(GpuTuner, WeightsBeyondTheCacheAreCold) {
  NEEDS_IMAGES();
  setenv("EMULATED_CUDA_IDLE", "1", 1);
  const int l2 = 24 << 20;
  for (const bool large : {false, true}) {
    fs::remove(file());
    plant("gb10", "gemv_f32=10");
    const Session session(product(1, 2560, large ? 2600 : 96), options(Tune::full));
    EXPECT_TRUE(has_timed());
    EXPECT_EQ(driver_count("bytes cuMemsetD8Async") > 2 * l2, large);
  }
}

TEST_F(GpuTuner, EveryKindOfNodeOfANetworkIsChosen) {
  NEEDS_IMAGES();
  setenv("EMULATED_CUDA_IDLE", "1", 1);
  for (const char* gpu : {"gb10", "h100"}) {
    fs::remove(file());
    plant(gpu, "gemv_f32=10");
    SessionOptions full = options(Tune::full);
    full.passes.precision = Precision::fp16;
    const Session session(build_zoo_model("tiny_driving_vision"), full);
    EXPECT_GT(session.choices().size(), 10u);
    for (const KernelDecision& choice : session.choices()) {
      EXPECT_EQ(choice.by, ChosenBy::measured) << choice.node << ": " << choice.kernel;
      EXPECT_NE(choice.node.find(" on NVIDIA "), std::string::npos) << choice.node;
    }
    EXPECT_EQ(kept().size(), session.choices().size());
  }
}

// Each call fails once, or for good: a right result or an error of kind device, and a file that is whole.
TEST_F(GpuTuner, FaultsOfTheDriver) {
  NEEDS_IMAGES();
  const std::vector<float> expected = run_once(product(40), {.device = "cpu", .threads = 1}).y;
  int ended_early = 0, failed = 0;
  for (const char* gpu : {"gb10", "rtx4090"}) {
    for (const std::string name : {"cuModuleLoadData",        "cuModuleGetFunction",    "cuMemAlloc_v2",
                                   "cuMemAllocManaged",       "cuMemHostAlloc",         "cuMemcpyHtoDAsync_v2",
                                   "cuMemcpyDtoHAsync_v2",    "cuMemsetD8Async",        "cuStreamCreate",
                                   "cuEventCreate",           "cuEventRecordWithFlags", "cuEventElapsedTime",
                                   "cuStreamBeginCapture_v2", "cuStreamEndCapture",     "cuGraphInstantiateWithFlags",
                                   "cuGraphLaunch",           "cuStreamSynchronize",    "cuLaunchKernelEx",
                                   "cuEventDestroy_v2",       "cuGraphExecDestroy",     "cuMemFree_v2"}) {
      for (const char* code : {"2", "700"}) {
        for (const int nth : {1, 3, 9}) {
          fs::remove(file());
          setenv("EMULATED_CUDA_TIMES", kWideIsFast, 1);
          emulate(gpu, (name + ":" + std::to_string(nth) + ":" + code).c_str());
          try {
            const std::vector<float> y = run_once(product(40), options(Tune::automatic)).y;
            for (const std::string& line : said_) ended_early += line.starts_with("timing kernels ended early: ");
            for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4f);
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::device) << error.what();
            ++failed;
          }
          if (!fs::exists(file())) continue;
          EXPECT_TRUE(nlohmann::json::accept(read_text(file())));
          EXPECT_EQ(TuningFile(file(), cpu_features().model).ignored(), "");
          for (const auto& [key, kernel] : kept()) EXPECT_EQ(kernel, "mma 64x64");
        }
      }
    }
  }
  EXPECT_GT(ended_early, 50);
  EXPECT_GT(failed, 50);
  unsetenv("EMULATED_CUDA_FAIL");
  emulate("gb10");
}

// The driver compiles the PTX in the program for a GPU that it has no machine code for.
TEST_F(GpuTuner, CompilingIsSaidAndTimedApart) {
  NEEDS_IMAGES();
  for (const char* gpu : {"b200", "gb10"}) {
    const bool ptx = std::string(gpu) == "b200";
    for (const char* device : {"cuda", "auto"}) {
      plant(gpu, nullptr);
      SessionOptions as = options(Tune::off);
      as.device = device;
      const Session session(product(40), as);
      EXPECT_EQ(session.device(), "cuda:0");
      int lines = 0;
      for (const std::string& line : said_) {
        lines += line.starts_with("NVIDIA B200: the driver compiled kernels from PTX in ");
        if (line.find("PTX") != std::string::npos) {
          EXPECT_NE(line.find("no machine code for compute capability 10.0"), std::string::npos) << line;
        }
      }
      EXPECT_EQ(lines > 0, ptx);
      const Session::LoadTimes times = session.load_times();
      EXPECT_EQ(times.ptx_ms > 0, ptx);
      EXPECT_EQ(times.tuning_ms, 0);
      EXPECT_GT(times.load_ms, 0);
    }
  }
}

// There are grids that CUDA does not take: such products run on the CPU.
TEST_F(GpuTuner, MoreBatchesThanAGridHas) {
  NEEDS_IMAGES();
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {70000, 1, 2}), y = b.input("w", DType::f32, {70000, 2, 1});
  graph.add_output(b.add("MatMul", {x, y}), "y");
  Session session(std::move(graph), {.device = "cuda", .threads = 1});
  EXPECT_EQ(session.nodes_on_cpu(),
            std::vector<std::string>{"MatMul (more batches or columns than CUDA's grids have)"});
  std::ranges::fill(session.input<float>("w"), 1.0f);
  std::ranges::fill(session.input<float>("x"), 2.0f);
  session.run();
  EXPECT_EQ(session.output<float>("y")[69999], 4.0f);
}

}  // namespace gpu_tuner_test
}  // namespace sparkpilot
