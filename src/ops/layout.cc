#include "ops/layout.h"

namespace sparkpilot {

ValueId channels_last_to_first(Builder& b, ValueId image) {
  const int rank = b.shape(image).rank();
  std::vector<int64_t> perm{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return b.add("Transpose", {image}, {{"perm", perm}});
}

ValueId channels_first_to_last(Builder& b, ValueId image) {
  const int rank = b.shape(image).rank();
  std::vector<int64_t> perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return b.add("Transpose", {image}, {{"perm", perm}});
}

std::vector<ValueId> expand_channels_last(ExpandContext& e) {
  Attributes attrs = e.node.attrs;
  const bool channels_last = attrs.integer("channels_last", 0) != 0;
  attrs.erase("channels_last");
  std::vector<ValueId> inputs = e.node.inputs;
  if (channels_last) inputs[0] = channels_last_to_first(e.b, inputs[0]);
  const ValueId y = e.b.add(e.node.op->name, inputs, attrs);
  return {channels_last ? channels_first_to_last(e.b, y) : y};
}

}  // namespace sparkpilot
