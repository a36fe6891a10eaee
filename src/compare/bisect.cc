#include "compare/bisect.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/id_map.h"
#include "runtime/run_value.h"

namespace sparkpilot::compare {
namespace {

using Names = std::set<std::string, std::less<>>;

// The values that both sides have, in the order of the file.
class Order {
 public:
  Order(const Graph& file, const Side& a, const Side& b) : graph_(file), position_(file.value_count(), -1) {
    const auto outputs = [&](std::string_view name) {
      return std::any_of(file.outputs().begin(), file.outputs().end(), [&](const auto& o) { return o.name == name; });
    };
    for (const NodeId id : file.order()) {
      for (const ValueId value : file.node(id).outputs) {
        if (!value.present()) continue;
        const std::string& name = file.value(value).name;
        if (name.empty() || !((a.names.contains(name) && b.names.contains(name)) || outputs(name))) continue;
        position_[value] = static_cast<int>(values_.size());
        values_.push_back(value);
      }
    }
    last_read_.resize(values_.size());
    nodes_.resize(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) trace(i);
    for (const Graph::Output& output : file.outputs()) {
      if (position_[output.value] >= 0) last_read_[static_cast<size_t>(position_[output.value])] = values_.size();
    }
  }

  size_t size() const { return values_.size(); }
  const std::string& name(size_t i) const { return graph_.value(values_[i]).name; }
  const std::vector<std::string>& nodes(size_t i) const { return nodes_[i]; }
  // The values up to `i` that a later one is computed from, or that are outputs; and `i` itself.
  std::vector<size_t> live_after(size_t i) const {
    std::vector<size_t> live;
    for (size_t v = 0; v <= i; ++v) {
      if (v == i || last_read_[v] > i) live.push_back(v);
    }
    return live;
  }

 private:
  // Follows value i back to the values before it, through nodes whose results are not compared.
  void trace(size_t i) {
    std::vector<NodeId> work{graph_.value(values_[i]).producer};
    std::set<NodeId> seen(work.begin(), work.end());
    while (!work.empty()) {
      const NodeId id = work.back();
      work.pop_back();
      nodes_[i].push_back(graph_.label(id));
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input.present()) continue;
        const int at = position_[input];
        if (at >= 0) {
          size_t& last = last_read_[static_cast<size_t>(at)];
          last = std::max(last, i);
        } else if (const NodeId maker = graph_.value(input).producer; maker.present() && seen.insert(maker).second) {
          work.push_back(maker);
        }
      }
    }
  }

  const Graph& graph_;
  std::vector<ValueId> values_;
  ValueMap<int> position_;                       // in values_; -1: not compared
  std::vector<size_t> last_read_;                // the last value that is computed from it
  std::vector<std::vector<std::string>> nodes_;  // by value: the one that makes it, then those before it
};

}  // namespace

Bisection bisect(const Graph& file, const Side& got, const Side& expected, const BisectOptions& options) {
  const Order order(file, got, expected);
  if (order.size() == 0) fail("the two have no value of the same name");
  Bisection out;
  out.values = order.size();
  const int most = 1 + static_cast<int>(options.samples) +
                   static_cast<int>(std::ceil(std::log2(static_cast<double>(order.size()) + 1)));
  out.max_relative_l2 = options.max_relative_l2.value_or(1e-4);
  std::map<size_t, Difference> differences;  // of the last run, by value
  const auto run = [&](const std::vector<size_t>& values) {
    Names keep;
    for (const size_t v : values) keep.insert(order.name(v));
    ++out.runs;
    if (options.progress) options.progress(out.runs, most);
    const Values theirs = expected.run(keep, out.sample), ours = got.run(keep, out.sample);
    differences.clear();
    for (const size_t v : values) {
      const auto a = ours.find(order.name(v)), b = theirs.find(order.name(v));
      if (a == ours.end() || b == theirs.end() || !(a->second.shape() == b->second.shape())) continue;
      differences[v] = difference_of(a->second.view(), b->second.view());
    }
  };
  std::optional<Difference> worst;
  // The first value of the last run that is beyond the limit.
  const auto first_beyond = [&]() -> std::optional<size_t> {
    for (const auto& [v, difference] : differences) {
      if (difference.relative_l2 <= out.max_relative_l2) continue;
      worst = difference;
      return v;
    }
    return {};
  };
  // The first sample with an output that differs: by more than the limit, or without one given by anything at all.
  std::optional<size_t> bad;
  for (; out.sample < options.samples && !bad; ++out.sample) {
    run(order.live_after(order.size() - 1));
    bad = first_beyond();
    double greatest = 0;
    for (const auto& [v, difference] : differences) greatest = std::max(greatest, difference.relative_l2);
    if (bad || options.max_relative_l2 || greatest == 0) continue;
    out.max_relative_l2 = greatest / 4;
    bad = first_beyond();
  }
  --out.sample;
  if (!bad) return out;
  // Everything before `from` agrees; `bad` differs.
  size_t from = 0;
  while (from < *bad) {
    const size_t middle = from + (*bad - from) / 2;
    run(order.live_after(middle));
    if (const auto earlier = first_beyond()) bad = earlier;
    else from = middle + 1;
  }
  out.fault = Fault{.value = order.name(*bad), .nodes = order.nodes(*bad), .difference = *worst};
  if (*bad > 0) out.fault->before = order.name(*bad - 1);
  return out;
}

Side side_of(const Variant& variant, const Samples& samples) {
  Side side;
  {
    Session session = open_variant(variant);
    set_inputs(session, variant, samples, 0);
    session.compile();
    const Graph& graph = *session.compiled_graph();
    for (const NodeId id : graph.order()) {
      for (const ValueId value : graph.node(id).outputs) {
        if (value.present() && !graph.value(value).name.empty()) side.names.insert(graph.value(value).name);
      }
    }
  }
  side.run = [variant, &samples](const Names& keep, size_t sample) {
    Variant keeping = variant;
    keeping.session.keep = keep;
    Session session = open_variant(keeping);
    set_inputs(session, keeping, samples, sample);
    session.run();
    Values values;
    session.visit_values(
        [&](const RunValue& value) { values.insert_or_assign(std::string(value.name), in_file_layout(value)); });
    for (const TensorInfo& output : session.outputs()) {
      const ConstView view = session.output(output.name);
      values.insert_or_assign(output.name, in_file_layout({output.name, {}, view}));
    }
    return values;
  };
  return side;
}

}  // namespace sparkpilot::compare
