#include "onnx/zoo_layers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/fnv.h"
#include "base/parallel.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

uint64_t hash(std::string_view text, uint64_t seed) { return Fnv(seed).text(text).value(); }

// Uniform weights, eight per counter value. A 17-bit fraction times a float plus a float is exact in double, whether or
// not a compiler fuses the two, so the bits are the same on every machine. Large tensors use a table of all 65,536
// values that a 16-bit draw can have.
void fill_uniform(std::span<Half> out, uint64_t key, float bound, float middle) {
  const auto weight = [&](uint32_t draw) {
    const double fraction = (static_cast<double>(draw) * 2 - 65535) / 65536;
    return Half(static_cast<float>(double{middle} + double{bound} * fraction));
  };
  const auto size = static_cast<int64_t>(out.size());
  std::vector<Half> table;
  if (size > 200'000) {
    table.resize(65536);
    for (uint32_t draw = 0; draw < 65536; ++draw) table[draw] = weight(draw);
  }
  parallel_for((size + 7) / 8, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const std::array<uint32_t, 4> words = philox4x32(key, static_cast<uint64_t>(block));
      const int64_t count = std::min<int64_t>(8, size - block * 8);
      for (int64_t i = 0; i < count; ++i) {
        const uint32_t draw = words[static_cast<size_t>(i / 2)] >> (i % 2 * 16) & 0xffff;
        out[static_cast<size_t>(block * 8 + i)] = table.empty() ? weight(draw) : table[draw];
      }
    }
  });
}

// The half-width of a uniform distribution whose deviation is gain / sqrt(fan_in).
double bound_of(double gain, int64_t fan_in) { return gain * std::sqrt(3.0 / static_cast<double>(fan_in)); }

constexpr double kBiasBound = 0.05;

}  // namespace

Layers::Scope::Scope(Layers& layers, std::string_view name) : layers_(layers) { layers_.scopes_.emplace_back(name); }

std::string Layers::weight_name(std::string_view name) const {
  std::string path;
  for (const std::string& scope : scopes_) path += scope + '.';
  return path.append(name);
}

std::string Layers::node_name(std::string_view op) {
  std::string path;
  for (const std::string& scope : scopes_) path += '/' + scope;
  path.append("/").append(op);
  const int before = used_[path]++;
  return before == 0 ? path : fmt::format("{}_{}", path, before);
}

std::vector<ValueId> Layers::nodes(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, int outputs) {
  Builder builder(graph_, "", kOpset);
  std::vector<ValueId> made = builder.add_many(op, std::move(inputs), std::move(attrs), outputs);
  const std::string name = node_name(op);
  graph_.node(graph_.value(made[0]).producer).name = name;
  for (size_t i = 0; i < made.size(); ++i) graph_.value(made[i]).name = fmt::format("{}_output_{}", name, i);
  return made;
}

ValueId Layers::node(std::string_view op, std::vector<ValueId> inputs, Attributes attrs) {
  return nodes(op, std::move(inputs), std::move(attrs), 1)[0];
}

ValueId Layers::constant(Tensor tensor) {
  return graph_.add_constant(std::move(tensor), node_name("Constant") + "_output_0");
}

ValueId Layers::scalar(double value) { return constant(Tensor::scalar(Half(static_cast<float>(value)))); }

ValueId Layers::ints(std::initializer_list<int64_t> values) {
  return graph_.add_constant(Tensor::ints(values), node_name("Constant") + "_output_0");
}

ValueId Layers::transpose(ValueId x, std::vector<int64_t> order) {
  return node("Transpose", {x}, {{"perm", std::move(order)}});
}

Tensor Layers::random_weight(const std::string& name, const Shape& shape, double bound, double middle) const {
  Tensor tensor(DType::f16, shape);
  if (fill_) {
    fill_uniform(tensor.data<Half>(), hash(name, seed_), static_cast<float>(bound), static_cast<float>(middle));
  }
  return tensor;
}

ValueId Layers::uniform(std::string_view name, const Shape& shape, double bound, double middle) {
  const std::string path = weight_name(name);
  return graph_.add_constant(random_weight(path, shape, bound, middle), path);
}

ValueId Layers::conv(std::string_view name, ValueId x, const ConvSpec& spec) {
  const Scope scope(*this, name);
  const int64_t in = shape(x)[1] / spec.groups, k = spec.kernel;
  const std::string path = weight_name("weight");
  const double gain = spec.identity ? 0.3 * spec.gain : spec.gain;
  Tensor weight = random_weight(path, Shape{spec.out, in, k, k}, bound_of(gain / spec.deviation, in * k * k), 0);
  if (spec.identity && fill_) {
    const std::span<Half> w = weight.data<Half>();
    for (int64_t o = 0; o < spec.out; ++o) {
      Half& centre = w[static_cast<size_t>((o * in * k + k / 2) * k + k / 2)];
      centre = Half(centre + 1.0f);
    }
  }
  const ValueId bias = conv_bias(weight, spec);
  // An even kernel is a patch or a strided stem: just enough padding for size / stride outputs.
  const std::vector<int64_t> strides{spec.row_stride == 0 ? spec.stride : spec.row_stride, spec.stride};
  const auto pad = [&](int64_t stride) { return k % 2 == 1 ? k / 2 : std::max<int64_t>(0, (k - stride) / 2); };
  const std::vector<int64_t> ones{1, 1}, kernel(2, k),
      pads{pad(strides[0]), pad(strides[1]), pad(strides[0]), pad(strides[1])};
  return node(
      "Conv", {x, graph_.add_constant(std::move(weight), path), bias},
      {{"dilations", ones}, {"group", spec.groups}, {"kernel_shape", kernel}, {"pads", pads}, {"strides", strides}});
}

