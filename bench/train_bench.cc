// train_bench MODEL: the time of a training step of a stand-in model with all its weights, by parts, and the memory.
//
//   build/train_bench driving_policy --batch 32 --threads 2
//
// `--export FOLDER` writes what is trained: model.onnx, and batch.safetensors with the inputs, the target and, as
// metadata, the names of the weights. bench/peers/train_torch.py trains the same in PyTorch.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "hw/memory.h"
#include "onnx/zoo.h"
#include "passes/pass.h"
#include "passes/precision.h"
#include "passes/rebatch.h"
#include "sparkpilot/onnx.h"
#include "tensor/safetensors.h"
#include "train/losses.h"
#include "train/parameters.h"
#include "train/program.h"

namespace sparkpilot {
namespace {

struct Settings {
  std::string model, exported;
  int64_t batch = 32;
  int threads = 0, steps = 20, micro_batches = 1;
  int64_t max_activations = 0;
  bool profile = false;
  std::string precision = "fp32", kernels;
};

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void fill(const View& view, Random& random) {
  for (int64_t i = 0; i < view.elements(); ++i) {
    store_element(view.dtype, view.data, i,
                  is_float(view.dtype) ? random.normal()
                                       : static_cast<double>(random.integer(0, view.dtype == DType::u8 ? 255 : 1)));
  }
}

void print_profile(const Profile& profile, int runs) {
  std::map<std::string, std::pair<double, int>> by_kernel;
  for (const NodeProfile& node : profile.nodes) {
    auto& [ms, nodes] = by_kernel[node.op + " " + node.kernel];
    ms += static_cast<double>(node.total_ns) * 1e-6 / runs;
    ++nodes;
  }
  std::vector<std::pair<double, std::string>> lines;
  for (const auto& [name, sums] : by_kernel) {
    lines.emplace_back(sums.first, fmt::format("{:9.3f} ms {:4} {}", sums.first, sums.second, name));
  }
  std::ranges::sort(lines, std::greater<>());
  for (const auto& [ms, line] : lines) std::printf("%s\n", line.c_str());
}

void measure(const Settings& s) {
  const PassOptions passes{.off = {"recognise"}, .precision = Precision::fp32};
  Graph graph = build_zoo_model(s.model, 1);
  if (s.batch > 1) graph = rebatch(std::move(graph), s.batch, passes);
  prepare(graph, passes);
  std::vector<train::Parameter> parameters = train::all_weights(graph);
  for (const train::Parameter& each : parameters) graph.value(each.value).name = each.name;
  if (!s.exported.empty()) {
    make_folders(s.exported);
    save_onnx(graph, std::filesystem::path(s.exported) / "model.onnx");
  }
  Builder b(graph);
  const ValueId out = graph.outputs()[0].value, target = b.input("target", b.dtype(out), b.shape(out));
  const ValueId loss = train::mean_squared_error(b, out, target);
  const int64_t start = now_ns();
  const PassOptions computed{.precision = *parse_precision(s.precision)};
  train::TrainingProgram program(
      std::move(graph), loss, std::move(parameters), {},
      {.micro_batches = s.micro_batches,
       .max_activations = s.max_activations,
       .session = {.threads = s.threads, .passes = computed, .kernels = s.kernels, .profile = s.profile}});
  int64_t count = 0;
  for (const train::Parameter& each : program.parameters()) count += program.state(each.name).elements();
  std::printf("%s, batch %lld, %d threads: %lld parameters in %zu tensors, compiled in %.0f ms\n", s.model.c_str(),
              static_cast<long long>(s.batch), program.options().session.threads, static_cast<long long>(count),
              program.parameters().size(), static_cast<double>(now_ns() - start) * 1e-6);
  Random random(1);
  const std::vector<TensorInfo> inputs = program.inputs();
  SafetensorsFile batch;
  for (const TensorInfo& info : inputs) {
    const View view = program.input(info.name);
    fill(view, random);
    std::memcpy(program.evaluation_input(info.name).data, view.data, static_cast<size_t>(view.bytes()));
    batch.tensors.emplace_back(info.name, Tensor(view.dtype, view.shape));
    std::memcpy(batch.tensors.back().second.raw(), view.data, static_cast<size_t>(view.bytes()));
  }
  for (const train::Parameter& each : program.parameters())
    batch.metadata.emplace(each.name, each.decay ? "decay" : "");
  if (!s.exported.empty()) save_safetensors(std::filesystem::path(s.exported) / "batch.safetensors", batch);
  std::vector<double> gradients, norms, updates, evaluations, steps, losses, processor;
  for (int i = 0; i < s.steps + 2; ++i) {
    int64_t at = now_ns();
    const int64_t begin = at;
    const std::clock_t busy = std::clock();
    const auto lap = [&](std::vector<double>& to) {
      const int64_t now = now_ns();
      if (i >= 2) to.push_back(static_cast<double>(now - at) * 1e-6);
      at = now;
    };
    for (int micro = 0; micro < s.micro_batches; ++micro) program.run_gradients();
    lap(gradients);
    losses.push_back(program.loss());
    program.gradient_norm();
    lap(norms);
    program.update(1e-4, 1);
    lap(updates);
    if (i >= 2) steps.push_back(static_cast<double>(at - begin) * 1e-6);
    if (i >= 2) processor.push_back(static_cast<double>(std::clock() - busy) * 1e3 / CLOCKS_PER_SEC);
    program.run_evaluation();
    lap(evaluations);
  }
  std::printf(
      "ms, medians of %d: step %.2f (gradients %.2f, norm %.2f, update %.2f), forward alone %.2f; peak %lld MB\n",
      s.steps, median(steps), median(gradients), median(norms), median(updates), median(evaluations),
      static_cast<long long>(peak_memory_bytes().value_or(0) >> 20));
  const train::TrainingProgram::Activations activations = program.activations();
  std::printf("activations %lld bytes, %d nodes again, %.1f %% more work; %.2f ms of processor time a step\n",
              static_cast<long long>(activations.bytes), activations.nodes_again, 100 * activations.share_again,
              median(processor));
  std::printf("losses:");
  for (size_t i = 0; i < std::min<size_t>(losses.size(), 10); ++i) std::printf(" %.7g", losses[i]);
  std::printf("\n");
  if (s.profile) print_profile(program.profile(), (s.steps + 2) * s.micro_batches);
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  sparkpilot::Settings settings;
  CLI::App app("Measures a training step of a stand-in model with all its weights.");
  app.add_option("model", settings.model, "A stand-in model, such as driving_policy")->required();
  app.add_option("--batch", settings.batch, "Entries of a micro-batch");
  app.add_option("--threads", settings.threads, "0: all processors");
  app.add_option("--steps", settings.steps, "Steps that are measured")->check(CLI::Range(1, 100000));
  app.add_option("--micro-batches", settings.micro_batches, "Of an update");
  app.add_option("--max-activations", settings.max_activations, "Bytes; 0: any number");
  app.add_option("--precision", settings.precision, "Of the products: fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--kernels", settings.kernels, "As SPARKPILOT_KERNELS: no-onednn is a machine without oneDNN");
  app.add_flag("--profile", settings.profile, "Also the time of each op and kernel in a micro-batch");
  app.add_option("--export", settings.exported, "Write the model and the batch into this folder");
  CLI11_PARSE(app, argc, argv);
  try {
    sparkpilot::measure(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
