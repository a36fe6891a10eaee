// sparkpilot::ScaledGemm: rows times a matrix of 8 or 4 bits that is decoded while it is read, plus bias, with an
// epilogue. What a product is whose weights come from DequantizeLinear.
//
// Inputs: A f32, f16 or bf16, as the output, or f8e4m3fn if B is, for an output of `output_dtype` (f32 without it); B
// f8e4m3fn or f4e2m1, [K, N], or [N, K] with `transB` = 1; a scale; scales of blocks; bias [N] or absent; then the
// epilogue's operands. The weight in row k and column n is
//   f8e4m3fn  B[k, n] * scale[n], or * scale if it has one element; no scales of blocks
//   f4e2m1    B[k, n] * (block_scales[k / 16, n] * scale): block scales f8e4m3fn, of B's shape with K divided by 16 and
//             rounded up; scale has one element
// With `a_scale`, rows of A are rounded to NVFP4 by that scale of the tensor first, as sparkpilot::RoundToNvfp4 does;
// B is f4e2m1 then.
#include "ops/axes.h"
#include "ops/cpu/gemm/gemm_small.h"
#include "ops/cpu/gemm/matmul_loop.h"
#include "ops/cuda/product_candidates.h"
#include "ops/cuda/scaled_gemm_candidates.h"
#include "ops/epilogue_nodes.h"
#include "ops/matrix/epilogue_gemm.h"
#include "ops/registry.h"
#include "tensor/small_floats.h"

