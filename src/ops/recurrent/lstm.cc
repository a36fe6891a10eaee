// LSTM. With i, o, f, c the gates W x + R h + b (in this order in the weights), and P the optional peepholes:
//   i = f(i + Pi C), f = f(f + Pf C), C' = f C + i g(c), o = f(o + Po C'), h' = o h(C').
//
// The attribute `clip` limits the gates before their functions but not C, as in other engines.
#include "ops/cpu/recurrent/recurrent.h"
#include "ops/cpu/recurrent/recurrent_simd.h"
#include "ops/cpu/vector/vector_math.h"
#include "ops/recurrent/infer_recurrent.h"
#include "ops/registry.h"

namespace sparkpilot::lstm_ops {
namespace {

RecurrentKind kind() { return {4, true, {"sigmoid", "tanh", "tanh"}}; }

void run_reference(const Call& c) {
  const bool coupled = c.attrs().integer("input_forget", 0) != 0;
  run_recurrent_reference(c, [&]<typename T>(CellStep& s, const auto&) {
    const int64_t n = s.r.hidden;
    const T* p = c.has(kPeepholes) ? c.inputs[kPeepholes].as<T>() + s.direction * 3 * n : nullptr;
    for (int64_t k = 0; k < n; ++k) {
      const auto gate = [&](int64_t g) { return s.x_part[g * n + k] + s.h_part[g * n + k]; };
      const auto peep = [&](int64_t g) { return p ? static_cast<double>(p[g * n + k]) * s.cell[k] : 0.0; };
      const double i = s.apply(0, gate(0) + peep(0));
      const double f = coupled ? 1 - i : s.apply(0, gate(2) + peep(2));
      s.cell[k] = f * s.cell[k] + i * s.apply(1, gate(3));
      s.h[k] = s.apply(0, gate(1) + peep(1)) * s.r.functions_of(s.direction)[2](s.cell[k]);
    }
  });
}

// One step of one sequence on vectors; g holds the four gates.
void step_row(const BatchStep& s, float* g, float* h, float* cell, bool coupled) {
  const int64_t n = s.r.hidden;
  float *i = g, *o = g + n, *f = g + 2 * n, *c = g + 3 * n;
  const float* p = s.peepholes;
  if (p) {
    vector_multiply_add(p, cell, i, i, n);
    vector_multiply_add(p + 2 * n, cell, f, f, n);
    s.clip(i, n);
    s.clip(f, 2 * n);
    s.function(0).apply(i, n);
    s.function(0).apply(f, n);
  } else {
    s.clip(g, 4 * n);
    s.function(0).apply(g, 3 * n);  // i, o and f are adjacent
  }
  if (coupled) vector_scale_shift(i, -1, 1, f, n);
  s.function(1).apply(c, n);
  vector_binary(BinaryMath::mul, i, c, c, n);
  vector_multiply_add(f, cell, c, cell, n);
  if (p) {
    vector_multiply_add(p + n, cell, o, o, n);
    s.clip(o, n);
    s.function(0).apply(o, n);
  }
  std::copy_n(cell, n, c);
  s.function(2).apply(c, n);
  vector_binary(BinaryMath::mul, o, c, h, n);
}

template <bool kCoupled>
void step(const BatchStep& s) {
  const int64_t n = s.r.hidden, rows = s.r.rows();
  s.weights.r.multiply_add(s.h, n, s.gates, rows, s.r.batch);
  for (int64_t b = 0; b < s.r.batch; ++b) {
    if (s.active(b)) step_row(s, s.gates + b * rows, s.h + b * n, s.cell + b * n, kCoupled);
  }
}

void run_simd(const Call& c) {
  run_recurrent_simd(c, c.attrs().integer("input_forget", 0) != 0 ? step<true> : step<false>);
}

std::vector<OpCase> cases() {
  const auto x = CaseInput::of({7, 3, 5}), w = CaseInput::range({1, 36, 5}, -0.5, 0.5).fixed();
  const auto r = CaseInput::range({1, 36, 9}, -0.5, 0.5).fixed(), b = CaseInput::of({1, 72}).fixed();
  const auto none = CaseInput::none();
  const auto lengths = CaseInput::value(Tensor::of<int32_t>({3}, {7, 1, 4}));
  const auto state = CaseInput::of({1, 3, 9}), states = CaseInput::of({2, 3, 9});
  const auto both = [](const Shape& shape) { return CaseInput::range(shape, -0.5, 0.5).fixed(); };
  const auto batch_first = CaseInput::of({3, 7, 5}), p = CaseInput::of({2, 27});
  const auto batch_states = CaseInput::of({3, 2, 9});
  const std::vector<std::string> odd{"HardSigmoid", "Softsign", "ScaledTanh"};
  return {{"plain", {x, w, r}, {{"hidden_size", int64_t{9}}}, 3},
          {"biased", {x, w, r, b, lengths, state, state}, {{"direction", "reverse"}}, 3},
          {"both_peepholes",
           {x, both({2, 36, 5}), both({2, 36, 9}), both({2, 72}), lengths, states, states, p},
           {{"direction", "bidirectional"}, {"clip", 0.7f}},
           3},
          {"batch_first",
           {batch_first, both({2, 36, 5}), both({2, 36, 9}), none, none, batch_states, batch_states},
           {{"direction", "bidirectional"}, {"layout", int64_t{1}}},
           3},
          {"coupled", {x, w, r, b}, {{"input_forget", int64_t{1}}, {"activations", odd}, {"clip", 1.5f}}, 3},
          {"long", {CaseInput::of({70, 2, 5}), w, r, b}, {}, 3},
          {"f16",
           {CaseInput::of({3, 1, 2}, DType::f16), CaseInput::of({1, 12, 2}, DType::f16),
            CaseInput::of({1, 12, 3}, DType::f16)},
           {},
           3}};
}

constexpr AttrSpec kAttrs[] = {{"activation_alpha", AttrType::reals}, {"activation_beta", AttrType::reals},
                               {"activations", AttrType::texts},      {"clip", AttrType::real},
                               {"direction", AttrType::text},         {"hidden_size", AttrType::integer},
                               {"input_forget", AttrType::integer},   {"layout", AttrType::integer},
                               {"output_sequence", AttrType::integer}};
constexpr Kernel kCpu[] = {
    {.name = "simd",
     .accepts = accepts_recurrent_simd,
     .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> {
       return prepare_recurrent_simd(p, kind(), LastGate::joined);
     },
     .run = run_simd},
    {.name = "reference",
     .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> { return prepare_recurrent_reference(p, kind()); },
     .run = run_reference}};

const OpDef kOps[] = {{.name = "LSTM",
                       .doc = "Long short-term memory over a sequence.",
                       .since = 1,
                       .inputs = {3, 8},
                       .outputs = {0, 3},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true},
                       .infer = [](InferContext& c) { infer_recurrent(c, kind()); },
                       .axes = axes_of_recurrent,
                       .cpu = kCpu,
                       .no_gradient = no_gradient::kRecurrent,
                       .cost = [](const Problem& p) { return recurrent_cost(p, 4); },
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::lstm_ops
