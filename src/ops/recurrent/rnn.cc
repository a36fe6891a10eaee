// RNN: h' = f(W x + R h + b).
#include "ops/cpu/recurrent/recurrent.h"
#include "ops/cpu/recurrent/recurrent_simd.h"
#include "ops/cpu/vector/vector_math.h"
#include "ops/recurrent/infer_recurrent.h"
#include "ops/registry.h"

namespace sparkpilot::rnn_ops {
namespace {

RecurrentKind kind() { return {1, false, {"tanh"}}; }

void run_reference(const Call& c) {
  run_recurrent_reference(c, [&]<typename T>(CellStep& s, const auto&) {
    for (int64_t k = 0; k < s.r.hidden; ++k) s.h[k] = s.apply(0, s.x_part[k] + s.h_part[k]);
  });
}

void step(const BatchStep& s) {
  const int64_t n = s.r.hidden;
  s.weights.r.multiply_add(s.h, n, s.gates, n, s.r.batch);
  for (int64_t b = 0; b < s.r.batch; ++b) {
    if (!s.active(b)) continue;
    s.clip(s.gates + b * n, n);
    s.function(0).apply(s.gates + b * n, n);
    std::copy_n(s.gates + b * n, n, s.h + b * n);
  }
}

std::vector<OpCase> cases() {
  const auto x = CaseInput::of({7, 3, 5}), w = CaseInput::range({1, 9, 5}, -0.5, 0.5).fixed();
  const auto r = CaseInput::range({1, 9, 9}, -0.5, 0.5).fixed();
  const auto lengths = CaseInput::value(Tensor::of<int32_t>({3}, {7, 2, 4}));
  const auto both = [](const Shape& shape) { return CaseInput::range(shape, -0.5, 0.5).fixed(); };
  const std::vector<std::string> functions{"Relu", "Affine"};
  const std::vector<float> alpha{0.5f}, beta{0.1f};
  return {
      {"plain", {x, w, r}, {{"hidden_size", int64_t{9}}}, 2},
      {"clipped", {x, w, r, CaseInput::of({1, 18}).fixed(), lengths, CaseInput::of({1, 3, 9})}, {{"clip", 0.4f}}, 2},
      {"both",
       {x, both({2, 9, 5}), both({2, 9, 9}), both({2, 18}), lengths},
       {{"direction", "bidirectional"},
        {"activations", functions},
        {"activation_alpha", alpha},
        {"activation_beta", beta}},
       2},
      {"bf16",
       {CaseInput::of({3, 1, 2}, DType::bf16), CaseInput::of({1, 3, 2}, DType::bf16),
        CaseInput::of({1, 3, 3}, DType::bf16)},
       {},
       2}};
}

constexpr AttrSpec kAttrs[] = {{"activation_alpha", AttrType::reals}, {"activation_beta", AttrType::reals},
                               {"activations", AttrType::texts},      {"clip", AttrType::real},
                               {"direction", AttrType::text},         {"hidden_size", AttrType::integer},
                               {"layout", AttrType::integer},         {"output_sequence", AttrType::integer}};
constexpr Kernel kCpu[] = {
    {.name = "simd",
     .accepts = accepts_recurrent_simd,
     .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> {
       return prepare_recurrent_simd(p, kind(), LastGate::joined);
     },
     .run = [](const Call& c) { run_recurrent_simd(c, step); }},
    {.name = "reference",
     .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> { return prepare_recurrent_reference(p, kind()); },
     .run = run_reference}};

const OpDef kOps[] = {{.name = "RNN",
                       .doc = "Simple recurrent net over a sequence.",
                       .since = 1,
                       .inputs = {3, 6},
                       .outputs = {0, 2},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true},
                       .infer = [](InferContext& c) { infer_recurrent(c, kind()); },
                       .axes = axes_of_recurrent,
                       .cpu = kCpu,
                       .no_gradient = no_gradient::kRecurrent,
                       .cost = [](const Problem& p) { return recurrent_cost(p, 1); },
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::rnn_ops
