// GraphProto from Graph. Private to the room.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "onnx/proto.h"

namespace sparkpilot {

// Gives names that no value of the model has, including its bodies.
class NameTable {
 public:
  // `wanted` if it is free, else with a number appended; `fallback` replaces an empty one.
  std::string unique(const std::string& wanted, const std::string& fallback);
  bool reserve(const std::string& name) { return used_.insert(name).second; }

 private:
  std::unordered_set<std::string> used_;
  int64_t next_ = 0;
};

// A constant that is written after the graph's other fields, straight from its memory.
struct Initializer {
  std::string name;
  Tensor tensor;
};

class GraphWriter {
 public:
  // Writes the main graph without its initializers, which are added to initializers().
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

// Writes everything of a TensorProto except its data.
void describe_tensor(const std::string& name, const Tensor& tensor, onnx::TensorProto& proto);

}  // namespace sparkpilot
