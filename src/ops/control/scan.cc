// Scan: runs a body over slices of its scan inputs, carrying states along.
//
// Inputs: states, scan inputs, captured values. The body returns the next states and one slice of each scan output.
// Version 8 also has a batch axis: it runs the body separately for each sample, up to that sample's length.
#include <algorithm>

#include "base/error.h"
#include "ops/control/body.h"
#include "ops/cpu/move/copy.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::scan_ops {
namespace {

struct Layout {
  int first, states, scans, captures;  // node inputs: [first, ...) states, scan inputs, captured values
  int scan_outputs;
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
};

std::vector<int64_t> list(const Attributes& attrs, std::string_view key, int size) {
  std::vector<int64_t> values = attrs.integers(key, std::vector<int64_t>(static_cast<size_t>(size), 0));
  if (static_cast<int>(values.size()) != size) fail("{} has {} entries, expected {}", key, values.size(), size);
  return values;
}

template <bool kBatched>
Layout layout(const Attributes& attrs, int inputs, int outputs) {
  Layout l{};
  l.first = kBatched ? 1 : 0;
  l.captures = capture_count(attrs, inputs);
  const int64_t scans = attrs.integer("num_scan_inputs");
  const int own = inputs - l.captures - l.first;
  if (scans < 1 || scans > own) fail("num_scan_inputs is {}, the node has {} inputs", scans, own);
  l.scans = static_cast<int>(scans);
  l.states = own - l.scans;
  l.scan_outputs = outputs - l.states;
  if (l.scan_outputs < 0) fail("{} outputs asked for, there are {} states", outputs, l.states);
  l.input_axes = list(attrs, "scan_input_axes", l.scans);
  l.input_directions = list(attrs, kBatched ? "directions" : "scan_input_directions", l.scans);
  l.output_axes = list(attrs, "scan_output_axes", l.scan_outputs);
  l.output_directions = list(attrs, "scan_output_directions", l.scan_outputs);
  return l;
}

template <bool kBatched>
void infer(InferContext& c) {
  const Layout l = layout<kBatched>(c.attrs, c.input_count(), c.output_count());
  std::vector<TensorType> types = input_types(c, l.first, c.input_count());
  int64_t length = -1, samples = -1;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].dtype == DType::none) fail("input {} is missing", i + static_cast<size_t>(l.first));
    const int scan = static_cast<int>(i) - l.states;
    if (scan >= l.scans) break;
    Shape& shape = types[i].shape;
    if (kBatched) {
      if (shape.rank() < 1) fail("input {} has no batch axis", i + 1);
      if (samples >= 0 && shape[0] != samples) fail("input {} has {} samples, others {}", i + 1, shape[0], samples);
      samples = shape[0];
      shape = shape.removed(0);
    }
    if (scan < 0) continue;
    const int axis = normalize_axis(l.input_axes[static_cast<size_t>(scan)], shape.rank());
    if (length >= 0 && shape[axis] != length) fail("scan input {} has {} slices, others {}", scan, shape[axis], length);
    length = shape[axis];
    shape = shape.removed(axis);
  }
  if (kBatched && c.has(0)) {
    expect_index_dtype(c, 0);
    if (!(c.shape(0) == Shape{samples})) fail("sequence_lens have shape {}, expected [{}]", c.shape(0).str(), samples);
  }
  const Graph& body = checked_body(c.attrs, "body", types.size(), static_cast<size_t>(c.output_count()));
  const std::vector<DType> given = body_output_types(body, types);
  for (int i = 0; i < c.output_count(); ++i) {
    DType dtype = given[static_cast<size_t>(i)];
    if (i < l.states) {
      const DType first = types[static_cast<size_t>(i)].dtype;
      if (dtype == DType::none) dtype = first;
      if (dtype != first) fail("state {} is {} at first, then {}", i, name(first), name(dtype));
    }
    c.output_dynamic(i, dtype);
  }
}

