// AdamW for many tensors at once: one step of an optimizer is one node, whatever the number of parameters.
//
// Inputs are the learning rate, the count of this step (from 1), a scale of the gradients (of clipping, and of the mean
// over micro-batches) and four groups with the same number of tensors: the parameters X, their gradients G and the
// moments M and V; outputs are the new X, M and V. Each output may overwrite its input, so with states for X, M and V a
// step needs no additional memory. With lr the rate, t the count, g = scale G and `weight_decay` decoupled (Loshchilov
// and Hutter, 2019):
//   m' = beta1 m + (1 - beta1) g      v' = beta2 v + (1 - beta2) g^2
//   x' = (1 - lr weight_decay) x - lr (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon)
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "ops/cpu/vector/adamw_rows.h"
#include "ops/cuda/adamw_candidates.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::adamw_ops {
namespace {

constexpr size_t kTensors = 3;  // inputs before the tensors

// The number of tensors in a group, from the number of inputs.
size_t group_size(size_t inputs) {
  if (inputs < kTensors + 4 || (inputs - kTensors) % 4 != 0) {
    fail("{} inputs are no rate, count, scale and four tensors for each parameter", inputs);
  }
  return (inputs - kTensors) / 4;
}

void infer(InferContext& c) {
  const auto n = static_cast<int>(group_size(static_cast<size_t>(c.input_count())));
  if (c.dtype(0) != DType::f32 || c.shape(0).elements() != 1) {
    fail("the learning rate is {}{}, expected one f32", name(c.dtype(0)), c.shape(0).str());
  }
  if (c.dtype(1) != DType::i64 || c.shape(1).elements() != 1) {
    fail("the count is {}{}, expected one i64", name(c.dtype(1)), c.shape(1).str());
  }
  if (c.dtype(2) != DType::f32 || c.shape(2).elements() != 1) {
    fail("the scale is {}{}, expected one f32", name(c.dtype(2)), c.shape(2).str());
  }
  if (c.output_count() != 3 * n) fail("{} outputs asked for, {} tensors have {}", c.output_count(), n, 3 * n);
  constexpr auto kFirst = static_cast<int>(kTensors);
  for (int i = kFirst; i < c.input_count(); ++i) {
    const int x = kFirst + (i - kFirst) % n;
    expect_dtype(c, i, TypeList<float, double>{}, "f32 or f64");
    expect_same_dtype(c, i, x);
    expect_shape(c, i, c.shape(x));
  }
  for (int i = 0; i < 3 * n; ++i) c.output(i, c.dtype(kFirst + i % n), c.shape(kFirst + i % n));
}

// Output i of X, M or V may overwrite the input of the same name; gradients are not overwritten.
int overwrites(const Node& node, int output) {
  const auto n = static_cast<int>((node.inputs.size() - kTensors) / 4);
  return n <= 0 || output >= 3 * n ? kNoInput : static_cast<int>(kTensors) + (output < n ? output : output + n);
}

struct Numbers {
  double rate, scale, decay, beta1, beta2, correction1, correction2, epsilon;
  explicit Numbers(const Call& c)
      : rate(*c.inputs[0].as<float>()),
        scale(*c.inputs[2].as<float>()),
        decay(1 - rate * c.attrs().real("weight_decay", 0.01f)),
        beta1(c.attrs().real("beta1", 0.9f)),
        beta2(c.attrs().real("beta2", 0.999f)),
        epsilon(c.attrs().real("epsilon", 1e-8f)) {
    const int64_t count = *c.inputs[1].as<int64_t>();
    if (count < 1) fail("the count is {}, expected 1 for the first step", count);
    correction1 = 1 - std::pow(beta1, static_cast<double>(count));
    correction2 = 1 - std::pow(beta2, static_cast<double>(count));
  }
};

template <typename T>
void reference_tensor(const Call& c, const Numbers& k, size_t n, size_t t) {
  const T *x = c.inputs[kTensors + t].as<T>(), *g = c.inputs[kTensors + n + t].as<T>(),
          *m = c.inputs[kTensors + 2 * n + t].as<T>(), *v = c.inputs[kTensors + 3 * n + t].as<T>();
  T *next_x = c.outputs[t].as<T>(), *next_m = c.outputs[n + t].as<T>(), *next_v = c.outputs[2 * n + t].as<T>();
  for (int64_t i = 0; i < c.inputs[kTensors + t].elements(); ++i) {
    const double gradient = k.scale * g[i], mean = k.beta1 * m[i] + (1 - k.beta1) * gradient;
    const double square = k.beta2 * v[i] + (1 - k.beta2) * gradient * gradient;
    const double step = mean / k.correction1 / (std::sqrt(square / k.correction2) + k.epsilon);
    next_x[i] = static_cast<T>(k.decay * x[i] - k.rate * step);
    next_m[i] = static_cast<T>(mean);
    next_v[i] = static_cast<T>(square);
  }
}

void run_reference(const Call& c) {
  const size_t n = group_size(c.inputs.size());
  const Numbers numbers(c);
  for (size_t t = 0; t < n; ++t) {
    dispatch(TypeList<float, double>{}, c.inputs[kTensors + t].dtype,
             [&]<typename T>() { reference_tensor<T>(c, numbers, n, t); });
  }
}

// Pieces of tensors for parallel work, whatever the tensors' sizes.
struct Pieces final : KernelState {
  struct Piece {
    size_t tensor;
    int64_t first, last;
  };
  std::vector<Piece> all;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  constexpr int64_t kPiece = 1 << 14;  // elements
  auto state = std::make_unique<Pieces>();
  for (size_t t = 0; t < group_size(p.inputs.size()); ++t) {
    const int64_t elements = p.inputs[kTensors + t].shape.elements();
    for (int64_t first = 0; first < elements; first += kPiece) {
      state->all.push_back({t, first, std::min(elements, first + kPiece)});
    }
  }
  return state;
}

void run(const Call& c) {
  const size_t n = group_size(c.inputs.size());
  const Numbers k(c);
  const auto narrow = [](double value) { return static_cast<float>(value); };
  const AdamWStep step{.scale = narrow(k.scale),
                       .beta1 = narrow(k.beta1),
                       .beta2 = narrow(k.beta2),
                       .decay = narrow(k.decay),
                       .step = narrow(k.rate / k.correction1),
                       .root = narrow(1 / std::sqrt(k.correction2)),
                       .epsilon = narrow(k.epsilon)};
  const auto& pieces = c.as<Pieces>().all;
  parallel_for(std::ssize(pieces), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Pieces::Piece& piece = pieces[static_cast<size_t>(i)];
      const auto in = [&](size_t group) { return c.inputs[kTensors + group * n + piece.tensor].as<float>(); };
      const auto out = [&](size_t group) { return c.outputs[group * n + piece.tensor].as<float>(); };
      adamw_rows(step, {in(0), in(1), in(2), in(3), out(0), out(1), out(2)}, piece.first, piece.last);
    }
  });
}

