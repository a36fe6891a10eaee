// The optimizers of ai.onnx.preview.training, expanded to simpler nodes. Inputs are the learning rate R, the update
// count T, then the tensors X, their gradients G and the moments that the method keeps, each group in the same order;
// outputs are the new X and the new moments.
#include <string>

#include "ops/registry.h"

namespace sparkpilot::optimizers_ops {
namespace {

// Arithmetic nodes on values of one dtype.
struct Maths {
  Builder& b;
  DType dtype;
  ValueId number(double v) { return b.scalar(dtype, v); }
  ValueId cast(ValueId v) { return b.dtype(v) == dtype ? v : b.add("Cast", {v}, {{"to", onnx_code(dtype)}}); }
  ValueId add(ValueId x, ValueId y) { return b.add("Add", {x, y}); }
  ValueId sub(ValueId x, ValueId y) { return b.add("Sub", {x, y}); }
  ValueId mul(ValueId x, ValueId y) { return b.add("Mul", {x, y}); }
  ValueId scaled(double factor, ValueId x) { return factor == 1 ? x : mul(number(factor), x); }
  ValueId div(ValueId x, ValueId y) { return b.add("Div", {x, y}); }
  ValueId sqrt(ValueId x) { return b.add("Sqrt", {x}); }
  // v if the count is above 0, else w
  ValueId after_first(ValueId count, ValueId v, ValueId w) {
    const ValueId later = b.add("Greater", {count, b.constant(Tensor::scalar<int64_t>(0))});
    return b.add("Where", {later, v, w});
  }
  // G + norm_coefficient * X
  ValueId regularized(const Attributes& attrs, ValueId x, ValueId g) {
    const double norm = attrs.real("norm_coefficient", 0);
    return norm == 0 ? g : add(scaled(norm, x), g);
  }
};

// The update of one tensor: from X, G and the moments to the new X and moments.
using Update = std::vector<ValueId> (*)(Maths&, const Attributes&, ValueId rate, ValueId count,
                                        const std::vector<ValueId>& state);

std::vector<ValueId> expand(ExpandContext& e, size_t moments, Update update) {
  const size_t group = moments + 2, total = e.node.inputs.size();
  if (total < 2 + group || (total - 2) % group != 0) {
    fail("{} inputs do not make groups of X, gradient and {} moments behind rate and count", total, moments);
  }
  for (size_t i = 0; i < 2; ++i) {
    if (!e.has(i) || e.b.shape(e.in(i)).elements() != 1) fail("input {} is no single number", i);
  }
  if (e.b.dtype(e.in(1)) != DType::i64) fail("the count is {}, expected i64", name(e.b.dtype(e.in(1))));
  const size_t tensors = (total - 2) / group;
  std::vector<ValueId> outputs(tensors * (moments + 1));
  for (size_t t = 0; t < tensors; ++t) {
    std::vector<ValueId> state;
    for (size_t i = 0; i < group; ++i) {
      const size_t input = 2 + i * tensors + t;
      if (!e.has(input)) fail("input {} is missing", input);
      if (i > 0 && !(e.b.shape(e.in(input)) == e.b.shape(state[0]))) {
        fail("input {} has shape {}, its tensor {}", input, e.b.shape(e.in(input)).str(), e.b.shape(state[0]).str());
      }
      state.push_back(e.in(input));
    }
    Maths m{e.b, e.b.dtype(state[0])};
    if (!contains(FloatTypes{}, m.dtype)) fail("input {} is {}, expected a float type", 2 + t, name(m.dtype));
    for (ValueId& v : state) v = m.cast(v);
    const ValueId scalar = e.b.ints(std::initializer_list<int64_t>{});
    const ValueId rate = m.cast(e.b.add("Reshape", {e.in(0), scalar}));
    const ValueId count = e.b.add("Reshape", {e.in(1), scalar});
    const std::vector<ValueId> result = update(m, e.node.attrs, rate, count, state);
    for (size_t i = 0; i < result.size(); ++i) outputs[i * tensors + t] = result[i];
  }
  return outputs;
}

std::vector<ValueId> adagrad(Maths& m, const Attributes& attrs, ValueId rate, ValueId count,
                             const std::vector<ValueId>& s) {
  const double decay = attrs.real("decay_factor", 0), epsilon = attrs.real("epsilon", 1e-6f);
  if (decay != 0) rate = m.div(rate, m.add(m.number(1), m.scaled(decay, m.cast(count))));
  const ValueId g = m.regularized(attrs, s[0], s[1]);
  const ValueId squares = m.add(s[2], m.mul(g, g));
  const ValueId step = m.div(m.mul(rate, g), m.add(m.sqrt(squares), m.number(epsilon)));
  return {m.sub(s[0], step), squares};
}

std::vector<ValueId> adam(Maths& m, const Attributes& attrs, ValueId rate, ValueId count,
                          const std::vector<ValueId>& s) {
  const double alpha = attrs.real("alpha", 0.9f), beta = attrs.real("beta", 0.999f);
  const ValueId g = m.regularized(attrs, s[0], s[1]), one = m.number(1);
  const ValueId mean = m.add(m.scaled(alpha, s[2]), m.scaled(1 - alpha, g));
  const ValueId squares = m.add(m.scaled(beta, s[3]), m.scaled(1 - beta, m.mul(g, g)));
  // In f32, 1 minus a power loses precision only for parameters far from any practical use.
  const ValueId t = m.cast(count);
  const auto power = [&](double base) { return m.b.add("Pow", {m.number(base), t}); };
  const ValueId corrected = m.div(m.mul(rate, m.sqrt(m.sub(one, power(beta)))), m.sub(one, power(alpha)));
  const ValueId adjusted = m.after_first(count, corrected, rate);
  const ValueId deviation = m.add(m.sqrt(squares), m.number(attrs.real("epsilon", 1e-6f)));
  const ValueId x = m.sub(s[0], m.mul(adjusted, m.div(mean, deviation)));
  return {m.scaled(1 - static_cast<double>(attrs.real("norm_coefficient_post", 0)), x), mean, squares};
}

std::vector<ValueId> momentum(Maths& m, const Attributes& attrs, ValueId rate, ValueId count,
                              const std::vector<ValueId>& s) {
  const std::string mode = attrs.text("mode", "standard");
  if (mode != "standard" && mode != "nesterov") fail("mode is \"{}\", expected standard or nesterov", mode);
  const double alpha = attrs.real("alpha", 0.9f);
  const ValueId g = m.regularized(attrs, s[0], s[1]);
  const ValueId beta = m.after_first(count, m.number(attrs.real("beta", 1)), m.number(1));
  const ValueId velocity = m.add(m.scaled(alpha, s[2]), m.mul(beta, g));
  const ValueId direction = mode == "nesterov" ? m.add(g, m.scaled(alpha, velocity)) : velocity;
  return {m.sub(s[0], m.mul(rate, direction)), velocity};
}

constexpr AttrSpec kAdagradAttrs[] = {
    {"decay_factor", AttrType::real}, {"epsilon", AttrType::real}, {"norm_coefficient", AttrType::real}};
constexpr AttrSpec kAdamAttrs[] = {{"alpha", AttrType::real},
                                   {"beta", AttrType::real},
                                   {"epsilon", AttrType::real},
                                   {"norm_coefficient", AttrType::real},
                                   {"norm_coefficient_post", AttrType::real}};
constexpr AttrSpec kMomentumAttrs[] = {{"alpha", AttrType::real, true},
                                       {"beta", AttrType::real, true},
                                       {"mode", AttrType::text, true},
                                       {"norm_coefficient", AttrType::real, true}};

const OpDef kOps[] = {
    {.name = "Adagrad",
     .domain = "ai.onnx.preview.training",
     .doc = "A step along gradients divided by the root of their squares' sum.",
     .since = 1,
     .inputs = {3, kMany},
     .outputs = {1, kMany},
     .attributes = kAdagradAttrs,
     .expand = [](ExpandContext& e) { return expand(e, 1, adagrad); }},
    {.name = "Adam",
     .domain = "ai.onnx.preview.training",
     .doc = "A step along averaged gradients divided by the root of their averaged squares.",
     .since = 1,
     .inputs = {3, kMany},
     .outputs = {1, kMany},
     .attributes = kAdamAttrs,
     .expand = [](ExpandContext& e) { return expand(e, 2, adam); }},
    {.name = "Momentum",
     .domain = "ai.onnx.preview.training",
     .doc = "A step along accumulated gradients, plain or Nesterov's.",
     .since = 1,
     .inputs = {3, kMany},
     .outputs = {1, kMany},
     .attributes = kMomentumAttrs,
     .expand = [](ExpandContext& e) { return expand(e, 1, momentum); }},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::optimizers_ops
