// sparkpilot::Conv: convolution in either layout, with an epilogue (the contract is in ir/op.h).
//
// Weights and bias may be stored in f16 or bf16 if the image is f32. With `channels_last` and `x_channels_first`, X has
// channels first and only the output has channels last. With `x_cast`, a type of ONNX's, X is u8 or f32 and is rounded
// to that type first.
#include "ops/axes.h"
#include "ops/conv/epilogue_conv.h"
#include "ops/cpu/composed.h"
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cpu/conv/conv_simd.h"
#include "ops/cpu/gemm/gemm_dot.h"
#include "ops/cpu/onednn/conv_onednn.h"
#include "ops/cuda/conv_candidates.h"
#include "ops/epilogue_nodes.h"
#include "ops/layout.h"
#include "ops/registry.h"

namespace sparkpilot::fused_conv_ops {
namespace {

using ImageTypes = TypeList<float, Half, BFloat16>;

// The type that X is computed in.
DType image_dtype(const Attributes& attrs, DType x) {
  if (!attrs.has("x_cast")) return x;
  const std::optional<DType> to = dtype_from_onnx(attrs.integer("x_cast"));
  if (!to || !contains(ImageTypes{}, *to)) fail("x_cast names neither f32 nor f16 nor bf16");
  if (x != DType::u8 && x != DType::f32) fail("input to be cast is {}, expected u8 or f32", name(x));
  return *to;
}

std::unique_ptr<KernelState> prepare(const Problem& p) { return std::make_unique<EpilogueConvState>(p); }

void run(const Call& c) {
  const auto& state = c.as<EpilogueConvState>();
  const ConvShape& s = state.shape;
  double* const weights = state.weights(c);
  float* const values = state.values(c);
  dispatch(ImageTypes{}, c.inputs[1].dtype,
           [&]<typename W>() { std::copy_n(c.inputs[1].as<W>(), s.weights(), weights); });
  const DType dtype = image_dtype(c.attrs(), c.inputs[0].dtype);
  const auto rounded = [dtype](double x) {
    if (dtype == DType::f16) return static_cast<double>(static_cast<float>(Half(static_cast<float>(x))));
    if (dtype == DType::bf16) return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(x))));
    return x;
  };
  dispatch(TypeList<float, Half, BFloat16, uint8_t>{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    convolve(
        s, weights, [&](int64_t at) { return rounded(static_cast<double>(x[at])); },
        [&](int64_t at, int64_t channel, double sum) {
          if (c.has(2)) sum += load_element(c.inputs[2].dtype, c.inputs[2].data, channel);
          values[at] = static_cast<float>(sum);
        });
  });
  state.store(c, values);
}

void infer(InferContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(1), has_channels_last(c.attrs));
  const DType x = image_dtype(c.attrs, c.dtype(0));
  if (!contains(ImageTypes{}, x)) fail("input is {}, expected f32, f16 or bf16", name(x));
  if (c.dtype(1) != x && !(x == DType::f32 && contains(ImageTypes{}, c.dtype(1)))) {
    fail("weight is {}, the input {}", name(c.dtype(1)), name(x));
  }
  if (c.has(2) && !(contains(ImageTypes{}, c.dtype(2)) && c.shape(2) == Shape{s.out_channels})) {
    fail("bias is {}{}, expected [{}] of f32, f16 or bf16", name(c.dtype(2)), c.shape(2).str(), s.out_channels);
  }
  check_epilogue(c, s.output(), s.out_channels);
  c.output(0, x, s.output());
}

std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const DType dtype = image_dtype(e.node.attrs, b.dtype(e.in(0)));
  const bool last = has_channels_last(e.node.attrs);
  Attributes attrs = e.node.attrs;
  attrs.erase("channels_last");
  attrs.erase("x_channels_first");
  attrs.erase("epilogue");
  attrs.erase("x_cast");
  const bool x_last = last && e.node.attrs.integer("x_channels_first", 0) == 0;
  const ValueId image = cast_to(b, e.in(0), dtype), x = x_last ? channels_last_to_first(b, image) : image;
  std::vector<ValueId> inputs{x, cast_to(b, e.in(1), dtype)};
  if (e.has(2)) inputs.push_back(cast_to(b, e.in(2), dtype));
  ValueId y = b.add("Conv", inputs, attrs);
  if (last) y = channels_first_to_last(b, y);
  return {add_epilogue_nodes(e, y, last ? b.shape(y).rank() - 1 : 1)};
}

