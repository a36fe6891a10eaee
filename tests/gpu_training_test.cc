// Training on the emulated GPU: the losses, the norms and the parameters of the CPU within rounding, from one recording
// for each program, with nothing copied back but loss, reports and norm.
#include <cmath>
#include <cstring>

#include "base/test_files.h"
#include "gpu_sessions.h"
#include "tensor/difference.h"
#include "tensor/gpu.h"
#include "train/random_samples.h"

namespace sparkpilot::train {
namespace gpu_training_test {

struct Steps {
  int updates, micro_batches;
  double rate;
};

class GpuTraining : public GpuTest {
 protected:
  void as_on_the_cpu(const std::string& role, const std::vector<const char*>& gpus, const Steps& steps, double bound);

  TempFolder folder_;
};

struct Trained {
  std::vector<double> numbers;  // losses, reports and norms of each step, and of an evaluation
  std::map<std::string, Tensor> states;
  std::map<std::string, Session::Transfers> transfers;
  int launches = 0, waits = 0;  // of the last update, by the driver
  int64_t report_bytes = 0;     // that every run gives back beside the loss
};

// Updates with clipping and a moving average. Epsilon is far above the rounding of gradients: those that are nothing
// but rounding, such as of the keys' bias in attention, would else be brought to the size of others.
Trained train_on(const Student& student, const RandomSamples& samples, const std::string& device, const Steps& steps) {
  const ProgramOptions options{.epsilon = 1,
                               .ema = 0.9f,
                               .micro_batches = steps.micro_batches,
                               .session = {.device = device, .threads = 1, .tune = Tune::off}};
  TrainingProgram program = student.program(options);
  Trained out;
  const auto note = [&](ConstView view) {
    for (int64_t i = 0; i < view.elements(); ++i) out.numbers.push_back(load_element(view.dtype, view.data, i));
  };
  const bool on_gpu = device != "cpu";
  for (int update = 0; update < steps.updates; ++update) {
    const auto count = [&](const char* what) { return on_gpu ? driver_count(std::string("call ") + what) : 0; };
    const int launches = count("cuGraphLaunch"), waits = count("cuStreamSynchronize");
    for (int micro = 0; micro < steps.micro_batches; ++micro) {
      samples.give(program, 4 * update + 2 * micro, [&](const std::string& name) { return program.input(name); });
      program.run_gradients();
      out.numbers.push_back(program.loss());
      for (size_t i = 0; i < program.report_names().size(); ++i) note(program.report(i));
    }
    out.numbers.push_back(program.gradient_norm());
    program.update(steps.rate, 0.9 * out.numbers.back());
    out.launches = count("cuGraphLaunch") - launches;
    out.waits = count("cuStreamSynchronize") - waits;
  }
  EXPECT_EQ(program.updates(), steps.updates);
  for (size_t i = 0; i < program.report_names().size(); ++i) {
    const ConstView report = program.report(i);
    out.report_bytes += storage_bytes(report.dtype, report.elements());
  }
  for (const bool average : {false, true}) {
    samples.give(program, 90, [&](const std::string& name) { return program.evaluation_input(name, average); });
    program.run_evaluation(average);
    out.numbers.push_back(program.evaluation_loss(average));
  }
  out.transfers = program.transfers();
  for (const std::string& name : program.states()) out.states[name] = program.state(name).clone();
  return out;
}

void expect_same(const Trained& got, const Trained& expected, double bound) {
  ASSERT_EQ(got.numbers.size(), expected.numbers.size());
  for (size_t i = 0; i < got.numbers.size(); ++i)
    EXPECT_NEAR(got.numbers[i], expected.numbers[i], bound * std::max(1.0, std::fabs(expected.numbers[i]))) << i;
  ASSERT_EQ(got.states.size(), expected.states.size());
  for (const auto& [name, state] : expected.states) {
    const Difference difference = difference_of(got.states.at(name).view(), state.view());
    EXPECT_TRUE(difference.relative_l2 <= bound || difference.max_abs <= 1e-6)
        << name << ": " << difference.relative_l2 << ", " << difference.max_abs;
  }
}

// A run of each program is one launch of its recording and one wait; states stay where they are.
void expect_few_copies(const Trained& got, const Steps& steps, bool unified) {
  const bool clears = steps.micro_batches > 1 && !unified;  // the sums, on the GPU
  EXPECT_EQ(got.launches, steps.micro_batches + 2);         // the gradients, the norm, the update
  EXPECT_EQ(got.waits, got.launches + (clears ? 1 : 0));
  for (const auto& [name, of] : got.transfers) {
    EXPECT_EQ(of.to_host, unified || name == "update" ? 0 : 1) << name;
    EXPECT_EQ(of.to_gpu, unified || name == "norm" ? 0 : 1) << name;
    EXPECT_LE(of.bytes_to_host, 4096 + got.report_bytes) << name;
    EXPECT_GT(of.launches, 0) << name;
  }
}

void GpuTraining::as_on_the_cpu(const std::string& role, const std::vector<const char*>& gpus, const Steps& steps,
                                double bound) {
  const std::vector<StudentNetwork> networks = {zoo_network(folder_.path(), role, "tiny_driving_" + role)};
  const RandomSamples samples(networks, 100);
  for (const TrainMode mode : {TrainMode::adapter, TrainMode::full}) {
    StudentOptions options{.networks = networks, .batch = 2, .mode = mode, .max_size = "20%"};
    options.form = AdapterForm::cheaper;
    const Student student(options, samples.fields());
    const Trained cpu = train_on(student, samples, "cpu", steps);
    for (const char* name : gpus) {
      emulate(name);
      const Trained gpu = train_on(student, samples, "cuda", steps);
      expect_same(gpu, cpu, bound);
      expect_few_copies(gpu, steps, std::string(name) == "gb10");
    }
  }
}

// Where an exchange among processes changes them.
TEST_F(GpuTraining, GradientSumsAreReachedWhereTheyAre) {
  NEEDS_IMAGES();
  const std::vector<StudentNetwork> networks = {zoo_network(folder_.path(), "policy", "tiny_driving_policy")};
  const RandomSamples samples(networks, 100);
  const Student student({.networks = networks, .batch = 2, .max_size = "20%"}, samples.fields());
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    TrainingProgram program = student.program({.session = {.device = "cuda", .threads = 1, .tune = Tune::off}});
    samples.give(program, 0, [&](const std::string& input) { return program.input(input); });
    program.run_gradients();
    const double norm = program.gradient_norm();
    const auto copies = [] {
      return driver_count("call cuMemcpyDtoHAsync_v2") + driver_count("call cuMemcpyHtoDAsync_v2");
    };
    const int before = copies();
    const std::span<float> there = program.gradient_sums_on_gpu();
    EXPECT_EQ(copies(), before) << name;
    EXPECT_EQ(program.gradient_norm(), norm) << name;
    const std::span<float> here = program.gradient_sums();  // brought here, and sent again where it is asked for
    ASSERT_EQ(here.size(), there.size());
    double squares = 0;
    for (float& each : here) {
      squares += static_cast<double>(each) * static_cast<double>(each);
      each *= 2;
    }
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-4 * norm) << name;
    EXPECT_EQ(program.gradient_sums_on_gpu().data(), there.data()) << name;
    EXPECT_NEAR(program.gradient_norm(), 2 * norm, 1e-4 * norm) << name;
    // Changed there alone.
    GpuStream stream(program.gpu());
    stream.fill(program.gradient_sums_on_gpu().data(), 0, static_cast<int64_t>(there.size_bytes()));
    stream.wait();
    EXPECT_EQ(program.gradient_norm(), 0) << name;
    for (const float each : program.gradient_sums()) ASSERT_EQ(each, 0) << name;
  }
}

