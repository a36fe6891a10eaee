// A map from the values or the nodes of a graph to something, stored as an array indexed by id.
#pragma once

#include <utility>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// `Id`: ValueId or NodeId. Ids are not checked: the map must be as large as the graph (value_count(), node_count()).
template <typename Id, typename T>
class IdMap {
 public:
  IdMap() = default;
  explicit IdMap(int count, const T& item = T()) : items_(static_cast<size_t>(count), item) {}

  // A reference, or vector<bool>'s stand-in for one.
  decltype(auto) operator[](Id id) { return items_[static_cast<size_t>(id.index)]; }
  decltype(auto) operator[](Id id) const { return items_[static_cast<size_t>(id.index)]; }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  int size() const { return static_cast<int>(items_.size()); }
  void resize(int count) { items_.resize(static_cast<size_t>(count)); }
  void add(T item) { items_.push_back(std::move(item)); }  // for the next id

 private:
  std::vector<T> items_;
};

template <typename T>
using ValueMap = IdMap<ValueId, T>;
template <typename T>
using NodeMap = IdMap<NodeId, T>;

}  // namespace sparkpilot
