#include "passes/quantized.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/infer.h"

namespace sparkpilot {
namespace {

bool is_byte(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }

bool is_sane(double scale) {
  return std::isfinite(scale) && scale >= static_cast<double>(std::numeric_limits<float>::min());
}

const Tensor* operand(Edit& edit, const Node& node, size_t i) {
  return i < node.inputs.size() && node.inputs[i].present() ? edit.constant(node.inputs[i]) : nullptr;
}

}  // namespace

int64_t Quantization::quantize(double v) const {
  const double q = std::nearbyint(v / scale) + static_cast<double>(zero);
  return static_cast<int64_t>(std::clamp(q, static_cast<double>(least()), static_cast<double>(most())));
}

std::optional<Quantization> quantization_of(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  const bool down = is_op(node, "QuantizeLinear");
  if (!down && !is_op(node, "DequantizeLinear")) return {};
  const ValueId bytes = down ? node.outputs[0] : node.inputs[0], floats = down ? node.inputs[0] : node.outputs[0];
  if (!edit.known(bytes) || !is_byte(edit.dtype(bytes)) || edit.dtype(floats) != DType::f32) return {};
  if (node.attrs.integer("block_size", 0) != 0 || node.attrs.integer("precision", 0) != 0) return {};
  const Tensor* scale = operand(edit, node, 1);
  if (!scale || scale->elements() != 1 || scale->dtype() != DType::f32 || !is_sane(scale->to_scalar())) return {};
  Quantization q{.dtype = edit.dtype(bytes), .scale = scale->to_scalar(), .zero = 0};
  if (node.inputs.size() > 2 && node.inputs[2].present()) {
    const Tensor* zero = operand(edit, node, 2);
    if (!zero || zero->elements() != 1 || zero->dtype() != q.dtype) return {};
    q.zero = static_cast<int64_t>(zero->to_scalar());
  }
  return q;
}

std::optional<Dequantized> dequantized(Edit& edit, ValueId value) {
  const NodeId id = value.present() ? edit.maker(value, "DequantizeLinear") : NodeId{};
  if (!id.present()) return {};
  const auto q = quantization_of(edit, id);
  if (!q) return {};
  return Dequantized{edit.node(id).inputs[0], *q};
}

Requantized requantized(Edit& edit, ValueId value) {
  const NodeId id = edit.only_reader(value);
  if (!id.present() || !is_op(edit.node(id), "QuantizeLinear") || edit.node(id).inputs[0] != value) return {};
  const auto q = quantization_of(edit, id);
  return q ? Requantized{id, *q} : Requantized{};
}

std::optional<QuantizedWeights> weights_without_zero(const Tensor& bytes, const Tensor* scale, const Tensor* zero,
                                                     int axis) {
  if (!is_byte(bytes.dtype()) || axis >= bytes.shape().rank()) return {};
  const int64_t count = bytes.shape()[axis], inner = bytes.shape().elements(axis + 1, bytes.shape().rank());
  const auto fits = [&](const Tensor* t) { return !t || t->elements() == 1 || t->shape() == Shape{count}; };
  if (!fits(scale) || !fits(zero) || (zero && zero->dtype() != bytes.dtype())) return {};
  if (scale && scale->dtype() != DType::f32) return {};
  const auto at = [](const Tensor* t, int64_t i, double fallback) {
    return t ? load_element(t->dtype(), t->raw(), t->elements() == 1 ? 0 : i) : fallback;
  };
  QuantizedWeights out{Tensor(DType::i8, bytes.shape()), {}};
  for (int64_t i = 0; i < count; ++i) {
    out.scales.push_back(at(scale, i, 1));
    if (!is_sane(out.scales.back())) return {};
  }
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    const double v = load_element(bytes.dtype(), bytes.raw(), i) - at(zero, i / inner % count, 0);
    if (v < -128 || v > 127) return {};
    store_element(DType::i8, out.bytes.raw(), i, v);
  }
  return out;
}

std::optional<QuantizedWeights> quantized_weights(Edit& edit, ValueId value, int axis) {
  const NodeId id = value.present() ? edit.maker(value, "DequantizeLinear") : NodeId{};
  if (!id.present()) return {};
  const Node& node = edit.node(id);
  const Tensor *bytes = operand(edit, node, 0), *scale = operand(edit, node, 1), *zero = operand(edit, node, 2);
  const bool has_zero = node.inputs.size() > 2 && node.inputs[2].present();
  if (!bytes || !scale || (has_zero && !zero) || node.attrs.integer("block_size", 0) != 0) return {};
  if (edit.dtype(value) != DType::f32) return {};
  if (scale->elements() != 1 || (zero && zero->elements() != 1)) {
    const int64_t given = node.attrs.integer("axis", 1), rank = bytes->shape().rank();
    if ((given < 0 ? given + rank : given) != axis) return {};
  }
  return weights_without_zero(*bytes, scale, zero, axis);
}

bool dequantize_constant(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "DequantizeLinear")) return false;
  std::vector<Tensor> inputs;
  for (const ValueId input : node.inputs) {
    if (input.present() && !edit.constant(input)) return false;
    inputs.push_back(input.present() ? *edit.constant(input) : Tensor());
  }
  const ValueId result = node.outputs[0];
  edit.replace(result, edit.graph().add_constant(evaluate(node, inputs)[0]));
  return true;
}

bool absorb_clamps(Edit& edit, ValueId& y, double& low, double& high) {
  bool any = false;
  while (true) {
    const NodeId next = edit.only_reader(y);
    if (!next.present() || edit.node(next).inputs[0] != y) return any;
    const Node& node = edit.node(next);
    double from = -std::numeric_limits<double>::infinity(), to = -from;
    if (is_op(node, "Relu")) {
      from = 0;
    } else if (is_op(node, "Clip")) {
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        if (!node.inputs[i].present()) continue;
        const auto limit = edit.scalar(node.inputs[i]);
        if (!limit || std::isnan(*limit)) return any;
        (i == 1 ? from : to) = *limit;
      }
    } else {
      return any;
    }
    // As Clip defines it: above the upper limit becomes the upper limit, even if the lower one is larger.
    low = std::min(std::max(low, from), to);
    high = std::min(std::max(high, from), to);
    y = node.outputs[0];
    any = true;
  }
}

Tensor table_of(Edit& edit, std::span<const NodeId> chain) {
  const DType dtype = edit.dtype(edit.node(chain[0]).inputs[0]);
  Tensor value(dtype, Shape{256});
  for (size_t i = 0; i < 256; ++i) static_cast<uint8_t*>(value.raw())[i] = static_cast<uint8_t>(i);
  for (const NodeId id : chain) {
    const Node& node = edit.node(id);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      // The chain's own input may be constant too.
      const bool running = id == chain[0] && i == 0;
      const Tensor* constant = running || !node.inputs[i].present() ? nullptr : edit.constant(node.inputs[i]);
      inputs.push_back(constant ? *constant : node.inputs[i].present() ? value : Tensor());
      // One number beside an image of any rank; here the image has rank 1.
      if (constant && constant->elements() == 1 && constant->shape().rank() > 1) {
        inputs.back() = constant->reshaped(Shape{1});
      }
    }
    value = evaluate(node, inputs)[0];
  }
  return value.reshaped(Shape{256});
}

}  // namespace sparkpilot
