// GraphProto: initializers, inputs, nodes, outputs, names.
#include <algorithm>
#include <limits>

#include "ir/infer.h"
#include "ir/op.h"
#include "onnx/importer.h"
#include "onnx/unsupported.h"

namespace sparkpilot {
namespace {

// Field numbers of GraphProto.
constexpr int kNode = 1, kInitializer = 5, kValueInfo = 13, kQuantization = 14, kSparseInitializer = 15,
              kGraphMetadata = 16;
constexpr int kDeepest = 64;                                    // nesting of bodies and of calls
constexpr int64_t kMaxNodes = 250'000, kMaxValues = 2'000'000;  // with calls inlined
constexpr int64_t kMaxInlinedBytes = int64_t{64} << 20;

// A declared input or output: only dense tensors.
struct Declared {
  DType dtype = DType::none;
  std::optional<std::vector<Dim>> dims;  // absent: any rank
};

Declared read_type(const onnx::ValueInfoProto& info) {
  const onnx::TypeProto& type = info.type();
  switch (type.value_case()) {
    case onnx::TypeProto::VALUE_NOT_SET: return {};
    case onnx::TypeProto::kTensorType: break;
    case onnx::TypeProto::kSequenceType: throw Unsupported("sequences are not supported");
    case onnx::TypeProto::kOptionalType: throw Unsupported("optional types are not supported");
    case onnx::TypeProto::kMapType: throw Unsupported("maps are not supported");
    default: throw Unsupported("only dense tensors are supported");
  }
  Declared out;
  if (type.tensor_type().elem_type() != 0) out.dtype = read_dtype(type.tensor_type().elem_type());
  if (!type.tensor_type().has_shape()) return out;
  const onnx::TensorShapeProto& shape = type.tensor_type().shape();
  if (shape.dim_size() > Shape::kMaxRank) {
    throw Unsupported(fmt::format("rank {} is above {}", shape.dim_size(), Shape::kMaxRank));
  }
  out.dims.emplace();
  for (const auto& dim : shape.dim()) {
    // Some exporters write -1 for an open size.
    if (dim.has_dim_value() && dim.dim_value() < -1) fail("dimension {} is negative", dim.dim_value());
    out.dims->push_back({dim.has_dim_value() ? dim.dim_value() : -1, dim.dim_param()});
  }
  return out;
}

}  // namespace

Importer::Importer(Model& model, Graph& graph, std::map<std::string, int> opsets, int depth)
    : model_(model), graph_(graph), opsets_(std::move(opsets)), depth_(depth) {
  if (depth > kDeepest) fail("graphs and functions are nested deeper than {}", kDeepest);
}

void Importer::import_graph(Range range) {
  onnx::GraphProto proto;
  std::vector<RawNode> nodes;
  const auto deferred =
      parse_message(model_.source, range, proto,
                    {kNode, kInitializer, kValueInfo, kQuantization, kSparseInitializer, kGraphMetadata}, "graph");
  graph_.name = proto.name();
  charge(proto.ByteSizeLong() + deferred.size() * sizeof(Deferred));
  for (const Deferred& field : deferred) {
    if (field.field == kInitializer || field.field == kSparseInitializer) {
      const TensorReader::Named read =
          field.field == kInitializer ? model_.tensors.read(field.bytes) : read_sparse(model_, field.bytes);
      if (read.name.empty()) fail("an initializer of graph \"{}\" has no name", proto.name());
      define(read.name, graph_.add_constant(read.tensor, read.name));
    }
  }
  import_inputs(proto);
  if (body_) {
    for (const ValueId outside : *captures_) capture_value(outside);
  }
  for (const Deferred& field : deferred) {
    if (field.field == kNode) nodes.push_back(parse_node(model_.source, field.bytes));
    if (std::ssize(nodes) > kMaxNodes) fail("more than {} nodes", kMaxNodes);
  }
  import_nodes(nodes);
  import_outputs(proto);
}

void Importer::import_inputs(const onnx::GraphProto& proto) {
  for (const auto& info : proto.input()) {
    if (info.name().empty() && !body_) fail("an input of graph \"{}\" has no name", proto.name());
    const auto known = names_.find(info.name());
    // IR 3 also lists every initializer as an input; they stay constants.
    if (known != names_.end() && graph_.constant(known->second)) continue;
    try {
      const Declared type = read_type(info);
      if (!body_ && type.dtype == DType::none) fail("no element type is given");
      const ValueId id = type.dims ? graph_.add_input(info.name(), type.dtype, *type.dims)
                                   : add_untyped_input(graph_, info.name(), type.dtype);
      if (!info.name().empty()) define(info.name(), id);
    } catch (const Error&) {
      rethrow_within(fmt::format("input \"{}\": ", info.name()));
    }
  }
}

void Importer::import_outputs(const onnx::GraphProto& proto) {
  std::vector<std::string> seen;
  for (const auto& info : proto.output()) {
    try {
      const Declared type = read_type(info);
      const std::optional<ValueId> value = info.name().empty() ? std::nullopt : lookup(info.name());
      if (!value || !value->present()) fail("no node makes it");
      Value& made = graph_.value(*value);
      if (made.kind == ValueKind::node_output && !made.declared) {
        made.declared = type.dims;
        made.dtype = type.dtype;  // replaced when it is inferred
      }
      graph_.add_output(*value, info.name());
      seen.push_back(info.name());
    } catch (const Error&) {
      rethrow_within(fmt::format("output \"{}\": ", info.name()));
    }
  }
  if (graph_.outputs().empty() && !body_) fail("graph \"{}\" has no outputs", proto.name());
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice != seen.end() && !body_) fail("output \"{}\" is listed twice", *twice);
}

