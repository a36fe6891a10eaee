// Ops of ONNX's domain ai.onnx.ml on plain numbers: ArrayFeatureExtractor, Binarizer, LabelEncoder.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::ml_ops {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

// --- ArrayFeatureExtractor: selects columns by index; a one-dimensional input counts as one row
std::vector<ValueId> expand_extractor(ExpandContext& e) {
  const Shape& in = e.b.shape(e.in(0));
  if (in.rank() == 0) fail("ArrayFeatureExtractor: the input is a scalar");
  const ValueId rows = in.rank() == 1 ? e.b.add("Reshape", {e.in(0), e.b.ints({1, in[0]})}) : e.in(0);
  return {e.b.add("Gather", {rows, e.b.add("Reshape", {e.in(1), e.b.ints({-1})})}, {{"axis", int64_t{-1}}})};
}

// --- Binarizer: 1 above the threshold, else 0
std::vector<ValueId> expand_binarizer(ExpandContext& e) {
  const DType dtype = e.b.dtype(e.in(0));
  // An integer is above a fraction if and only if it is above the fraction's floor.
  const float attr = e.node.attrs.real("threshold", 0), threshold = is_integer(dtype) ? std::floor(attr) : attr;
  const ValueId above = e.b.add("Greater", {e.in(0), e.b.scalar(dtype, threshold)});
  return {e.b.add("Cast", {above}, {{"to", onnx_code(dtype)}})};
}

// --- LabelEncoder: looks each element up in a table; of equal keys the last is used
// The list `<prefix>int64s`, `<prefix>floats` or `<prefix>tensor`, whichever is given.
Tensor table(const Attributes& attrs, const std::string& prefix) {
  if (attrs.has(prefix + "strings")) fail("{}strings: string tensors are not supported", prefix);
  if (attrs.has(prefix + "int64s")) return Tensor::ints(attrs.integers(prefix + "int64s"));
  if (attrs.has(prefix + "floats")) {
    const std::vector<float> values = attrs.reals(prefix + "floats");
    return Tensor::of<float>(Shape{static_cast<int64_t>(values.size())}, values);
  }
  const Tensor& tensor = attrs.tensor(prefix + "tensor");
  if (tensor.shape().rank() != 1) fail("{}tensor has shape {}, expected a list", prefix, tensor.shape().str());
  return tensor;
}

Tensor fallback_of(const Attributes& attrs, DType dtype) {
  if (attrs.has("default_tensor")) {
    const Tensor& tensor = attrs.tensor("default_tensor");
    if (tensor.elements() != 1 || tensor.dtype() != dtype) {
      fail("default_tensor is {}{}, expected one {}", name(tensor.dtype()), tensor.shape().str(), name(dtype));
    }
    return tensor;
  }
  Tensor out = Tensor::zeros(dtype, Shape{});
  if (is_float(dtype)) store_element(dtype, out.raw(), 0, static_cast<double>(attrs.real("default_float", -0.0f)));
  else store_element(dtype, out.raw(), 0, static_cast<double>(attrs.integer("default_int64", -1)));
  return out;
}

using KeyTypes = TypeList<float, double, int16_t, int32_t, int64_t>;

void infer_encoder(InferContext& c) {
  const Tensor keys = table(c.attrs, "keys_"), values = table(c.attrs, "values_");
  if (keys.elements() != values.elements()) fail("{} keys and {} values given", keys.elements(), values.elements());
  if (keys.dtype() != c.dtype(0)) fail("keys are {}, the input {}", name(keys.dtype()), name(c.dtype(0)));
  for (const Tensor& list : {keys, values}) {
    if (!contains(KeyTypes{}, list.dtype())) fail("tables of {} are not defined", name(list.dtype()));
  }
  fallback_of(c.attrs, values.dtype());
  c.output(0, values.dtype(), c.shape(0));
}

struct State final : KernelState {
  Tensor keys, values, fallback;
  std::vector<int64_t> order;  // of the keys, ascending
};

// A total order: all NaN are the same key, above all others.
template <typename T>
bool below(T a, T b) {
  if (a != a || b != b) return a == a && b != b;
  return a < b;
}

