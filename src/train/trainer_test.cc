#include "train/trainer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "base/test_files.h"
#include "passes/test_graph.h"
#include "tensor/safetensors.h"
#include "train/losses.h"

namespace sparkpilot::train {
namespace {

namespace fs = std::filesystem;

// y is a fixed function of x, with noise.
class Points final : public Samples {
 public:
  explicit Points(int64_t size, uint64_t seed = 0) : size_(size), seed_(seed) {}
  std::span<const Field> fields() const override { return fields_; }
  int64_t size() const override { return size_; }
  void read(int64_t index, std::span<std::byte* const> to) const override {
    if (sleep_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(sleep_us));
    Random random(seed_ * 1'000'000 + static_cast<uint64_t>(index));
    float x[4], y[2];
    for (float& each : x) each = static_cast<float>(random.normal());
    y[0] = std::max(x[0] - x[1], 0.0f) + static_cast<float>(0.1 * random.normal());
    y[1] = x[2] * 2 + x[3] + static_cast<float>(0.1 * random.normal());
    if (index == bad) x[1] = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(to[0], y, sizeof y);
    std::memcpy(to[2], x, sizeof x);
    *to[1] = static_cast<std::byte>(index);
  }
  int64_t bad = -1;
  int sleep_us = 0;

 private:
  int64_t size_;
  uint64_t seed_;
  std::vector<Field> fields_{{"y", DType::f32, {2}}, {"not used", DType::u8, {1}}, {"x", DType::f32, {4}}};
};

TrainingProgram program_of(int micro_batches = 1, float ema = 0.9f) {
  Graph graph;
  graph.opsets[""] = 26;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {4, 4}), y = b.input("y", DType::f32, {4, 2});
  const ValueId w1 = b.constant(testing::random_tensor({4, 16}, 1)), b1 = b.constant(testing::random_tensor({16}, 2)),
                w2 = b.constant(testing::random_tensor({16, 2}, 3));
  const ValueId out = b.add("MatMul", {b.add("Relu", {b.add("Add", {b.add("MatMul", {x, w1}), b1})}), w2});
  const ValueId loss = mean_squared_error(b, out, y);
  const ValueId bias = b.add("ReduceMean", {b.add("Sub", {out, y})}, {{"keepdims", int64_t{0}}});
  return {std::move(graph),
          loss,
          {{w1, "w1"}, {b1, "b1", false}, {w2, "w2"}},
          {{"bias", bias}, {"out", out}},
          {.ema = ema, .micro_batches = micro_batches, .session = {.threads = 1}}};
}

TrainerOptions options_of(const fs::path& out) {
  return {.out = out,
          .schedule = {.rate = 0.02, .warmup = 5, .last = 0.1},
          .updates = 60,
          .seed = 3,
          .evaluate_every = 10,
          .checkpoint_every = 7,
          .dataset = "points"};
}

std::vector<nlohmann::json> metrics(const fs::path& out) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_text(out / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("time");
  }
  return lines;
}