namespace sparkpilot::scaled_gemm_ops {
namespace {

using In = ScaledGemmInputs;
using RowTypes = TypeList<float, Half, BFloat16>;

DType output_dtype(const Attributes& attrs, DType a) {
  if (a != DType::f8e4m3fn) return a;
  const std::optional<DType> dtype = dtype_from_onnx(attrs.integer("output_dtype", onnx_code(DType::f32)));
  if (!dtype || !contains(RowTypes{}, *dtype))
    fail("output_dtype {} is not f32, f16 or bf16", attrs.integer("output_dtype", 0));
  return *dtype;
}

GemmArgs args_of(const Problem& p) { return epilogue_gemm_args(p, In::kBias); }

// Element `at` of A as the product takes it.
double element_of_a(const Call& c, int64_t at, int64_t k, float a_scale) {
  const ConstView& a = c.inputs[0];
  const auto value = [&](int64_t i) { return static_cast<float>(load_element(a.dtype, a.data, i)); };
  if (a_scale == 0) return load_element(a.dtype, a.data, at);
  const int64_t row = at / k * k, first = row + (at - row) / Fp4Weights::kBlock * Fp4Weights::kBlock;
  float largest = 0;
  for (int64_t i = first; i < std::min(first + Fp4Weights::kBlock, row + k); ++i)
    largest = larger_magnitude(largest, value(i));
  return static_cast<double>(round_to_fp4(value(at), fp4_step(largest, a_scale)));
}

std::unique_ptr<KernelState> prepare(const Problem& p) { return std::make_unique<EpilogueGemmState>(p, args_of(p)); }

void run(const Call& c) {
  const GemmArgs& args = c.as<EpilogueGemmState>().args;
  const MatMulShape& s = args.shape;
  const ConstView &codes = c.inputs[In::kCodes], &scale = c.inputs[In::kScale];
  const ConstView blocks = c.has(In::kBlockScales) ? c.inputs[In::kBlockScales] : ConstView{};
  const bool by_column = scale.elements() > 1, side = is_transposed(c.attrs());
  const int64_t width = blocks.present() ? blocks.shape[1] : 1;
  const float a_scale = c.attrs().real("a_scale", 0);
  float* values = epilogue_values(c, c.workspace);
  multiply_matrices<double>(
      s, [&](int64_t at) { return element_of_a(c, at, s.k, a_scale); },
      [&](int64_t at) {
        const int64_t k = side ? at % s.k : at / s.n, n = side ? at / s.k : at % s.n, block = k / Fp4Weights::kBlock;
        float step = scale.as<float>()[by_column ? n : 0];
        if (blocks.present()) {
          const int64_t i = side ? n * width + block : block * width + n;
          step = static_cast<float>(load_element(blocks.dtype, blocks.data, i)) * step;
        }
        return static_cast<double>(static_cast<float>(load_element(codes.dtype, codes.data, at)) * step);
      },
      [&](int64_t, int64_t i, int64_t j, double sum) {
        if (c.has(In::kBias)) sum += load_element(c.inputs[In::kBias].dtype, c.inputs[In::kBias].data, j);
        values[i * s.n + j] = static_cast<float>(sum);
      });
  store_rows(c, args.epilogue, values, s.m, s.n);
}

void infer(InferContext& c) {
  const MatMulShape s = epilogue_gemm_shape(c.attrs, c.shape(0), c.shape(In::kCodes));
  const DType codes = c.dtype(In::kCodes);
  const bool coded = c.dtype(0) == DType::f8e4m3fn && codes == DType::f8e4m3fn;
  if (!coded && !contains(RowTypes{}, c.dtype(0)))
    fail("A is {}, expected f32, f16 or bf16, or f8e4m3fn as B", name(c.dtype(0)));
  if (codes != DType::f8e4m3fn && codes != DType::f4e2m1) fail("B is {}, expected f8e4m3fn or f4e2m1", name(codes));
  const bool in_blocks = codes == DType::f4e2m1;
  if (c.attrs.has("a_scale")) {
    const float a_scale = c.attrs.real("a_scale", 0);
    if (!(a_scale > 0) || !std::isnormal(a_scale)) fail("a_scale is {}, expected a normal number above 0", a_scale);
    if (!in_blocks) fail("a_scale, but B is {}, expected f4e2m1", name(codes));
  }
  const Shape& scale = c.shape(In::kScale);
  if (c.dtype(In::kScale) != DType::f32 || !(scale.elements() == 1 || (!in_blocks && scale == Shape{s.n}))) {
    fail("scale is {}{}, expected one f32 number{}", name(c.dtype(In::kScale)), scale.str(),
         in_blocks ? "" : fmt::format(" or [{}]", s.n));
  }
  if (c.has(In::kBlockScales) != in_blocks)
    fail("B is {} {} scales of blocks", name(codes), in_blocks ? "without" : "with");
  if (in_blocks) {
    const int axis = is_transposed(c.attrs) ? 1 : 0;
    const Shape expected = c.shape(In::kCodes).with(axis, (s.k + Fp4Weights::kBlock - 1) / Fp4Weights::kBlock);
    if (c.dtype(In::kBlockScales) != DType::f8e4m3fn || !(c.shape(In::kBlockScales) == expected)) {
      fail("scales of blocks are {}{}, expected f8e4m3fn{}", name(c.dtype(In::kBlockScales)),
           c.shape(In::kBlockScales).str(), expected.str());
    }
  }
  if (c.has(In::kBias) && !(contains(RowTypes{}, c.dtype(In::kBias)) && c.shape(In::kBias) == Shape{s.n})) {
    fail("bias is {}{}, expected [{}] of f32, f16 or bf16", name(c.dtype(In::kBias)), c.shape(In::kBias).str(), s.n);
  }
  check_epilogue(c, s.out, s.n);
  c.output(0, output_dtype(c.attrs, c.dtype(0)), s.out);
}

std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const bool side = is_transposed(e.node.attrs);
  const int64_t depth_axis = side ? 1 : 0, column_axis = 1 - depth_axis;
  ValueId weights;
  if (e.has(In::kBlockScales)) {
    const ValueId steps = b.add("DequantizeLinear", {e.in(In::kBlockScales), e.in(In::kScale)});
    weights = b.add("DequantizeLinear", {e.in(In::kCodes), steps},
                    {{"axis", depth_axis}, {"block_size", Fp4Weights::kBlock}});
  } else {
    weights = b.add("DequantizeLinear", {e.in(In::kCodes), e.in(In::kScale)}, {{"axis", column_axis}});
  }
  const DType to = output_dtype(e.node.attrs, b.dtype(e.in(0)));
  weights = cast_to(b, weights, to);
  ValueId rows = e.in(0);
  if (e.node.attrs.has("a_scale")) {
    const Tensor a_scale = Tensor::scalar(e.node.attrs.real("a_scale", 0));
    rows = b.add("sparkpilot::RoundToNvfp4", {cast_to(b, rows, DType::f32), b.constant(a_scale)});
  }
  std::vector<ValueId> inputs{cast_to(b, rows, to), weights, e.has(In::kBias) ? e.in(In::kBias) : ValueId{}};
  Attributes attrs;
  if (side) attrs.set("transB", int64_t{1});
  move_epilogue(e, e.node.attrs.texts("epilogue"), inputs, attrs);
  return {b.add("sparkpilot::Gemm", inputs, attrs)};
}

double cost(const Problem& p) { return args_of(p).shape.flops(); }

using Texts = std::vector<std::string>;

// A [shape] by codes of 8 bits, [K, N]; `columns` scales.
OpCase fp8_case(const std::string& name, const Shape& a, int64_t n, int64_t columns, const Attributes& attrs = {},
                DType dtype = DType::f32) {
  const int64_t k = a[a.rank() - 1];
  const Shape b = attrs.has("transB") ? Shape{n, k} : Shape{k, n};
  return {name,
          {CaseInput::of(a, dtype), CaseInput::of(b, DType::f8e4m3fn).fixed(),
           CaseInput::range({columns}, 0.01, 0.1).fixed(), CaseInput::none(), CaseInput::of({n}).fixed()},
          attrs};
}

OpCase fp4_case(const std::string& name, const Shape& a, int64_t n, const Attributes& attrs = {},
                DType dtype = DType::f32) {
  const int64_t k = a[a.rank() - 1], blocks = (k + 15) / 16;
  const bool side = attrs.has("transB");
  return {name,
          {CaseInput::of(a, dtype), CaseInput::range(side ? Shape{n, k} : Shape{k, n}, -6, 6, DType::f4e2m1).fixed(),
           CaseInput::range({}, 0.001, 0.01).fixed(),
           CaseInput::range(side ? Shape{n, blocks} : Shape{blocks, n}, 0, 448, DType::f8e4m3fn).fixed(),
           CaseInput::of({n}).fixed()},
          attrs};
}

std::vector<OpCase> cases() {
  constexpr DType kCodes = DType::f8e4m3fn;
  const Attributes to_f16{{"output_dtype", onnx_code(DType::f16)}};
  const Attributes side{{"transB", int64_t{1}}}, steps{{"epilogue", Texts{"gelu_erf", "add:5", "mul:6"}}};
  std::vector<OpCase> all{
      fp8_case("fp8_vector", {1, 517}, 131, 131, {{"epilogue", Texts{"relu"}}}),
      fp8_case("fp8_two_rows_one_scale", {2, 64}, 300, 1),
      fp8_case("fp8_rows_transposed", {3, 7, 33}, 70, 70, side),
      fp8_case("fp8_epilogue", {37, 40}, 24, 24, steps),
      fp4_case("fp4_vector", {1, 517}, 131, {{"epilogue", Texts{"silu"}}}),
      fp4_case("fp4_two_rows_transposed", {2, 64}, 300, side),
      fp4_case("fp4_rows", {3, 7, 33}, 70),
      fp4_case("fp4_epilogue", {37, 40}, 24, steps),
      fp4_case("fp4_one_column", {2, 70}, 1),
      fp8_case("fp8_f16", {3, 7, 33}, 70, 70, side, DType::f16),
      fp8_case("fp8_bf16", {2, 130}, 50, 1, {}, DType::bf16),
      fp8_case("fp8_f16_many_rows", {70, 40}, 24, 24, {}, DType::f16),
      fp4_case("fp4_f16_epilogue", {37, 40}, 24, steps, DType::f16),
      fp4_case("fp4_bf16", {9, 100}, 33, {{"epilogue", Texts{"silu"}}}, DType::bf16),
      fp4_case("fp4_bf16_many_rows", {70, 40}, 24, side, DType::bf16),
      fp4_case("fp4_rounded_vector", {1, 517}, 131, {{"a_scale", 0.0004f}, {"epilogue", Texts{"relu"}}}),
      fp4_case("fp4_rounded_rows", {3, 7, 48}, 70, {{"a_scale", 0.0004f}, {"transB", int64_t{1}}}, DType::f16),
      fp4_case("fp4_rounded_many_rows", {70, 100}, 24, {{"a_scale", 0.0004f}}, DType::bf16),
      fp8_case("fp8_codes_vector", {1, 517}, 131, 131, {{"epilogue", Texts{"relu"}}}, kCodes),
      fp8_case("fp8_codes_rows", {3, 7, 48}, 70, 1, side, kCodes),
      fp8_case("fp8_codes_to_f16", {70, 80}, 24, 24, to_f16, kCodes),
      fp8_case("fp8_codes_epilogue", {37, 40}, 24, 24, steps, kCodes)};
  for (OpCase& each : all) {
    if (!each.name.ends_with("epilogue")) continue;
    each.inputs.push_back(CaseInput::of({37, 24}, each.inputs[0].dtype == kCodes ? DType::f32 : each.inputs[0].dtype));
    each.inputs.push_back(CaseInput::of({24}).fixed());
  }
  // Weights that come at run time.
  OpCase at_run = fp8_case("weights_at_run", {5, 17}, 9, 9);
  for (CaseInput& input : at_run.inputs) input.constant = false;
  all.push_back(at_run);
  for (OpCase& each : all) {
    if (output_dtype(each.attrs, each.inputs[0].dtype) == DType::f32) each.tolerance = 1e-6;
  }
  return all;
}

constexpr AttrSpec kAttrs[] = {{"a_scale", AttrType::real},
                               {"epilogue", AttrType::texts},
                               {"output_dtype", AttrType::integer},
                               {"transB", AttrType::integer}};

AxisSource axes(const Problem& p, int, int axis, size_t input) {
  const Shape &own = p.inputs[input].shape, &y = p.outputs[0].shape;
  const bool column = axis == y.rank() - 1;
  if (input == 0) return column ? whole_input() : same_axis(axis);
  if (input == In::kCodes || input == In::kBlockScales) {
    return column ? same_axis(is_transposed(p.attrs()) ? 0 : 1) : whole_input();
  }
  if (input == In::kScale) return column && own.elements() > 1 ? same_axis(0) : whole_input();
  return broadcast_axis(own, y, axis);
}

constexpr Kernel kCpu[] = {{.name = "simd",
                            .accepts = [](const Problem& p) -> Acceptance {
                              if (p.attrs().has("a_scale")) return "A is rounded to NVFP4";
                              return gemm_small_accepts(p, args_of(p));
                            },
                            .prepare = [](const Problem& p) { return gemm_small_prepare(p, args_of(p)); },
                            .run = gemm_small_run},
                           {.name = "reference", .prepare = prepare, .run = run}};

constexpr Kernel kCuda[] = {
    {.name = "nvfp4",
     .accepts = [](const Problem& p) -> Acceptance { return cuda::fp4_product_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return cuda::fp4_product_prepare(p, args_of(p)); },
     .run = cuda::fp4_product_run},
    {.name = "codes",
     .accepts = [](const Problem& p) -> Acceptance { return cuda::coded_product_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return cuda::coded_product_prepare(p, args_of(p)); },
     .run = cuda::coded_product_run},
    {.name = "decode",
     .accepts = [](const Problem& p) -> Acceptance { return cuda::scaled_product_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return cuda::scaled_product_prepare(p, args_of(p)); },
     .run = cuda::scaled_product_run,
     .variants = [](const Problem& p) { return cuda::scaled_product_variants(p, args_of(p)); },
     .take_variant = [](const Problem& p, std::string_view variant,
                        KernelState& state) { cuda::scaled_product_take_variant(p, args_of(p), variant, state); }},
    {.name = "decoded",
     .accepts = [](const Problem& p) -> Acceptance { return cuda::decoded_product_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return cuda::decoded_product_prepare(p, args_of(p)); },
     .run = cuda::product_run,
     .variants = [](const Problem& p) { return cuda::decoded_product_variants(p, args_of(p)); },
     .take_variant = [](const Problem& p, std::string_view variant,
                        KernelState& state) { cuda::decoded_product_take_variant(p, args_of(p), variant, state); }}};

const OpDef kOps[] = {{.name = "ScaledGemm",
                       .domain = "sparkpilot",
                       .doc = "Rows times a matrix of 8 or 4 bits that is decoded while it is read, with an epilogue.",
                       .since = 1,
                       .inputs = {3, kMany},
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

}  // namespace sparkpilot::scaled_gemm_ops