// Runs the body over `length` slices; returns the final states and the joined scan outputs.
std::vector<Tensor> scan(const Call& c, const Layout& l, std::vector<Tensor> states, std::span<const Tensor> scans,
                         std::span<const Tensor> captured, int64_t length) {
  const Graph& body = *c.attrs().graph("body");
  std::vector<ScanOutput> outputs(static_cast<size_t>(l.scan_outputs));
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Tensor> arguments = states;
    for (size_t i = 0; i < scans.size(); ++i) {
      const int axis = normalize_axis(l.input_axes[i], scans[i].shape().rank());
      const int64_t at = l.input_directions[i] != 0 ? scans[i].shape()[axis] - 1 - t : t;
      arguments.push_back(slice_at(scans[i], axis, at));
    }
    arguments.insert(arguments.end(), captured.begin(), captured.end());
    const std::vector<Tensor> results = run_body(c, 0, std::move(arguments), c.outputs.size());
    for (size_t i = 0; i < states.size(); ++i) states[i] = results[i];
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].add(results[states.size() + i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t at = static_cast<size_t>(l.states) + i;
    states.push_back(outputs[i].joined(l.output_axes[i], l.output_directions[i] != 0, c.outputs[at].dtype,
                                       body.value(body.outputs()[at].value)));
  }
  return states;
}

void run(const Call& c) {
  const auto inputs = static_cast<int>(c.inputs.size());
  const Layout l = layout<false>(c.attrs(), inputs, static_cast<int>(c.outputs.size()));
  const std::vector<Tensor> scans = owned_inputs(c, l.states, l.states + l.scans);
  const int64_t length = scans[0].shape()[normalize_axis(l.input_axes[0], scans[0].shape().rank())];
  const std::vector<Tensor> results =
      scan(c, l, owned_inputs(c, 0, l.states), scans, owned_inputs(c, l.states + l.scans, inputs), length);
  for (size_t i = 0; i < results.size(); ++i) deliver(c, i, results[i]);
}

// Scan outputs of samples shorter than the longest input are filled with zeros.
Tensor padded(const Tensor& tensor, int64_t length) {
  if (tensor.shape()[0] == length) return tensor;
  Tensor out = Tensor::zeros(tensor.dtype(), tensor.shape().with(0, length));
  CopyLoops loops;
  loops.add(tensor.elements(), 1, 1);
  copy_strided(out.dtype(), loops, tensor.raw(), 0, out.raw(), 0);
  return out;
}

void run_batched(const Call& c) {
  const auto inputs = static_cast<int>(c.inputs.size());
  const Layout l = layout<true>(c.attrs(), inputs, static_cast<int>(c.outputs.size()));
  const std::vector<Tensor> states = owned_inputs(c, 1, 1 + l.states);
  const std::vector<Tensor> scans = owned_inputs(c, 1 + l.states, 1 + l.states + l.scans);
  const std::vector<Tensor> captured = owned_inputs(c, 1 + l.states + l.scans, inputs);
  const Graph& body = *c.attrs().graph("body");
  const int64_t samples = scans[0].shape()[0], longest = scans[0].shape()[1];
  std::vector<ScanOutput> outputs(c.outputs.size());
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto own = [&](std::span<const Tensor> all) {
      std::vector<Tensor> out;
      for (const Tensor& tensor : all) out.push_back(slice_at(tensor, 0, sample));
      return out;
    };
    const int64_t length = c.has(0) ? IntOperand(c.inputs[0])[sample] : longest;
    if (length < 0 || length > longest) fail("sequence length {} is outside [0,{}]", length, longest);
    // A reversed scan begins at the sample's last slice, so cut off the slices after it first.
    std::vector<Tensor> slices = own(scans);
    for (Tensor& tensor : slices) {
      Tensor cut(tensor.dtype(), tensor.shape().with(0, length));
      CopyLoops loops;
      loops.add(cut.elements(), 1, 1);
      copy_strided(cut.dtype(), loops, tensor.raw(), 0, cut.raw(), 0);
      tensor = std::move(cut);
    }
    const std::vector<Tensor> results = scan(c, l, own(states), slices, captured, length);
    for (size_t i = 0; i < results.size(); ++i) {
      outputs[i].add(static_cast<int>(i) < l.states ? results[i] : padded(results[i], longest));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    deliver(c, i, outputs[i].joined(0, false, c.outputs[i].dtype, body.value(body.outputs()[i].value)));
  }
}

