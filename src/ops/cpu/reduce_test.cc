// Reductions of random shapes over random axes against plain index arithmetic.
#include "ops/cpu/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "base/random.h"
#include "ir/infer.h"

namespace sparkpilot {
namespace {

struct Kind {
  const char* op;
  double start;
  double (*add)(double sum, double x);
  double (*finish)(double sum, double count);
};
constexpr Kind kKinds[] = {
    {"ReduceSum", 0, [](double s, double x) { return s + x; }, [](double s, double) { return s; }},
    {"ReduceMean", 0, [](double s, double x) { return s + x; }, [](double s, double n) { return s / n; }},
    {"ReduceMax", -INFINITY, [](double s, double x) { return std::max(s, x); }, [](double s, double) { return s; }},
    {"ReduceMin", INFINITY, [](double s, double x) { return std::min(s, x); }, [](double s, double) { return s; }},
    {"ReduceProd", 1, [](double s, double x) { return s * x; }, [](double s, double) { return s; }},
    {"ReduceL1", 0, [](double s, double x) { return s + std::fabs(x); }, [](double s, double) { return s; }},
    {"ReduceL2", 0, [](double s, double x) { return s + x * x; }, [](double s, double) { return std::sqrt(s); }},
    {"ReduceSumSquare", 0, [](double s, double x) { return s + x * x; }, [](double s, double) { return s; }},
    {"ReduceLogSum", 0, [](double s, double x) { return s + x; }, [](double s, double) { return std::log(s); }},
    {"ReduceLogSumExp", 0, [](double s, double x) { return s + std::exp(x); },
     [](double s, double) { return std::log(s); }},
};

// The reduction by a walk over all elements, each added to the output that has its kept indices.
std::vector<double> expected(const Kind& kind, const Tensor& x, uint32_t axes) {
  const Shape& shape = x.shape();
  int64_t outputs = 1;
  for (int d = 0; d < shape.rank(); ++d) outputs *= (axes >> d & 1) ? 1 : shape[d];
  std::vector<double> sums(static_cast<size_t>(outputs), kind.start);
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!(axes >> d & 1)) {
        at += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    double& sum = sums[static_cast<size_t>(at)];
    sum = kind.add(sum, load_element(x.dtype(), x.raw(), i));
  }
  const double count = outputs == 0 ? 0 : static_cast<double>(x.elements()) / static_cast<double>(outputs);
  for (double& sum : sums) sum = kind.finish(sum, count);
  return sums;
}

TEST(Reduce, MatchesIndexArithmeticForAnyShapeAndAxes) {
  Random random(21);
  for (int round = 0; round < 400; ++round) {
    const ThreadScope threads(1 + round % 3);
    const Kind& kind = kKinds[static_cast<size_t>(round) % std::size(kKinds)];
    std::vector<int64_t> dims(static_cast<size_t>(random.integer(0, 5)));
    for (int64_t& d : dims) d = random.integer(0, 5) == 0 ? 1 : random.integer(1, round % 7 == 0 ? 20 : 6);
    if (random.integer(0, 20) == 0 && !dims.empty()) dims[0] = 0;
    const Shape shape{std::span<const int64_t>(dims)};
    std::vector<int64_t> axes;
    uint32_t bits = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      if (random.integer(0, 1) == 0) continue;
      axes.push_back(random.integer(0, 1) == 0 ? d : d - shape.rank());
      bits |= 1u << d;
    }
    if (axes.empty()) bits = (1u << shape.rank()) - 1;
    const bool keep = round % 2 == 0;
    const DType dtype = round % 3 == 0 ? DType::f16 : DType::f32;
    Tensor x = Tensor::zeros(dtype, shape);
    for (int64_t i = 0; i < x.elements(); ++i) store_element(dtype, x.raw(), i, random.uniform(0.5, 1.5));

    const Node node{.op = find_op("", kind.op, 18),
                    .name = "n",
                    .inputs = {{0}, {1}},
                    .outputs = {ValueId{2}},
                    .attrs = {{"keepdims", int64_t{keep}}}};
    const std::vector<double> want = expected(kind, x, bits);
    for (const Kernel& kernel : node.op->cpu) {
      SCOPED_TRACE(fmt::format("{} {} axes {:b} {}", kind.op, shape.str(), bits, kernel.name));
      const Tensor inputs[] = {x, Tensor::ints(axes)};
      const Tensor y = evaluate(node, inputs, kernel.name)[0];
      ASSERT_EQ(y.elements(), static_cast<int64_t>(want.size()));
      EXPECT_EQ(y.shape().rank(), keep ? shape.rank() : shape.rank() - __builtin_popcount(bits));
      for (int64_t i = 0; i < y.elements(); ++i) {
        const double got = load_element(dtype, y.raw(), i), exact = want[static_cast<size_t>(i)];
        if (got == exact || (std::isnan(got) && std::isnan(exact))) continue;
        const double slack = dtype == DType::f16 ? 1e-3 : 3e-6;
        if (std::fabs(exact) > 65504 && dtype == DType::f16) continue;
        ASSERT_LE(std::fabs(got - exact), slack * (0.1 + std::fabs(exact))) << i;
      }
    }
  }
}

