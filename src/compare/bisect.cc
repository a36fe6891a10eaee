#include "compare/bisect.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/with_file.h"
#include "ir/id_map.h"
#include "runtime/run_value.h"

namespace sparkpilot::compare {
namespace {

using Names = std::set<std::string, std::less<>>;

// The values that both sides can keep, and the outputs, in the order of the file.
class Order {
 public:
  Order(const Graph& file, const Names& names) : graph_(file), position_(file.value_count(), -1) {
    std::map<ValueId, std::string> outputs;
    for (const Graph::Output& output : file.outputs()) outputs.emplace(output.value, output.name);
    for (const NodeId id : file.order()) {
      for (const ValueId value : file.node(id).outputs) {
        if (!value.present()) continue;
        const auto output = outputs.find(value);
        const std::string& name = output != outputs.end() ? output->second : file.value(value).name;
        if (output == outputs.end() && !names.contains(name)) continue;
        position_[value] = static_cast<int>(values_.size());
        values_.push_back(value);
        names_.push_back(name);
      }
    }
    last_read_.resize(values_.size());
    nodes_.resize(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) trace(i);
    for (const auto& [value, name] : outputs) {
      if (position_[value] >= 0) last_read_[static_cast<size_t>(position_[value])] = values_.size();
    }
  }

  size_t size() const { return values_.size(); }
  const std::string& name(size_t i) const { return names_[i]; }
  bool is_output(size_t i) const { return last_read_[i] == values_.size(); }
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
  std::vector<std::string> names_;
  ValueMap<int> position_;                       // in values_; -1: not compared
  std::vector<size_t> last_read_;                // the last value that is computed from it
  std::vector<std::vector<std::string>> nodes_;  // by value: the one that makes it, then those before it
};

}  // namespace

namespace {

// One search. A value that a run turns out not to have is added to `missing`; the search has to be made again without.
class Search {
 public:
  Search(const Graph& file, const Side& got, const Side& expected, const BisectOptions& options, const Names& missing)
      : got_(got), expected_(expected), options_(options), order_(file, common(missing)) {}

  bool find(Bisection& out, Names& missing) {
    out.values = order_.size();
    const size_t most = 1 + std::max<size_t>(options_.samples, 1) + std::bit_width(order_.size());
    out.max_relative_l2 = options_.max_relative_l2.value_or(1e-4);
    const auto run = [&](size_t after) {
      ++out.runs;
      if (options_.progress) options_.progress(out.runs, std::max(out.runs, static_cast<int>(most)));
      return this->run(order_.live_after(after), out.sample, missing);
    };
    // The first sample with an output that differs: by more than the limit, or without one given by anything at all.
    std::optional<size_t> bad;
    for (out.sample = 0; !bad; ++out.sample) {
      if (!run(order_.size() - 1)) return false;
      if (differences_.empty()) fail("no output is in both, in the same shape");
      bad = first_beyond(out.max_relative_l2);
      double greatest = 0;
      for (const auto& [v, found] : differences_) greatest = std::max(greatest, found.difference.relative_l2);
      if (!bad && !options_.max_relative_l2 && greatest > 0) {
        out.max_relative_l2 = greatest / 4;
        bad = first_beyond(out.max_relative_l2);
      }
      if (bad || out.sample + 1 >= options_.samples) break;
    }
    if (!bad) return true;
    // Everything before `from` agrees; `bad` differs.
    size_t from = 0;
    while (from < *bad) {
      const size_t middle = from + (*bad - from) / 2;
      if (!run(middle)) return false;
      if (const auto earlier = first_beyond(out.max_relative_l2)) bad = earlier;
      else from = middle + 1;
    }
    out.fault = Fault{.value = order_.name(*bad),
                      .nodes = order_.nodes(*bad),
                      .difference = worst_.difference,
                      .shapes = worst_.shapes};
    if (*bad > 0) out.fault->before = order_.name(*bad - 1);
    return true;
  }

 private:
  Names common(const Names& missing) const {
    Names names;
    for (const std::string& name : got_.names) {
      if (expected_.names.contains(name) && !missing.contains(name)) names.insert(name);
    }
    return names;
  }

  // Runs both and compares these values. False if one of them that is no output was not delivered.
  bool run(const std::vector<size_t>& values, size_t sample, Names& missing) {
    Names keep;
    for (const size_t v : values) keep.insert(order_.name(v));
    const Values theirs = expected_.run(keep, sample), ours = got_.run(keep, sample);
    differences_.clear();
    const size_t before = missing.size();
    for (const size_t v : values) {
      const auto a = ours.find(order_.name(v)), b = theirs.find(order_.name(v));
      if (a == ours.end() || b == theirs.end()) {
        if (!order_.is_output(v)) missing.insert(order_.name(v));
        continue;
      }
      if (a->second.shape() == b->second.shape()) {
        differences_[v] = {difference_of(a->second.view(), b->second.view()), {}};
      } else if (!order_.is_output(v)) {
        differences_[v] = {of_other_shape(a->second), std::pair(a->second.shape(), b->second.shape())};
      }
    }
    return missing.size() == before;
  }

  static Difference of_other_shape(const Tensor& tensor) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {
        .elements = tensor.elements(), .not_finite = 0, .max_abs = kInfinity, .relative_l2 = kInfinity, .cosine = 0};
  }

  // The first value of the last run that is beyond the limit.
  std::optional<size_t> first_beyond(double limit) {
    for (const auto& [v, found] : differences_) {
      if (found.difference.relative_l2 <= limit || found.difference.max_abs <= options_.rounding) continue;
      worst_ = found;
      return v;
    }
    return {};
  }

  const Side &got_, &expected_;
  const BisectOptions& options_;
  Order order_;
  struct Compared {
    Difference difference;
    std::optional<std::pair<Shape, Shape>> shapes = {};  // where they differ
  };
  std::map<size_t, Compared> differences_;  // of the last run, by value
  Compared worst_;                          // of the value that first_beyond() returned last
};

}  // namespace

Bisection bisect(const Graph& file, const Side& got, const Side& expected, const BisectOptions& options) {
  Names missing;
  int runs = 0;
  while (true) {
    Bisection out;
    out.runs = runs;
    if (Search(file, got, expected, options, missing).find(out, missing)) return out;
    runs = out.runs;
  }
}

Side side_of(const Variant& variant, const Samples& samples) {
  Side side;
  // Every run uses the kernels and threads of the first.
  Variant fixed = variant;
  {
    Session session = open_variant(variant, &samples);
    with_file(variant.file, [&] {
      set_inputs(session, variant, samples, 0);
      session.compile();
    });
    fixed = settled(variant, session);
    const Graph& graph = *session.compiled_graph();
    for (const NodeId id : graph.order()) {
      for (const ValueId value : graph.node(id).outputs) {
        if (value.present() && !graph.value(value).name.empty()) side.names.insert(graph.value(value).name);
      }
    }
  }
  side.run = [fixed, &samples](const Names& keep, size_t sample) {
    Variant keeping = fixed;
    keeping.session.keep = keep;
    Session session = open_variant(keeping, &samples);
    Values values;
    with_file(keeping.file, [&] {
      set_inputs(session, keeping, samples, sample);
      session.run();
    });
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
