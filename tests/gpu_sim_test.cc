// Simulated worlds on the emulated GPU: the bits of the processor's single worlds.
#include <cstdlib>
#include <cstring>
#include <deque>

#include "base/parallel.h"
#include "base/test_files.h"
#include "cli_fixture.h"
#include "gpu_main.h"
#include "ops/cuda/images.h"
#include "sim/batch.h"
#include "sim/test_challenge.h"
#include "sim/test_worlds.h"
#include "sim/tinyphysics.h"
#include "sim/world_stepper_gpu.h"
#include "sparkpilot/onnx.h"
#include "tensor/gpu.h"

namespace sparkpilot::sim {
namespace gpu_sim_test {

class GpuSim : public GpuTest {
 protected:
  void SetUp() override {
    NEEDS_IMAGES();
    GpuTest::SetUp();
  }
};

std::vector<WorldResult> run(int64_t count, BatchOptions options, bool on_gpu) {
  if (on_gpu) options.gpu = GpuDevice::open(0);
  else options.number = Number::single;
  return run_worlds(count, varied, options);
}

TEST_F(GpuSim, GivesTheBitsOfTheProcessor) {
  for (const char* name : {"gb10", "h100"}) {  // one memory for both, and two
    emulate(name);
    for (const Lateral lateral : kGpuControls) {
      for (const Tyres tyres : kTyres) {
        const BatchOptions options{.lateral = lateral, .tyres = tyres, .steps = 450, .warm_up = 20, .seed = 7};
        const auto expected = run(75, options, false), got = run(75, options, true);
        EXPECT_EQ(got, expected) << name << " " << static_cast<int>(lateral) << " " << static_cast<int>(tyres);
      }
    }
  }
  EXPECT_EQ(driver_count("kernel worlds_torque_saturating"), 1);
}

TEST_F(GpuSim, DoesNotDependOnTheOrderOfThreads) {
  const BatchOptions options{.steps = 30};
  const auto expected = run(200, options, true);
  setenv("EMULATED_CUDA_SEED", "5", 1);
  emulate("gb10");
  EXPECT_EQ(run(200, options, true), expected);
}

TEST_F(GpuSim, TakesMoreWorldsThanItComputesTogether) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{65536}, int64_t{131072 + 33}}) {
    for (const char* name : {"gb10", "h100"}) {
      emulate(name);
      const BatchOptions options{.steps = 2};
      EXPECT_EQ(run(count, options, true), run(count, options, false)) << count << " on " << name;
    }
  }
}

TEST_F(GpuSim, AnErrorOfTheDriverOrOfAWorldLeavesNothing) {
  for (const std::string fault : {"cuLaunchKernelEx:1:1", "cuMemcpyDtoHAsync_v2:1:1", "cuMemAlloc_v2:2:2",
                                  "cuStreamSynchronize:1:700", "cuMemHostAlloc:2:2"}) {
    emulate("h100", fault.c_str());
    const std::string error = error_of([] { run(70, {.steps = 1}, true); });
    const std::string what = fault.starts_with("cuLaunch") ? "launch of worlds_torque_linear" : fault.substr(0, 8);
    EXPECT_NE(error.find(what), std::string::npos) << fault << ": " << error;
    // After an error that ends a context there is nothing to give back.
    const char* const held = fault.ends_with(":700") ? "held contexts 1" : kNothingHeld;
    EXPECT_EQ(held_by_driver().substr(0, std::string(held).size()), held) << fault;
  }
  emulate_plainly();
  BatchOptions options{.steps = 1, .gpu = GpuDevice::open(0)};
  const auto broken = [](int64_t i) -> WorldSpec {
    if (i == 70000) throw std::out_of_range("no such world");
    return {};
  };
  EXPECT_THROW(run_worlds(80000, broken, options), std::out_of_range);
  const auto wrong = [](int64_t i) {
    WorldSpec world;
    if (i == 5) world.course.speed = -1;
    return world;
  };
  EXPECT_THROW(run_worlds(10, wrong, options), Error);
  EXPECT_EQ(run_worlds(10, varied, options), run(10, options, true));
}