// An image with channels first is moved, and then read with channels last.
std::vector<ValueId> move_first(ExpandContext& e) {
  std::vector<ValueId> inputs = e.node.inputs;
  inputs[0] = channels_first_to_last(e.b, inputs[0]);
  Attributes attrs = e.node.attrs;
  attrs.erase("x_channels_first");
  return {e.b.add("sparkpilot::Conv", std::move(inputs), std::move(attrs))};
}
Acceptance can_move_first(const Problem& p) {
  if (p.attrs().integer("channels_last", 0) == 0 || p.attrs().integer("x_channels_first", 0) == 0)
    return "the image has the output's layout";
  return true;
}

// An image of another type is cast, and then read in its new one.
std::vector<ValueId> cast_first(ExpandContext& e) {
  std::vector<ValueId> inputs = e.node.inputs;
  inputs[0] = cast_to(e.b, inputs[0], image_dtype(e.node.attrs, e.b.dtype(inputs[0])));
  Attributes attrs = e.node.attrs;
  attrs.erase("x_cast");
  return {e.b.add("sparkpilot::Conv", std::move(inputs), std::move(attrs))};
}
Acceptance can_cast_first(const Problem& p) {
  if (!p.attrs().has("x_cast")) return "the image has the output's type";
  return true;
}
// Of kernels that read the image in the output's type.
template <Acceptance (*kAccepts)(const Problem&)>
Acceptance of_one_type(const Problem& p) {
  if (p.attrs().has("x_cast")) return "the image has another type";
  return kAccepts(p);
}

double cost(const Problem& p) { return epilogue_conv_shape(p).flops(); }
double needed(const Problem& p) { return epilogue_conv_shape(p).needed(); }

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

// A 3x3 convolution of 19 channels to 21, with one operand of each kind and the given steps.
OpCase epilogue_case(const std::string& name, Texts steps, int64_t last = 1, DType dtype = DType::f32) {
  const Shape x = last ? Shape{2, 6, 5, 19} : Shape{2, 19, 6, 5}, y = last ? Shape{2, 6, 5, 21} : Shape{2, 21, 6, 5};
  return {name,
          {CaseInput::of(x, dtype), CaseInput::of({21, 19, 3, 3}, dtype).fixed(), CaseInput::of({21}).fixed(),
           CaseInput::of(y, dtype), CaseInput::of({21}).fixed(), CaseInput::of({}).fixed()},
          {{"channels_last", last}, {"pads", Ints{1, 1, 1, 1}}, {"epilogue", std::move(steps)}}};
}

