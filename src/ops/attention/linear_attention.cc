// LinearAttention: attention as a recurrence over tokens with a matrix S of keys by values for each head:
//   S = exp(g) S + k (b (v - exp(g) S^T k)) or, without the delta rule, S = exp(g) S + k v;   o = scale q^T S
// where the decay g is 0 and the rate b is 1 for the update rules without them.
#include <cmath>
#include <string>

#include "base/parallel.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::linear_attention_ops {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kPast, kDecay, kBeta };

struct Layout {
  int64_t batch, tokens, q_heads, kv_heads, key_size, value_size;
  bool gated, delta;
  double scale;
};

Layout layout_of(const Shape& q, const Shape& v, const Attributes& attrs) {
  Layout l{};
  l.batch = q[0], l.tokens = q[1];
  l.q_heads = attrs.integer("q_num_heads"), l.kv_heads = attrs.integer("kv_num_heads");
  if (l.q_heads < 1 || l.kv_heads < 1 || l.q_heads % l.kv_heads != 0) {
    fail("{} query heads do not share {} heads of keys evenly", l.q_heads, l.kv_heads);
  }
  if (q[2] % l.q_heads != 0) fail("query of width {} does not hold {} heads", q[2], l.q_heads);
  if (v[2] % l.kv_heads != 0) fail("value of width {} does not hold {} heads", v[2], l.kv_heads);
  l.key_size = q[2] / l.q_heads;
  l.value_size = v[2] / l.kv_heads;
  const std::string rule = attrs.text("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    fail("update_rule is \"{}\"", rule);
  }
  l.gated = rule == "gated" || rule == "gated_delta";
  l.delta = rule == "delta" || rule == "gated_delta";
  l.scale = attrs.real("scale", 0);
  if (l.scale == 0) l.scale = l.key_size > 0 ? 1 / std::sqrt(static_cast<double>(l.key_size)) : 1;
  return l;
}

// Scratch of one head: the state, and what the delta rule writes.
struct LinearState final : KernelState {
  Layout l{};
  int64_t head_doubles() const { return (l.key_size + 1) * l.value_size; }
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<LinearState>();
  state->l = layout_of(p.inputs[kQuery].shape, p.inputs[kValue].shape, p.attrs());
  state->workspace = state->l.batch * state->l.kv_heads * state->head_doubles() * static_cast<int64_t>(sizeof(double));
  return state;
}

// Computes one key head of one batch entry, for all tokens.
template <typename T>
void run_head(const Call& c, const Layout& l, int64_t b, int64_t head, double* s, double* write) {
  const auto at = [&](size_t input, int64_t t, int64_t index) {
    const ConstView& view = c.inputs[input];
    return static_cast<double>(view.as<T>()[(b * l.tokens + t) * view.shape[2] + index]);
  };
  const int64_t keys = l.key_size, values = l.value_size, group = l.q_heads / l.kv_heads;
  for (int64_t t = 0; t < l.tokens; ++t) {
    const bool decay_of_head = l.gated && c.inputs[kDecay].shape[2] == l.kv_heads;
    for (int64_t i = 0; i < keys && l.gated; ++i) {
      const double decay = std::exp(at(kDecay, t, decay_of_head ? head : head * keys + i));
      for (int64_t j = 0; j < values; ++j) s[i * values + j] *= decay;
    }
    const double rate = l.delta ? at(kBeta, t, c.inputs[kBeta].shape[2] == 1 ? 0 : head) : 1;
    for (int64_t j = 0; j < values; ++j) {
      write[j] = at(kValue, t, head * values + j);
      for (int64_t i = 0; i < keys && l.delta; ++i) write[j] -= s[i * values + j] * at(kKey, t, head * keys + i);
      write[j] *= rate;
    }
    for (int64_t i = 0; i < keys; ++i) {
      const double key = at(kKey, t, head * keys + i);
      for (int64_t j = 0; j < values; ++j) s[i * values + j] += key * write[j];
    }
    for (int64_t h = head * group; h < (head + 1) * group; ++h) {
      T* out = c.outputs[0].as<T>() + ((b * l.tokens + t) * l.q_heads + h) * values;
      for (int64_t j = 0; j < values; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < keys; ++i) sum += at(kQuery, t, h * keys + i) * s[i * values + j];
        out[j] = T(static_cast<Compute<T>>(l.scale * sum));
      }
    }
  }
}

