// Compares every vector function on every instruction set of this machine with the C library in double.
#include "ops/cpu/vector/vector_math.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"

namespace sparkpilot {
namespace {

constexpr double kEps = 0x1p-23;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Calls fn once for each target that this binary contains and this machine supports.
void for_each_target(const std::function<void()>& fn) {
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if (!(hwy::SupportedTargets() & target & HWY_TARGETS)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(std::string(vector_target()));
    fn();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

// About 120,000 floats: every `step`-th bit pattern, signs and denormals included, and dense ones within [-20, 20].
std::vector<float> sweep() {
  std::vector<float> out;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 52361) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(x)) out.push_back(x);
  }
  for (int i = -20000; i <= 20000; ++i) out.push_back(static_cast<float>(i) * 0.00100013f);
  return out;
}

using Exact = std::function<double(double)>;
using Vector = std::function<void(const float*, float*, int64_t)>;

struct Bound {
  double relative = 0;             // in kEps
  double absolute = 0;             // in kEps
  double of_x = 0;                 // in kEps of |x|
  float low = -kInf, high = kInf;  // checked range
};

void check(const char* what, const Vector& fn, const Exact& exact, Bound bound) {
  SCOPED_TRACE(what);
  std::vector<float> xs;
  for (const float x : sweep()) {
    if (x >= bound.low && x <= bound.high) xs.push_back(x);
  }
  std::vector<float> ys(xs.size());
  fn(xs.data(), ys.data(), static_cast<int64_t>(xs.size()));
  double worst = 0;
  float where = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double want = exact(xs[i]), got = ys[i];
    const auto rounded = static_cast<float>(want);
    if (got == want || rounded == ys[i] || (std::isnan(want) && std::isnan(got))) continue;
    // The smallest denormals have no relative precision.
    const double allowed = kEps * (bound.relative * std::fabs(want) + bound.absolute + bound.of_x * std::fabs(xs[i])) +
                           1.3e-38 * (1 + bound.of_x);
    const double error = std::fabs(got - want) / allowed;
    if (!(error <= worst)) worst = error, where = xs[i];
  }
  EXPECT_LE(worst, 1.0) << "at x = " << where;
}

Vector unary(UnaryMath op) {
  return [op](const float* in, float* out, int64_t n) { vector_unary(op, in, out, n); };
}
Vector activation(Activation op, float alpha = 0, float beta = 0) {
  return [=](const float* in, float* out, int64_t n) { apply_activation(op, alpha, beta, in, out, n); };
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

TEST(VectorMath, UnaryFunctionsAreWithinTheirStatedError) {
  for_each_target([] {
    check("abs", unary(UnaryMath::abs), [](double x) { return std::fabs(x); }, {});
    check("neg", unary(UnaryMath::neg), [](double x) { return -x; }, {});
    check("sign", unary(UnaryMath::sign), [](double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }, {});
    check("floor", unary(UnaryMath::floor), [](double x) { return std::floor(x); }, {});
    check("ceil", unary(UnaryMath::ceil), [](double x) { return std::ceil(x); }, {});
    check("round", unary(UnaryMath::round), [](double x) { return std::nearbyint(x); }, {});
    check("sqrt", unary(UnaryMath::sqrt), [](double x) { return std::sqrt(x); }, {.relative = 0.51});
    check("reciprocal", unary(UnaryMath::reciprocal), [](double x) { return 1 / x; }, {.relative = 0.51});
    check("square", unary(UnaryMath::square), [](double x) { return x * x; }, {.relative = 0.51});
    check("exp", unary(UnaryMath::exp), [](double x) { return std::exp(x); }, {.relative = 1});
    check("expm1", unary(UnaryMath::expm1), [](double x) { return std::expm1(x); }, {.relative = 2});
    check("log", unary(UnaryMath::log), [](double x) { return std::log(x); }, {.relative = 2});
    check("erf", unary(UnaryMath::erf), [](double x) { return std::erf(x); }, {.relative = 4});
    check("sin", unary(UnaryMath::sin), [](double x) { return std::sin(x); }, {.relative = 2, .absolute = 1});
    check("cos", unary(UnaryMath::cos), [](double x) { return std::cos(x); }, {.relative = 2, .absolute = 1});
  });
}

TEST(VectorMath, ActivationsAreWithinTheirStatedError) {
  const double k = std::sqrt(2 / M_PI);
  for_each_target([&] {
    check("relu", activation(Activation::relu), [](double x) { return std::max(x, 0.0); }, {});
    check("leaky_relu", activation(Activation::leaky_relu, 0.25f), [](double x) { return x < 0 ? x / 4 : x; },
          {.relative = 0.51});
    check("thresholded", activation(Activation::thresholded_relu, 0.5f), [](double x) { return x > 0.5 ? x : 0; }, {});
    check("clip", activation(Activation::clip, -0.5f, 3), [](double x) { return std::clamp(x, -0.5, 3.0); }, {});
    check("hard_sigm", activation(Activation::hard_sigmoid, 0.25f, 0.5f),
          [](double x) { return std::clamp(x / 4 + 0.5, 0.0, 1.0); }, {.relative = 0.51, .absolute = 0.6});
    check("hard_swish", activation(Activation::hard_swish),
          [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }, {.of_x = 1.5});
    check("sigmoid", activation(Activation::sigmoid), sigmoid, {.relative = 2, .low = -87});
    check("silu", activation(Activation::silu, 1), [](double x) { return x * sigmoid(x); },
          {.relative = 3, .low = -87});
    check("tanh", activation(Activation::tanh), [](double x) { return std::tanh(x); }, {.relative = 3});
    check("gelu_tanh", activation(Activation::gelu_tanh),
          [&](double x) {
            return x < -1e9 ? 0 : x > 1e9 ? x : 0.5 * x * (1 + std::tanh(k * (x + 0.044715 * x * x * x)));
          },
          {.of_x = 4});
    check("gelu_erf", activation(Activation::gelu_erf), [](double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); },
          {.of_x = 4});
    check("elu", activation(Activation::elu, 1.5f), [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; },
          {.relative = 3});
    check("selu", activation(Activation::selu, 1.5f, 1.25f),
          [](double x) { return 1.25 * (x < 0 ? 1.5 * std::expm1(x) : x); }, {.relative = 3});
    check("celu", activation(Activation::celu, 2), [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; },
          {.relative = 3});
    check("softplus", activation(Activation::softplus), softplus, {.relative = 3, .low = -87});
    check("softsign", activation(Activation::softsign), [](double x) { return x / (1 + std::fabs(x)); },
          {.relative = 2});
    check("mish", activation(Activation::mish), [](double x) { return x * std::tanh(softplus(x)); },
          {.relative = 5, .low = -87});
    check("shrink", activation(Activation::shrink, 1, 0.5f),
          [](double x) { return x < -1  ? x + 0.5
                                : x > 1 ? x - 0.5
                                        : 0; }, {.relative = 0.51});
  });
}

