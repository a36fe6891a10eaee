#include "sparkpilot/builder.h"

#include "base/error.h"
#include "base/nearest.h"
#include "ir/infer.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

[[noreturn]] void fail_unknown(std::string_view op, int opset) {
  std::vector<std::string> names;
  for (const OpDef* known : all_ops()) names.push_back(qualified(*known));
  fail("no op is named \"{}\" in opset {}{}", op, opset, did_you_mean(op, names));
}

std::string type_text(const Value& value) {
  return fmt::format("{}{}", name(value.dtype), value.shape ? value.shape->str() : std::string("[?]"));
}

}  // namespace

std::string qualified(const OpDef& op) {
  return op.domain.empty() ? std::string(op.name) : fmt::format("{}::{}", op.domain, op.name);
}

void Builder::check(ValueId value, std::string_view what) const {
  if (value.index < graph_.value_count() && value.present()) return;
  if (!value.present()) fail("{} is absent", what);
  fail("{} is value {}, the graph has {}", what, value.index, graph_.value_count());
}

ValueId Builder::input(std::string name, DType dtype, const Shape& shape) {
  return graph_.add_input(std::move(name), dtype, shape);
}

ValueId Builder::open_input(std::string name, DType dtype, std::vector<Dim> dims) {
  return graph_.add_input(std::move(name), dtype, std::move(dims));
}

ValueId Builder::constant(Tensor tensor, std::string name) {
  return graph_.add_constant(std::move(tensor), std::move(name));
}

ValueId Builder::scalar(DType dtype, double value) {
  if (dtype == DType::none) fail("a scalar needs a type");
  Tensor tensor = Tensor::zeros(dtype, Shape{});
  store_element(dtype, tensor.raw(), 0, value);
  return constant(std::move(tensor));
}

ValueId Builder::state(Tensor initial, std::string name, bool resettable) {
  for (const State& state : graph_.states()) {
    if (!name.empty() && graph_.value(state.value).name == name) fail("two states are named \"{}\"", name);
  }
  return graph_.add_state(std::move(initial), std::move(name), resettable);
}

void Builder::next(ValueId state, ValueId value) {
  check(state, "the state");
  const Value& now = graph_.value(state);
  if (now.kind != ValueKind::state) fail("\"{}\" (value {}) is no state", now.name, state.index);
  check(value, fmt::format("the next value of state \"{}\"", now.name));
  const Value& then = graph_.value(value);
  if (then.shape && (then.dtype != now.dtype || !(*then.shape == *now.shape))) {
    fail("state \"{}\" is {}, its next value {}", now.name, type_text(now), type_text(then));
  }
  graph_.set_next(state, value);
}

void Builder::output(ValueId value, std::string name) {
  check(value, fmt::format("output \"{}\"", name));
  graph_.add_output(value, std::move(name));
}

DType Builder::dtype(ValueId v) const {
  check(v, "the value");
  return graph_.value(v).dtype;
}

const Shape& Builder::shape(ValueId v) const {
  check(v, "the value");
  const Value& value = graph_.value(v);
  if (!value.shape) fail("the shape of value {} \"{}\" is not known yet", v.index, value.name);
  return *value.shape;
}

ValueId Builder::add(std::string_view op, std::vector<ValueId> inputs, Attributes attrs) {
  return add_many(op, std::move(inputs), std::move(attrs), 1, {})[0];
}

std::vector<ValueId> Builder::add_many(std::string_view op, std::vector<ValueId> inputs, Attributes attrs,
                                       int outputs) {
  return add_many(op, std::move(inputs), std::move(attrs), outputs, {});
}

ValueId Builder::add(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, const std::string& name) {
  return add_many(op, std::move(inputs), std::move(attrs), 1, name)[0];
}

std::vector<ValueId> Builder::add_many(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, int outputs,
                                       const std::string& name) {
  const size_t colon = op.find("::");
  const std::string_view domain = colon == std::string_view::npos ? "" : op.substr(0, colon);
  const std::string_view plain = colon == std::string_view::npos ? op : op.substr(colon + 2);
  const OpDef* def = find_op(domain, plain, domain.empty() ? opset_ : 1);
  if (!def) fail_unknown(op, opset_);
  while (!inputs.empty() && !inputs.back().present()) inputs.pop_back();
  const std::string own = name.empty() && !prefix_.empty() ? std::string(plain) : name;
  const std::string full = prefix_.empty() ? own : fmt::format("{}/{}", prefix_, own);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].index < graph_.value_count()) continue;
    fail("{}: input {} is value {}, the graph has {} (node \"{}\")", plain, i, inputs[i].index, graph_.value_count(),
         full);
  }
  const NodeId id = graph_.add_node(*def, std::move(inputs), std::move(attrs), outputs, full);
  try {
    check_schema(graph_, id);
    infer_node(graph_, id);
  } catch (const Error&) {
    graph_.erase(id);
    throw;
  }
  return graph_.node(id).outputs;
}

}  // namespace sparkpilot
