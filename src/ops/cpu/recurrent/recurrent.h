// What the kernels of LSTM, GRU and RNN share: sizes and offsets, activation lists, and the loop of the plain kernels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "ir/op.h"

namespace sparkpilot {

// One of the activation functions that recurrent ops can name, with its parameters.
struct CellActivation {
  enum Kind {
    relu,
    tanh,
    sigmoid,
    affine,
    leaky_relu,
    thresholded_relu,
    scaled_tanh,
    hard_sigmoid,
    elu,
    softsign,
    softplus
  } kind = tanh;
  float alpha = 1, beta = 0;
  double operator()(double x) const;
  void apply(float* x, int64_t n) const;  // in place
};

// How the three ops differ.
struct RecurrentKind {
  int64_t gates;
  bool cell;                                // has initial_c, Y_c and peepholes
  std::vector<std::string_view> functions;  // defaults
};

struct Recurrent {
  int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1, gates = 1;
  bool batch_first = false, reversed = false;  // `reversed`: the only direction runs backwards
  double clip = 0;                             // 0: none
  size_t functions_each = 1;
  std::vector<CellActivation> functions;  // those of the first direction, then those of the second

  int64_t rows() const { return gates * hidden; }  // rows of W and R in one direction
  bool backwards(int64_t direction) const { return direction == 1 || reversed; }
  const CellActivation* functions_of(int64_t direction) const {
    return functions.data() + static_cast<size_t>(direction) * functions_each;
  }
  // The step that is computed as number t of a sequence of `length`.
  int64_t step(int64_t direction, int64_t t, int64_t length) const { return backwards(direction) ? length - 1 - t : t; }
  // Offsets in elements.
  int64_t x_at(int64_t t, int64_t b) const { return (batch_first ? b * steps + t : t * batch + b) * input; }
  int64_t y_at(int64_t t, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
  int64_t state_at(int64_t d, int64_t b) const { return (batch_first ? b * directions + d : d * batch + b) * hidden; }
};

// Indices of the inputs in LSTM, which has the most of the three.
enum RecurrentInput : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

// Reads the shapes of X and R and the attributes; fails (user) on unknown names.
Recurrent parse_recurrent(const RecurrentKind& kind, const Shape& x, const Shape& r, const Attributes& attrs);

// The length of sequence b; fails (user) if it is outside [0, steps].
int64_t sequence_length(const Call& c, const Recurrent& r, int64_t b);
// Pointer to output `i`; null if the node does not have it.
template <typename T>
T* output_of(const Call& c, size_t i) {
  return i < c.outputs.size() && c.outputs[i].present() ? c.outputs[i].as<T>() : nullptr;
}

// ---------------------------------------------------------------- plain kernels
struct RecurrentReference final : KernelState {
  Recurrent r;
  int64_t slots = 1;
  int64_t slot_doubles() const { return 2 * r.rows() + 4 * r.hidden; }
};
std::unique_ptr<RecurrentReference> prepare_recurrent_reference(const Problem& p, const RecurrentKind& kind);

// One step of one sequence, in double. Both parts have `rows` values and include their biases.
struct CellStep {
  const Recurrent& r;
  int64_t direction;
  double *x_part, *h_part;     // W x + Wb, R h + Rb
  double *h, *cell, *scratch;  // `hidden` values each; a cell changes h and cell
  double clipped(double v) const { return r.clip > 0 ? std::clamp(v, -r.clip, r.clip) : v; }
  double apply(size_t function, double v) const { return r.functions_of(direction)[function](clipped(v)); }
};

// out[i] = bias[i] + sum over j of m[i, j] * v[j], i in [first, first + count)
template <typename T, typename V>
void reference_rows(const T* m, const T* bias, const V* v, int64_t columns, int64_t first, int64_t count, double* out) {
  for (int64_t i = first; i < first + count; ++i) {
    double sum = bias ? static_cast<double>(bias[i]) : 0;
    for (int64_t j = 0; j < columns; ++j) sum += static_cast<double>(m[i * columns + j]) * static_cast<double>(v[j]);
    out[i - first] = sum;
  }
}

// Runs one sequence by calling cell(step, recur) for each step. `cell` may call `recur(first, count, v, out)`: rows of
// R times a vector, plus their bias.
template <typename T, typename Cell>
void run_reference_sequence(const Call& c, const Recurrent& r, int64_t d, int64_t b, double* memory, Cell cell) {
  const int64_t hidden = r.hidden, rows = r.rows(), length = sequence_length(c, r, b);
  CellStep s{
      r, d, memory, memory + rows, memory + 2 * rows, memory + 2 * rows + hidden, memory + 2 * rows + 2 * hidden};
  const T* wb = c.has(kB) ? c.inputs[kB].as<T>() + d * 2 * rows : nullptr;
  const T* rb = wb ? wb + rows : nullptr;
  const T *w = c.inputs[kW].as<T>() + d * rows * r.input, *rm = c.inputs[kR].as<T>() + d * rows * hidden;
  const auto recur = [&](int64_t first, int64_t count, const double* v, double* out) {
    reference_rows(rm, rb, v, hidden, first, count, out);
  };
  for (int64_t i = 0; i < hidden; ++i) {
    const auto start = [&](size_t input) {
      return c.has(input) ? static_cast<double>(c.inputs[input].as<T>()[r.state_at(d, b) + i]) : 0.0;
    };
    s.h[i] = start(kInitialH);
    s.cell[i] = start(kInitialC);
  }
  T* y = output_of<T>(c, 0);
  const auto store = [&](T* out, const double* v) {
    for (int64_t i = 0; out && i < hidden; ++i) out[i] = T(static_cast<Compute<T>>(v ? v[i] : 0.0));
  };
  for (int64_t t = 0; t < r.steps; ++t) {
    const int64_t at = t < length ? r.step(d, t, length) : t;
    if (t < length) {
      reference_rows(w, wb, c.inputs[kX].as<T>() + r.x_at(at, b), r.input, 0, rows, s.x_part);
      recur(0, rows, s.h, s.h_part);
      cell(s, recur);
    }
    store(y ? y + r.y_at(at, d, b) : nullptr, t < length ? s.h : nullptr);
  }
  T *last = output_of<T>(c, 1), *last_cell = output_of<T>(c, 2);
  store(last ? last + r.state_at(d, b) : nullptr, s.h);
  store(last_cell ? last_cell + r.state_at(d, b) : nullptr, s.cell);
}

// Runs all sequences of all directions; `cell` is called as cell.template operator()<T>(step, recur).
template <typename Cell>
void run_recurrent_reference(const Call& c, Cell cell) {
  const auto& state = c.as<RecurrentReference>();
  const Recurrent& r = state.r;
  const int64_t sequences = r.directions * r.batch;
  dispatch(FloatTypes{}, c.inputs[kX].dtype, [&]<typename T>() {
    parallel_for(state.slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        double* memory = reinterpret_cast<double*>(c.workspace) + slot * state.slot_doubles();
        for (int64_t i = sequences * slot / state.slots; i < sequences * (slot + 1) / state.slots; ++i) {
          const int64_t d = i / r.batch, b = i % r.batch;
          run_reference_sequence<T>(
              c, r, d, b, memory, [&](CellStep& step, const auto& recur) { cell.template operator()<T>(step, recur); });
        }
      }
    });
  });
}

}  // namespace sparkpilot
