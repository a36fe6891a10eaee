// sparkpilot::Gemm: rows times a matrix, plus bias, with an epilogue (the contract is in ir/op.h).
//
// B and bias may be stored in f16 or bf16 if A is f32.
#include "ops/axes.h"
#include "ops/cpu/gemm/gemm_dot.h"
#include "ops/cpu/gemm/gemm_packed.h"
#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/matmul_loop.h"
#include "ops/cuda/product_candidates.h"
#include "ops/epilogue_nodes.h"
#include "ops/matrix/epilogue_gemm.h"
#include "ops/registry.h"

namespace sparkpilot::fused_gemm_ops {
namespace {

using RowTypes = TypeList<float, Half, BFloat16>;

GemmArgs args_of(const Problem& p) { return epilogue_gemm_args(p, 2); }

std::unique_ptr<KernelState> prepare(const Problem& p) { return std::make_unique<EpilogueGemmState>(p, args_of(p)); }

void run(const Call& c) {
  const GemmArgs& args = c.as<EpilogueGemmState>().args;
  const MatMulShape& s = args.shape;
  float* values = epilogue_values(c, c.workspace);
  dispatch(RowTypes{}, c.inputs[0].dtype, [&]<typename A>() {
    const A* a = c.inputs[0].as<A>();
    dispatch(RowTypes{}, c.inputs[1].dtype, [&]<typename B>() {
      const B* b = c.inputs[1].as<B>();
      multiply_matrices<double>(
          s, [&](int64_t at) { return static_cast<double>(a[at]); },
          [&](int64_t at) { return static_cast<double>(b[at]); },
          [&](int64_t, int64_t i, int64_t j, double sum) {
            if (c.has(2)) sum += load_element(c.inputs[2].dtype, c.inputs[2].data, j);
            values[i * s.n + j] = static_cast<float>(sum);
          });
    });
  });
  store_rows(c, args.epilogue, values, s.m, s.n);
}

void infer(InferContext& c) {
  const MatMulShape s = epilogue_gemm_shape(c.attrs, c.shape(0), c.shape(1));
  if (!contains(RowTypes{}, c.dtype(0))) fail("A is {}, expected f32, f16 or bf16", name(c.dtype(0)));
  if (c.dtype(1) != c.dtype(0) && !(c.dtype(0) == DType::f32 && contains(RowTypes{}, c.dtype(1)))) {
    fail("B is {}, A {}", name(c.dtype(1)), name(c.dtype(0)));
  }
  if (c.has(2) && !(contains(RowTypes{}, c.dtype(2)) && c.shape(2) == Shape{s.n})) {
    fail("bias is {}{}, expected [{}] of f32, f16 or bf16", name(c.dtype(2)), c.shape(2).str(), s.n);
  }
  check_epilogue(c, s.out, s.n);
  c.output(0, c.dtype(0), s.out);
}

std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const DType dtype = b.dtype(e.in(0));
  ValueId weights = cast_to(b, e.in(1), dtype);
  if (is_transposed(e.node.attrs)) {
    weights = b.add("Transpose", {weights}, {{"perm", std::vector<int64_t>{1, 0}}});
  }
  ValueId y = b.add("MatMul", {e.in(0), weights});
  if (e.has(2)) y = b.add("Add", {y, cast_to(b, e.in(2), dtype)});
  return {add_epilogue_nodes(e, y, b.shape(y).rank() - 1)};
}

double cost(const Problem& p) { return args_of(p).shape.flops(); }

using Texts = std::vector<std::string>;

// [2,5,33] x [33,19], with one operand of each kind and the given steps.
OpCase epilogue_case(const std::string& name, Texts steps, DType dtype = DType::f32) {
  return {name,
          {CaseInput::of({2, 5, 33}, dtype), CaseInput::of({33, 19}, dtype).fixed(), CaseInput::of({19}).fixed(),
           CaseInput::of({2, 5, 19}, dtype), CaseInput::of({19}).fixed(), CaseInput::of({}).fixed()},
          {{"epilogue", std::move(steps)}}};
}

std::vector<OpCase> cases() {
  const auto f = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  const int64_t on = 1;
  std::vector<OpCase> all = {
      {"plain", {f({7, 33}), f({33, 19}).fixed()}, {}},
      {"tokens", {f({1, 20, 128}), f({128, 96}).fixed(), f({96}).fixed()}, {{"epilogue", Texts{"gelu_erf"}}}},
      {"transposed", {f({3, 4, 17}), f({21, 17}).fixed(), f({21}).fixed()}, {{"transB", on}}},
      {"vector", {f({1, 517}), f({517, 131}).fixed(), f({131}).fixed()}, {{"epilogue", Texts{"relu"}}}},
      {"vector_transposed", {f({1, 517}), f({131, 517}).fixed()}, {{"transB", on}}},
      {"two_rows", {f({2, 300}), f({300, 65}).fixed(), f({65}).fixed()}, {}},
      {"vector_f16_weights",
       {f({1, 517}), CaseInput::of({517, 131}, DType::f16).fixed(), CaseInput::of({131}, DType::f16).fixed()},
       {{"epilogue", Texts{"silu"}}}},
      {"three_rows_bf16_weights", {f({3, 130}), CaseInput::of({130, 48}, DType::bf16).fixed()}, {}},
      {"f16_weights", {f({7, 40}), CaseInput::of({40, 24}, DType::f16).fixed()}, {}},
      {"weights_at_run", {f({3, 4, 17}), f({17, 9}), f({9})}, {}}};
  for (const std::string& step : epilogue_steps()) all.push_back(epilogue_case(step, {step}));
  for (const char* step : {"add:3", "mul:3", "add:4", "mul:4", "add:5", "mul:5"}) {
    all.push_back(epilogue_case(step, {step}));
  }
  all.push_back(epilogue_case("layer_scale_residual", {"mul:4", "add:3", "gelu_erf"}));
  all.push_back(epilogue_case("f16", {"mul:4", "add:3", "silu"}, DType::f16));
  all.push_back(epilogue_case("bf16", {"gelu_tanh", "add:3"}, DType::bf16));
  all.push_back(epilogue_case("bf16_layer_scale", {"gelu_erf", "mul:4", "add:5"}, DType::bf16));
  const auto bf16 = [&](const char* name, int64_t m, int64_t k, int64_t n, Texts steps) {
    all.push_back({name,
                   {CaseInput::of({m, k}, DType::bf16), CaseInput::of({k, n}, DType::bf16).fixed(),
                    CaseInput::of({n}).fixed(), CaseInput::of({m, n}, DType::bf16)},
                   {{"epilogue", std::move(steps)}}});
  };
  bf16("bf16_vector", 1, 517, 131, {"relu"});
  bf16("bf16_two_rows", 2, 64, 300, {});
  bf16("bf16_three_rows", 3, 33, 96, {"gelu_tanh"});
  bf16("bf16_five_rows", 5, 66, 160, {"add:3"});
  bf16("bf16_many_rows", 137, 65, 600, {"clip:-0.5:6", "add:3"});
  bf16("bf16_deep", 27, 1031, 70, {"silu"});
  bf16("bf16_bounds_first", 50, 96, 33, {"clip:-0.5:0.25", "silu"});
  return all;
}

constexpr AttrSpec kAttrs[] = {{"epilogue", AttrType::texts}, {"transB", AttrType::integer}};
AxisSource axes(const Problem& p, int, int axis, size_t input) {
  const Shape &own = p.inputs[input].shape, &y = p.outputs[0].shape;
  const bool column = axis == y.rank() - 1, transposed = p.attrs().integer("transB", 0) != 0;
  if (input == 0) return column ? whole_input() : same_axis(axis);
  if (input == 1) return column ? same_axis(transposed ? 0 : 1) : whole_input();
  return broadcast_axis(own, y, axis);
}

// Of kernels for bf16: the one that is faster, if it is not `own`.
template <const std::string_view& own>
std::string_view yields(const Problem& p) {
  const std::string_view fastest = gemm_of_bf16(args_of(p));
  return fastest == own ? "" : fastest;
}
constexpr std::string_view kAmx = "amx", kDot = "dot";

constexpr Kernel kCpu[] = {
    {.name = "simd",
     .accepts = [](const Problem& p) -> Acceptance { return gemm_simd_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_simd_prepare(p, args_of(p)); },
     .run = gemm_simd_run,
     .yields = [](const Problem& p) -> std::string_view { return gemm_simd_wins(args_of(p)) ? "" : "onednn"; }},
    {.name = kAmx,
     .accepts = [](const Problem& p) -> Acceptance { return gemm_amx_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_dot_prepare(p, args_of(p), true); },
     .run = dot_run,
     .yields = yields<kAmx>},
    {.name = kDot,
     .accepts = [](const Problem& p) -> Acceptance { return gemm_dot_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_dot_prepare(p, args_of(p), false); },
     .run = dot_run,
     .yields = yields<kDot>},
    {.name = "onednn",
     .accepts = [](const Problem& p) -> Acceptance { return gemm_onednn_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_onednn_prepare(p, args_of(p)); },
     .run = onednn::run},
    {.name = "packed",
     .accepts = [](const Problem& p) -> Acceptance { return gemm_packed_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_packed_prepare(p, args_of(p)); },
     .run = gemm_packed_run},
    {.name = "reference", .prepare = prepare, .run = run}};

constexpr Kernel kCuda[] = {
    {.name = "mma",
     .accepts = [](const Problem& p) -> Acceptance { return cuda::product_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return cuda::product_prepare(p, args_of(p)); },
     .run = cuda::product_run,
     .variants = [](const Problem& p) { return cuda::product_variants(p, args_of(p)); },
     .take_variant = [](const Problem& p, std::string_view variant,
                        KernelState& state) { cuda::product_take_variant(p, args_of(p), variant, state); }}};

const OpDef kOps[] = {{.name = "Gemm",
                       .domain = "sparkpilot",
                       .doc = "Rows times a matrix, plus bias, with an epilogue.",
                       .since = 1,
                       .inputs = {2, kMany},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kCpu,
                       .cuda = kCuda,
                       .expand = expand,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::fused_gemm_ops
