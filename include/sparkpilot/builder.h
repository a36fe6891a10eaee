// Builds a graph node by node:
//
//   Graph graph;
//   Builder b(graph);
//   const ValueId x = b.input("x", DType::f32, {1, 4});
//   const ValueId h = b.state(Tensor::zeros(DType::f32, {1, 4}), "h");
//   const ValueId sum = b.add("Add", {x, b.add("MatMul", {h, b.constant(weights)})});
//   b.next(h, sum);  // what h holds in the next run
//   b.output(b.add("Relu", {sum}), "y");
//   Session session(std::move(graph));
//
// Ops, their inputs and their attributes are ONNX's; docs/ops.md lists them, and those of domain "sparkpilot". A node
// is checked against its op's schema when it is added. The types of its outputs are inferred at once if the shapes of
// its inputs are known; after an input with open dimensions they are inferred when a session knows its shape.
//
// Every failure is an Error (user) that names the op and the node, and the node is not added. A builder holds its graph
// by reference, and several may write to one graph. Not thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sparkpilot/graph.h"
#include "sparkpilot/tensor.h"

namespace sparkpilot {

class Builder {
 public:
  // Nodes are named `prefix`/<name>, or `prefix`/<op> if no name is given; with neither prefix nor name they have no
  // name, and messages call them <op>#<index>. The opset selects the version of ONNX's ops.
  explicit Builder(Graph& graph, std::string prefix = {}, int opset = 26)
      : graph_(graph), prefix_(std::move(prefix)), opset_(opset) {}
  Graph& graph() { return graph_; }
  int opset() const { return opset_; }

  // --- inputs, constants and states
  ValueId input(std::string name, DType dtype, const Shape& shape);
  // With dimensions that are not fixed yet: {{-1, "batch"}, {4}}.
  ValueId open_input(std::string name, DType dtype, std::vector<Dim> dims);
  ValueId constant(Tensor tensor, std::string name = {});
  ValueId ints(std::initializer_list<int64_t> v) { return constant(Tensor::ints(v)); }
  ValueId ints(std::span<const int64_t> v) { return constant(Tensor::ints(v)); }
  // A scalar of the given dtype.
  ValueId scalar(DType dtype, double value);
  // Data that one run passes to the next; next() must follow. The initial value of a state that is not resettable is
  // not kept: Session::reset_states refuses a graph that has one.
  ValueId state(Tensor initial, std::string name, bool resettable = true);

  // --- nodes
  // `op` is "Add" or "domain::Name". An absent input (ValueId{}) means that an optional input is not given; absent ones
  // at the end may be omitted.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attributes attrs = {});
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, const std::string& name);
  // A node with several outputs: `outputs` of them.
  std::vector<ValueId> add_many(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, int outputs);
  std::vector<ValueId> add_many(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, int outputs,
                                const std::string& name);

  // --- results
  // The state's contents for the next run: a value of its dtype and shape.
  void next(ValueId state, ValueId value);
  void output(ValueId value, std::string name);

  // --- types of a value
  DType dtype(ValueId v) const;         // none if not inferred
  const Shape& shape(ValueId v) const;  // fails if not inferred

 private:
  void check(ValueId value, std::string_view what) const;

  Graph& graph_;
  std::string prefix_;
  int opset_;
};

}  // namespace sparkpilot