// A small random bias, minus what the pixels' folded mean would add.
ValueId Layers::conv_bias(const Tensor& weight, const ConvSpec& spec) {
  const std::string path = weight_name("bias");
  Tensor bias = random_weight(path, Shape{spec.out}, kBiasBound, 0);
  if (spec.mean != 0 && fill_) {
    const std::span<Half> w = weight.data<Half>(), b = bias.data<Half>();
    const size_t fan_in = w.size() / b.size();
    for (size_t o = 0; o < b.size(); ++o) {
      double sum = 0;  // exact: a double can sum a few hundred halves, so their order does not matter
      for (size_t i = 0; i < fan_in; ++i) sum += w[o * fan_in + i];
      b[o] = Half(static_cast<float>(static_cast<double>(b[o]) - spec.mean * sum));
    }
  }
  return graph_.add_constant(std::move(bias), path);
}

ValueId Layers::linear(std::string_view name, ValueId x, int64_t out, double gain) {
  const Scope scope(*this, name);
  const int64_t in = shape(x)[1];
  const ValueId weight = uniform("weight", Shape{out, in}, bound_of(gain, in));
  const ValueId bias = uniform("bias", Shape{out}, kBiasBound);
  return node("Gemm", {x, weight, bias}, {{"alpha", 1.0f}, {"beta", 1.0f}, {"transB", int64_t{1}}});
}

ValueId Layers::linear_tokens(std::string_view name, ValueId x, int64_t out, double gain) {
  const Scope scope(*this, name);
  const int64_t in = shape(x)[shape(x).rank() - 1];
  const ValueId weight = uniform("weight", Shape{in, out}, bound_of(gain, in));
  const ValueId bias = uniform("bias", Shape{out}, kBiasBound);
  return add(bias, node("MatMul", {x, weight}));
}

ValueId Layers::layer_norm(std::string_view name, ValueId x) {
  const Scope scope(*this, name);
  const int64_t size = shape(x)[shape(x).rank() - 1];
  const Attributes last{{"axes", std::vector<int64_t>{-1}}};
  const ValueId centred = node("Sub", {x, node("ReduceMean", {x}, last)});
  const ValueId variance = node("ReduceMean", {node("Pow", {centred, scalar(2)})}, last);
  const ValueId normed = node("Div", {centred, node("Sqrt", {add(variance, scalar(1e-5))})});
  const ValueId weight = uniform("weight", Shape{size}, 0.1, 1), bias = uniform("bias", Shape{size}, 0.1);
  return add(mul(normed, weight), bias);
}

ValueId Layers::attention(std::string_view name, ValueId x, int64_t heads) {
  const Scope scope(*this, name);
  const int64_t tokens = shape(x)[1], channels = shape(x)[2], size = channels / heads;
  const ValueId mixed = linear_tokens("c_attn", x, 3 * channels);
  const ValueId split = transpose(reshape(mixed, {1, tokens, 3, heads, size}), {2, 0, 3, 1, 4});
  const std::vector<ValueId> parts = nodes("Split", {split, ints({1, 1, 1})}, {{"axis", int64_t{0}}}, 3);
  const ValueId q = node("Squeeze", {parts[0], ints({0})}), k = node("Squeeze", {parts[1], ints({0})}),
                v = node("Squeeze", {parts[2], ints({0})});
  const ValueId scores = node("MatMul", {q, transpose(k, {0, 1, 3, 2})});
  const ValueId scaled = mul(scores, scalar(1 / std::sqrt(static_cast<double>(size))));
  const ValueId seen = node("MatMul", {node("Softmax", {scaled}, {{"axis", int64_t{-1}}}), v});
  return linear_tokens("c_proj", reshape(transpose(seen, {0, 2, 1, 3}), {1, tokens, channels}), channels);
}

ValueId Layers::residual_block(std::string_view name, ValueId x, int64_t hidden) {
  const Scope scope(*this, name);
  const ValueId inner = relu(linear("fc1", x, hidden));
  return relu(add(linear("fc2", inner, shape(x)[1], 0.3 * kReluGain), x));
}

ValueId Layers::squeeze_excite(std::string_view name, ValueId x, int64_t hidden) {
  const Scope scope(*this, name);
  const ValueId mean = node("ReduceMean", {x}, {{"axes", std::vector<int64_t>{2, 3}}, {"keepdims", int64_t{1}}});
  const ValueId inner = relu(conv("fc1", mean, {.out = hidden}));
  return mul(x, node("Sigmoid", {conv("fc2", inner, {.out = shape(x)[1], .gain = kReluGain})}));
}

ValueId Layers::layer_scale(std::string_view name, ValueId x, const Shape& factors, double scale) {
  return mul(x, uniform(name, factors, 0.5 * scale, scale));
}

ValueId Layers::gelu(ValueId x) {
  const Scope scope(*this, "act");
  // One call at a time: compilers evaluate arguments in different orders, which would change the file.
  const ValueId cube = mul(x, mul(x, x));
  const ValueId third = mul(scalar(0.044715), cube);
  const ValueId sum = add(x, third);
  const ValueId inner = mul(scalar(0.7978845608), sum);
  const ValueId tanh = node("Tanh", {inner});
  const ValueId shifted = add(scalar(1), tanh);
  const ValueId product = mul(x, shifted);
  return mul(scalar(0.5), product);
}

ValueId Layers::l2_normalize(ValueId x) {
  const ValueId squares = node("ReduceSum", {mul(x, x), ints({1})}, {{"keepdims", int64_t{1}}});
  return node("Div", {x, node("Clip", {node("Sqrt", {squares}), scalar(1e-3)})});
}

}  // namespace sparkpilot