TEST_F(GpuSim, RefusesThePlannerMpc) {
  const auto spec = [](int64_t) {
    WorldSpec world;
    world.following.planner = Planner::mpc;
    return world;
  };
  try {
    run_worlds(3, spec, {.steps = 1, .gpu = GpuDevice::open(0)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_NE(std::string(error.what()).find("the planner mpc runs on the CPU only"), std::string::npos);
  }
}

constexpr const char* kPlant = SPARKPILOT_SOURCE_DIR "/tests/reference/tinyphysics/plant.onnx";

// Routes of 240 rows in a learned plant of a few nodes.
struct Rollouts {
  explicit Rollouts(uint32_t count) {
    for (uint32_t k = 1; k <= count; ++k) {
      routes.push_back(parse_challenge_route(integer_route(k, 240), "a route"));
      tasks.push_back({&routes.back(), k, "a route"});
    }
  }
  std::vector<TinyPhysicsRollout> run(const std::string& device, int threads,
                                      const ChallengeControllerMaker& controller = challenge_controller("pid")) const {
    TinyPhysicsOptions options{.batch = 4, .threads = threads, .device = device};
    return TinyPhysics(load_onnx(kPlant), "plant", options).run(tasks, controller);
  }
  std::deque<ChallengeRoute> routes;
  std::vector<TinyPhysicsTask> tasks;
};

TEST_F(GpuSim, ThreadsShareTheRoutesOfALearnedPlant) {
  const Rollouts all(11);
  const auto on_cpu = all.run("cpu", 1);
  for (const char* name : {"gb10", "h100"}) {
    emulate(name);
    const auto one = all.run("cuda", 1), three = all.run("cuda", 3), nine = all.run("cuda", 9);
    int differ_from_cpu = 0;
    for (size_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(one[i].tokens.size(), 140u);
      EXPECT_EQ(three[i].tokens, one[i].tokens) << name << " " << i;
      EXPECT_EQ(nine[i].tokens, one[i].tokens) << name << " " << i;
      EXPECT_EQ(three[i].costs->total, one[i].costs->total) << name << " " << i;
      differ_from_cpu += one[i].tokens != on_cpu[i].tokens;
    }
    EXPECT_LE(differ_from_cpu, 1) << name;  // by a draw at the edge of its bin
  }
  for (const char* device : {"cuda", "auto"}) {
    const TinyPhysics usual(load_onnx(kPlant), "plant", {.device = device});
    EXPECT_EQ(usual.device(), "cuda:0") << device;
    EXPECT_EQ(usual.batch(), 1024) << device;
    EXPECT_EQ(TinyPhysics(load_onnx(kPlant), "plant", {.batch_on_gpu = 32, .device = device}).batch(), 32);
  }
}

// Is lost with the route whose target at row 150 is `with`, and says nothing of the others.
class LostWith : public ChallengeController {
 public:
  explicit LostWith(double with) : with_(with) {}
  void reset(size_t routes) override { row_ = 20, seen_ = routes; }
  void update(std::span<const ChallengeInput> inputs, std::span<double> actions) override {
    EXPECT_EQ(inputs.size(), seen_);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (row_ == 150 && inputs[i].target == with_) throw ControllerLost("was lost");
      actions[i] = inputs[i].target * 0.1;
    }
    ++row_;
  }

 private:
  double with_;
  size_t seen_ = 0;
  int row_ = 0;
};

TEST_F(GpuSim, OnlyTheRouteWithWhichAControllerIsLostHasFailed) {
  const Rollouts all(7);
  const auto run = [&](double with) { return all.run("cuda", 3, [with] { return std::make_unique<LostWith>(with); }); };
  const auto whole = run(1e9), part = run(all.routes[5].target[150]);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(part[i].failed, i == 5 ? "was lost" : "");
    if (i != 5) {
      EXPECT_EQ(part[i].tokens, whole[i].tokens) << i;
    }
  }
}

// Worlds at times of their own, on the GPU and on the processor by turns: what a caller gets is the same to the bit.
class SteppedPair {
 public:
  SteppedPair(int64_t count, StepperOptions options)
      : count_(count),
        cpu_(count, with(options, {})),
        gpu_(count, with(options, worlds_on_gpu(GpuDevice::open(0)))),
        random_(3) {}
  void reset(const std::vector<uint8_t>* mask) {
    for (WorldStepper* each : {&cpu_, &gpu_}) each->reset(mask ? mask->data() : nullptr, varied);
    std::vector<float> got(observed()), expected(observed());
    cpu_.observe(expected.data());
    gpu_.observe(got.data());
    EXPECT_TRUE(same(got, expected)) << "after a reset";
  }
  void step(int steps) {
    std::vector<float> commands(static_cast<size_t>(count_) * 2);
    const double most = cpu_.options().torque ? 1 : 90;
    for (size_t i = 0; i < commands.size(); ++i)
      commands[i] = static_cast<float>(i % 2 ? random_.uniform(-4, 3) : most * random_.uniform(-1, 1));
    const size_t costs = static_cast<size_t>(count_) * step_costs().size();
    std::vector<float> got(observed()), expected(observed()), got_costs(costs), expected_costs(costs);
    cpu_.step(commands.data(), steps, expected.data(), expected_costs.data());
    gpu_.step(commands.data(), steps, got.data(), got_costs.data());
    EXPECT_TRUE(same(got, expected)) << steps << " steps";
    EXPECT_TRUE(same(got_costs, expected_costs)) << steps << " steps";
  }
  void compare() {
    for (int64_t i = 0; i < count_; ++i) {
      EXPECT_EQ(gpu_.steps(i), cpu_.steps(i));
      EXPECT_EQ(gpu_.diverged(i), cpu_.diverged(i));
      EXPECT_EQ(gpu_.collided(i), cpu_.collided(i));
      EXPECT_EQ(gpu_.result(i), cpu_.result(i)) << i;
    }
    const auto got = gpu_.trace_row(count_ / 2),
               expected = cpu_.trace_row(count_ / 2);  // NaN where there is no car ahead
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), sizeof(got)), 0);
  }

 private:
  static StepperOptions with(StepperOptions options, StepperPlace place) {
    options.number = Number::single;
    options.elsewhere = std::move(place);
    return options;
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  size_t observed() const { return static_cast<size_t>(count_) * observed_numbers().size(); }

  int64_t count_;
  WorldStepper cpu_, gpu_;
  Random random_;
};

