// The implementation of load_onnx(): one Importer for each name scope (the main graph, a body, the inside of a function
// call).
//
// Private to the room.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"
#include "onnx/proto.h"
#include "onnx/tensor_proto.h"
#include "onnx/wire.h"

namespace sparkpilot {

// A NodeProto without its attributes, which are left in the source.
struct RawNode {
  onnx::NodeProto proto;
  std::string overload;
  std::vector<Range> attributes;
};
RawNode parse_node(ByteSource& source, Range range);

// An AttributeProto; its tensor, graph or sparse tensor is left in the source.
struct RawAttribute {
  onnx::AttributeProto proto;  // with the type of the filled field if the file does not say
  std::optional<Range> tensor, graph, sparse;
};
RawAttribute parse_attribute(ByteSource& source, Range range);

// A model-local function.
struct Function {
  std::string label;  // for messages
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<RawNode> nodes;  // sorted
  Attributes defaults;         // of the attributes that have one
  std::map<std::string, int> opsets;
};

// What all scopes of one model share.
struct Model {
  ByteSource& source;
  TensorReader tensors;
  std::map<std::string, Function> functions;  // by function_key()
  std::vector<std::string> calls;             // functions being inlined
  // Totals so far: a few bytes of nested calls or bodies could expand to any number.
  int64_t nodes = 0, values = 0, inlined_bytes = 0;
};
std::string function_key(const std::string& domain, const std::string& name, const std::string& overload);

// The versions that a model or a function uses, by domain, "" for ai.onnx. Fails (user) if one is not known.
std::map<std::string, int> read_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

// Reads FunctionProto messages into model.functions.
void read_functions(Model& model, const std::vector<Range>& ranges, const std::map<std::string, int>& model_opsets);

// A sparse tensor as a dense one; bounded, as a hostile file may declare any `dims`.
TensorReader::Named read_sparse(Model& model, Range range);
// The value of an attribute that is not a graph.
Attribute import_attribute(Model& model, const RawAttribute& raw);
// Attributes that only this program gives to nodes: files may not have them, and export does not write them. Only
// com.microsoft's ops have a separate `channels_last`.
inline bool internal_attribute(const OpDef& op, std::string_view name) {
  return name == "captures" || (name == "channels_last" && op.domain != "com.microsoft");
}
// An input of a body, without a declared type.
ValueId add_untyped_input(Graph& graph, std::string name, DType dtype);

class Importer {
 public:
  Importer(Model& model, Graph& graph, std::map<std::string, int> opsets, int depth);

  // A GraphProto with its inputs and outputs.
  void import_graph(Range range);

 private:
  // The values of the enclosing graph that the bodies of one node use.
  using Captures = std::vector<ValueId>;
  struct BodyGraph {
    std::string attribute;
    Graph graph;
    std::map<ValueId, ValueId> captured;  // value of the enclosing graph -> input of the body
  };

  void import_inputs(const onnx::GraphProto& proto);
  void import_outputs(const onnx::GraphProto& proto);
  void import_nodes(const std::vector<RawNode>& nodes);
  void import_node(const RawNode& node);
  void add_constant_node(const RawNode& node);
  void add_op_node(const RawNode& node);
  void inline_call(const RawNode& node, const std::string& key, const Function& function);

  // Graphs go to `bodies`, everything else into the result. `op` is null in a call of a function.
  Attributes import_attributes(const RawNode& node, const OpDef* op, std::vector<BodyGraph>& bodies,
                               Captures& captures);
  BodyGraph import_body(const RawAttribute& attribute, Captures& captures);
  // Gives every body the same extra inputs and appends the captured values to the node's inputs.
  void join_bodies(std::vector<BodyGraph> bodies, const Captures& captures, Attributes& attrs,
                   std::vector<ValueId>& inputs) const;

  void define(const std::string& name, ValueId value);
  void count_value();
  // Counts bytes that are read for each call of a function although they are in the file once.
  void charge(size_t bytes);
  std::vector<ValueId> inputs_of(const RawNode& node);
  void define_outputs(const RawNode& node, const std::vector<ValueId>& values);
  // The value of that name in this or an enclosing scope; empty if not found. An absent id is an optional input of a
  // function that the call omitted.
  std::optional<ValueId> lookup(const std::string& name);
  std::optional<ValueId> capture(const std::string& name);
  ValueId capture_value(ValueId outside);
  std::string scoped(const std::string& name) const { return prefix_.empty() ? name : prefix_ + "/" + name; }
  int opset(const std::string& domain) const;

  Model& model_;
  Graph& graph_;
  std::map<std::string, int> opsets_;
  int depth_;
  std::unordered_map<std::string, ValueId> names_;
  // Bodies only.
  Importer* around_ = nullptr;
  BodyGraph* body_ = nullptr;
  Captures* captures_ = nullptr;
  // Inside function calls only.
  const Attributes* bound_ = nullptr;
  std::string prefix_;
};

// An order in which nodes come after their inputs; fails (user) on a cycle, naming a node on it. Files should already
// be sorted, and those that are keep their order.
std::vector<size_t> order_of(const std::vector<RawNode>& nodes);
// A node's name for messages.
std::string label_of(const RawNode& node);

}  // namespace sparkpilot
