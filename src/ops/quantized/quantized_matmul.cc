// MatMulInteger and QLinearMatMul: products of 8-bit matrices with zero points, exact in integers.
//
// Scales and zero points of A have one element or one per row, those of B one element or one per column; with leading
// dimensions there may also be one for each matrix.
#include "ops/cpu/gemm/matmul_loop.h"
#include "ops/cpu/int8/requantize.h"
#include "ops/registry.h"

namespace sparkpilot::quantized_matmul_ops {
namespace {

bool is_small(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::f8e4m3fn || dtype == DType::f8e4m3fnuz ||
         dtype == DType::f8e5m2 || dtype == DType::f8e5m2fnuz;
}

// Fails (user) unless input `i` has a valid shape for scaling the rows (or columns) of input `matrix`.
void check_parameter(const InferContext& c, int i, int matrix, bool rows) {
  const Shape& p = c.shape(i);
  const Shape& m = c.shape(matrix);
  const int along = m.rank() - (rows ? 2 : 1), across = m.rank() - (rows ? 1 : 2);
  if (p.elements() == 1) return;
  if (m.rank() >= 2) {
    if (p.rank() == 1 && p[0] == m[along]) return;
    if (p.rank() == m.rank() && p == m.with(across, 1)) return;
    if (p.rank() == m.rank() && p[along] == m[along] && p.elements() == m[along]) return;
  }
  fail("input {} has shape {}, expected one element or one for each {} of {}", i, p.str(), rows ? "row" : "column",
       m.str());
}

// If one matrix is multiplied with several others, its parameters must be the same for all of them.
void check_broadcast(const InferContext& c, int i, int matrix, bool rows, const MatMulShape& s) {
  check_parameter(c, i, matrix, rows);
  const Shape& m = c.shape(matrix);
  const int64_t along = m.rank() < 2 ? 1 : m[m.rank() - (rows ? 2 : 1)];
  const int64_t all = rows ? s.batch * s.m : s.batch * s.n;
  const int64_t count = c.shape(i).elements();
  if (count > along && count != all) fail("input {} has {} elements, which do not broadcast", i, count);
}

// Calls store(row of Y counted over the batch, column counted over the batch's columns, offset in Y, sum); a(offset)
// and b(offset) return the operands.
template <typename A, typename B, typename Store>
void multiply(const MatMulShape& s, const A& a, const B& b, const Parameter& a_zero, const Parameter& b_zero,
              const Store& store) {
  const double work = static_cast<double>(s.n) * static_cast<double>(s.k);
  parallel_for(s.batch * s.m, 1 + static_cast<int64_t>(65536 / (1 + work)), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t entry = row / s.m;
      const MatMulShape::Offsets at = s.offsets(entry);
      const int64_t a_row = at.a + row % s.m * s.a_row;
      const double zero = a_zero.at(row);
      for (int64_t j = 0; j < s.n; ++j) {
        const double b_shift = b_zero.at(entry * s.n + j);
        double sum = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          sum += (a(a_row + k * s.a_col) - zero) * (b(at.b + k * s.b_row + j * s.b_col) - b_shift);
        }
        store(row, entry * s.n + j, row * s.n + j, sum);
      }
    }
  });
}

template <typename Store>
void multiply(const ConstView& a, const ConstView& b, const Parameter& a_zero, const Parameter& b_zero,
              const Store& store) {
  const MatMulShape s = matmul_shape(a.shape, b.shape);
  if (!contains(ByteTypes{}, a.dtype) || !contains(ByteTypes{}, b.dtype)) {
    multiply(
        s, [&](int64_t at) { return load_element(a.dtype, a.data, at); },
        [&](int64_t at) { return load_element(b.dtype, b.data, at); }, a_zero, b_zero, store);
    return;
  }
  dispatch(ByteTypes{}, a.dtype, [&]<typename A>() {
    dispatch(ByteTypes{}, b.dtype, [&]<typename B>() {
      multiply(
          s, [p = a.as<A>()](int64_t at) { return static_cast<double>(p[at]); },
          [p = b.as<B>()](int64_t at) { return static_cast<double>(p[at]); }, a_zero, b_zero, store);
    });
  });
}

void run_integer(const Call& c) {
  auto* y = c.outputs[0].as<int32_t>();
  multiply(c.inputs[0], c.inputs[1], Parameter::of(c, 2), Parameter::of(c, 3),
           [&](int64_t, int64_t, int64_t at, double sum) { y[at] = wrap_to_i32(sum); });
}

void run_linear(const Call& c) {
  const Parameter a_scale(c.inputs[1]), b_scale(c.inputs[4]);
  const auto y_scale = static_cast<float>(Parameter(c.inputs[6]).at(0));
  const double y_zero = Parameter(c.inputs[7]).at(0);
  multiply(c.inputs[0], c.inputs[3], Parameter(c.inputs[2]), Parameter(c.inputs[5]),
           [&](int64_t row, int64_t column, int64_t at, double sum) {
             const float scale = static_cast<float>(a_scale.at(row)) * static_cast<float>(b_scale.at(column)) / y_scale;
             store_quantized(c.outputs[0], at, static_cast<float>(sum) * scale, y_zero);
           });
}