std::unique_ptr<KernelState> prepare_encoder(const Problem& p) {
  auto state = std::make_unique<State>();
  state->keys = table(p.attrs(), "keys_");
  state->values = table(p.attrs(), "values_");
  state->fallback = fallback_of(p.attrs(), state->values.dtype());
  state->order.resize(static_cast<size_t>(state->keys.elements()));
  std::iota(state->order.begin(), state->order.end(), int64_t{0});
  dispatch(KeyTypes{}, state->keys.dtype(), [&]<typename T>() {
    const T* keys = state->keys.data<T>().data();
    std::stable_sort(state->order.begin(), state->order.end(),
                     [&](int64_t a, int64_t b) { return below(keys[a], keys[b]); });
  });
  return state;
}

void run_encoder(const Call& c) {
  const State& state = c.as<State>();
  dispatch(KeyTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T *x = c.inputs[0].as<T>(), *keys = state.keys.data<T>().data();
    dispatch_size(state.values.dtype(), [&]<typename V>() {
      const V *values = static_cast<const V*>(state.values.raw()), *none = static_cast<const V*>(state.fallback.raw());
      V* y = c.outputs[0].as<V>();
      parallel_for(c.inputs[0].elements(), 1 << 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto after = std::upper_bound(state.order.begin(), state.order.end(), x[i],
                                              [&](T value, int64_t at) { return below(value, keys[at]); });
          const bool found = after != state.order.begin() && !below(keys[after[-1]], x[i]);
          y[i] = found ? values[after[-1]] : *none;
        }
      });
    });
  });
}

std::vector<OpCase> encoder_cases() {
  const auto ints = CaseInput::range({3, 7}, 0, 5, DType::i64);
  return {{"ints",
           {ints},
           {{"keys_int64s", std::vector<int64_t>{4, 1, 4}}, {"values_floats", std::vector<float>{1, 2, 3}}}},
          {"tensors",
           {CaseInput::range({9}, -2, 2, DType::i32)},
           {{"keys_tensor", Tensor::of<int32_t>(Shape{2}, {-1, 2})},
            {"values_tensor", Tensor::of<int16_t>(Shape{2}, {7, 8})},
            {"default_tensor", Tensor::of<int16_t>(Shape{1}, {42})}}},
          {"nan",
           {CaseInput::value(Tensor::of<float>(Shape{3}, {1.0f, NAN, 2.0f}))},
           {{"keys_floats", std::vector<float>{NAN, 2}},
            {"values_int64s", std::vector<int64_t>{5, 6}},
            {"default_int64", int64_t{9}}}}};
}

constexpr Kernel kEncoder[] = {{.name = "reference", .prepare = prepare_encoder, .run = run_encoder}};
constexpr AttrSpec kBinarizerAttrs[] = {{"threshold", AttrType::real}};
constexpr AttrSpec kEncoderAttrs[] = {
    {"keys_int64s", AttrType::integers}, {"keys_floats", AttrType::reals},      {"keys_strings", AttrType::texts},
    {"keys_tensor", AttrType::tensor},   {"values_int64s", AttrType::integers}, {"values_floats", AttrType::reals},
    {"values_strings", AttrType::texts}, {"values_tensor", AttrType::tensor},   {"default_int64", AttrType::integer},
    {"default_float", AttrType::real},   {"default_string", AttrType::text},    {"default_tensor", AttrType::tensor}};

const OpDef kOps[] = {
    {.name = "ArrayFeatureExtractor",
     .domain = kDomain,
     .doc = "Columns picked by index.",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .expand = expand_extractor},
    {.name = "Binarizer",
     .domain = kDomain,
     .doc = "1 above a threshold, else 0.",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kBinarizerAttrs,
     .expand = expand_binarizer},
    {.name = "LabelEncoder",
     .domain = kDomain,
     .doc = "Numbers mapped to others by a table.",
     .since = 2,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kEncoderAttrs,
     .infer = infer_encoder,
     .cpu = kEncoder,
     .no_gradient = "it looks up keys",
     .cases = encoder_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::ml_ops