std::string states_at(const fs::path& out, int64_t updates) {
  return read_text(out / "checkpoints" / fmt::format("update_{:08}", updates) / "states.safetensors");
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(Schedule, WarmsUpThenFalls) {
  const Schedule s{.form = Schedule::cosine, .rate = 2, .warmup = 4, .last = 0.25};
  EXPECT_DOUBLE_EQ(rate_at(s, 0, 15), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(s, 3, 15), 2);
  EXPECT_DOUBLE_EQ(rate_at(s, 4, 15), 2);
  EXPECT_DOUBLE_EQ(rate_at(s, 9, 15), 2 * (0.25 + 0.75 / 2));  // half of the way
  EXPECT_DOUBLE_EQ(rate_at(s, 14, 15), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(s, 100, 15), 0.5);
  const Schedule constant{.form = Schedule::constant, .rate = 3};
  EXPECT_DOUBLE_EQ(rate_at(constant, 0, 0), 3);
  EXPECT_DOUBLE_EQ(rate_at(constant, 1000, 0), 3);
}

TEST(Trainer, LearnsAndWritesItsFiles) {
  const TempFolder folder;
  const Points samples(50), validation(10, 1);
  TrainingProgram program = program_of(2);
  TrainerOptions options = options_of(folder / "run");
  options.evaluate_average = true;
  std::vector<TrainingStep> steps;
  options.progress = [&](const TrainingStep& step) { steps.push_back(step); };
  const TrainingSummary summary = train(program, samples, &validation, options);
  EXPECT_EQ(summary.ended, Ended::updates);
  EXPECT_EQ(summary.progress.updates, 60);
  EXPECT_EQ(summary.progress.samples, 60 * 8);
  ASSERT_EQ(steps.size(), 60);
  EXPECT_LT(*summary.loss, 0.2 * *summary.first_loss);
  EXPECT_EQ(steps[4].rate, 0.02);
  EXPECT_EQ(steps.back().epoch, 9.6);
  EXPECT_NEAR(steps.back().seconds_left.value(), 0, 1e-9);
  EXPECT_GT(steps[10].samples_per_second, 0);
  EXPECT_TRUE(steps[9].evaluation_loss && !steps[8].evaluation_loss);
  // The evaluation is that of all ten validation samples, two whole batches and a half, with the averages.
  double loss = 0;
  for (int64_t i = 0; i < 10; ++i) {
    float y[2], x[4];
    std::byte unused;
    const std::vector<std::byte*> to{reinterpret_cast<std::byte*>(y), &unused, reinterpret_cast<std::byte*>(x)};
    validation.read(i, to);
    const auto value = [&](const char* name, int64_t at) {
      return static_cast<double>(program.state(std::string(name) + "/ema").data<float>()[static_cast<size_t>(at)]);
    };
    for (int64_t o = 0; o < 2; ++o) {
      double out = 0;
      for (int64_t h = 0; h < 16; ++h) {
        double hidden = value("b1", h);
        for (int64_t k = 0; k < 4; ++k) hidden += static_cast<double>(x[k]) * value("w1", k * 16 + h);
        out += std::max(hidden, 0.0) * value("w2", h * 2 + o);
      }
      loss += std::pow(out - static_cast<double>(y[o]), 2) / 20;
    }
  }
  EXPECT_NEAR(*summary.evaluation_loss, loss, 1e-4 * loss);
  const std::vector<nlohmann::json> lines = metrics(folder / "run");
  ASSERT_EQ(lines.size(), 66);
  EXPECT_EQ(lines[0]["update"], 1);
  EXPECT_EQ(lines[0]["loss"], *summary.first_loss);
  EXPECT_TRUE(lines[0]["reports"].contains("bias"));
  EXPECT_FALSE(lines[0]["reports"].contains("out"));  // not one number
  EXPECT_EQ(lines.back()["evaluation_loss"], *summary.evaluation_loss);
  std::vector<int64_t> kept;
  for (const auto& [updates, path] : find_checkpoints(folder / "run" / "checkpoints")) kept.push_back(updates);
  EXPECT_EQ(kept.back(), 60);
  EXPECT_LE(kept.size(), 3);
  EXPECT_EQ(summary.best.filename(), fmt::format("update_{:08}", summary.progress.best_updates));
  EXPECT_TRUE(fs::exists(summary.best));
  const auto written = nlohmann::json::parse(read_text(folder / "run" / "summary.json"));
  EXPECT_EQ(written["ended"], "updates");
  EXPECT_EQ(written["updates"], 60);
  EXPECT_EQ(written["best_evaluation_loss"], *summary.progress.best);
  int events = 0;
  for (const auto& entry : fs::directory_iterator(folder / "run")) {
    events += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
  }
  EXPECT_EQ(events, 1);
  EXPECT_EQ(message([&] { train(program, samples, &validation, options); }),
            (folder / "run").string() + " holds a run of 60 updates: go on with it, or choose another folder");
}

// Interrupted after any number of updates and resumed by a new program, again and again.
TEST(Trainer, GoesOnToTheSameBits) {
  const TempFolder folder;
  const Points samples(30), validation(9, 1);
  const auto run = [&](const fs::path& out, bool resume, int64_t interrupt_after, std::vector<std::string>* said) {
    TrainingProgram program = program_of(2);
    TrainerOptions options = options_of(out);
    std::atomic<bool> interrupt = interrupt_after == 0;
    options.resume = resume;
    options.interrupt = &interrupt;
    options.say = [&](const std::string& line) {
      if (said) said->push_back(line);
    };
    int64_t done = 0;
    options.progress = [&](const TrainingStep&) { interrupt = ++done == interrupt_after; };
    return train(program, samples, &validation, options);
  };
  const TrainingSummary whole = run(folder / "whole", false, -1, nullptr);
  EXPECT_EQ(run(folder / "parts", false, 0, nullptr).progress.updates, 0);
  TrainingSummary part;
  std::vector<std::string> said;
  for (const int64_t after : {1, 9, 10, 11, 3, 100}) {
    part = run(folder / "parts", true, after, &said);
    EXPECT_EQ(part.ended, after == 100 ? Ended::updates : Ended::interrupted);
  }
  EXPECT_TRUE(said.empty()) << said.front();
  EXPECT_EQ(part.progress.updates, 60);
  ASSERT_FALSE(states_at(folder / "whole", 60).empty());
  EXPECT_EQ(states_at(folder / "whole", 60), states_at(folder / "parts", 60));
  EXPECT_EQ(metrics(folder / "whole"), metrics(folder / "parts"));
  RunProgress a = whole.progress, b = part.progress;
  a.seconds = b.seconds = 0;
  EXPECT_EQ(a, b);
  // With another number the run goes on and says so.
  TrainingProgram program = program_of(2);
  TrainerOptions options = options_of(folder / "parts");
  options.resume = true;
  options.updates = 62;
  options.seed = 4;
  options.say = [&](const std::string& line) { said.push_back(line); };
  EXPECT_EQ(train(program, samples, &validation, options).progress.updates, 62);
  ASSERT_EQ(said.size(), 2);
  EXPECT_EQ(said[0], "the run goes on with another seed: 4, was 3");
  EXPECT_TRUE(said[1].starts_with("the run goes on with another schedule: cosine")) << said[1];
}

// Losses of another target are not held against those from before, however small these are.
TEST(Trainer, ForgetsTheBestOfAnotherTarget) {
  const TempFolder folder;
  const Points samples(30), validation(9, 1);
  TrainerOptions options = options_of(folder / "run");
  options.updates = 10;
  options.target = "teacher";
  TrainingProgram program = program_of();
  const double first = train(program, samples, &validation, options).progress.best.value();
  std::vector<std::string> said;
  options.say = [&](const std::string& line) { said.push_back(line); };
  options.resume = true;
  options.schedule = {.form = Schedule::constant, .rate = 1e-30};
  options.updates = 20;
  options.min_improvement = 2 * first;  // no evaluation is better than the first
  EXPECT_EQ(train(program, samples, &validation, options).progress.best_updates, 10);
  EXPECT_FALSE(std::ranges::any_of(said, [](const auto& line) { return line.find("evaluations") != line.npos; }));
  options.target = "teacher, plan=50";
  options.updates = 30;
  options.evaluate_every = 15;
  const TrainingSummary summary = train(program, samples, &validation, options);
  EXPECT_EQ(summary.progress.best_updates, 30);
  EXPECT_EQ(summary.best, summary.checkpoint);
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said[said.size() - 2], "the run goes on with another target: teacher, plan=50, was teacher");
  EXPECT_EQ(said.back(), "so its evaluations so far do not count: the best one is one from now on");
}