void infer_integer(InferContext& c) {
  for (int i = 0; i < 2; ++i) {
    if (!contains(ByteTypes{}, c.dtype(i))) fail("input {} is {}, expected i8 or u8", i, name(c.dtype(i)));
  }
  const MatMulShape s = matmul_shape(c.shape(0), c.shape(1));
  for (int i = 2; i < 4; ++i) {
    if (!c.has(i)) continue;
    if (c.dtype(i) != c.dtype(i - 2)) fail("zero point is {}, expected {}", name(c.dtype(i)), name(c.dtype(i - 2)));
    check_broadcast(c, i, i - 2, i == 2, s);
  }
  c.output(0, DType::i32, s.out);
}

void infer_linear(InferContext& c) {
  const MatMulShape s = matmul_shape(c.shape(0), c.shape(3));
  for (const int i : {0, 3, 7}) {
    if (!is_small(c.dtype(i))) fail("input {} is {}, expected an 8-bit type", i, name(c.dtype(i)));
  }
  for (const int i : {0, 3}) {
    if (c.dtype(i + 2) != c.dtype(i)) fail("zero point is {}, expected {}", name(c.dtype(i + 2)), name(c.dtype(i)));
    check_broadcast(c, i + 1, i, i == 0, s);
    check_broadcast(c, i + 2, i, i == 0, s);
  }
  for (const int i : {1, 4, 6}) {
    if (!contains(FloatTypes{}, c.dtype(i))) fail("scale is {}, expected a float type", name(c.dtype(i)));
  }
  for (const int i : {6, 7}) {
    if (c.shape(i).elements() != 1) fail("input {} has shape {}, expected one element", i, c.shape(i).str());
  }
  c.output(0, c.dtype(7), s.out);
}

double integer_cost(const Problem& p) { return matmul_shape(p.inputs[0].shape, p.inputs[1].shape).flops(); }
double linear_cost(const Problem& p) { return matmul_shape(p.inputs[0].shape, p.inputs[3].shape).flops(); }

CaseInput bytes(std::initializer_list<int64_t> dims, DType dtype) {
  return CaseInput::range(dims, dtype == DType::u8 ? 0 : -128, dtype == DType::u8 ? 255 : 127, dtype);
}

std::vector<OpCase> integer_cases() {
  return {{"plain", {bytes({5, 37}, DType::u8), bytes({37, 9}, DType::i8).fixed()}, {}},
          {"zero_points",
           {bytes({5, 37}, DType::u8), bytes({37, 9}, DType::u8).fixed(), bytes({}, DType::u8),
            bytes({}, DType::u8).fixed()},
           {}},
          {"rows_and_columns",
           {bytes({2, 5, 8}, DType::i8), bytes({2, 8, 3}, DType::i8), bytes({5}, DType::i8), bytes({3}, DType::i8)},
           {}},
          {"each_matrix",
           {bytes({2, 5, 8}, DType::i8), bytes({8, 3}, DType::u8), bytes({2, 5, 1}, DType::i8), bytes({1}, DType::u8)},
           {}}};
}

std::vector<OpCase> linear_cases() {
  const auto scale = [](std::initializer_list<int64_t> dims) { return CaseInput::range(dims, 0.01, 0.02); };
  return {{"u8",
           {bytes({5, 37}, DType::u8), scale({}), bytes({}, DType::u8), bytes({37, 9}, DType::u8), scale({}),
            bytes({}, DType::u8), CaseInput::value(Tensor::scalar(0.7f)), bytes({}, DType::u8)},
           {}},
          {"i8_columns",
           {bytes({2, 5, 37}, DType::i8), scale({1}), bytes({1}, DType::i8), bytes({37, 9}, DType::i8), scale({9}),
            bytes({9}, DType::i8), CaseInput::value(Tensor::scalar(0.3f)), bytes({}, DType::i8)},
           {}}};
}

constexpr Kernel kInteger[] = {{.name = "reference", .run = run_integer}};
constexpr Kernel kLinear[] = {{.name = "reference", .run = run_linear}};

const OpDef kOps[] = {{.name = "MatMulInteger",
                       .doc = "Product of 8-bit matrices as 32-bit integers.",
                       .since = 10,
                       .inputs = {2, 4},
                       .outputs = {1, 1},
                       .traits = {.multiply_adds = true},
                       .infer = infer_integer,
                       .cpu = kInteger,
                       .no_gradient = no_gradient::kQuantized,
                       .cost = integer_cost,
                       .cases = integer_cases},
                      {.name = "QLinearMatMul",
                       .doc = "Product of quantized matrices, quantized again.",
                       .since = 10,
                       .inputs = {8, 8},
                       .outputs = {1, 1},
                       .traits = {.multiply_adds = true},
                       .infer = infer_linear,
                       .cpu = kLinear,
                       .no_gradient = no_gradient::kQuantized,
                       .cost = linear_cost,
                       .cases = linear_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::quantized_matmul_ops
