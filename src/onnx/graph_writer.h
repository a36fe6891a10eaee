// GraphProto from Graph. Private to the room.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "onnx/proto.h"

namespace sparkpilot {

// Hands out names that no value of the model has, bodies included.
class NameTable {
 public:
  // `wanted`, where it is free, else with a number behind it; `fallback` stands for an empty one.
  std::string unique(const std::string& wanted, const std::string& fallback);
  bool reserve(const std::string& name) { return used_.insert(name).second; }

 private:
  std::unordered_set<std::string> used_;
  int64_t next_ = 0;
};

// A constant that is written behind the graph's other fields, straight from its memory.
struct Initializer {
  std::string name;
  Tensor tensor;
};

class GraphWriter {
 public:
  // The main graph; everything but its initializers, which come to initializers().
  void write(const Graph& graph, onnx::GraphProto& proto);
  const std::vector<Initializer>& initializers() const { return initializers_; }

 private:
  struct Scope;
  void write_body(const Graph& graph, onnx::GraphProto& proto, const std::vector<std::string>& captured);
  void write_nodes(Scope& scope);
  void write_outputs(Scope& scope);
  void write_node(Scope& scope, NodeId id);
  void write_attribute(const std::string& name, const Attribute& value, const std::vector<std::string>& captured,
                       onnx::AttributeProto& proto);
  std::string name_of(Scope& scope, ValueId id);

  NameTable values_, nodes_;
  std::vector<Initializer> initializers_;
};

// Everything of a TensorProto but its data.
void describe_tensor(const std::string& name, const Tensor& tensor, onnx::TensorProto& proto);

}  // namespace sparkpilot
