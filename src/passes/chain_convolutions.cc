// Replaces consecutive channels-last convolutions by one node that never holds the whole intermediate images in memory:
// expand, depthwise, project (inverted bottlenecks), and depthwise with the 1x1 convolution after it. Not on a GPU: a
// kernel that did so in 16 bits took 21 us on an H100 where the two it stood for take 12 (driving_vision, 64x32 pixels,
// 64 to 192 channels).
#include <algorithm>

#include "ir/activation.h"
#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

using Ints = std::vector<int64_t>;

// What was measured to be faster, on one thread and on two (AVX-512): at least this many pixels in the output, and this
// many bytes in the image between the first two stages. Smaller images stay in cache anyway, and large products are
// faster for them.
constexpr int64_t kMinPixels = 64, kMinBytes = 128 * 1024;

// A sparkpilot::Conv of two-dimensional images with channels last and constant operands.
struct Stage {
  NodeId id;
  ValueId x, y;
  int64_t in = 0, out = 0, groups = 1;
  Ints kernel, strides, pads;
  bool whole_operand = false;  // the epilogue reads an operand as large as the image
  bool x_channels_first = false;

  bool is_pointwise() const {
    return groups == 1 && kernel == Ints{1, 1} && strides == Ints{1, 1} && pads == Ints{0, 0, 0, 0};
  }
  // Whether a chain may begin with it, if it is not the depthwise stage: other dense convolutions are faster as single
  // nodes.
  bool starts() const { return groups == 1 && (is_pointwise() || x_channels_first); }
  bool is_depthwise() const { return groups > 1 && groups == in && groups == out; }
};

// The pads given by the attribute `pads` or `auto_pad`.
std::optional<Ints> pads_of(const Attributes& attrs, const Stage& s, const Shape& x, const Shape& y) {
  const int first_axis = s.x_channels_first ? 2 : 1;
  const std::string how = attrs.text("auto_pad", "NOTSET");
  if (how == "NOTSET") return attrs.integers("pads", {0, 0, 0, 0});
  if (how == "VALID") return Ints{0, 0, 0, 0};
  Ints begin, end;
  for (size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i);
    const int64_t reach = (y[axis + 1] - 1) * s.strides[i] + s.kernel[i];
    const int64_t all = std::max<int64_t>(0, reach - x[axis + first_axis]);
    begin.push_back(how == "SAME_UPPER" ? all / 2 : all - all / 2);
    end.push_back(all - begin.back());
  }
  return Ints{begin[0], begin[1], end[0], end[1]};
}

std::optional<Stage> read_stage(Edit& edit, NodeId id) {
  if (!id.present() || !is_op(edit.node(id), "sparkpilot::Conv")) return {};
  const Node& node = edit.node(id);
  Stage s{.id = id, .x = node.inputs[0], .y = node.outputs[0]};
  if (node.attrs.integer("channels_last", 0) == 0 || !edit.known(s.x) || !edit.known(s.y)) return {};
  if (edit.shape(s.x).rank() != 4 || edit.dtype(s.y) != edit.dtype(s.x)) return {};
  const Tensor* weights = edit.constant(node.inputs[1]);
  if (!weights || node.attrs.integers("dilations", {1, 1}) != Ints{1, 1}) return {};
  if (node.inputs.size() > 2 && node.inputs[2].present() && !edit.constant(node.inputs[2])) return {};
  s.x_channels_first = node.attrs.integer("x_channels_first", 0) != 0;
  s.in = edit.shape(s.x)[s.x_channels_first ? 1 : 3];
  s.out = edit.shape(s.y)[3];
  s.groups = node.attrs.integer("group", 1);
  s.kernel = {weights->shape()[2], weights->shape()[3]};
  s.strides = node.attrs.integers("strides", {1, 1});
  const auto pads = pads_of(node.attrs, s, edit.shape(s.x), edit.shape(s.y));
  if (!pads) return {};
  s.pads = *pads;
  for (size_t i = 3; i < node.inputs.size(); ++i) {
    s.whole_operand |= node.inputs[i].present() && edit.shape(node.inputs[i]) == edit.shape(s.y);
  }
  return s;
}

// The stage that makes the input of `s`, if nothing else reads its output.
std::optional<Stage> stage_before(Edit& edit, const Stage& s) {
  const NodeId maker = edit.maker(s.x);
  if (!maker.present() || edit.leaves_graph(s.x) || edit.readers(s.x).size() != 1) return {};
  auto before = read_stage(edit, maker);
  if (!before || before->whole_operand) return {};
  return before;
}

void write_chain(Edit& edit, std::span<const Stage> stages) {
  std::vector<ValueId> inputs{stages[0].x}, operands;
  Ints groups, strides, pads;
  Attributes attrs;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Node& node = edit.node(stages[i].id);
    inputs.push_back(node.inputs[1]);
    inputs.push_back(node.inputs.size() > 2 ? node.inputs[2] : ValueId{});
    groups.push_back(stages[i].groups);
    strides.insert(strides.end(), stages[i].strides.begin(), stages[i].strides.end());
    pads.insert(pads.end(), stages[i].pads.begin(), stages[i].pads.end());
    std::vector<std::string> steps = node.attrs.texts("epilogue");
    for (std::string& step : steps) {
      // A convolution's operands begin at input 3, the chain's after the weights and biases.
      const std::optional<size_t> operand = operand_of_step(step);
      if (operand) step = step_with_operand(step, *operand - 3 + 1 + 2 * stages.size() + operands.size());
    }
    if (!steps.empty()) attrs.set(fmt::format("epilogue_{}", i), steps);
    if (node.inputs.size() > 3) operands.insert(operands.end(), node.inputs.begin() + 3, node.inputs.end());
  }
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  attrs.set("groups", groups);
  attrs.set("strides", strides);
  attrs.set("pads", pads);
  if (stages[0].x_channels_first) attrs.set("x_channels_first", int64_t{1});
  const Stage& last = stages.back();
  edit.replace(last.y, edit.make(last.id, "sparkpilot::ConvChain", inputs, attrs));
}

bool chain(Edit& edit, NodeId id) {
  const auto last = read_stage(edit, id);
  if (!last || !last->is_pointwise() || edit.dtype(last->x) != DType::f32) return false;
  const auto depthwise = stage_before(edit, *last);
  if (!depthwise || !depthwise->is_depthwise()) return false;
  std::vector<Stage> stages{*depthwise, *last};
  const Shape& x = edit.shape(depthwise->x);
  const Shape& y = edit.shape(last->y);
  if (y[1] * y[2] < kMinPixels) return false;
  const auto first = stage_before(edit, *depthwise);
  if (first && first->starts() && storage_bytes(DType::f32, x.elements(1, 4)) >= kMinBytes)
    stages.insert(stages.begin(), *first);
  write_chain(edit, stages);
  return true;
}

}  // namespace

int chain_convolutions(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += chain(edit, id);
  }
  if (changes > 0) graph.compact();
  return changes;
}

}  // namespace sparkpilot
