// Pad: adds a border around a tensor (constant, reflect, edge, wrap); negative pads crop.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/copy_candidates.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::pad_ops {
namespace {

enum class Mode { constant, reflect, edge, wrap };

Mode mode_of(const Attributes& attrs) {
  const std::string text = attrs.text("mode", "constant");
  if (text == "constant") return Mode::constant;
  if (text == "reflect") return Mode::reflect;
  if (text == "edge") return Mode::edge;
  if (text == "wrap") return Mode::wrap;
  fail("mode is \"{}\", expected constant, reflect, edge or wrap", text);
}

// One axis: first cropped, then padded.
struct Border {
  int64_t skip = 0, kept = 0, before = 0, after = 0;
  int64_t size() const { return before + kept + after; }
};

Border border(int64_t size, int64_t before, int64_t after) {
  // Too large a pad is refused by the check of the shape; clamped here so that nothing overflows.
  const auto clamped = [](int64_t pad) { return std::clamp(pad, -2 * Shape::kMaxElements, 2 * Shape::kMaxElements); };
  before = clamped(before);
  after = clamped(after);
  const int64_t skip = std::max<int64_t>(0, -before), drop = std::max<int64_t>(0, -after);
  if (skip + drop > size) fail("pads {} and {} crop more than the {} there are", before, after, size);
  return {skip, size - skip - drop, std::max<int64_t>(0, before), std::max<int64_t>(0, after)};
}

// The index in the kept range of the element at `at` in the padded axis; none in a constant border.
std::optional<int64_t> source(const Border& b, Mode mode, int64_t at) {
  at -= b.before;
  if (at >= 0 && at < b.kept) return b.skip + at;
  switch (mode) {
    case Mode::constant: return std::nullopt;
    case Mode::edge: return b.skip + (at < 0 ? 0 : b.kept - 1);
    case Mode::wrap: return b.skip + (at % b.kept + b.kept) % b.kept;
    case Mode::reflect: break;
  }
  const int64_t period = std::max<int64_t>(1, 2 * (b.kept - 1));
  const int64_t phase = (at % period + period) % period;
  return b.skip + std::min(phase, period - phase) % b.kept;
}

void infer(InferContext& c) {
  Shape out = c.shape(0);
  const Mode mode = mode_of(c.attrs);
  const std::vector<int64_t> pads = list_operand(c, 1, 2 * Shape::kMaxRank);
  std::vector<int> axes;
  if (c.has(3)) axes = distinct_axes(list_operand(c, 3), out.rank());
  else {
    for (int i = 0; i < out.rank(); ++i) axes.push_back(i);
  }
  if (pads.size() != 2 * axes.size()) fail("{} pads given for {} axes", pads.size(), axes.size());
  if (c.has(2)) {
    expect_same_dtype(c, 0, 2);
    if (c.shape(2).elements() != 1) fail("the constant has shape {}, expected one element", c.shape(2).str());
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const Border b = border(out[axes[i]], pads[i], pads[i + axes.size()]);
    if (mode != Mode::constant && b.kept == 0 && b.size() > 0) fail("axis {} has nothing to repeat", axes[i]);
    out.set(axes[i], b.size());
  }
  c.output(0, c.dtype(0), Shape(out.dims()));
}

struct State final : KernelState {
  Mode mode = Mode::constant;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<State>();
  state->mode = mode_of(p.attrs());
  return state;
}

struct Layout {
  std::array<Border, Shape::kMaxRank> borders{};
  int last = 0;      // the innermost axis with a border; the axes after it are copied as one
  int64_t unit = 1;  // elements of those axes
};

Layout layout(const Call& c) {
  const Shape &in = c.inputs[0].shape, &out = c.outputs[0].shape;
  const IntOperand pads(c.inputs[1]), axes = c.has(3) ? IntOperand(c.inputs[3]) : IntOperand();
  Layout l;
  for (int i = 0; i < in.rank(); ++i) l.borders[static_cast<size_t>(i)] = border(in[i], 0, 0);
  const int64_t count = pads.size() / 2;
  for (int64_t i = 0; i < count; ++i) {
    const int axis = normalize_axis(axes.present() ? axes[i] : i, in.rank());
    l.borders[static_cast<size_t>(axis)] = border(in[axis], pads[i], pads[i + count]);
    l.last = std::max(l.last, axis);
  }
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t size = l.borders[static_cast<size_t>(i)].size();
    if (size != out[i]) fail("axis {} is padded to {} elements, planned were {}", i, size, out[i]);
  }
  const auto plain = [&](int axis) {
    const Border& b = l.borders[static_cast<size_t>(axis)];
    return b.kept == in[axis] && b.size() == b.kept;
  };
  while (l.last > 0 && plain(l.last)) --l.last;
  l.unit = in.elements(l.last + 1, in.rank());
  return l;
}

