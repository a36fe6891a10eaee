// Tests axis maps against what the ops do, on every case of every op that has a map: slices of inputs are changed and
// compared with the slices of outputs that change, and nodes are given a part of their inputs.
#include "ir/axes.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/parallel.h"
#include "base/random.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "ops/check.h"

namespace sparkpilot {
namespace {

bool has_map(const OpDef& op) {
  return !op.cpu.empty() && op.infer && op.cases && (op.axes || op.traits.elementwise || op.traits.view);
}

// A case with its inputs and the reference's outputs.
struct Example {
  Graph graph;
  NodeId id;
  std::vector<Tensor> inputs, outputs;

  Example(const OpDef& op, const OpCase& op_case, uint64_t seed)
      : inputs(case_inputs(op_case, seed)), node_(case_node(op, op_case)) {
    // The map knows the contents of all inputs that are given or hold integers, as it does in passes.
    OpCase known = op_case;
    for (size_t i = 0; i < inputs.size(); ++i)
      known.inputs[i].constant |= inputs[i].present() && !is_float(inputs[i].dtype());
    graph = case_graph(op, known, inputs);
    id = graph.order()[0];
    infer(graph);
    outputs = run(inputs);
  }
  std::vector<Tensor> run(const std::vector<Tensor>& on) const {
    return evaluate(node_, on, node_.op->cpu.back().name);
  }
  bool known() const {
    const std::vector<ValueId>& values = graph.node(id).outputs;
    return std::all_of(values.begin(), values.end(), [&](ValueId v) { return graph.value(v).shape.has_value(); });
  }
  AxisSource source(size_t output, int axis, size_t input) const {
    const NodeProblem types(graph, id);
    return axis_source(*node_.op, types.problem(), static_cast<int>(output), axis, input);
  }

 private:
  Node node_;
};

bool same_element(const Tensor& a, const Tensor& b, int64_t at) {
  const double x = load_element(a.dtype(), a.raw(), at), y = load_element(b.dtype(), b.raw(), at);
  return x == y || (x != x && y != y);
}

// The indices along an axis at which elements of two tensors differ.
std::vector<bool> changed(const Tensor& a, const Tensor& b, int axis) {
  std::vector<bool> out(static_cast<size_t>(a.shape()[axis]));
  const int64_t inner = a.shape().elements(axis + 1, a.shape().rank());
  for (int64_t at = 0; at < a.elements(); ++at) {
    if (!same_element(a, b, at)) out[static_cast<size_t>(at / inner % a.shape()[axis])] = true;
  }
  return out;
}

// The range of an input's axis that an element of an output was seen to depend on: first and last index.
struct Range {
  int64_t first = INT64_MAX, last = -1;
  void add(int64_t i) { first = std::min(first, i), last = std::max(last, i); }
};
// Whether windows move on: none begins after the end of a later one. (They need not begin where the previous one did: a
// dilated window that is clipped at the image's border may begin with another of its elements.)
bool move_on(const std::vector<Range>& windows) {
  int64_t begin = -1;
  for (const Range& window : windows) {
    if (window.last < 0) continue;
    if (begin > window.last) return false;
    begin = std::max(begin, window.first);
  }
  return true;
}

// Changes the elements at index `t` of an axis to those of `fresh`, or to another element of the tensor if both are
// equal.
Tensor with_other_slice(const Tensor& tensor, const Tensor& fresh, int axis, int64_t t) {
  Tensor out = Tensor::zeros(tensor.dtype(), tensor.shape());
  const int64_t inner = tensor.shape().elements(axis + 1, tensor.shape().rank());
  for (int64_t at = 0; at < tensor.elements(); ++at) {
    const bool inside = at / inner % tensor.shape()[axis] == t;
    const Tensor& from = inside && !same_element(tensor, fresh, at) ? fresh : tensor;
    const int64_t there = inside && &from == &tensor ? (at + 1) % tensor.elements() : at;
    store_element(out.dtype(), out.raw(), at, load_element(from.dtype(), from.raw(), there));
  }
  return out;
}

// Elements [t, t + 1) of an axis.
Tensor slice_of(const Tensor& tensor, int axis, int64_t t) {
  Tensor out = Tensor::zeros(tensor.dtype(), tensor.shape().with(axis, 1));
  const int64_t inner = tensor.shape().elements(axis + 1, tensor.shape().rank()), size = tensor.shape()[axis];
  for (int64_t at = 0; at < out.elements(); ++at) {
    const int64_t from = (at / inner * size + t) * inner + at % inner;
    store_element(out.dtype(), out.raw(), at, load_element(tensor.dtype(), tensor.raw(), from));
  }
  return out;
}

struct Count {
  int slices = 0, parts = 0;
};

// Whether the map says that any axis of any output runs along this axis of this input.
bool is_source(const Example& example, size_t input, int axis) {
  for (size_t o = 0; o < example.outputs.size(); ++o) {
    if (!example.outputs[o].present()) continue;
    for (int d = 0; d < example.outputs[o].shape().rank(); ++d) {
      const AxisSource source = example.source(o, d, input);
      if (source.axis == axis && (source.kind == AxisSource::same || source.kind == AxisSource::window)) return true;
    }
  }
  return false;
}

// Changes slices of one input along one of its axes.
void change_slices(const Example& example, const std::vector<Tensor>& fresh, size_t input, int axis, Count& count) {
  if (!is_source(example, input, axis)) return;  // nothing is said that could be wrong
  const Tensor& tensor = example.inputs[input];
  std::map<std::pair<size_t, int>, std::vector<Range>> windows;  // by output and axis
  constexpr int64_t kAll = 24;
  const int64_t size = tensor.shape()[axis], step = size <= kAll ? 1 : size / 4;
  for (int64_t t = 0; t < size; t += step) {
    std::vector<Tensor> inputs = example.inputs, outputs;
    inputs[input] = with_other_slice(tensor, fresh[input], axis, t);
    try {
      outputs = example.run(inputs);
    } catch (const Error&) {
      continue;  // invalid combination of values
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const Tensor& expected = example.outputs[o];
      if (!expected.present() || !(outputs[o].shape() == expected.shape())) continue;
      for (int d = 0; d < expected.shape().rank(); ++d) {
        const AxisSource source = example.source(o, d, input);
        if (source.axis != axis || (source.kind != AxisSource::same && source.kind != AxisSource::window)) continue;
        const std::vector<bool> at = changed(expected, outputs[o], d);
        std::vector<Range>& seen = windows[{o, d}];
        seen.resize(at.size());
        for (size_t i = 0; i < at.size(); ++i) {
          if (!at[i]) continue;
          ++count.slices;
          seen[i].add(t);
          EXPECT_TRUE(source.kind == AxisSource::window || static_cast<int64_t>(i) == t)
              << "output " << o << " axis " << d << " is said to be axis " << axis << " of input " << input
              << ", but slice " << t << " changes slice " << i;
        }
      }
    }
  }
  for (const auto& [place, seen] : windows) {
    if (step > 1) break;  // the elements between were not tested
    EXPECT_TRUE(move_on(seen)) << "output " << place.first << " axis " << place.second << ": the window of axis "
                               << axis << " of input " << input << " moves back";
  }
}

// Gives the node the parts of its inputs that one element along an axis of an output needs.
void run_part(const OpDef& op, const OpCase& op_case, const Example& example, size_t output, int axis, Count& count) {
  const Tensor& whole = example.outputs[output];
  const int64_t t = whole.shape()[axis] / 2;
  std::vector<Tensor> inputs = example.inputs;
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present()) continue;
    const AxisSource source = example.source(output, axis, i);
    if (source.kind == AxisSource::broadcast) continue;
    if (source.kind != AxisSource::same) return;
    inputs[i] = slice_of(inputs[i], source.axis, t);
    any = true;
  }
  if (!any) return;
  const Tensor part = example.run(inputs)[output], expected = slice_of(whole, axis, t);
  ASSERT_TRUE(part.shape() == expected.shape()) << part.shape().str() << ", expected " << expected.shape().str();
  EXPECT_LE(relative_l2(part, expected), std::max(op_case.tolerance, default_tolerance(expected.dtype())))
      << "output " << output << " axis " << axis << " of " << op.name;
  ++count.parts;
}

