#include "ops/cpu/recurrent/recurrent_simd.h"

#include <cstring>

#include "ops/cpu/vector/vector_math.h"

namespace sparkpilot {
namespace {

constexpr int64_t kChunkRows = 64;  // rows of one product with W

void copy_floats(float* to, const float* from, int64_t n) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}

// The parts of one direction's scratch memory.
struct Scratch {
  int64_t* lengths;
  float *x, *gates, *step, *h, *cell;
};

Scratch cut(const RecurrentSimd& s, float* memory) {
  const Recurrent& r = s.r;
  Scratch out{};
  out.lengths = reinterpret_cast<int64_t*>(memory);
  out.x = memory + 2 * r.batch;
  out.gates = out.x + s.chunk * r.batch * r.input;
  out.step = out.gates + s.chunk * r.batch * r.rows();
  out.h = out.step + r.batch * r.rows();
  out.cell = out.h + r.batch * r.hidden;
  return out;
}

// W x + bias for the steps [first, last); for sequences that have ended, only the bias.
void input_part(const Call& c, const RecurrentSimd& s, int64_t d, const Scratch& m, int64_t first, int64_t last) {
  const Recurrent& r = s.r;
  const auto& weights = s.directions[static_cast<size_t>(d)];
  const float* x = c.inputs[kX].as<float>();
  for (int64_t t = first; t < last; ++t) {
    for (int64_t b = 0; b < r.batch; ++b) {
      const int64_t row = (t - first) * r.batch + b;
      copy_floats(m.gates + row * r.rows(), weights.bias.data(), r.rows());
      float* to = m.x + row * r.input;
      if (t < m.lengths[b]) copy_floats(to, x + r.x_at(r.step(d, t, m.lengths[b]), b), r.input);
      else std::fill(to, to + r.input, 0.0f);
    }
  }
  weights.w.multiply_add(m.x, r.input, m.gates, r.rows(), (last - first) * r.batch);
}

void write_step(const Call& c, const Recurrent& r, int64_t d, const Scratch& m, int64_t t) {
  float* y = output_of<float>(c, 0);
  if (!y) return;
  for (int64_t b = 0; b < r.batch; ++b) {
    const bool active = t < m.lengths[b];
    float* to = y + r.y_at(active ? r.step(d, t, m.lengths[b]) : t, d, b);
    if (active) copy_floats(to, m.h + b * r.hidden, r.hidden);
    else std::fill(to, to + r.hidden, 0.0f);
  }
}

}  // namespace

Acceptance accepts_recurrent_simd(const Problem& p) {
  if (p.inputs[kX].dtype != DType::f32) return fmt::format("{} input", name(p.inputs[kX].dtype));
  if (p.inputs[kX].shape.elements() == 0 || p.inputs[kR].shape.elements() == 0) return "empty input";
  if (!p.is_constant(kW) || !p.is_constant(kR)) return "weights are not constant";
  if (p.has(kB) && !p.is_constant(kB)) return "bias is not constant";
  return true;
}

std::unique_ptr<RecurrentSimd> prepare_recurrent_simd(const Problem& p, const RecurrentKind& kind, LastGate last) {
  auto state = std::make_unique<RecurrentSimd>();
  const Recurrent r = state->r = parse_recurrent(kind, p.inputs[kX].shape, p.inputs[kR].shape, p.attrs());
  const int64_t rows = r.rows(), others = rows - r.hidden;
  for (int64_t d = 0; d < r.directions; ++d) {
    RecurrentSimd::Direction& out = state->directions.emplace_back();
    const float* recurrent = p.constants[kR].data<float>().data() + d * rows * r.hidden;
    out.w = PackedMatrix(p.constants[kW].data<float>().data() + d * rows * r.input, rows, r.input);
    out.r = PackedMatrix(recurrent, last == LastGate::own_product ? others : rows, r.hidden);
    if (last == LastGate::own_product) out.r_last = PackedMatrix(recurrent + others * r.hidden, r.hidden, r.hidden);
    out.bias.resize(static_cast<size_t>(rows));
    out.last_r_bias.resize(static_cast<size_t>(r.hidden));
    if (!p.has(kB)) continue;
    const float *wb = p.constants[kB].data<float>().data() + d * 2 * rows, *rb = wb + rows;
    for (int64_t i = 0; i < rows; ++i) {
      const bool apart = last == LastGate::own_bias && i >= others;
      out.bias[static_cast<size_t>(i)] = apart ? wb[i] : wb[i] + rb[i];
      if (apart) out.last_r_bias[static_cast<size_t>(i - others)] = rb[i];
    }
  }
  state->consumed = uint64_t{1} << kW | uint64_t{1} << kR | uint64_t{1} << kB;
  state->chunk = std::clamp<int64_t>(kChunkRows / r.batch, 1, r.steps);
  state->direction_floats = 2 * r.batch + r.batch * (state->chunk * (r.input + rows) + rows + 2 * r.hidden) + 16;
  state->direction_floats += -state->direction_floats & 15;
  state->workspace = r.directions * state->direction_floats * static_cast<int64_t>(sizeof(float));
  return state;
}

void BatchStep::clip(float* x, int64_t n) const {
  const auto bound = static_cast<float>(r.clip);
  if (bound > 0) apply_activation(Activation::clip, -bound, bound, x, x, n);
}

void run_recurrent_direction(const Call& c, int64_t d, float* memory, void (*step)(const BatchStep&)) {
  const auto& s = c.as<RecurrentSimd>();
  const Recurrent& r = s.r;
  const Scratch m = cut(s, memory);
  for (int64_t b = 0; b < r.batch; ++b) {
    m.lengths[b] = sequence_length(c, r, b);
    const auto start = [&](size_t input, float* to) {
      if (c.has(input)) copy_floats(to, c.inputs[input].as<float>() + r.state_at(d, b), r.hidden);
      else std::fill(to, to + r.hidden, 0.0f);
    };
    start(kInitialH, m.h + b * r.hidden);
    start(kInitialC, m.cell + b * r.hidden);
  }
  const float* peepholes = c.has(kPeepholes) ? c.inputs[kPeepholes].as<float>() + d * 3 * r.hidden : nullptr;
  for (int64_t first = 0; first < r.steps; first += s.chunk) {
    const int64_t last = std::min(r.steps, first + s.chunk);
    input_part(c, s, d, m, first, last);
    for (int64_t t = first; t < last; ++t) {
      float* gates = m.gates + (t - first) * r.batch * r.rows();
      step({r, s.directions[static_cast<size_t>(d)], d, t, gates, m.step, m.h, m.cell, m.lengths, peepholes});
      write_step(c, r, d, m, t);
    }
  }
  for (int64_t b = 0; b < r.batch; ++b) {
    const int64_t at = r.state_at(d, b);
    if (float* h = output_of<float>(c, 1)) copy_floats(h + at, m.h + b * r.hidden, r.hidden);
    if (float* cell = output_of<float>(c, 2)) copy_floats(cell + at, m.cell + b * r.hidden, r.hidden);
  }
}

void run_recurrent_simd(const Call& c, void (*step)(const BatchStep&)) {
  const auto& s = c.as<RecurrentSimd>();
  parallel_for(s.r.directions, 1, [&](int64_t begin, int64_t end) {
    for (int64_t d = begin; d < end; ++d) {
      run_recurrent_direction(c, d, reinterpret_cast<float*>(c.workspace) + d * s.direction_floats, step);
    }
  });
}

}  // namespace sparkpilot
