#include "ops/attention/attention_nodes.h"

#include <cmath>
#include <optional>

#include "ops/cpu/attention/attention_shape.h"
#include "ops/formula.h"

namespace sparkpilot {
namespace {

// Below every score; a difference from one is a finite number, so that no NaN flows back from keys that are not seen.
constexpr double kUnseen = -1e30;

struct Nodes {
  ExpandContext& e;
  Builder& b = e.b;
  AttentionShape a;
  DType compute;  // of scores and products

  explicit Nodes(ExpandContext& context) : e(context) {
    AttentionInputs inputs;
    std::vector<Shape> shapes(7);
    for (size_t i = 0; i < 7; ++i) {
      if (!e.has(i)) continue;
      shapes[i] = b.shape(e.in(i));
      inputs.shape[i] = &shapes[i];
    }
    a = attention_shape(inputs, e.node.attrs);
    compute = b.dtype(e.in(0)) == DType::f64 ? DType::f64 : DType::f32;
  }

  Term cast(ValueId v, DType dtype) const {
    return {b, b.dtype(v) == dtype ? v : b.add("Cast", {v}, {{"to", onnx_code(dtype)}})};
  }
  // [batch, heads, rows, size]
  Term heads(ValueId v, const HeadLayout& l) const {
    const Term x(b, v);
    if (x.shape().rank() == 4) return x;
    return x.as(Shape{l.batch, l.rows, l.heads, l.size}).swapped(std::vector<int64_t>{0, 2, 1, 3});
  }
  // The past and the new rows.
  Term sequence(size_t now, size_t past, const HeadLayout& l) const {
    const Term rows = heads(e.in(now), l);
    return e.has(past) ? Term(b, b.add("Concat", {e.in(past), rows}, {{"axis", int64_t{2}}})) : rows;
  }
  // Query heads that share a key head are rows of one matrix.
  Term product(Term queries, Term keys, int64_t columns) const {
    const int64_t rows = a.group() * a.q.rows, inner = queries.shape()[3];
    const Term y(b, b.add("MatMul", {queries.as(Shape{a.q.batch, a.k.heads, rows, inner}), keys}));
    return y.as(Shape{a.q.batch, a.q.heads, a.q.rows, columns});
  }

  // Whether a query sees a key, apart from masks: none if it sees all; else it broadcasts to the scores.
  std::optional<Term> window() const {
    if (!e.has(6)) {
      Tensor seen = Tensor::zeros(DType::boolean, Shape{a.q.rows, a.total});
      bool all = true;
      for (int64_t row = 0; row < a.q.rows; ++row) {
        const KeyRange range = visible_keys(a, row, -1);
        for (int64_t key = range.first; key < range.last; ++key) seen.data<bool>()[row * a.total + key] = true;
        all &= range.first == 0 && range.last == a.total;
      }
      if (all) return std::nullopt;
      return Term(b, b.constant(std::move(seen)));
    }
    const Term valid = Term(b, e.in(6)).as(Shape{a.q.batch, 1, 1, 1});
    const Term key = counted(a.total), position = counted(a.q.rows).as(Shape{a.q.rows, 1}) +
                                                  (valid - valid.number(static_cast<double>(a.q.rows)));
    Term seen = node("Less", key, valid);
    const auto beyond = [&](int64_t right) { return node("LessOrEqual", key, position + static_cast<double>(right)); };
    if (a.causal) seen = seen & beyond(0);
    if (a.right >= 0) seen = seen & beyond(a.right);
    if (a.left >= 0) seen = seen & node("GreaterOrEqual", key, position - static_cast<double>(a.left));
    return seen;
  }
  Term counted(int64_t count) const {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
    return {b, b.ints(numbers)};
  }
  // The mask over all keys; those after its end are not seen.
  Term whole_mask() const {
    const Term mask(b, e.in(3));
    const Shape shape = mask.shape();
    const int64_t missing = a.total - shape[shape.rank() - 1];
    if (missing == 0) return mask;
    std::vector<int64_t> pads(2 * static_cast<size_t>(shape.rank()));
    pads.back() = missing;
    const double fill = mask.dtype() == DType::boolean ? 0 : -INFINITY;
    return {b, b.add("Pad", {mask, b.ints(pads), mask.number(fill)})};
  }
};

}  // namespace

std::vector<ValueId> attention_as_nodes(ExpandContext& e) {
  Nodes n(e);
  Builder& b = e.b;
  const AttentionShape& a = n.a;
  const DType dtype = b.dtype(e.in(0)), value_dtype = b.dtype(e.in(2));
  const Term keys = n.sequence(1, 4, a.k), values = n.sequence(2, 5, a.v);
  const Term across = n.cast(keys, n.compute).swapped(std::vector<int64_t>{0, 1, 3, 2});
  std::vector<Term> stages;  // what the fourth output may hold
  stages.push_back(n.product(a.scale * n.cast(n.heads(e.in(0), a.q), n.compute), across, a.total));
  stages.push_back(a.softcap > 0 ? a.softcap * (1 / a.softcap * stages[0]).of("Tanh") : stages[0]);
  std::optional<Term> seen = n.window();
  Term scores = stages[1];
  if (e.has(3)) {
    const Term mask = n.whole_mask();
    const bool chooses = mask.dtype() == DType::boolean;
    const Term kept = chooses ? mask : mask > -INFINITY;
    if (!chooses) scores = scores + n.cast(where(kept, mask, 0), n.compute);
    seen = seen ? *seen & kept : kept;
  }
  stages.push_back(seen ? where(*seen, scores, -INFINITY) : scores);
  Term weights = (seen ? where(*seen, scores, kUnseen) : scores).of("Softmax", {{"axis", int64_t{-1}}});
  if (seen) weights = where(*seen, weights, 0);  // a query that sees no key
  stages.push_back(weights);
  Term y = n.cast(n.product(weights, n.cast(values, n.compute), a.v.size), dtype);
  if (b.shape(e.in(0)).rank() == 3) {
    y = y.swapped(std::vector<int64_t>{0, 2, 1, 3}).as(Shape{a.q.batch, a.q.rows, a.q.heads * a.v.size});
  }
  std::vector<ValueId> out{y, keys, n.cast(values, value_dtype),
                           n.cast(stages[static_cast<size_t>(a.output_mode)], dtype)};
  out.resize(std::max<size_t>(1, e.node.outputs.size()));
  return out;
}

}  // namespace sparkpilot
