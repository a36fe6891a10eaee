// For tests: small ONNX models, made field by field.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "ir/interpret.h"
#include "onnx/import.h"
#include "onnx/proto.h"

namespace sparkpilot {

using Names = std::initializer_list<std::string>;

inline onnx::NodeProto* add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes, const std::string& op,
                                 Names inputs, Names outputs, const std::string& name = {}) {
  onnx::NodeProto* node = nodes->Add();
  node->set_op_type(op);
  node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  return node;
}
inline onnx::NodeProto* add_node(onnx::GraphProto* graph, const std::string& op, Names inputs, Names outputs,
                                 const std::string& name = {}) {
  return add_node(graph->mutable_node(), op, inputs, outputs, name);
}

inline onnx::AttributeProto* add_attribute(onnx::NodeProto* node, const std::string& name,
                                           onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}
inline void add_int(onnx::NodeProto* node, const std::string& name, int64_t value) {
  add_attribute(node, name, onnx::AttributeProto::INT)->set_i(value);
}
inline onnx::GraphProto* add_body(onnx::NodeProto* node, const std::string& name) {
  return add_attribute(node, name, onnx::AttributeProto::GRAPH)->mutable_g();
}

inline void set_type(onnx::ValueInfoProto* info, const std::string& name, std::vector<int64_t> dims, int type) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const int64_t dim : dims) {
    auto* one = tensor->mutable_shape()->add_dim();
    if (dim >= 0) one->set_dim_value(dim);
    else one->set_dim_param("batch");
  }
}
inline void add_input(onnx::GraphProto* graph, const std::string& name, std::vector<int64_t> dims,
                      int type = onnx::TensorProto::FLOAT) {
  set_type(graph->add_input(), name, std::move(dims), type);
}
inline void add_output(onnx::GraphProto* graph, const std::string& name) { graph->add_output()->set_name(name); }

inline void set_floats(onnx::TensorProto* tensor, const std::string& name, std::vector<int64_t> dims,
                       const std::vector<float>& values) {
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_raw_data(values.data(), values.size() * sizeof(float));
}
inline onnx::TensorProto* add_floats(onnx::GraphProto* graph, const std::string& name, std::vector<int64_t> dims,
                                     const std::vector<float>& values) {
  onnx::TensorProto* tensor = graph->add_initializer();
  set_floats(tensor, name, std::move(dims), values);
  return tensor;
}

inline onnx::ModelProto empty_model(int opset = 21) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("test");
  return model;
}

// y = x + w with w = [1, 2].
inline onnx::ModelProto add_model() {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "x", {2});
  add_floats(graph, "w", {2}, {1, 2});
  add_node(graph, "Add", {"x", "w"}, {"y"}, "add");
  add_output(graph, "y");
  return model;
}

// A model with something of everything: weights, a Constant, a function, bodies, attributes, metadata.
inline onnx::ModelProto rich_model() {
  onnx::ModelProto model = add_model();
  model.add_metadata_props()->set_key("k");
  onnx::FunctionProto* function = model.add_functions();
  function->set_domain("local");
  function->set_name("twice");
  function->add_input("v");
  function->add_output("r");
  add_node(function->mutable_node(), "Add", {"v", "v"}, {"r"});
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "cond", {}, onnx::TensorProto::BOOL);
  set_floats(add_attribute(add_node(graph, "Constant", {}, {"c"}), "value", onnx::AttributeProto::TENSOR)->mutable_t(),
             "", {2, 1}, {1, 2});
  add_node(graph, "twice", {"y"}, {"t"}, "call")->set_domain("local");
  add_int(add_node(graph, "Softmax", {"t"}, {"s"}), "axis", -1);
  onnx::NodeProto* branch = add_node(graph, "If", {"cond"}, {"z"}, "if");
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto* body = add_body(branch, name);
    add_floats(body, std::string(name) + "_w", {2}, {3, 4});
    add_node(body, "Mul", {"s", std::string(name) + "_w"}, {std::string(name) + "_y"});
    add_output(body, std::string(name) + "_y");
  }
  add_node(graph, "MatMul", {"z", "c"}, {"p"}, "product");
  add_output(graph, "p");
  return model;
}

inline Graph import_bytes(const std::string& bytes) {
  return parse_onnx(std::as_bytes(std::span(bytes.data(), bytes.size())), "test.onnx");
}
inline Graph import_proto(const onnx::ModelProto& model) { return import_bytes(model.SerializeAsString()); }

// The message with which the import fails; empty if it does not.
inline std::string import_error(const onnx::ModelProto& model) {
  try {
    import_proto(model);
    return {};
  } catch (const Error& error) {
    return error.kind() == ErrorKind::user ? error.what() : fmt::format("not a user's error: {}", error.what());
  }
}

// The first output as floats.
inline std::vector<float> run_floats(const Graph& graph, const std::vector<Tensor>& inputs) {
  const Tensor first = interpret(graph, inputs).at(0);
  const auto data = first.data<float>();
  return {data.begin(), data.end()};
}

}  // namespace sparkpilot
