// BatchNormalization and MeanVarianceNormalization, expanded to simpler nodes.
//
// In inference BatchNormalization is one multiplication and one addition for each channel:
//   y = x * a + (bias - mean * a),   a = scale / sqrt(variance + epsilon),
// where a and the sum become constants by folding, so that passes can move them into a convolution. In training the
// mean and the variance are those of the batch, and the running ones are outputs.
#include <algorithm>
#include <numeric>

#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::batch_norm_ops {
namespace {

// f16 and bf16 are computed in f32.
DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

ValueId cast(Builder& b, ValueId v, DType dtype) {
  return b.dtype(v) == dtype ? v : b.add("Cast", {v}, {{"to", onnx_code(dtype)}});
}

struct BatchNorm {
  ExpandContext& e;
  Builder& b = e.b;
  Shape x;                                    // of the data
  DType dtype, compute;                       // of the data, of the arithmetic
  Shape column;                               // a parameter's shape for broadcasting against the data
  bool spatial = true;                        // false (before opset 9): one parameter for each element of an image
  std::vector<int64_t> reduced;               // all axes except the channels
  ValueId data, scale, bias, mean, variance;  // in `compute`, parameters shaped as `column`

  explicit BatchNorm(ExpandContext& context) : e(context) {
    x = b.shape(e.in(0));
    dtype = b.dtype(e.in(0));
    if (!contains(FloatTypes{}, dtype)) fail("input 0 is {}, expected a float type", name(dtype));
    if (x.rank() < 1) fail("input is a scalar, expected at least a vector");
    compute = compute_dtype(dtype);
    spatial = e.node.attrs.integer("spatial", 1) != 0;
    set_column();
    data = cast(b, e.in(0), compute);
    scale = parameter(1);
    bias = parameter(2);
    mean = parameter(3);
    variance = parameter(4);
  }

  // A one-dimensional x is a batch of one channel.
  void set_column() {
    std::vector<int64_t> dims(static_cast<size_t>(x.rank()), 1);
    for (int i = 1; i < x.rank(); ++i) {
      if (i == 1 || !spatial) dims[static_cast<size_t>(i)] = x[i];
    }
    column = Shape(dims);
    for (int64_t i = 0; i < x.rank(); ++i) {
      if (column[static_cast<int>(i)] == 1 && (i != 1 || x.rank() == 1)) reduced.push_back(i);
    }
    if (!spatial) reduced = {0};
  }

  ValueId parameter(size_t input) {
    const Shape& shape = b.shape(e.in(input));
    if (shape.elements() != column.elements()) {
      fail("input {} has shape {}, expected {} elements for data of {}", input, shape.str(), column.elements(),
           x.str());
    }
    return Term(b, cast(b, e.in(input), compute)).as(column);
  }

  ValueId inverse_deviation(ValueId v) {
    const ValueId epsilon = b.scalar(compute, e.node.attrs.real("epsilon", 1e-5f));
    return b.add("Reciprocal", {b.add("Sqrt", {b.add("Add", {v, epsilon})})});
  }

  ValueId as_parameter(ValueId v, size_t like) {
    return cast(b, Term(b, v).as(b.shape(e.in(like))), b.dtype(e.in(like)));
  }

