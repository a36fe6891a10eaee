#include "onnx/later_parts.h"

#include <algorithm>
#include <memory>

#include "ir/op.h"

namespace sparkpilot {
namespace {

struct LaterAttribute {
  std::string_view op, key;
  int since;
  enum { number, text, ones, absent } default_kind;
  int64_t default_number = 0;
  std::string_view default_text = {};
};

// Of ONNX's operator schemas: those that came after the first opset of the op's record (src/ops).
constexpr LaterAttribute kAttributes[] = {
    {"ArgMax", "select_last_index", 12, LaterAttribute::number},
    {"ArgMin", "select_last_index", 12, LaterAttribute::number},
    {"Attention", "left_window_size", 25, LaterAttribute::number, -1},
    {"Attention", "right_window_size", 25, LaterAttribute::number, -1},
    {"AveragePool", "ceil_mode", 10, LaterAttribute::number},
    {"AveragePool", "dilations", 19, LaterAttribute::ones},
    {"BatchNormalization", "training_mode", 14, LaterAttribute::number},
    {"Cast", "round_mode", 24, LaterAttribute::text, 0, "up"},
    {"Cast", "saturate", 19, LaterAttribute::number, 1},
    {"CastLike", "round_mode", 24, LaterAttribute::text, 0, "up"},
    {"CastLike", "saturate", 19, LaterAttribute::number, 1},
    {"DepthToSpace", "mode", 11, LaterAttribute::text, 0, "DCR"},
    {"DequantizeLinear", "axis", 13, LaterAttribute::number, 1},
    {"DequantizeLinear", "block_size", 21, LaterAttribute::number},
    {"DequantizeLinear", "output_dtype", 23, LaterAttribute::number},
    {"GRU", "layout", 14, LaterAttribute::number},
    {"GatherND", "batch_dims", 12, LaterAttribute::number},
    {"GroupNormalization", "stash_type", 21, LaterAttribute::number, 1},
    {"LSTM", "layout", 14, LaterAttribute::number},
    {"LpPool", "ceil_mode", 18, LaterAttribute::number},
    {"LpPool", "dilations", 18, LaterAttribute::ones},
    {"MaxPool", "ceil_mode", 10, LaterAttribute::number},
    {"MaxPool", "dilations", 10, LaterAttribute::ones},
    {"MaxPool", "storage_order", 8, LaterAttribute::number},
    {"QuantizeLinear", "axis", 13, LaterAttribute::number, 1},
    {"QuantizeLinear", "block_size", 21, LaterAttribute::number},
    {"QuantizeLinear", "output_dtype", 21, LaterAttribute::number},
    {"QuantizeLinear", "precision", 23, LaterAttribute::number},
    {"QuantizeLinear", "saturate", 19, LaterAttribute::number, 1},
    {"RNN", "layout", 14, LaterAttribute::number},
    {"Reshape", "allowzero", 14, LaterAttribute::number},
    {"Resize", "antialias", 18, LaterAttribute::number},
    {"Resize", "axes", 18, LaterAttribute::absent},
    {"Resize", "keep_aspect_ratio_policy", 18, LaterAttribute::text, 0, "stretch"},
    {"RoiAlign", "coordinate_transformation_mode", 16, LaterAttribute::text, 0, "half_pixel"},
    {"ScatterElements", "reduction", 16, LaterAttribute::text, 0, "none"},
    {"ScatterND", "reduction", 16, LaterAttribute::text, 0, "none"},
    {"Shape", "end", 15, LaterAttribute::absent},
    {"Shape", "start", 15, LaterAttribute::number},
    {"Split", "num_outputs", 18, LaterAttribute::absent},
    {"TopK", "largest", 11, LaterAttribute::number, 1},
    {"TopK", "sorted", 11, LaterAttribute::number, 1},
};

constexpr uint32_t bit(DType dtype) { return uint32_t{1} << static_cast<int>(dtype); }
constexpr uint32_t kBytes = bit(DType::i8) | bit(DType::u8);
constexpr uint32_t kShort = kBytes | bit(DType::i16) | bit(DType::u16);
constexpr uint32_t kLong = bit(DType::i32) | bit(DType::i64) | bit(DType::u32) | bit(DType::u64);
constexpr uint32_t kIntegers = kShort | kLong;
constexpr uint32_t kSigned = bit(DType::i8) | bit(DType::i16) | bit(DType::i32) | bit(DType::i64);
constexpr uint32_t kFloats = bit(DType::f16) | bit(DType::f32) | bit(DType::f64);

// Of the op's first input.
struct LaterTypes {
  std::string_view op;
  int since;
  uint32_t types;
};
constexpr LaterTypes kTypes[] = {
    {"Add", 14, kShort},
    {"Celu", 28, bit(DType::f16) | bit(DType::f64)},
    {"Clip", 12, kIntegers},
    {"CumSum", 14, bit(DType::f16)},
    {"DequantizeLinear", 21, bit(DType::i16) | bit(DType::u16)},
    {"Div", 14, kShort},
    {"Equal", 11, kShort | kFloats | bit(DType::u32) | bit(DType::u64)},
    {"Flatten", 9, kIntegers | bit(DType::boolean)},
    {"Gemm", 9, kLong},
    {"Greater", 9, kIntegers},
    {"IsInf", 20, bit(DType::f16)},
    {"Less", 9, kIntegers},
    {"MatMul", 9, kLong},
    {"Max", 12, kIntegers},
    {"MaxPool", 12, kBytes},
    {"Min", 12, kIntegers},
    {"Mul", 14, kShort},
    {"PRelu", 9, kLong},
    {"Pad", 11, kIntegers},
    {"Pad", 13, bit(DType::boolean)},
    {"Pow", 12, bit(DType::i32) | bit(DType::i64)},
    {"QuantizeLinear", 19, bit(DType::f16)},
    {"Range", 27, bit(DType::f16)},
    {"ReduceMax", 12, kBytes},
    {"ReduceMax", 20, bit(DType::boolean)},
    {"ReduceMin", 12, kBytes},
    {"ReduceMin", 20, bit(DType::boolean)},
    {"Relu", 14, kSigned},
    {"Sub", 14, kShort},
    {"TopK", 11, kIntegers},
};

// The first opset with tensors of that element type.
int first_opset(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 13;
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz: return 19;
    case DType::i4:
    case DType::u4: return 21;
    case DType::f4e2m1: return 23;
    case DType::f8e8m0: return 24;
    case DType::i2:
    case DType::u2: return 25;
    default: return 1;
  }
}

bool is_default(const LaterAttribute& later, const Attribute& value) {
  switch (later.default_kind) {
    case LaterAttribute::number: {
      const auto* number = std::get_if<int64_t>(&value);
      return number && *number == later.default_number;
    }
    case LaterAttribute::text: {
      const auto* text = std::get_if<std::string>(&value);
      return text && *text == later.default_text;
    }
    case LaterAttribute::ones: {
      const auto* list = std::get_if<std::vector<int64_t>>(&value);
      return list && std::ranges::all_of(*list, [](int64_t each) { return each == 1; });
    }
    case LaterAttribute::absent: break;
  }
  return false;
}

bool quantizes(const Node& node) { return node.op->name == "QuantizeLinear" || node.op->name == "DequantizeLinear"; }

// Whether a node that quantizes has one scale, so that it has no use for an axis.
bool has_one_scale(const Graph& graph, const Node& node) {
  if (node.inputs.size() < 2 || !node.inputs[1].present()) return false;
  const std::optional<Shape>& shape = graph.value(node.inputs[1]).shape;
  return shape && shape->elements() == 1;
}

// Calls fn(attribute, its value) for those that the op did not have.
template <typename Fn>
void each_later(const Node& node, int opset, const Fn& fn) {
  for (const LaterAttribute& later : kAttributes) {
    if (later.since <= opset || later.op != node.op->name) continue;
    if (const Attribute* value = node.attrs.find(later.key)) fn(later, *value);
  }
}

bool drops(const Graph& graph, const Node& node, const LaterAttribute& later, const Attribute& value) {
  return is_default(later, value) || (later.key == "axis" && has_one_scale(graph, node));
}

bool has_later_type(const Graph& graph, const Node& node, int opset) {
  for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *values) {
      if (value.present() && first_opset(graph.value(value).dtype) > opset) return true;
    }
  }
  if (node.inputs.empty() || !node.inputs[0].present()) return false;
  const uint32_t type = bit(graph.value(node.inputs[0]).dtype);
  return std::ranges::any_of(kTypes, [&](const LaterTypes& later) {
    return later.since > opset && later.op == node.op->name && (later.types & type) != 0;
  });
}

}  // namespace

bool needs_later_parts(const Graph& graph, const Node& node, int opset) {
  if (!node.op->domain.empty()) return false;
  constexpr int kScales = 13;  // the first opset with a scale for each index of an axis
  if (opset < kScales && quantizes(node) && !has_one_scale(graph, node)) return true;
  bool needs = has_later_type(graph, node, opset);
  each_later(node, opset, [&](const LaterAttribute& later, const Attribute& value) {
    needs = needs || !drops(graph, node, later, value);
  });
  return needs;
}

void erase_later_defaults(Graph& graph, int opset) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<std::string_view> erased;
    if (node.op->domain.empty()) {
      each_later(node, opset, [&](const LaterAttribute& later, const Attribute& value) {
        if (drops(graph, node, later, value)) erased.push_back(later.key);
      });
    }
    std::vector<std::pair<std::string, Graph>> bodies;
    for (const auto& [key, value] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value);
      if (body) bodies.emplace_back(key, **body);
    }
    for (const std::string_view key : erased) graph.node(id).attrs.erase(key);
    for (auto& [key, body] : bodies) {
      erase_later_defaults(body, opset);
      graph.node(id).attrs.set(key, std::make_shared<const Graph>(std::move(body)));
    }
  }
}

}  // namespace sparkpilot
