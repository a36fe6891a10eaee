// If and Loop: bodies chosen or repeated depending on data. The node's inputs are those of the op, then the values that
// the bodies capture; a body's inputs are those defined by ONNX, then the same captured values.
//
// Loop runs while the iteration is below M (if given) and the condition holds (the input, if given, then what the body
// returns). A loop without a bound runs until its body ends it: nothing here stops it, but what it collects is limited
// by memory (ScanOutput), and a caller can end the process.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/control/body.h"
#include "ops/cpu/move/copy.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::control_flow_ops {
namespace {

// --- If
void infer_if(InferContext& c) {
  if (c.dtype(0) != DType::boolean || c.shape(0).elements() != 1) {
    fail("the condition is {}{}, expected one boolean", name(c.dtype(0)), c.shape(0).str());
  }
  const int captures = capture_count(c.attrs, c.input_count() - 1);
  if (captures != c.input_count() - 1)
    fail("{} inputs given besides the condition, expected none", c.input_count() - 1);
  const auto wanted = static_cast<size_t>(c.output_count());
  const std::vector<TensorType> inputs = input_types(c, 1, c.input_count());
  const auto outputs_of = [&](const char* branch) {
    return inferred_outputs(checked_body(c.attrs, branch, inputs.size(), wanted), inputs);
  };
  const std::vector<TensorType> yes = outputs_of("then_branch"), no = outputs_of("else_branch");
  bool known = true;  // where both branches give the same types, what follows can be planned before the choice
  for (size_t i = 0; i < wanted; ++i) {
    known &= yes[i].known && no[i].known && yes[i].dtype == no[i].dtype && yes[i].dtype != DType::none &&
             yes[i].shape == no[i].shape;
  }
  for (size_t i = 0; i < wanted; ++i) {
    const DType one = yes[i].dtype, other = no[i].dtype;
    if (one != other && one != DType::none && other != DType::none) {
      fail("output {} is {} in then_branch and {} in else_branch", i, name(one), name(other));
    }
    if (known) c.output(static_cast<int>(i), one, yes[i].shape);
    else c.output_dynamic(static_cast<int>(i), one == DType::none ? other : one);
  }
}

void run_if(const Call& c) {
  const size_t branch = truth(c.inputs[0]) ? 1 : 0;  // sorted by name: else_branch, then_branch
  const std::vector<Tensor> results =
      run_body(c, branch, owned_inputs(c, 1, static_cast<int>(c.inputs.size())), c.outputs.size());
  for (size_t i = 0; i < c.outputs.size(); ++i) deliver(c, i, results[i]);
}

// --- Loop
struct LoopLayout {
  int carried, captures;  // inputs: M, condition, carried values, captured values
};

LoopLayout loop_layout(const Attributes& attrs, int inputs) {
  const int captures = capture_count(attrs, inputs), own = inputs - captures;
  if (captures > 0 && own < 2) fail("{} inputs given, expected M and the condition first", own);
  return {std::max(0, own - 2), captures};
}

void infer_loop(InferContext& c) {
  const auto [carried, captures] = loop_layout(c.attrs, c.input_count());
  if (c.has(0)) {
    expect_index_dtype(c, 0);
    if (c.shape(0).elements() != 1) fail("M has shape {}, expected one element", c.shape(0).str());
  }
  if (c.has(1) && (c.dtype(1) != DType::boolean || c.shape(1).elements() != 1)) {
    fail("the condition is {}{}, expected one boolean", name(c.dtype(1)), c.shape(1).str());
  }
  const int scans = c.output_count() - carried;
  if (scans < 0) fail("{} outputs asked for, {} values are carried", c.output_count(), carried);
  std::vector<TensorType> inputs{{DType::i64, {}, true}, {DType::boolean, {}, true}};
  for (const TensorType& type : input_types(c, 2, c.input_count())) inputs.push_back(type);
  const Graph& body = checked_body(c.attrs, "body", inputs.size(), static_cast<size_t>(1 + carried + scans));
  if (body.outputs().size() != static_cast<size_t>(1 + carried + scans)) {
    fail("body has {} outputs, expected the condition, {} carried and {} scan outputs", body.outputs().size(), carried,
         scans);
  }
  const std::vector<DType> types = body_output_types(body, inputs);
  for (int i = 0; i < carried + scans; ++i) {
    DType dtype = types[static_cast<size_t>(i) + 1];
    if (i < carried) {
      if (!c.has(2 + i)) fail("input {} is missing", 2 + i);
      if (dtype == DType::none) dtype = c.dtype(2 + i);
      if (dtype != c.dtype(2 + i))
        fail("carried value {} is {} at first, then {}", i, name(c.dtype(2 + i)), name(dtype));
    }
    c.output_dynamic(i, dtype);
  }
}

void run_loop(const Call& c) {
  const auto inputs = static_cast<int>(c.inputs.size());
  const auto [carried, captures] = loop_layout(c.attrs(), inputs);
  const Graph& body = *c.attrs().graph("body");
  const int64_t most = c.has(0) ? IntOperand(c.inputs[0])[0] : std::numeric_limits<int64_t>::max();
  bool go = !c.has(1) || truth(c.inputs[1]);
  std::vector<Tensor> values = owned_inputs(c, std::min(2, inputs), inputs - captures);
  const std::vector<Tensor> captured = owned_inputs(c, inputs - captures, inputs);
  std::vector<ScanOutput> scans(c.outputs.size() - values.size());
  for (int64_t i = 0; i < most && go; ++i) {
    std::vector<Tensor> arguments{one_element(body, 0, i), one_element(body, 1, go)};
    arguments.insert(arguments.end(), values.begin(), values.end());
    arguments.insert(arguments.end(), captured.begin(), captured.end());
    const std::vector<Tensor> results = run_body(c, 0, std::move(arguments), 1 + c.outputs.size());
    go = truth(results[0].view());
    for (size_t j = 0; j < values.size(); ++j) values[j] = results[1 + j];
    for (size_t j = 0; j < scans.size(); ++j) scans[j].add(results[1 + values.size() + j]);
  }
  for (size_t i = 0; i < values.size(); ++i) deliver(c, i, values[i]);
  for (size_t i = 0; i < scans.size(); ++i) {
    const size_t at = values.size() + i;
    deliver(c, at, scans[i].joined(0, false, c.outputs[at].dtype, body.value(body.outputs()[1 + at].value)));
  }
}

// --- cases
std::shared_ptr<const Graph> branch(const char* op) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{3});
  Builder b(graph, "branch");
  graph.add_output(b.add(op, {x}), "y");
  return std::make_shared<const Graph>(std::move(graph));
}

