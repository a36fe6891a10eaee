// Replaces convolutions and matrix products with constant weights by the internal ops, and moves the bias, activation,
// residual and scale after them into their epilogue, which is applied while the result is in cache.
#include <algorithm>
#include <limits>

#include "ir/activation.h"
#include "passes/affine.h"
#include "passes/pass.h"
#include "passes/small_weights.h"

namespace sparkpilot {
namespace {

constexpr size_t kMaxSteps = 8;  // the most that kernels take

std::optional<std::string> activation_step(Edit& edit, const Node& node, ValueId y) {
  for (const EpilogueActivation& row : kEpilogueActivations) {
    if (row.parameters == 2 || !is_op(node, row.op)) continue;
    if (!row.key.empty() && node.attrs.text(row.key, "none") != row.value) continue;
    if (row.activation == Activation::silu && node.attrs.real("alpha", 1) != 1) continue;
    return epilogue_step(row.activation, row.alpha.empty() ? 0 : node.attrs.real(row.alpha, row.without));
  }
  if (is_op(node, "PRelu")) {
    const auto slope = edit.scalar(node.inputs[1]);
    if (slope && node.inputs[0] == y) return epilogue_step(Activation::leaky_relu, static_cast<float>(*slope));
  }
  const bool clip = is_op(node, "Clip"), max = is_op(node, "Max"), min = is_op(node, "Min");
  if (!clip && !max && !min) return {};
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  if (clip) {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].present()) continue;
      const auto limit = edit.scalar(node.inputs[i]);
      if (!limit) return {};
      (i == 1 ? low : high) = *limit;
    }
    if (low > high) return {};
  } else {
    if (node.inputs.size() != 2) return {};
    const auto limit = edit.scalar(node.inputs[node.inputs[0] == y ? 1 : 0]);
    if (!limit) return {};
    (max ? low : high) = *limit;
  }
  return epilogue_step(Activation::clip, static_cast<float>(low), static_cast<float>(high));
}

// A Conv or Gemm with all following nodes fused into it so far.
class Fusion {
 public:
  // Empty if the node is neither, or its weights are not constant. `packed`: nor such of 8 and 4 bits.
  static std::optional<Fusion> start(Edit& edit, NodeId id, bool packed);
  // Fuses the only reader of the current result; false if that is not possible.
  bool absorb();
  // Moves a following Reshape before the product, if it leaves the columns of the matrix alone; returns whether it did.
  bool cross_reshape();
  // Replaces all fused nodes by the internal op.
  void finish();
  bool is_gemm() const { return gemm_; }
  ValueId result() const { return y_; }

 private:
  struct Operand {
    ValueId value;
    bool full;  // has the output's shape
  };
  Fusion(Edit& edit, NodeId id) : edit_(&edit), id_(id), y_(edit.node(id).outputs[0]), shape_(edit.shape(y_)) {}
  bool read_conv();
  bool read_gemm();
  bool read_matmul();
  bool take_c(ValueId c, double beta);
  bool absorb_binary(const Node& node, ValueId other);
  void add_operand(std::string_view step, ValueId value, bool full);
  int channel_axis() const { return gemm_ ? shape_.rank() - 1 : 1; }
  int64_t channels() const { return shape_[channel_axis()]; }

  Edit* edit_;
  NodeId id_;
  ValueId y_;
  Shape shape_;                        // of y_
  bool gemm_ = false, coded_ = false;  // coded_: sparkpilot::ScaledConv, which has no epilogue yet
  ValueId x_, weights_, bias_, scale_;
  std::optional<SmallWeights> small_;
  Attributes attrs_;
  std::vector<std::string> steps_;
  std::vector<Operand> operands_;
};

bool is_narrow_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

std::optional<Fusion> Fusion::start(Edit& edit, NodeId id, bool packed) {
  const Node& node = edit.node(id);
  const bool coded = is_op(node, "sparkpilot::ScaledConv"), conv = coded || is_op(node, "Conv");
  const bool gemm = is_op(node, "Gemm"), matmul = is_op(node, "MatMul");
  if (!conv && !gemm && !matmul) return {};
  if (coded && (node.attrs.has("epilogue") || node.attrs.has("channels_last"))) return {};  // it was here before
  if (!edit.known(node.outputs[0]) || !edit.known(node.inputs[0])) return {};
  const std::optional<SmallWeights> small = packed ? small_weights(edit, id) : std::nullopt;
  if (!small && !edit.constant(node.inputs[1])) return {};
  if (!is_narrow_float(edit.dtype(node.outputs[0]))) return {};
  Fusion out(edit, id);
  out.coded_ = coded;
  out.x_ = node.inputs[0];
  out.weights_ = small ? small->codes : node.inputs[1];
  out.small_ = small;
  if (!(conv ? out.read_conv() : gemm ? out.read_gemm() : out.read_matmul())) return {};
  return out;
}

