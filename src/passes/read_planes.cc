// Lets first layers read images with channels first: moving three or six channels to the end costs as much as half of
// such a convolution.
#include <algorithm>

#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

using Ints = std::vector<int64_t>;

// Whether its kernel for channels-first images is faster than moving the data first.
bool gains(Edit& edit, const Node& node, const Shape& x) {
  constexpr int64_t kMaxChannels = 16, kMinWidth = 8, kMaxStride = 4, kMaxKernel = 16;
  // Multiply-adds per element read; with more, the cost of moving it does not matter.
  constexpr int64_t kMaxWork = 300;
  const Tensor* weights = edit.constant(node.inputs[1]);
  if (!weights || weights->shape().rank() != 4 ||
      (node.inputs.size() > 2 && node.inputs[2].present() && !edit.constant(node.inputs[2])))
    return false;
  const Ints strides = node.attrs.integers("strides", {1, 1});
  const int64_t kernel = weights->shape()[3], out = weights->shape()[0];
  const int64_t work =
      weights->shape()[2] * kernel * out / std::max<int64_t>(1, strides[0]) / std::max<int64_t>(1, strides[1]);
  return node.attrs.integer("group", 1) == 1 && node.attrs.integers("dilations", {1, 1}) == Ints{1, 1} && x[1] > 1 &&
         x[1] <= kMaxChannels && kernel > 1 && kernel <= kMaxKernel && strides[1] <= kMaxStride && work <= kMaxWork &&
         edit.shape(node.outputs[0])[2] >= kMinWidth;
}

bool read_planes(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "sparkpilot::Conv") || node.attrs.integer("channels_last", 0) == 0) return false;
  const NodeId maker = edit.maker(node.inputs[0], "Transpose");
  if (!maker.present()) return false;
  const ValueId x = edit.node(maker).inputs[0];
  if (!edit.known(x) || edit.dtype(x) != DType::f32 || edit.shape(x).rank() != 4) return false;
  if (permutation_of(edit.node(maker), 4) != std::vector<int>{0, 2, 3, 1}) return false;
  if (!edit.known(node.outputs[0]) || !gains(edit, node, edit.shape(x))) return false;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = x;
  Attributes attrs = node.attrs;
  attrs.set("x_channels_first", int64_t{1});
  const ValueId y = node.outputs[0];
  edit.replace(y, edit.make(id, "sparkpilot::Conv", inputs, attrs));
  return true;
}

}  // namespace

int read_planes(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += read_planes(edit, id);
  }
  if (changes > 0) graph.compact();
  return changes;
}

}  // namespace sparkpilot
