// Dropout in inference mode: the data unchanged, and a mask that keeps everything. Training mode, where elements are
// dropped at random, is refused: ops here are pure, and ONNX does not specify the random numbers.
#include <cstring>
#include <optional>

#include "ops/registry.h"

namespace sparkpilot::dropout_ops {
namespace {

constexpr std::string_view kRefusal = "training_mode is set: random dropout is not supported";

// Whether the scalar operand i is present and not zero; nullopt if its contents are not known.
std::optional<bool> is_set(const ExpandContext& e, size_t i) {
  if (!e.has(i)) return false;
  const Tensor* value = e.b.graph().constant(e.in(i));
  if (!value) return std::nullopt;
  return value->to_scalar() != 0;
}

// If the training mode is an input of the model, an internal op checks it in each run.
bool needs_check(const ExpandContext& e) {
  const auto training = is_set(e, 2);
  if (training && !*training) return false;
  const auto drops = e.has(1) ? is_set(e, 1) : true;
  if (drops && !*drops) return false;
  if (training && drops) fail("{}", kRefusal);
  return true;
}

void run_checked(const Call& c) {
  const ConstView& x = c.inputs[0];
  const auto set = [&](size_t i, bool otherwise) {
    return c.has(i) ? load_element(c.inputs[i].dtype, c.inputs[i].data, 0) != 0 : otherwise;
  };
  if (set(2, false) && set(1, true)) fail("{}", kRefusal);
  if (c.outputs[0].data != x.data) std::memcpy(c.outputs[0].data, x.data, static_cast<size_t>(x.bytes()));
}
void infer_checked(InferContext& c) {
  for (const int i : {1, 2}) {
    if (c.has(i) && c.shape(i).elements() != 1) {
      fail("input {} has shape {}, expected one element", i, c.shape(i).str());
    }
  }
  c.output(0, c.dtype(0), c.shape(0));
}
std::vector<OpCase> checked_cases() {
  const CaseInput off = CaseInput::value(Tensor::scalar(false)), on = CaseInput::value(Tensor::scalar(true));
  const CaseInput zero = CaseInput::value(Tensor::scalar(0.0f)), half = CaseInput::value(Tensor::scalar(0.5f));
  return {{"inference", {CaseInput::of({3, 5}), half, off}, {}},
          {"no_ratio", {CaseInput::of({3, 5}), CaseInput::none(), off}, {}},
          {"drops_nothing", {CaseInput::of({7}), zero, on}, {}}};
}
constexpr Kernel kChecked[] = {{.name = "reference", .run = run_checked}};

std::vector<ValueId> expand(ExpandContext& e, DType mask_type) {
  const bool checked = needs_check(e);
  std::vector<ValueId> out = {
      e.b.add(checked ? "sparkpilot::Dropout" : "Identity", checked ? e.node.inputs : std::vector<ValueId>{e.in(0)})};
  if (e.node.outputs.size() > 1) {
    out.push_back(e.b.add("Expand", {e.b.scalar(mask_type, 1), e.b.ints(e.b.shape(e.in(0)).dims())}));
  }
  return out;
}

constexpr AttrSpec kAttrs[] = {{"seed", AttrType::integer}, {"ratio", AttrType::real}};
constexpr AttrSpec kOldAttrs[] = {
    {"is_test", AttrType::integer}, {"ratio", AttrType::real}, {"consumed_inputs", AttrType::integers}};

const OpDef kOps[] = {{.name = "Dropout",
                       .doc = "The data unchanged, and a mask of what is kept: everything.",
                       .since = 10,
                       .inputs = {1, 3},
                       .outputs = {1, 2},
                       .attributes = kAttrs,
                       .infer =
                           [](InferContext& c) {
                             c.output(0, c.dtype(0), c.shape(0));
                             c.output(1, DType::boolean, c.shape(0));
                           },
                       .expand = [](ExpandContext& e) { return expand(e, DType::boolean); }},
                      {.name = "Dropout",
                       .domain = "sparkpilot",
                       .doc = "The data unchanged, after a look at whether training is asked for.",
                       .inputs = {1, 3},
                       .outputs = {1, 1},
                       .traits = {.in_place = over_any_input},
                       .infer = infer_checked,
                       .cpu = kChecked,
                       .grad = [](GradContext& c) { return std::vector<ValueId>{c.out_grads[0]}; },
                       .cases = checked_cases},
                      {.name = "Dropout",
                       .doc = "The form whose mask has the data's dtype.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 2},
                       .attributes = kOldAttrs,
                       .infer =
                           [](InferContext& c) {
                             c.output(0, c.dtype(0), c.shape(0));
                             c.output(1, c.dtype(0), c.shape(0));
                           },
                       .expand = [](ExpandContext& e) { return expand(e, e.b.dtype(e.in(0))); }}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::dropout_ops
