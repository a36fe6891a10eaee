// The one data structure of the project: everything a model computes is a Graph.
//
// A graph owns values and nodes; links between them are integer handles, so a graph can be copied. A value is an input,
// a constant, a state, or one output of a node. Ops are pure functions of their inputs; only states carry data from one
// run to the next: after a run, a state's `next` becomes its value.
//
// Bodies of If, Loop and Scan are separate, closed graphs: values of the enclosing graph arrive as extra inputs after
// the op's own, the same for every body of a node (node attribute `captures` counts them).
//
// `ir` knows nothing of files. Not thread-safe; a const Graph may be read from several threads.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sparkpilot/tensor.h"

namespace sparkpilot {

// ---------------------------------------------------------------- attributes
class Graph;

// Same order as Attribute's variant.
enum class AttrType { integer, real, text, integers, reals, texts, tensor, graph };
std::string_view name(AttrType type);

// A body (If, Loop, Scan) is shared and immutable; a rewrite replaces it by a changed copy.
using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor, std::shared_ptr<const Graph>>;
inline AttrType type_of(const Attribute& value) { return static_cast<AttrType>(value.index()); }

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> items) {
    for (const auto& [key, value] : items) set(key, value);
  }

  void set(std::string_view key, Attribute value);
  void erase(std::string_view key);
  const Attribute* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // The value, or the fallback if absent; fails (user) if it has another type.
  int64_t integer(std::string_view key, int64_t fallback) const;
  float real(std::string_view key, float fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  std::vector<int64_t> integers(std::string_view key, std::vector<int64_t> fallback = {}) const;
  std::vector<float> reals(std::string_view key, std::vector<float> fallback = {}) const;
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> fallback = {}) const;
  // Fail (user) if absent.
  int64_t integer(std::string_view key) const;
  const Tensor& tensor(std::string_view key) const;
  const std::shared_ptr<const Graph>& graph(std::string_view key) const;

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }

 private:
  std::vector<std::pair<std::string, Attribute>> items_;  // sorted by key
};

// ---------------------------------------------------------------- the graph
struct OpDef;

struct ValueId {
  int32_t index = -1;
  bool present() const { return index >= 0; }        // false: an optional input that is not given
  auto operator<=>(const ValueId&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs
};
struct NodeId {
  int32_t index = -1;
  bool present() const { return index >= 0; }
  auto operator<=>(const NodeId&) const = default;  // NOLINT(modernize-use-nullptr)
};

// A dimension as a model declares it: a size, a name ("batch"), or neither.
struct Dim {
  int64_t size = -1;        // -1: not fixed
  std::string symbol = {};  // may be empty
};

enum class ValueKind : uint8_t { node_output, input, constant, state };

struct Value {
  // As in the file. A pass that changes what a value holds, or adds one, leaves it empty: inputs, states and values
  // that nodes compute hold the same numbers under the same name, up to rounding, before and after all passes.
  std::string name;
  ValueKind kind = ValueKind::node_output;
  DType dtype = DType::none;                 // none until inferred
  std::optional<Shape> shape;                // absent if unknown or dependent on data
  std::optional<std::vector<Dim>> declared;  // as the model declares an input or output
  Tensor constant;                           // kind constant: its contents; kind state: its initial contents
  NodeId producer;                           // kind node_output
  bool channels_last = false;                // axis 1 of the file's value of that name is the last axis here
};

struct Node {
  const OpDef* op = nullptr;
  std::string name;  // may be empty
  std::vector<ValueId> inputs, outputs;
  Attributes attrs;
};

struct State {
  ValueId value;  // kind state
  ValueId next;   // its contents for the next run; same dtype and shape
  // Whether its initial contents are kept, so that sessions can be reset to them. If not, they are moved into the first
  // session that runs the graph, and the first run overwrites them: for parameters and moments, which are in memory
  // only once.
  bool resettable = true;
};

class Graph {
 public:
  struct Output {
    ValueId value;
    std::string name;
  };