bool Fusion::read_conv() {
  const Node& node = edit_->node(id_);
  attrs_ = node.attrs;
  const size_t bias = coded_ ? 3 : 2;
  if (coded_) scale_ = node.inputs[2];
  if (node.inputs.size() > bias) bias_ = node.inputs[bias];
  return true;
}

bool Fusion::read_matmul() {
  const Shape w = edit_->shape(weights_), x = edit_->shape(x_);
  if (w.rank() < 2 || x.rank() < w.rank() || w.elements(0, w.rank() - 2) != 1) return false;
  gemm_ = true;
  if (!small_) weights_ = edit_->reshape(id_, weights_, Shape{w[w.rank() - 2], w[w.rank() - 1]});
  return true;
}

bool Fusion::read_gemm() {
  const Node& node = edit_->node(id_);
  const double alpha = static_cast<double>(node.attrs.real("alpha", 1));
  if (node.attrs.integer("transA", 0) != 0) return false;
  gemm_ = true;
  if (node.attrs.integer("transB", 0) != 0) attrs_.set("transB", int64_t{1});
  if (node.inputs.size() > 2 && node.inputs[2].present()) {
    if (!take_c(node.inputs[2], static_cast<double>(node.attrs.real("beta", 1)))) return false;
  }
  if (alpha == 1) return true;
  if (edit_->readers(weights_).size() != 1) return false;
  const Tensor& weights = *edit_->constant(weights_);
  Tensor scaled(weights.dtype(), weights.shape());
  for (int64_t i = 0; i < scaled.elements(); ++i) {
    store_element(scaled.dtype(), scaled.raw(), i, alpha * load_element(weights.dtype(), weights.raw(), i));
  }
  weights_ = edit_->graph().add_constant(std::move(scaled), edit_->graph().value(weights_).name);
  return true;
}

// Takes C of a Gemm as the bias, or as the first epilogue step if it has a value for each element.
bool Fusion::take_c(ValueId c, double beta) {
  if (!edit_->known(c)) return false;
  const Shape shape = edit_->shape(c);
  if (const Tensor* tensor = edit_->constant(c)) {
    if (const auto row = per_channel(*tensor, shape_, 1)) {
      Tensor bias(tensor->dtype(), Shape{channels()});
      for (size_t i = 0; i < row->size(); ++i)
        store_element(bias.dtype(), bias.raw(), static_cast<int64_t>(i), beta * (*row)[i]);
      bias_ = edit_->graph().add_constant(std::move(bias), edit_->graph().value(c).name);
      return true;
    }
  }
  if (beta != 1) return false;
  const bool row = shape.elements() == channels() && (shape.rank() == 1 || shape[1] == channels());
  if (!row && !(shape == shape_)) return false;
  add_operand("add", row ? edit_->reshape(id_, c, Shape{channels()}) : c, !row);
  return true;
}

void Fusion::add_operand(std::string_view step, ValueId value, bool full) {
  const size_t index = (small_ ? 5 : coded_ ? 4 : 3) + operands_.size();  // after X, weights, their scales and bias
  steps_.push_back(fmt::format("{}:{}", step, index));
  operands_.push_back({value, full});
}

bool Fusion::absorb() {
  const NodeId next = edit_->only_reader(y_);
  if (!next.present() || steps_.size() >= kMaxSteps) return false;
  const Node& node = edit_->node(next);
  if (node.outputs.size() != 1 || !edit_->known(node.outputs[0])) return false;
  if (!(edit_->shape(node.outputs[0]) == shape_) || edit_->dtype(node.outputs[0]) != edit_->dtype(y_)) return false;
  if (edit_->readers(y_).size() != 1) return false;
  if (const auto step = activation_step(*edit_, node, y_)) {
    steps_.push_back(*step);
  } else if (node.inputs.size() == 2) {
    if (!absorb_binary(node, node.inputs[node.inputs[0] == y_ ? 1 : 0])) return false;
  } else {
    return false;
  }
  y_ = edit_->node(next).outputs[0];
  return true;
}

