// A training step of one of openpilot's networks on random samples: gradients and an AdamW update. Prints its time in
// ms, that of the gradients alone and the processor time of all threads, one line for each line on stdin (the number of
// steps to time), so that another engine can take turns with it (bench/peers/compare_training.py).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "hw/memory.h"
#include "onnx/import.h"
#include "passes/precision.h"
#include "runtime/session.h"
#include "tensor/fill_random.h"
#include "train/student.h"

using namespace sparkpilot;

int main(int argc, char** argv) {
  CLI::App app("time a training step");
  std::string file, role = "policy", kind = "dora", target, precision = "fp32";
  int64_t batch = 32, rank = 16;
  int threads = 0;
  app.add_option("file", file, "ONNX model")->required();
  app.add_option("--role", role, "vision, policy, supercombo or driver");
  app.add_option("--kind", kind, "dora, lora or full");
  app.add_option("--target", target, "layers with an adapter, a regular expression");
  app.add_option("--batch", batch);
  app.add_option("--rank", rank);
  app.add_option("--precision", precision, "of the products")->check(CLI::IsMember({"fp32", "bf16"}));
  size_t slowest = 0;
  bool exact = false;
  std::string form;
  app.add_option("--form", form, "of an adapter's layers; as in training if not given")
      ->check(CLI::IsMember({"branches", "weights", "cheaper"}));
  app.add_flag("--exact-norms", exact, "DoRA's norms from the changed weights");
  app.add_option("--threads", threads);
  app.add_option("--profile", slowest, "then so many nodes of a micro-batch, those that took longest");
  CLI11_PARSE(app, argc, argv);
  try {
    train::StudentOptions options{.networks = {{role, file}}, .batch = batch};
    if (kind == "full") options.mode = train::TrainMode::full;
    options.adapter = {.kind = kind == "lora" ? AdapterKind::lora : AdapterKind::dora, .target = target, .rank = rank};
    if (exact) options.norms = NormForm::exact;
    if (form.empty()) form = precision == "fp32" ? "cheaper" : "branches";
    options.form = form == "branches"  ? AdapterForm::branches
                   : form == "weights" ? AdapterForm::weights
                                       : AdapterForm::cheaper;
    std::vector<train::Field> fields;
    const Graph graph = load_onnx(file);
    for (const ValueId id : graph.inputs()) {
      const Value& v = graph.value(id);
      fields.push_back({v.name, v.dtype == DType::u8 ? DType::u8 : DType::f32, v.shape->removed(0)});
    }
    Session session(graph);
    session.run();
    fields.push_back({"teacher." + role, DType::f32, session.output(session.outputs()[0].name).shape.removed(0)});
    const train::Student student(options, fields);
    train::ProgramOptions settings;
    settings.session.threads = threads > 0 ? threads : available_processors();
    settings.session.tune = Tune::off;
    settings.session.passes.precision = *parse_precision(precision);
    settings.session.profile = slowest > 0;
    train::TrainingProgram program = student.program(settings);
    for (const TensorInfo& input : program.inputs()) fill_random(program.input(input.name), input.name, 1);
    const auto step = [&](int64_t ns[3]) {
      const int64_t start = now_ns();
      const std::clock_t busy = std::clock();
      program.run_gradients();
      const int64_t middle = now_ns();
      (void)program.gradient_norm();
      program.update(1e-5, 1);
      ns[0] = now_ns() - start;
      ns[1] = middle - start;
      ns[2] = static_cast<int64_t>(std::clock() - busy) * (1'000'000'000 / CLOCKS_PER_SEC);
    };
    int64_t ns[3];
    for (int i = 0; i < 3; ++i) step(ns);
    if (slowest > 0) {
      for (int i = 0; i < 3; ++i) step(ns);
      std::vector<NodeProfile> nodes = program.profile().nodes;
      std::ranges::sort(nodes, std::greater<>(), &NodeProfile::total_ns);
      for (size_t i = 0; i < std::min(slowest, nodes.size()); ++i) {
        fmt::print("{:9.3f} ms {} {} {} {}\n", static_cast<double>(nodes[i].total_ns) / 6e6, nodes[i].op,
                   nodes[i].kernel, nodes[i].name, nodes[i].shape);
      }
    }
    fmt::print("{} parameters, {} MB\n", student.parameters(), peak_memory_bytes().value_or(0) >> 20);
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      std::vector<double> all, gradients, processor;
      for (int i = 0; i < std::stoi(line); ++i) {
        step(ns);
        all.push_back(static_cast<double>(ns[0]) * 1e-6);
        gradients.push_back(static_cast<double>(ns[1]) * 1e-6);
        processor.push_back(static_cast<double>(ns[2]) * 1e-6);
      }
      fmt::print("{:.4f} {:.4f} {:.4f}\n", summarize(all).p50, summarize(gradients).p50, summarize(processor).p50);
      std::fflush(stdout);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
