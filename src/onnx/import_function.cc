// Model-local functions: read once, inlined at each call.
#include <algorithm>

#include "onnx/importer.h"
#include "onnx/unsupported.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot {
namespace {
// Field numbers of FunctionProto; the last four are newer than IR 8.
constexpr int kNode = 7, kAttributeDefault = 11, kValueInfo = 12, kOverload = 13, kMetadata = 14;

void read_function(Model& model, Range range, const std::map<std::string, int>& model_opsets) {
  onnx::FunctionProto proto;
  Function function;
  std::string overload;
  for (const Deferred& field : parse_message(
           model.source, range, proto, {kNode, kAttributeDefault, kValueInfo, kOverload, kMetadata}, "function")) {
    if (field.field == kNode) {
      function.nodes.push_back(parse_node(model.source, field.bytes));
    } else if (field.field == kAttributeDefault) {
      const RawAttribute raw = parse_attribute(model.source, field.bytes);
      function.attributes.push_back(raw.proto.name());
      function.defaults.set(raw.proto.name(), import_attribute(model, raw));
    } else if (field.field == kOverload) {
      overload = read_string(model.source, field.bytes);
    }
  }
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.insert(function.attributes.end(), proto.attribute().begin(), proto.attribute().end());
  const std::string key = function_key(proto.domain(), proto.name(), overload);
  try {
    function.opsets = read_opsets(proto.opset_import());
  } catch (const Error&) {
    rethrow_within(fmt::format("function {}: ", key));
  }
  function.opsets.insert(model_opsets.begin(), model_opsets.end());  // where the function has none of its own
  if (!model.functions.emplace(key, std::move(function)).second) fail("function {} is given twice", key);
}

}  // namespace

std::map<std::string, int> read_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, int> opsets;
  for (const auto& import : imports) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    if (import.version() < 1) fail("opset {} of domain \"{}\" makes no sense", import.version(), domain);
    if (domain.empty() && import.version() > kNewestOpset) {
      fail("the model uses opset {}, the newest known is {}", import.version(), kNewestOpset);
    }
    opsets[domain] = static_cast<int>(std::min<int64_t>(import.version(), 1 << 20));
  }
  return opsets;
}

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  const std::string plain = domain.empty() || domain == "ai.onnx" ? name : domain + "::" + name;
  return overload.empty() ? plain : plain + ":" + overload;
}

void read_functions(Model& model, const std::vector<Range>& ranges, const std::map<std::string, int>& model_opsets) {
  for (const Range& range : ranges) read_function(model, range, model_opsets);
}

void Importer::inline_call(const RawNode& node, const std::string& key, const Function& function) {
  if (std::find(model_.calls.begin(), model_.calls.end(), key) != model_.calls.end()) {
    fail("function {} calls itself", key);
  }
  std::vector<BodyGraph> bodies;
  Captures captures;
  const Attributes given = import_attributes(node, nullptr, bodies, captures);
  if (!bodies.empty()) throw Unsupported("graphs as attributes of model-local functions are not supported");
  Attributes bound = function.defaults;
  for (const auto& [name, value] : given) {
    const auto& declared = function.attributes;
    if (std::find(declared.begin(), declared.end(), name) == declared.end()) {
      fail("function {} has no attribute {}", key, name);
    }
    bound.set(name, value);
  }
  const std::vector<ValueId> arguments = inputs_of(node);
  if (arguments.size() > function.inputs.size() ||
      static_cast<size_t>(node.proto.output_size()) > function.outputs.size()) {
    fail("{} inputs and {} outputs given, function {} has {} and {}", arguments.size(), node.proto.output_size(), key,
         function.inputs.size(), function.outputs.size());
  }
  Importer inner(model_, graph_, function.opsets, depth_ + 1);
  inner.bound_ = &bound;
  inner.prefix_ = scoped(label_of(node));
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    inner.define(function.inputs[i], i < arguments.size() ? arguments[i] : ValueId{});
  }
  model_.calls.push_back(key);
  inner.import_nodes(function.nodes);
  model_.calls.pop_back();
  std::vector<ValueId> results;
  for (int i = 0; i < node.proto.output_size(); ++i) {
    const std::string& name = function.outputs[static_cast<size_t>(i)];
    const std::optional<ValueId> value = inner.lookup(name);
    if (!value) fail("function {} does not make its output \"{}\"", key, name);
    results.push_back(*value);
  }
  define_outputs(node, results);
}

}  // namespace sparkpilot
