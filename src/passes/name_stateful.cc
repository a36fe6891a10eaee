// Unique names for nodes that keep data from one run to the next, such as a random generator's counter.
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ir/attributes.h"
#include "ir/op.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

// Names of stateful nodes, and of the states that earlier ones have been expanded to.
struct Names {
  std::set<std::string, std::less<>> names, states;
  std::map<std::string, int, std::less<>> next;  // the number that is tried first where a name is taken
  // A node's states are named below it: "/noise/counter".
  bool free(const std::string& name) const {
    const auto at = states.lower_bound(name + "/");
    return !names.contains(name) && (at == states.end() || !at->starts_with(name + "/"));
  }
};

bool is_stateful(const Node& node) { return node.op && !node.op->traits.pure; }

// Also looks at nodes inside bodies.
bool has_stateful(const Graph& graph) {
  for (const NodeId id : graph.order()) {
    if (is_stateful(graph.node(id))) return true;
    for (const auto& [key, attribute] : graph.node(id).attrs) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (body && has_stateful(**body)) return true;
    }
  }
  return false;
}

int name_all(Graph& graph, const std::string& prefix, Names& taken) {
  int changes = 0;
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (is_stateful(node)) {
      const std::string wanted = node.name.empty() ? prefix + std::string(node.op->name) : node.name;
      std::string name = wanted;
      for (int& i = taken.next.try_emplace(wanted, 2).first->second; !taken.free(name); ++i) {
        name = wanted + "#" + std::to_string(i);
      }
      taken.names.insert(name);
      changes += name != node.name;
      node.name = name;
    }
    rewrite_bodies(node.attrs, [&](Graph& body) {
      const int inside = name_all(body, graph.label(id) + "/", taken);
      changes += inside;
      return inside > 0;
    });
  }
  return changes;
}

}  // namespace

int name_stateful(Graph& graph) {
  if (!has_stateful(graph)) return 0;
  Names taken;
  for (const State& state : graph.states()) taken.states.insert(graph.value(state.value).name);
  return name_all(graph, "", taken);
}

}  // namespace sparkpilot
