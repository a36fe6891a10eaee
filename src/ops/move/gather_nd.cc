// GatherElements and GatherND: select elements and slices by index tuples.
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/gather_candidates.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::gather_nd_ops {
namespace {

Acceptance accepts(const Problem& p) { return bits(p.inputs[0].dtype) >= 8; }

// --- GatherElements: y[i, j, k] = x[i, index[i, j, k], k] for axis 1
void infer_elements(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  expect_index_dtype(c, 1);
  const int axis = normalize_axis(c.attrs.integer("axis", 0), data.rank());
  if (indices.rank() != data.rank()) fail("indices have rank {}, the data {}", indices.rank(), data.rank());
  for (int i = 0; i < data.rank(); ++i) {
    if (i != axis && indices[i] > data[i])
      fail("indices of shape {} do not fit the data's {}", indices.str(), data.str());
  }
  c.output(0, c.dtype(0), indices);
}

template <typename T>
void gather_elements(const Call& c) {
  const Shape &data = c.inputs[0].shape, &shape = c.inputs[1].shape;
  const IntOperand indices(c.inputs[1]);
  const int last = shape.rank() - 1, axis = normalize_axis(c.attrs().integer("axis", 0), data.rank());
  const auto strides = data.strides();
  const int64_t width = shape[last], size = data[axis], step = strides[static_cast<size_t>(axis)];
  const T* from = c.inputs[0].as<T>();
  T* to = c.outputs[0].as<T>();
  parallel_for(shape.elements(0, last), 1 + (1 << 12) / (width + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t origin = 0, rest = row;
      for (int i = last - 1; i >= 0; --i) {
        if (i != axis) origin += rest % shape[i] * strides[static_cast<size_t>(i)];
        rest /= shape[i];
      }
      const int64_t along = axis == last ? 0 : 1;
      for (int64_t i = 0; i < width; ++i) {
        to[row * width + i] = from[origin + i * along + checked_index(indices[row * width + i], size) * step];
      }
    }
  });
}

std::vector<OpCase> elements_cases() {
  const auto picks = [](const Shape& shape, double size) {
    return CaseInput::range(shape, -size, size - 1, DType::i64);
  };
  return {{"rows", {CaseInput::of({5, 7}), picks({3, 7}, 5)}, {}},
          {"columns", {CaseInput::of({5, 7}, DType::f16), picks({5, 9}, 7)}, {{"axis", int64_t{1}}}},
          {"middle", {CaseInput::of({3, 4, 5}), picks({2, 6, 4}, 4)}, {{"axis", int64_t{-2}}}},
          {"bytes", {CaseInput::range({9}, 0, 1, DType::boolean), picks({4}, 9)}, {}}};
}

// --- GatherND: y[batch, ..., :] = x[batch, index..., :]
void infer_nd(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  expect_index_dtype(c, 1);
  if (data.rank() == 0 || indices.rank() == 0)
    fail("data {} and indices {} need a dimension", data.str(), indices.str());
  const int64_t batch = c.attrs.integer("batch_dims", 0);
  const int tuples = indices.rank() - 1;
  if (batch < 0 || batch > tuples || batch >= data.rank()) {
    fail("batch_dims is {}, data are {} and indices {}", batch, data.str(), indices.str());
  }
  const int64_t depth = indices[tuples];
  if (depth < 1 || depth > data.rank() - batch)
    fail("indices of {} axes, the data have {} left", depth, data.rank() - batch);
  for (int i = 0; i < batch; ++i) {
    if (data[i] != indices[i]) fail("batch dimension {} is {} in the data, {} in the indices", i, data[i], indices[i]);
  }
  std::vector<int64_t> dims(indices.begin(), indices.begin() + tuples);
  dims.insert(dims.end(), data.begin() + batch + depth, data.end());
  c.output(0, c.dtype(0), Shape(std::span<const int64_t>(dims)));
}

void run_nd(const Call& c) {
  const Shape &data = c.inputs[0].shape, &shape = c.inputs[1].shape;
  const IntOperand indices(c.inputs[1]);
  const int batch = static_cast<int>(c.attrs().integer("batch_dims", 0)), tuples = shape.rank() - 1;
  const int depth = static_cast<int>(shape[tuples]);
  const auto strides = data.strides();
  const int64_t per_batch = shape.elements(batch, tuples), block = data.elements(batch, data.rank());
  const int64_t width = bits(c.inputs[0].dtype) / 8, bytes = data.elements(batch + depth, data.rank()) * width;
  const auto* from = c.inputs[0].as<std::byte>();
  auto* to = c.outputs[0].as<std::byte>();
  parallel_for(shape.elements(0, tuples), 1 + (1 << 14) / (bytes + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t at = i / per_batch * block;
      for (int d = 0; d < depth; ++d) {
        at += checked_index(indices[i * depth + d], data[batch + d]) * strides[static_cast<size_t>(batch + d)];
      }
      std::memcpy(to + i * bytes, from + at * width, static_cast<size_t>(bytes));
    }
  });
}