TEST_F(GpuSim, WorldsSteppedFromOutsideGiveTheBitsOfTheProcessor) {
  constexpr int64_t kCount = 75;
  std::vector<uint8_t> every_third(kCount), last(kCount);
  for (size_t i = 0; i < every_third.size(); ++i) every_third[i] = i % 3 == 1;
  last.back() = 1;
  for (const char* name : {"gb10", "h100"}) {
    emulate(name);
    for (const bool torque : {true, false}) {
      for (const Tyres tyres : kTyres) {
        SteppedPair pair(kCount, {.torque = torque, .longitudinal = tyres == Tyres::linear, .tyres = tyres, .seed = 9});
        pair.reset(nullptr);
        for (const int steps : {5, 1, 3, 12, 4}) pair.step(steps);
        pair.reset(&every_third);
        for (const int steps : {7, 23, 1, 100}) pair.step(steps);
        pair.compare();
        pair.reset(&last);
        for (int i = 0; i < 20; ++i) pair.step(5);
        pair.compare();
      }
    }
  }
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "nothing was refused";
}

TEST_F(GpuSim, SteppedWorldsRefuseWhatTheProcessorDoes) {
  emulate_plainly();
  WorldStepper worlds(40, {.elsewhere = worlds_on_gpu(GpuDevice::open(0))});
  std::vector<float> commands(80, 0.1f);
  EXPECT_NE(refusal_of([&] { worlds.step(commands.data(), 5); }).find("world 0 was never begun"), std::string::npos);
  worlds.reset(nullptr, varied);
  worlds.step(commands.data(), 5);
  std::vector<float> before(40 * observed_numbers().size()), after = before;
  worlds.observe(before.data());
  commands[6] = NAN;
  EXPECT_NE(refusal_of([&] { worlds.step(commands.data(), 5); }).find("command of world 3 is nan"), std::string::npos);
  const auto broken = [](int64_t i) {
    WorldSpec world = varied(i);
    if (i == 39) world.following.planner = Planner::mpc;
    return world;
  };
  EXPECT_NE(refusal_of([&] { worlds.reset(nullptr, broken); }).find("the planner mpc runs on the CPU only"),
            std::string::npos);
  worlds.observe(after.data());
  EXPECT_EQ(after, before);
  EXPECT_EQ(worlds.steps(5), 5);
}

// What a failed call left on the GPU is unknown, so nothing goes on.
TEST_F(GpuSim, SteppedWorldsEndWithAFailureOfTheGpu) {
  for (const char* fault : {"cuLaunchKernelEx:4:1", "cuLaunchKernelEx:5:1", "cuMemcpyDtoHAsync_v2:1:1"}) {
    emulate("h100", fault);
    WorldStepper worlds(40, {.elsewhere = worlds_on_gpu(GpuDevice::open(0))});
    worlds.reset(nullptr, varied);  // three launches
    const std::vector<float> commands(80, 0.1f);
    EXPECT_FALSE(error_of([&] { worlds.step(commands.data(), 10); }).empty()) << fault;
    EXPECT_EQ(worlds.steps(3), 0);
    const std::string after = "the GPU failed in an earlier call";
    EXPECT_NE(error_of([&] { worlds.step(commands.data(), 10); }).find(after), std::string::npos) << fault;
    EXPECT_NE(error_of([&] { worlds.reset(nullptr, varied); }).find(after), std::string::npos) << fault;
  }
}

