// OptionalHasElement and OptionalGetElement for an optional that is a plain tensor or an absent input. Values of an
// optional type are not supported; the importer rejects them.
#include "ops/cpu/move/copy.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::optional_ops {
namespace {

std::vector<OpCase> has_cases() { return {{"there", {CaseInput::of({3})}, {}}, {"absent", {}, {}}}; }
std::vector<OpCase> get_cases() { return {{"plain", {CaseInput::of({3, 5})}, {}}}; }

constexpr Kernel kHas[] = {{.name = "reference", .run = [](const Call& c) { *c.outputs[0].as<bool>() = c.has(0); }}};
constexpr Kernel kGet[] = {{.name = "reference", .run = run_view}};

const OpDef kOps[] = {
    {.name = "OptionalHasElement",
     .doc = "Whether an input is there.",
     .since = 15,
     .inputs = {0, 1},
     .outputs = {1, 1},
     .traits = {.shape_only = true},
     .infer = [](InferContext& c) { c.output(0, DType::boolean, Shape{}); },
     .cpu = kHas,
     .no_gradient = no_gradient::kNotFloats,
     .cost = no_flops,
     .cases = has_cases},
    {.name = "OptionalGetElement",
     .doc = "The input itself.",
     .since = 15,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .traits = {.view = true},
     .infer = [](InferContext& c) { c.output(0, c.dtype(0), c.shape(0)); },
     .cpu = kGet,
     .grad = [](GradContext& c) { return std::vector<ValueId>{c.out_grads[0]}; },
     .cost = no_flops,
     .cases = get_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::optional_ops