TEST(VectorMath, SpecialValuesGiveLimits) {
  const auto at = [](const Vector& fn, float x) {
    float y = 0;
    fn(&x, &y, 1);
    return y;
  };
  for_each_target([&] {
    for (int i = 0; i <= static_cast<int>(UnaryMath::cos); ++i) {
      EXPECT_TRUE(std::isnan(at(unary(static_cast<UnaryMath>(i)), kNaN))) << "unary " << i;
    }
    for (int i = 0; i <= static_cast<int>(Activation::shrink); ++i) {
      EXPECT_TRUE(std::isnan(at(activation(static_cast<Activation>(i), 1, 1), kNaN))) << "activation " << i;
    }
    EXPECT_EQ(at(unary(UnaryMath::exp), kInf), kInf);
    EXPECT_EQ(at(unary(UnaryMath::exp), -kInf), 0);
    EXPECT_EQ(at(unary(UnaryMath::exp), 89), kInf);
    EXPECT_EQ(at(unary(UnaryMath::expm1), -kInf), -1);
    EXPECT_EQ(at(unary(UnaryMath::expm1), kInf), kInf);
    EXPECT_EQ(at(unary(UnaryMath::log), 0), -kInf);
    EXPECT_EQ(at(unary(UnaryMath::log), kInf), kInf);
    EXPECT_TRUE(std::isnan(at(unary(UnaryMath::log), -1)));
    EXPECT_EQ(at(unary(UnaryMath::erf), kInf), 1);
    EXPECT_EQ(at(unary(UnaryMath::erf), -kInf), -1);
    EXPECT_TRUE(std::isnan(at(unary(UnaryMath::sin), kInf)));
    EXPECT_EQ(at(activation(Activation::sigmoid), kInf), 1);
    EXPECT_EQ(at(activation(Activation::sigmoid), -kInf), 0);
    EXPECT_EQ(at(activation(Activation::tanh), kInf), 1);
    EXPECT_EQ(at(activation(Activation::tanh), -kInf), -1);
    EXPECT_EQ(at(activation(Activation::relu), -kInf), 0);
    EXPECT_EQ(at(activation(Activation::softplus), kInf), kInf);
    EXPECT_EQ(at(activation(Activation::softplus), -kInf), 0);
    EXPECT_EQ(at(activation(Activation::gelu_tanh), kInf), kInf);
    EXPECT_EQ(at(activation(Activation::gelu_erf), kInf), kInf);
    EXPECT_EQ(at(activation(Activation::gelu_tanh), -1e30f), 0);
    EXPECT_TRUE(std::isnan(at(activation(Activation::gelu_tanh), -kInf)));  // -inf * 0, as the formula says
    EXPECT_EQ(at(activation(Activation::clip, 3, 1), 2), 1);
    EXPECT_TRUE(std::signbit(at(unary(UnaryMath::expm1), -0.0f)));
    EXPECT_TRUE(std::signbit(at(unary(UnaryMath::sqrt), -0.0f)));
  });
}

