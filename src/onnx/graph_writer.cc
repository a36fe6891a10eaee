#include "onnx/graph_writer.h"

#include "base/error.h"
#include "ir/id_map.h"
#include "ir/op.h"
#include "onnx/importer.h"

namespace sparkpilot {
namespace {

// A body's constants larger than this are written among the main graph's initializers, which need no copy.
constexpr int64_t kLargestInBody = 1 << 16;

void write_type(const Value& value, onnx::ValueInfoProto& info) {
  if (value.dtype == DType::none) return;
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<int>(onnx_code(value.dtype)));
  if (value.declared) {
    type->mutable_shape();
    for (const Dim& dim : *value.declared) {
      auto* one = type->mutable_shape()->add_dim();
      if (dim.size >= 0) one->set_dim_value(dim.size);
      else if (!dim.symbol.empty()) one->set_dim_param(dim.symbol);
    }
  } else if (value.shape) {
    type->mutable_shape();
    for (const int64_t size : *value.shape) type->mutable_shape()->add_dim()->set_dim_value(size);
  }
}

int64_t capture_count(const Node& node) { return node.attrs.integer("captures", 0); }

}  // namespace

std::string NameTable::unique(const std::string& wanted, const std::string& fallback) {
  if (!wanted.empty() && reserve(wanted)) return wanted;
  const std::string& stem = wanted.empty() ? fallback : wanted;
  std::string name;
  do name = fmt::format("{}_{}", stem, ++next_);
  while (!reserve(name));
  return name;
}

void describe_tensor(const std::string& name, const Tensor& tensor, onnx::TensorProto& proto) {
  if (!name.empty()) proto.set_name(name);
  proto.set_data_type(static_cast<int>(onnx_code(tensor.dtype())));
  for (const int64_t size : tensor.shape()) proto.add_dims(size);
}

// The graph being written and the names of its values in the file.
struct GraphWriter::Scope {
  Scope(const Graph& g, onnx::GraphProto& p, bool is_body)
      : graph(g), proto(p), body(is_body), names(g.value_count()), uses(g.uses()), outputs(g.value_count()) {
    for (const Graph::Output& output : g.outputs()) outputs[output.value] = true;
  }
  const Graph& graph;
  onnx::GraphProto& proto;
  bool body;
  ValueMap<std::string> names;            // empty: not named yet
  std::vector<std::vector<NodeId>> uses;  // by value
  ValueMap<bool> outputs;                 // whether the value is an output
};

void GraphWriter::write(const Graph& graph, onnx::GraphProto& proto) {
  if (!graph.states().empty()) {
    fail("state \"{}\" has no form in ONNX", graph.value(graph.states()[0].value).name);
  }
  Scope scope(graph, proto, false);
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  // The names of inputs and outputs are reserved first, so that nothing else gets them.
  for (const ValueId id : graph.inputs()) {
    const std::string& name = graph.value(id).name;
    if (name.empty() || !values_.reserve(name)) fail("input name \"{}\" is empty or given twice", name);
    scope.names[id] = name;
    auto* info = proto.add_input();
    info->set_name(name);
    write_type(graph.value(id), *info);
  }
  for (const Graph::Output& output : graph.outputs()) {
    std::string& name = scope.names[output.value];
    if (name == output.name) continue;  // an input that is also an output
    if (output.name.empty() || !values_.reserve(output.name)) {
      fail("output name \"{}\" is empty or given twice", output.name);
    }
    if (name.empty() && graph.value(output.value).kind == ValueKind::node_output) name = output.name;
  }
  write_nodes(scope);
  write_outputs(scope);
}

void GraphWriter::write_body(const Graph& graph, onnx::GraphProto& proto, const std::vector<std::string>& captured) {
  Scope scope(graph, proto, true);
  proto.set_name(graph.name.empty() ? "body" : graph.name);
  if (graph.inputs().size() < captured.size()) {
    fail("a body has {} inputs, its node captures {}", graph.inputs().size(), captured.size());
  }
  const size_t own = graph.inputs().size() - captured.size();
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    std::string& name = scope.names[graph.inputs()[i]];
    name = i < own ? values_.unique(value.name, "in") : captured[i - own];
    if (i >= own) continue;
    auto* info = proto.add_input();
    info->set_name(name);
    write_type(value, *info);
  }
  write_nodes(scope);
  write_outputs(scope);
}

void GraphWriter::write_nodes(Scope& scope) {
  for (const NodeId id : scope.graph.order()) write_node(scope, id);
}