void Importer::import_nodes(const std::vector<RawNode>& nodes) {
  for (const size_t i : order_of(nodes)) {
    if (++model_.nodes > kMaxNodes) fail("more than {} nodes, model-local functions inlined", kMaxNodes);
    try {
      import_node(nodes[i]);
    } catch (const Error& error) {
      // The error names the innermost node.
      if (std::string_view(error.what()).find("(node \"") != std::string_view::npos) throw;
      rethrow_within(fmt::format("{}: ", nodes[i].proto.op_type()),
                     fmt::format(" (node \"{}\")", scoped(label_of(nodes[i]))));
    }
  }
}

void Importer::import_node(const RawNode& node) {
  charge(node.proto.ByteSizeLong() + prefix_.size());
  const std::string key = function_key(node.proto.domain(), node.proto.op_type(), node.overload);
  const auto function = model_.functions.find(key);
  if (function != model_.functions.end()) inline_call(node, key, function->second);
  else if (node.proto.domain().empty() && node.proto.op_type() == "Constant") add_constant_node(node);
  else add_op_node(node);
}

void Importer::add_op_node(const RawNode& node) {
  const std::string& domain = node.proto.domain();
  const std::string& name = node.proto.op_type();
  const int version = opset(domain);
  const OpDef* op = domain == "sparkpilot" ? nullptr : find_op(domain, name, version);
  if (!op) {
    const bool newer = domain != "sparkpilot" && find_op(domain, name, std::numeric_limits<int>::max());
    const std::string full = domain.empty() ? name : domain + "::" + name;
    throw Unsupported(newer ? fmt::format("op {} does not exist in opset {}", full, version)
                            : fmt::format("op {} is not known", full));
  }
  if (!op->refused.empty()) throw Unsupported(std::string(op->refused));
  std::vector<BodyGraph> bodies;
  Captures captures;
  Attributes attrs = import_attributes(node, op, bodies, captures);
  std::vector<ValueId> inputs = inputs_of(node);
  join_bodies(std::move(bodies), captures, attrs, inputs);
  int outputs = node.proto.output_size();
  while (outputs > 0 && node.proto.output(outputs - 1).empty()) --outputs;
  const NodeId id = graph_.add_node(*op, std::move(inputs), std::move(attrs), outputs, scoped(node.proto.name()));
  check_schema(graph_, id);
  define_outputs(node, graph_.node(id).outputs);
}

void Importer::add_constant_node(const RawNode& node) {
  std::vector<BodyGraph> bodies;
  Captures captures;
  const Attributes attrs = import_attributes(node, nullptr, bodies, captures);
  if (attrs.size() != 1 || node.proto.output_size() != 1 || node.proto.input_size() != 0) {
    fail("{} values, {} inputs and {} outputs given, expected 1, 0 and 1", attrs.size(), node.proto.input_size(),
         node.proto.output_size());
  }
  const auto& [key, value] = *attrs.begin();
  Tensor tensor;
  if (key == "value" || key == "sparse_value") tensor = attrs.tensor(key);
  else if (key == "value_float") tensor = Tensor::scalar(attrs.real(key, 0));
  else if (key == "value_int") tensor = Tensor::scalar(attrs.integer(key));
  else if (key == "value_ints") tensor = Tensor::ints(attrs.integers(key));
  else if (key == "value_floats") {
    const std::vector<float> values = attrs.reals(key);
    tensor = Tensor::of<float>(Shape{std::ssize(values)}, values);
  } else if (key == "value_string" || key == "value_strings") {
    throw Unsupported("tensors of strings are not supported");
  } else {
    fail("has no attribute {}", key);
  }
  define_outputs(node, {graph_.add_constant(std::move(tensor))});
}

void Importer::count_value() {
  if (++model_.values > kMaxValues) fail("more than {} values", kMaxValues);
}

void Importer::charge(size_t bytes) {
  if (!bound_) return;
  model_.inlined_bytes += static_cast<int64_t>(bytes);
  if (model_.inlined_bytes > kMaxInlinedBytes) {
    fail("model-local functions grow beyond {} bytes when they are inlined", kMaxInlinedBytes);
  }
}

void Importer::define(const std::string& name, ValueId value) {
  count_value();
  if (!names_.emplace(name, value).second) fail("the name \"{}\" is given twice", name);
}

std::vector<ValueId> Importer::inputs_of(const RawNode& node) {
  std::vector<ValueId> inputs;
  for (const std::string& name : node.proto.input()) {
    const std::optional<ValueId> value = name.empty() ? ValueId{} : lookup(name);
    if (!value) fail("reads \"{}\", which no node before it makes", name);
    inputs.push_back(*value);
  }
  while (!inputs.empty() && !inputs.back().present()) inputs.pop_back();
  return inputs;
}

void Importer::define_outputs(const RawNode& node, const std::vector<ValueId>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = node.proto.output(static_cast<int>(i));
    if (name.empty()) continue;
    define(name, values[i]);
    if (values[i].present() && graph_.value(values[i]).name.empty()) graph_.value(values[i]).name = scoped(name);
  }
}

std::optional<ValueId> Importer::lookup(const std::string& name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  if (!around_) return std::nullopt;
  const std::optional<ValueId> value = capture(name);
  if (value) names_.emplace(name, *value);
  return value;
}

int Importer::opset(const std::string& domain) const {
  const auto found = opsets_.find(domain);
  if (found != opsets_.end()) return found->second;
  if (domain.empty()) fail("the model does not say which opset it uses");
  return 1;
}

}  // namespace sparkpilot
