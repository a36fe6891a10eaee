// Training on the GPU and on the CPU: the same losses within rounding, the same bits when it is repeated.
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/test_files.h"
#include "networks.h"
#include "part.h"
#include "train/random_samples.h"

namespace sparkpilot::gpu_check {
namespace {

struct TrainingFigures {
  std::vector<double> losses, norms;
  double step_ms = 0;  // the least time of an update
  std::map<std::string, Session::Transfers> transfers;
};

TrainingFigures train_on(const train::Student& student, const train::RandomSamples& samples, const std::string& device,
                         int64_t batch, int updates) {
  train::ProgramOptions options;
  options.session = {.device = device, .threads = available_processors(), .tune = Tune::off};
  train::TrainingProgram program = student.program(options);
  TrainingFigures out;
  for (int i = 0; i < updates; ++i) {
    samples.give(program, i * batch, [&](const std::string& name) { return program.input(name); });
    const int64_t begin = now_ns();
    program.run_gradients();
    out.losses.push_back(program.loss());
    out.norms.push_back(program.gradient_norm());
    program.update(1e-4, 0.5 * out.norms.back());
    const double ms = static_cast<double>(now_ns() - begin) * 1e-6;
    out.step_ms = i == 0 ? ms : std::min(out.step_ms, ms);
  }
  out.transfers = program.transfers();
  return out;
}

// The time of the gradients' nodes on the GPU, from events.
void add_profile(Json& out, const train::Student& student, const train::RandomSamples& samples,
                 const Options& options) {
  train::ProgramOptions with;
  with.session = {.device = options.device(), .tune = Tune::off, .profile = true};
  train::TrainingProgram program = student.program(with);
  samples.give(program, 0, [&](const std::string& name) { return program.input(name); });
  for (int i = 0; i < (options.tiny ? 2 : 10); ++i) {
    program.run_gradients();
    program.discard();
  }
  put_nodes(out, program.profile());
}

// The largest difference, relative to the reference.
double difference(const std::vector<double>& got, const std::vector<double>& expected) {
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double of = std::fabs(got[i] - expected[i]) / std::max(1e-30, std::fabs(expected[i]));
    most = std::isfinite(of) ? std::max(most, of) : std::numeric_limits<double>::infinity();
  }
  return most;
}

struct Case {
  std::string role;
  train::TrainMode mode;
  Precision base = Precision::fp32;

  std::string how() const {
    if (mode == train::TrainMode::full) return "full";
    return base == Precision::fp32 ? "adapter" : fmt::format("adapter, base in {}", name(base));
  }
};

Json check_training(const Case& of, const Options& options, std::vector<std::string>& failures) {
  constexpr double kLossBound = 1e-3, kNormBound = 1e-2;  // networks enlarge rounding errors, update by update
  const int64_t batch = options.tiny ? 2 : 16;
  const int updates = options.tiny ? 2 : 5;
  const TempFolder folder;
  const std::vector<train::StudentNetwork> networks{
      train::zoo_network(folder.path(), of.role, (options.tiny ? "tiny_driving_" : "driving_") + of.role)};
  const train::RandomSamples samples(networks, batch * updates);
  train::StudentOptions asked{.networks = networks, .batch = batch, .mode = of.mode};
  asked.max_size = options.tiny ? "20%" : "1%";
  asked.base = of.base;
  asked.form = AdapterForm::cheaper;  // as training has it
  const train::Student student(asked, samples.fields());
  const TrainingFigures cpu = train_on(student, samples, "cpu", batch, updates);
  const TrainingFigures gpu = train_on(student, samples, options.device(), batch, updates);
  const TrainingFigures again = train_on(student, samples, options.device(), batch, updates);
  const double loss = difference(gpu.losses, cpu.losses), norm = difference(gpu.norms, cpu.norms);
  if (!(loss <= kLossBound))
    failures.push_back(fmt::format("losses differ by {:.2g}, allowed {:.2g}", loss, kLossBound));
  if (!(norm <= kNormBound))
    failures.push_back(fmt::format("norms differ by {:.2g}, allowed {:.2g}", norm, kNormBound));
  if (again.losses != gpu.losses || again.norms != gpu.norms) failures.push_back("other bits when it is repeated");
  Json programs = Json::array();
  for (const auto& [program, moved] : gpu.transfers) {
    programs.push_back({{"program", program},
                        {"launches", moved.launches},
                        {"bytes_to_gpu", moved.bytes_to_gpu},
                        {"bytes_to_host", moved.bytes_to_host}});
  }
  Json out{{"network", of.role},
           {"mode", of.how()},
           {"batch", batch},
           {"updates", updates},
           {"loss_difference", loss},
           {"norm_difference", norm},
           {"step_ms", std::min(gpu.step_ms, again.step_ms)},
           {"cpu_step_ms", cpu.step_ms},
           {"programs", std::move(programs)}};
  add_profile(out, student, samples, options);
  return out;
}

}  // namespace

Outcome check_trainings(const Options& options, const Json& go_on) {
  std::vector<Case> all;
  for (const char* role : {"policy", "vision"}) {
    all.push_back({role, train::TrainMode::adapter});
    all.push_back({role, train::TrainMode::full});
    all.push_back({role, train::TrainMode::adapter, Precision::fp8});
  }
  all.push_back({"policy", train::TrainMode::adapter, Precision::fp4});
  const auto title = [](const Case& of) { return fmt::format("{} {}", of.role, of.how()); };
  std::erase_if(all, [&](const Case& of) { return !options.takes(title(of)); });
  std::vector<std::string> names;
  for (const Case& of : all) names.push_back(title(of));
  const auto held = GpuDevice::open(options.ordinal);  // else each session would begin and end the driver's context
  return each_of(options, go_on, "trainings", names, [&](size_t i, std::vector<std::string>& failures) {
    return check_training(all[i], options, failures);
  });
}

}  // namespace sparkpilot::gpu_check
