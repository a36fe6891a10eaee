#include "ops/cpu/vector/elementwise.h"

namespace sparkpilot {

Acceptance accepts_floats(const Problem& problem) {
  for (const TensorType& input : problem.inputs) {
    if (!contains(TypeList<float, Half, BFloat16>{}, input.dtype)) return fmt::format("{} input", name(input.dtype));
  }
  return true;
}

std::unique_ptr<KernelState> prepare_broadcast(const Problem& problem) {
  std::vector<Shape> shapes;
  for (const TensorType& input : problem.inputs) shapes.push_back(input.shape);
  return std::make_unique<BroadcastState>(Broadcast(problem.outputs[0].shape, shapes));
}

const float* float_block(const Call& c, const Broadcast& plan, int k, int64_t position, int64_t n, float* scratch) {
  const ConstView& x = c.inputs[static_cast<size_t>(k)];
  if (x.dtype == DType::f32) return block(plan, k, x.as<float>(), position, n, scratch);
  if (plan.dense(k)) {
    floats_from(x.dtype, x.data, position, scratch, n);
    return scratch;
  }
  alignas(64) uint16_t bits[kBlock];
  floats_from(x.dtype, block(plan, k, static_cast<const uint16_t*>(x.data), position, n, bits), 0, scratch, n);
  return scratch;
}

namespace {

// Runs shorter than this are gathered into blocks first; of f32, also longer ones of a row beside a whole operand.
constexpr int64_t kShortRun = 16, kShortRow = 128;

bool in_runs(const Call& c, const Broadcast& plan) {
  if (c.inputs.size() != 2) return false;
  if (plan.run() == plan.elements()) return true;
  const bool row = (plan.row(0) && plan.dense(1)) || (plan.dense(0) && plan.row(1));
  const bool blocks = row && c.outputs[0].dtype == DType::f32 && plan.elements() >= 4 * kBlock;
  return plan.run() >= (blocks ? kShortRow : kShortRun);
}

void binary_run(BinaryMath op, const float* a, bool a_steps, const float* b, bool b_steps, float* y, int64_t n) {
  if (a_steps && b_steps) vector_binary(op, a, b, y, n);
  else if (a_steps) vector_scalar_binary(op, a, *b, y, n);
  else if (b_steps) scalar_vector_binary(op, *a, b, y, n);
  else {
    scalar_vector_binary(op, *a, b, y, 1);
    std::fill_n(y + 1, n - 1, *y);
  }
}

// Two operands of f32.
void binary_blocks(const Call& c, const Broadcast& plan, BinaryMath op, int64_t begin, int64_t end) {
  Blocks<float, float> a(plan, 0, c.inputs[0].as<float>()), b(plan, 1, c.inputs[1].as<float>());
  auto* y = c.outputs[0].as<float>();
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    vector_binary(op, a.at(i, n), b.at(i, n), y + i, n);
  }
}

void nary_blocks(const Call& c, const Broadcast& plan, BinaryMath op, int64_t begin, int64_t end) {
  alignas(64) float sum[kBlock], operand[kBlock];
  View& y = c.outputs[0];
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    const float* left = float_block(c, plan, 0, i, n, sum);
    for (size_t k = 1; k < c.inputs.size(); ++k) {
      vector_binary(op, left, float_block(c, plan, static_cast<int>(k), i, n, operand), sum, n);
      left = sum;
    }
    floats_to(y.dtype, left, y.data, i, n);
  }
}

// Two operands, if one of them or the result is f16 or bf16.
void half_runs(const Call& c, const Broadcast& plan, BinaryMath op, int64_t begin, int64_t end) {
  alignas(64) float a[kBlock], b[kBlock];
  const ConstView &x0 = c.inputs[0], &x1 = c.inputs[1];
  View& y = c.outputs[0];
  const bool a_steps = plan.step(0) != 0, b_steps = plan.step(1) != 0;
  plan.for_runs<2>({0, 1}, begin, end, [&](int64_t at, const std::array<int64_t, 2>& offset, int64_t length) {
    for (int64_t i = 0; i < length; i += kBlock) {
      const int64_t n = std::min(kBlock, length - i);
      floats_from(x0.dtype, x0.data, offset[0] + (a_steps ? i : 0), a, a_steps ? n : 1);
      floats_from(x1.dtype, x1.data, offset[1] + (b_steps ? i : 0), b, b_steps ? n : 1);
      binary_run(op, a, a_steps, b, b_steps, a, n);
      floats_to(y.dtype, a, y.data, at + i, n);
    }
  });
}