Acceptance accepts(const Problem& p) {
  for (size_t i = kTensors; i < p.inputs.size(); ++i) {
    if (p.inputs[i].dtype != DType::f32) return fmt::format("{} tensors", name(p.inputs[i].dtype));
  }
  return true;
}

double cost(const Problem& p) {
  double elements = 0;
  for (const TensorType& type : p.outputs) elements += static_cast<double>(type.shape.elements());
  return 14 * elements / 3;
}

// Second moments must not be negative.
OpCase update(const char* name, const std::vector<Shape>& shapes, int64_t count, DType dtype = DType::f32,
              Attributes attrs = {}, float scale = 1) {
  OpCase out{name,
             {CaseInput::value(Tensor::scalar(0.01f)), CaseInput::value(Tensor::scalar(count)),
              CaseInput::value(Tensor::scalar(scale))},
             std::move(attrs),
             static_cast<int>(3 * shapes.size())};
  for (const int group : {0, 1, 2, 3}) {
    for (const Shape& shape : shapes) {
      out.inputs.push_back(group == 3 ? CaseInput::range(shape, 0, 2, dtype) : CaseInput::of(shape, dtype));
    }
  }
  return out;
}

std::vector<OpCase> cases() {
  return {update("first", {{3, 5, 7}}, 1),
          update("several", {{33}, {2, 19}, {1}}, 17),
          update("long", {{40001}, {130, 17}}, 1000),
          update("no_decay", {{65}}, 3, DType::f32, {{"weight_decay", 0.0f}}),
          update("settings", {{127}}, 5, DType::f32,
                 {{"weight_decay", 0.3f}, {"beta1", 0.5f}, {"beta2", 0.9f}, {"epsilon", 1e-3f}}),
          update("scaled", {{5, 13}, {66}}, 4, DType::f32, {}, 0.3f),
          update("f64", {{9, 3}}, 2, DType::f64, {}, 0.3f),
          update("empty", {{0}, {4}}, 2)};
}

constexpr AttrSpec kAttrs[] = {{"beta1", AttrType::real},
                               {"beta2", AttrType::real},
                               {"epsilon", AttrType::real},
                               {"weight_decay", AttrType::real}};
constexpr Kernel kCpu[] = {{.name = "simd", .accepts = accepts, .prepare = prepare, .run = run},
                           {.name = "reference", .run = run_reference}};

const OpDef kOps[] = {{.name = "AdamW",
                       .domain = "sparkpilot",
                       .doc = "A step of AdamW for many tensors.",
                       .since = 1,
                       .inputs = {7, kMany},
                       .outputs = {3, kMany},
                       .attributes = kAttrs,
                       .traits = {.in_place = overwrites},
                       .infer = infer,
                       .cpu = kCpu,
                       .cuda = cuda::kAdamW,
                       .no_gradient = no_gradient::kOptimizer,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::adamw_ops
