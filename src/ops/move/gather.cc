// Gather: selects rows of a tensor by index along one axis.
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/gather_candidates.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::gather_ops {
namespace {

void infer(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  expect_index_dtype(c, 1);
  const int axis = normalize_axis(c.attrs.integer("axis", 0), data.rank());
  std::vector<int64_t> dims(data.begin(), data.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), data.begin() + axis + 1, data.end());
  c.output(0, c.dtype(0), Shape(std::span<const int64_t>(dims)));
}

struct Rows {
  int64_t outer, size, picks, inner;
};

Rows rows(const Call& c) {
  const Shape& data = c.inputs[0].shape;
  const int axis = normalize_axis(c.attrs().integer("axis", 0), data.rank());
  return {data.elements(0, axis), data[axis], c.inputs[1].elements(), data.elements(axis + 1, data.rank())};
}

// Rows of one element.
template <typename T>
void pick_elements(const Rows& r, const IntOperand& indices, const T* from, T* to) {
  parallel_for(r.outer * r.picks, 1 << 13, [&](int64_t begin, int64_t end) {
    int64_t block = begin / r.picks, pick = begin % r.picks;
    for (int64_t i = begin; i < end; ++i) {
      to[i] = from[block * r.size + checked_index(indices[pick], r.size)];
      if (++pick == r.picks) {
        pick = 0;
        ++block;
      }
    }
  });
}

void run(const Call& c) {
  const Rows r = rows(c);
  const DType dtype = c.inputs[0].dtype;
  const IntOperand indices(c.inputs[1]);
  const auto from_row = [&](int64_t i) {
    return (i / r.picks * r.size + checked_index(indices[i % r.picks], r.size)) * r.inner;
  };
  if (bits(dtype) < 8) {  // rows that do not begin at a whole byte
    CopyLoops loops;
    loops.add(r.inner, 1, 1);
    for (int64_t i = 0; i < r.outer * r.picks; ++i) {
      copy_strided(dtype, loops, c.inputs[0].data, from_row(i), c.outputs[0].data, i * r.inner);
    }
    return;
  }
  if (r.inner == 1) {
    dispatch_size(dtype, [&]<typename T>() { pick_elements(r, indices, c.inputs[0].as<T>(), c.outputs[0].as<T>()); });
    return;
  }
  const int64_t width = bits(dtype) / 8, bytes = r.inner * width;
  const auto* from = c.inputs[0].as<std::byte>();
  auto* to = c.outputs[0].as<std::byte>();
  parallel_for(r.outer * r.picks, 1 + (1 << 15) / (bytes + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * bytes, from + from_row(i) * width, static_cast<size_t>(bytes));
    }
  });
}

std::vector<OpCase> cases() {
  const auto picks = [](const Shape& shape, double size) {
    return CaseInput::range(shape, -size, size - 1, DType::i64);
  };
  return {{"rows", {CaseInput::of({7, 5}), picks({2, 3}, 7)}, {}},
          {"columns", {CaseInput::of({3, 9}), picks({4}, 9)}, {{"axis", int64_t{-1}}}},
          {"middle", {CaseInput::of({2, 5, 3}, DType::f16), picks({3}, 5)}, {{"axis", int64_t{1}}}},
          {"scalar", {CaseInput::of({4, 3}), CaseInput::value(Tensor::scalar<int32_t>(-1))}, {}},
          {"bytes", {CaseInput::range({9}, 0, 1, DType::boolean), picks({30}, 9)}, {}},
          {"packed", {CaseInput::range({5, 3}, 0, 15, DType::u4), picks({4}, 5)}, {}},
          {"none", {CaseInput::of({4, 3}), picks({0}, 4)}, {}}};
}

// Axis map: the axes of the indices replace the data's axis.
AxisSource axes(const Problem& p, int, int axis, size_t input) {
  const int picked = normalize_axis(p.attrs().integer("axis", 0), p.inputs[0].shape.rank());
  const int indices = p.inputs[1].shape.rank();
  if (axis >= picked && axis < picked + indices) return input == 1 ? same_axis(axis - picked) : whole_input();
  if (input == 1) return whole_input();
  return same_axis(axis < picked ? axis : axis - indices + 1);
}

// Rows that were picked more than once add up. With the axis first: zeros, to which the rows are added.
std::vector<ValueId> gradient(GradContext& c) {
  const ValueId data = c.node.inputs[0], indices = c.node.inputs[1];
  const Shape from = c.b.shape(data), picked = c.b.shape(indices);
  const int axis = normalize_axis(c.node.attrs.integer("axis", 0), from.rank());
  // The output has the dimensions before the axis, those of the indices, those after it.
  std::vector<int64_t> to_front, back(static_cast<size_t>(from.rank())), zeros{from[axis]}, as_rows;
  for (int i = 0; i < picked.rank(); ++i) to_front.push_back(axis + i);
  for (int i = 0; i < axis; ++i) to_front.push_back(i);
  for (int i = axis + 1; i < from.rank(); ++i) to_front.push_back(picked.rank() - 1 + i);
  for (int i = 0; i < from.rank(); ++i) {
    back[static_cast<size_t>(i)] = i < axis ? i + 1 : i == axis ? 0 : i;
    if (i != axis) zeros.push_back(from[i]);
  }
  as_rows.assign(picked.dims().begin(), picked.dims().end());
  as_rows.push_back(1);
  ValueId rows = c.out_grads[0];
  if (axis > 0) rows = c.b.add("Transpose", {rows}, {{"perm", to_front}});
  const ValueId none = c.b.constant(Tensor::zeros(c.b.dtype(data), Shape(zeros)));
  ValueId out = c.b.add("ScatterND", {none, c.b.add("Reshape", {indices, c.b.ints(as_rows)}), rows},
                        {{"reduction", std::string("add")}});
  if (axis > 0) out = c.b.add("Transpose", {out}, {{"perm", back}});
  return {out};
}

constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};
constexpr AttrSpec kAttrs[] = {{"axis", AttrType::integer}};

const OpDef kOps[] = {{
    .name = "Gather",
    .doc = "Rows picked by index along an axis. One out of range fails, or picks zeros on a GPU.",
    .since = 1,
    .inputs = {2, 2},
    .outputs = {1, 1},
    .attributes = kAttrs,
    .traits = {.picks = true, .finite = true},
    .infer = infer,
    .axes = axes,
    .cpu = kCpu,
    .cuda = cuda::kGather,
    .grad = gradient,
    .cost = no_flops,
    .cases = cases,
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::gather_ops
