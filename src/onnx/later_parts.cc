#include "onnx/later_parts.h"

#include <algorithm>
#include <utility>

#include "ir/attributes.h"
#include "ir/op.h"
#include "ir/resize.h"

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
constexpr LaterAttribute kLaterAttributes[] = {
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

// Attributes that an op lost in an opset, and ops that ONNX lost: others took their places.
struct Removed {
  std::string_view op, key;  // no key: the op
  int since;
};
constexpr Removed kRemoved[] = {{"BatchNormalization", "spatial", 9},
                                {"Dropout", "ratio", 12},
                                {"LSTM", "output_sequence", 7},
                                {"Scatter", "", 11},
                                {"Upsample", "", 10}};

// Values that an attribute may have from an opset on.
struct LaterValue {
  std::string_view op, key, value;
  int since;
};
constexpr LaterValue kLaterValues[] = {
    {"Pad", "mode", "wrap", 19},
    {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19},
    {"ScatterElements", "reduction", "max", 18},
    {"ScatterElements", "reduction", "min", 18},
    {"ScatterND", "reduction", "max", 18},
    {"ScatterND", "reduction", "min", 18},
};

// GridSample's names of the same modes, before opset 20 and from it on.
constexpr std::pair<std::string_view, std::string_view> kGridModes[] = {{"bilinear", "linear"}, {"bicubic", "cubic"}};

// Operands that came later, and operands that may be left out only since.
struct LaterOperands {
  std::string_view op;
  int record, since;  // of the op's record of that opset or later
  size_t from;        // the input that came then; 0: none
  size_t needs;       // so many inputs must be there before; 0: any number
};
constexpr LaterOperands kLaterOperands[] = {
    {"Attention", 1, 24, 6, 0}, {"Dropout", 1, 12, 1, 0}, {"Gemm", 1, 11, 0, 3},
    {"Pad", 1, 18, 3, 0},       {"Resize", 11, 13, 0, 3},
};

constexpr uint32_t bit(DType dtype) { return uint32_t{1} << static_cast<int>(dtype); }
constexpr uint32_t kBytes = bit(DType::i8) | bit(DType::u8);
constexpr uint32_t kWords = bit(DType::i16) | bit(DType::u16);
constexpr uint32_t kShort = kBytes | kWords;
constexpr uint32_t kLong = bit(DType::i32) | bit(DType::i64) | bit(DType::u32) | bit(DType::u64);
constexpr uint32_t kIntegers = kShort | kLong;
constexpr uint32_t kSigned = bit(DType::i8) | bit(DType::i16) | bit(DType::i32) | bit(DType::i64);
constexpr uint32_t kPlainFloats = bit(DType::f16) | bit(DType::f32) | bit(DType::f64);
constexpr uint32_t kBool = bit(DType::boolean), kBfloat = bit(DType::bf16), kHalves = bit(DType::f16) | kBfloat;
constexpr uint32_t kEights =
    bit(DType::f8e4m3fn) | bit(DType::f8e4m3fnuz) | bit(DType::f8e5m2) | bit(DType::f8e5m2fnuz);

// Element types that an input of these ops has from an opset on, where that is later than the type itself. Inputs of
// the same type as an earlier one are left out.
struct LaterTypes {
  int since;
  size_t input;
  uint32_t types;
  std::string_view ops;  // with spaces between
};
constexpr LaterTypes kLaterTypes[] = {
    {9, 0, kIntegers | kBool, "Flatten"},
    {9, 0, kIntegers, "Greater Less"},
    {9, 0, kLong, "Gemm MatMul PRelu"},
    {11, 0, kShort | kPlainFloats | bit(DType::u32) | bit(DType::u64), "Equal"},
    {11, 0, kIntegers, "Pad TopK"},
    {12, 0, kIntegers, "Clip Max Min"},
    {12, 0, bit(DType::i32) | bit(DType::i64), "Pow"},
    {12, 1, kIntegers, "Pow"},
    {12, 0, kBytes, "MaxPool ReduceMax ReduceMin"},
    {13, 0, kBool, "Pad"},
    {14, 0, kBfloat, "BatchNormalization"},
    {14, 0, kHalves, "CumSum"},
    {14, 0, kSigned, "Relu"},
    {14, 0, kShort, "Add Div Mul Sub"},
    {15, 1, kBfloat, "Pow"},
    {16, 0, kBfloat, "GreaterOrEqual LeakyRelu LessOrEqual PRelu Scan"},
    {16, 1, kBfloat, "Where"},
    {19, 0, kHalves, "QuantizeLinear"},
    {19, 1, kHalves, "DequantizeLinear"},
    {19, 1, kHalves | bit(DType::i32), "QuantizeLinear"},
    {20, 0, kHalves | kEights, "IsInf"},
    {20, 0, kEights, "IsNaN"},
    {20, 0, kBool, "ReduceMax ReduceMin"},
    {21, 0, kEights, "Flatten Pad QLinearMatMul Squeeze Transpose Unsqueeze"},
    {21, 0, kWords, "DequantizeLinear"},
    {21, 1, kHalves, "QLinearMatMul"},
    {21, 2, kWords, "QuantizeLinear"},
    {22, 0, kBfloat,
     "Acos Acosh Asin Asinh Atan Atanh AveragePool Bernoulli Conv ConvTranspose Cos Cosh DeformConv Det Elu EyeLike "
     "GRU GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample HardSigmoid HardSwish InstanceNormalization "
     "LSTM LpNormalization LpPool MaxPool MaxRoiPool MaxUnpool Mish Multinomial NegativeLogLikelihoodLoss RNN "
     "RandomNormalLike RandomUniformLike RoiAlign Round Selu Sin Sinh Softplus Softsign Tan ThresholdedRelu"},
    {22, 0, kEights, "Dropout"},
    {22, 1, kBfloat, "Dropout"},
    {24, 0, kBfloat, "SplitToSequence TopK"},
    {27, 0, kHalves, "Range"},
    {28, 0, kBfloat | bit(DType::f16) | bit(DType::f64), "Celu"},
    {28, 0, kBfloat, "Compress Einsum ReverseSequence Unique"},
    {28, 2, kBfloat, "OneHot"},
    {28, 0, kSigned, "BitShift"},
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
  for (const LaterAttribute& later : kLaterAttributes) {
    if (later.since <= opset || later.op != node.op->name) continue;
    if (const Attribute* value = node.attrs.find(later.key)) fn(later, *value);
  }
}

bool drops(const Graph& graph, const Node& node, const LaterAttribute& later, const Attribute& value) {
  return is_default(later, value) || (later.key == "axis" && has_one_scale(graph, node));
}

bool names(std::string_view list, std::string_view word) {
  for (size_t at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

bool has_input(const Node& node, size_t i) { return i < node.inputs.size() && node.inputs[i].present(); }

bool has_later_value(const Graph& graph, const Node& node, int opset) {
  for (const LaterValue& later : kLaterValues) {
    if (later.since > opset && later.op == node.op->name && node.attrs.text(later.key, "") == later.value) return true;
  }
  constexpr int kVolumes = 20;  // of GridSample
  const bool grid = node.op->name == "GridSample";
  if (opset >= kVolumes || !grid || !has_input(node, 0)) return false;
  const std::optional<Shape>& shape = graph.value(node.inputs[0]).shape;
  return shape && shape->rank() > 4;
}

bool has_later_operand(const Graph& graph, const Node& node, int opset) {
  for (const LaterOperands& later : kLaterOperands) {
    if (later.since <= opset || later.op != node.op->name || node.op->since < later.record) continue;
    for (size_t i = later.from; later.from > 0 && i < node.inputs.size(); ++i) {
      if (has_input(node, i)) return true;
    }
    for (size_t i = 0; i < later.needs; ++i) {
      if (!has_input(node, i)) return true;
    }
  }
  constexpr int kBroadcast = 8;
  if (opset < kBroadcast && names("Max Mean Min Sum", node.op->name)) {
    const std::optional<Shape>& first = graph.value(node.inputs[0]).shape;
    for (const ValueId input : node.inputs) {
      const std::optional<Shape>& shape = graph.value(input).shape;
      if (first && shape && !(*first == *shape)) return true;
    }
  }
  constexpr int kIndices = 8;  // of MaxPool
  return opset < kIndices && node.op->name == "MaxPool" && node.outputs.size() > 1;
}

}  // namespace

bool has_later_type(const Graph& graph, const Node& node, int opset) {
  if (!node.op->domain.empty()) return false;
  for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *values) {
      if (value.present() && first_opset(graph.value(value).dtype) > opset) return true;
    }
  }
  return std::ranges::any_of(kLaterTypes, [&](const LaterTypes& later) {
    return later.since > opset && has_input(node, later.input) &&
           (later.types & bit(graph.value(node.inputs[later.input]).dtype)) != 0 && names(later.ops, node.op->name);
  });
}