// Serial sums in float lose three digits here; partial sums must not.
TEST(Reduce, LongSumsStayAccurate) {
  Random random(22);
  for (const Shape& shape : {Shape{1, 200000}, Shape{200000, 2}}) {
    Tensor x = Tensor::zeros(DType::f32, shape);
    for (float& v : x.data<float>()) v = static_cast<float>(random.uniform());
    const int axis = shape[0] == 1 ? 1 : 0;
    const std::vector<double> want = expected(kKinds[0], x, 1u << axis);
    const Node node{
        .op = find_op("", "ReduceSum", 18), .name = "n", .inputs = {{0}, {1}}, .outputs = {ValueId{2}}, .attrs = {}};
    const Tensor inputs[] = {x, Tensor::ints({axis})};
    const Tensor y = evaluate(node, inputs, "simd")[0];
    for (int64_t i = 0; i < y.elements(); ++i) {
      const double exact = want[static_cast<size_t>(i)];
      EXPECT_NEAR(y.data<float>()[static_cast<size_t>(i)], exact, 1e-6 * exact);
    }
  }
}

TEST(Reduce, IntegersWrapTruncateAndHaveNeutralElements) {
  const auto reduce = [](const char* op, const Tensor& x) {
    const Node node{.op = find_op("", op, 20), .name = "n", .inputs = {{0}, {1}}, .outputs = {ValueId{2}}, .attrs = {}};
    const Tensor inputs[] = {x, Tensor::ints({0})};
    return evaluate(node, inputs)[0];
  };
  const Tensor x = Tensor::of<int32_t>({3}, {7, -3, -9});
  EXPECT_EQ(reduce("ReduceMean", x).data<int32_t>()[0], -1);
  EXPECT_EQ(reduce("ReduceL1", x).data<int32_t>()[0], 19);
  EXPECT_EQ(reduce("ReduceL2", x).data<int32_t>()[0], 11);  // 11.79
  EXPECT_EQ(reduce("ReduceSum", Tensor::of<uint8_t>({2}, {200, 100})).data<uint8_t>()[0], 44);
  const Tensor none = Tensor::zeros(DType::i32, {0});
  EXPECT_EQ(reduce("ReduceMax", none).data<int32_t>()[0], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(reduce("ReduceMin", none).data<int32_t>()[0], std::numeric_limits<int32_t>::max());
  EXPECT_EQ(reduce("ReduceProd", none).data<int32_t>()[0], 1);
  EXPECT_EQ(reduce("ReduceMean", none).data<int32_t>()[0], 0);
  const Tensor special = Tensor::of<float>({3}, {1, NAN, 2});
  EXPECT_TRUE(std::isnan(reduce("ReduceMax", special).data<float>()[0]));
  EXPECT_TRUE(std::isnan(reduce("ReduceMin", special).data<float>()[0]));
  const Tensor masked = Tensor::of<float>({2}, {-INFINITY, -INFINITY});
  EXPECT_EQ(reduce("ReduceLogSumExp", masked).data<float>()[0], -INFINITY);
}

TEST(Reduce, RefusesBadAxes) {
  const Tensor x = Tensor::zeros(DType::f32, {2, 3});
  for (const auto& axes : {Tensor::ints({2}), Tensor::ints({0, 0}), Tensor::ints({0, -2}), Tensor::ints({-3}),
                           Tensor::of<float>({1}, {0.0f})}) {
    const Node node{
        .op = find_op("", "ReduceSum", 18), .name = "n", .inputs = {{0}, {1}}, .outputs = {ValueId{2}}, .attrs = {}};
    const Tensor inputs[] = {x, axes};
    EXPECT_THROW(evaluate(node, inputs), Error);
  }
}

}  // namespace
}  // namespace sparkpilot
