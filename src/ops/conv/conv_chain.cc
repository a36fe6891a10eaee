// sparkpilot::ConvChain: consecutive convolutions, each with an epilogue (the contract is in
// ops/cpu/conv/conv_chain.h).
#include "ops/cpu/conv/conv_chain.h"

#include "ir/activation.h"
#include "ops/cpu/composed.h"
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cpu/vector/epilogue_store.h"
#include "ops/epilogue_nodes.h"
#include "ops/registry.h"

namespace sparkpilot::conv_chain_ops {
namespace {

using WeightTypes = TypeList<float, Half, BFloat16>;

struct ReferenceState : KernelState {
  ConvChain chain;
  std::array<Epilogue, ConvChain::kMax> epilogue;
  std::array<int64_t, ConvChain::kMax> offset{};  // in the workspace: offset of the stage's image
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<ReferenceState>();
  state->chain = ConvChain::of(p);
  int64_t weights = 0;
  for (size_t i = 0; i < state->chain.stages; ++i) weights = std::max(weights, state->chain.shape[i].weights());
  state->workspace = weights * static_cast<int64_t>(sizeof(double));
  for (size_t i = 0; i < state->chain.stages; ++i) {
    const ConvShape& s = state->chain.shape[i];
    state->epilogue[i] = Epilogue::parse(p.attrs().texts(stage_epilogue(i)), p.inputs, s.output(), s.out_channels);
    state->offset[i] = state->workspace;
    if (i + 1 < state->chain.stages || p.outputs[0].dtype != DType::f32)
      state->workspace += storage_bytes(DType::f32, s.output().elements());
  }
  return state;
}

// `x(at)`: an element of the stage's image.
template <typename X>
void run_stage(const Call& c, size_t i, const X& x, float* y) {
  const auto& state = c.as<ReferenceState>();
  const ConvShape& s = state.chain.shape[i];
  auto* weights = reinterpret_cast<double*>(c.workspace);
  const ConstView& w = c.inputs[ConvChain::weights_input(i)];
  dispatch(WeightTypes{}, w.dtype, [&]<typename W>() { std::copy_n(w.as<W>(), s.weights(), weights); });
  const size_t bias = ConvChain::bias_input(i);
  convolve(s, weights, x, [&](int64_t at, int64_t channel, double sum) {
    if (c.has(bias)) sum += load_element(c.inputs[bias].dtype, c.inputs[bias].data, channel);
    y[at] = static_cast<float>(sum);
  });
  const int64_t rows = s.batch * s.window.out_size(), channels = s.out_channels;
  state.epilogue[i].apply_rows(state.epilogue[i].bind(c), {.data = y,
                                                           .lines = rows,
                                                           .length = channels,
                                                           .stride = channels,
                                                           .channel = 0,
                                                           .offset = 0,
                                                           .output_stride = channels});
}

// What is between two stages has the type of the images, as between separate convolutions.
void round_to(DType dtype, float* values, int64_t count) {
  if (dtype == DType::f32) return;
  dispatch(TypeList<Half, BFloat16>{}, dtype, [&]<typename T>() {
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<T>(values[i]));
  });
}

void run(const Call& c) {
  const auto& state = c.as<ReferenceState>();
  const ConstView& image = c.inputs[0];
  const View& out = c.outputs[0];
  const float* between = nullptr;
  for (size_t i = 0; i < state.chain.stages; ++i) {
    const bool whole = i + 1 == state.chain.stages && out.dtype == DType::f32;
    float* const y = whole ? out.as<float>() : reinterpret_cast<float*>(c.workspace + state.offset[i]);
    if (i == 0)
      run_stage(
          c, i, [&](int64_t at) { return load_element(image.dtype, image.data, at); }, y);
    else
      run_stage(
          c, i, [&](int64_t at) { return static_cast<double>(between[at]); }, y);
    if (i + 1 < state.chain.stages) round_to(out.dtype, y, state.chain.shape[i].output().elements());
    between = y;
  }
  store_floats(out, between, 0, out.elements());
}

void infer(InferContext& c) {
  if (!contains(WeightTypes{}, c.dtype(0))) fail("input is {}, expected f32, f16 or bf16", name(c.dtype(0)));
  const size_t stages = c.attrs.integers("groups").size();
  if (stages < 2 || stages > ConvChain::kMax || static_cast<size_t>(c.input_count()) < 2 * stages) {
    fail("{} stages and {} inputs, expected 2 or 3, and two inputs a stage, of which the last bias may be left out",
         stages, c.input_count());
  }
  std::vector<Shape> weights;
  std::vector<TensorType> inputs;
  for (int i = 0; i < c.input_count(); ++i) {
    inputs.push_back(c.has(i) ? TensorType{c.dtype(i), c.shape(i)} : TensorType{});
  }
  inputs.resize(std::max(inputs.size(), 1 + 2 * stages));
  for (size_t i = 0; i < stages; ++i) {
    const TensorType& w = inputs[ConvChain::weights_input(i)];
    if (!contains(WeightTypes{}, w.dtype)) fail("weight {} is {}, expected f32, f16 or bf16", i, name(w.dtype));
    if (c.dtype(0) != DType::f32 && w.dtype != c.dtype(0))
      fail("weight {} is {}, X {}", i, name(w.dtype), name(c.dtype(0)));
    weights.push_back(w.shape);
  }
  const ConvChain chain = ConvChain::of(c.attrs, c.shape(0), weights);
  for (size_t i = 0; i < stages; ++i) {
    const ConvShape& s = chain.shape[i];
    const TensorType& bias = inputs[ConvChain::bias_input(i)];
    if (bias.dtype != DType::none && !(contains(WeightTypes{}, bias.dtype) && bias.shape == Shape{s.out_channels})) {
      fail("bias {} is {}{}, expected [{}] of f32, f16 or bf16", i, name(bias.dtype), bias.shape.str(), s.out_channels);
    }
    const Epilogue epilogue = Epilogue::parse(c.attrs.texts(stage_epilogue(i)), inputs, s.output(), s.out_channels);
    for (const Epilogue::Step& step : epilogue.steps()) {
      if (i + 1 < stages && step.operand == Epilogue::Step::full) fail("stage {} reads a whole image", i);
    }
  }
  c.output(0, c.dtype(0), chain.last().output());
}

std::vector<ValueId> expand(ExpandContext& e) {
  ValueId x = e.in(0);
  const size_t stages = e.node.attrs.integers("groups").size();
  for (size_t i = 0; i < stages; ++i) {
    Attributes attrs = stage_attributes(e.node.attrs, i);
    std::vector<ValueId> inputs{x, e.in(ConvChain::weights_input(i)), e.in(ConvChain::bias_input(i))};
    move_epilogue(e, e.node.attrs.texts(stage_epilogue(i)), inputs, attrs);
    x = e.b.add("sparkpilot::Conv", inputs, attrs);
  }
  return {x};
}

double cost(const Problem& p) { return ConvChain::of(p).flops(); }
double needed(const Problem& p) { return ConvChain::of(p).needed(); }

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

struct Sizes {
  int64_t batch = 1, height = 9, width = 11, in = 5, expanded = 40, out = 7;
  int64_t first = 1, first_stride = 1;  // kernel and stride of the first stage; 0: no first stage
  int64_t kernel = 3, stride = 1;       // of the depthwise stage
};

OpCase chain_case(const std::string& name, const Sizes& s, const std::vector<Texts>& epilogues,
                  DType weights = DType::f32) {
  const bool three = s.first > 0;
  const int64_t channels = three ? s.expanded : s.in, dense = s.first / 2, filter = s.kernel / 2;
  const auto w = [&](std::initializer_list<int64_t> dims) { return CaseInput::of(dims, weights).fixed(); };
  OpCase c{name, {CaseInput::of({s.batch, s.height, s.width, s.in})}, {}};
  Ints groups, strides, pads;
  if (three) {
    c.inputs.insert(c.inputs.end(), {w({channels, s.in, s.first, s.first}), w({channels})});
    groups = {1};
    strides = {s.first_stride, s.first_stride};
    pads = {dense, dense, dense, dense};
  }
  c.inputs.insert(c.inputs.end(), {w({channels, 1, s.kernel, s.kernel}), w({channels}), w({s.out, channels, 1, 1})});
  c.inputs.push_back(s.batch > 1 ? CaseInput::none() : w({s.out}));
  groups.insert(groups.end(), {channels, 1});
  strides.insert(strides.end(), {s.stride, s.stride, 1, 1});
  pads.insert(pads.end(), {filter, filter, filter, filter, 0, 0, 0, 0});
  c.attrs = {{"groups", groups}, {"strides", strides}, {"pads", pads}};
  for (size_t i = 0; i < epilogues.size(); ++i) {
    if (!epilogues[i].empty()) c.attrs.set(stage_epilogue(i), epilogues[i]);
  }
  return c;
}

std::vector<OpCase> cases() {
  const Texts clip{"clip:0:6"}, relu{"relu"};
  std::vector<OpCase> all = {
      chain_case("inverted_bottleneck", {}, {clip, clip, {}}),
      chain_case("strided", {.height = 15, .width = 14, .stride = 2}, {relu, relu, {"hard_swish"}}),
      chain_case("5x5", {.batch = 2, .expanded = 33, .kernel = 5}, {{"silu"}, {"gelu_tanh"}, {}}),
      chain_case("5x5_strided", {.height = 17, .width = 13, .kernel = 5, .stride = 2}, {relu, {"tanh"}, {}}),
      chain_case("7x7", {.height = 6, .width = 5, .expanded = 65, .kernel = 7}, {{"gelu_erf"}, {}, {}}),
      chain_case("stem", {.height = 23, .width = 19, .in = 3, .expanded = 24, .out = 16, .first = 3, .first_stride = 2},
                 {relu, relu, {}}),
      chain_case("large_map", {.height = 70, .width = 75, .in = 9, .expanded = 70, .out = 12}, {clip, clip, {}}),
      chain_case("many_panels", {.height = 10, .width = 9, .in = 20, .expanded = 300, .out = 45, .kernel = 5},
                 {clip, clip, {}}),
      chain_case("separable", {.height = 37, .width = 21, .in = 37, .out = 33, .first = 0}, {relu, relu}),
      chain_case("separable_batch", {.batch = 3, .in = 48, .first = 0, .kernel = 7, .stride = 2}, {{}, {"elu:0.5"}}),
      chain_case("kernel_below_stride", {.in = 6, .kernel = 1, .stride = 2}, {relu, {}, {}}),
      chain_case("f16_weights", {}, {clip, {"leaky_relu:0.1"}, {}}, DType::f16)};
  OpCase bare = chain_case("no_biases", {.height = 12}, {clip, clip, {}});
  for (const size_t i : {2, 4, 6}) bare.inputs[i] = CaseInput::none();
  all.push_back(bare);
  OpCase shorter = chain_case("no_last_bias", {.in = 24, .first = 0}, {relu, relu});
  shorter.inputs.pop_back();
  all.push_back(shorter);
  OpCase planes = chain_case(
      "stem_of_planes", {.height = 25, .width = 31, .in = 6, .expanded = 40, .out = 9, .first = 3, .first_stride = 2},
      {clip, clip, {}});
  planes.inputs[0] = CaseInput::of({1, 6, 25, 31});
  planes.attrs.set("x_channels_first", int64_t{1});
  all.push_back(planes);
  OpCase residual = chain_case("residual", {.height = 20, .width = 10, .in = 40, .expanded = 96, .out = 40}, {});
  residual.inputs.insert(residual.inputs.end(),
                         {CaseInput::of({96}).fixed(), CaseInput::of({}).fixed(), CaseInput::of({1, 20, 10, 40})});
  residual.attrs.set(stage_epilogue(0), Texts{"mul:7", "relu"});
  residual.attrs.set(stage_epilogue(1), Texts{"clip:0:6", "mul:8"});
  residual.attrs.set(stage_epilogue(2), Texts{"add:9", "relu"});
  all.push_back(residual);
  // Images of 16 bits, in whole pieces of 16 bytes, as kernels of GPUs take them.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto half = [&](const char* what, const Sizes& sizes, const std::vector<Texts>& epilogues) {
      all.push_back(chain_case(fmt::format("{}_{}", name(dtype), what), sizes, epilogues, dtype));
      all.back().inputs[0].dtype = dtype;
    };
    half("separable", {.height = 9, .width = 7, .in = 40, .out = 33, .first = 0}, {clip, {}});
    half("strided", {.batch = 2, .in = 24, .out = 72, .first = 0, .kernel = 5, .stride = 2}, {{"silu"}, {"relu"}});
    half("deep", {.height = 4, .width = 6, .in = 672, .out = 136, .first = 0}, {relu, {}});
    OpCase added = chain_case(fmt::format("{}_residual", name(dtype)), {.in = 16, .out = 16, .first = 0}, {}, dtype);
    added.inputs[0].dtype = dtype;
    added.inputs.insert(added.inputs.end(), {CaseInput::of({16}).fixed(), CaseInput::of({1, 9, 11, 16}, dtype)});
    added.attrs.set(stage_epilogue(0), Texts{"mul:5", "relu"});
    added.attrs.set(stage_epilogue(1), Texts{"add:6"});
    all.push_back(added);
  }
  return all;
}

constexpr AttrSpec kAttrs[] = {{"epilogue_0", AttrType::texts},        {"epilogue_1", AttrType::texts},
                               {"epilogue_2", AttrType::texts},        {"groups", AttrType::integers, true},
                               {"pads", AttrType::integers, true},     {"strides", AttrType::integers, true},
                               {"x_channels_first", AttrType::integer}};
constexpr Kernel kCpu[] = {{.name = "simd",
                            .accepts = conv_chain_simd_accepts,
                            .prepare = conv_chain_simd_prepare,
                            .run = conv_chain_simd_run},
                           composed<expand>("stages"),
                           {.name = "reference", .prepare = prepare, .run = run}};

const OpDef kOps[] = {{.name = "ConvChain",
                       .domain = "sparkpilot",
                       .doc = "Two or three convolutions in a row (expand, depthwise, project), each with an epilogue.",
                       .since = 1,
                       .inputs = {2, kMany},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true, .finite = true},
                       .infer = infer,
                       .cpu = kCpu,
                       .expand = expand,
                       .cost = cost,
                       .needed = needed,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::conv_chain_ops