TEST(Trainer, DoesNotGoOnWithAnotherModel) {
  const TempFolder folder;
  const Points samples(30);
  TrainerOptions options = options_of(folder / "run");
  options.updates = 2;
  options.model = "a.onnx by lora";
  TrainingProgram program = program_of();
  train(program, samples, nullptr, options);
  options.resume = true;
  options.updates = 4;
  options.model = "b.onnx by lora";
  EXPECT_EQ(error_of([&] { train(program, samples, nullptr, options); }),
            (folder / "run").string() + ": a run that trains a.onnx by lora, not b.onnx by lora: begin another one");
  options.model = "a.onnx by lora";
  EXPECT_EQ(train(program, samples, nullptr, options).progress.updates, 4);
}

// A report beside which another one tells of how many values it is the mean: batches without any do not count.
TEST(Trainer, MeansAreOfWhatIsKnown) {
  Graph graph;
  graph.opsets[""] = 26;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {4, 4}), y = b.input("y", DType::f32, {4, 2});
  const ValueId w = b.constant(testing::random_tensor({4, 2}, 1));
  const ValueId loss = mean_squared_error(b, b.add("MatMul", {x, w}), y);
  const Attributes all{{"keepdims", int64_t{0}}};
  // Of the samples whose x[0] is so large: how many there are, and the mean of it.
  const ValueId first = b.add("Slice", {x, b.ints({0}), b.ints({1}), b.ints({1})});
  const auto beyond = [&](double least) {
    const ValueId there =
        b.add("Cast", {b.add("Greater", {first, b.scalar(DType::f32, least)})}, {{"to", onnx_code(DType::f32)}});
    const ValueId known = b.add("ReduceSum", {there}, all);
    const ValueId sum = b.add("ReduceSum", {b.add("Mul", {first, there})}, all);
    return std::pair(b.add("Div", {sum, b.add("Max", {known, b.scalar(DType::f32, 1)})}), known);
  };
  const auto [some, known] = beyond(1);
  const auto [none, no] = beyond(1e6);
  TrainingProgram program(std::move(graph), loss, {{w, "w"}},
                          {{"some", some}, {"some.known", known}, {"none", none}, {"none.known", no}},
                          {.session = {.threads = 1}});
  const TempFolder folder;
  const Points samples(8), validation(24, 1);
  TrainerOptions options = options_of(folder / "run");
  options.updates = 1;
  train(program, samples, &validation, options);
  double sum = 0;
  int64_t count = 0, empty = 0;
  for (int64_t i = 0, of_batch = 0; i < 24; ++i) {
    float target[2], values[4];
    std::byte unused;
    const std::vector<std::byte*> to{reinterpret_cast<std::byte*>(target), &unused,
                                     reinterpret_cast<std::byte*>(values)};
    validation.read(i, to);
    if (values[0] > 1) sum += static_cast<double>(values[0]), ++count, ++of_batch;
    if (i % 4 == 3) empty += of_batch == 0 ? 1 : 0, of_batch = 0;
  }
  ASSERT_GT(count, 0);
  ASSERT_GT(empty, 0) << "of the batches";
  const nlohmann::json reports = metrics(folder / "run").back()["evaluation_reports"];
  EXPECT_NEAR(reports["some"].get<double>(), sum / static_cast<double>(count), 1e-5);
  EXPECT_EQ(reports.size(), 1u) << reports;
}

