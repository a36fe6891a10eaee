// GRU. With z, r, h the gates W x + b (in this order in the weights):
//   z = f(z + Rz h), r = f(r + Rr h), n = g(h + Rh (r h)) or, with linear_before_reset, g(h + r (Rh h + Rbh)),
//   h' = (1 - z) n + z h.
#include "ops/cpu/recurrent/recurrent.h"
#include "ops/cpu/recurrent/recurrent_simd.h"
#include "ops/cpu/vector/vector_math.h"
#include "ops/recurrent/infer_recurrent.h"
#include "ops/registry.h"

namespace sparkpilot::gru_ops {
namespace {

RecurrentKind kind() { return {3, false, {"sigmoid", "tanh"}}; }
bool reset_after(const Attributes& attrs) { return attrs.integer("linear_before_reset", 0) != 0; }

void run_reference(const Call& c) {
  const bool after = reset_after(c.attrs());
  run_recurrent_reference(c, [&]<typename T>(CellStep& s, const auto& recur) {
    const int64_t n = s.r.hidden;
    double *z = s.scratch, *r = s.scratch + n, *hidden = s.h_part + 2 * n;
    for (int64_t k = 0; k < n; ++k) {
      z[k] = s.apply(0, s.x_part[k] + s.h_part[k]);
      r[k] = s.apply(0, s.x_part[n + k] + s.h_part[n + k]);
    }
    if (!after) {
      for (int64_t k = 0; k < n; ++k) s.h_part[k] = r[k] * s.h[k];
      recur(2 * n, n, s.h_part, hidden);
    }
    for (int64_t k = 0; k < n; ++k) {
      const double fresh = s.apply(1, s.x_part[2 * n + k] + (after ? r[k] * hidden[k] : hidden[k]));
      s.h[k] = (1 - z[k]) * fresh + z[k] * s.h[k];
    }
  });
}

// h' = n + z (h - n)
void blend(const float* z, float* fresh, float* h, int64_t n) {
  vector_binary(BinaryMath::sub, h, fresh, h, n);
  vector_multiply_add(z, h, fresh, h, n);
}

void step_reset_before(const BatchStep& s) {
  const int64_t n = s.r.hidden, rows = s.r.rows();
  s.weights.r.multiply_add(s.h, n, s.gates, rows, s.r.batch);
  for (int64_t b = 0; b < s.r.batch; ++b) {
    float* g = s.gates + b * rows;
    s.clip(g, 2 * n);
    s.function(0).apply(g, 2 * n);
    vector_binary(BinaryMath::mul, g + n, s.h + b * n, s.scratch + b * n, n);
  }
  s.weights.r_last.multiply_add(s.scratch, n, s.gates + 2 * n, rows, s.r.batch);
  for (int64_t b = 0; b < s.r.batch; ++b) {
    float* g = s.gates + b * rows;
    if (!s.active(b)) continue;
    s.clip(g + 2 * n, n);
    s.function(1).apply(g + 2 * n, n);
    blend(g, g + 2 * n, s.h + b * n, n);
  }
}

void step_reset_after(const BatchStep& s) {
  const int64_t n = s.r.hidden, rows = s.r.rows();
  for (int64_t b = 0; b < s.r.batch; ++b) {
    float* to = s.scratch + b * rows;
    std::fill_n(to, 2 * n, 0.0f);
    std::copy_n(s.weights.last_r_bias.data(), n, to + 2 * n);
  }
  s.weights.r.multiply_add(s.h, n, s.scratch, rows, s.r.batch);
  for (int64_t b = 0; b < s.r.batch; ++b) {
    float *g = s.gates + b * rows, *recurrent = s.scratch + b * rows;
    if (!s.active(b)) continue;
    vector_binary(BinaryMath::add, g, recurrent, g, 2 * n);
    s.clip(g, 2 * n);
    s.function(0).apply(g, 2 * n);
    vector_multiply_add(g + n, recurrent + 2 * n, g + 2 * n, g + 2 * n, n);
    s.clip(g + 2 * n, n);
    s.function(1).apply(g + 2 * n, n);
    blend(g, g + 2 * n, s.h + b * n, n);
  }
}

void run_simd(const Call& c) { run_recurrent_simd(c, reset_after(c.attrs()) ? step_reset_after : step_reset_before); }

std::vector<OpCase> cases() {
  const auto x = CaseInput::of({7, 3, 5}), w = CaseInput::range({1, 27, 5}, -0.5, 0.5).fixed();
  const auto r = CaseInput::range({1, 27, 9}, -0.5, 0.5).fixed(), b = CaseInput::of({1, 54}).fixed();
  const auto lengths = CaseInput::value(Tensor::of<int32_t>({3}, {7, 0, 4}));
  const auto both = [](const Shape& shape) { return CaseInput::range(shape, -0.5, 0.5).fixed(); };
  const int64_t one = 1;
  return {
      {"plain", {x, w, r}, {{"hidden_size", int64_t{9}}}, 2},
      {"reset_after", {x, w, r, b, lengths, CaseInput::of({1, 3, 9})}, {{"linear_before_reset", one}}, 2},
      {"both",
       {x, both({2, 27, 5}), both({2, 27, 9}), both({2, 54}), lengths, CaseInput::of({2, 3, 9})},
       {{"direction", "bidirectional"}, {"clip", 0.7f}},
       2},
      {"batch_first", {CaseInput::of({3, 7, 5}), w, r, b}, {{"direction", "reverse"}, {"layout", one}}, 2},
      {"wide", {CaseInput::of({3, 1, 16}), both({1, 210, 16}), both({1, 210, 70})}, {{"linear_before_reset", one}}, 2},
      {"f64",
       {CaseInput::of({3, 1, 2}, DType::f64), CaseInput::of({1, 9, 2}, DType::f64),
        CaseInput::of({1, 9, 3}, DType::f64)},
       {},
       2}};
}

constexpr AttrSpec kAttrs[] = {{"activation_alpha", AttrType::reals},
                               {"activation_beta", AttrType::reals},
                               {"activations", AttrType::texts},
                               {"clip", AttrType::real},
                               {"direction", AttrType::text},
                               {"hidden_size", AttrType::integer},
                               {"linear_before_reset", AttrType::integer},
                               {"layout", AttrType::integer},
                               {"output_sequence", AttrType::integer}};
constexpr Kernel kCpu[] = {
    {.name = "simd",
     .accepts = accepts_recurrent_simd,
     .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> {
       return prepare_recurrent_simd(p, kind(), reset_after(p.attrs()) ? LastGate::own_bias : LastGate::own_product);
     },
     .run = run_simd},
    {.name = "reference",
     .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> { return prepare_recurrent_reference(p, kind()); },
     .run = run_reference}};

const OpDef kOps[] = {{.name = "GRU",
                       .doc = "Gated recurrent unit over a sequence.",
                       .since = 1,
                       .inputs = {3, 6},
                       .outputs = {0, 2},
                       .attributes = kAttrs,
                       .traits = {.multiply_adds = true},
                       .infer = [](InferContext& c) { infer_recurrent(c, kind()); },
                       .axes = axes_of_recurrent,
                       .cpu = kCpu,
                       .no_gradient = no_gradient::kRecurrent,
                       .cost = [](const Problem& p) { return recurrent_cost(p, 3); },
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::gru_ops
