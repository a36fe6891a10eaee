// A graph under rewriting: who reads each value, kept up to date, and the small questions that patterns ask. What a
// rewrite costs does not depend on how many others read its values, nor on how many outputs and states the graph has.
//
// While an Edit lives, nodes may be added to the graph by anybody, but existing nodes' inputs change only through it.
// References into the graph (Node&, Value&) end at the next node or value that is added.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/id_map.h"
#include "ir/op.h"

namespace sparkpilot {

class Edit {
 public:
  explicit Edit(Graph& graph);
  Graph& graph() { return graph_; }

  // --- uses
  // Nodes that read the value, one entry for each read; while they are few, those that read it first come first.
  const std::vector<NodeId>& readers(ValueId value);
  // Whether the value is an output of the graph or a state's next contents.
  bool leaves_graph(ValueId value);
  // The one node that reads the value, where nothing else uses it; absent otherwise. It may read it twice.
  NodeId only_reader(ValueId value);

  // --- rewriting
  // Every use of `from` becomes one of `to`, which takes over the name where it has none; then nodes that nothing needs
  // any more are erased.
  void replace(ValueId from, ValueId to);
  void set_input(NodeId node, size_t input, ValueId value);
  // Drops the node if nothing uses its outputs, and then what only it used.
  void erase_if_dead(NodeId node);
  // Adds a node with the name of `like`, with its outputs' types, in its newest version; a constant where all inputs
  // are.
  ValueId make(NodeId like, std::string_view op, std::vector<ValueId> inputs, Attributes attrs = {});
  // The node again, in its own version, on other inputs; it has one output.
  ValueId remake(NodeId node, std::vector<ValueId> inputs, Attributes attrs);
  // The value under another shape with as many elements, by a Reshape where it is no constant.
  ValueId reshape(NodeId like, ValueId value, Shape shape);
  ValueId transpose(NodeId like, ValueId value, std::span<const int> permutation);

  // --- questions
  const Node& node(NodeId id) const { return graph_.node(id); }
  bool known(ValueId value) const { return value.present() && graph_.value(value).shape.has_value(); }
  const Shape& shape(ValueId value) const { return *graph_.value(value).shape; }
  DType dtype(ValueId value) const { return graph_.value(value).dtype; }
  const Tensor* constant(ValueId value) const { return graph_.constant(value); }
  // A constant's only element.
  std::optional<double> scalar(ValueId value) const;
  // The node that makes the value where it is the op ("Add", "sparkpilot::Conv"); absent otherwise.
  NodeId maker(ValueId value) const;
  NodeId maker(ValueId value, std::string_view op) const;

 private:
  // The reads of one value: node and input by position.
  struct Reads {
    std::vector<NodeId> nodes;
    std::vector<uint32_t> inputs;
  };
  void sync();
  void add_read(ValueId value, NodeId node, size_t input);
  void remove_read(ValueId value, NodeId node, size_t input);
  Reads& reads_of(ValueId value) { return reads_[value]; }
  uint32_t& place(NodeId node, size_t input) { return places_[first_place_[node] + input]; }
  ValueId add(const OpDef& op, std::string name, std::vector<ValueId> inputs, Attributes attrs);

  Graph& graph_;
  int indexed_ = 0;  // nodes whose reads are in reads_
  ValueMap<Reads> reads_;
  // Where a read is among its value's: for all inputs of all nodes, and where a node's begin.
  std::vector<uint32_t> places_;
  NodeMap<size_t> first_place_;
  // Uses as an output of the graph (its index) or as the next contents of a state.
  struct Outside {
    std::vector<int> outputs;
    std::vector<ValueId> states;
  };
  std::unordered_map<int32_t, Outside> outside_;  // by value; those that have any
};

bool is_op(const Node& node, std::string_view op);
bool is_one_of(const Node& node, std::span<const std::string_view> ops);
inline bool is_one_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return is_one_of(node, std::span(ops.begin(), ops.size()));
}

Shape permuted(const Shape& shape, std::span<const int> permutation);
// Whether the permutation moves more than axes of size 1.
bool moves_data(const Shape& shape, std::span<const int> permutation);
// A Transpose node's permutation of an input of this rank.
std::vector<int> permutation_of(const Node& node, int rank);

// The operand at `input` as integers, or the attribute `attribute`, whichever the node has; empty where neither is
// known.
std::optional<std::vector<int64_t>> ints_of(const Graph& graph, const Node& node, size_t input,
                                            std::string_view attribute);

// The axes that a reduction runs over, sorted and counted from the front.
std::optional<std::vector<int>> reduced_axes(const Graph& graph, const Node& node);

// Nodes found while a pattern is matched. A pattern may be replaced only when nothing outside reads a value inside.
class Region {
 public:
  explicit Region(Edit& edit) : edit_(edit) {}
  // The node that makes the value where it is the op; it becomes part of the region. Null otherwise; the reference
  // lasts until a node is added to the graph.
  const Node* take(ValueId value, std::string_view op);
  void take(NodeId node) { nodes_.push_back(node); }
  bool holds(NodeId node) const;
  // Whether every output of the region's nodes but `result` is read inside it only.
  bool closed(ValueId result) const;
  size_t mark() const { return nodes_.size(); }
  void back_to(size_t mark) { nodes_.resize(mark); }

 private:
  Edit& edit_;
  std::vector<NodeId> nodes_;
};

}  // namespace sparkpilot
