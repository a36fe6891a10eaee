// A graph being rewritten: keeps the readers of each value up to date and answers the queries that patterns need. The
// cost of a rewrite does not depend on the number of other readers of its values, nor on the number of graph outputs
// and states.
//
// While an Edit exists, nodes may be added to the graph directly, but the inputs of existing nodes may change only
// through the Edit. References into the graph (Node&, Value&) become invalid when a node or value is added.
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
  // Nodes that read the value, one entry for each read; in order of their first reads if there are only a few.
  const std::vector<NodeId>& readers(ValueId value);
  // Whether the value is an output of the graph or a state's next contents.
  bool leaves_graph(ValueId value);
  // The only node that reads the value; absent if there are several, or if the value leaves the graph. The node may
  // read it more than once.
  NodeId only_reader(ValueId value);

  // --- rewriting
  // Replaces every use of `from` by `to`, which takes over its name if it has none; then erases the nodes that are no
  // longer needed.
  void replace(ValueId from, ValueId to);
  // Says that the value will not hold what the file's value of its name holds.
  void forget_name(ValueId value) { graph_.value(value).name.clear(); }
  void set_input(NodeId node, size_t input, ValueId value);
  // Erases the node if nothing uses its outputs, and then any nodes that only it used.
  void erase_if_dead(NodeId node);
  // Adds a node in the op's newest version, with the name of `like`, and infers its output types. If all inputs are
  // constants, the result is computed and added as a constant instead.
  ValueId make(NodeId like, std::string_view op, std::vector<ValueId> inputs, Attributes attrs = {});
  // Adds a copy of the node, in the same op version, with other inputs. The node must have one output.
  ValueId remake(NodeId node, std::vector<ValueId> inputs, Attributes attrs);
  // The value with another shape of as many elements: a Reshape, or a new constant if the value is constant.
  ValueId reshape(NodeId like, ValueId value, Shape shape);
  ValueId transpose(NodeId like, ValueId value, std::span<const int> permutation);

  // --- questions
  const Node& node(NodeId id) const { return graph_.node(id); }
  bool known(ValueId value) const { return value.present() && graph_.value(value).shape.has_value(); }
  const Shape& shape(ValueId value) const { return *graph_.value(value).shape; }
  DType dtype(ValueId value) const { return graph_.value(value).dtype; }
  const Tensor* constant(ValueId value) const { return graph_.constant(value); }
  // The element of a constant that has only one.
  std::optional<double> scalar(ValueId value) const;
  // The node that makes the value; absent if there is none or, with `op` ("Add", "sparkpilot::Conv"), if it is another
  // op.
  NodeId maker(ValueId value) const;
  NodeId maker(ValueId value, std::string_view op) const;

 private:
  // All reads of one value: nodes and input indices.
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
  // Position of a read among the reads of its value: for all inputs of all nodes, and where each node's inputs begin.
  std::vector<uint32_t> places_;
  NodeMap<size_t> first_place_;
  // Uses as a graph output (its index) or as the next value of a state.
  struct Outside {
    std::vector<int> outputs;
    std::vector<ValueId> states;
  };
  std::unordered_map<int32_t, Outside> outside_;  // by value; only values that have such uses
};

bool is_op(const Node& node, std::string_view op);
bool is_one_of(const Node& node, std::span<const std::string_view> ops);
inline bool is_one_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return is_one_of(node, std::span(ops.begin(), ops.size()));
}

Shape permuted(const Shape& shape, std::span<const int> permutation);
// Whether the permutation moves data: it changes the order of axes larger than 1.
bool moves_data(const Shape& shape, std::span<const int> permutation);
// The permutation of a Transpose node whose input has this rank.
std::vector<int> permutation_of(const Node& node, int rank);

// The integers of the input `input` or of the attribute `attribute`, whichever the node has; empty if neither is known.
std::optional<std::vector<int64_t>> ints_of(const Graph& graph, const Node& node, size_t input,
                                            std::string_view attribute);

// The axes that a reduction runs over, sorted and counted from the front.
std::optional<std::vector<int>> reduced_axes(const Graph& graph, const Node& node);

// The nodes matched by a pattern so far. A pattern may be replaced only if no node outside it reads a value computed
// inside.
class Region {
 public:
  explicit Region(Edit& edit) : edit_(edit) {}
  // The node that makes the value, if it is of this op; it is added to the region. Null otherwise. The reference is
  // valid until a node is added to the graph.
  const Node* take(ValueId value, std::string_view op);
  void take(NodeId node) { nodes_.push_back(node); }
  bool holds(NodeId node) const;
  // Whether all outputs of the region's nodes, except `result`, are read only inside the region.
  bool closed(ValueId result) const;
  size_t mark() const { return nodes_.size(); }
  void back_to(size_t mark) { nodes_.resize(mark); }

 private:
  Edit& edit_;
  std::vector<NodeId> nodes_;
};

}  // namespace sparkpilot