bool Fusion::absorb_binary(const Node& node, ValueId other) {
  const bool add = is_op(node, "Add"), sub = is_op(node, "Sub"), mul = is_op(node, "Mul"), div = is_op(node, "Div");
  if (!add && !sub && !mul && !div) return false;
  if (!edit_->known(other) || edit_->dtype(other) != edit_->dtype(y_)) return false;
  const std::string_view step = add || sub ? "add" : "mul";
  const Tensor* tensor = edit_->constant(other);
  if (sub || div) {
    if (!tensor || node.inputs[1] != other) return false;  // c - y and c / y are not epilogue steps
  }
  Graph& graph = edit_->graph();
  if (tensor) {
    const auto row = per_channel(*tensor, shape_, channel_axis());
    if (!row) return !sub && !div && tensor->shape() == shape_ ? (add_operand(step, other, true), true) : false;
    const Tensor* bias = edit_->constant(bias_);
    const bool into_bias = step == "add" && steps_.empty() && (!bias_.present() || bias);
    Tensor values(tensor->dtype(), Shape{channels()});
    for (size_t i = 0; i < row->size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      double v = sub ? -(*row)[i] : div ? 1 / (*row)[i] : (*row)[i];
      if (into_bias && bias) v += load_element(bias->dtype(), bias->raw(), at);
      store_element(values.dtype(), values.raw(), at, v);
    }
    if (!into_bias && tensor->elements() == 1) {
      Tensor one(values.dtype(), Shape{1});
      store_element(one.dtype(), one.raw(), 0, load_element(values.dtype(), values.raw(), 0));
      values = one;
    }
    const ValueId made = graph.add_constant(std::move(values), graph.value(other).name);
    if (into_bias) bias_ = made;
    else add_operand(step, made, false);
    return true;
  }
  const Shape shape = edit_->shape(other);
  if (shape == shape_) {
    add_operand(step, other, true);
    return true;
  }
  // One value per channel, computed at run time (squeeze and excitation of one image).
  const int axis = channel_axis(), at = shape.rank() - (shape_.rank() - axis);
  if (shape.elements() != channels() || at < 0 || shape[at] != channels()) return false;
  add_operand(step, edit_->reshape(id_, other, Shape{channels()}), false);
  return true;
}

bool Fusion::cross_reshape() {
  const NodeId next = edit_->only_reader(y_);
  if (!gemm_ || !next.present() || edit_->readers(y_).size() != 1) return false;
  const Node& node = edit_->node(next);
  if (!node.op->traits.view || node.outputs.size() != 1 || !edit_->known(node.outputs[0])) return false;
  const Shape to = edit_->shape(node.outputs[0]);
  if (to.rank() < 2 || to[to.rank() - 1] != channels() || edit_->dtype(node.outputs[0]) != edit_->dtype(y_))
    return false;
  y_ = node.outputs[0];
  shape_ = to;
  return true;
}

void Fusion::finish() {
  const Shape x = edit_->shape(x_);
  if (gemm_) x_ = edit_->reshape(id_, x_, shape_.with(shape_.rank() - 1, x[x.rank() - 1]));
  std::vector<ValueId> inputs{x_, weights_};
  if (small_) inputs.insert(inputs.end(), {small_->scale, small_->block_scales});
  if (coded_) inputs.push_back(scale_);
  inputs.push_back(bias_);
  for (const Operand& operand : operands_) {
    inputs.push_back(operand.full ? edit_->reshape(id_, operand.value, shape_) : operand.value);
  }
  if (!steps_.empty()) attrs_.set("epilogue", steps_);
  const char* op = small_   ? "sparkpilot::ScaledGemm"
                   : coded_ ? "sparkpilot::ScaledConv"
                   : gemm_  ? "sparkpilot::Gemm"
                            : "sparkpilot::Conv";
  edit_->replace(y_, edit_->make(id_, op, inputs, attrs_));
}

bool fuse(Edit& edit, NodeId id, bool packed) {
  std::optional<Fusion> fusion = Fusion::start(edit, id, packed);
  if (!fusion) return false;
  while (true) {
    if (fusion->absorb()) continue;
    // Moving a Reshape only pays if a node after it can be fused.
    Fusion beyond = *fusion;
    if (!beyond.cross_reshape() || !beyond.absorb()) break;
    *fusion = beyond;
  }
  fusion->finish();
  return true;
}

int fuse_all(Graph& graph, bool packed) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += fuse(edit, id, packed);
  }
  graph.compact();
  return changes;
}

}  // namespace

int fuse_epilogues(Graph& graph) { return fuse_all(graph, true); }

int fuse_epilogues_of_floats(Graph& graph) { return fuse_all(graph, false); }

}  // namespace sparkpilot
