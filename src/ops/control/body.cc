#include "ops/control/body.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/infer.h"
#include "ops/cpu/move/copy.h"

namespace sparkpilot {

int capture_count(const Attributes& attrs, int inputs) {
  const int64_t count = attrs.integer("captures", 0);
  if (count < 0 || count > inputs) fail("{} captured inputs, the node has {}", count, inputs);
  return static_cast<int>(count);
}

const Graph& checked_body(const Attributes& attrs, std::string_view key, size_t inputs, size_t outputs) {
  const Graph& body = *attrs.graph(key);
  if (body.inputs().size() != inputs) fail("{} has {} inputs, expected {}", key, body.inputs().size(), inputs);
  if (body.outputs().size() < outputs) fail("{} has {} outputs, expected {}", key, body.outputs().size(), outputs);
  return body;
}

std::vector<DType> body_output_types(const Graph& body, std::span<const TensorType> inputs) {
  std::vector<DType> types;
  for (const Graph::Output& output : body.outputs()) types.push_back(body.value(output.value).dtype);
  if (std::find(types.begin(), types.end(), DType::none) == types.end()) return types;
  types.clear();
  for (const TensorType& type : inferred_outputs(body, inputs)) types.push_back(type.dtype);
  return types;
}

std::vector<TensorType> inferred_outputs(const Graph& body, std::span<const TensorType> inputs) {
  Graph copy = body;
  for (const NodeId id : copy.order()) {  // no shape that belongs to other inputs may stay
    for (const ValueId output : copy.node(id).outputs) copy.value(output).shape.reset();
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value& value = copy.value(copy.inputs()[i]);
    if (value.dtype == DType::none) value.dtype = inputs[i].dtype;
    value.shape = inputs[i].known ? std::optional(inputs[i].shape) : std::nullopt;
  }
  try {
    infer(copy);
  } catch (const Error&) {
    // A branch that is not taken may be invalid for these shapes; what was inferred before the failure is kept.
  }
  std::vector<TensorType> types;
  for (const Graph::Output& output : copy.outputs()) {
    const Value& value = copy.value(output.value);
    types.push_back({value.dtype, value.shape.value_or(Shape()), value.shape.has_value()});
  }
  return types;
}

std::vector<TensorType> input_types(const InferContext& c, int first, int last) {
  std::vector<TensorType> types;
  for (int i = first; i < last; ++i) {
    types.push_back(c.has(i) ? TensorType{c.dtype(i), c.shape(i), true} : TensorType{DType::none, {}, false});
  }
  return types;
}

Tensor owned(const ConstView& view) {
  if (!view.present()) return {};
  Tensor out(view.dtype, view.shape);
  std::memcpy(out.raw(), view.data, static_cast<size_t>(view.bytes()));
  return out;
}

std::vector<Tensor> owned_inputs(const Call& c, int first, int last) {
  std::vector<Tensor> out;
  for (int i = first; i < last; ++i) out.push_back(owned(c.inputs[static_cast<size_t>(i)]));
  return out;
}

bool truth(const ConstView& view) {
  if (view.dtype != DType::boolean || view.elements() != 1) {
    fail("the condition is {}{}, expected one boolean", name(view.dtype), view.shape.str());
  }
  return *view.as<uint8_t>() != 0;
}

std::vector<Tensor> run_body(const Call& c, size_t i, std::vector<Tensor> inputs, size_t outputs) {
  if (i >= c.bodies.size()) fail_internal("body {} was not made runnable", i);
  std::vector<Tensor> results = c.bodies[i]->run(std::move(inputs));
  if (results.size() < outputs) fail("the body gives {} outputs, expected {}", results.size(), outputs);
  return results;
}

void deliver(const Call& c, size_t i, const Tensor& tensor) {
  if (c.outputs[i].dtype == DType::none) c.outputs[i].dtype = tensor.dtype();
  if (tensor.dtype() != c.outputs[i].dtype) {
    fail("the body gives {} for output {}, planned was {}", name(tensor.dtype()), i, name(c.outputs[i].dtype));
  }
  const bool planned = !c.allocate;
  if (planned && !(tensor.shape() == c.outputs[i].shape)) {
    fail("the body gives {} for output {}, planned was {}", tensor.shape().str(), i, c.outputs[i].shape.str());
  }
  const View out = planned ? c.outputs[i] : (*c.allocate)(static_cast<int>(i), tensor.shape());
  if (tensor.bytes() > 0) std::memcpy(out.data, tensor.raw(), static_cast<size_t>(tensor.bytes()));
}

void ScanOutput::add(Tensor slice) {
  if (!slices_.empty() && (slice.dtype() != slices_[0].dtype() || !(slice.shape() == slices_[0].shape()))) {
    fail("a scan output was {}{} and is now {}{}", name(slices_[0].dtype()), slices_[0].shape().str(),
         name(slice.dtype()), slice.shape().str());
  }
  // The joined result needs the same amount again.
  bytes_ += slice.bytes() + static_cast<int64_t>(sizeof(Tensor) + sizeof(Buffer));
  if (bytes_ > physical_memory() / 4) fail("a scan output fills the memory after {} iterations", slices_.size());
  slices_.push_back(std::move(slice));
}

Tensor ScanOutput::joined(int64_t axis, bool reversed, DType dtype, const Value& body_output) const {
  Shape slice;
  if (!slices_.empty()) {
    slice = slices_[0].shape();
  } else if (body_output.shape) {
    slice = *body_output.shape;
  } else if (body_output.declared) {
    std::vector<int64_t> dims;
    for (const Dim& dim : *body_output.declared) dims.push_back(std::max<int64_t>(0, dim.size));
    slice = Shape(std::span<const int64_t>(dims));
  }
  if (slices_.empty() && dtype == DType::none) fail("the body never ran and does not say what type a scan output has");
  const auto count = static_cast<int64_t>(slices_.size());
  const int at = normalize_axis(axis, slice.rank() + 1);
  Tensor out(slices_.empty() ? dtype : slices_[0].dtype(), slice.inserted(at, count));
  const int64_t outer = slice.elements(0, at), inner = slice.elements(at, slice.rank());
  for (int64_t i = 0; i < count; ++i) {
    CopyLoops loops;
    loops.add(outer, inner, inner * count);
    loops.add(inner, 1, 1);
    copy_strided(out.dtype(), loops, slices_[static_cast<size_t>(reversed ? count - 1 - i : i)].raw(), 0, out.raw(),
                 i * inner);
  }
  return out;
}

Tensor slice_at(const Tensor& tensor, int axis, int64_t index) {
  const Shape& shape = tensor.shape();
  const int64_t outer = shape.elements(0, axis), inner = shape.elements(axis + 1, shape.rank());
  Tensor out(tensor.dtype(), shape.removed(axis));
  CopyLoops loops;
  loops.add(outer, inner * shape[axis], inner);
  loops.add(inner, 1, 1);
  copy_strided(tensor.dtype(), loops, tensor.raw(), index * inner, out.raw(), 0);
  return out;
}

}  // namespace sparkpilot