  // --- building
  ValueId add_input(std::string name, DType dtype, std::vector<Dim> dims);
  ValueId add_input(std::string name, DType dtype, const Shape& shape);
  ValueId add_constant(Tensor tensor, std::string name = {});
  // set_next() must follow. Without a name it gets one; fails (internal) if another state has that name.
  ValueId add_state(Tensor initial, std::string name = {}, bool resettable = true);
  void set_next(ValueId state, ValueId next);
  // Adds a node and its output values; no inference, no checks beyond the ids.
  NodeId add_node(const OpDef& op, std::vector<ValueId> inputs, Attributes attrs, int outputs, std::string name = {});
  void add_output(ValueId value, std::string name);

  // --- rewriting
  // Every use of `from` (by nodes, outputs and states) becomes a use of `to`.
  void replace_uses(ValueId from, ValueId to);
  void erase(NodeId node);  // its outputs must have no uses left
  // Removes nodes and values that no output and no state needs; renumbers everything. Inputs, outputs and states stay.
  void compact();
  void replace_outputs(std::vector<Output> outputs) { outputs_ = std::move(outputs); }
  void set_output(int index, ValueId value) { outputs_[static_cast<size_t>(index)].value = value; }

  // --- reading
  Value& value(ValueId id) { return values_[static_cast<size_t>(id.index)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id.index)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id.index)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id.index)]; }
  bool erased(NodeId id) const { return node(id).op == nullptr; }
  int value_count() const { return static_cast<int>(values_.size()); }
  int node_count() const { return static_cast<int>(nodes_.size()); }  // erased ones included
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::vector<State>& states() const { return states_; }
  // The contents if the value is a constant, else null.
  const Tensor* constant(ValueId id) const;
  ValueId find_input(std::string_view name) const;  // absent id if not found

  // Live nodes, producers before consumers; fails (user) on a cycle, naming a node on it. Stable: keeps the order of
  // insertion where possible.
  std::vector<NodeId> order() const;
  // For each value, the nodes that read it (once for each read).
  std::vector<std::vector<NodeId>> uses() const;
  // A name for messages: the node's own, or `<op>#<index>`.
  std::string label(NodeId id) const;

  // --- other content of the file
  std::string name, producer;
  std::map<std::string, int> opsets;            // domain -> version; "" is ONNX's
  std::map<std::string, std::string> metadata;  // metadata_props

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<Output> outputs_;
  std::vector<State> states_;
};

// ---------------------------------------------------------------- rewrites
// What a session may do to a graph before it runs it (`sparkpilot run --passes list` prints the passes).
enum class Precision {
  model,  // as in the file
  fp32,   // every f16 and bf16 value and constant is f32
  fp16,   // computed in f32; weights of convolutions and GEMMs are stored in f16
  bf16,  // convolutions, GEMMs and elementwise ops in bf16 with f32 accumulation; norms, softmax, reductions, attention
         // and the last layer before each output in f32
  // Weights in 8 or 4 bits but for the last layers before each output; computed in f32. On a GPU activations are f16.
  fp8,  // convolutions, GEMMs: E4M3 with a scale for each output channel
  fp4,  // GEMMs: NVFP4 (E2M1 in blocks of 16 with a scale in E4M3, and one in f32); convolutions as fp8. Experimental
  automatic,  // in a Session fp16 on a GPU and fp32 on the CPU; elsewhere fp32
};

struct PassOptions {
  std::set<std::string> off = {};  // names of passes that are skipped; "all" skips every optional one
  // The types to compute in; applied at two points in the order of the passes.
  Precision precision = Precision::model;
  // The largest magnitude of values by their names, as calibration saw it: fp8 rounds what a product reads to E4M3,
  // too, where its value is among them; fp4 rounds it to the format of the product's weights, NVFP4 or E4M3, which on a
  // GPU needs compute capability 12.0.
  std::map<std::string, double> largest = {};
  // Also a precision that this processor has no arithmetic for: the same results, by plain and slow kernels.
  bool emulate = false;
  // Called after each pass that ran, with the number of its changes.
  std::function<void(std::string_view pass, const Graph& graph, int changes)> observe = {};
};

}  // namespace sparkpilot