// The program, as a user calls it.
class GpuSimProgram : public GpuSim {
 protected:
  ProgramResult run(const std::string& flags, const std::string& environment = {}) {
    return run_program("sim run --scenarios curve_firm,stop_and_go_jam --variants 3 --threads 1 " + flags, environment);
  }
  json parsed(const std::string& flags, const std::string& environment = {}) {
    const ProgramResult result = run("--json " + flags, environment);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  std::string out(const char* name) const { return "--quiet --out '" + folder.file(name) + "' "; }
  std::string rows(const char* name) const { return read_text(folder.file(name) + "/results.csv"); }
  TempFolder folder;
};

TEST_F(GpuSimProgram, RunsScenariosOnTheGpuThatIsNamed) {
  const json gpu = parsed("--device cuda " + out("gpu"));
  EXPECT_EQ(gpu["device"], "cuda:0 (NVIDIA GB10)");
  EXPECT_EQ(gpu["instruction_set"], "CUDA");
  EXPECT_EQ(json::parse(read_text(folder.file("gpu") + "/run.json"))["device"], gpu["device"]);
  const json cpu = parsed("--device cpu " + out("cpu"));
  EXPECT_EQ(cpu["device"], "cpu");
  // A processor without fused multiply-adds rounds otherwise.
  const bool fused = cpu["instruction_set"].get<std::string>().starts_with("AVX");
  EXPECT_TRUE(!fused || rows("gpu") == rows("cpu"));
  // What one began the other does not continue.
  EXPECT_EQ(run("--device cpu --resume " + out("gpu")).code, 2);
  const ProgramResult text = run("--device cuda:0");
  EXPECT_NE(text.out.find("a second on cuda:0 (NVIDIA GB10)"), std::string::npos) << text.out;
}

TEST_F(GpuSimProgram, AutoTakesAGpuThatComputesAsTheCpuDoes) {
  EXPECT_EQ(parsed("--device auto")["device"], "cuda:0 (NVIDIA GB10)");
  EXPECT_EQ(parsed("--device auto", "EMULATED_GPU=none")["device"], "cpu");
  const auto refused = [&](const std::string& flags, const std::string& environment, const std::string& why) {
    const ProgramResult result = run("--device auto " + flags, environment);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find(why + "; the worlds run on the CPU"), std::string::npos) << result.err;
    EXPECT_NE(result.out.find("a second on 1 thread ("), std::string::npos) << result.out;
  };
  refused("", "EMULATED_CUDA_WRONG=worlds_torque_saturating", "self-check: 6 of 6 worlds differ from the CPU's");
  refused("", "EMULATED_CUDA_FAIL=cuLaunchKernelEx:1:1", "");
  refused("--planner mpc", "",
          "the planner mpc runs on the CPU only: its solver's numbers do not fit into the registers "
          "of a GPU's thread");
}

TEST_F(GpuSimProgram, RefusesWhatAGpuCannotDo) {
  const ProgramResult mpc = run("--device cuda --planner mpc");
  EXPECT_EQ(mpc.code, 2);
  EXPECT_NE(mpc.err.find("the planner mpc runs on the CPU only"), std::string::npos) << mpc.err;
  const ProgramResult mppi = run("--device cuda --algorithm lateral_mppi");
  EXPECT_EQ(mppi.code, 2);
  EXPECT_NE(mppi.err.find("lateral_mppi runs on the CPU only"), std::string::npos) << mppi.err;
  EXPECT_EQ(parsed("--device auto --algorithm lateral_mppi")["device"], "cpu");
  write_text(folder.file("own.py"), "def reset(*a): pass\ndef update(world, seen, out): out.lateral = 0\n");
  const std::string own = "--step-timeout 60 --algorithm '" + folder.file("own.py") + "' --device ";
  const ProgramResult user = run(own + "cuda");
  EXPECT_EQ(user.code, 2);
  EXPECT_NE(user.err.find("own.py: worlds that a user's algorithm drives run on the CPU only"), std::string::npos)
      << user.err;
  EXPECT_EQ(parsed(own + "auto")["device"], "cpu");
  const ProgramResult none = run("--device cuda", "EMULATED_GPU=none");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("GPU"), std::string::npos) << none.err;
}

TEST_F(GpuSimProgram, Tunes) {
  const ProgramResult result = run_program(
      "sim tune --quiet --json --scenarios curve_firm --variants 2 --tune kp=0.5:2 --trials 3 --device cuda --threads "
      "1");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["held_out"]["a"]["instruction_set"], "CUDA");
}

}  // namespace gpu_sim_test
}  // namespace sparkpilot::sim
