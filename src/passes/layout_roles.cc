#include "passes/layout_roles.h"

#include <algorithm>

#include "ir/infer.h"
#include "passes/min_cut.h"

namespace sparkpilot {
namespace {

bool is_image(Edit& edit, ValueId value) {
  return edit.known(value) && edit.shape(value).rank() >= 3 && edit.shape(value).rank() <= 5;
}

double bytes(Edit& edit, ValueId value) {
  return static_cast<double>(storage_bytes(edit.dtype(value), edit.shape(value).elements()));
}

// The cost of a Transpose of the value between the layouts.
double moved_bytes(Edit& edit, ValueId value) {
  const Shape& shape = edit.shape(value);
  return moves_data(shape, to_channels_last(shape.rank())) ? bytes(edit, value) : 0;
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// The internal op that computes the node with channels last; null if there is none.
const OpDef* twin(const Node& node) {
  if (node.outputs.size() != 1) return nullptr;
  if (node.op->traits.channels_last) return node.op;
  if (!node.op->domain.empty()) return nullptr;
  std::string_view name = node.op->name;
  if (name == "GlobalAveragePool") name = "AveragePool";
  if (name == "GlobalMaxPool") name = "MaxPool";
  const OpDef* found = find_op("sparkpilot", name, 1);
  return found && found->traits.channels_last ? found : nullptr;
}

// With channels first a convolution is fast by oneDNN only, which moves the images itself; its packages for Arm have no
// fast convolutions.
#if defined(__x86_64__)
constexpr bool kChannelsFirst = true;
#else
constexpr bool kChannelsFirst = false;
#endif

// Convolutions and pools: with channels first the kernel moves the images itself.
LayoutRole image_op(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  LayoutRole role;
  if (!is_image(edit, node.inputs[0]) || node.attrs.integer("channels_last", 0) != 0) return role;
  if (is_op(node, "sparkpilot::ConvWeightGradient")) {
    role.kind = LayoutRole::consumer;
    role.images = {true, true};
    const double moved = moved_bytes(edit, node.inputs[0]) + moved_bytes(edit, node.inputs[1]);
    role.first_cost = kChannelsFirst ? moved : MinCut::kNever;
    return role;
  }
  role.images.assign(node.inputs.size(), false);
  role.images[0] = true;
  const bool coded = is_op(node, "sparkpilot::ScaledConv");
  for (size_t i = coded ? 4 : 3; i < node.inputs.size() && (coded || is_op(node, "sparkpilot::Conv")); ++i) {
    role.images[i] =
        edit.shape(node.inputs[i]) == edit.shape(node.outputs[0]) && edit.shape(node.outputs[0]).elements() > 1;
  }
  role.kind = LayoutRole::free;
  const double moved = moved_bytes(edit, node.inputs[0]) + moved_bytes(edit, node.outputs[0]);
  // A quantized convolution has fast kernels for channels last only.
  role.first_cost = coded || is_op(node, "sparkpilot::QConv")                ? MinCut::kNever
                    : is_one_of(node, {"sparkpilot::Conv", "ConvTranspose"}) ? (kChannelsFirst ? moved : MinCut::kNever)
                    : is_op(node, "Resize")                                  ? 0
                                                                             : moved / 2;
  return role;
}

// A shape with 1s in front, up to the rank.
Shape padded(const Shape& shape, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank - shape.rank()), 1);
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(std::span<const int64_t>(dims));
}

// Whether an operand of fewer dimensions than the images needs no copy with channels last, such as a number a channel.
bool broadcasts_in_place(const Shape& shape, int rank) {
  return !moves_data(padded(shape, rank), to_channels_last(rank));
}

LayoutRole elementwise(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  LayoutRole role;
  const int rank = edit.shape(node.outputs[0]).rank();
  role.images.assign(node.inputs.size(), false);
  bool any = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (!input.present() || edit.constant(input)) continue;
    if (!edit.known(input)) return role;
    const Shape& shape = edit.shape(input);
    if (shape.rank() == rank) role.images[i] = any = true;
    else if (!broadcasts_in_place(shape, rank)) return role;
  }
  if (any) role.kind = LayoutRole::free;
  return role;
}

