#include "ops/matrix/gemm_group.h"

#include <algorithm>

#include "ir/activation.h"
#include "ops/cpu/composed.h"
#include "ops/cpu/gemm/matmul_loop.h"
#include "ops/cpu/vector/epilogue_store.h"
#include "ops/cuda/gemm_group_candidate.h"
#include "ops/epilogue_nodes.h"
#include "ops/registry.h"

namespace sparkpilot {

GemmGroup GemmGroup::of(const Attributes& attrs) {
  const std::vector<int64_t> steps = attrs.integers("steps"), transposed = attrs.integers("transB");
  const std::vector<std::string> texts = attrs.texts("epilogue");
  if (steps.empty() || steps.size() > kMostGroupedProducts || transposed.size() != steps.size()) {
    fail("{} numbers of steps and {} of transB, expected as many, 1 to {}", steps.size(), transposed.size(),
         kMostGroupedProducts);
  }
  GemmGroup out;
  size_t first = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] < 0 || steps[i] > static_cast<int64_t>(texts.size() - first)) {
      fail("product {} has {} steps, and there are {} in all", i, steps[i], texts.size());
    }
    const auto begin = texts.begin() + static_cast<int64_t>(first);
    out.products.push_back({transposed[i] != 0, {begin, begin + steps[i]}});
    first += static_cast<size_t>(steps[i]);
  }
  if (first != texts.size()) fail("{} steps of epilogues, expected {}", texts.size(), first);
  return out;
}

GemmArgs GemmGroup::args(const Problem& p, size_t i) const {
  GemmArgs out{.shape = gemm_shape(p.inputs[a(i)].shape, p.inputs[b(i)].shape, false, products[i].transposed)};
  if (p.has(bias(i))) out.c = static_cast<int>(bias(i));
  out.epilogue = Epilogue::parse(products[i].epilogue, p.inputs, out.shape.out, out.shape.n);
  return out;
}

}  // namespace sparkpilot

