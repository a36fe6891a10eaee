// Small ops that move parts of a tensor: ReverseSequence, Trilu, CenterCropPad.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::rearrange_ops {
namespace {

Acceptance accepts(const Problem& p) { return bits(p.inputs[0].dtype) >= 8; }

// --- ReverseSequence
void infer_reverse(InferContext& c) {
  const Shape& in = c.shape(0);
  const int64_t batch = c.attrs.integer("batch_axis", 1), time = c.attrs.integer("time_axis", 0);
  if (in.rank() < 2) fail("input has shape {}, expected two axes or more", in.str());
  if (batch < 0 || batch > 1 || time != 1 - batch)
    fail("batch_axis is {} and time_axis {}, expected 0 and 1", batch, time);
  expect_index_dtype(c, 1);
  const Shape expected{in[static_cast<int>(batch)]};
  if (!(c.shape(1) == expected)) fail("sequence_lens have shape {}, expected {}", c.shape(1).str(), expected.str());
  c.output(0, c.dtype(0), in);
}

void run_reverse(const Call& c) {
  const ConstView& in = c.inputs[0];
  const IntOperand lengths(c.inputs[1]);
  const bool time_first = c.attrs().integer("time_axis", 0) == 0;
  const int64_t rows = in.shape[0], columns = in.shape[1], times = time_first ? rows : columns;
  const int64_t bytes = in.shape.elements(2, in.shape.rank()) * bits(in.dtype) / 8;
  parallel_for(rows * columns, 1 + (1 << 14) / (bytes + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t time = time_first ? i / columns : i % columns,
                    length = lengths[time_first ? i % columns : i / columns];
      if (length < 0 || length > times) fail("sequence length {} is outside [0,{}]", length, times);
      const int64_t shift = time < length ? length - 1 - 2 * time : 0;
      std::memcpy(c.outputs[0].as<std::byte>() + i * bytes,
                  in.as<std::byte>() + (i + shift * (time_first ? columns : 1)) * bytes, static_cast<size_t>(bytes));
    }
  });
}

std::vector<OpCase> reverse_cases() {
  const auto lengths = CaseInput::value(Tensor::ints({4, 0, 1, 3}));
  return {{"time_first", {CaseInput::of({5, 4, 3}), lengths}, {}},
          {"batch_first", {CaseInput::of({4, 4}), lengths}, {{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}}},
          {"f16", {CaseInput::of({4, 4, 2, 3}, DType::f16), lengths}, {}}};
}

// --- Trilu: the upper or lower triangle of matrices
void infer_trilu(InferContext& c) {
  if (c.rank(0) < 2) fail("input has shape {}, expected matrices", c.shape(0).str());
  if (c.has(1)) {
    expect_index_dtype(c, 1);
    if (c.shape(1).elements() != 1) fail("k has shape {}, expected one element", c.shape(1).str());
  }
  c.output(0, c.dtype(0), c.shape(0));
}

void run_trilu(const Call& c) {
  const ConstView& in = c.inputs[0];
  const int64_t rows = in.shape[in.shape.rank() - 2], columns = in.shape[in.shape.rank() - 1];
  const int64_t k = c.has(1) ? std::clamp(IntOperand(c.inputs[1])[0], -rows, columns) : 0;
  const bool upper = c.attrs().integer("upper", 1) != 0;
  const int64_t width = bits(in.dtype) / 8;
  if (in.elements() == 0) return;
  parallel_for(in.elements() / columns, 1 + (1 << 14) / (columns * width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // Row r keeps columns [r + k, columns) above, [0, r + k] below.
      const int64_t split = std::clamp<int64_t>(i % rows + k + (upper ? 0 : 1), 0, columns);
      const int64_t first = upper ? split : 0, last = upper ? columns : split;
      const auto* x = in.as<std::byte>() + i * columns * width;
      auto* y = c.outputs[0].as<std::byte>() + i * columns * width;
      std::memset(y, 0, static_cast<size_t>(columns * width));
      std::memcpy(y + first * width, x + first * width, static_cast<size_t>((last - first) * width));
    }
  });
}

std::vector<OpCase> trilu_cases() {
  const auto k = [](int64_t at) { return CaseInput::value(Tensor::scalar(at)); };
  return {{"upper", {CaseInput::of({2, 5, 4})}, {}},
          {"lower", {CaseInput::of({4, 7}), k(2)}, {{"upper", int64_t{0}}}},
          {"below", {CaseInput::range({6, 4}, 1, 9, DType::i64), k(-2)}, {}},
          {"far", {CaseInput::of({3, 3}, DType::f16), k(INT64_MIN)}, {{"upper", int64_t{0}}}}};
}

