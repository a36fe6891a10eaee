// Session::run makes no allocations of our own: operator new is replaced and counted, except for calls from another
// library's code (oneDNN, OpenMP). And parameters are in memory only once: tensors' memory is counted where it is
// allocated.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/parallel.h"
#include "base/test_files.h"
#include "onnx/zoo.h"
#include "runtime/session.h"
#include "sim/learning_env.h"
#include "train/program.h"
#include "train/random_samples.h"
#include "train/student.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

bool from_this_program(void* caller) {
  Dl_info there{}, here{};
  static int anchor = 0;
  if (!dladdr(caller, &there) || !dladdr(&anchor, &here)) return true;
  return there.dli_fbase == here.dli_fbase;
}

void* allocate(std::size_t bytes, void* caller) {
  if (counting.load(std::memory_order_relaxed)) {
    counting = false;  // dladdr may allocate
    if (from_this_program(caller)) ++allocations;
    counting = true;
  }
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

// The present and the largest memory of tensors of at least a megabyte: requested bytes, without the allocator's
// overhead.
struct Held {
  std::atomic<void*> memory{nullptr};
  std::atomic<int64_t> bytes{0};
};
std::array<Held, 256> held;
std::atomic<int64_t> in_use{0}, most_in_use{0};

}  // namespace

extern "C" {
void __libc_free(void* memory) noexcept;

// The functions with which tensors allocate and free memory.
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  void* memory = memalign(alignment, bytes);
  if (bytes < 1 << 20) return memory;
  for (Held& each : held) {
    void* nothing = nullptr;
    if (!each.memory.compare_exchange_strong(nothing, memory)) continue;
    each.bytes = static_cast<int64_t>(bytes);
    in_use += each.bytes;
    most_in_use = std::max(most_in_use.load(), in_use.load());
    return memory;
  }
  std::abort();  // more tensors than table entries
}
void free(void* memory) noexcept {
  for (Held& each : held) {
    if (!memory || each.memory.load() != memory) continue;
    in_use -= each.bytes;
    each.memory = nullptr;
    break;
  }
  __libc_free(memory);
}
}