TEST(VectorMath, AnElementsResultDoesNotDependOnItsPlaceAndNothingBeyondIsTouched) {
  Random random(3);
  std::vector<float> x(100);
  for (float& v : x) v = static_cast<float>(random.normal() * 3);
  for_each_target([&] {
    std::vector<float> whole(100);
    apply_activation(Activation::gelu_erf, 0, 0, x.data(), whole.data(), 100);
    for (int64_t n = 0; n <= 40; ++n) {
      std::vector<float> part(x.begin() + 7, x.begin() + 7 + 48);
      apply_activation(Activation::gelu_erf, 0, 0, part.data(), part.data(), n);
      for (int64_t i = 0; i < 48; ++i) {
        EXPECT_EQ(part[static_cast<size_t>(i)], (i < n ? whole : x)[static_cast<size_t>(i + 7)]) << n << " " << i;
      }
    }
  });
}

TEST(VectorMath, BinaryFormsMatchScalarArithmetic) {
  Random random(4);
  const auto scalar = [](BinaryMath op, float a, float b) {
    switch (op) {
      case BinaryMath::add: return a + b;
      case BinaryMath::sub: return a - b;
      case BinaryMath::mul: return a * b;
      case BinaryMath::div: return a / b;
      case BinaryMath::max: return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b);
      case BinaryMath::min: return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b);
    }
    return kNaN;
  };
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for_each_target([&] {
    for (const BinaryMath op :
         {BinaryMath::add, BinaryMath::sub, BinaryMath::mul, BinaryMath::div, BinaryMath::max, BinaryMath::min}) {
      for (const size_t n : {0, 1, 3, 16, 37, 64}) {
        std::vector<float> a(n * 3), b(n * 3), out(n * 3);
        for (float& v : a) v = static_cast<float>(random.normal());
        for (float& v : b) v = static_cast<float>(random.normal());
        if (n > 3) a[2] = kNaN, b[3] = kNaN, a[1] = kInf, b[1] = kInf;
        const auto length = static_cast<int64_t>(n);
        vector_binary(op, a.data(), b.data(), out.data(), length);
        for (size_t i = 0; i < n; ++i) EXPECT_TRUE(same(out[i], scalar(op, a[i], b[i]))) << i;
        vector_scalar_binary(op, a.data(), 0.5f, out.data(), length);
        for (size_t i = 0; i < n; ++i) EXPECT_TRUE(same(out[i], scalar(op, a[i], 0.5f))) << i;
        scalar_vector_binary(op, 0.5f, b.data(), out.data(), length);
        for (size_t i = 0; i < n; ++i) EXPECT_TRUE(same(out[i], scalar(op, 0.5f, b[i]))) << i;
        rows_binary(op, a.data(), b.data(), out.data(), 3, length);
        for (size_t i = 0; i < 3 * n; ++i) EXPECT_TRUE(same(out[i], scalar(op, a[i], b[i % n]))) << i;
      }
    }
  });
}

TEST(VectorMath, MultiplyAddForms) {
  Random random(5);
  for_each_target([&] {
    for (const size_t n : {1, 5, 16, 37}) {
      std::vector<float> a(n * 2), b(n), c(n), out(n * 2);
      for (std::vector<float>* v : {&a, &b, &c}) {
        for (float& x : *v) x = static_cast<float>(random.normal());
      }
      const auto length = static_cast<int64_t>(n);
      const auto near = [](float got, double want) {
        return std::fabs(got - want) <= 4 * kEps * (1 + std::fabs(want));
      };
      vector_multiply_add(a.data(), b.data(), c.data(), out.data(), length);
      for (size_t i = 0; i < n; ++i) EXPECT_TRUE(near(out[i], double{a[i]} * b[i] + c[i]));
      vector_scale_shift(a.data(), 1.5f, -2, out.data(), length);
      for (size_t i = 0; i < n; ++i) EXPECT_TRUE(near(out[i], double{a[i]} * 1.5 - 2));
      rows_scale_shift(a.data(), b.data(), c.data(), out.data(), 2, length);
      for (size_t i = 0; i < 2 * n; ++i) EXPECT_TRUE(near(out[i], double{a[i]} * b[i % n] + c[i % n]));
      std::vector<float> sum = c;
      accumulate_squares(b.data(), sum.data(), length);
      for (size_t i = 0; i < n; ++i) EXPECT_TRUE(near(sum[i], double{b[i]} * b[i] + c[i]));
    }
  });
}

