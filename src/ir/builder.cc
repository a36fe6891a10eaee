#include "base/error.h"
#include "ir/infer.h"
#include "ir/op.h"

namespace sparkpilot {

std::string qualified(const OpDef& op) {
  return op.domain.empty() ? std::string(op.name) : fmt::format("{}::{}", op.domain, op.name);
}

const Shape& Builder::shape(ValueId v) const {
  const Value& value = graph_.value(v);
  if (!value.shape) fail_internal("shape of \"{}\" is not known while building {}", value.name, prefix_);
  return *value.shape;
}

ValueId Builder::add(std::string_view op, std::vector<ValueId> inputs, Attributes attrs) {
  return add_many(op, std::move(inputs), std::move(attrs), 1)[0];
}

std::vector<ValueId> Builder::add_many(std::string_view op, std::vector<ValueId> inputs, Attributes attrs,
                                       int outputs) {
  const size_t colon = op.find("::");
  const std::string_view domain = colon == std::string_view::npos ? "" : op.substr(0, colon);
  const std::string_view plain = colon == std::string_view::npos ? op : op.substr(colon + 2);
  const OpDef* def = find_op(domain, plain, domain.empty() ? opset_ : 1);
  if (!def) fail_internal("builder asked for unknown op {}", op);
  while (!inputs.empty() && !inputs.back().present()) inputs.pop_back();
  const NodeId id = graph_.add_node(*def, std::move(inputs), std::move(attrs), outputs,
                                    prefix_.empty() ? std::string() : fmt::format("{}/{}", prefix_, plain));
  check_schema(graph_, id);
  infer_node(graph_, id);
  return graph_.node(id).outputs;
}

ValueId Builder::scalar(DType dtype, double value) {
  Tensor tensor = Tensor::zeros(dtype, Shape{});
  store_element(dtype, tensor.raw(), 0, value);
  return constant(std::move(tensor));
}

}  // namespace sparkpilot
