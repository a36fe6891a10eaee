#include "ops/cpu/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/cpu/vector/vector_math.h"

namespace sparkpilot {
namespace {

struct Known {
  std::string_view name;  // in lower case; models use any case
  CellActivation::Kind kind;
  float alpha, beta;
  bool takes_alpha, takes_beta;
};
constexpr Known kKnown[] = {{"relu", CellActivation::relu, 0, 0, false, false},
                            {"tanh", CellActivation::tanh, 0, 0, false, false},
                            {"sigmoid", CellActivation::sigmoid, 0, 0, false, false},
                            {"affine", CellActivation::affine, 1, 0, true, true},
                            {"leakyrelu", CellActivation::leaky_relu, 0.01f, 0, true, false},
                            {"thresholdedrelu", CellActivation::thresholded_relu, 1, 0, true, false},
                            {"scaledtanh", CellActivation::scaled_tanh, 1, 1, true, true},
                            {"hardsigmoid", CellActivation::hard_sigmoid, 0.2f, 0.5f, true, true},
                            {"elu", CellActivation::elu, 1, 0, true, false},
                            {"softsign", CellActivation::softsign, 0, 0, false, false},
                            {"softplus", CellActivation::softplus, 0, 0, false, false}};

const Known& known(const std::string& name) {
  std::string lower = name;
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  for (const Known& k : kKnown) {
    if (k.name == lower) return k;
  }
  fail("activation \"{}\" is unknown", name);
}

// Parameters are assigned from the lists in order, to the functions that have them.
std::vector<CellActivation> parse_functions(const RecurrentKind& kind, int64_t directions, const Attributes& attrs) {
  std::vector<std::string> names = attrs.texts("activations");
  const size_t expected = kind.functions.size() * static_cast<size_t>(directions);
  while (!attrs.has("activations") && names.size() < expected) {
    names.emplace_back(kind.functions[names.size() % kind.functions.size()]);
  }
  if (names.size() != expected) fail("{} activations given, expected {}", names.size(), expected);
  const std::vector<float> alphas = attrs.reals("activation_alpha"), betas = attrs.reals("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<CellActivation> out;
  for (const std::string& name : names) {
    const Known& k = known(name);
    CellActivation function{k.kind, k.alpha, k.beta};
    if (k.takes_alpha && alpha < alphas.size()) function.alpha = alphas[alpha++];
    if (k.takes_beta && beta < betas.size()) function.beta = betas[beta++];
    out.push_back(function);
  }
  return out;
}

}  // namespace

double CellActivation::operator()(double x) const {
  switch (kind) {
    case relu: return std::max(x, 0.0);
    case tanh: return std::tanh(x);
    case sigmoid: return 1 / (1 + std::exp(-x));
    case affine: return alpha * x + beta;
    case leaky_relu: return x >= 0 ? x : alpha * x;
    case thresholded_relu: return x >= alpha ? x : 0;
    case scaled_tanh: return alpha * std::tanh(beta * x);
    case hard_sigmoid: return std::clamp(alpha * x + beta, 0.0, 1.0);
    case elu: return x >= 0 ? x : alpha * std::expm1(x);
    case softsign: return x / (1 + std::abs(x));
    case softplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

void CellActivation::apply(float* x, int64_t n) const {
  const auto as = [&](Activation activation) { apply_activation(activation, alpha, beta, x, x, n); };
  switch (kind) {
    case relu: return as(Activation::relu);
    case tanh: return as(Activation::tanh);
    case sigmoid: return as(Activation::sigmoid);
    case affine: return vector_scale_shift(x, alpha, beta, x, n);
    case leaky_relu: return as(Activation::leaky_relu);
    case thresholded_relu:
      for (int64_t i = 0; i < n; ++i) x[i] = x[i] >= alpha ? x[i] : 0;
      return;
    case scaled_tanh:
      vector_scale_shift(x, beta, 0, x, n);
      as(Activation::tanh);
      return vector_scale_shift(x, alpha, 0, x, n);
    case hard_sigmoid: return as(Activation::hard_sigmoid);
    case elu: return as(Activation::elu);
    case softsign: return as(Activation::softsign);
    case softplus: return as(Activation::softplus);
  }
}

Recurrent parse_recurrent(const RecurrentKind& kind, const Shape& x, const Shape& rm, const Attributes& attrs) {
  Recurrent r;
  if (x.rank() != 3 || rm.rank() != 3) fail("X and R have ranks {} and {}, expected 3", x.rank(), rm.rank());
  const int64_t layout = attrs.integer("layout", 0);
  if (layout != 0 && layout != 1) fail("layout is {}, expected 0 or 1", layout);
  r.batch_first = layout == 1;
  r.steps = x[r.batch_first ? 1 : 0];
  r.batch = x[r.batch_first ? 0 : 1];
  r.input = x[2];
  r.hidden = rm[2];
  r.gates = kind.gates;
  const std::string direction = attrs.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    fail("direction is \"{}\"", direction);
  }
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.reversed = direction == "reverse";
  r.clip = attrs.real("clip", 0);
  r.functions_each = kind.functions.size();
  r.functions = parse_functions(kind, r.directions, attrs);
  return r;
}

int64_t sequence_length(const Call& c, const Recurrent& r, int64_t b) {
  if (!c.has(kLengths)) return r.steps;
  const int64_t length = c.inputs[kLengths].as<int32_t>()[b];
  if (length < 0 || length > r.steps) fail("sequence_lens[{}] is {}, there are {} steps", b, length, r.steps);
  return length;
}

std::unique_ptr<RecurrentReference> prepare_recurrent_reference(const Problem& p, const RecurrentKind& kind) {
  auto state = std::make_unique<RecurrentReference>();
  state->r = parse_recurrent(kind, p.inputs[kX].shape, p.inputs[kR].shape, p.attrs());
  state->slots = std::clamp<int64_t>(state->r.directions * state->r.batch, 1, 64);
  state->workspace = state->slots * state->slot_doubles() * static_cast<int64_t>(sizeof(double));
  return state;
}

}  // namespace sparkpilot
