// The vector kernels of LSTM, GRU and RNN: f32 with constant weights, packed once. The inputs' part of the gates is
// computed for a chunk of steps at once, the recurrent part step by step, for the whole batch.
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
    PackedMatrix r, r_last;          // r_last: the last gate's rows where a cell wants them apart, else empty
    std::vector<float> bias;         // W's and R's added
    std::vector<float> last_r_bias;  // of the last gate alone, where it is apart
  };
  Recurrent r;
  std::vector<Direction> directions;
  int64_t chunk = 1;             // steps
  int64_t direction_floats = 0;  // scratch
};

// How the recurrent weights of the last gate are kept: with the others, or apart (GRU).
enum class LastGate { joined, own_bias, own_product };

// f32 throughout, and W, R and B constant.
Verdict accepts_recurrent_simd(const Problem& p);
std::unique_ptr<RecurrentSimd> prepare_recurrent_simd(const Problem& p, const RecurrentKind& kind, LastGate last);

// One step of the whole batch. Row b of `gates` and `scratch` has r.rows() values, of `h` and `cell` r.hidden.
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

// Runs all steps of direction d: `step` turns gates, h and cell into the new h and cell of the active sequences.
void run_recurrent_direction(const Call& c, int64_t d, float* memory, void (*step)(const BatchStep&));

// Runs all directions.
void run_recurrent_simd(const Call& c, void (*step)(const BatchStep&));

}  // namespace sparkpilot
