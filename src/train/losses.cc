#include "train/losses.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/formula.h"

namespace sparkpilot::train {
namespace {

const double kLeastLogScale = std::log(1e-3);

Term reduce(std::string_view op, Term x, std::span<const int64_t> axes, bool keep = false) {
  Builder& b = x.builder();
  return {b, b.add(op, {x, b.ints(axes)}, {{"keepdims", int64_t{keep}}})};
}
Term reduce(std::string_view op, Term x, std::initializer_list<int64_t> axes, bool keep = false) {
  return reduce(op, x, std::span(axes.begin(), axes.size()), keep);
}
Term mean(Term x) {
  Builder& b = x.builder();
  return {b, b.add("ReduceMean", {x}, {{"keepdims", int64_t{0}}})};
}

Term part(Term x, int64_t axis, int64_t begin, int64_t end) {
  Builder& b = x.builder();
  return {b, b.add("Slice", {x, b.ints({begin}), b.ints({end}), b.ints({axis})})};
}

Term reshaped(Term x, std::initializer_list<int64_t> shape) {
  return {x.builder(), x.builder().add("Reshape", {x, x.builder().ints(shape)})};
}

Term larger(Term a, Term b) { return node("Max", a, b); }

void expect_shape(Builder& b, ValueId value, const Shape& shape, const char* what) {
  if (!(b.shape(value) == shape)) fail("{} is {}, expected {}", what, b.shape(value).str(), shape.str());
}

void expect_same(Builder& b, ValueId student, ValueId teacher) {
  if (b.dtype(student) != b.dtype(teacher)) {
    fail("the student's value is {}, the teacher's {}", name(b.dtype(student)), name(b.dtype(teacher)));
  }
  expect_shape(b, teacher, b.shape(student), "the teacher's value");
}

// [N, 2n], by way of a head's width.
int64_t values_of(Builder& b, ValueId raw) {
  const Shape& shape = b.shape(raw);
  if (shape.rank() != 2 || shape[1] % 2 != 0) fail("a head is {}, expected [N, 2n]", shape.str());
  return shape[1] / 2;
}

// Of each value; the three broadcast.
Term laplacian(Term mean, Term log_scale, Term target) {
  const Term error = (mean - target).of("Abs");
  const Term bounded = larger(log_scale, (1e-3 * error + 1e-6).of("Log"));
  return error * (-bounded).of("Exp") + larger(log_scale, log_scale.number(kLeastLogScale));
}

// The sum over each entry's values, each multiplied by its weight; the mean over entries.
ValueId summed(Term losses, ValueId weight) {
  if (weight.present()) losses = losses * Term(losses.builder(), weight);
  return mean(reduce("ReduceSum", losses, {1}));
}

struct Hypotheses {
  Term means, log_scales, logits;  // [N, K, n], [N, K, n], [N, K, S]
  int64_t batch, values;
};
Hypotheses hypotheses_of(Builder& b, ValueId raw, int64_t count, int64_t selections) {
  const Shape shape = b.shape(raw);
  if (shape.rank() != 2 || count < 1 || shape[1] % count != 0 || shape[1] / count <= selections ||
      (shape[1] / count - selections) % 2 != 0) {
    fail("a head is {}, expected [N, {} (2n + {})]", shape.str(), count, selections);
  }
  const int64_t each = shape[1] / count, values = (each - selections) / 2;
  const Term all = reshaped({b, raw}, {shape[0], count, each});
  return {.means = part(all, 2, 0, values),
          .log_scales = part(all, 2, values, 2 * values),
          .logits = part(all, 2, 2 * values, each),
          .batch = shape[0],
          .values = values};
}

// 1 along axis 1 where `index` [N, S] is that of the hypothesis, else 0: [N, K, S]. Of ops that GPUs have kernels for.
Term chosen(Term index, int64_t count, DType dtype) {
  Builder& b = index.builder();
  Tensor numbers(DType::i64, Shape{1, count, 1});
  std::iota(numbers.data<int64_t>().begin(), numbers.data<int64_t>().end(), 0);
  const Term same = node("Equal", index.as(index.shape().inserted(1, 1)), {b, b.constant(std::move(numbers))});
  return where(same, {b, b.scalar(dtype, 1)}, 0);
}

Term first_extreme(std::string_view op, Term x) {
  return {x.builder(), x.builder().add(op, {x}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}})};
}

Term log_softmax(Term x, int64_t axis) { return {x.builder(), x.builder().add("LogSoftmax", {x}, {{"axis", axis}})}; }

}  // namespace

ValueId laplacian_nll(Builder& b, ValueId raw, ValueId target, ValueId weight) {
  const int64_t n = values_of(b, raw);
  expect_shape(b, target, b.shape(raw).with(1, n), "the target");
  const Term all(b, raw);
  return summed(laplacian(part(all, 1, 0, n), part(all, 1, n, 2 * n), {b, target}), weight);
}