// --- cases
std::shared_ptr<const Graph> case_body() {
  Graph graph;
  const ValueId state = graph.add_input("state", DType::f32, Shape{3}), x = graph.add_input("x", DType::f32, Shape{2});
  Builder b(graph, "body");
  graph.add_output(b.add("Softmax", {state}), "next");
  graph.add_output(b.add("Identity", {x}), "y");
  return std::make_shared<const Graph>(std::move(graph));
}

std::vector<OpCase> cases() {
  using List = std::vector<int64_t>;
  Attributes attrs{{"body", case_body()}, {"num_scan_inputs", int64_t{1}}};
  Attributes turned = attrs;
  turned.set("scan_input_axes", List{1});
  turned.set("scan_input_directions", List{1});
  turned.set("scan_output_axes", List{-1});
  turned.set("scan_output_directions", List{1});
  return {{"plain", {CaseInput::of({3}), CaseInput::of({4, 2})}, attrs, 2},
          {"turned", {CaseInput::of({3}), CaseInput::of({2, 5})}, turned, 2},
          {"empty", {CaseInput::of({3}), CaseInput::of({0, 2})}, attrs, 2}};
}

std::vector<OpCase> batched_cases() {
  Attributes attrs{{"body", case_body()}, {"num_scan_inputs", int64_t{1}}};
  Attributes backwards = attrs;
  backwards.set("directions", std::vector<int64_t>{1});
  return {{"whole", {CaseInput::none(), CaseInput::of({2, 3}), CaseInput::of({2, 4, 2})}, attrs, 2},
          {"lengths",
           {CaseInput::value(Tensor::ints({1, 3})), CaseInput::of({2, 3}), CaseInput::of({2, 4, 2})},
           backwards,
           2}};
}

constexpr Kernel kScan[] = {{.name = "reference", .run = run}};
constexpr Kernel kBatched[] = {{.name = "reference", .run = run_batched}};
constexpr AttrSpec kAttrs[] = {{"body", AttrType::graph, true},          {"num_scan_inputs", AttrType::integer, true},
                               {"scan_input_axes", AttrType::integers},  {"scan_input_directions", AttrType::integers},
                               {"scan_output_axes", AttrType::integers}, {"scan_output_directions", AttrType::integers},
                               {"captures", AttrType::integer}};
constexpr AttrSpec kBatchedAttrs[] = {{"body", AttrType::graph, true},
                                      {"num_scan_inputs", AttrType::integer, true},
                                      {"directions", AttrType::integers},
                                      {"captures", AttrType::integer}};

const OpDef kOps[] = {
    {.name = "Scan",
     .doc = "A body run over slices, carrying states along.",
     .since = 9,
     .inputs = {1, kMany},
     .outputs = {1, kMany},
     .attributes = kAttrs,
     .traits = {.dynamic = true},
     .infer = infer<false>,
     .cpu = kScan,
     .no_gradient = no_gradient::kBodies,
     .cost = no_flops,
     .cases = cases},
    {.name = "Scan",
     .doc = "The batched form, with a length for each sample.",
     .since = 8,
     .inputs = {0, kMany},
     .outputs = {1, kMany},
     .attributes = kBatchedAttrs,
     .traits = {.dynamic = true},
     .infer = infer<true>,
     .cpu = kBatched,
     .no_gradient = no_gradient::kBodies,
     .cost = no_flops,
     .cases = batched_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::scan_ops