namespace sparkpilot::gemm_group_ops {
namespace {

using RowTypes = TypeList<float, Half, BFloat16>;

struct ReferenceState : KernelState {
  std::vector<GemmArgs> products;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<ReferenceState>();
  const GemmGroup group = GemmGroup::of(p.attrs());
  for (size_t i = 0; i < group.products.size(); ++i) {
    state->products.push_back(group.args(p, i));
    const TensorType& y = p.outputs[i];
    state->workspace = std::max(state->workspace, epilogue_store_bytes(y.dtype, y.shape.elements()));
  }
  return state;
}

void run_product(Call c, const GemmArgs& args, size_t i) {
  c.outputs = c.outputs.subspan(i, 1);
  const MatMulShape& s = args.shape;
  const ConstView &a = c.inputs[GemmGroup::a(i)], &b = c.inputs[GemmGroup::b(i)];
  float* values = epilogue_values(c, c.workspace);
  multiply_matrices<double>(
      s, [&](int64_t at) { return load_element(a.dtype, a.data, at); },
      [&](int64_t at) { return load_element(b.dtype, b.data, at); },
      [&](int64_t, int64_t row, int64_t column, double sum) {
        const size_t bias = GemmGroup::bias(i);
        if (c.has(bias)) sum += load_element(c.inputs[bias].dtype, c.inputs[bias].data, column);
        values[row * s.n + column] = static_cast<float>(sum);
      });
  store_rows(c, args.epilogue, values, s.m, s.n);
}

void run(const Call& c) {
  const auto& state = c.as<ReferenceState>();
  for (size_t i = 0; i < state.products.size(); ++i) run_product(c, state.products[i], i);
}

void infer(InferContext& c) {
  const GemmGroup group = GemmGroup::of(c.attrs);
  const size_t count = group.products.size();
  if (static_cast<size_t>(c.input_count()) < 3 * count - 1 || c.node.outputs.size() != count) {
    fail("{} inputs and {} outputs for {} products", c.input_count(), c.node.outputs.size(), count);
  }
  std::vector<TensorType> inputs;
  for (int i = 0; i < c.input_count(); ++i) {
    inputs.push_back(c.has(i) ? TensorType{c.dtype(i), c.shape(i)} : TensorType{});
  }
  inputs.resize(std::max(inputs.size(), 3 * count));
  for (size_t i = 0; i < count; ++i) {
    const TensorType &a = inputs[GemmGroup::a(i)], &b = inputs[GemmGroup::b(i)], &bias = inputs[GemmGroup::bias(i)];
    if (!contains(RowTypes{}, a.dtype)) fail("A of product {} is {}, expected f32, f16 or bf16", i, name(a.dtype));
    if (b.dtype != a.dtype && !(a.dtype == DType::f32 && contains(RowTypes{}, b.dtype))) {
      fail("B of product {} is {}, A {}", i, name(b.dtype), name(a.dtype));
    }
    const MatMulShape s = gemm_shape(a.shape, b.shape, false, group.products[i].transposed);
    if (bias.dtype != DType::none && !(contains(RowTypes{}, bias.dtype) && bias.shape == Shape{s.n})) {
      fail("bias of product {} is {}{}, expected [{}] of f32, f16 or bf16", i, name(bias.dtype), bias.shape.str(), s.n);
    }
    Epilogue::parse(group.products[i].epilogue, inputs, s.out, s.n);
    c.output(static_cast<int>(i), a.dtype, s.out);
  }
}

std::vector<ValueId> expand(ExpandContext& e) {
  const GemmGroup group = GemmGroup::of(e.node.attrs);
  std::vector<ValueId> out;
  for (size_t i = 0; i < group.products.size(); ++i) {
    Attributes attrs;
    if (group.products[i].transposed) attrs.set("transB", int64_t{1});
    std::vector<ValueId> inputs{e.in(GemmGroup::a(i)), e.in(GemmGroup::b(i)), e.in(GemmGroup::bias(i))};
    move_epilogue(e, group.products[i].epilogue, inputs, attrs);
    out.push_back(e.b.add("sparkpilot::Gemm", inputs, attrs));
  }
  return out;
}

double cost(const Problem& p) {
  const GemmGroup group = GemmGroup::of(p.attrs());
  double flops = 0;
  for (size_t i = 0; i < group.products.size(); ++i) flops += group.args(p, i).shape.flops();
  return flops;
}

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

// Products of one row by matrices of these sizes (k, n), every second transposed, with the biases that are asked for.
struct Sizes {
  int64_t k, n;
};
OpCase group_case(const std::string& name, const std::vector<Sizes>& sizes, DType a = DType::f32, DType b = DType::f32,
                  bool biases = true) {
  OpCase out{name, {}, {}, static_cast<int>(sizes.size())};
  Ints transposed;
  for (const auto& [k, n] : sizes) {
    const bool turned = transposed.size() % 2 == 1;
    transposed.push_back(turned);
    out.inputs.push_back(CaseInput::of({1, k}, a));
    out.inputs.push_back((turned ? CaseInput::of({n, k}, b) : CaseInput::of({k, n}, b)).fixed());
    out.inputs.push_back(biases ? CaseInput::of({n}).fixed() : CaseInput::none());
  }
  out.attrs = {{"transB", transposed}, {"steps", Ints(sizes.size(), 0)}};
  return out;
}

std::vector<OpCase> cases() {
  const std::vector<Sizes> three{{33, 19}, {517, 131}, {64, 1}};
  std::vector<OpCase> all = {group_case("three", three),
                             group_case("no_biases", three, DType::f32, DType::f32, false),
                             group_case("one", {{96, 7}}),
                             group_case("f16_weights", three, DType::f32, DType::f16),
                             group_case("bf16_weights", three, DType::f32, DType::bf16),
                             group_case("f16", three, DType::f16, DType::f16),
                             group_case("bf16", three, DType::bf16, DType::bf16)};
  OpCase heads = group_case("sixteen", std::vector<Sizes>(kMostGroupedProducts, {130, 5}));
  heads.inputs[GemmGroup::bias(3)] = CaseInput::none();
  heads.attrs.set("epilogue", Texts(kMostGroupedProducts, "relu"));
  heads.attrs.set("steps", Ints(kMostGroupedProducts, 1));
  all.push_back(heads);
  OpCase steps = group_case("epilogues", three);
  steps.inputs.push_back(CaseInput::of({1, 19}));
  steps.inputs.push_back(CaseInput::of({131}).fixed());
  steps.inputs.push_back(CaseInput::of({}).fixed());
  steps.attrs.set("epilogue", Texts{"add:9", "relu", "mul:10", "silu", "add:11"});
  steps.attrs.set("steps", Ints{2, 3, 0});
  all.push_back(steps);
  OpCase rows = group_case("two_rows", three);
  for (size_t i = 0; i < 3; ++i) rows.inputs[GemmGroup::a(i)] = CaseInput::of({2, three[i].k});
  all.push_back(rows);
  return all;
}

constexpr AttrSpec kAttrs[] = {
    {"epilogue", AttrType::texts}, {"steps", AttrType::integers, true}, {"transB", AttrType::integers, true}};
constexpr Kernel kCpu[] = {composed<expand>("products"), {.name = "reference", .prepare = prepare, .run = run}};
constexpr Kernel kCuda[] = {{.name = "vectors",
                             .accepts = cuda::gemm_group_accepts,
                             .prepare = cuda::gemm_group_prepare,
                             .run = cuda::gemm_group_run,
                             .variants = cuda::gemm_group_variants,
                             .take_variant = cuda::gemm_group_take_variant}};

const OpDef kOps[] = {{.name = "GemmGroup",
                       .domain = "sparkpilot",
                       .doc = "Products by matrices that do not need one another's results, each with an epilogue.",
                       .since = 1,
                       .inputs = {2, kMany},
                       .outputs = {1, kMostGroupedProducts},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true, .finite = true},
                       .infer = infer,
                       .cpu = kCpu,
                       .cuda = kCuda,
                       .expand = expand,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::gemm_group_ops