// How often the next test kills its training: SPARKPILOT_TEST_KILLS, else 5.
int kills_asked() {
  const char* const asked = std::getenv("SPARKPILOT_TEST_KILLS");
  return asked != nullptr ? std::atoi(asked) : 5;
}
int64_t updates_for_kills() { return 40 * kills_asked(); }

// The training of the next test, in a process of its own.
void train_slowly(const fs::path& out) {
  Points samples(30);
  const Points validation(9, 1);
  samples.sleep_us = 300;
  TrainingProgram program = program_of(2);
  TrainerOptions options = options_of(out);
  options.updates = updates_for_kills();
  options.checkpoint_every = 3;
  options.resume = true;
  train(program, samples, &validation, options);
}

constexpr const char* kChild = "SPARKPILOT_TEST_TRAINS_INTO";

// Run by the next test only.
TEST(TrainerChild, DISABLED_Trains) {
  const char* const out = std::getenv(kChild);
  ASSERT_NE(out, nullptr);
  train_slowly(out);
}

TEST(Trainer, SurvivesSigkillAtRandomPlaces) {
  const TempFolder folder;
  train_slowly(folder / "whole");
  const fs::path out = folder / "killed";
  const std::string program = fs::read_symlink("/proc/self/exe").string(),
                    variable = fmt::format("{}={}", kChild, out.string());
  std::vector<char*> environment{const_cast<char*>(variable.c_str())};
  for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
  environment.push_back(nullptr);
  Random random(static_cast<uint64_t>(::getpid()));
  const int kills = kills_asked();
  int killed = 0, status = 0;
  int64_t before = -1;
  const auto updates_on_disk = [&] {
    const auto found = find_checkpoints(out / "checkpoints");
    return found.empty() ? int64_t{-1} : found.rbegin()->first;
  };
  for (int turn = 0; turn < 20 * kills + 20; ++turn) {
    const char* const arguments[]{program.c_str(), "--gtest_filter=TrainerChild.*", "--gtest_also_run_disabled_tests",
                                  nullptr};
    pid_t child = -1;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ASSERT_EQ(::posix_spawn(&child, program.c_str(), &quiet, nullptr, const_cast<char* const*>(arguments),
                            environment.data()),
              0);
    posix_spawn_file_actions_destroy(&quiet);
    if (killed < kills) {
      // From its first file on: some in the middle of a checkpoint.
      const auto written = [&] {
        std::error_code error;
        const auto size = fs::file_size(out / "metrics.jsonl", error);
        return error ? 0 : size;
      };
      const auto at_start = written();
      while (written() == at_start && ::waitpid(child, &status, WNOHANG) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, 60'000)));
      ::kill(child, SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_GE(updates_on_disk(), before);  // nothing is lost
    before = updates_on_disk();
    if (WIFEXITED(status)) break;
    ++killed;
  }
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_GE(killed, std::min(kills, 3));
  std::printf("killed %d times\n", killed);
  ASSERT_FALSE(states_at(folder / "whole", updates_for_kills()).empty());
  EXPECT_EQ(states_at(folder / "whole", updates_for_kills()), states_at(out, updates_for_kills()));
  EXPECT_EQ(metrics(folder / "whole"), metrics(out));
  for (const auto& entry : fs::directory_iterator(out / "checkpoints")) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("update_")) << entry.path();
  }
}

TEST(Trainer, StopsEarlyAndKeepsTheBest) {
  const TempFolder folder;
  const Points samples(8), validation(8, 1);  // too few: it learns the noise
  TrainingProgram program = program_of();
  TrainerOptions options = options_of(folder / "run");
  options.schedule = {.form = Schedule::constant, .rate = 0.05};
  options.updates = 5000;
  options.checkpoint_every = 0;
  options.patience = 3;
  options.keep = 1;
  std::vector<double> losses;
  options.progress = [&](const TrainingStep& step) {
    if (step.evaluation_loss) losses.push_back(*step.evaluation_loss);
  };
  const TrainingSummary summary = train(program, samples, &validation, options);
  EXPECT_EQ(summary.ended, Ended::early);
  EXPECT_LT(summary.progress.updates, 5000);
  ASSERT_GE(losses.size(), 4);
  const auto best = std::ranges::min_element(losses) - losses.begin();
  EXPECT_EQ(std::ssize(losses) - 1 - best, 3);
  EXPECT_EQ(summary.progress.best_updates, 10 * (best + 1));
  EXPECT_EQ(find_checkpoints(folder / "run" / "checkpoints").size(), 2);
  // The best one's parameters give the best loss.
  TrainingProgram fresh = program_of();
  load_states(summary.best, fresh);
  double loss = 0;
  for (int64_t first : {0, 4}) {
    for (int64_t i = 0; i < 4; ++i) {
      std::byte unused;
      const auto at = [&](const char* name, int64_t values) {
        return static_cast<std::byte*>(fresh.evaluation_input(name).data) + i * values * 4;
      };
      validation.read(first + i, std::vector<std::byte*>{at("y", 2), &unused, at("x", 4)});
    }
    fresh.run_evaluation();
    loss += fresh.evaluation_loss() / 2;
  }
  EXPECT_EQ(loss, losses[static_cast<size_t>(best)]);
  // It stays ended.
  options.resume = true;
  EXPECT_EQ(train(fresh, samples, &validation, options).ended, Ended::early);
}

TEST(Trainer, StopsBeforeWhatIsNotFinite) {
  const TempFolder folder;
  Points samples(20);
  samples.bad = 11;
  TrainingProgram program = program_of();
  const TrainingSummary summary = train(program, samples, nullptr, options_of(folder / "run"));
  EXPECT_EQ(summary.ended, Ended::not_finite);
  EXPECT_LT(summary.progress.updates, 5);
  EXPECT_EQ(summary.reason, fmt::format("the loss (nan) of update {} is not finite", summary.progress.updates + 1));
  const SafetensorsFile batch = load_safetensors(summary.batch);
  EXPECT_NE(batch.metadata.at("samples").find("11"), std::string::npos);
  int bad = 0;
  for (const auto& [name, tensor] : batch.tensors) {
    if (name != "x") continue;
    EXPECT_EQ(tensor.shape(), (Shape{4, 4}));
    for (const float each : tensor.data<float>()) bad += std::isnan(each) ? 1 : 0;
  }
  EXPECT_EQ(bad, 1);
  EXPECT_EQ(find_checkpoints(folder / "run" / "checkpoints").rbegin()->first, summary.progress.updates);
  for (const float each : program.state("w1").data<float>()) EXPECT_TRUE(std::isfinite(each));
  EXPECT_EQ(nlohmann::json::parse(read_text(folder / "run" / "summary.json"))["ended"], "not finite");
}

// Of a run whose rate destroys it the last state that a step was finite with is kept.
TEST(Trainer, KeepsWhatWasSound) {
  const TempFolder folder;
  const Points samples(20);
  TrainerOptions options = options_of(folder / "run");
  options.schedule = {.form = Schedule::constant, .rate = 0.02};
  options.updates = 5;
  options.checkpoint_every = 1;
  TrainingProgram program = program_of();
  EXPECT_EQ(train(program, samples, nullptr, options).ended, Ended::updates);
  const std::string states = states_at(folder / "run", 5);
  options.resume = true;
  options.updates = 60;
  options.schedule.rate = 1e30;
  TrainingSummary summary = train(program, samples, nullptr, options);
  EXPECT_EQ(summary.ended, Ended::not_finite);
  EXPECT_EQ(summary.progress.updates, 6);
  EXPECT_TRUE(summary.reason.ends_with("of update 7 is not finite")) << summary.reason;
  EXPECT_EQ(summary.checkpoint.filename(), "update_00000005");
  EXPECT_EQ(find_checkpoints(folder / "run" / "checkpoints").rbegin()->first, 5);
  EXPECT_EQ(states_at(folder / "run", 5), states);
  // It goes on from there.
  options.schedule.rate = 0.02;
  options.updates = 8;
  EXPECT_EQ(train(program, samples, nullptr, options).ended, Ended::updates);
  // The last update alone: no step tells.
  options.resume = false;
  options.out = folder / "last";
  options.updates = 1;
  options.schedule.rate = 1e300;
  TrainingProgram last = program_of();
  summary = train(last, samples, nullptr, options);
  EXPECT_EQ(summary.ended, Ended::not_finite);
  EXPECT_EQ(summary.reason, "\"w1\" is not finite after 1 update");
  EXPECT_TRUE(summary.checkpoint.empty());
  EXPECT_TRUE(find_checkpoints(folder / "last" / "checkpoints").empty());
}

TEST(Trainer, TellsWhenTheFolderIsItsOwn) {
  const TempFolder folder;
  const Points samples(20);
  TrainerOptions options = options_of(folder / "run");
  options.updates = 2;
  int begun = 0;
  options.begun = [&] { ++begun; };
  TrainingProgram program = program_of();
  train(program, samples, nullptr, options);
  EXPECT_EQ(begun, 1);
  EXPECT_NE(message([&] { train(program, samples, nullptr, options); }), "taken");
  EXPECT_EQ(begun, 1);
  options.resume = true;
  train(program, samples, nullptr, options);
  EXPECT_EQ(begun, 2);
  options = options_of(folder / "none");
  options.begun = [] { fail("no"); };
  EXPECT_EQ(message([&] { train(program, samples, nullptr, options); }), "no");
  EXPECT_FALSE(fs::exists(folder / "none"));
}

TEST(Trainer, EndsAfterItsEpochs) {
  const TempFolder folder;
  const Points samples(30);
  TrainerOptions options = options_of(folder / "run");
  options.updates = 0;
  for (const auto& [epochs, updates] : {std::pair(2.0, 15), {1.1, 9}, {0.5, 4}}) {
    options.epochs = epochs;
    options.out = folder / fmt::format("{}", updates);
    TrainingProgram program = program_of();
    const TrainingSummary summary = train(program, samples, nullptr, options);
    EXPECT_EQ(summary.ended, Ended::updates);
    EXPECT_EQ(summary.progress.updates, updates) << epochs;
    EXPECT_EQ(summary.progress.samples, 4 * updates);
  }
  options.updates = 3;  // whichever is first
  EXPECT_EQ(limit_of(options, 30, 4), 3);
}

TEST(Trainer, StopsByTheClock) {
  const TempFolder folder;
  Points samples(20);
  samples.sleep_us = 20'000;
  TrainingProgram program = program_of();
  TrainerOptions options = options_of(folder / "run");
  options.updates = 0;
  options.schedule.form = Schedule::constant;
  options.minutes = 1.0 / 60;
  TrainingStep last;
  options.progress = [&](const TrainingStep& step) { last = step; };
  const TrainingSummary summary = train(program, samples, nullptr, options);
  EXPECT_EQ(summary.ended, Ended::minutes);
  EXPECT_GE(summary.progress.seconds, 1.0);
  EXPECT_GT(last.waited, 0.5);  // the samples are the slow part
  EXPECT_LE(last.waited, 1);
  // The time of the first run counts.
  options.resume = true;
  TrainingProgram other = program_of();
  EXPECT_EQ(train(other, samples, nullptr, options).progress.updates, summary.progress.updates);
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  const TempFolder folder;
  const Points samples(20);
  TrainingProgram program = program_of(1, 0);
  const auto with = [&](const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions options = options_of(folder / "run");
    change(options);
    return message([&] { train(program, samples, nullptr, options); });
  };
  EXPECT_EQ(with([](auto& o) { o.updates = 0; }), "training needs a limit: updates, epochs or minutes");
  EXPECT_EQ(with([](auto& o) { o.updates = 0, o.minutes = 1; }),
            "a cosine needs the number of updates: limit them, or the epochs, or take a constant rate");
  EXPECT_EQ(with([](auto& o) { o.updates = -1; }), "updates is -1, expected 0 or more");
  EXPECT_EQ(with([](auto& o) { o.schedule.rate = std::nan(""); }), "rate is nan, expected 0 or more");
  EXPECT_EQ(with([](auto& o) { o.patience = 1; }), "an early stop needs validation samples");
  EXPECT_EQ(with([](auto& o) { o.evaluate_average = true; }), "there is no moving average to evaluate");
  EXPECT_EQ(with([](auto& o) { o.keep = 0; }), "0 checkpoints are to be kept, expected at least 1");
  const Points none(0);
  EXPECT_EQ(message([&] { train(program, none, nullptr, options_of(folder / "run")); }),
            "there are no training samples");
  class Others final : public Samples {
   public:
    explicit Others(std::vector<Field> fields) : fields_(std::move(fields)) {}
    std::span<const Field> fields() const override { return fields_; }
    int64_t size() const override { return 5; }
    void read(int64_t, std::span<std::byte* const>) const override {}

   private:
    std::vector<Field> fields_;
  };
  EXPECT_EQ(message([&] {
              train(program, Others({{"x", DType::f32, {4}}}), nullptr, options_of(folder / "run"));
            }),
            "the training samples have no field \"y\", which the model reads");
  EXPECT_EQ(message([&] {
              train(program, samples, nullptr, options_of(folder / "run"));
              const Others wrong({{"x", DType::f32, {4}}, {"y", DType::f64, {2}}});
              train(program, wrong, nullptr, options_of(folder / "run"));
            }),
            "field \"y\" of the training samples is f64[2], the model expects f32[2] of each");
}

}  // namespace
}  // namespace sparkpilot::train