void check_op(const OpDef& op) {
  Count count;
  for (const OpCase& op_case : op.cases()) {
    SCOPED_TRACE(qualified(op) + " case " + op_case.name);
    const Example example(op, op_case, 5);
    if (!example.known()) continue;
    const std::vector<Tensor> fresh = case_inputs(op_case, 6);
    for (size_t i = 0; i < example.inputs.size(); ++i) {
      // Given integers are sizes and indices, which may change the shapes of outputs.
      if (!example.inputs[i].present() || example.inputs[i].elements() < 2) continue;
      if (op_case.inputs[i].fill == CaseInput::given && !is_float(example.inputs[i].dtype())) continue;
      for (int axis = 0; axis < example.inputs[i].shape().rank(); ++axis) change_slices(example, fresh, i, axis, count);
    }
    if (op.traits.view) continue;
    for (size_t o = 0; o < example.outputs.size(); ++o) {
      if (!example.outputs[o].present() || example.outputs[o].elements() < 2) continue;
      for (int d = 0; d < example.outputs[o].shape().rank(); ++d) run_part(op, op_case, example, o, d, count);
    }
  }
  EXPECT_GT(count.slices + count.parts, 0) << qualified(op) << ": no case shows its axis map";
}

TEST(AxisMaps, SayWhatTheOpsDo) {
  const ThreadScope one(1);
  int ops = 0;
  for (const OpDef* op : all_ops()) {
    if (!has_map(*op)) continue;
    check_op(*op);
    ++ops;
  }
  EXPECT_GT(ops, 100);
}

// The test above can fail: it finds a wrong map.
TEST(AxisMaps, AWrongOneIsFound) {
  const OpDef* softmax = find_op("", "Softmax", 26);
  ASSERT_TRUE(softmax);
  OpDef wrong = *softmax;
  wrong.axes = [](const Problem&, int, int axis, size_t) { return AxisSource{AxisSource::same, axis}; };
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter catching(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    check_op(wrong);
  }
  EXPECT_GT(failures.size(), 0);
}

}  // namespace
}  // namespace sparkpilot
