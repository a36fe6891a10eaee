// Identity: the same bytes under another name.
#include <cstring>

#include "ops/cuda/copy_candidates.h"
#include "ops/registry.h"

namespace sparkpilot::identity_ops {
namespace {

constexpr Kernel kCpu[] = {{.name = "reference", .run = [](const Call& c) {
                              if (c.outputs[0].data != c.inputs[0].data) {
                                std::memcpy(c.outputs[0].data, c.inputs[0].data,
                                            static_cast<size_t>(c.inputs[0].bytes()));
                              }
                            }}};

const OpDef kOps[] = {{
    .name = "Identity",
    .doc = "Copies its input; a view where buffers allow it.",
    .since = 1,
    .inputs = {1, 1},
    .outputs = {1, 1},
    .traits = {.view = true, .picks = true},
    .infer = [](InferContext& c) { c.output(0, c.dtype(0), c.shape(0)); },
    .cpu = kCpu,
    .cuda = cuda::kView,
    .grad = [](GradContext& g) { return std::vector<ValueId>{g.out_grads[0]}; },
    .cases =
        [] {
          return std::vector<OpCase>{{"plain", {CaseInput::of({3, 5})}},
                                     {"scalar", {CaseInput::of({})}},
                                     {"i64", {CaseInput::range({7}, -9, 9, DType::i64)}}};
        },
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::identity_ops