// One row of the innermost padded axis at a time: its kept middle is contiguous.
template <typename T>
void pad_rows(const Call& c, const Layout& l, Mode mode, T value) {
  const Shape &in = c.inputs[0].shape, &out = c.outputs[0].shape;
  const Border& line = l.borders[static_cast<size_t>(l.last)];
  const int64_t width = line.size() * l.unit, kept = line.kept * l.unit;
  const auto strides = in.strides();
  const T* from = c.inputs[0].as<T>();
  T* to = c.outputs[0].as<T>();
  parallel_for(out.elements(0, l.last), 1 + (1 << 13) / (width + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* y = to + row * width;
      int64_t origin = 0, rest = row;
      bool inside = true;
      for (int axis = l.last - 1; axis >= 0; --axis) {
        const auto at = source(l.borders[static_cast<size_t>(axis)], mode, rest % out[axis]);
        rest /= out[axis];
        if (at) origin += *at * strides[static_cast<size_t>(axis)];
        else inside = false;
      }
      if (!inside) {
        std::fill(y, y + width, value);
        continue;
      }
      const T* x = from + origin;
      if (kept > 0)
        std::memcpy(y + line.before * l.unit, x + line.skip * l.unit, static_cast<size_t>(kept) * sizeof(T));
      const auto border_at = [&](int64_t at) {
        const auto in_at = source(line, mode, at);
        if (in_at) std::copy(x + *in_at * l.unit, x + (*in_at + 1) * l.unit, y + at * l.unit);
        else std::fill(y + at * l.unit, y + (at + 1) * l.unit, value);
      };
      for (int64_t at = 0; at < line.before; ++at) border_at(at);
      for (int64_t at = line.before + line.kept; at < line.size(); ++at) border_at(at);
    }
  });
}

void run(const Call& c) {
  if (c.outputs[0].elements() == 0) return;
  dispatch_size(c.inputs[0].dtype, [&]<typename T>() {
    const T value = c.has(2) ? *c.inputs[2].as<T>() : T{};
    if (c.inputs[0].shape.rank() == 0) {
      *c.outputs[0].as<T>() = *c.inputs[0].as<T>();
      return;
    }
    pad_rows<T>(c, layout(c), c.as<State>().mode, value);
  });
}

Acceptance accepts(const Problem& p) { return bits(p.inputs[0].dtype) >= 8; }

std::vector<ValueId> expand_attributes(ExpandContext& e) {
  const Attributes& attrs = e.node.attrs;
  const auto pads = attrs.integers(attrs.has("paddings") ? "paddings" : "pads");
  const ValueId value = e.b.scalar(e.b.dtype(e.in(0)), attrs.real("value", 0));
  return {e.b.add("Pad", {e.in(0), e.b.ints(pads), value}, {{"mode", attrs.text("mode", "constant")}})};
}

std::vector<OpCase> cases() {
  const auto ints = [](std::initializer_list<int64_t> v) { return CaseInput::value(Tensor::ints(v)); };
  const auto mode = [](const char* text) { return Attributes{{"mode", std::string(text)}}; };
  const auto value = CaseInput::value(Tensor::scalar(2.5f));
  return {{"constant", {CaseInput::of({3, 5}), ints({1, 2, 0, 3}), value}, {}},
          {"value", {CaseInput::of({3, 5}), ints({1, -1, 0, 3}), CaseInput::of({})}, {}},
          {"zeros", {CaseInput::of({2, 3, 5}, DType::f16), ints({0, 1, 0, 0, 1, 0})}, {}},
          {"axes", {CaseInput::of({2, 3, 5}), ints({1, 2}), value, ints({-2})}, mode("constant")},
          {"reflect", {CaseInput::of({4, 5}), ints({3, 2, 1, 9})}, mode("reflect")},
          {"edge", {CaseInput::of({2, 4, 5}), ints({0, 1, 2, 1, 3, 0})}, mode("edge")},
          {"wrap", {CaseInput::range({3, 4}, -9, 9, DType::i64), ints({4, 1, 2, 6})}, mode("wrap")},
          {"crop", {CaseInput::of({5, 6}), ints({-1, 2, -2, -3}), value}, {}},
          {"reflect_one", {CaseInput::of({1, 3}), ints({2, 0, 1, 1})}, mode("reflect")}};
}

