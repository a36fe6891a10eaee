// MaxPool: the largest element of each window, and its index; sparkpilot::MaxPool also supports channels last.
//
// Padding is never chosen. Of equal elements the first in row-major order is taken; NaN is larger than everything.
#include <cstring>
#include <limits>

#include "ops/axes.h"
#include "ops/cpu/onednn/pool_onednn.h"
#include "ops/cuda/pool_candidates.h"
#include "ops/formula.h"
#include "ops/layout.h"
#include "ops/registry.h"

namespace sparkpilot::max_pool_ops {
namespace {

using PoolTypes = TypeList<float, double, Half, BFloat16, int8_t, uint8_t>;

template <typename T>
constexpr Compute<T> lowest() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::lowest();
  else return -std::numeric_limits<Compute<T>>::infinity();
}

template <typename T>
void run_as(const Call& c, const PoolShape& s) {
  const KernelWindow& w = s.window;
  const T* x = c.inputs[0].as<T>();
  T* y = c.outputs[0].as<T>();
  int64_t* indices = c.outputs.size() > 1 && c.outputs[1].present() ? c.outputs[1].as<int64_t>() : nullptr;
  // storage_order 1 counts the image's positions in column-major order: the first spatial dimension varies fastest.
  const bool by_column = c.attrs().integer("storage_order", 0) != 0;
  const int64_t step_d = by_column ? 1 : w.in[1] * w.in[2];
  const int64_t step_h = by_column ? w.in[0] : w.in[2], step_w = by_column ? w.in[0] * w.in[1] : 1;
  for_each_window(s, [&](int64_t n, int64_t channel, const KernelWindow::Dims& start, int64_t at) {
    const T* plane = x + n * s.x.n + channel * s.x.c;
    Compute<T> best = lowest<T>();
    int64_t where = 0;
    bool any = false;
    for_each_tap(w, start, [&](int64_t d, int64_t h, int64_t i) {
      const Compute<T> value = plane[d * s.x.d + h * s.x.h + i * s.x.w];
      if (any && !(value > best) && value == value) return;
      if (any && best != best) return;
      best = value;
      where = d * step_d + h * step_h + i * step_w;
      any = true;
    });
    y[at] = T(best);
    if (indices) indices[at] = (n * s.channels + channel) * w.in_size() + where;
  });
}

void run(const Call& c) {
  const PoolShape& s = c.as<PoolState>().shape;
  dispatch(PoolTypes{}, c.inputs[0].dtype, [&]<typename T>() { run_as<T>(c, s); });
}

// --- bytes with channels last: 16 channels at a time, with the compiler's vector extension
constexpr int64_t kBytes = 16;

Acceptance bytes_accept(const Problem& p) {
  if (!contains(TypeList<int8_t, uint8_t>{}, p.inputs[0].dtype))
    return fmt::format("{} input", name(p.inputs[0].dtype));
  if (p.outputs.size() != 1) return "indices are wanted";
  if (p.attrs().integer("channels_last", 0) == 0) return "channels first";
  if (pool_shape(p.attrs(), p.inputs[0].shape).channels < kBytes) return fmt::format("fewer than {} channels", kBytes);
  return true;
}

template <typename T>
void run_bytes_as(const Call& c, const PoolShape& s) {
  typedef T Vec __attribute__((vector_size(kBytes)));  // NOLINT(modernize-use-using)
  const T* x = c.inputs[0].as<T>();
  T* y = c.outputs[0].as<T>();
  for_each_block(s, kBytes, [&](int64_t n, const KernelWindow::Dims& start, int64_t first, int64_t count, int64_t at) {
    const int64_t back = kBytes - count;  // the last block overlaps the one before it
    const T* plane = x + n * s.x.n + first - back;
    Vec best = Vec{} + lowest<T>();
    for_each_tap(s.window, start, [&](int64_t d, int64_t h, int64_t i) {
      Vec v;
      std::memcpy(&v, plane + d * s.x.d + h * s.x.h + i * s.x.w, kBytes);
      best = v > best ? v : best;
    });
    std::memcpy(y + at, reinterpret_cast<const T*>(&best) + back, static_cast<size_t>(count));
  });
}

void run_bytes(const Call& c) {
  const PoolShape& s = c.as<PoolState>().shape;
  if (c.inputs[0].dtype == DType::u8) run_bytes_as<uint8_t>(c, s);
  else run_bytes_as<int8_t>(c, s);
}

void infer(InferContext& c) {
  if (!contains(PoolTypes{}, c.dtype(0))) fail("input is {}, expected a float type, i8 or u8", name(c.dtype(0)));
  const Shape out = pool_shape(c.attrs, c.shape(0)).output();
  c.output(0, c.dtype(0), out);
  c.output(1, DType::i64, out);
}

// To the largest element of each window, by its index in the whole image.
std::vector<ValueId> gradient(GradContext& c) {
  if (!c.out_grads[0].present()) return {};
  const Term x(c.b, c.in(0)), g(c.b, c.out_grads[0]);
  ValueId at = c.node.outputs.size() > 1 ? c.node.outputs[1] : ValueId{};
  if (!at.present() || c.node.attrs.integer("storage_order", 0) != 0) {
    Attributes by_row = c.node.attrs;
    by_row.erase("storage_order");
    at = c.b.add_many("MaxPool", {x}, by_row, 2)[1];
  }
  const Shape pixels{x.shape().elements()}, windows{g.shape().elements()};
  const Term sum(c.b,
                 c.b.add("ScatterElements", {zeros(c.b, g.dtype(), pixels), Term(c.b, at).as(windows), g.as(windows)},
                         {{"reduction", std::string("add")}}));
  return {sum.as(x.shape())};
}

double cost(const Problem& p) { return pool_shape(p.attrs(), p.inputs[0].shape).flops(); }

using Ints = std::vector<int64_t>;

std::vector<OpCase> cases() {
  const Ints k3{3, 3}, s2{2, 2};
  const int64_t on = 1;
  return {{"3x3", {CaseInput::of({2, 19, 9, 7})}, {{"kernel_shape", k3}, {"strides", s2}, {"pads", Ints{1, 1, 1, 1}}}},
          {"ceil", {CaseInput::of({1, 5, 8, 10})}, {{"kernel_shape", k3}, {"strides", s2}, {"ceil_mode", on}}},
          {"dilated", {CaseInput::of({1, 3, 9, 9})}, {{"kernel_shape", k3}, {"dilations", Ints{2, 3}}}},
          {"indices", {CaseInput::of({2, 3, 6, 5})}, {{"kernel_shape", s2}, {"pads", Ints{1, 0, 0, 1}}}, 2},
          {"by_column", {CaseInput::of({1, 2, 5, 6})}, {{"kernel_shape", k3}, {"storage_order", on}}, 2},
          {"1d", {CaseInput::of({2, 5, 17})}, {{"kernel_shape", Ints{4}}, {"strides", Ints{3}}}},
          {"3d", {CaseInput::of({1, 17, 4, 6, 5})}, {{"kernel_shape", Ints{2, 3, 2}}, {"strides", Ints{2, 1, 1}}}},
          {"same_upper",
           {CaseInput::of({1, 3, 7, 6})},
           {{"kernel_shape", k3}, {"strides", s2}, {"auto_pad", std::string("SAME_UPPER")}}},
          {"u8", {CaseInput::range({1, 3, 6, 6}, 0, 255, DType::u8)}, {{"kernel_shape", s2}}},
          {"i8", {CaseInput::range({1, 3, 6, 6}, -128, 127, DType::i8)}, {{"kernel_shape", s2}}},
          {"f16", {CaseInput::of({1, 3, 6, 6}, DType::f16)}, {{"kernel_shape", k3}}},
          {"bf16", {CaseInput::of({1, 16, 6, 6}, DType::bf16)}, {{"kernel_shape", k3}}}};
}

std::vector<OpCase> channels_last_cases() {
  const int64_t on = 1;
  return {{"3x3",
           {CaseInput::of({2, 9, 7, 19})},
           {{"channels_last", on}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 1}}}},
          {"ceil",
           {CaseInput::of({1, 8, 10, 32})},
           {{"channels_last", on}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", on}}},
          {"1d", {CaseInput::of({2, 17, 5})}, {{"channels_last", on}, {"kernel_shape", Ints{4}}}},
          {"channels_first", {CaseInput::of({1, 3, 6, 6})}, {{"kernel_shape", Ints{3, 3}}}},
          {"u8",
           {CaseInput::range({2, 9, 7, 43}, 0, 255, DType::u8)},
           {{"channels_last", on}, {"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}}},
          {"i8",
           {CaseInput::range({1, 8, 6, 16}, -128, 127, DType::i8)},
           {{"channels_last", on}, {"kernel_shape", Ints{3, 3}}, {"dilations", Ints{2, 1}}}},
          {"bf16", {CaseInput::of({1, 6, 6, 16}, DType::bf16)}, {{"channels_last", on}, {"kernel_shape", Ints{3, 3}}}}};
}

Acceptance onednn_accepts(const Problem& p) {
  if (p.outputs.size() != 1) return "indices are wanted";
  return pool_onednn_accepts(p, pool_shape(p.attrs(), p.inputs[0].shape), PoolKind::max);
}

std::unique_ptr<KernelState> onednn_prepare(const Problem& p) {
  const std::shared_ptr<KernelState> reference = prepare_pool(p);
  return pool_onednn_prepare(p, pool_shape(p.attrs(), p.inputs[0].shape), PoolKind::max, [reference](const Call& call) {
    Call plain = call;
    plain.state = reference.get();
    run(plain);
  });
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text},      {"ceil_mode", AttrType::integer},
                               {"dilations", AttrType::integers}, {"kernel_shape", AttrType::integers, true},
                               {"pads", AttrType::integers},      {"storage_order", AttrType::integer},
                               {"strides", AttrType::integers}};
constexpr AttrSpec kInternalAttrs[] = {
    {"auto_pad", AttrType::text},      {"ceil_mode", AttrType::integer},           {"channels_last", AttrType::integer},
    {"dilations", AttrType::integers}, {"kernel_shape", AttrType::integers, true}, {"pads", AttrType::integers},
    {"strides", AttrType::integers}};
// Indices are those of the whole input.
AxisSource axes_of_max_pool(const Problem& p, int output, int axis, size_t input) {
  return output == 0 ? axes_of_pool(p, output, axis, input) : AxisSource{};
}

constexpr Kernel kOnednn{.name = "onednn", .accepts = onednn_accepts, .prepare = onednn_prepare, .run = onednn::run};
constexpr Kernel kReference{.name = "reference", .prepare = prepare_pool, .run = run};
constexpr Kernel kCpu[] = {kOnednn, kReference};
constexpr Kernel kInternal[] = {
    kOnednn, {.name = "bytes", .accepts = bytes_accept, .prepare = prepare_pool, .run = run_bytes}, kReference};

const OpDef kOps[] = {{.name = "MaxPool",
                       .doc = "The largest element of each window, and its index.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 2},
                       .attributes = kAttrs,
                       .traits = {.picks = true, .finite = true},
                       .infer = infer,
                       .axes = axes_of_max_pool,
                       .cpu = kCpu,
                       .cuda = cuda::max_pool_candidates(),
                       .grad = gradient,
                       .cost = cost,
                       .cases = cases},
                      {.name = "MaxPool",
                       .domain = "sparkpilot",
                       .doc = "MaxPool without indices, in either layout.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kInternalAttrs,
                       .traits = {.picks = true, .channels_last = true, .finite = true},
                       .infer = infer,
                       .axes = axes_of_max_pool,
                       .cpu = kInternal,
                       .cuda = cuda::max_pool_candidates(),
                       .expand = expand_channels_last,
                       .cost = cost,
                       .cases = channels_last_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::max_pool_ops