void run(const Call& c) {
  const auto& state = c.as<LinearState>();
  const Layout& l = state.l;
  const int64_t cells = l.key_size * l.value_size;
  dispatch(FloatTypes{}, c.inputs[kQuery].dtype, [&]<typename T>() {
    parallel_for(l.batch * l.kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double* s = reinterpret_cast<double*>(c.workspace) + i * state.head_doubles();
        const bool past = c.has(kPast);
        for (int64_t k = 0; k < cells; ++k) {
          s[k] = past ? load_element(c.inputs[kPast].dtype, c.inputs[kPast].data, i * cells + k) : 0.0;
        }
        run_head<T>(c, l, i / l.kv_heads, i % l.kv_heads, s, s + cells);
        if (c.outputs.size() < 2 || !c.outputs[1].present()) continue;
        for (int64_t k = 0; k < cells; ++k) store_element(c.outputs[1].dtype, c.outputs[1].data, i * cells + k, s[k]);
      }
    });
  });
}

void infer(InferContext& c) {
  expect_float(c, kQuery);
  for (const int i : {0, 1, 2}) {
    expect_same_dtype(c, i, 0);
    expect_rank(c, i, 3, 3);
  }
  const Layout l = layout_of(c.shape(kQuery), c.shape(kValue), c.attrs);
  expect_shape(c, kKey, {l.batch, l.tokens, Shape{l.kv_heads, l.key_size}.elements()});
  expect_shape(c, kValue, {l.batch, l.tokens, c.shape(kValue)[2]});
  const Shape state{l.batch, l.kv_heads, l.key_size, l.value_size};
  if (c.has(kPast)) {
    expect_float(c, kPast);
    expect_shape(c, kPast, state);
  }
  const auto check = [&](int input, bool wanted, const char* what, int64_t wide) {
    if (c.has(input) != wanted) fail("this update rule {} {}", wanted ? "needs" : "has no", what);
    if (!wanted) return;
    expect_same_dtype(c, input, 0);
    expect_rank(c, input, 3, 3);
    const int64_t last = c.shape(input)[2];
    expect_shape(c, input, {l.batch, l.tokens, last == wide ? wide : l.kv_heads});
  };
  check(kDecay, l.gated, "decay", l.kv_heads * l.key_size);
  check(kBeta, l.delta, "beta", 1);
  c.output(0, c.dtype(0), {l.batch, l.tokens, Shape{l.q_heads, l.value_size}.elements()});
  c.output(1, c.has(kPast) ? c.dtype(kPast) : c.dtype(0), state);
}

double cost(const Problem& p) {
  const Layout l = layout_of(p.inputs[kQuery].shape, p.inputs[kValue].shape, p.attrs());
  return static_cast<double>(l.batch * l.tokens) * static_cast<double>(l.key_size * l.value_size) *
         static_cast<double>(5 * l.kv_heads + 2 * l.q_heads);
}

std::vector<OpCase> cases() {
  const auto heads = [](const char* rule) {
    return Attributes{{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"update_rule", rule}};
  };
  const auto q = CaseInput::of({2, 3, 20}), k = CaseInput::of({2, 3, 10}), v = CaseInput::of({2, 3, 6});
  const auto none = CaseInput::none(), past = CaseInput::of({2, 2, 5, 3});
  const auto decay = CaseInput::range({2, 3, 10}, -1, 0), beta = CaseInput::range({2, 3, 2}, 0, 1);
  return {{"linear", {q, k, v}, heads("linear"), 2},
          {"gated", {q, k, v, past, CaseInput::range({2, 3, 2}, -1, 0)}, heads("gated"), 2},
          {"delta", {q, k, v, none, none, beta}, heads("delta"), 1},
          {"gated_delta", {q, k, v, past, decay, CaseInput::range({2, 3, 1}, 0, 1)}, heads("gated_delta"), 2}};
}

constexpr AttrSpec kAttrs[] = {{"chunk_size", AttrType::integer},
                               {"kv_num_heads", AttrType::integer, true},
                               {"q_num_heads", AttrType::integer, true},
                               {"scale", AttrType::real},
                               {"update_rule", AttrType::text}};
constexpr Kernel kCpu[] = {{.name = "reference", .prepare = prepare, .run = run}};

const OpDef kOps[] = {{.name = "LinearAttention",
                       .doc = "Attention as a recurrence over a matrix of keys by values.",
                       .since = 27,
                       .inputs = {3, 6},
                       .outputs = {1, 2},
                       .attributes = kAttrs,
                       .infer = infer,
                       .cpu = kCpu,
                       .no_gradient = no_gradient::kRecurrent,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::linear_attention_ops
