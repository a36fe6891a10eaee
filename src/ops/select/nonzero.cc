// NonZero and Compress: select elements by a condition. The number of results depends on the data.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::nonzero_ops {
namespace {

// --- NonZero: the coordinates of non-zero elements, one row per axis (none for a scalar)
void run_nonzero(const Call& c) {
  const ConstView& in = c.inputs[0];
  const int64_t count = in.elements();
  dispatch(AllTypes{}, in.dtype, [&]<typename T>() {
    // A boolean from a file may hold any byte; the two passes below must treat it in the same way.
    using Raw = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    const Raw* x = in.as<Raw>();
    const auto hit = [&](int64_t i) { return static_cast<Compute<Raw>>(x[i]) != Compute<Raw>{}; };
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) found += hit(i);
    int64_t* y = (*c.allocate)(0, Shape{in.shape.rank(), found}).template as<int64_t>();
    int64_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (!hit(i)) continue;
      int64_t rest = i;
      for (int axis = in.shape.rank() - 1; axis >= 0; --axis) {
        y[axis * found + at] = rest % in.shape[axis];
        rest /= in.shape[axis];
      }
      ++at;
    }
  });
}

// --- Compress
void infer_compress(InferContext& c) {
  if (c.dtype(1) != DType::boolean || c.rank(1) != 1) {
    fail("condition is {}{}, expected a list of booleans", name(c.dtype(1)), c.shape(1).str());
  }
  if (c.attrs.has("axis")) normalize_axis(c.attrs.integer("axis"), c.rank(0));
  c.output_dynamic(0, c.dtype(0));
}

void run_compress(const Call& c) {
  const ConstView& in = c.inputs[0];
  const auto* keep = c.inputs[1].as<uint8_t>();  // a boolean from a file may hold any byte
  const bool flat = !c.attrs().has("axis");
  const int axis = flat ? 0 : normalize_axis(c.attrs().integer("axis"), in.shape.rank());
  const int64_t outer = flat ? 1 : in.shape.elements(0, axis), size = flat ? in.elements() : in.shape[axis];
  const int64_t bytes = (flat ? 1 : in.shape.elements(axis + 1, in.shape.rank())) * bits(in.dtype) / 8;
  const int64_t looked_at = c.inputs[1].elements();
  if (looked_at > size) fail("the condition has {} elements, the data {}", looked_at, size);
  const int64_t kept = looked_at - std::count(keep, keep + looked_at, uint8_t{0});
  auto* y = (*c.allocate)(0, flat ? Shape{kept} : in.shape.with(axis, kept)).as<std::byte>();
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < looked_at; ++j) {
      if (keep[j] == 0) continue;
      std::memcpy(y, in.as<std::byte>() + (i * size + j) * bytes, static_cast<size_t>(bytes));
      y += bytes;
    }
  }
}

std::vector<OpCase> nonzero_cases() {
  return {{"cube", {CaseInput::range({3, 4, 5}, 0, 2, DType::i32)}, {}},
          {"booleans", {CaseInput::range({41}, 0, 1, DType::boolean)}, {}},
          {"scalar", {CaseInput::of({})}, {}},
          {"none", {CaseInput::range({4, 4}, 0, 0, DType::i64)}, {}}};
}
std::vector<OpCase> compress_cases() {
  const auto keep = [](int64_t size) { return CaseInput::range({size}, 0, 1, DType::boolean); };
  return {{"rows", {CaseInput::of({7, 5}), keep(7)}, {{"axis", int64_t{0}}}},
          {"columns", {CaseInput::of({3, 9}, DType::f16), keep(6)}, {{"axis", int64_t{-1}}}},
          {"flat", {CaseInput::of({3, 5}), keep(11)}, {}}};
}

constexpr Kernel kNonZero[] = {
    {.name = "reference",
     .accepts = [](const Problem& p) -> Acceptance { return contains(AllTypes{}, p.inputs[0].dtype); },
     .run = run_nonzero}};
constexpr Kernel kCompress[] = {{.name = "reference",
                                 .accepts = [](const Problem& p) -> Acceptance { return bits(p.inputs[0].dtype) >= 8; },
                                 .run = run_compress}};
constexpr AttrSpec kCompressAttrs[] = {{"axis", AttrType::integer}};

const OpDef kOps[] = {
    {.name = "NonZero",
     .doc = "Coordinates of the elements that are not zero.",
     .since = 9,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .traits = {.dynamic = true},
     .infer = [](InferContext& c) { c.output_dynamic(0, DType::i64); },
     .cpu = kNonZero,
     .no_gradient = no_gradient::kNotFloats,
     .cases = nonzero_cases},
    {.name = "Compress",
     .doc = "Slices along an axis for which a condition holds.",
     .since = 9,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kCompressAttrs,
     .traits = {.dynamic = true},
     .infer = infer_compress,
     .cpu = kCompress,
     .no_gradient = no_gradient::kDynamic,
     .cost = no_flops,
     .cases = compress_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::nonzero_ops
