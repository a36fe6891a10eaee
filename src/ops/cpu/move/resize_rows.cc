#include "ops/cpu/move/resize_rows.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/cpu/move/resample_rows.h"
#include "ops/cpu/move/resize_tables.h"

namespace sparkpilot {
namespace {

// Data as outer x high x wide x inner; each output row combines rows of the input, then gathers within the result.
struct RowsState final : KernelState {
  ResizeAxis high, wide;
  std::vector<float> high_weight, wide_weight;  // [position][tap] and [tap][position]
  int64_t outer = 1, inner = 1, tasks = 1;
};

// Finds the two resized axes; false if others are resized too.
bool find_axes(const std::vector<ResizeExtent>& extents, size_t& high, size_t& wide) {
  size_t first = extents.size(), last = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].in == extents[i].out && extents[i].scale == 1) continue;
    first = std::min(first, i);
    last = i;
  }
  if (first == extents.size() || last > first + 1) return false;
  if (last == first) {  // only one: include an adjacent axis unchanged
    if (extents.size() < 2) return false;
    if (last == 0) last = 1;
    else first = last - 1;
  }
  high = first;
  wide = last;
  return true;
}

}  // namespace

Acceptance accepts_resize_rows(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (!resize_operands_constant(p)) return "sizes or scales are not constant";
  if (p.outputs[0].shape.elements() == 0) return "empty output";
  if (ResizeMode(p.attrs()).coordinates == ResizeMode::tf_crop_and_resize) return "tf_crop_and_resize";
  if (p.inputs[0].shape.elements() >= INT32_MAX) return "more than 2^31 elements";
  size_t high = 0, wide = 0;
  if (!find_axes(resize_extents(p.inputs[0].shape, p.attrs(), resize_operands(p)), high, wide)) {
    return "more than two axes side by side change";
  }
  return true;
}

namespace {

// Writes an unchanged axis as a table.
void make_explicit(ResizeAxis& axis) {
  if (!axis.identity) return;
  axis.identity = false;
  for (int64_t i = 0; i < axis.out; ++i) axis.index.push_back(static_cast<int32_t>(i));
}

}  // namespace

std::unique_ptr<KernelState> prepare_resize_rows(const Problem& p) {
  auto state = std::make_unique<RowsState>();
  const Shape& x = p.inputs[0].shape;
  const ResizeMode mode(p.attrs());
  const std::vector<ResizeExtent> extents = resize_extents(x, p.attrs(), resize_operands(p));
  size_t high = 0, wide = 0;
  find_axes(extents, high, wide);
  state->high = resize_axis(extents[high], mode);
  state->wide = resize_axis(extents[wide], mode);
  make_explicit(state->high);
  make_explicit(state->wide);
  const auto &h = state->high, &w = state->wide;
  for (int64_t i = 0; i < h.out && !h.weight.empty(); ++i) {
    for (int64_t tap = 0; tap < h.taps; ++tap) {
      state->high_weight.push_back(static_cast<float>(h.weight[static_cast<size_t>(tap * h.out + i)]));
    }
  }
  state->wide_weight.assign(w.weight.begin(), w.weight.end());
  state->outer = x.elements(0, static_cast<int>(high));
  state->inner = x.elements(static_cast<int>(wide) + 1, x.rank());
  state->tasks = std::min<int64_t>(64, state->outer * h.out);
  // Per task: the combined row, and pointers to the rows or pixels that it is made of.
  state->workspace = state->tasks * (w.in * state->inner * static_cast<int64_t>(sizeof(float)) + kAlignment +
                                     (h.taps + w.taps) * static_cast<int64_t>(sizeof(float*) + sizeof(float)));
  return state;
}

namespace {

struct RowScratch {
  const float** pointers;
  float *weights, *row;
};

RowScratch scratch_of(const RowsState& s, std::byte* workspace, int64_t task) {
  std::byte* at = workspace + task * (s.workspace / s.tasks);
  at += -reinterpret_cast<uintptr_t>(at) % kAlignment;
  auto** pointers = reinterpret_cast<const float**>(at);
  auto* weights = reinterpret_cast<float*>(pointers + s.high.taps + s.wide.taps);
  return {pointers, weights, weights + s.high.taps + s.wide.taps};
}

void resample_row(const RowsState& s, const float* image, int64_t position, const RowScratch& scratch, float* out) {
  const int64_t row_size = s.wide.in * s.inner;
  const auto source = [&](int64_t tap) {
    return image + s.high.index[static_cast<size_t>(tap * s.high.out + position)] * row_size;
  };
  const float* row = source(0);
  if (!s.high_weight.empty()) {
    for (int64_t tap = 0; tap < s.high.taps; ++tap) scratch.pointers[tap] = source(tap);
    blend_rows(scratch.pointers, &s.high_weight[static_cast<size_t>(position * s.high.taps)], s.high.taps, scratch.row,
               row_size);
    row = scratch.row;
  }
  const int32_t* index = s.wide.index.data();
  const float* weight = s.wide_weight.empty() ? nullptr : s.wide_weight.data();
  if (s.inner == 1) return gather_row(row, index, weight, s.wide.taps, out, s.wide.out);
  for (int64_t x = 0; x < s.wide.out; ++x) {
    if (!weight) {
      std::memcpy(out + x * s.inner, row + index[x] * s.inner, static_cast<size_t>(s.inner) * sizeof(float));
      continue;
    }
    for (int64_t tap = 0; tap < s.wide.taps; ++tap) {
      scratch.pointers[tap] = row + index[tap * s.wide.out + x] * s.inner;
      scratch.weights[tap] = weight[tap * s.wide.out + x];
    }
    blend_rows(scratch.pointers, scratch.weights, s.wide.taps, out + x * s.inner, s.inner);
  }
}

}  // namespace

void run_resize_rows(const Call& c) {
  const auto& s = c.as<RowsState>();
  const int64_t rows = s.outer * s.high.out, out_size = s.wide.out * s.inner;
  const float* x = c.inputs[0].as<float>();
  float* y = c.outputs[0].as<float>();
  parallel_for(s.tasks, 1 + 8192 / (rows / s.tasks * out_size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const RowScratch scratch = scratch_of(s, c.workspace, task);
      const int64_t first = rows * task / s.tasks, last = rows * (task + 1) / s.tasks;
      for (int64_t row = first; row < last; ++row) {
        const int64_t position = row % s.high.out;
        float* out = y + row * out_size;
        // A repeated row, as in nearest upsampling, is copied.
        const auto at = static_cast<size_t>(position);
        if (s.high_weight.empty() && row > first && position > 0 && s.high.index[at] == s.high.index[at - 1]) {
          std::memcpy(out, out - out_size, static_cast<size_t>(out_size) * sizeof(float));
        } else {
          resample_row(s, x + row / s.high.out * s.high.in * s.wide.in * s.inner, position, scratch, out);
        }
      }
    }
  });
}

}  // namespace sparkpilot