// T: any type of the operands' size.
template <typename T>
void integer_blocks(const Call& c, const Broadcast& plan, Integers op, int64_t begin, int64_t end) {
  alignas(64) T operand[kBlock], first[kBlock];
  T* y = static_cast<T*>(c.outputs[0].data);
  const auto of = [&](size_t k, int64_t at, int64_t n, T* scratch) {
    return block(plan, static_cast<int>(k), static_cast<const T*>(c.inputs[k].data), at, n, scratch);
  };
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    const T* left = of(0, i, n, first);
    if (c.inputs.size() == 1) std::copy_n(left, n, y + i);
    // Only the last operation may write the output, which may be the memory of a later operand.
    for (size_t k = 1; k < c.inputs.size(); ++k) {
      T* out = k + 1 == c.inputs.size() ? y + i : first;
      integers_n(op, c.inputs[0].dtype, left, of(k, i, n, operand), true, out, n);
      left = out;
    }
  }
}

template <typename T>
void integer_runs(const Call& c, const Broadcast& plan, Integers op, int64_t begin, int64_t end) {
  const DType dtype = c.inputs[0].dtype;
  const auto *a = static_cast<const T*>(c.inputs[0].data), *b = static_cast<const T*>(c.inputs[1].data);
  T* y = static_cast<T*>(c.outputs[0].data);
  const bool a_steps = plan.step(0) != 0, b_steps = plan.step(1) != 0;
  const Integers turned = op == Integers::sub ? Integers::rsub : op;
  plan.for_runs<2>({0, 1}, begin, end, [&](int64_t at, const std::array<int64_t, 2>& offset, int64_t n) {
    if (a_steps || n == 1) integers_n(op, dtype, a + offset[0], b + offset[1], b_steps && n > 1, y + at, n);
    else integers_n(turned, dtype, b + offset[1], a + offset[0], false, y + at, n);
  });
}

}  // namespace

void map_integer_nary(const Call& c, const Broadcast& plan, Integers op) {
  const bool runs = in_runs(c, plan);
  const auto work = [&]<typename T>(T) {
    parallel_for(plan.elements(), kGrain, [&](int64_t begin, int64_t end) {
      if (runs) integer_runs<T>(c, plan, op, begin, end);
      else integer_blocks<T>(c, plan, op, begin, end);
    });
  };
  switch (bits(c.inputs[0].dtype)) {
    case 8: return work(uint8_t{});
    case 16: return work(uint16_t{});
    case 32: return work(uint32_t{});
    default: return work(uint64_t{});
  }
}

void map_vector_nary(const Call& c, const Broadcast& plan, BinaryMath op) {
  const bool runs = in_runs(c, plan), floats = c.outputs[0].dtype == DType::f32;
  parallel_for(plan.elements(), kGrain, [&](int64_t begin, int64_t end) {
    if (!runs && floats && c.inputs.size() == 2) return binary_blocks(c, plan, op, begin, end);
    if (!runs) return nary_blocks(c, plan, op, begin, end);
    if (!floats) return half_runs(c, plan, op, begin, end);
    const auto *a = c.inputs[0].as<float>(), *b = c.inputs[1].as<float>();
    auto* y = c.outputs[0].as<float>();
    const bool a_steps = plan.step(0) != 0, b_steps = plan.step(1) != 0;
    plan.for_runs<2>({0, 1}, begin, end, [&](int64_t at, const std::array<int64_t, 2>& offset, int64_t n) {
      binary_run(op, a + offset[0], a_steps, b + offset[1], b_steps, y + at, n);
    });
  });
}

}  // namespace sparkpilot