void* operator new(std::size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace sparkpilot {
namespace {

TEST(Allocation, TheCounterCounts) {
  allocations = 0;
  counting = true;
  auto* text = new std::string(100, 'x');
  counting = false;
  delete text;
  EXPECT_GT(allocations.load(), 0);
}

TEST(Allocation, RunAllocatesNothing) {
  for (const ZooEntry& entry : zoo()) {
    if (std::string(entry.name).rfind("tiny_", 0) != 0) continue;
    SCOPED_TRACE(std::string(entry.name));
    for (const int threads : {1, 2}) {
      Session session(build_zoo_model(entry.name, 1), {.threads = threads});
      session.run();
      allocations = 0;
      counting = true;
      session.run();
      counting = false;
      EXPECT_EQ(allocations.load(), 0);
    }
  }
}

TEST(Allocation, AStepOfTheEnvironmentForLearningAllocatesNothing) {
  const std::vector<std::string> names{"all"};
  sim::LearningEnv env({.worlds = 700, .scenarios = sim::select_scenarios(names), .lane = 1000});
  std::vector<float> seen(700 * sim::observed_numbers().size()), actions(700), rewards(700);
  env.reset(nullptr, nullptr, {seen.data()});
  for (const int threads : {1, 2}) {
    const ThreadScope scope(threads);
    env.step(actions.data(), {seen.data(), rewards.data()});
    allocations = 0;
    counting = true;
    for (int step = 0; step < 10; ++step) env.step(actions.data(), {seen.data(), rewards.data()});
    counting = false;
    EXPECT_EQ(allocations.load(), 0);
  }
}

// y = x w summed up; `tensors` weights of [rows, 8].
train::TrainingProgram product(int64_t rows, int tensors, train::ProgramOptions options) {
  Graph g;
  g.opsets[""] = 26;
  Builder b(g);
  const ValueId x = b.input("x", DType::f32, {2, rows});
  std::vector<train::Parameter> parameters;
  ValueId sum;
  for (int i = 0; i < tensors; ++i) {
    const ValueId w = b.constant(Tensor::zeros(DType::f32, {rows, 8}));
    parameters.push_back({w, "a name too long to be kept without an allocation " + std::to_string(i), i % 2 == 0});
    // Each with another gradient, as equal ones are computed once and copied.
    const ValueId y = b.add("Mul", {b.add("MatMul", {x, w}), b.scalar(DType::f32, i + 1)});
    sum = sum.present() ? b.add("Add", {sum, y}) : y;
  }
  const ValueId target = b.constant(Tensor::of<float>({2, 8}, std::vector<float>(16, 0.5f)));
  const ValueId error = b.add("Sub", {sum, target});
  const ValueId loss = b.add("ReduceSum", {b.add("Mul", {error, error})}, {{"keepdims", int64_t{0}}});
  return {std::move(g), loss, std::move(parameters), {{"sum", sum}}, std::move(options)};
}

void fill(const View& view) { std::fill_n(view.as<float>(), view.elements(), 1e-3f); }

TEST(Allocation, ATrainingStepAllocatesNothing) {
  for (const train::Optimizer optimizer : {train::Optimizer::adamw, train::Optimizer::sgd}) {
    for (const int micro_batches : {1, 2}) {
      for (const int threads : {1, 2}) {
        train::TrainingProgram program = product(
            64, 3,
            {.optimizer = optimizer, .ema = 0.9f, .micro_batches = micro_batches, .session = {.threads = threads}});
        const View x = program.input("x"), evaluated = program.evaluation_input("x");
        double losses[2];
        for (double& loss : losses) {  // the first step may prepare what the others use
          fill(x);
          fill(evaluated);
          allocations = 0;
          counting = true;
          for (int i = 0; i < micro_batches; ++i) program.run_gradients();
          loss = program.loss() + program.report(0).as<float>()[0];
          program.update(0.01, 1);
          program.run_evaluation();
          counting = false;
        }
        EXPECT_EQ(allocations.load(), 0);
        EXPECT_NE(losses[0], losses[1]);
      }
    }
  }
}

// What is allocated in an update of a student, in its evaluations and in that of a part, after the first ones.
int allocated_by(const train::Student& student, const train::ProgramOptions& with) {
  train::TrainingProgram program = student.program(with);
  std::vector<train::Evaluation> evaluations{false, true};
  if (const std::optional<size_t> part = student.features_part()) evaluations.emplace_back(false, part);
  for (const TensorInfo& info : program.inputs()) {
    const auto give = [](const View& view) {
      if (view.dtype == DType::f32) fill(view);
      else std::memset(view.data, 7, static_cast<size_t>(view.bytes()));
    };
    give(program.input(info.name));
    for (const train::Evaluation& each : {evaluations[0], evaluations[1]}) {
      give(program.evaluation_input(info.name, each));
    }
  }
  int counted = 0;
  for (const int step : {0, 1}) {
    allocations = 0;
    counting = true;
    for (int i = 0; i < with.micro_batches; ++i) program.run_gradients();
    const bool finite = std::isfinite(program.loss()) && std::isfinite(program.gradient_norm());
    if (finite) program.update(1e-4, 1);
    for (const train::Evaluation& each : evaluations) program.run_evaluation(each);
    counting = false;
    counted = allocations;
    EXPECT_TRUE(finite);
    EXPECT_EQ(program.updates(), step + 1);
  }
  return counted;
}

TEST(Allocation, ATrainingStepOfTheStandInsAllocatesNothing) {
  using train::TrainMode;
  const TempFolder folder;
  const auto network = [&](const char* role, const char* model) {
    return train::zoo_network(folder.path(), role, model);
  };
  const std::vector both{network("vision", "tiny_driving_vision"), network("policy", "tiny_driving_policy")},
      supercombo{network("supercombo", "tiny_driving_supercombo")}, driver{network("driver", "tiny_dmonitoring_model")};
  for (const auto& [networks, mode] : {std::pair(both, TrainMode::adapter),
                                       {both, TrainMode::full},
                                       {supercombo, TrainMode::full},
                                       {driver, TrainMode::adapter}}) {
    SCOPED_TRACE(networks[0].role + (mode == TrainMode::full ? ", all weights" : ", DoRA"));
    train::StudentOptions options{.networks = networks, .batch = 2, .mode = mode, .max_size = "20%"};
    if (mode == TrainMode::adapter) options.norms = NormForm::exact, options.form = AdapterForm::cheaper;
    const train::Student student(options, train::RandomSamples(networks, 1).fields());
    EXPECT_EQ(allocated_by(student, {.ema = 0.9f, .micro_batches = 2, .session = {.threads = 1, .tune = Tune::off}}),
              0);
  }
}

TEST(Allocation, TrainingHoldsParametersMomentsAndGradientsOnce) {
  // As below: tensors that fill their huge pages.
  constexpr int64_t kRows = (10 << 15) - 2, kTensors = 4;
  const int64_t before = in_use, needed = 4 * kTensors * kRows * 8 * static_cast<int64_t>(sizeof(float));
  most_in_use = before;
  double made = 0, trained = 0;
  {
    train::TrainingProgram program = product(kRows, kTensors, {.session = {.threads = 1}});
    made = static_cast<double>(in_use - before);
    most_in_use = in_use.load();
    for (int i = 0; i < 2; ++i) {
      fill(program.input("x"));
      program.run_gradients();
      EXPECT_GT(program.loss(), 0);
      program.update(0.01);
    }
    EXPECT_LT(program.state(program.parameters()[3].name).data<float>()[0], 1);
    EXPECT_NE(program.state(program.parameters()[3].name).data<float>()[0], 0);
    program.evaluation_input("x");
    program.run_evaluation();
    trained = static_cast<double>(most_in_use - before);
  }
  EXPECT_GE(made, static_cast<double>(needed)) << "the count misses tensors";
  // And the inputs of two programs.
  constexpr int64_t kInputs = 2 * 2 * kRows * static_cast<int64_t>(sizeof(float));
  EXPECT_LE(made, 1.02 * static_cast<double>(needed + kInputs));
  EXPECT_LE(trained, 1.02 * static_cast<double>(needed + kInputs));
}

TEST(Allocation, APackedWeightReplacesItsConstantForAnyNumberOfThreads) {
  constexpr int64_t kSide = 2016, kEach = int64_t{16} << 20;  // with what huge pages round up
  for (const int threads : {1, 2, 0}) {                       // 0: found by trial, with a plan for each number
    SCOPED_TRACE(threads);
    const int64_t before = in_use;
    most_in_use = before;
    Graph g;
    g.opsets[""] = 26;
    Builder b(g, "net");
    ValueId x = g.add_input("x", DType::f32, Shape{1, kSide});
    for (int i = 0; i < 3; ++i) {
      Tensor weight(DType::f32, Shape{kSide, kSide});
      std::fill(weight.data<float>().begin(), weight.data<float>().end(), 1.0f / kSide);
      x = b.add("MatMul", {x, b.constant(std::move(weight))});
    }
    g.add_output(x, "y");
    Session session(std::move(g), {.threads = threads});
    std::fill_n(session.input<float>("x").begin(), kSide, 1.0f);
    session.run();
    EXPECT_NEAR(session.output<float>("y")[kSide - 1], 1, 1e-3);
    EXPECT_GE(in_use.load() - before, 3 * kEach) << "the count misses tensors";
    EXPECT_LE(static_cast<double>(in_use.load() - before), 3.1 * kEach);
    // The constants and one that is packed; in a trial, what each plan packs.
    EXPECT_LE(static_cast<double>(most_in_use.load() - before), (threads > 0 ? 4.2 : 9.2) * kEach);
  }
}

TEST(Allocation, AnUpdateHoldsParametersMomentsAndGradientsOnce) {
  // Ten million in all, in tensors that fill their huge pages: others would be rounded up to the next 2 MiB.
  constexpr int64_t kEach = (10 << 18) - 16;
  const int64_t before = in_use, needed = 4 * 4 * kEach * static_cast<int64_t>(sizeof(float));
  most_in_use = before;
  {
    Graph g;
    g.opsets[""] = 26;
    Builder b(g, "update");
    const ValueId count = g.add_state(Tensor::scalar<int64_t>(0), "t");
    const ValueId next = b.add("Add", {count, b.constant(Tensor::scalar<int64_t>(1))});
    g.set_next(count, next);
    std::vector<ValueId> inputs{b.constant(Tensor::scalar(0.001f)), next, b.constant(Tensor::scalar(1.0f))}, states;
    for (const char* group : {"x", "g", "m", "v"}) {
      for (int i = 0; i < 4; ++i) {
        const std::string name = group + std::to_string(i);
        inputs.push_back(*group == 'g' ? g.add_input(name, DType::f32, Shape{kEach})
                                       : g.add_state(Tensor::zeros(DType::f32, Shape{kEach}), name, false));
        if (*group != 'g') states.push_back(inputs.back());
      }
    }
    const std::vector<ValueId> updated = b.add_many("sparkpilot::AdamW", inputs, {}, 12);
    for (size_t i = 0; i < states.size(); ++i) g.set_next(states[i], updated[i]);
    Session session(std::move(g));
    for (int i = 0; i < 4; ++i) {
      std::span<float> gradient = session.input<float>("g" + std::to_string(i));
      std::fill(gradient.begin(), gradient.end(), 1.0f);
    }
    session.run();
    session.run();
    EXPECT_NEAR(session.state("x3").as<float>()[kEach - 1], -0.002, 1e-5);
  }
  EXPECT_GE(most_in_use.load() - before, needed) << "the count misses tensors";
  EXPECT_LE(static_cast<double>(most_in_use.load() - before), 1.02 * static_cast<double>(needed));
}

}  // namespace
}  // namespace sparkpilot
