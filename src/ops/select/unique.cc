// Unique: the distinct elements, or the distinct slices along an axis, with the index of their first occurrence, their
// counts, and for each input the index of its value. Sorted ascending (NaN last, all NaN equal) or by first occurrence.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::unique_ops {
namespace {

struct Items {
  int64_t outer, count, inner;  // item j: elements [i, j, k] for all i, k
};

Items items(const Call& c) {
  const Shape& in = c.inputs[0].shape;
  if (!c.attrs().has("axis")) return {1, in.elements(), 1};
  const int axis = normalize_axis(c.attrs().integer("axis"), in.rank());
  return {in.elements(0, axis), in[axis], in.elements(axis + 1, in.rank())};
}

// Compares by the first element that differs: -1, 0 or 1.
template <typename T>
int compare(const T* x, const Items& it, int64_t a, int64_t b) {
  using C = Compute<T>;
  for (int64_t i = 0; i < it.outer; ++i) {
    for (int64_t k = 0; k < it.inner; ++k) {
      const C u = static_cast<C>(x[(i * it.count + a) * it.inner + k]);
      const C v = static_cast<C>(x[(i * it.count + b) * it.inner + k]);
      if constexpr (std::is_floating_point_v<C>) {
        if (std::isnan(u) || std::isnan(v)) {
          if (std::isnan(u) && std::isnan(v)) continue;
          return std::isnan(u) ? 1 : -1;
        }
      }
      if (u != v) return u < v ? -1 : 1;
    }
  }
  return 0;
}

struct Groups {
  std::vector<int64_t> first, inverse, count;
};

template <typename T>
Groups group(const T* x, const Items& it, bool sorted) {
  std::vector<int64_t> order(static_cast<size_t>(it.count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int sign = compare(x, it, a, b);
    return sign != 0 ? sign < 0 : a < b;
  });
  Groups g;
  g.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(x, it, order[i - 1], order[i]) != 0) {
      g.first.push_back(order[i]);
      g.count.push_back(0);
    }
    ++g.count.back();
    g.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(g.first.size()) - 1;
  }
  if (sorted) return g;
  std::vector<int64_t> rank(g.first.size());
  std::iota(rank.begin(), rank.end(), int64_t{0});
  std::sort(rank.begin(), rank.end(),
            [&](int64_t a, int64_t b) { return g.first[static_cast<size_t>(a)] < g.first[static_cast<size_t>(b)]; });
  Groups out;
  std::vector<int64_t> moved(rank.size());
  for (size_t i = 0; i < rank.size(); ++i) {
    const auto from = static_cast<size_t>(rank[i]);
    out.first.push_back(g.first[from]);
    out.count.push_back(g.count[from]);
    moved[from] = static_cast<int64_t>(i);
  }
  for (const int64_t at : g.inverse) out.inverse.push_back(moved[static_cast<size_t>(at)]);
  return out;
}

void infer(InferContext& c) {
  if (c.attrs.has("axis")) normalize_axis(c.attrs.integer("axis"), c.rank(0));
  c.output_dynamic(0, c.dtype(0));
  for (const int i : {1, 2, 3}) c.output_dynamic(i, DType::i64);
}

void run(const Call& c) {
  const ConstView& in = c.inputs[0];
  const Items it = items(c);
  // Booleans are compared as bytes: one from a file may hold any value, and the order must be total.
  dispatch(NumericTypes{}, in.dtype == DType::boolean ? DType::u8 : in.dtype, [&]<typename T>() {
    const T* x = in.as<T>();
    const Groups g = group(x, it, c.attrs().integer("sorted", 1) != 0);
    const auto found = static_cast<int64_t>(g.first.size());
    const Shape shape = c.attrs().has("axis")
                            ? in.shape.with(normalize_axis(c.attrs().integer("axis"), in.shape.rank()), found)
                            : Shape{found};
    T* y = (*c.allocate)(0, shape).template as<T>();
    for (int64_t i = 0; i < it.outer; ++i) {
      for (const int64_t from : g.first) {
        y = std::copy_n(x + (i * it.count + from) * it.inner, it.inner, y);
      }
    }
    const std::vector<int64_t>* lists[] = {&g.first, &g.inverse, &g.count};
    for (size_t i = 1; i < c.outputs.size(); ++i) {
      const std::vector<int64_t>& list = *lists[i - 1];
      const View out = (*c.allocate)(static_cast<int>(i), Shape{static_cast<int64_t>(list.size())});
      std::copy(list.begin(), list.end(), out.template as<int64_t>());
    }
  });
}

std::vector<OpCase> cases() {
  return {{"flat", {CaseInput::range({4, 9}, 0, 6, DType::i32)}, {}, 4},
          {"unsorted", {CaseInput::range({31}, -5, 5, DType::i64)}, {{"sorted", int64_t{0}}}, 4},
          {"rows", {CaseInput::range({15, 2}, 0, 1, DType::i8)}, {{"axis", int64_t{0}}}, 4},
          {"columns",
           {CaseInput::range({2, 12, 2}, 0, 1, DType::boolean)},
           {{"axis", int64_t{-2}}, {"sorted", int64_t{0}}},
           3},
          {"floats", {CaseInput::of({17})}, {}, 1}};
}

constexpr Kernel kCpu[] = {
    {.name = "reference",
     .accepts = [](const Problem& p) -> Acceptance { return contains(AllTypes{}, p.inputs[0].dtype); },
     .run = run}};
constexpr AttrSpec kAttrs[] = {{"axis", AttrType::integer}, {"sorted", AttrType::integer}};

const OpDef kOps[] = {{
    .name = "Unique",
    .doc = "Distinct elements or slices, with their first places, inverse and counts.",
    .since = 11,
    .inputs = {1, 1},
    .outputs = {1, 4},
    .attributes = kAttrs,
    .traits = {.dynamic = true},
    .infer = infer,
    .cpu = kCpu,
    .no_gradient = no_gradient::kDynamic,
    .cases = cases,
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::unique_ops