std::vector<OpCase> cases() {
  const auto x = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  const auto w = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims).fixed(); };
  const int64_t on = 1;
  std::vector<OpCase> all = {
      {"1x1", {x({1, 5, 6, 33}), w({17, 33, 1, 1}), w({17})}, {{"channels_last", on}}},
      {"1x1_rows", {x({1, 16, 20, 48}), w({96, 48, 1, 1})}, {{"channels_last", on}, {"epilogue", Texts{"gelu_tanh"}}}},
      {"strided", {x({2, 9, 7, 3}), w({24, 3, 3, 3})}, {{"channels_last", on}, {"strides", Ints{2, 2}}}},
      {"depthwise",
       {x({2, 10, 9, 19}), w({19, 1, 7, 7}), w({19})},
       {{"channels_last", on}, {"group", int64_t{19}}, {"pads", Ints{3, 3, 3, 3}}, {"epilogue", Texts{"relu"}}}},
      {"depthwise_strided",
       {x({1, 37, 35, 19}), w({19, 1, 7, 7})},
       {{"channels_last", on}, {"group", int64_t{19}}, {"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}},
      {"depthwise_doubled",
       {x({1, 15, 37, 19}), w({38, 1, 7, 7}), w({38})},
       {{"channels_last", on}, {"group", int64_t{19}}, {"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}},
      {"depthwise_doubled_3x3",
       {x({2, 10, 9, 32}), w({64, 1, 3, 3})},
       {{"channels_last", on}, {"group", int64_t{32}}, {"pads", Ints{1, 1, 1, 1}}, {"epilogue", Texts{"gelu_tanh"}}}},
      {"depthwise_doubled_4x2",
       {x({2, 10, 9, 5}), w({10, 1, 4, 2}), w({10})},
       {{"channels_last", on}, {"group", int64_t{5}}, {"dilations", Ints{1, 2}}}},
      {"depthwise_tall",
       {x({1, 23, 26, 19}), w({19, 1, 9, 3}), w({19})},
       {{"channels_last", on}, {"group", int64_t{19}}, {"pads", Ints{5, 1, 8, 1}}, {"dilations", Ints{2, 1}}}},
      {"depthwise_3d",
       {x({2, 4, 5, 23, 33}), w({33, 1, 1, 3, 3}), w({33})},
       {{"channels_last", on}, {"group", int64_t{33}}, {"pads", Ints{1, 1, 1, 2, 1, 1}}, {"strides", Ints{2, 1, 1}}}},
      {"depthwise_3d_padded",
       {x({1, 1, 5, 23, 33}), w({33, 1, 1, 3, 3})},
       {{"channels_last", on}, {"group", int64_t{33}}, {"pads", Ints{0, 1, 1, 1, 1, 1}}}},
      {"depthwise_tripled", {x({1, 8, 9, 5}), w({15, 1, 3, 3})}, {{"channels_last", on}, {"group", int64_t{5}}}},
      {"grouped",
       {x({1, 8, 8, 12}), w({9, 4, 3, 3})},
       {{"channels_last", on}, {"group", int64_t{3}}, {"pads", Ints{0, 1, 1, 0}}}},
      {"grouped_residual",
       {x({1, 8, 8, 64}), w({64, 2, 3, 3}), w({64}), x({1, 8, 8, 64})},
       {{"channels_last", on}, {"group", int64_t{32}}, {"pads", Ints{1, 1, 1, 1}}, {"epilogue", Texts{"add:3"}}}},
      {"grouped_gate_1d",
       {x({2, 29, 16}), w({16, 4, 3}), w({16}), x({2, 27, 16})},
       {{"channels_last", on}, {"group", int64_t{4}}, {"epilogue", Texts{"silu", "mul:3"}}}},
      {"dilated", {x({1, 13, 17, 16}), w({16, 16, 3, 2})}, {{"channels_last", on}, {"dilations", Ints{2, 3}}}},
      {"weights_at_run", {x({1, 6, 7, 5}), x({8, 5, 3, 3}), x({8})}, {{"channels_last", on}}},
      {"f16_weights",
       {x({1, 6, 7, 5}), CaseInput::of({8, 5, 3, 3}, DType::f16).fixed(), CaseInput::of({8}, DType::f16).fixed()},
       {{"channels_last", on}}},
      {"planes",
       {x({2, 3, 21, 47}), w({19, 3, 3, 3}), w({19})},
       {{"channels_last", on},
        {"x_channels_first", on},
        {"pads", Ints{1, 1, 1, 1}},
        {"strides", Ints{2, 2}},
        {"epilogue", Texts{"clip:0:6"}}}},
      {"planes_wide",
       {x({1, 4, 17, 29}), w({70, 4, 5, 7}), w({70})},
       {{"channels_last", on},
        {"x_channels_first", on},
        {"pads", Ints{4, 3, 0, 5}},
        {"strides", Ints{1, 3}},
        {"epilogue", Texts{"gelu_tanh"}}}},
      {"planes_f16",
       {x({1, 6, 12, 9}), CaseInput::of({16, 6, 2, 3}, DType::f16).fixed()},
       {{"channels_last", on}, {"x_channels_first", on}}},
      {"planes_dilated",
       {x({1, 2, 9, 9}), w({5, 2, 3, 3}), w({5})},
       {{"channels_last", on}, {"x_channels_first", on}, {"dilations", Ints{2, 2}}}},
      {"depthwise_bf16",
       {CaseInput::of({2, 23, 26, 19}, DType::bf16), CaseInput::of({19, 1, 7, 7}, DType::bf16).fixed(), w({19}),
        CaseInput::of({2, 23, 26, 19}, DType::bf16)},
       {{"channels_last", on},
        {"group", int64_t{19}},
        {"pads", Ints{3, 3, 3, 3}},
        {"epilogue", Texts{"clip:-1:2", "gelu_tanh", "add:3"}}}},
      {"depthwise_doubled_bf16",
       {CaseInput::of({1, 64, 70, 33}, DType::bf16), CaseInput::of({66, 1, 7, 7}, DType::bf16).fixed()},
       {{"channels_last", on}, {"group", int64_t{33}}, {"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}},
      {"pointwise_bf16",
       {CaseInput::of({2, 5, 9, 37}, DType::bf16), CaseInput::of({70, 37, 1, 1}, DType::bf16).fixed(), w({70}),
        CaseInput::of({2, 5, 9, 70}, DType::bf16)},
       {{"channels_last", on}, {"epilogue", Texts{"gelu_tanh", "add:3"}}}},
      {"pointwise_bf16_relu",
       {CaseInput::of({1, 11, 3, 16}, DType::bf16), CaseInput::of({48, 16, 1, 1}, DType::bf16).fixed()},
       {{"channels_last", on}, {"epilogue", Texts{"relu"}}}},
      {"deep",
       {x({1, 3, 5, 256}), w({40, 256, 3, 3}), w({40}), x({1, 3, 5, 40})},
       {{"channels_last", on}, {"pads", Ints{1, 1, 1, 1}}, {"epilogue", Texts{"relu", "add:3"}}}},
      {"deep_planes",
       {x({1, 64, 7, 6}), w({21, 64, 5, 5}), w({21}), x({1, 21, 7, 6})},
       {{"pads", Ints{2, 2, 2, 2}}, {"epilogue", Texts{"gelu_tanh", "add:3"}}}},
      {"f16_weights_of_pieces",
       {x({1, 6, 7, 16}), CaseInput::of({40, 16, 3, 3}, DType::f16).fixed(), CaseInput::of({40}, DType::f16).fixed()},
       {{"channels_last", on}}},
      {"bias_at_run", {x({1, 6, 7, 8}), w({9, 8, 3, 3}), x({9})}, {{"channels_last", on}}},
      {"pixels_at_run", {x({2, 6, 7, 20}), x({37, 20, 1, 1}), x({37})}, {{"channels_last", on}}},
      {"depthwise_at_run",
       {x({1, 9, 10, 35}), x({35, 1, 3, 3})},
       {{"channels_last", on}, {"group", int64_t{35}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"grouped_at_run",
       {x({1, 6, 7, 12}), x({9, 4, 3, 3}), x({9})},
       {{"channels_last", on}, {"group", int64_t{3}}, {"epilogue", Texts{"relu"}}}},
      {"planes_at_run",
       {x({2, 6, 13, 18}), x({19, 6, 3, 3}), x({19})},
       {{"channels_last", on}, {"x_channels_first", on}, {"pads", Ints{1, 1, 1, 1}}}},
      {"depthwise_pieces",
       {x({1, 64, 128, 48}), w({48, 1, 3, 3}), w({48})},
       {{"channels_last", on}, {"group", int64_t{48}}, {"pads", Ints{1, 1, 1, 1}}, {"epilogue", Texts{"relu"}}}},
      {"depthwise_pieces_strided",
       {x({2, 13, 11, 24}), w({24, 1, 5, 5})},
       {{"channels_last", on}, {"group", int64_t{24}}, {"strides", Ints{2, 2}}, {"pads", Ints{2, 2, 2, 2}}}},
      {"depthwise_pieces_4x2",
       {x({2, 10, 9, 16}), w({16, 1, 4, 2}), w({16})},
       {{"channels_last", on}, {"group", int64_t{16}}, {"dilations", Ints{1, 2}}}},
      {"depthwise_1d",
       {x({1, 29, 16}), w({16, 1, 3}), w({16})},
       {{"channels_last", on}, {"group", int64_t{16}}, {"pads", Ints{2, 0}}}},
      {"1d", {x({2, 31, 7}), w({5, 7, 4}), w({5})}, {{"channels_last", on}, {"epilogue", Texts{"silu"}}}},
      {"3d", {x({1, 5, 6, 7, 3}), w({4, 3, 2, 3, 3}), w({4})}, {{"channels_last", on}}}};
  for (const auto& types : {std::pair(DType::u8, DType::f32), {DType::u8, DType::f16}, {DType::f32, DType::bf16}}) {
    const DType from = types.first, to = types.second;  // clang 14 captures no structured bindings
    const auto first = [&](const char* what, const Shape& image, const Shape& weights, Attributes attrs) {
      attrs.set("channels_last", on);
      attrs.set("x_cast", onnx_code(to));
      const CaseInput x_of = from == DType::u8 ? CaseInput::range(image, 0, 255, from) : CaseInput::of(image, from);
      all.push_back({fmt::format("{}_of_{}_as_{}", what, name(from), name(to)),
                     {x_of, CaseInput::of(weights, to).fixed(), w({weights[0]})},
                     std::move(attrs)});
    };
    first("planes", {2, 6, 13, 18}, {19, 6, 3, 3}, {{"x_channels_first", on}, {"pads", Ints{1, 1, 1, 1}}});
    first("pixels", {1, 13, 17, 3}, {19, 3, 3, 3}, {{"strides", Ints{2, 2}}});
    first("pieces", {1, 24, 32, 1}, {19, 1, 8, 8}, {{"strides", Ints{8, 8}}, {"epilogue", Texts{"relu"}}});
    first("joined", {2, 10, 16, 3}, {9, 3, 2, 8}, {{"strides", Ints{3, 8}}, {"pads", Ints{1, 0, 0, 0}}});
  }
  all.push_back({"joined_f16",
                 {CaseInput::of({2, 8, 24, 2}, DType::f16), CaseInput::of({11, 2, 4, 4}, DType::f16).fixed()},
                 {{"channels_last", on}, {"strides", Ints{4, 4}}}});
  for (const std::string& step : epilogue_steps()) all.push_back(epilogue_case(step, {step}));
  for (const char* step : {"add:3", "mul:3", "add:4", "mul:4", "add:5", "mul:5"}) {
    all.push_back(epilogue_case(step, {step}));
  }
  all.push_back(epilogue_case("two_of_a_kind", {"leaky_relu:0.3", "relu"}));
  all.push_back(epilogue_case("two_limits", {"clip:-2:2", "silu", "clip:0:1"}));
  all.push_back(epilogue_case("layer_scale_residual", {"mul:4", "add:3", "gelu_erf"}));
  all.push_back(epilogue_case("channels_first", {"mul:4", "add:3", "relu"}, 0));
  all.push_back(epilogue_case("channels_first_channel", {"mul:4", "hard_swish"}, 0));
  all.push_back(epilogue_case("f16", {"mul:4", "add:3", "silu"}, 1, DType::f16));
  all.push_back(epilogue_case("bf16", {"gelu_tanh", "add:3"}, 1, DType::bf16));
  return all;
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text},      {"channels_last", AttrType::integer},
                               {"dilations", AttrType::integers}, {"epilogue", AttrType::texts},
                               {"group", AttrType::integer},      {"kernel_shape", AttrType::integers},
                               {"pads", AttrType::integers},      {"strides", AttrType::integers},
                               {"x_cast", AttrType::integer},     {"x_channels_first", AttrType::integer}};
// Shapes for which the project's kernels are faster.
std::string_view onednn_yields(const Problem& p) {
  if (conv_simd_wins(p)) return "simd";
  const std::string_view fastest = conv_of_bf16(p);
  return fastest == "onednn" ? "" : fastest;
}

constexpr Kernel kCpu[] = {
    {.name = "onednn",
     .accepts = of_one_type<conv_onednn_accepts>,
     .prepare = conv_onednn_prepare,
     .run = onednn::run,
     .yields = onednn_yields},
    {.name = "simd", .accepts = of_one_type<conv_simd_accepts>, .prepare = conv_simd_prepare, .run = conv_simd_run},
    {.name = "amx",
     .accepts = of_one_type<conv_amx_accepts>,
     .prepare = [](const Problem& p) { return conv_dot_prepare(p, true); },
     .run = dot_run,
     .yields = [](const Problem& p) -> std::string_view { return conv_of_bf16(p) == "amx" ? "" : "dot"; }},
    {.name = "dot",
     .accepts = of_one_type<conv_dot_accepts>,
     .prepare = [](const Problem& p) { return conv_dot_prepare(p, false); },
     .run = dot_run},
    {.name = "packed",
     .accepts = of_one_type<conv_packed_accepts>,
     .prepare = conv_packed_prepare,
     .run = conv_packed_run},
    composed<cast_first>("cast", can_cast_first),
    composed<move_first>("moved", of_one_type<can_move_first>),
    {.name = "reference", .prepare = prepare, .run = run}};

const OpDef kOps[] = {{.name = "Conv",
                       .domain = "sparkpilot",
                       .doc = "Convolution in either layout, with an epilogue.",
                       .since = 1,
                       .inputs = {2, kMany},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .channels_last = true, .finite = true},
                       .infer = infer,
                       .axes = axes_of_convolution,
                       .cpu = kCpu,
                       .cuda = cuda::conv_candidates(),
                       .expand = expand,
                       .cost = cost,
                       .needed = needed,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::fused_conv_ops