TEST_F(GpuTraining, APolicyAsOnTheCpu) {
  NEEDS_IMAGES();
  as_on_the_cpu("policy", {"gb10", "rtx4090"}, {3, 2, 0.01}, 5e-4);
}

TEST_F(GpuTraining, VisionAsOnTheCpu) {
  NEEDS_IMAGES();
  as_on_the_cpu("vision", {"rtx4090"}, {2, 1, 1e-4}, 2e-3);  // it enlarges rounding errors
}

// Frozen weights of 8 and 4 bits are decoded in each step, as on the CPU, and take less of the GPU's memory.
TEST_F(GpuTraining, ABaseOfFewerBitsAsOnTheCpu) {
  NEEDS_IMAGES();
  const Steps steps{2, 1, 1e-3};
  for (const char* role : {"policy", "vision"}) {
    const std::vector<StudentNetwork> networks = {
        zoo_network(folder_.path(), role, std::string("tiny_driving_") + role)};
    const RandomSamples samples(networks, 100);
    std::map<Precision, int> memory;
    for (const Precision base : {Precision::fp32, Precision::fp8, Precision::fp4}) {
      SCOPED_TRACE(std::string(role) + " " + std::string(name(base)));
      StudentOptions options{.networks = networks, .batch = 1};
      options.adapter = {.kind = AdapterKind::lora, .rank = 2};
      options.base = base;
      const Student student(options, samples.fields());
      const Trained cpu = train_on(student, samples, "cpu", steps);
      emulate("rtx4090");
      {
        TrainingProgram program = student.program({.session = {.device = "cuda", .threads = 1, .tune = Tune::off}});
        samples.give(program, 0, [&](const std::string& input) { return program.input(input); });
        program.run_gradients();
      }
      memory[base] = driver_count("most memory");
      const Trained gpu = train_on(student, samples, "cuda", steps);
      expect_same(gpu, cpu, 2e-3);
      expect_few_copies(gpu, steps, false);
      EXPECT_EQ(driver_count("kernel decode_scaled") > 0, base != Precision::fp32);
    }
    EXPECT_LT(memory[Precision::fp8], memory[Precision::fp32]) << role;
    EXPECT_LT(memory[Precision::fp4], memory[Precision::fp8]) << role;
  }
}

