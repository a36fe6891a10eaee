// The vector kernels of LSTM, GRU and RNN: f32 with constant weights, packed once. The part of the gates that depends
// on the inputs is computed for a chunk of steps at once, the recurrent part step by step, for the whole batch.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "ops/cpu/gemm/packed_matrix.h"
#include "ops/cpu/recurrent/recurrent.h"

namespace sparkpilot {

struct RecurrentSimd final : KernelState {
  struct Direction {
    PackedMatrix w;
    PackedMatrix r, r_last;          // r_last: the last gate's rows, if the cell needs them separately; else empty
    std::vector<float> bias;         // biases of W and R, added
    std::vector<float> last_r_bias;  // of the last gate, if kept separately
  };
  Recurrent r;
  std::vector<Direction> directions;
  int64_t chunk = 1;             // steps
  int64_t direction_floats = 0;  // scratch
};

// How the recurrent weights of the last gate are kept: with the others, or separately (GRU).
enum class LastGate { joined, own_bias, own_product };

// Requires f32 throughout, and constant W, R and B.
Acceptance accepts_recurrent_simd(const Problem& p);
std::unique_ptr<RecurrentSimd> prepare_recurrent_simd(const Problem& p, const RecurrentKind& kind, LastGate last);

// One step of the whole batch. Row b of `gates` and `scratch` has r.rows() values, row b of `h` and `cell` has
// r.hidden.
struct BatchStep {
  const Recurrent& r;
  const RecurrentSimd::Direction& weights;
  int64_t direction, t;
  float *gates, *scratch, *h, *cell;
  const int64_t* lengths;
  const float* peepholes;  // null: none
  bool active(int64_t b) const { return t < lengths[b]; }
  const CellActivation& function(size_t i) const { return r.functions_of(direction)[i]; }
  void clip(float* x, int64_t n) const;
};

// Runs all steps of direction d: `step` computes the new h and cell of the active sequences from gates, h and cell.
void run_recurrent_direction(const Call& c, int64_t d, float* memory, void (*step)(const BatchStep&));

// Runs all directions.
void run_recurrent_simd(const Call& c, void (*step)(const BatchStep&));

}  // namespace sparkpilot