// Axis map: reflected or wrapped borders move in the other direction.
AxisSource axes_of_pad(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  const int rank = p.inputs[0].shape.rank();
  const auto pads = constant_list(p, 1), axes = constant_list(p, 3);
  if (!pads || !axes) return {};
  const size_t count = pads->size() / 2;
  for (size_t i = 0; i < count; ++i) {
    const int padded = p.has(3) ? normalize_axis((*axes)[i], rank) : static_cast<int>(i);
    if (padded != axis || ((*pads)[i] == 0 && (*pads)[i + count] == 0)) continue;
    return p.attrs().text("mode", "constant") == "constant" ? window_axis(axis) : AxisSource{};
  }
  return same_axis(axis);
}

// A constant border is cropped, and its value gets what flows there. Of another border each element has a source: the
// elements' numbers, padded in the same way, say which.
std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.in(0)), g(c.b, c.out_grads[0]);
  if (mode_of(c.node.attrs) == Mode::constant) {
    std::vector<int64_t> pads = constant_ints(c, 1);
    for (int64_t& pad : pads) pad = -pad;
    const ValueId cropped = c.b.add("Pad", {g, c.b.ints(pads), {}, c.in(3)});
    if (!c.wants(2)) return {cropped};
    const Term outside =
        g.of("ReduceSum", {{"keepdims", int64_t{0}}}) - Term(c.b, cropped).of("ReduceSum", {{"keepdims", int64_t{0}}});
    return {cropped, {}, outside.as(c.b.shape(c.in(2)))};
  }
  std::vector<int64_t> numbers(static_cast<size_t>(x.shape().elements()));
  std::iota(numbers.begin(), numbers.end(), 0);
  const ValueId numbered = Term(c.b, c.b.ints(numbers)).as(x.shape());
  const Term source(c.b, c.b.add("Pad", {numbered, c.in(1), {}, c.in(3)}, c.node.attrs));
  const Shape all{g.shape().elements()};
  const Term flat(
      c.b, c.b.add("ScatterElements", {zeros(c.b, g.dtype(), Shape{x.shape().elements()}), source.as(all), g.as(all)},
                   {{"reduction", std::string("add")}}));
  return {flat.as(x.shape())};
}

cuda::PadBorders borders(const Problem& p) {
  if (!p.is_constant(1) || (p.has(3) && !p.is_constant(3))) return {{}, {}, {}, "the pads are not constant"};
  const int rank = p.inputs[0].shape.rank();
  const std::vector<int64_t> none(static_cast<size_t>(rank)), pads = p.constants[1].to_ints();
  cuda::PadBorders out{none, none, p.attrs().text("mode", "constant")};
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    const auto at =
        static_cast<size_t>(normalize_axis(p.has(3) ? p.constants[3].to_ints()[i] : static_cast<int64_t>(i), rank));
    out.before[at] = pads[i];
    out.after[at] = pads[i + pads.size() / 2];
  }
  return out;
}

constexpr Kernel kCuda[] = {{.name = "pad",
                             .accepts = [](const Problem& p) { return cuda::pad_accepts(p, borders(p)); },
                             .prepare = [](const Problem& p) { return cuda::pad_prepare(p, borders(p)); },
                             .run = cuda::pad_run}};
constexpr Kernel kCpu[] = {{.name = "reference", .accepts = accepts, .prepare = prepare, .run = run}};
constexpr AttrSpec kAttrs[] = {{"mode", AttrType::text}};
constexpr AttrSpec kOldAttrs[] = {
    {"mode", AttrType::text}, {"value", AttrType::real}, {"pads", AttrType::integers, true}};
constexpr AttrSpec kOldestAttrs[] = {
    {"mode", AttrType::text}, {"value", AttrType::real}, {"paddings", AttrType::integers, true}};

const OpDef kOps[] = {
    {.name = "Pad",
     .doc = "A border around a tensor: constant, reflected, repeated or wrapped.",
     .since = 11,
     .inputs = {2, 4},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.picks = true, .finite = true},
     .infer = infer,
     .axes = axes_of_pad,
     .cpu = kCpu,
     .cuda = kCuda,
     .grad = gradient,
     .cost = no_flops,
     .cases = cases},
    {.name = "Pad",
     .doc = "Pads and value as attributes.",
     .since = 2,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kOldAttrs,
     .expand = expand_attributes},
    {.name = "Pad",
     .doc = "Pads named paddings.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kOldestAttrs,
     .expand = expand_attributes},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::pad_ops
