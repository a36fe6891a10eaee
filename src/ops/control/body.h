// What If, Loop and Scan share: the types of their bodies, and tensors that outlive a call of a body.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/op.h"

namespace sparkpilot {

// The number of captured values at the end of a node's `inputs`; fails (user) if the attribute is invalid.
int capture_count(const Attributes& attrs, int inputs);

// The attribute's graph; fails (user) unless it has as many inputs, and at least as many outputs, as given.
const Graph& checked_body(const Attributes& attrs, std::string_view key, size_t inputs, size_t outputs);

// Element types of a body's outputs: as declared, else inferred from the types of its inputs; none if that is not
// possible.
std::vector<DType> body_output_types(const Graph& body, std::span<const TensorType> inputs);

// The same with the shapes that follow from the inputs' shapes.
std::vector<TensorType> inferred_outputs(const Graph& body, std::span<const TensorType> inputs);

// The types of inputs [first, last) of a node.
std::vector<TensorType> input_types(const InferContext& c, int first, int last);

// A copy that owns its memory.
Tensor owned(const ConstView& view);
// Copies of inputs [first, last) of a node.
std::vector<Tensor> owned_inputs(const Call& c, int first, int last);

// One element as a tensor of the shape that the body declares for its input i: a scalar, or [1].
template <typename T>
Tensor one_element(const Graph& body, size_t i, T value) {
  const auto& declared = body.value(body.inputs()[i]).declared;
  return Tensor::of<T>(declared && declared->size() == 1 ? Shape{1} : Shape{}, {value});
}

// The value of a one-element boolean; fails (user) on another type or more elements.
bool truth(const ConstView& view);

// Runs body i of a node. Fails (internal) if the caller provided no body, (user) if it returns fewer results than
// `outputs`.
std::vector<Tensor> run_body(const Call& c, size_t i, std::vector<Tensor> inputs, size_t outputs);

// Writes a tensor to output i of a node; fails (user) if its type, or a shape that was known before, is another one.
void deliver(const Call& c, size_t i, const Tensor& tensor);

// One scan output: a slice per iteration, joined at the end. Fails (user) if slices differ in type or shape, and before
// they fill the machine's memory, since a loop in a file may be endless.
class ScanOutput {
 public:
  void add(Tensor slice);
  // Joins the slices along a new axis `axis` (an index in the result, counted from the end if negative), last first if
  // `reversed`. Without slices: size 0 along it, and the other dimensions as the body's output declares them (unknown
  // sizes as 0).
  Tensor joined(int64_t axis, bool reversed, DType dtype, const Value& body_output) const;

 private:
  std::vector<Tensor> slices_;
  int64_t bytes_ = 0;
};

// Slice `index` of a tensor along `axis`, without that axis.
Tensor slice_at(const Tensor& tensor, int axis, int64_t index);

}  // namespace sparkpilot
