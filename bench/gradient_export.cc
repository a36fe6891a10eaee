// gradient_export FILE --out FOLDER: the gradients of a network's weights, or of an adapter's, as a training step
// computes them, with all that another engine needs to compute them, too (bench/peers/compare_gradients.py).
//
// FOLDER/model.onnx is what is trained, in f32, an adapter's nodes included; the loss is the mean of its outputs'
// squared differences from targets. FOLDER/step.safetensors holds the inputs and targets by name, and the gradients as
// "gradient NAME"; its metadata says which constants of the model are trained.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "adapters/apply.h"
#include "adapters/layers.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "ir/dimensions.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "passes/rebatch.h"
#include "sparkpilot/builder.h"
#include "tensor/safetensors.h"
#include "train/losses.h"
#include "train/parameters.h"
#include "train/program.h"

namespace sparkpilot {
namespace {

struct Settings {
  std::string file, out, kind = "full", form = "cheaper";
  int64_t batch = 2, rank = 4;
  int threads = 1;
  uint64_t seed = 1;
};

// Deterministic values; bytes for pictures, small whole numbers for indices.
void fill(const View& view, Random& random) {
  for (int64_t i = 0; i < view.elements(); ++i) {
    store_element(view.dtype, view.data, i,
                  is_float(view.dtype) ? random.normal()
                                       : static_cast<double>(random.integer(0, view.dtype == DType::u8 ? 255 : 1)));
  }
}

Tensor copied(const View& view) {
  Tensor out(view.dtype, view.shape);
  std::memcpy(out.raw(), view.data, static_cast<size_t>(view.bytes()));
  return out;
}

// An adapter that has learned: B is zero in a new one, and so would be the gradient of A.
Adapter learned_adapter(const Graph& file, const Settings& s) {
  AdapterOptions options{.rank = s.rank, .seed = s.seed};
  options.kind = s.kind == "lora" ? AdapterKind::lora : s.kind == "rslora" ? AdapterKind::rslora : AdapterKind::dora;
  Adapter adapter = create_adapter(file, options);
  Random random(s.seed + 1);
  for (AdapterLayer& layer : adapter.layers) {
    for (int64_t i = 0; i < layer.b.elements(); ++i) {
      store_element(layer.b.dtype(), layer.b.raw(), i, 0.02 * random.normal());
    }
  }
  return adapter;
}

std::vector<train::Parameter> add_adapter(Graph& net, const Graph& file, const Settings& s) {
  const Adapter adapter = learned_adapter(file, s);
  std::vector<train::Parameter> out;
  const AdapterForm form = s.form == "branches"  ? AdapterForm::branches
                           : s.form == "weights" ? AdapterForm::weights
                                                 : AdapterForm::cheaper;
  for (const AdapterParameter& each : apply_adapter(net, adapter, match_layers(file, adapter), form).parameters) {
    out.push_back({each.value, each.name, each.decay});
  }
  return out;
}

void run(const Settings& s) {
  const PassOptions passes{.off = {"recognise"}, .precision = Precision::fp32};
  Graph file = load_onnx(s.file);
  bind_open_inputs(file);
  Graph net = file;
  name_layers(net);
  if (s.batch > 1) net = rebatch(std::move(net), s.batch, passes);
  prepare(net, passes);
  for (size_t i = 0; i < net.outputs().size(); ++i) {  // without a last rounding
    const ValueId output = net.outputs()[i].value;
    const NodeId last = net.value(output).producer;
    if (last.present() && net.node(last).op->name == "Cast" && net.value(output).dtype != DType::f32) {
      net.set_output(i, net.node(last).inputs[0]);
    }
  }
  const bool full = s.kind == "full";
  std::vector<train::Parameter> parameters = full ? train::all_weights(net) : add_adapter(net, file, s);
  for (const train::Parameter& each : parameters) net.value(each.value).name = each.name;
  make_folders(s.out);
  save_onnx(net, std::filesystem::path(s.out) / "model.onnx");

  Builder b(net);
  ValueId loss;
  std::vector<Graph::Output> outputs(net.outputs());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId value = outputs[i].value;
    const ValueId target = b.input("target " + std::to_string(i), b.dtype(value), b.shape(value));
    const ValueId part = train::mean_squared_error(b, value, target);
    loss = loss.present() ? b.add("Add", {loss, part}) : part;
  }
  train::TrainingProgram program(std::move(net), loss, std::move(parameters), {},
                                 {.session = {.threads = s.threads, .tune = Tune::off}});
  SafetensorsFile step;
  Random random(s.seed);
  for (const TensorInfo& info : std::vector<TensorInfo>(program.inputs())) {
    const View view = program.input(info.name);
    fill(view, random);
    step.tensors.emplace_back(info.name, copied(view));
  }
  program.run_gradients();
  const std::span<float> sums = program.gradient_sums();
  size_t at = 0;
  for (const train::Parameter& each : program.parameters()) {
    const Shape shape = program.state(each.name).shape();
    Tensor gradient(DType::f32, shape);
    std::memcpy(gradient.raw(), sums.data() + at, static_cast<size_t>(shape.elements()) * sizeof(float));
    constexpr size_t kLine = 16;  // floats of 64 bytes, to which each parameter is padded
    at += (static_cast<size_t>(shape.elements()) + kLine - 1) / kLine * kLine;
    step.tensors.emplace_back("gradient " + each.name, std::move(gradient));
    step.metadata.emplace(each.name, "trained");
  }
  if (at != sums.size()) fail_internal("{} of {} gradients were read", at, sums.size());
  save_safetensors(std::filesystem::path(s.out) / "step.safetensors", step);
  std::printf("%zu tensors, loss %.9g\n", program.parameters().size(), program.loss());
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  sparkpilot::Settings settings;
  CLI::App app("Writes a training step's gradients, and what they are of.");
  app.add_option("file", settings.file, "ONNX model")->required();
  app.add_option("--out", settings.out, "Folder")->required();
  app.add_option("--kind", settings.kind, "full, dora, lora or rslora");
  app.add_option("--batch", settings.batch, "Entries");
  app.add_option("--rank", settings.rank, "Of every layer");
  app.add_option("--form", settings.form, "Of an adapter's layers (adapters/apply.h); training has the cheaper one")
      ->check(CLI::IsMember({"branches", "weights", "cheaper"}));
  app.add_option("--threads", settings.threads, "Of the program");
  app.add_option("--seed", settings.seed, "Of inputs, targets and the adapter");
  CLI11_PARSE(app, argc, argv);
  try {
    sparkpilot::run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