// --- CenterCropPad
void infer_center(InferContext& c) {
  Shape out = c.shape(0);
  const std::vector<int64_t> sizes = list_operand(c, 1);
  std::vector<int> axes;
  if (c.attrs.has("axes")) axes = distinct_axes(c.attrs.integers("axes"), out.rank());
  else {
    for (int i = 0; i < out.rank(); ++i) axes.push_back(i);
  }
  if (sizes.size() != axes.size()) fail("{} sizes given for {} axes", sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) out.set(axes[i], sizes[i]);
  c.output(0, c.dtype(0), Shape(out.dims()));
}

void run_center(const Call& c) {
  const Shape &in = c.inputs[0].shape, &out = c.outputs[0].shape;
  const auto from = in.strides(), to = out.strides();
  std::memset(c.outputs[0].data, 0, static_cast<size_t>(c.outputs[0].bytes()));
  CopyLoops loops;
  int64_t origin = 0, target = 0;
  for (int i = 0; i < in.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t cropped = in[i] - out[i];
    if (cropped > 0) origin += cropped / 2 * from[at];
    else target += -cropped / 2 * to[at];
    loops.add(std::min(in[i], out[i]), from[at], to[at]);
  }
  copy_strided(c.inputs[0].dtype, loops, c.inputs[0].data, origin, c.outputs[0].data, target);
}

std::vector<OpCase> center_cases() {
  const auto ints = [](std::initializer_list<int64_t> v) { return CaseInput::value(Tensor::ints(v)); };
  return {{"crop", {CaseInput::of({9, 8}), ints({4, 5})}, {}},
          {"pad", {CaseInput::of({3, 4}), ints({8, 9})}, {}},
          {"both", {CaseInput::of({5, 3, 6}), ints({2, 8})}, {{"axes", std::vector<int64_t>{-1, 1}}}},
          {"packed", {CaseInput::range({5}, 0, 15, DType::u4), ints({3})}, {}}};
}

// The centre stays where it is, so the way back is the same.
std::vector<ValueId> gradient_of_center(GradContext& c) {
  const Shape from = c.b.shape(c.in(0));
  std::vector<int64_t> sizes(from.begin(), from.end());
  if (c.node.attrs.has("axes")) {
    sizes.clear();
    for (const int64_t axis : c.node.attrs.integers("axes")) sizes.push_back(from[normalize_axis(axis, from.rank())]);
  }
  return {c.b.add("CenterCropPad", {c.out_grads[0], c.b.ints(sizes)}, c.node.attrs)};
}

constexpr Kernel kReverse[] = {{.name = "reference", .accepts = accepts, .run = run_reverse}};
constexpr Kernel kTrilu[] = {{.name = "reference", .accepts = accepts, .run = run_trilu}};
constexpr Kernel kCenter[] = {{.name = "reference", .run = run_center}};
constexpr AttrSpec kReverseAttrs[] = {{"batch_axis", AttrType::integer}, {"time_axis", AttrType::integer}};
constexpr AttrSpec kTriluAttrs[] = {{"upper", AttrType::integer}};
constexpr AttrSpec kCenterAttrs[] = {{"axes", AttrType::integers}};

const OpDef kOps[] = {
    {.name = "ReverseSequence",
     .doc = "The first elements of each sequence of a batch, backwards.",
     .since = 10,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kReverseAttrs,
     .infer = infer_reverse,
     .cpu = kReverse,
     .grad =
         [](GradContext& c) {
           return std::vector<ValueId>{c.b.add("ReverseSequence", {c.out_grads[0], c.in(1)}, c.node.attrs)};
         },
     .cost = no_flops,
     .cases = reverse_cases},
    {.name = "Trilu",
     .doc = "The upper or lower triangle of matrices.",
     .since = 14,
     .inputs = {1, 2},
     .outputs = {1, 1},
     .attributes = kTriluAttrs,
     .infer = infer_trilu,
     .cpu = kTrilu,
     .grad =
         [](GradContext& c) {
           return std::vector<ValueId>{c.b.add("Trilu", {c.out_grads[0], c.in(1)}, c.node.attrs)};
         },
     .cost = no_flops,
     .cases = trilu_cases},
    {.name = "CenterCropPad",
     .doc = "Cropped or padded with zeros around the centre.",
     .since = 18,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kCenterAttrs,
     .infer = infer_center,
     .cpu = kCenter,
     .grad = gradient_of_center,
     .cost = no_flops,
     .cases = center_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::rearrange_ops
