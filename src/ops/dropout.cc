// Dropout as inference has it: the data unchanged, and a mask that keeps everything. Training, where elements are
// dropped at random, is refused: ops here are pure, and the standard does not say which random numbers.
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

// Only a constant training_mode can be known to be false, and only a ratio of 0 makes training drop nothing.
void refuse_training(ExpandContext& e) {
  if (!e.has(2)) return;
  const Tensor* training = e.b.graph().constant(e.in(2));
  if (!training) fail("training_mode has to be a constant");
  if (training->to_scalar() == 0) return;
  const Tensor* ratio = e.has(1) ? e.b.graph().constant(e.in(1)) : nullptr;
  if (!ratio || ratio->to_scalar() != 0) fail("training_mode is set: random dropout is not supported");
}

std::vector<ValueId> expand(ExpandContext& e, DType mask_type) {
  std::vector<ValueId> out = {e.b.add("Identity", {e.in(0)})};
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
                       .expand =
                           [](ExpandContext& e) {
                             refuse_training(e);
                             return expand(e, DType::boolean);
                           }},
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

std::span<const OpDef> dropout_ops() { return kOps; }

}  // namespace sparkpilot