// Ops on input 0 along axes given by an attribute or by constants.
LayoutRole along_axes(Edit& edit, NodeId id, bool constants) {
  const Node& node = edit.node(id);
  LayoutRole role;
  role.images.assign(node.inputs.size(), false);
  role.images[0] = true;
  for (size_t i = 1; i < node.inputs.size() && constants; ++i) {
    if (node.inputs[i].present() && !edit.constant(node.inputs[i])) return role;
  }
  role.kind = LayoutRole::free;
  return role;
}

LayoutRole transpose(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  LayoutRole role;
  role.kind = LayoutRole::consumer;
  role.images = {true};
  const Shape shape = edit.shape(node.inputs[0]);
  const std::vector<int> perm = permutation_of(node, shape.rank());
  if (perm == to_channels_first(shape.rank())) {
    role.kind = LayoutRole::producer;
    role.images = {false};
    if (moves_data(shape, perm)) role.first_cost = bytes(edit, node.inputs[0]);
    return role;
  }
  std::vector<int> composed;
  for (const int axis : perm) composed.push_back(channels_last_axis(axis, shape.rank()));
  if (moves_data(shape, perm)) role.first_cost = bytes(edit, node.inputs[0]);
  if (moves_data(permuted(shape, to_channels_last(shape.rank())), composed))
    role.last_cost = bytes(edit, node.inputs[0]);
  return role;
}

LayoutRole reduction(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  LayoutRole role = along_axes(edit, id, true);
  const auto axes = reduced_axes(edit.graph(), node);
  if (!axes) return {};
  if (node.attrs.integer("keepdims", 1) != 0) return role;
  role.kind = LayoutRole::consumer;
  const int rank = edit.shape(node.inputs[0]).rank();
  int last = -1;
  for (int axis = 0; axis < rank; ++axis) {
    if (std::find(axes->begin(), axes->end(), axis) != axes->end()) continue;
    if (channels_last_axis(axis, rank) < last) return {};
    last = channels_last_axis(axis, rank);
  }
  return role;
}

// --- rewriting
// The weights [C * spatial, N] (or [N, C * spatial] if `transposed`) of a product whose rows now have channels last,
// reordered to match.
ValueId reordered_weights(Edit& edit, NodeId id, ValueId weights, const Shape& image, bool transposed) {
  std::vector<int64_t> dims(image.begin() + 1, image.end());
  std::vector<int> perm;
  const auto count = static_cast<int>(dims.size());
  for (int i = 1; i < count; ++i) perm.push_back(i);
  perm.push_back(0);
  const Shape whole = edit.shape(weights);
  if (transposed) {
    dims.insert(dims.begin(), whole[0]);
    for (int& axis : perm) ++axis;
    perm.insert(perm.begin(), 0);
  } else {
    dims.push_back(whole[1]);
    perm.push_back(count);
  }
  const ValueId split = edit.reshape(id, weights, Shape(std::span<const int64_t>(dims)));
  return edit.reshape(id, edit.transpose(id, split, perm), whole);
}

// Reorders the weights of the readers of a flattened image; returns the flattened image.
ValueId flatten_channels_last(Edit& edit, NodeId id, ValueId image) {
  const Node& node = edit.node(id);
  const ValueId rows = node.outputs[0];
  const Shape first = edit.shape(node.inputs[0]), flat = edit.shape(rows);
  for (const NodeId reader : std::vector<NodeId>(edit.readers(rows))) {
    const bool transposed = edit.node(reader).attrs.integer("transB", 0) != 0;
    const ValueId weights = edit.node(reader).inputs[1];
    edit.set_input(reader, 1, reordered_weights(edit, reader, weights, first, transposed));
  }
  edit.forget_name(rows);
  return edit.reshape(id, image, flat);
}

