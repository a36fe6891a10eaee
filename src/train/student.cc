#include "train/student.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "adapters/load_model.h"
#include "adapters/merge.h"
#include "adapters/size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/with_file.h"
#include "ir/infer.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "passes/pass.h"
#include "passes/rebatch.h"
#include "passes/small_weights.h"
#include "route/contract/outputs.h"
#include "sparkpilot/builder.h"
#include "tensor/finite.h"
#include "train/compose.h"
#include "train/dataset_labels.h"
#include "train/first_weights.h"
#include "train/losses.h"
#include "train/parameters.h"
#include "train/plan_errors.h"

namespace sparkpilot::train {
namespace {

namespace fs = std::filesystem;

std::string_view field_prefix(Target target) { return target == Target::teacher ? "teacher." : "labels."; }

// The network at a batch, in f32, with its layers named by their paths; its result without a last rounding.
Graph network_graph(const Graph& file, int64_t batch) {
  Graph net = file;
  name_layers(net);
  if (batch > 1) net = rebatch(std::move(net), batch);
  prepare(net, {.precision = Precision::fp32});
  const ValueId out = net.outputs()[0].value;
  const NodeId last = net.value(out).producer;
  if (last.present() && net.node(last).op->name == "Cast" && net.value(out).dtype != DType::f32) {
    net.set_output(0, net.node(last).inputs[0]);
  }
  return net;
}

void expect_driving_model(const Graph& graph, const std::string& file) {
  if (!output_slices(graph).empty() && graph.outputs().size() == 1) return;
  fail("{}: not one of openpilot's models: expected one output, with output_slices in the metadata", file);
}

bool is_elementwise_with_data(const Graph& graph, const Node& node) {
  return node.op->traits.elementwise && std::ranges::any_of(node.inputs, [&](ValueId v) {
           return v.present() && graph.value(v).kind != ValueKind::constant;
         });
}

// As exporters name what a Constant node gives: tables and masks of the network's own, not weights.
bool is_exporters_constant(std::string_view name) {
  return name.ends_with("_output_0") && name.substr(name.rfind('/') + 1).starts_with("Constant");
}

// What mode full trains of a network: its weights, as far as the file has a constant of that name to hold them.
std::map<ValueId, std::string> file_weights(const Graph& net, const Graph& file) {
  std::map<std::string, const Value*> in_file;
  for (int i = 0; i < file.value_count(); ++i) {
    const Value& v = file.value(ValueId{i});
    if (v.kind == ValueKind::constant && is_float(v.dtype) && !v.name.empty()) in_file[v.name] = &v;
  }
  std::map<ValueId, std::string> out;
  for (const NodeId id : net.order()) {
    const Node& node = net.node(id);
    const bool weighs = node.op->traits.product || node.op->traits.norm;
    if (!weighs && !is_elementwise_with_data(net, node)) continue;
    for (const ValueId input : node.inputs) {
      if (!input.present()) continue;
      const Value& v = net.value(input);
      if (v.kind != ValueKind::constant || v.dtype != DType::f32 || v.constant.elements() < 2) continue;
      if (is_exporters_constant(v.name)) continue;
      const auto found = in_file.find(v.name);
      if (found != in_file.end() && found->second->constant.shape() == v.constant.shape()) out[input] = v.name;
    }
  }
  return out;
}

// A frame's features in a network's output; absent if it has none.
ValueId hidden_state(Builder& b, ValueId output, const OutputSlices& slices) {
  const auto hidden = std::ranges::find(slices, "hidden_state", [](const auto& each) { return each.first; });
  if (hidden == slices.end()) return {};
  const auto [begin, end] = hidden->second.resolve(b.shape(output)[1]);
  return b.add("Slice", {output, b.ints({begin}), b.ints({end}), b.ints({1})});
}

}  // namespace

Student::Student(const StudentOptions& options, std::span<const Field> fields) : options_(options) {
  if (options.networks.empty()) fail_internal("a student without a network");
  if (options.batch < 1) fail("batch {}: expected 1 or more", options.batch);
  if (options.base != Precision::fp32 && options.mode != TrainMode::adapter) {
    fail("frozen weights are kept in {} only with an adapter: in mode full all weights are trained",
         name(options.base));
  }
  graph_.opsets[""] = kNewestOpset;
  std::vector<Adapter> init;
  for (const fs::path& folder : options.init) init.push_back(load_adapter(folder));
  for (const StudentNetwork& network : options.networks) add_network(network, init, fields);
  if (pairs_.empty() && std::ranges::any_of(options.networks, [](const auto& n) { return !n.teacher.empty(); })) {
    fail("no layer's path matches \"{}\": there is nothing to compare with the teacher's", options.matched);
  }
  if (options.norms != NormForm::factored && norms_.empty()) {
    fail("exact norms are for DoRA: the adapter that is trained has none");
  }
  add_losses(fields);
  for (size_t i = 0; i < init.size(); ++i) {
    const bool used = std::ranges::any_of(networks_, [&](const Network& n) {
      return n.adapter && n.adapter->base_fingerprint == init[i].base_fingerprint;
    });
    if (!used) fail("{}: made for none of these networks", options.init[i].string());
  }
}

ValueId Student::input(const std::string& name, DType dtype, const Shape& shape, std::span<const Field> fields) {
  const auto field = std::ranges::find(fields, name, &Field::name);
  if (field == fields.end() && name.starts_with("teacher.")) {
    fail(
        "the data set holds no outputs of a teacher ({}): build it with one, or compare with what is true "
        "(--against labels)",
        name);
  }
  if (field == fields.end() && name.starts_with("labels.")) {
    fail(
        "the data set holds no labels ({}): of recorded drives nothing is known to be true; compare with its teacher "
        "(--against teacher)",
        name);
  }
  if (field == fields.end()) fail("the samples have no field \"{}\", which the model reads", name);
  const Shape whole = field->shape.inserted(0, options_.batch);
  if (!(whole == shape)) {
    fail("the samples' field \"{}\" is {}, the model expects {}", name, field->shape.str(), shape.removed(0).str());
  }
  if (!inputs_.contains(name)) inputs_[name] = graph_.add_input(name, field->dtype, whole);
  const ValueId value = inputs_[name];
  if (field->dtype == dtype) return value;
  return Builder(graph_).add("Cast", {value}, {{"to", onnx_code(dtype)}});
}

std::vector<Tensor> Student::first_inputs(const Graph& net) const {
  std::vector<Tensor> out;
  for (const ValueId id : net.inputs()) {
    const Value& v = net.value(id);
    const auto found = options_.first.find(v.name);
    if (found == options_.first.end()) fail("the first samples have no field \"{}\"", v.name);
    out.push_back(convert(found->second, v.dtype));
  }
  return out;
}

void Student::add_network(const StudentNetwork& from, std::span<const Adapter> init, std::span<const Field> fields) {
  Network network{.from = from,
                  .file = load_model(from.file),
                  .adapter = {},
                  .hash = model_hash(from.file),
                  .prefix = {},
                  .weights = {},
                  .scaled = {},
                  .images = {}};
  const std::string file = from.file.string();
  expect_driving_model(network.file, file);
  if (options_.networks.size() > 1) network.prefix = from.role + "/";
  Graph net = network_graph(network.file, options_.batch);
  StudentLayers layers;
  std::vector<LayerResult> results;
  if (!from.teacher.empty()) {
    for (const Layer& layer : find_layers(network.file)) layers.paths.insert(layer.path);
    results = name_results(network.file, net);
  }
  // What is trained, as values of `net` first.
  std::vector<Parameter> parameters;
  AppliedAdapter applied;
  AdapterPlan plan;
  if (options_.mode == TrainMode::adapter) {
    const std::string fingerprint = base_fingerprint(network.file);
    for (size_t i = 0; i < init.size(); ++i) {
      if (init[i].base_fingerprint != fingerprint) continue;
      if (network.adapter) fail("{}: a second adapter for {}, which begins with one", options_.init[i].string(), file);
      network.adapter = init[i];
    }
    AdapterOptions adapter = options_.adapter;
    adapter.stored = stored_type(options_.stored, network.file);
    if (!adapter.rank) adapter.max_bytes = size_limit(options_.max_size, network.file, "--max-size");
    if (!network.adapter) network.adapter = create_adapter(network.file, adapter, &plan);
    // As without an adapter: of the products without one the last ones are heads, too.
    std::map<ValueId, WeightFormat> frozen;
    for (const auto& [id, format] : plan_small(net, options_.base)) frozen[net.node(id).inputs[1]] = format;
    const AdapterForm form = options_.base == Precision::fp32 ? options_.form : AdapterForm::branches;
    const int64_t steps_of = options_.form_batch > 0 ? options_.form_batch : options_.batch;
    applied = apply_adapter(net, *network.adapter, match_layers(network.file, *network.adapter), form,
                            static_cast<double>(steps_of) / static_cast<double>(options_.batch));
    for (const AdapterParameter& each : applied.parameters) parameters.push_back({each.value, each.name, each.decay});
    if (options_.base != Precision::fp32) store_base(network, net, frozen);
  } else {
    const std::map<ValueId, std::string> weights = file_weights(net, network.file);
    for (const auto& [value, name] : weights) {
      parameters.push_back({value, name, decays(net.value(value).constant.shape())});
      network.weights.insert(name);
    }
    if (options_.fresh) centre_layers(net, weights, first_inputs(net));
    if (const auto units = options_.units.find(from.role); units != options_.units.end()) {
      network.scaled = scale_outputs(net, units->second, weights, network.prefix, options_.fresh);
      network.images = scale_images(net, weights);
      infer(net);
    }
    if (parameters.empty()) fail("{}: no weights to train were found", file);
  }
  Vision vision;
  if (const auto before = outputs_.find("vision"); before != outputs_.end())
    vision = {before->second, output_slices(networks_[0].file), networks_[0].from.file.string()};
  const ValueMap<ValueId> became = append_graph(graph_, net, inputs_of(net, file, vision, fields));
  outputs_[from.role] = became[net.outputs()[0].value];
  for (const Parameter& each : parameters) {
    parameters_.push_back({became[each.value], network.prefix + each.name, each.decay});
  }
  for (AdapterNorm norm : applied.norms) {
    const ValueId constant = became[norm.value];
    norm.name = network.prefix + norm.name;
    norm.a = network.prefix + norm.a;
    norm.b = network.prefix + norm.b;
    norm.value = graph_.add_state(graph_.value(constant).constant, norm.name, false);
    graph_.replace_uses(constant, norm.value);
    graph_.set_next(norm.value, norm.value);
    norms_.push_back(std::move(norm));
  }
  if (!from.teacher.empty()) {
    layers.results = placed(results, net, became);
    add_teacher(from, layers, fields);
  }
  tell_of(network, plan, parameters.size());
  networks_.push_back(std::move(network));
}

// What a network reads, by its inputs' names.
std::map<std::string, ValueId> Student::inputs_of(const Graph& net, const std::string& file, const Vision& vision,
                                                  std::span<const Field> fields) {
  std::map<std::string, ValueId> given;
  for (const ValueId id : net.inputs()) {
    const Value& v = net.value(id);
    if (!v.shape) fail("{}: the input \"{}\" has open dimensions", file, v.name);
    given[v.name] = input(v.name, v.dtype, *v.shape, fields);
    if (v.name != "features_buffer" || !vision.output.present()) continue;
    // The newest row is this frame's, from its own vision.
    Builder b(graph_, "features");
    const ValueId now = hidden_state(b, vision.output, vision.slices);
    if (!now.present()) fail("{}: has no hidden_state", vision.file);
    const int64_t rows = (*v.shape)[1];
    const ValueId row = b.add("Unsqueeze", {now, b.ints({1})});
    const ValueId past = b.add("Slice", {inputs_["features_buffer"], b.ints({0}), b.ints({rows - 1}), b.ints({1})});
    ValueId all = b.add("Concat", {past, row}, {{"axis", int64_t{1}}});
    if (v.dtype != DType::f32) all = b.add("Cast", {all}, {{"to", onnx_code(v.dtype)}});
    given[v.name] = all;
  }
  return given;
}

// A frozen network beside the student's.
void Student::add_teacher(const StudentNetwork& from, const StudentLayers& student, std::span<const Field> fields) {
  const std::string file = from.teacher.string();
  const Graph teacher = load_model(from.teacher);
  expect_driving_model(teacher, file);
  with_file(from.teacher, [&] {
    Graph net = network_graph(teacher, options_.batch);
    const std::vector<LayerResult> results = name_results(teacher, net, options_.matched);
    const ValueMap<ValueId> became = append_graph(graph_, net, inputs_of(net, file, teachers_vision_, fields));
    if (from.role == "vision") teachers_vision_ = {became[net.outputs()[0].value], output_slices(teacher), file};
    const std::vector<LayerPair> pairs = pair_results(Builder(graph_), results, placed(results, net, became), student);
    pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
    notes_.push_back(fmt::format("{}: results of {} layers are compared with the teacher's", from.role, pairs.size()));
  });
}

// QLoRA (arXiv:2305.14314): what is frozen is stored in less, and the adapter learns on it.
void Student::store_base(Network& network, Graph& net, const std::map<ValueId, WeightFormat>& weights) {
  std::map<NodeId, WeightFormat> plan;
  for (const NodeId id : net.order()) {
    const Node& node = net.node(id);
    if (!node.op->traits.product || node.inputs.size() < 2) continue;
    const auto found = weights.find(node.inputs[1]);
    if (found != weights.end()) plan[id] = found->second;
  }
  if (plan.empty()) {
    fail("{}: no frozen weights that could be kept in {}", network.from.file.string(), name(options_.base));
  }
  int64_t bytes = 0;
  for (const auto& [value, format] : weights) bytes += net.value(value).constant.bytes();
  store_small(net, plan, {}, false);
  Graph shell;
  shell.metadata = network.file.metadata;
  network.file = std::move(shell);
  notes_.push_back(fmt::format("{}: frozen weights of {} bytes in fp32 are kept in {}", network.from.role, bytes,
                               options_.base == Precision::fp4 ? "NVFP4, of convolutions in E4M3" : "E4M3"));
}

void Student::tell_of(const Network& network, const AdapterPlan& plan, size_t parameters) {
  std::string text = network.from.role + ": ";
  if (!network.adapter) {
    notes_.push_back(text + fmt::format("{} tensors of weights", parameters));
    return;
  }
  const Adapter& adapter = *network.adapter;
  text += fmt::format("{} on {} layers, {} bytes in {}", name(adapter.kind), adapter.layers.size(), adapter.bytes(),
                      stored_name(adapter.stored));
  std::map<std::string, int> left_out;
  for (const AdapterPlan::Row& row : plan.rows) {
    if (row.rank == 0) ++left_out[row.why_not];
  }
  for (const auto& [why, count] : left_out) text += fmt::format("; {} left out ({})", count, why);
  notes_.push_back(std::move(text));
}

ValueId Student::limited(Builder& b, ValueId raw, const std::string& role) const {
  const auto units = options_.units.find(role);
  if (units == options_.units.end() || options_.least_scale == 0) return raw;
  Tensor least(DType::f32, Shape{b.shape(raw)[1]});
  std::ranges::fill(least.data<float>(), std::numeric_limits<float>::lowest());
  for (const int64_t k : units->second.log_scales) {
    const auto at = static_cast<size_t>(k);
    least.data<float>()[at] = units->second.mean[at] + static_cast<float>(std::log(options_.least_scale));
  }
  return b.add("Max", {raw, b.constant(least)});
}

void Student::add_losses(std::span<const Field> fields) {
  Builder b(graph_, "loss");
  std::vector<HeadLoss> losses;
  for (const Network& network : networks_) {
    const ValueId raw = outputs_.at(network.from.role);
    const ValueId target = input(target_field(network), DType::f32, b.shape(raw), fields);
    const OutputSlices slices = output_slices(network.file);
    for (HeadLoss& each : head_losses(b, slices, limited(b, raw, network.from.role), target, options_.features)) {
      if (options_.target == Target::labels && !is_labelled(each.head)) continue;
      if (!each.known) notes_.push_back(fmt::format("{}: the mean of squares for {}", network.from.role, each.head));
      reports_.emplace_back("loss." + each.head, each.loss);
      losses.push_back(std::move(each));
    }
    ValueId driven, valid;
    if (std::ranges::find(fields, "driven.plan", &Field::name) != fields.end()) {
      using namespace drive;  // NOLINT(google-build-using-namespace): openpilot's sizes
      driven = input("driven.plan", DType::f32, {options_.batch, kPoints, kPlanWidth}, fields);
      valid = input("driven.valid", DType::f32, {options_.batch, kPoints}, fields);
    }
    for (auto& report : driving_errors(b, slices, raw, target, driven, valid)) reports_.push_back(std::move(report));
    reports_.emplace_back("output." + network.from.role, raw);
  }
  add_features(b);
  if (!pairs_.empty()) {
    losses.push_back({"layers", layers_loss(b, pairs_)});
    reports_.emplace_back("loss.layers", losses.back().loss);
  }
  loss_ = weighted_sum(b, losses, options_.weights);
}

// What the first network with features says of a frame, which is what the model remembers of it.
void Student::add_features(Builder& b) {
  for (const Output& each : outputs()) {
    const ValueId features = hidden_state(b, outputs_.at(each.role), each.slices);
    if (!features.present() || b.shape(features)[1] != drive::kFeatures) continue;
    parts_.emplace_back("features", features);
    return;
  }
}

std::optional<size_t> Student::features_part() const {
  return parts_.empty() ? std::nullopt : std::optional<size_t>(0);
}

std::string Student::target_field(const Network& network) const {
  return std::string(field_prefix(options_.target)) + network.from.role;
}

std::vector<Student::Output> Student::outputs() const {
  std::vector<Output> out;
  for (const Network& network : networks_) {
    out.push_back({network.from.role, output_slices(network.file), target_field(network),
                   (*graph_.value(outputs_.at(network.from.role)).shape)[1]});
  }
  return out;
}

TrainingProgram Student::program(ProgramOptions options) const {
  options.extra_updates = [norms = norms_, form = options_.norms](ExtraUpdates& update) {
    for (const AdapterNorm& norm : norms) {
      update.renew(norm.name, renewed_norm(update.b, norm, update.updated(norm.a), update.updated(norm.b), form));
    }
  };
  options.parts = parts_;
  return {graph_, loss_, parameters_, reports_, options};
}

int64_t Student::parameters() const {
  int64_t sum = 0;
  for (const Parameter& each : parameters_) sum += graph_.value(each.value).constant.elements();
  return sum;
}

std::string Student::trained() const {
  std::string text;
  for (const Network& network : networks_) {
    text += fmt::format("{}{} {:016x} ", text.empty() ? "" : ", ", network.from.role, network.hash);
    if (!network.adapter) {
      text += "whole";
      continue;
    }
    Fnv scales;
    for (const AdapterLayer& layer : network.adapter->layers) {
      const double scale = network.adapter->scale(layer);
      scales.bytes(&scale, sizeof scale);
    }
    text += fmt::format("by {} with scales {:08x}", sparkpilot::name(network.adapter->kind), scales.value() >> 32);
  }
  return text;
}

int64_t Student::adapter_bytes() const {
  int64_t sum = 0;
  for (const Network& network : networks_) sum += network.adapter ? network.adapter->bytes() : 0;
  return sum;
}

Adapter Student::trained_adapter(const Network& network, const TrainingProgram& program, bool average) const {
  Adapter out = *network.adapter;
  for (AdapterLayer& layer : out.layers) {
    const auto take = [&](Tensor& tensor, std::string_view end) {
      const std::string name = adapter_parameter_name(layer.path, end);
      tensor = program.state(network.prefix + name + (average ? "/ema" : "")).clone();
    };
    take(layer.a, kLoraA);
    take(layer.b, kLoraB);
    if (layer.magnitude.present()) take(layer.magnitude, kLoraMagnitude);
  }
  return out;
}

Graph Student::trained_model(const Network& network, const TrainingProgram& program, bool average) const {
  Graph out = options_.base == Precision::fp32 ? network.file : load_model(network.from.file);
  if (network.adapter) {
    if (options_.base != Precision::fp32 && base_fingerprint(out) != network.adapter->base_fingerprint) {
      fail("{}: is another model than when the training began", network.from.file.string());
    }
    const Adapter adapter = as_stored(trained_adapter(network, program, average));  // as `adapter merge` reads it
    merge_adapters(out, {{&adapter}});
    return out;
  }
  std::map<std::string, Tensor> trained;
  for (const std::string& name : network.weights) {
    trained[name] = program.state(network.prefix + name + (average ? "/ema" : ""));
  }
  for (const ImageLayer& layer : network.images) {
    std::tie(trained[layer.weight], trained[layer.bias]) =
        unscaled_image_layer(trained[layer.weight], trained[layer.bias]);
  }
  for (const ScaledLayer& layer : network.scaled) {
    const Tensor &scale = program.state(layer.scale), &mean = program.state(layer.mean);
    trained[layer.weight] = unscaled_weight(trained[layer.weight], scale, layer.transposed);
    trained[layer.bias] = unscaled_bias(trained[layer.bias], scale, mean);
  }
  for (int i = 0; i < out.value_count(); ++i) {
    Value& v = out.value(ValueId{i});
    const auto found = trained.find(v.name);
    if (v.kind != ValueKind::constant || found == trained.end()) continue;
    v.constant = convert(found->second, v.dtype);
    if (!all_finite(v.constant.view())) {
      fail("the trained \"{}\" has values that are not finite in {}", v.name, sparkpilot::name(v.dtype));
    }
  }
  forget_merges(out);
  mark_as_trained(out);
  return out;
}

fs::path Student::model_file(const Network& network, const fs::path& out) const {
  const ModelName base = parse_model_name(network.from.file);
  const fs::path file = out / base.file.filename();
  for (const fs::path& read : files_of(base)) refuse_to_replace(file, read);
  if (!network.from.teacher.empty()) {
    for (const fs::path& read : files_of(parse_model_name(network.from.teacher))) refuse_to_replace(file, read);
  }
  return file;
}

void Student::check_save(const fs::path& out, bool merged) const {
  for (const Network& network : networks_) {
    if (!network.adapter || merged) model_file(network, out);
  }
}

std::vector<fs::path> Student::save(const TrainingProgram& program, const fs::path& out, bool average,
                                    bool merged) const {
  std::vector<Adapter> adapters;
  std::vector<Graph> models;
  for (const Network& network : networks_) {
    if (network.adapter) check_values(adapters.emplace_back(trained_adapter(network, program, average)));
    if (!network.adapter || merged) models.push_back(trained_model(network, program, average));
  }
  std::vector<fs::path> paths;
  for (size_t i = 0; i < adapters.size(); ++i) {
    paths.push_back(out / (networks_.size() > 1 ? "adapter_" + networks_[i].from.role : "adapter"));
    save_adapter(adapters[i], paths.back());
  }
  for (size_t i = 0; i < models.size(); ++i) {
    const fs::path file = model_file(networks_[i], out);
    make_folders(out);
    save_onnx(models[i], file);
    paths.push_back(file);
  }
  return paths;
}

}  // namespace sparkpilot::train