void GraphWriter::write_outputs(Scope& scope) {
  std::unordered_set<std::string> taken;
  for (const Graph::Output& output : scope.graph.outputs()) {
    const Value& value = scope.graph.value(output.value);
    const std::string made = name_of(scope, output.value);
    std::string name = scope.body ? made : output.name;
    // An output's name has to be produced by a node, unless it is an input of that name. A body's outputs have to be
    // made in the body and be distinct.
    const bool copy = scope.body ? value.kind != ValueKind::node_output || !taken.insert(made).second : made != name;
    if (copy) {
      if (scope.body) name = values_.unique(output.name, "out");
      auto* node = scope.proto.add_node();
      node->set_op_type("Identity");
      node->set_name(nodes_.unique("", "Identity"));
      node->add_input(made);
      node->add_output(name);
    }
    auto* info = scope.proto.add_output();
    info->set_name(name);
    write_type(value, *info);
  }
}

std::string GraphWriter::name_of(Scope& scope, ValueId id) {
  if (!id.present()) return {};
  std::string& name = scope.names[id];
  if (!name.empty()) return name;
  const Value& value = scope.graph.value(id);
  name = values_.unique(value.name, value.kind == ValueKind::constant ? "constant" : "value");
  if (value.kind != ValueKind::constant) return name;
  if (scope.body && value.constant.bytes() <= kLargestInBody) {
    auto* tensor = scope.proto.add_initializer();
    describe_tensor(name, value.constant, *tensor);
    tensor->set_raw_data(value.constant.raw(), static_cast<size_t>(value.constant.bytes()));
  } else {
    initializers_.push_back({name, value.constant});
  }
  return name;
}

void GraphWriter::write_node(Scope& scope, NodeId id) {
  const Node& node = scope.graph.node(id);
  onnx::NodeProto proto;
  proto.set_op_type(std::string(node.op->name));
  if (!node.op->domain.empty()) proto.set_domain(std::string(node.op->domain));
  if (!node.name.empty()) proto.set_name(nodes_.unique(node.name, ""));
  std::vector<std::string> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(name_of(scope, input));
  const int64_t captures = capture_count(node);
  if (captures < 0 || captures > std::ssize(inputs)) fail("{} captures of {} inputs", captures, inputs.size());
  const std::vector<std::string> captured(inputs.end() - captures, inputs.end());
  inputs.resize(inputs.size() - static_cast<size_t>(captures));
  for (const std::string& input : inputs) proto.add_input(input);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    // An optional output without a name or uses is left out.
    const bool unwanted = scope.names[output].empty() && scope.graph.value(output).name.empty() &&
                          scope.uses[static_cast<size_t>(output.index)].empty() &&
                          static_cast<int>(i) >= node.op->outputs.least && node.op->outputs.most < kMany;
    proto.add_output(unwanted && !scope.outputs[output] ? std::string() : name_of(scope, output));
  }
  if (internal_attribute(*node.op, "channels_last") && node.attrs.integer("channels_last", 0) != 0) {
    fail("{}: images in the runtime's own layout have no form in ONNX (node \"{}\")", node.op->name,
         scope.graph.label(id));
  }
  for (const auto& [key, value] : node.attrs) {
    if (!internal_attribute(*node.op, key)) write_attribute(key, value, captured, *proto.add_attribute());
  }
  *scope.proto.add_node() = std::move(proto);
}

void GraphWriter::write_attribute(const std::string& name, const Attribute& value,
                                  const std::vector<std::string>& captured, onnx::AttributeProto& proto) {
  using Proto = onnx::AttributeProto;
  proto.set_name(name);
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    proto.set_type(Proto::INT);
    proto.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&value)) {
    proto.set_type(Proto::FLOAT);
    proto.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    proto.set_type(Proto::STRING);
    proto.set_s(*text);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    proto.set_type(Proto::INTS);
    for (const int64_t item : *integers) proto.add_ints(item);
  } else if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
    proto.set_type(Proto::FLOATS);
    for (const float item : *reals) proto.add_floats(item);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    proto.set_type(Proto::STRINGS);
    for (const std::string& item : *texts) proto.add_strings(item);
  } else if (const auto* tensor = std::get_if<Tensor>(&value)) {
    proto.set_type(Proto::TENSOR);
    describe_tensor({}, *tensor, *proto.mutable_t());
    proto.mutable_t()->set_raw_data(tensor->raw(), static_cast<size_t>(tensor->bytes()));
  } else {
    proto.set_type(Proto::GRAPH);
    write_body(*std::get<std::shared_ptr<const Graph>>(value), *proto.mutable_g(), captured);
  }
}

}  // namespace sparkpilot