// An operand of an elementwise op that is not an image with channels last yet, for an output of this rank.
ValueId adapted_operand(Edit& edit, NodeId id, ValueId value, int rank) {
  const Shape shape = edit.shape(value);
  if (shape.rank() < 2 && shape.elements() <= 1) return value;
  const ValueId whole = edit.reshape(id, value, padded(shape, rank));
  const ValueId moved = edit.transpose(id, whole, to_channels_last(rank));
  std::span<const int64_t> left = edit.shape(moved).dims();
  while (left.size() > 1 && left[0] == 1) left = left.subspan(1);
  return edit.reshape(id, moved, Shape(left));
}

// An operand that holds axes, with the axes' indices in the other layout.
ValueId moved_axes(Edit& edit, ValueId axes, int rank) {
  std::vector<int64_t> moved = edit.constant(axes)->to_ints();
  for (int64_t& axis : moved) axis = channels_last_axis(normalize_axis(axis, rank), rank);
  return edit.graph().add_constant(Tensor::ints(moved));
}

// Without axes, a Slice applies to the first axes.
void move_slice(Edit& edit, std::vector<ValueId>& inputs, int rank) {
  if (inputs.size() < 4 || !inputs[3].present()) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < edit.shape(inputs[1]).elements(); ++i) all.push_back(i);
    inputs.resize(std::max<size_t>(inputs.size(), 4));
    inputs[3] = edit.graph().add_constant(Tensor::ints(all));
  }
  inputs[3] = moved_axes(edit, inputs[3], rank);
}

// Pads of all axes, first begins, then ends; or of some axes.
void move_pads(Edit& edit, std::vector<ValueId>& inputs, int rank) {
  if (inputs.size() > 3 && inputs[3].present()) {
    inputs[3] = moved_axes(edit, inputs[3], rank);
    return;
  }
  const std::vector<int64_t> pads = edit.constant(inputs[1])->to_ints();
  std::vector<int64_t> moved(pads.size());
  for (int axis = 0; axis < rank; ++axis) {
    const auto from = static_cast<size_t>(axis), to = static_cast<size_t>(channels_last_axis(axis, rank));
    moved[to] = pads[from];
    moved[to + static_cast<size_t>(rank)] = pads[from + static_cast<size_t>(rank)];
  }
  inputs[1] = edit.graph().add_constant(Tensor::ints(moved));
}

void move_reduction(Edit& edit, const std::vector<int>& axes, std::vector<ValueId>& inputs, Attributes& attrs,
                    int rank) {
  std::vector<int64_t> moved;
  for (const int axis : axes) moved.push_back(channels_last_axis(axis, rank));
  std::sort(moved.begin(), moved.end());
  if (attrs.has("axes")) {
    attrs.set("axes", moved);
  } else {
    inputs.resize(2);
    inputs[1] = edit.graph().add_constant(Tensor::ints(moved));
  }
}

}  // namespace

std::vector<int> to_channels_last(int rank) {
  std::vector<int> perm{0};
  for (int axis = 2; axis < rank; ++axis) perm.push_back(axis);
  perm.push_back(1);
  return perm;
}

std::vector<int> to_channels_first(int rank) {
  std::vector<int> perm{0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) perm.push_back(axis);
  return perm;
}

int channels_last_axis(int axis, int rank) { return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1; }

LayoutRole layout_role(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (node.inputs.empty() || !node.inputs[0].present()) return {};
  for (const ValueId output : node.outputs) {
    if (!edit.known(output)) return {};
  }
  if (twin(node)) return image_op(edit, id);
  if (!is_image(edit, node.inputs[0]) && !is_image(edit, node.outputs[0])) return {};
  if (node.op->traits.elementwise && node.outputs.size() == 1 && is_image(edit, node.outputs[0])) {
    return elementwise(edit, id);
  }
  if (!is_image(edit, node.inputs[0])) return {};
  if (is_op(node, "Transpose")) return transpose(edit, id);
  if (flattens_for_gemm(edit, id)) {
    LayoutRole role;
    role.kind = LayoutRole::consumer;
    role.images.assign(node.inputs.size(), false);
    role.images[0] = true;
    return role;
  }
  const int rank = edit.shape(node.inputs[0]).rank();
  if (edit.shape(node.outputs[0]).rank() != rank && !starts_with(node.op->name, "Reduce")) return {};
  if (is_op(node, "Concat")) return elementwise(edit, id);
  if (is_one_of(node, {"Softmax", "LogSoftmax", "LpNormalization", "sparkpilot::L2Normalize", "Identity"})) {
    return along_axes(edit, id, false);
  }
  if (is_one_of(node, {"Split", "Slice", "Pad"})) return along_axes(edit, id, true);
  if (node.op->domain.empty() && starts_with(node.op->name, "Reduce")) return reduction(edit, id);
  return {};
}