std::vector<OpCase> nd_cases() {
  const auto picks = [](const Shape& shape, double size) {
    return CaseInput::range(shape, -size, size - 1, DType::i64);
  };
  return {{"elements", {CaseInput::of({3, 4}), picks({5, 2}, 3)}, {}},
          {"rows", {CaseInput::of({3, 4, 5}), picks({2, 3, 1}, 3)}, {}},
          {"batched", {CaseInput::of({2, 3, 5}, DType::f16), picks({2, 4, 1}, 3)}, {{"batch_dims", int64_t{1}}}},
          {"one_tuple", {CaseInput::range({4, 4}, -9, 9, DType::i8), picks({2}, 4)}, {}}};
}

// Elements that were picked more than once add up.
std::vector<ValueId> gradient_of_elements(GradContext& c) {
  const Term x(c.b, c.in(0));
  return {c.b.add("ScatterElements", {zeros(c.b, x.dtype(), x.shape()), c.in(1), c.out_grads[0]},
                  {{"axis", c.node.attrs.integer("axis", 0)}, {"reduction", std::string("add")}})};
}

// ScatterND has no axes of a batch: their coordinates are put before the tuples.
std::vector<ValueId> gradient_of_nd(GradContext& c) {
  const Term x(c.b, c.in(0));
  const Shape picks = c.b.shape(c.in(1));
  const auto batch = static_cast<int>(c.node.attrs.integer("batch_dims", 0));
  ValueId tuples = c.in(1);
  if (batch > 0) {
    const int64_t rows = picks.elements(0, picks.rank() - 1), inner = picks.elements(batch, picks.rank() - 1);
    Tensor at = Tensor::zeros(DType::i64, picks.with(picks.rank() - 1, batch));
    for (int64_t row = 0; row < rows; ++row) {
      int64_t rest = row / inner;
      for (int axis = batch - 1; axis >= 0; --axis) {
        at.data<int64_t>()[static_cast<size_t>(row * batch + axis)] = rest % picks[axis];
        rest /= picks[axis];
      }
    }
    const ValueId wide = c.b.add("Cast", {tuples}, {{"to", onnx_code(DType::i64)}});
    tuples = c.b.add("Concat", {c.b.constant(std::move(at)), wide}, {{"axis", int64_t{-1}}});
  }
  return {c.b.add("ScatterND", {zeros(c.b, x.dtype(), x.shape()), tuples, c.out_grads[0]},
                  {{"reduction", std::string("add")}})};
}

constexpr Kernel kElements[] = {{.name = "reference", .accepts = accepts, .run = [](const Call& c) {
                                   dispatch_size(c.inputs[0].dtype, [&]<typename T>() { gather_elements<T>(c); });
                                 }}};
constexpr Kernel kNd[] = {{.name = "reference", .accepts = accepts, .run = run_nd}};
constexpr AttrSpec kElementsAttrs[] = {{"axis", AttrType::integer}};
constexpr AttrSpec kNdAttrs[] = {{"batch_dims", AttrType::integer}};

const OpDef kOps[] = {
    {.name = "GatherElements",
     .doc = "Elements picked by index along an axis, an index for each. One out of range is as in Gather.",
     .since = 11,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kElementsAttrs,
     .infer = infer_elements,
     .cpu = kElements,
     .cuda = cuda::kGatherElements,
     .grad = gradient_of_elements,
     .cost = no_flops,
     .cases = elements_cases},
    {.name = "GatherND",
     .doc = "Slices picked by index tuples.",
     .since = 11,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kNdAttrs,
     .infer = infer_nd,
     .cpu = kNd,
     .grad = gradient_of_nd,
     .cost = no_flops,
     .cases = nd_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::gather_nd_ops
