#include "ops/cuda/elementwise.h"

#include <cmath>

#include "ops/cuda/test_elements.h"
#include "ops/elementwise/functors.h"
#include "tensor/dtype.h"

namespace sparkpilot::cuda::elementwise_test {
namespace {

// One chain on inputs of these types and sizes; by which kernel.
struct Case {
  TestRun run;
  std::vector<ElementwiseInput> inputs;

  void input(ElementType type, const std::vector<int64_t>& sizes, const std::vector<double>& values) {
    inputs.push_back({run.input(element_of(type).storage, values), type, sizes});
  }
  void output(ElementType type, const std::vector<int64_t>& sizes, const std::vector<ElementwiseStep>& steps, bool wide,
              bool integers = false) {
    void* y = run.output(element_of(type).storage, static_cast<size_t>(product(sizes)));
    const ElementwiseArguments arguments = make_elementwise(y, type, sizes, inputs, steps);
    if (wide) {
      ASSERT_TRUE(elementwise_wide_accepts(arguments));
      run.launch(arguments.width == 8 ? "elementwise_wide_8" : "elementwise_wide_4", arguments,
                 elementwise_wide_launch(arguments));
    } else {
      run.launch(integers ? "elementwise_integers" : "elementwise", arguments, elementwise_launch(arguments));
    }
  }
};

struct Unary {
  Function function;
  float alpha, beta;
  double (*reference)(double x, float alpha, float beta);
  double tolerance = 2e-6;
};
#define UNARY(name, Functor, ...)                                                                                  \
  {                                                                                                                \
    Function::name, 0, 0, [](double x, float, float) { return static_cast<double>(fn::Functor()(x)); } __VA_ARGS__ \
  }
#define WITH(name, a, b, Functor)                                                                       \
  {                                                                                                     \
    Function::name, a, b, [](double x, float alpha, float beta) { return fn::Functor{alpha, beta}(x); } \
  }
const Unary kUnary[] = {
    UNARY(relu, Relu),
    WITH(leaky_relu, 0.1f, 0, LeakyRelu),
    WITH(thresholded_relu, 0.7f, 0, ThresholdedRelu),
    {Function::clip, -0.5f, 1.5f,
     [](double x, float low, float high) { return x != x ? x : std::min<double>(std::max<double>(x, low), high); }},
    WITH(hard_sigmoid, 0.2f, 0.5f, HardSigmoid),
    {Function::hard_swish, 0, 0,
     [](double x, float, float) {
       return x != x || x == -INFINITY ? NAN : x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
     }},
    UNARY(sigmoid, Sigmoid),
    WITH(silu, 1.7f, 0, Swish),
    UNARY(tanh, Tanh),
    UNARY(gelu_tanh, GeluTanh),
    UNARY(gelu_erf, GeluErf),
    WITH(elu, 1.3f, 0, Elu),
    WITH(selu, 1.67f, 1.05f, Selu),
    WITH(celu, 0.8f, 0, Celu),
    UNARY(softplus, Softplus),
    UNARY(softsign, Softsign),
    UNARY(mish, Mish),
    WITH(shrink, 0.4f, 0.3f, Shrink),
    UNARY(neg, Neg),
    UNARY(abs, Abs),
    UNARY(sign, Sign),
    {Function::logical_not, 0, 0, [](double x, float, float) { return x == 0 ? 1.0 : 0.0; }},
    {Function::is_nan, 0, 0, [](double x, float, float) { return x != x ? 1.0 : 0.0; }},
    {Function::is_inf, 1, 0, [](double x, float, float) { return x == INFINITY ? 1.0 : 0.0; }},
    {Function::is_inf, 0, 1, [](double x, float, float) { return x == -INFINITY ? 1.0 : 0.0; }},
    UNARY(reciprocal, Reciprocal),
    UNARY(sqrt, Sqrt),
    UNARY(exp, Exp),
    UNARY(log, Log),
    UNARY(erf, Erf),
    UNARY(floor, Floor),
    UNARY(ceil, Ceil),
    UNARY(round, Round),
    UNARY(sin, Sin),
    UNARY(cos, Cos),
    UNARY(tan, Tan),
    UNARY(sinh, Sinh),
    UNARY(cosh, Cosh)};
#undef UNARY
#undef WITH

TEST(CudaElementwise, FunctionsOfOne) {
  std::vector<double> x = kStorages[0].random(70, 3, 2.0);
  for (const double special : {0.0, 0.5, 1.5, 2.5, -0.5, 1e-20, 30.0, -30.0, 700.25, -4000.5, double{NAN},
                               double{INFINITY}, -double{INFINITY}}) {
    x.push_back(special);
  }
  const auto size = static_cast<int64_t>(x.size());
  for (const Unary& unary : kUnary) {
    std::vector<double> expected;
    for (const double value : x) {
      const double y = unary.reference(value, unary.alpha, unary.beta);
      expected.push_back(std::fabs(y) > 3.5e38 ? std::copysign(INFINITY, y) : y);
    }
    for (const bool wide : {false, true}) {
      Case c;
      c.input(ElementType::f32, {size}, x);
      c.output(ElementType::f32, {size}, {{.function = unary.function, .alpha = unary.alpha, .beta = unary.beta}},
               wide);
      EXPECT_TRUE(near_special(c.run, expected, 3e-6, 0.1)) << static_cast<int>(unary.function) << " wide " << wide;
    }
  }
}

template <class Functor>
double call(double a, double b) {
  return static_cast<double>(Functor()(a, b));
}
struct Binary {
  Function function;
  double (*reference)(double, double);
};
const Binary kBinary[] = {{Function::add, call<fn::Add>},
                          {Function::sub, call<fn::Sub>},
                          {Function::mul, call<fn::Mul>},
                          {Function::div, call<fn::Div>},
                          {Function::min, call<fn::Min>},
                          {Function::max, call<fn::Max>},
                          {Function::pow, [](double a, double b) { return std::pow(a, b); }},
                          {Function::mod, call<fn::Modulo>},
                          {Function::fmod, call<fn::Fmod>},
                          {Function::prelu, call<fn::ScaleNegative>},
                          {Function::equal, call<fn::Equal>},
                          {Function::less, call<fn::Less>},
                          {Function::less_or_equal, call<fn::LessOrEqual>},
                          {Function::greater, call<fn::Greater>},
                          {Function::greater_or_equal, call<fn::GreaterOrEqual>},
                          {Function::logical_and, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
                          {Function::logical_or, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
                          {Function::logical_xor, [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }}};

TEST(CudaElementwise, FunctionsOfTwo) {
  std::vector<double> a = kStorages[1].random(41, 4, 2.0), b = kStorages[1].random(41, 5, 2.0);
  a[3] = NAN, b[4] = NAN, a[5] = b[5], a[6] = 0, b[7] = 0, a[8] = INFINITY, b[9] = -INFINITY, a[10] = -INFINITY;
  for (size_t i = 11; i < 20; ++i) b[i] = std::round(b[i]);
  for (const Binary& binary : kBinary) {
    for (const int how : {0, 1, 2}) {
      const bool reversed = how == 2, wide = how != 0;
      std::vector<double> expected;
      for (size_t i = 0; i < a.size(); ++i) {
        expected.push_back(reversed ? binary.reference(b[i], a[i]) : binary.reference(a[i], b[i]));
      }
      Case c;
      c.input(ElementType::f16, {41}, a);
      c.input(ElementType::f32, {41}, b);
      c.output(ElementType::f32, {41}, {{.function = binary.function, .operand = 1, .reversed = reversed}}, wide);
      EXPECT_TRUE(near_special(c.run, expected, 1e-6)) << static_cast<int>(binary.function) << " " << how;
    }
  }
}

// What models broadcast, and what they do not.
TEST(CudaElementwise, Broadcasts) {
  struct Shapes {
    std::vector<int64_t> a, b, y;
    bool wide;
  };
  for (const Shapes& shapes : std::vector<Shapes>{{{3, 40}, {40}, {3, 40}, true},
                                                  {{2, 3, 5, 8}, {3, 1, 1}, {2, 3, 5, 8}, true},
                                                  {{2, 3, 5, 7}, {3, 1, 1}, {2, 3, 5, 7}, false},
                                                  {{1}, {129}, {129}, true},
                                                  {{5, 1}, {1, 16}, {5, 16}, true},
                                                  {{5, 1}, {1, 17}, {5, 17}, false},
                                                  {{}, {}, {}, true},
                                                  {{2, 1, 3, 1, 2, 1}, {2, 1, 3, 1, 2}, {2, 2, 3, 3, 2, 2}, false},
                                                  {{1, 1, 8}, {4, 5, 1}, {4, 5, 8}, true}}) {
    for (const TestStorage& storage : kStorages) {
      const ElementType type = static_cast<ElementType>(&storage - kStorages.data());
      const std::vector<double> a = storage.random(static_cast<size_t>(product(shapes.a)), 6, 1.0);
      const std::vector<double> b = storage.random(static_cast<size_t>(product(shapes.b)), 7, 1.0);
      std::vector<double> expected;
      for (int64_t i = 0; i < product(shapes.y); ++i) {
        const auto at = [&](const std::vector<int64_t>& sizes) {
          return static_cast<size_t>(strided_offset(i, shapes.y, broadcast_strides(sizes, shapes.y)));
        };
        expected.push_back(a[at(shapes.a)] - b[at(shapes.b)]);
      }
      for (const bool wide : {false, true}) {
        if (wide && !shapes.wide) continue;
        Case c;
        c.input(type, shapes.a, a);
        c.input(type, shapes.b, b);
        c.output(type, shapes.y, {{.function = Function::sub, .operand = 1}}, wide);
        EXPECT_TRUE(c.run.near(expected, storage.tolerance(1e-7), 1)) << storage.name << " " << shapes.y.size() << wide;
      }
    }
  }
}

double cast(const TestElement& to, double x) {
  switch (to.type) {
    case ElementType::i32: return saturate_to<int32_t>(x);
    case ElementType::i64: return static_cast<double>(saturate_to<int64_t>(x));
    case ElementType::u8: return saturate_to<uint8_t>(x);
    case ElementType::i8: return saturate_to<int8_t>(x);
    case ElementType::boolean: return x != 0;
    default: return to.storage.rounded(x);
  }
}

TEST(CudaElementwise, Casts) {
  const std::vector<double> floats = {0,   -0.4,   0.6, 1.5,  -1.5, 127,   128, -128,     -129,      255,  256,
                                      3e4, -70000, 3e9, -3e9, 1e19, -1e19, NAN, INFINITY, -INFINITY, 1e-8, 2};
  const std::vector<double> whole = {0, 1, 2, 3, 100, 77, 5, 127};
  for (const TestElement& from : kElements) {
    for (const TestElement& to : kElements) {
      if (from.integer && to.integer) continue;
      std::vector<double> x = from.integer ? whole : floats, expected;
      for (double& value : x) {
        value = from.type == ElementType::boolean ? static_cast<double>(value != 0) : from.storage.rounded(value);
        expected.push_back(cast(to, value));
      }
      const auto size = static_cast<int64_t>(x.size());
      for (const bool wide : {false, true}) {
        Case c;
        c.input(from.type, {size}, x);
        c.output(to.type, {size}, {}, wide);
        EXPECT_TRUE(near_special(c.run, expected, 0)) << from.storage.name << " to " << to.storage.name << wide;
      }
    }
  }
}

TEST(CudaElementwise, CastsOfIntegersKeepTheLowBits) {
  const std::vector<double> x = {0, 1, -1, 255, 256, 300, -129, 70000, -70000, 5e9, -5e9};
  const std::vector<double> i32 = {0, 1, -1, 255, 256, 300, -129, 70000, -70000, 705032704, -705032704};
  const std::vector<double> u8 = {0, 1, 255, 255, 0, 44, 127, 112, 144, 0, 0};
  const std::vector<double> boolean = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (const auto& [type, expected] : std::vector<std::pair<ElementType, std::vector<double>>>{
           {ElementType::i32, i32}, {ElementType::u8, u8}, {ElementType::boolean, boolean}}) {
    Case c;
    c.input(ElementType::i64, {11}, x);
    c.output(type, {11}, {}, false, true);
    EXPECT_TRUE(near_special(c.run, expected, 0)) << static_cast<int>(type);
  }
}

// As tf2onnx and torch write activations: x * 0.5 * (1 + tanh(...)), x * sigmoid(x), where.
TEST(CudaElementwise, Chains) {
  for (const TestStorage& storage : kStorages) {
    const ElementType type = static_cast<ElementType>(&storage - kStorages.data());
    const std::vector<double> x = storage.random(6 * 48, 8, 1.5), bias = storage.random(48, 9, 1.0);
    const std::vector<double> one = {0.25};
    std::vector<double> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i] + bias[i % 48], gate = v / (1 + std::exp(-v)), y = 1 - gate;
      expected.push_back(y < 0.25 ? v : x[i]);
    }
    for (const bool wide : {false, true}) {
      Case c;
      c.input(type, {6, 48}, x);
      c.input(ElementType::f32, {48}, bias);
      c.input(ElementType::f32, {1}, one);
      c.input(ElementType::f32, {}, {1.0});
      c.output(type, {6, 48},
               {{.function = Function::add, .operand = 1},
                {.function = Function::keep},
                {.function = Function::sigmoid},
                {.function = Function::mul, .operand = kKept},
                {.function = Function::sub, .operand = 3, .reversed = true},
                {.function = Function::less, .operand = 2},
                {.function = Function::select, .operand = kKept, .second = 0}},
               wide);
      EXPECT_TRUE(c.run.near(expected, storage.tolerance(1e-6), 1)) << storage.name << wide;
    }
  }
}

TEST(CudaElementwise, Integers) {
  const auto least = static_cast<double>(std::numeric_limits<int32_t>::min());
  const std::vector<double> a = {7, -7, least, 5, -5, 0, 2147483647, 100000}, b = {-2, 2, -1, 0, 3, 0, 1, 70000};
  struct Row {
    Function function;
    int32_t (*reference)(int32_t, int32_t);
  };
#define ROW(name, Functor)                                                                         \
  {                                                                                                \
    Function::name, [](int32_t x, int32_t y) { return static_cast<int32_t>(fn::Functor()(x, y)); } \
  }
  const Row rows[] = {ROW(add, Add),
                      ROW(sub, Sub),
                      ROW(mul, Mul),
                      ROW(div, Div),
                      ROW(mod, Modulo),
                      ROW(fmod, Fmod),
                      ROW(min, Min),
                      ROW(max, Max),
                      ROW(equal, Equal),
                      ROW(less, Less),
                      ROW(less_or_equal, LessOrEqual),
                      ROW(greater, Greater),
                      ROW(greater_or_equal, GreaterOrEqual),
                      ROW(logical_and, And),
                      ROW(logical_or, Or),
                      ROW(logical_xor, Xor),
                      ROW(prelu, ScaleNegative)};
  for (const Row& row : rows) {
    std::vector<double> expected;
    for (size_t i = 0; i < a.size(); ++i) {
      expected.push_back(row.reference(static_cast<int32_t>(a[i]), static_cast<int32_t>(b[i])));
    }
    Case c;
    c.input(ElementType::i32, {8}, a);
    c.input(ElementType::i32, {8}, b);
    c.output(ElementType::i32, {8}, {{.function = row.function, .operand = 1}}, false, true);
    EXPECT_TRUE(near_special(c.run, expected, 0)) << static_cast<int>(row.function);
  }
#undef ROW
  Case c;  // where(-a > 0, b, a) of 64 bits
  c.input(ElementType::i64, {8}, a);
  c.input(ElementType::i64, {8}, b);
  c.input(ElementType::i32, {1}, {0});
  c.output(ElementType::i64, {8},
           {{.function = Function::neg},
            {.function = Function::greater, .operand = 2},
            {.function = Function::select, .operand = 1, .second = 0}},
           false, true);
  EXPECT_TRUE(near_special(c.run, {7, 2, -1, 5, 3, 0, 2147483647, 100000}, 0));
}

// The bytes of an image, channels first, as f16 with channels last: Transpose, Cast and Mul in one.
TEST(CudaElementwise, ReadsThroughStrides) {
  const int64_t channels = 6, pixels = 35;
  std::vector<double> x, expected(static_cast<size_t>(channels * pixels));
  for (int64_t i = 0; i < channels * pixels; ++i) x.push_back(static_cast<double>(i % 256));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < pixels; ++i) {
      expected[static_cast<size_t>(i * channels + c)] = x[static_cast<size_t>(c * pixels + i)] / 64;
    }
  }
  Case c;
  c.input(ElementType::u8, {channels, pixels}, x);
  c.inputs[0].strides = {1, pixels};
  c.input(ElementType::f32, {}, {1.0 / 64});
  c.output(ElementType::f16, {pixels, channels}, {{.function = Function::mul, .operand = 1}}, false);
  EXPECT_TRUE(c.run.near(expected, 0));
}

TEST(CudaElementwise, ReadsWholeSectors) {
  for (const ElementType type : {ElementType::f32, ElementType::f16}) {
    const TestStorage& storage = element_of(type).storage;
    Case c;
    c.run.count_traffic();
    c.input(type, {16, 512}, storage.random(16 * 512, 10, 1.0));
    c.input(type, {512}, storage.random(512, 11, 1.0));
    c.output(type, {16, 512}, {{.function = Function::add, .operand = 1}, {.function = Function::gelu_tanh}}, true);
    c.run.values();
    uint64_t requests = 0;
    for (const emulator::Checker::Traffic& line : c.run.traffic()) {
      EXPECT_EQ(line.used(), 1.0) << line.line;
      EXPECT_EQ(line.bytes, line.requests * 512) << line.line;
      requests += line.requests;
    }
    EXPECT_EQ(requests, 16 * 512 * storage.bytes() / 512 * 3);
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::elementwise_test