// The gradients of one sample, of stand-ins that the tests above leave out: with all weights, or with an adapter, whose
// norms are renewed in the exact form.
TEST_F(GpuTraining, GradientsOfTheOtherStandInsAreThoseOfTheCpu) {
  NEEDS_IMAGES();
  emulate("gb10");
  struct Run {
    const char *role, *model;
    TrainMode mode;
  };
  for (const auto& [role, model, mode] : {Run{"supercombo", "tiny_driving_supercombo", TrainMode::adapter},
                                          {"supercombo", "tiny_big_driving_supercombo", TrainMode::full},
                                          {"supercombo", "tiny_supercombo", TrainMode::full},
                                          {"driver", "tiny_dmonitoring_model", TrainMode::full},
                                          {"policy", "tiny_driving_policy_v0.10.0", TrainMode::adapter}}) {
    SCOPED_TRACE(model);
    const std::vector<StudentNetwork> networks = {zoo_network(folder_.path(), role, model)};
    const RandomSamples samples(networks, 10);
    StudentOptions options{.networks = networks, .batch = 1, .mode = mode, .max_size = "20%"};
    if (mode == TrainMode::adapter) options.norms = NormForm::exact, options.form = AdapterForm::weights;
    const Student student(options, samples.fields());
    std::map<std::string, std::vector<double>> numbers;
    std::map<std::string, std::vector<float>> gradients;
    for (const char* device : {"cpu", "cuda"}) {
      TrainingProgram program =
          student.program({.epsilon = 1, .session = {.device = device, .threads = 1, .tune = Tune::off}});
      samples.give(program, 0, [&](const std::string& name) { return program.input(name); });
      program.run_gradients();
      numbers[device] = {program.loss(), program.gradient_norm()};
      const std::span<float> sums = program.gradient_sums();
      gradients[device].assign(sums.begin(), sums.end());
      program.update(1e-3, 1);
      for (const std::string& name : program.states()) {
        if (name.ends_with(".norm")) numbers[device].push_back(*program.state(name).data<float>().begin());
      }
    }
    const std::vector<double>&on_cpu = numbers["cpu"], &on_gpu = numbers["cuda"];
    ASSERT_EQ(on_gpu.size(), on_cpu.size());
    for (size_t i = 0; i < on_cpu.size(); ++i) EXPECT_NEAR(on_gpu[i], on_cpu[i], 1e-4 * std::fabs(on_cpu[i])) << i;
    ASSERT_EQ(gradients["cuda"].size(), gradients["cpu"].size());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < gradients["cpu"].size(); ++i) {
      const double a = gradients["cuda"][i], b = gradients["cpu"][i];
      difference += (a - b) * (a - b);
      norm += b * b;
    }
    EXPECT_GT(norm, 0);
    EXPECT_LE(std::sqrt(difference / norm), 1e-4);
  }
}

// Values that are computed again on the GPU take less of its memory and change no bit.
TEST_F(GpuTraining, ComputesActivationsAgain) {
  NEEDS_IMAGES();
  emulate("rtx4090");
  const std::vector<StudentNetwork> networks = {zoo_network(folder_.path(), "vision", "tiny_driving_vision")};
  const RandomSamples samples(networks, 100);
  const Student student({.networks = networks, .batch = 2, .mode = TrainMode::full}, samples.fields());
  const auto program_of = [&](int64_t max_activations) {
    return student.program(
        {.max_activations = max_activations, .session = {.device = "cuda", .threads = 1, .tune = Tune::off}});
  };
  int64_t least = 0;
  try {
    program_of(1);
  } catch (const TooFewBytes& error) {
    least = error.least();
  }
  TrainingProgram whole = program_of(0), limited = program_of(least);
  EXPECT_GT(limited.activations().nodes_again, 0);
  EXPECT_LE(limited.activations().bytes, least);
  EXPECT_LT(least, whole.activations().bytes);
  for (TrainingProgram* program : {&whole, &limited}) {
    samples.give(*program, 0, [&](const std::string& name) { return program->input(name); });
    program->run_gradients();
    program->update(0.01);
  }
  EXPECT_EQ(limited.loss(), whole.loss());
  for (const std::string& name : whole.states()) {
    const Tensor a = whole.state(name).clone(), b = limited.state(name).clone();
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())), 0) << name;
  }
}

}  // namespace gpu_training_test
}  // namespace sparkpilot::train
