// MaxUnpool: puts the elements that MaxPool kept back at their indices; zeros elsewhere.
//
// Indices are positions in the smallest image that MaxPool could have read; a larger `output_shape` adds zeros at
// the end of each axis.
#include <cstring>

#include "ops/cpu/conv/window.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::max_unpool_ops {
namespace {

// The image that the indices refer to.
Shape inferred_shape(const Attributes& attrs, const Shape& x) {
  const ImageShape image = image_shape(x, false);
  const auto dims = image.spatial.size();
  const auto kernel = kernel_shape(attrs, static_cast<int>(dims));
  const KernelWindow w = transposed_window(attrs, image.spatial, std::span<const int64_t>(kernel).first(dims));
  return make_image_shape(image.batch, image.channels, w.spatial(w.out), false);
}

void run(const Call& c) {
  const Shape small = inferred_shape(c.attrs(), c.inputs[0].shape);
  const Shape& out = c.outputs[0].shape;
  const auto from = small.strides(), to = out.strides();
  const int64_t* indices = c.inputs[1].as<int64_t>();
  std::memset(c.outputs[0].data, 0, static_cast<size_t>(c.outputs[0].bytes()));
  dispatch_size(c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    for (int64_t i = 0; i < c.inputs[0].elements(); ++i) {
      int64_t index = indices[i], at = 0;
      if (index < 0 || index >= small.elements()) fail("index {} is outside {}", index, small.str());
      for (int axis = 0; axis < small.rank(); ++axis) {
        const auto a = static_cast<size_t>(axis);
        at += index / from[a] * to[a];
        index %= from[a];
      }
      y[at] = x[i];
    }
  });
}

void infer(InferContext& c) {
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  if (c.dtype(1) != DType::i64) fail("indices are {}, expected i64", name(c.dtype(1)));
  if (!(c.shape(1) == c.shape(0))) fail("indices have shape {}, expected {}", c.shape(1).str(), c.shape(0).str());
  const Shape small = inferred_shape(c.attrs, c.shape(0));
  if (!c.has(2)) {
    c.output(0, c.dtype(0), small);
    return;
  }
  const Shape out{std::span<const int64_t>(c.ints(2))};
  bool fits = out.rank() == small.rank() && out[0] == small[0] && out[1] == small[1];
  for (int i = 2; fits && i < out.rank(); ++i) fits = out[i] >= small[i];
  if (!fits) fail("output_shape is {}, expected {} or more in each spatial dimension", out.str(), small.str());
  c.output(0, c.dtype(0), out);
}

// What was put at the indices, read back from where they count.
std::vector<ValueId> gradient(GradContext& c) {
  const Shape x = c.b.shape(c.in(0)), small = inferred_shape(c.node.attrs, x), flat{x.elements()};
  ValueId g = c.out_grads[0];
  if (!(c.b.shape(g) == small)) {
    const std::vector<int64_t> starts(static_cast<size_t>(small.rank()));
    g = c.b.add("Slice", {g, c.b.ints(starts), c.b.ints(small.dims())});
  }
  const Term picked(c.b,
                    c.b.add("GatherElements", {Term(c.b, g).as(Shape{small.elements()}), Term(c.b, c.in(1)).as(flat)}));
  return {picked.as(x)};
}

std::vector<OpCase> cases() {
  using Ints = std::vector<int64_t>;
  const Ints k2{2, 2};
  const CaseInput indices = CaseInput::value(Tensor::of<int64_t>({1, 1, 2, 2}, {5, 7, 13, 15}));
  return {
      {"plain", {CaseInput::of({1, 1, 2, 2}), indices}, {{"kernel_shape", k2}, {"strides", k2}}},
      {"larger",
       {CaseInput::of({1, 1, 2, 2}), indices, CaseInput::value(Tensor::ints({1, 1, 5, 6}))},
       {{"kernel_shape", k2}, {"strides", k2}}},
      {"f16_1d",
       {CaseInput::of({1, 2, 3}, DType::f16), CaseInput::value(Tensor::of<int64_t>({1, 2, 3}, {0, 3, 5, 7, 9, 10}))},
       {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}}};
}

constexpr AttrSpec kAttrs[] = {
    {"kernel_shape", AttrType::integers, true}, {"pads", AttrType::integers}, {"strides", AttrType::integers}};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {{.name = "MaxUnpool",
                       .doc = "The inverse of MaxPool, with zeros where nothing was kept.",
                       .since = 9,
                       .inputs = {2, 3},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .infer = infer,
                       .cpu = kCpu,
                       .grad = gradient,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::max_unpool_ops
