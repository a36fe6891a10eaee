#include "passes/batch.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "ir/axes.h"
#include "ir/id_map.h"
#include "ir/launch.h"
#include "passes/edit.h"

namespace sparkpilot {
namespace {

bool equal(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

// Whether two attributes are equal; graph attributes (bodies) never are.
bool equal(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<typename T>(const T& value) {
        const T& other = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>) return equal(value, other);
        else if constexpr (std::is_same_v<T, std::shared_ptr<const Graph>>) return false;
        else return value == other;
      },
      a);
}

bool equal(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
}

// Follows the batch axis from the outputs up to the inputs.
class Batch {
 public:
  Batch(Graph& graph, int64_t size) : edit_(graph), size_(size), axes_(graph.value_count(), -1) {}

  bool follow() {
    for (const Graph::Output& output : edit_.graph().outputs()) {
      if (!want(output.value, 0)) return false;
    }
    while (!work_.empty()) {
      const ValueId value = work_.back();
      work_.pop_back();
      if (!visit(value)) return false;
    }
    return true;
  }
  // The batch axis of a value; -1 if it has none.
  int axis(ValueId value) const { return axes_[value]; }

 private:
  bool want(ValueId value, int axis) {
    if (!edit_.known(value) || edit_.constant(value) || edit_.shape(value).rank() <= axis) return false;
    if (edit_.shape(value)[axis] != size_) return false;
    int& known = axes_[value];
    if (known >= 0) return known == axis;
    known = axis;
    if (edit_.maker(value).present()) work_.push_back(value);
    else return axis == 0 && edit_.graph().value(value).kind == ValueKind::input;
    return true;
  }
  bool visit(ValueId value);

  Edit edit_;
  int64_t size_;
  ValueMap<int> axes_;
  std::vector<ValueId> work_;
};

// Follows the batch axis through the node that makes the value; every entry must read its constants whole. False if the
// batch cannot be followed.
bool Batch::visit(ValueId value) {
  const NodeId id = edit_.maker(value);
  const Node& node = edit_.node(id);
  if (!node.op->traits.pure) return false;
  for (const ValueId input : node.inputs) {
    if (input.present() && !edit_.known(input)) return false;
  }
  const NodeProblem types(edit_.graph(), id);
  const Problem problem = types.problem();
  const auto output = std::find(node.outputs.begin(), node.outputs.end(), value) - node.outputs.begin();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].present()) continue;
    const AxisSource source = axis_source(*node.op, problem, static_cast<int>(output), axis(value), i);
    if (source.kind == AxisSource::broadcast && edit_.constant(node.inputs[i])) continue;
    if (source.kind != AxisSource::same || !want(node.inputs[i], source.axis)) return false;
  }
  return true;
}

// Compares the nodes of both graphs pairwise.
class Twins {
 public:
  Twins(const Graph& whole, const Graph& part, const Batch& batch, int64_t count)
      : whole_(whole), part_(part), batch_(batch), count_(count) {}

  bool equal_but_for_the_batch() {
    if (whole_.inputs().size() != part_.inputs().size() || whole_.outputs().size() != part_.outputs().size())
      return false;
    for (size_t i = 0; i < whole_.inputs().size(); ++i) pairs_[whole_.inputs()[i]] = part_.inputs()[i];
    const auto a = whole_.order(), b = part_.order();
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!same(whole_.node(a[i]), part_.node(b[i]))) return false;
    }
    for (size_t i = 0; i < whole_.outputs().size(); ++i) {
      if (!(pairs_[whole_.outputs()[i].value] == part_.outputs()[i].value)) return false;
    }
    return true;
  }

 private:
  bool same(const Node& a, const Node& b) {
    if (a.op != b.op || a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size()) return false;
    if (!equal(a.attrs, b.attrs)) return false;
    for (size_t i = 0; i < a.inputs.size(); ++i) {
      const ValueId x = a.inputs[i], y = b.inputs[i];
      if (x.present() != y.present()) return false;
      if (!x.present()) continue;
      const Tensor *from = whole_.constant(x), *to = part_.constant(y);
      if ((from == nullptr) != (to == nullptr)) return false;
      // The shape operand of a view differs between the graphs; the shapes are compared with the batch below.
      if (from ? !(a.op->traits.view && i > 0) && !equal(*from, *to) : !(pairs_[x] == y)) return false;
    }
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      const Value &x = whole_.value(a.outputs[i]), &y = part_.value(b.outputs[i]);
      const int axis = batch_.axis(a.outputs[i]);
      if (axis < 0 || !x.shape || !y.shape || x.dtype != y.dtype || !(x.shape->with(axis, count_) == *y.shape))
        return false;
      pairs_[a.outputs[i]] = b.outputs[i];
    }
    return true;
  }

  const Graph &whole_, &part_;
  const Batch& batch_;
  int64_t count_;
  std::map<ValueId, ValueId> pairs_;
};

}  // namespace

bool runs_in_parts(Graph& whole, const Graph& part, int64_t batch, int64_t count) {
  if (!whole.states().empty() || !part.states().empty()) return false;
  Batch entries(whole, batch);
  return entries.follow() && Twins(whole, part, entries, count).equal_but_for_the_batch();
}

int64_t bytes_of_an_entry(const Graph& whole, int64_t batch) {
  int64_t most = 0;
  for (const NodeId id : whole.order()) {
    const Node& node = whole.node(id);
    std::set<ValueId> values(node.inputs.begin(), node.inputs.end());
    values.insert(node.outputs.begin(), node.outputs.end());
    int64_t bytes = 0;
    for (const ValueId value : values) {
      if (!value.present() || whole.constant(value) || !whole.value(value).shape) continue;
      bytes += storage_bytes(whole.value(value).dtype, whole.value(value).shape->elements());
    }
    most = std::max(most, bytes);
  }
  return most / std::max<int64_t>(1, batch);
}

}  // namespace sparkpilot