bool needs_later_parts(const Graph& graph, const Node& node, int opset) {
  if (!node.op->domain.empty()) return false;
  for (const Removed& removed : kRemoved) {
    if (removed.key.empty() && removed.since <= opset && removed.op == node.op->name) return true;
  }
  if (node.op->name == "Resize" && node.attrs.text("nearest_mode", "") == kRoundByScale) return true;
  constexpr int kScales = 13;  // the first opset with a scale for each index of an axis
  if (opset < kScales && quantizes(node) && !has_one_scale(graph, node)) return true;
  if (has_later_type(graph, node, opset) || has_later_value(graph, node, opset) ||
      has_later_operand(graph, node, opset)) {
    return true;
  }
  bool needs = false;
  each_later(node, opset, [&](const LaterAttribute& later, const Attribute& value) {
    needs = needs || !drops(graph, node, later, value);
  });
  return needs;
}

void spell_for(Graph& graph, int opset) {
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    std::vector<std::string_view> erased;
    if (node.op->domain.empty()) {
      each_later(node, opset, [&](const LaterAttribute& later, const Attribute& value) {
        if (drops(graph, node, later, value)) erased.push_back(later.key);
      });
      for (const Removed& removed : kRemoved) {
        if (removed.since <= opset && removed.op == node.op->name && node.attrs.has(removed.key)) {
          erased.push_back(removed.key);
        }
      }
    }
    constexpr int kParts = 18;  // Split without sizes says into how many
    const bool equal_parts = node.op->domain.empty() && node.op->name == "Split" && !has_input(node, 1);
    if (opset >= kParts && equal_parts && !node.attrs.has("split") && !node.attrs.has("num_outputs")) {
      node.attrs.set("num_outputs", std::ssize(node.outputs));
    }
    const std::string mode = node.op->name == "GridSample" ? node.attrs.text("mode", "") : "";
    for (const auto& [older, newer] : kGridModes) {
      constexpr int kRenamed = 20;
      const std::string_view from = opset < kRenamed ? newer : older, to = opset < kRenamed ? older : newer;
      if (mode == from) node.attrs.set("mode", std::string(to));
    }
    for (const std::string_view key : erased) node.attrs.erase(key);
    rewrite_bodies(node.attrs, [&](Graph& body) {
      spell_for(body, opset);
      return true;
    });
  }
}

}  // namespace sparkpilot