ValueId gaussian_nll(Builder& b, ValueId raw, ValueId target, ValueId weight) {
  const int64_t n = values_of(b, raw);
  expect_shape(b, target, b.shape(raw).with(1, n), "the target");
  const Term all(b, raw), log_scale = part(all, 1, n, 2 * n);
  const Term bounded = larger(log_scale, log_scale.number(kLeastLogScale));
  const Term scaled = (part(all, 1, 0, n) - Term(b, target)) * (-bounded).of("Exp");
  return summed(0.5 * (scaled * scaled) + bounded, weight);
}

ValueId gaussian_divergence(Builder& b, ValueId student, ValueId teacher) {
  const int64_t n = values_of(b, student);
  expect_same(b, student, teacher);
  const auto mean_of = [&](Term all) { return part(all, 1, 0, n); };
  const auto scale_of = [&](Term all) { return larger(part(all, 1, n, 2 * n), all.number(kLeastLogScale)); };
  const Term x(b, student), y(b, teacher), s = scale_of(x), t = scale_of(y);
  const Term ratio = (t - s).of("Exp"), error = (mean_of(x) - mean_of(y)) * (-s).of("Exp");
  return summed(s - t + 0.5 * (ratio * ratio + error * error - 1), {});
}

ValueId laplacian_nll_of_best(Builder& b, ValueId raw, ValueId target, int64_t hypotheses, int64_t selections,
                              ValueId weight) {
  const Hypotheses h = hypotheses_of(b, raw, hypotheses, selections);
  expect_shape(b, target, {h.batch, selections * h.values}, "the target");
  const auto spread = [&](Term x) { return reshaped(x, {h.batch, hypotheses, 1, h.values}); };
  const Term each =
      laplacian(spread(h.means), spread(h.log_scales), reshaped({b, target}, {h.batch, 1, selections, h.values}));
  const Term losses = reduce("ReduceSum", each, {3});  // [N, K, S]
  const Term best = chosen(first_extreme("ArgMin", losses), hypotheses, b.dtype(raw));
  constexpr double kOthers = 1e-6;
  const Term weights = (1 - kOthers) * best + kOthers;
  return summed(reduce("ReduceSum", losses * weights - best * log_softmax(h.logits, 1), {1}), weight);
}

ValueId most_probable_means(Builder& b, ValueId raw, int64_t hypotheses, int64_t selections) {
  const Hypotheses h = hypotheses_of(b, raw, hypotheses, selections);
  const Term best = chosen(first_extreme("ArgMax", h.logits), hypotheses, b.dtype(raw));
  // [N, S, K] x [N, K, n].
  const Term by_selection(b, b.add("Transpose", {best}, {{"perm", std::vector<int64_t>{0, 2, 1}}}));
  return reshaped(node("MatMul", by_selection, h.means), {h.batch, selections * h.values});
}

ValueId hypothesis_logits(Builder& b, ValueId raw, int64_t hypotheses, int64_t selections) {
  const Term logits = hypotheses_of(b, raw, hypotheses, selections).logits;
  return b.add("Transpose", {logits}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

ValueId binary_cross_entropy(Builder& b, ValueId logits, ValueId probabilities, ValueId weight) {
  expect_same(b, logits, probabilities);
  const Term x(b, logits);
  Term losses = x.of("Softplus") - x * Term(b, probabilities);
  if (weight.present()) losses = losses * Term(b, weight);
  return mean(losses);
}

ValueId cross_entropy(Builder& b, ValueId logits, ValueId probabilities) {
  expect_same(b, logits, probabilities);
  return mean(-reduce("ReduceSum", Term(b, probabilities) * log_softmax({b, logits}, -1), {-1}));
}

ValueId kl_divergence(Builder& b, ValueId student, ValueId teacher, double temperature) {
  expect_same(b, student, teacher);
  const Term of_student = log_softmax((1 / temperature) * Term(b, student), -1),
             of_teacher = log_softmax((1 / temperature) * Term(b, teacher), -1);
  const Term divergence = reduce("ReduceSum", of_teacher.of("Exp") * (of_teacher - of_student), {-1});
  return mean(temperature * temperature * divergence);
}

ValueId cosine_distance(Builder& b, ValueId student, ValueId teacher) {
  expect_same(b, student, teacher);
  const auto norm = [](Term x) {
    // Limited before the root, whose gradient is infinite at 0.
    const Term square = reduce("ReduceSum", x * x, {-1});
    return larger(square, square.number(1e-16)).of("Sqrt");
  };
  const Term x(b, student), y(b, teacher);
  return mean(1 - reduce("ReduceSum", x * y, {-1}) / (norm(x) * norm(y)));
}

ValueId mean_squared_error(Builder& b, ValueId student, ValueId teacher) {
  expect_same(b, student, teacher);
  const Term difference = Term(b, student) - Term(b, teacher);
  return mean(difference * difference);
}

ValueId relative_squared_error(Builder& b, ValueId student, ValueId teacher) {
  expect_same(b, student, teacher);
  const auto squares = [&](Term x) { return Term(b, b.add("ReduceSumSquare", {x}, {{"keepdims", int64_t{0}}})); };
  const Term s(b, student), t(b, teacher);
  return 2.0 * squares(s - t) / (squares(s) + squares(t) + 1e-12);
}

}  // namespace sparkpilot::train