TEST(VectorMath, RowReductions) {
  Random random(6);
  for_each_target([&] {
    for (const size_t n : {0, 1, 2, 7, 15, 16, 33, 64, 129, 1000}) {
      std::vector<float> x(n), y(n), e(n);
      double sum = 0, magnitude = 0, squares = 0, about = 0, dot = 0, exps = 0;
      float top = -kInf, bottom = kInf;
      for (size_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(random.normal()) - 2;
        y[i] = static_cast<float>(random.normal());
        top = std::max(top, x[i]);
        bottom = std::min(bottom, x[i]);
        sum += x[i], magnitude += std::fabs(x[i]), squares += double{x[i]} * x[i], dot += double{x[i]} * y[i];
        about += (x[i] + 2.0) * (x[i] + 2.0);
      }
      const auto length = static_cast<int64_t>(n);
      const double slack = 1e-6 * (1 + magnitude + squares);
      EXPECT_NEAR(row_sum(x.data(), length), sum, slack);
      EXPECT_NEAR(row_sum_abs(x.data(), length), magnitude, slack);
      EXPECT_NEAR(row_sum_squares(x.data(), length), squares, slack);
      EXPECT_NEAR(row_sum_squares_about(x.data(), -2, length), about, slack);
      EXPECT_NEAR(row_dot(x.data(), y.data(), length), dot, slack);
      EXPECT_EQ(row_max(x.data(), length), top);
      EXPECT_EQ(row_min(x.data(), length), bottom);
      if (n == 0) continue;
      const float total = exp_sub_sum(x.data(), top, e.data(), length);
      for (size_t i = 0; i < n; ++i) {
        const double want = std::exp(double{x[i]} - top);
        exps += want;
        EXPECT_NEAR(e[i], want, 4 * kEps * want);
      }
      EXPECT_NEAR(total, exps, 1e-6 * exps);
      for (const size_t bad : {size_t{0}, n / 2, n - 1}) {
        std::vector<float> z = x;
        z[bad] = kNaN;
        EXPECT_TRUE(std::isnan(row_max(z.data(), length)));
        EXPECT_TRUE(std::isnan(row_min(z.data(), length)));
        z[bad] = -kInf;
        exp_sub_sum(z.data(), top, e.data(), length);
        EXPECT_EQ(e[bad], 0);
      }
    }
  });
}

TEST(VectorMath, ConversionsMatchTheScalarOnes) {
  for_each_target([] {
    std::vector<Half> halves(65536);
    std::vector<BFloat16> brains(65536);
    for (size_t i = 0; i < 65536; ++i) halves[i].bits = brains[i].bits = static_cast<uint16_t>(i);
    std::vector<float> out(65536);
    half_to_float_n(halves.data(), out.data(), 65536);
    const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    for (size_t i = 0; i < 65536; ++i) ASSERT_TRUE(same(out[i], half_to_float(static_cast<uint16_t>(i)))) << i;
    bfloat16_to_float_n(brains.data(), out.data(), 65536);
    for (size_t i = 0; i < 65536; ++i) ASSERT_TRUE(same(out[i], bfloat16_to_float(static_cast<uint16_t>(i)))) << i;

    std::vector<float> xs;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 20011) {
      xs.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    for (uint32_t i = 0; i < 65536; ++i)
      xs.push_back(half_to_float(static_cast<uint16_t>(i)) * 1.00048828125f);  // ties
    const auto n = static_cast<int64_t>(xs.size());
    halves.resize(xs.size()), brains.resize(xs.size());
    float_to_half_n(xs.data(), halves.data(), n);
    float_to_bfloat16_n(xs.data(), brains.data(), n);
    for (size_t i = 0; i < xs.size(); ++i) {
      if (std::isnan(xs[i])) {
        ASSERT_TRUE(std::isnan(static_cast<float>(halves[i])) && std::isnan(static_cast<float>(brains[i]))) << i;
      } else {
        ASSERT_EQ(halves[i].bits, float_to_half(xs[i])) << xs[i];
        ASSERT_EQ(brains[i].bits, float_to_bfloat16(xs[i])) << xs[i];
      }
    }
  });
}

}  // namespace
}  // namespace sparkpilot
