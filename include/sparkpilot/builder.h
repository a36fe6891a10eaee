// A graph made by hand, node by node:
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
// is held against its op's schema when it is added, and the types of what it makes are inferred at once where the
// shapes of its inputs are known; behind an input with open dimensions they are when a session knows its shape.
//
// Every failure is an Error (user) that names the op and the node; the node is not in the graph then. A builder holds
// its graph by reference, and several may write to one graph. Not thread-safe.
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
  // Nodes are named `prefix`/<name>, where no name is given `prefix`/<op>, and without both not at all: messages call
  // such a node <op>#<index>. The opset picks the version of ONNX's ops.
  explicit Builder(Graph& graph, std::string prefix = {}, int opset = 26)
      : graph_(graph), prefix_(std::move(prefix)), opset_(opset) {}
  Graph& graph() { return graph_; }
  int opset() const { return opset_; }

  // --- what a run is given
  ValueId input(std::string name, DType dtype, const Shape& shape);
  // With dimensions that are not fixed yet: {{-1, "batch"}, {4}}.
  ValueId open_input(std::string name, DType dtype, std::vector<Dim> dims);
  ValueId constant(Tensor tensor, std::string name = {});
  ValueId ints(std::initializer_list<int64_t> v) { return constant(Tensor::ints(v)); }
  ValueId ints(std::span<const int64_t> v) { return constant(Tensor::ints(v)); }
  // A scalar of the given dtype.
  ValueId scalar(DType dtype, double value);
  // What one run leaves for the next; next() must follow. The initial value of a state that is not resettable is not
  // kept: Session::reset_states refuses a graph that has one.
  ValueId state(Tensor initial, std::string name, bool resettable = true);

  // --- what it does
  // `op` is "Add" or "domain::Name". An absent input (ValueId{}) stands for an optional one that is not given; those at
  // the end may be left out.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attributes attrs = {});
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, const std::string& name);
  // A node with several outputs; as many are made as are asked for.
  std::vector<ValueId> add_many(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, int outputs);
  std::vector<ValueId> add_many(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, int outputs,
                                const std::string& name);

  // --- what it leaves
  // The state's contents for the next run: a value of its dtype and shape.
  void next(ValueId state, ValueId value);
  void output(ValueId value, std::string name);

  // --- what is known of a value
  DType dtype(ValueId v) const;         // none where it is not inferred
  const Shape& shape(ValueId v) const;  // fails where it is not inferred

 private:
  void check(ValueId value, std::string_view what) const;

  Graph& graph_;
  std::string prefix_;
  int opset_;
};

}  // namespace sparkpilot
