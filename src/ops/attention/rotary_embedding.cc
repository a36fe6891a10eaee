// RotaryEmbedding: rotates pairs of a head's elements by an angle that depends on the token's position:
//   (a, b) -> (cos a - sin b, sin a + cos b).
// A pair is element i of each half, or two adjacent elements if interleaved; elements after the rotated ones are
// copied.
#include "base/parallel.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::rotary_embedding_ops {
namespace {

struct Layout {
  int64_t batch, heads, tokens, size, rotated;
  int64_t batch_step, head_step, token_step;
};

Layout layout_of(const Shape& x, const Attributes& attrs) {
  Layout l{};
  const int64_t heads = attrs.integer("num_heads", 0);
  l.batch = x[0];
  if (x.rank() == 4) {
    l.heads = x[1], l.tokens = x[2], l.size = x[3];
    l.head_step = l.tokens * l.size, l.token_step = l.size;
  } else {
    if (heads < 1 || x[2] % heads != 0) fail("input of width {} does not hold {} heads", x[2], heads);
    l.heads = heads, l.tokens = x[1], l.size = x[2] / heads;
    l.head_step = l.size, l.token_step = x[2];
  }
  l.batch_step = l.heads * l.tokens * l.size;
  l.rotated = attrs.integer("rotary_embedding_dim", 0);
  if (l.rotated == 0) l.rotated = l.size;
  if (l.rotated < 0 || l.rotated > l.size || l.rotated % 2 != 0) {
    fail("{} of {} elements cannot be rotated in pairs", l.rotated, l.size);
  }
  return l;
}

void run(const Call& c) {
  const Layout l = layout_of(c.inputs[0].shape, c.attrs());
  const bool interleaved = c.attrs().integer("interleaved", 0) != 0;
  const int64_t half = l.rotated / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
  const auto* positions = c.has(3) ? c.inputs[3].as<int64_t>() : nullptr;
  const int64_t known = c.inputs[1].shape[0];
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    using C = Compute<T>;
    const T *cosines = c.inputs[1].as<T>(), *sines = c.inputs[2].as<T>();
    parallel_for(l.batch * l.tokens, 1 + 4096 / (l.heads * l.size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = positions ? positions[i] : i;
        if (positions && (row < 0 || row >= known)) fail("position {} is outside [0,{})", row, known);
        const T *cos = cosines + row * half, *sin = sines + row * half;
        for (int64_t head = 0; head < l.heads; ++head) {
          const int64_t at = i / l.tokens * l.batch_step + head * l.head_step + i % l.tokens * l.token_step;
          const T* x = c.inputs[0].as<T>() + at;
          T* y = c.outputs[0].as<T>() + at;
          for (int64_t k = 0; k < half; ++k) {
            const C a = static_cast<C>(x[k * step]), b = static_cast<C>(x[k * step + apart]);
            const C co = static_cast<C>(cos[k]), si = static_cast<C>(sin[k]);
            y[k * step] = T(co * a - si * b);
            y[k * step + apart] = T(si * a + co * b);
          }
          std::copy(x + l.rotated, x + l.size, y + l.rotated);
        }
      }
    });
  });
}

void infer(InferContext& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 3, 4);
  const Layout l = layout_of(c.shape(0), c.attrs);
  for (int i = 1; i <= 2; ++i) {
    expect_same_dtype(c, i, 0);
    if (c.has(3)) {
      expect_rank(c, i, 2, 2);
      expect_shape(c, i, {c.shape(1)[0], l.rotated / 2});
    } else {
      expect_shape(c, i, {l.batch, l.tokens, l.rotated / 2});
    }
  }
  if (c.has(3)) {
    expect_dtype(c, 3, TypeList<int64_t>{}, "i64");
    expect_shape(c, 3, {l.batch, l.tokens});
  }
  c.output(0, c.dtype(0), c.shape(0));
}

std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const Shape from = b.shape(e.in(0));
  const Layout l = layout_of(from, e.node.attrs);
  const bool packed = from.rank() == 3, interleaved = e.node.attrs.integer("interleaved", 0) != 0;
  const Term x = Term(b, e.in(0)).as(packed ? Shape{l.batch, l.tokens, l.heads, l.size} : from);
  const int64_t half = l.rotated / 2;
  const auto table = [&](size_t input) {
    const Term rows(b, e.has(3) ? b.add("Gather", {e.in(input), e.in(3)}) : e.in(input));
    return rows.as(packed ? Shape{l.batch, l.tokens, 1, half} : Shape{l.batch, 1, l.tokens, half});
  };
  const auto part = [&](int64_t first, int64_t end, int64_t step) {
    return Term(b, b.add("Slice", {x, b.ints({first}), b.ints({end}), b.ints({-1}), b.ints({step})}));
  };
  const auto join = [&](Term left, Term right) {
    return Term(b, b.add("Concat", {left, right}, {{"axis", int64_t{-1}}}));
  };
  const Term first = interleaved ? part(0, l.rotated, 2) : part(0, half, 1);
  const Term second = interleaved ? part(1, l.rotated, 2) : part(half, l.rotated, 1);
  const Term cosine = table(1), sine = table(2);
  const Term left = cosine * first - sine * second, right = sine * first + cosine * second;
  const Shape rotated = x.shape().with(3, l.rotated), column = first.shape().inserted(4, 1);
  Term y = interleaved ? join(left.as(column), right.as(column)).as(rotated) : join(left, right);
  if (l.rotated < l.size) y = join(y, part(l.rotated, l.size, 1));
  return {y.as(from)};
}

double cost(const Problem& p) { return 3.0 * static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> cases() {
  const auto cache = CaseInput::of({9, 4}), positions = CaseInput::range({2, 3}, 0, 8, DType::i64);
  const int64_t one = 1;
  return {{"heads", {CaseInput::of({2, 5, 3, 8}), cache, cache, positions}},
          {"interleaved", {CaseInput::of({2, 5, 3, 8}), cache, cache, positions}, {{"interleaved", one}}},
          {"packed",
           {CaseInput::of({2, 3, 40}), CaseInput::of({2, 3, 2}), CaseInput::of({2, 3, 2})},
           {{"num_heads", int64_t{5}}, {"rotary_embedding_dim", int64_t{4}}}},
          {"f16",
           {CaseInput::of({1, 2, 3, 4}, DType::f16), CaseInput::of({1, 3, 2}, DType::f16),
            CaseInput::of({1, 3, 2}, DType::f16)}}};
}

constexpr AttrSpec kAttrs[] = {
    {"interleaved", AttrType::integer}, {"num_heads", AttrType::integer}, {"rotary_embedding_dim", AttrType::integer}};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {{.name = "RotaryEmbedding",
                       .doc = "Pairs of elements turned by the token's position.",
                       .since = 23,
                       .inputs = {3, 4},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.in_place = over_any_input},
                       .infer = infer,
                       .cpu = kCpu,
                       .expand = expand,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::rotary_embedding_ops