std::vector<OpCase> if_cases() {
  const Attributes attrs{
      {"then_branch", branch("Identity")}, {"else_branch", branch("Softmax")}, {"captures", int64_t{1}}};
  const auto truth_value = [](bool v) { return CaseInput::value(Tensor::scalar(v)); };
  return {{"then", {truth_value(true), CaseInput::of({3})}, attrs},
          {"else", {truth_value(false), CaseInput::of({3})}, attrs}};
}

// Carries x -> softmax(x), passes a captured tensor out, and never stops by itself.
std::shared_ptr<const Graph> loop_body() {
  Graph graph;
  graph.add_input("i", DType::i64, Shape{});
  const ValueId go = graph.add_input("go", DType::boolean, Shape{});
  const ValueId x = graph.add_input("x", DType::f32, Shape{2, 3}), w = graph.add_input("w", DType::f32, Shape{5});
  Builder b(graph, "body");
  graph.add_output(b.add("Identity", {go}), "go_on");
  graph.add_output(b.add("Softmax", {x}), "next");
  graph.add_output(b.add("Identity", {w}), "scan");
  return std::make_shared<const Graph>(std::move(graph));
}

std::vector<OpCase> loop_cases() {
  const Attributes attrs{{"body", loop_body()}, {"captures", int64_t{1}}};
  const auto most = [](int64_t v) { return CaseInput::value(Tensor::scalar(v)); };
  const auto x = CaseInput::of({2, 3}), w = CaseInput::of({5});
  return {{"counted", {most(4), CaseInput::none(), x, w}, attrs, 2},
          {"none", {most(0), CaseInput::none(), x, w}, attrs, 2},
          {"stopped", {CaseInput::none(), CaseInput::value(Tensor::scalar(false)), x, w}, attrs, 2}};
}

constexpr Kernel kIf[] = {{.name = "reference", .run = run_if}};
constexpr Kernel kLoop[] = {{.name = "reference", .run = run_loop}};
constexpr AttrSpec kIfAttrs[] = {
    {"then_branch", AttrType::graph, true}, {"else_branch", AttrType::graph, true}, {"captures", AttrType::integer}};
constexpr AttrSpec kLoopAttrs[] = {{"body", AttrType::graph, true}, {"captures", AttrType::integer}};

const OpDef kOps[] = {
    {.name = "If",
     .doc = "One of two bodies, chosen by a boolean.",
     .since = 1,
     .inputs = {1, kMany},
     .outputs = {1, kMany},
     .attributes = kIfAttrs,
     .traits = {.dynamic = true},
     .infer = infer_if,
     .cpu = kIf,
     .no_gradient = no_gradient::kBodies,
     .cost = no_flops,
     .cases = if_cases},
    {.name = "Loop",
     .doc = "A body repeated while a condition holds, at most M times.",
     .since = 1,
     .inputs = {0, kMany},
     .outputs = {1, kMany},
     .attributes = kLoopAttrs,
     .traits = {.dynamic = true},
     .infer = infer_loop,
     .cpu = kLoop,
     .no_gradient = no_gradient::kBodies,
     .cost = no_flops,
     .cases = loop_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::control_flow_ops