  ValueId running(ValueId old, ValueId now, size_t like) {
    const double momentum = e.node.attrs.real("momentum", 0.9f);
    return as_parameter(b.add("Add", {b.add("Mul", {old, b.scalar(compute, momentum)}),
                                      b.add("Mul", {now, b.scalar(compute, 1 - momentum)})}),
                        like);
  }
};

std::vector<ValueId> inference(ExpandContext& e) {
  BatchNorm n(e);
  const ValueId factor = n.b.add("Mul", {n.scale, n.inverse_deviation(n.variance)});
  const ValueId shift = n.b.add("Sub", {n.bias, n.b.add("Mul", {n.mean, factor})});
  const ValueId y = n.b.add("Add", {n.b.add("Mul", {n.data, factor}), shift});
  return {cast(n.b, y, n.dtype)};
}

std::vector<ValueId> training(ExpandContext& e) {
  BatchNorm n(e);
  if (n.x.elements() == 0) fail("an empty batch {} has no statistics", n.x.str());
  const ValueId axes = n.b.ints(n.reduced);
  const Attributes keep{{"keepdims", int64_t{1}}};
  const ValueId mean = n.b.add("ReduceMean", {n.data, axes}, keep);
  const ValueId distance = n.b.add("Sub", {n.data, mean});
  const ValueId variance = n.b.add("ReduceMean", {n.b.add("Mul", {distance, distance}), axes}, keep);
  const ValueId factor = n.b.add("Mul", {n.scale, n.inverse_deviation(variance)});
  std::vector<ValueId> out{cast(n.b, n.b.add("Add", {n.b.add("Mul", {distance, factor}), n.bias}), n.dtype)};
  const auto wants = [&](size_t i) { return i < e.node.outputs.size(); };
  if (wants(1)) out.push_back(n.running(n.mean, mean, 3));
  if (wants(2)) out.push_back(n.running(n.variance, variance, 4));
  if (wants(3)) out.push_back(n.as_parameter(mean, 3));
  if (wants(4)) out.push_back(n.as_parameter(variance, 4));
  return out;
}

std::vector<ValueId> expand_batch(ExpandContext& e) {
  const bool train = e.node.attrs.integer("training_mode", 0) != 0;
  if (!train && e.node.outputs.size() > 1) fail("running statistics are asked for with training_mode = 0");
  return train ? training(e) : inference(e);
}

// Until opset 13 the number of outputs determines the mode.
std::vector<ValueId> expand_old_batch(ExpandContext& e) {
  return e.node.outputs.size() > 1 && e.node.attrs.integer("is_test", 0) == 0 ? training(e) : inference(e);
}

std::vector<ValueId> expand_mean_variance(ExpandContext& e) {
  Builder& b = e.b;
  const DType dtype = b.dtype(e.in(0));
  if (!contains(FloatTypes{}, dtype)) fail("input 0 is {}, expected a float type", name(dtype));
  const DType compute = compute_dtype(dtype);
  const ValueId axes = b.ints(e.node.attrs.integers("axes", {0, 2, 3}));
  const ValueId x = cast(b, e.in(0), compute);
  const ValueId distance = b.add("Sub", {x, b.add("ReduceMean", {x, axes})});
  const ValueId variance = b.add("ReduceMean", {b.add("Mul", {distance, distance}), axes});
  const ValueId deviation = b.add("Add", {b.add("Sqrt", {variance}), b.scalar(compute, 1e-9)});
  return {cast(b, b.add("Div", {distance, deviation}), dtype)};
}

std::vector<OpCase> batch_cases() {
  const auto c = CaseInput::of({5}), positive = CaseInput::range({5}, 0.5, 2), none = CaseInput::of({0});
  const Attributes training{{"training_mode", int64_t{1}}, {"momentum", 0.7f}};
  return {{"inference", {CaseInput::of({3, 5, 4, 7}), c, c, c, positive}, {}},
          {"no channels", {CaseInput::of({2, 0, 3}), none, none, none, none}, {}},
          {"training", {CaseInput::of({3, 5, 4, 7}), c, c, c, positive}, training, 3},
          {"matrix", {CaseInput::of({7, 5}), c, c, c, positive}, training, 1}};
}
std::vector<OpCase> mean_variance_cases() {
  return {{"image", {CaseInput::of({2, 3, 5, 4})}, {}},
          {"axes", {CaseInput::of({3, 5, 7})}, {{"axes", std::vector<int64_t>{1, 2}}}}};
}

constexpr AttrSpec kBatchAttrs[] = {
    {"epsilon", AttrType::real}, {"momentum", AttrType::real}, {"training_mode", AttrType::integer}};
constexpr AttrSpec kOldBatchAttrs[] = {{"epsilon", AttrType::real},
                                       {"momentum", AttrType::real},
                                       {"spatial", AttrType::integer},
                                       {"is_test", AttrType::integer},
                                       {"consumed_inputs", AttrType::integers}};
constexpr AttrSpec kMeanVarianceAttrs[] = {{"axes", AttrType::integers}};

const OpDef kOps[] = {
    {.name = "BatchNormalization",
     .doc = "Scale and shift of each channel by the statistics given, or by the batch's own in training.",
     .since = 14,
     .inputs = {5, 5},
     .outputs = {1, 3},
     .attributes = kBatchAttrs,
     .expand = expand_batch,
     .cases = batch_cases},
    {.name = "BatchNormalization",
     .doc = "The mode follows from the number of outputs.",
     .since = 1,
     .inputs = {5, 5},
     .outputs = {1, 5},
     .attributes = kOldBatchAttrs,
     .expand = expand_old_batch},
    {.name = "MeanVarianceNormalization",
     .doc = "Zero mean and unit variance over the axes given.",
     .since = 9,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kMeanVarianceAttrs,
     .expand = expand_mean_variance,
     .cases = mean_variance_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::batch_norm_ops
