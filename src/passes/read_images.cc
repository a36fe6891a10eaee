// Lets a GPU's first layers read images as they come: a convolution's kernel rounds bytes or f32 itself and finds
// channels where they lie. A Cast and a Transpose before it would each be a launch, and write and read the image again.
#include "passes/edit.h"
#include "passes/pass.h"
#include "tensor/finite.h"

namespace sparkpilot {
namespace {

using Ints = std::vector<int64_t>;

// The kernel reads single elements, again for each 32 channels that come out; lanes read pixels beside each other.
constexpr int64_t kMostChannels = 32, kMostOut = 128, kMostStride = 4;

struct Image {
  ValueId x;
  bool channels_first = false;
  DType cast = DType::none;    // to which it is rounded
  std::optional<Shape> shape;  // of x, as the convolution sees it
};

// What makes the value, if nothing else reads it.
NodeId only_maker(Edit& edit, ValueId value) {
  const NodeId maker = edit.maker(value);
  if (!maker.present() || edit.leaves_graph(value) || edit.readers(value).size() != 1) return {};
  return edit.known(edit.node(maker).inputs[0]) ? maker : NodeId{};
}

bool is_cast_of_image(Edit& edit, NodeId id) {
  if (!id.present() || !is_op(edit.node(id), "Cast")) return false;
  const DType from = edit.dtype(edit.node(id).inputs[0]);
  return from == DType::u8 || from == DType::f32;
}

Image image_of(Edit& edit, const Node& node) {
  Image out{.x = node.inputs[0], .channels_first = node.attrs.integer("x_channels_first", 0) != 0, .shape = {}};
  while (true) {
    const NodeId maker = only_maker(edit, out.x);
    if (!maker.present()) return out;
    const Node& before = edit.node(maker);
    const ValueId x = before.inputs[0];
    if (out.cast == DType::none && is_cast_of_image(edit, maker)) {
      out.cast = edit.dtype(out.x);
    } else if (!out.channels_first && is_op(before, "Transpose") &&
               permutation_of(before, edit.shape(x).rank()) == std::vector<int>{0, 2, 3, 1}) {
      out.channels_first = true;
    } else if (out.cast == DType::none && is_op(before, "Reshape") && is_cast_of_image(edit, only_maker(edit, x))) {
      out.shape = edit.shape(out.x);
    } else {
      return out;
    }
    out.x = x;
  }
}

bool takes(Edit& edit, const Node& node) {
  if (!is_op(node, "sparkpilot::Conv") || node.attrs.integer("channels_last", 0) == 0 || node.attrs.has("x_cast") ||
      node.attrs.integer("group", 1) != 1 || !edit.known(node.inputs[0]) || !edit.known(node.outputs[0]))
    return false;
  const Tensor* weights = edit.constant(node.inputs[1]);
  if (!weights || weights->shape().rank() != 4) return false;
  // Other kernels take weights that are not finite, and no image of another type.
  return weights->shape()[1] <= kMostChannels && weights->shape()[0] <= kMostOut && all_finite(weights->view());
}

bool read_image(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!takes(edit, node)) return false;
  const Image image = image_of(edit, node);
  const bool moved = image.channels_first && node.attrs.integer("x_channels_first", 0) == 0;
  if (image.cast == DType::none && !moved) return false;
  const Shape& weights = edit.constant(node.inputs[1])->shape();
  const int64_t stride = node.attrs.integers("strides", {1, 1})[1];
  if (weights[1] > 1 && (stride > kMostStride || (moved && weights[3] == 1))) return false;
  Attributes attrs = node.attrs;
  if (image.channels_first) attrs.set("x_channels_first", int64_t{1});
  if (image.cast != DType::none) attrs.set("x_cast", onnx_code(image.cast));
  std::vector<ValueId> inputs = node.inputs;
  const ValueId y = node.outputs[0];
  inputs[0] = image.shape ? edit.reshape(id, image.x, *image.shape) : image.x;
  edit.replace(y, edit.make(id, "sparkpilot::Conv", inputs, attrs));
  return true;
}

}  // namespace

int read_images(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += read_image(edit, id);
  }
  if (changes > 0) graph.compact();
  return changes;
}

}  // namespace sparkpilot