bool flattens_for_gemm(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!node.op->traits.view || node.outputs.size() != 1 || edit.leaves_graph(node.outputs[0])) return false;
  const Shape image = edit.shape(node.inputs[0]), flat = edit.shape(node.outputs[0]);
  if (image.rank() < 3 || flat.rank() != 2 || flat[0] != image[0] || image.rank() + 1 > Shape::kMaxRank) return false;
  const std::vector<NodeId>& readers = edit.readers(node.outputs[0]);
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    const std::vector<ValueId>& inputs = edit.node(reader).inputs;
    return is_one_of(edit.node(reader), {"sparkpilot::Gemm", "sparkpilot::QGemm"}) && inputs[0] == node.outputs[0] &&
           edit.constant(inputs[1]) && edit.readers(inputs[1]).size() == 1 &&
           std::count(inputs.begin(), inputs.end(), node.outputs[0]) == 1;
  });
}

std::vector<ValueId> make_channels_last(Edit& edit, NodeId id, std::vector<ValueId> inputs) {
  const Node node = edit.node(id);
  const Shape shape = edit.shape(node.inputs[0]);
  const int rank = shape.rank();
  if (flattens_for_gemm(edit, id)) return {flatten_channels_last(edit, id, inputs[0])};
  Attributes attrs = node.attrs;
  const OpDef* op = node.op;
  if (const OpDef* other = twin(node)) {
    op = other;
    attrs.set("channels_last", int64_t{1});
    attrs.erase("storage_order");
    if (starts_with(node.op->name, "Global")) {
      attrs.set("kernel_shape", std::vector<int64_t>(shape.begin() + 2, shape.end()));
    }
  } else if (is_op(node, "Transpose")) {
    std::vector<int> perm = permutation_of(node, rank);
    if (perm == to_channels_first(rank)) return {inputs[0]};
    for (int& axis : perm) axis = channels_last_axis(axis, rank);
    return {edit.transpose(id, inputs[0], perm)};
  } else if (starts_with(op->name, "Reduce")) {
    move_reduction(edit, *reduced_axes(edit.graph(), node), inputs, attrs, rank);
  } else if (is_op(node, "Slice")) {
    move_slice(edit, inputs, rank);
  } else if (is_op(node, "Pad")) {
    move_pads(edit, inputs, rank);
  } else if (is_one_of(node,
                       {"Concat", "Split", "Softmax", "LogSoftmax", "LpNormalization", "sparkpilot::L2Normalize"})) {
    const int64_t axis = attrs.integer("axis", is_op(node, "Split") ? 0 : -1);
    attrs.set("axis", int64_t{channels_last_axis(normalize_axis(axis, rank), rank)});
  }
  if (node.op->traits.elementwise || is_op(node, "Concat")) {
    const int out_rank = edit.shape(node.outputs[0]).rank();
    for (ValueId& input : inputs) {
      if (!input.present()) continue;
      if (is_op(node, "Concat")) {
        if (edit.constant(input)) input = edit.transpose(id, input, to_channels_last(out_rank));
      } else if (edit.constant(input) || edit.shape(input).rank() < out_rank) {
        input = adapted_operand(edit, id, input, out_rank);
      }
    }
  }
  Graph& graph = edit.graph();
  const NodeId made = graph.add_node(*op, inputs, attrs, static_cast<int>(node.outputs.size()), node.name);
  check_schema(graph, made);
  infer_node(graph, made);
  return graph.node(made).outputs;
}

}  // namespace sparkpilot
