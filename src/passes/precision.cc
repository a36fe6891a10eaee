#include "passes/precision.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "hw/cpu.h"
#include "ir/id_map.h"
#include "ir/infer.h"
#include "passes/edit.h"
#include "passes/makers.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

constexpr std::array<std::string_view, 7> kNames{"model", "fp32", "fp16", "bf16", "fp8", "fp4", "auto"};

bool is_16_bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Attributes that hold an element type as ONNX's number.
bool names_type(std::string_view attribute) {
  return attribute == "to" || attribute == "dtype" || attribute == "output_dtype" || attribute == "output_datatype";
}

ValueId cast(Builder& builder, ValueId value, DType to) {
  return builder.add("Cast", {value}, {{"to", onnx_code(to)}});
}

int widen_body(Graph& graph);

int widen_attributes(Node& node) {
  int changes = 0;
  Attributes changed = node.attrs;
  for (const auto& [key, value] : node.attrs) {
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      if (!is_16_bit(tensor->dtype())) continue;
      changed.set(key, convert(*tensor, DType::f32));
    } else if (const auto* code = std::get_if<int64_t>(&value)) {
      const std::optional<DType> dtype = names_type(key) ? dtype_from_onnx(*code) : std::nullopt;
      if (!dtype || !is_16_bit(*dtype)) continue;
      changed.set(key, onnx_code(DType::f32));
    } else if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) {
      auto copy = std::make_shared<Graph>(**body);
      if (!widen_body(*copy)) continue;
      changed.set(key, std::shared_ptr<const Graph>(std::move(copy)));
    } else {
      continue;
    }
    ++changes;
  }
  if (changes) node.attrs = std::move(changed);
  return changes;
}

// Widens everything except graph inputs and outputs. Constants one by one, so that at most one exists in both types.
int widen_inside(Graph& graph) {
  int changes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    Value& value = graph.value(ValueId{i});
    if (!is_16_bit(value.dtype)) continue;
    if (value.kind == ValueKind::constant) value.constant = convert(value.constant, DType::f32);
    else if (value.kind != ValueKind::node_output) continue;
    value.dtype = DType::f32;
    ++changes;
  }
  for (const NodeId id : graph.order()) changes += widen_attributes(graph.node(id));
  return changes;
}

// A body receives and returns f32, so it needs no casts at its inputs and outputs.
int widen_body(Graph& graph) {
  int changes = 0;
  for (const ValueId input : graph.inputs()) {
    Value& value = graph.value(input);
    if (!is_16_bit(value.dtype)) continue;
    value.dtype = DType::f32;
    ++changes;
  }
  return changes + widen_inside(graph);
}

// --- narrowing
bool has_bodies(const Node& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(),
                     [](const auto& item) { return type_of(item.second) == AttrType::graph; });
}

// Bias and epilogue operands of the internal ops may have any type, independent of the image or matrix.
bool takes_mixed_types(const Node& node) { return node.op->traits.product && node.op->domain == "sparkpilot"; }

constexpr size_t kMask = 3;  // index of attention's mask: after queries, keys and values, before past keys and values

// The number of leading inputs that are converted to the type that a node computes in.
size_t narrowed_inputs(const Node& node) {
  if (takes_mixed_types(node)) return 2;
  return node.op->traits.attention ? kMask : node.inputs.size();
}

class Narrowing {
 public:
  Narrowing(Graph& graph, DType narrow, const Target& target)
      : edit_(graph),
        graph_(graph),
        narrow_(narrow),
        for_gpu_(target.device == Device::cuda),
        training_(target.training),
        runs_(graph.value_count()),
        heads_(graph.node_count()),
        sums_(graph.node_count()) {}

  int weights_to_half() {
    int changes = 0;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!node.op->traits.product || node.inputs.size() < 2) continue;
      const size_t at = graph_.constant(node.inputs[1]) ? 1 : 0;
      const Tensor* weights = graph_.constant(node.inputs[at]);
      if (!weights || weights->dtype() != DType::f32 || !weights_fit_half(*weights)) continue;
      edit_.set_input(id, at, half_stored(id, node.inputs[at]));
      ++changes;
    }
    return changes;
  }

  // Stores what products, norms and attention read and write in 16 bits, and what stands between them.
  int to_16_bits() {
    if (training_) {
      find_losses();
      find_sums();
      find_what_runs();
    } else if (narrow_ != DType::f16) {
      heads_ = find_heads(edit_);  // they stay in f32; f16's 11 bits are enough for what outputs hold
    }
    int changes = 0;
    for (const NodeId id : graph_.order()) changes += narrow(id);
    for (const State& state : graph_.states()) {
      const DType dtype = graph_.value(state.value).dtype;
      if (graph_.value(state.next).dtype == dtype) continue;
      graph_.set_next(state.value, as({}, state.next, dtype));
    }
    return changes;
  }

 private:
  static float largest_of(const Tensor& tensor) {
    float largest = 0;
    for (const float v : tensor.data<float>()) largest = std::max(largest, std::abs(v));
    return largest;
  }
  static bool fits_half(const Tensor& tensor) { return !(largest_of(tensor) > 65504.0f); }
  // Weights that are all below f16's smallest normal number have few bits in it, or none.
  static bool weights_fit_half(const Tensor& weights) {
    const float largest = largest_of(weights);
    return !(largest > 65504.0f) && (largest == 0 || largest >= 0x1p-14f);
  }

  // The f16 form of a constant: the internal ops read it directly, others through a Cast.
  ValueId half_stored(NodeId id, ValueId weights) {
    const auto [known, fresh] = casts_.try_emplace({weights, DType::f16});
    if (fresh) {
      const Tensor half = convert(*graph_.constant(weights), DType::f16);
      known->second = graph_.add_constant(half, graph_.value(weights).name);
    }
    if (takes_mixed_types(graph_.node(id))) return known->second;
    Builder builder(graph_, graph_.node(id).name);
    return cast(builder, known->second, DType::f32);
  }

  // All that a loss is computed from since the last products: targets, other heads and reductions are no obstacle.
  void find_losses() {
    visit_makers(edit_, outputs_of(graph_), [&](NodeId id, const std::vector<ValueId>&) {
      const Traits& traits = graph_.node(id).op->traits;
      return !(heads_[id] = traits.product || traits.attention);
    });
  }

  // The products that states become, perhaps scaled, in another shape or added to what the state was.
  void find_sums() {
    std::vector<ValueId> nexts;
    for (const State& state : graph_.states()) nexts.push_back(state.next);
    visit_makers(edit_, std::move(nexts), [&](NodeId id, const std::vector<ValueId>& running) {
      const Node& node = graph_.node(id);
      if (node.op->traits.product) {
        (returns_f32(node) ? sums_ : heads_)[id] = true;
        return false;
      }
      const bool adds_to_state =
          std::ranges::any_of(running, [&](ValueId value) { return graph_.value(value).kind == ValueKind::state; });
      return running.size() == 1 || (adds_to_state && node.op->traits.elementwise);
    });
  }

  // Whether there is a form of the product that reads 16 bits and returns f32, with kernels that pay.
  bool returns_f32(const Node& node) const {
    if (for_gpu_ || narrow_ != DType::bf16 || cpu_features().neon) return false;  // they are oneDNN's, for x86
    if (is_op(node, "Gemm")) return node.inputs.size() == 2 || !node.inputs[2].present();
    return is_op(node, "sparkpilot::ConvWeightGradient") && node.attrs.integer("group", 1) == 1;
  }

  // A convolution of fewer than four channels, as first layers are, is slower in bf16 than in f32 on a Xeon with AMX:
  // 0.4 to 1.0 of the speed, its Cast included; from four on 0.9 to 3 times. Not measured elsewhere, nor for training.
  bool multiplies_few_channels(const Node& node) const {
    if (!cpu_features().amx_bf16 || training_ || node.op->name != "Conv" || node.attrs.integer("group", 1) != 1)
      return false;
    const std::optional<Shape>& weights = graph_.value(node.inputs[1]).shape;
    return weights && (*weights)[1] < 4;
  }

  // On Arm, where oneDNN's packages have nothing fast, products in bf16 have kernels for constant weights only, and
  // convolutions for those of one pixel and of single channels; the others are fast in f32.
  bool has_kernel(const Node& node) const {
    if (for_gpu_ || narrow_ != DType::bf16) return true;
    if (!cpu_features().neon) return !multiplies_few_channels(node);
    if (!graph_.constant(node.inputs[1])) return false;
    if (node.op->name != "Conv" && node.op->name != "ConvTranspose") return true;
    const Shape& weights = *graph_.value(node.inputs[1]).shape;
    const std::vector<int64_t> strides = node.attrs.integers("strides");
    const bool pixel = weights.elements(2, weights.rank()) == 1 &&
                       std::ranges::all_of(strides, [](int64_t stride) { return stride == 1; });
    const bool single = weights.rank() <= 4 && weights[1] == 1 && node.attrs.integer("group", 1) > 1;
    return node.op->name == "Conv" && (pixel || single);
  }

  // What no input reaches is small beside what a batch goes through, and parameters are not rounded before they meet.
  void find_what_runs() {
    for (const ValueId input : graph_.inputs()) runs_[input] = true;
    for (const State& state : graph_.states()) runs_[state.value] = state.next != state.value;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const bool reached =
          std::ranges::any_of(node.inputs, [&](ValueId input) { return input.present() && runs_[input]; });
      for (const ValueId output : node.outputs) {
        if (output.present()) runs_[output] = reached;
      }
      if (!reached && node.op->traits.product) heads_[id] = true;
    }
  }

  bool is_narrow(ValueId value) const { return value.present() && graph_.value(value).dtype == narrow_; }

  // Norms compute in f32 whatever they read and write. They use 16 bits only if their input already has them, the gain
  // is exact in them, and no head reads the result.
  bool keeps_16_bits(const Node& node) {
    if (!is_narrow(node.inputs[0])) return false;
    if (read_by_head(node)) return false;
    return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId input) {
      const Tensor* constant = graph_.constant(input);
      return !input.present() || (constant && is_exact(*constant));
    });
  }
  bool is_exact(const Tensor& constant) const {
    const std::span<const float> data = constant.data<float>();
    return std::all_of(data.begin(), data.end(), [this](float v) {
      return (narrow_ == DType::bf16 ? static_cast<float>(BFloat16(v)) : static_cast<float>(Half(v))) == v;
    });
  }
  // f16 ends at 65,504; what is beyond stays in f32.
  bool fits(const Node& node) const {
    if (narrow_ == DType::bf16) return true;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* constant = graph_.constant(node.inputs[i]);
      if (!constant || constant->dtype() != DType::f32) continue;
      const bool weights = node.op->traits.product && i < 2;
      if (!(weights ? weights_fit_half(*constant) : fits_half(*constant))) return false;
    }
    return true;
  }
  // f16 ends at 6e-8 below: an epsilon that keeps a divisor from zero would be zero. What is computed of it up to the
  // next product stays in f32, too; the epsilon may be a number in a product's own epilogue.
  bool holds_little(const Node& node) const {
    if (narrow_ == DType::bf16) return false;
    const bool product = node.op->traits.product;
    for (size_t i = product ? 2 : 0; i < node.inputs.size(); ++i) {
      const Tensor* constant = graph_.constant(node.inputs[i]);
      if (product && !(constant && constant->elements() == 1)) continue;
      if (little_.contains(node.inputs[i])) return true;
      if (!constant || constant->dtype() != DType::f32) continue;
      const float largest = largest_of(*constant);
      if (largest > 0 && static_cast<float>(Half(largest)) == 0) return true;
    }
    return false;
  }
  // Attention computes in f32 too, on inputs that have been rounded already; its mask may have any type.
  bool attends_in_16_bits(const Node& node) {
    const size_t count = std::min<size_t>(node.inputs.size(), 6);
    for (size_t i = 0; i < count; ++i) {
      const bool past = i > kMask;
      if (i != kMask && (past ? node.inputs[i].present() : !is_narrow(node.inputs[i]))) return false;
    }
    return node.outputs.size() == 1 && !read_by_head(node);
  }
  // On a GPU, a product of one row by constant weights stores them in 16 bits, and its row in f32: all that counts is
  // the weights' bytes, and no casts are launched.
  bool is_row(const Node& node) const {
    if (!for_gpu_ || !(is_op(node, "sparkpilot::Gemm") || is_op(node, "sparkpilot::ScaledGemm"))) return false;
    if (!graph_.constant(node.inputs[1])) return false;
    const std::optional<Shape>& x = graph_.value(node.inputs[0]).shape;
    return x && x->elements() == (*x)[x->rank() - 1];
  }
  // On a GPU no cast comes before QuantizeLinear, which divides in f32 whatever it reads.
  bool reads_any_float(const Node& node) const { return for_gpu_ && is_op(node, "QuantizeLinear"); }
  bool read_by_head(const Node& node) {
    const std::vector<NodeId>& readers = edit_.readers(node.outputs[0]);
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) { return is_head(reader); });
  }
  bool is_head(NodeId id) const { return heads_[id]; }

  bool wants_16_bits(NodeId id) {
    const Node& node = graph_.node(id);
    if (has_bodies(node) || !fits(node)) return false;
    const bool stands_between = node.op->traits.elementwise || node.op->traits.picks;
    if (!training_ && (node.op->traits.product || stands_between) && holds_little(node)) {
      little_.insert(node.outputs.begin(), node.outputs.end());
      return false;
    }
    if (node.op->traits.product) return !is_head(id) && has_kernel(node);
    if (node.op->traits.norm) return keeps_16_bits(node);
    if (node.op->traits.attention) return !is_head(id) && attends_in_16_bits(node);
    if (!stands_between) return false;
    if (is_op(node, "Cast") || is_op(node, "CastLike")) return false;
    if (training_) return rounds_little(node);
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return is_narrow(input) && !graph_.constant(input); });
  }

  // In training what is wide stays so until a product, and so does the result of a function: 1 + erf(x) of a rounded
  // erf(x), a part of GELU's derivative, would be wrong by a part of itself where it is small. Inference has such
  // chains fused.
  bool rounds_little(const Node& node) const {
    constexpr std::string_view kOps[] = {
        "Add",         "Sub",  "Mul",  "Neg",   "Abs",     "Relu",           "LeakyRelu",
        "Max",         "Min",  "Clip", "Where", "Greater", "GreaterOrEqual", "Less",
        "LessOrEqual", "Equal"};
    if (!node.op->traits.picks && !is_one_of(node, kOps)) return false;
    bool any = false;
    for (const ValueId input : node.inputs) {
      if (!input.present() || !is_float(graph_.value(input).dtype) || !runs_[input]) continue;
      if (!is_narrow(input)) return false;
      any = true;
    }
    return any;
  }

  int narrow(NodeId id) {
    const DType to = wants_16_bits(id) ? narrow_ : DType::f32;
    const DType from = to == narrow_ ? DType::f32 : narrow_;
    if (is_op(graph_.node(id), "Cast")) {
      infer_node(graph_, id);
      return 0;
    }
    int changes = 0;
    if (to == narrow_ && sums_[id] && is_op(graph_.node(id), "Gemm")) {
      graph_.node(id).op = find_op("sparkpilot", "WideGemm", 1);
      ++changes;
    }
    const bool row = is_row(graph_.node(id));
    if (graph_.node(id).op->traits.product && graph_.value(graph_.node(id).inputs[0]).dtype == DType::f8e4m3fn) {
      graph_.node(id).attrs.set("output_dtype", onnx_code(row ? DType::f32 : to));
    }
    const size_t count = reads_any_float(graph_.node(id)) ? 0 : narrowed_inputs(graph_.node(id));
    for (size_t i = 0; i < count; ++i) {
      const ValueId input = graph_.node(id).inputs[i];
      const DType wanted = row && i == 0 ? DType::f32 : to, other = row && i == 0 ? narrow_ : from;
      if (!input.present() || graph_.value(input).dtype != other) continue;
      edit_.set_input(id, i, as(id, input, wanted));
      ++changes;
    }
    infer_node(graph_, id);
    return changes;
  }

  ValueId as(NodeId reader, ValueId value, DType dtype) {
    const auto known = casts_.find({value, dtype});
    if (known != casts_.end()) return known->second;
    ValueId result;
    if (const Tensor* constant = graph_.constant(value)) {
      result = graph_.add_constant(convert(*constant, dtype), graph_.value(value).name);
    } else {
      // A Cast of a Cast: take the original value. Converting u8 pixels needs no detour through f32.
      const NodeId maker = edit_.maker(value, "Cast");
      const ValueId before = maker.present() ? graph_.node(maker).inputs[0] : ValueId();
      const DType from = before.present() ? graph_.value(before).dtype : DType::none;
      const NodeId dequantize = for_gpu_ ? edit_.maker(value, "DequantizeLinear") : NodeId();
      if (dequantize.present() && reader.present() && edit_.only_reader(value) == reader) {
        // It writes the type itself.
        Node& node = graph_.node(dequantize);
        node.attrs.set("output_dtype", onnx_code(dtype));
        infer_node(graph_, dequantize);
        result = value;
      } else if (from == dtype) {
        result = before;
      } else {
        Builder builder(graph_, reader.present() ? graph_.node(reader).name : "");
        result = cast(builder, from == DType::u8 ? before : value, dtype);
      }
    }
    casts_[{value, dtype}] = result;
    return result;
  }

  Edit edit_;
  Graph& graph_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  DType narrow_;
  bool for_gpu_, training_;
  std::set<ValueId> little_;  // computed of a constant that would be zero in f16
  ValueMap<bool> runs_;       // depends on an input or on a state that is renewed
  NodeMap<bool> heads_;       // products that stay in f32, and attention
  NodeMap<bool> sums_;        // products of 16 bits that return f32
};

}  // namespace

std::vector<ValueId> outputs_of(const Graph& graph) {
  std::vector<ValueId> out;
  for (const Graph::Output& output : graph.outputs()) out.push_back(output.value);
  return out;
}

namespace {

// Whether a value is computed from this one alone, without a product. Looks at so many nodes at most.
bool computed_from(Edit& edit, ValueId value, ValueId source, int& steps) {
  if (value == source) return true;
  const NodeId id = edit.maker(value);
  if (!id.present() || edit.graph().node(id).op->traits.product || --steps < 0) return false;
  const std::vector<ValueId> operands = computed_operands(edit.graph(), id);
  return !operands.empty() && std::all_of(operands.begin(), operands.end(),
                                          [&](ValueId operand) { return computed_from(edit, operand, source, steps); });
}

bool computed_from_one(Edit& edit, const std::vector<ValueId>& operands) {
  return std::any_of(operands.begin(), operands.end(), [&](ValueId source) {
    int steps = 32;
    return std::all_of(operands.begin(), operands.end(),
                       [&](ValueId value) { return computed_from(edit, value, source, steps); });
  });
}

}  // namespace

NodeMap<bool> find_heads(Edit& edit) {
  const Graph& graph = edit.graph();
  NodeMap<bool> heads(graph.node_count());
  visit_makers(edit, outputs_of(graph), [&](NodeId id, const std::vector<ValueId>& running) {
    const Node& node = graph.node(id);
    if (node.op->traits.product) return heads[id] = true, false;
    return running.size() == 1 || is_op(node, "Concat") || computed_from_one(edit, running);
  });
  return heads;
}

std::string_view name(Precision precision) { return kNames[static_cast<size_t>(precision)]; }

std::optional<Precision> parse_precision(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return {};
  return static_cast<Precision>(found - kNames.begin());
}

Precision precision_on(std::string_view device, Precision precision) {
  if (precision != Precision::automatic || device == "auto") return precision;
  return device.starts_with("cuda") ? Precision::fp16 : Precision::fp32;
}

void check_precision(Precision precision) {
  const CpuFeatures& cpu = cpu_features();
  if (precision != Precision::bf16 || cpu.avx512_bf16 || cpu.amx_bf16 || cpu.neon_bf16) return;
  fail("precision bf16 needs a CPU with bf16 arithmetic (avx512_bf16, amx_bf16 or neon_bf16), this one has: {}",
       cpu.isa());
}

int widen_to_fp32(Graph& graph) {
  std::vector<std::pair<int, DType>> outputs;  // outputs that must stay in 16 bits
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const DType dtype = graph.value(graph.outputs()[i].value).dtype;
    if (is_16_bit(dtype)) outputs.emplace_back(static_cast<int>(i), dtype);
  }
  std::vector<std::pair<ValueId, DType>> nexts;
  for (const State& state : graph.states()) {
    const DType dtype = graph.value(state.value).dtype;
    if (is_16_bit(dtype)) nexts.emplace_back(state.value, dtype);
  }
  int changes = widen_inside(graph);
  Builder builder(graph, "");
  std::vector<ValueId> sources = graph.inputs();
  for (const State& state : graph.states()) sources.push_back(state.value);
  for (const ValueId source : sources) {
    if (!is_16_bit(graph.value(source).dtype)) continue;
    const NodeId first{graph.node_count()};
    const ValueId wide = cast(builder, source, DType::f32);
    graph.replace_uses(source, wide);
    graph.node(first).inputs[0] = source;
    ++changes;
  }
  if (!changes) return 0;
  infer(graph);
  for (const auto& [index, dtype] : outputs) {
    const ValueId value = graph.outputs()[static_cast<size_t>(index)].value;
    if (graph.value(value).dtype != dtype) graph.set_output(index, cast(builder, value, dtype));
  }
  for (const auto& [state, dtype] : nexts) {
    for (const State& each : graph.states()) {
      if (each.value == state) graph.set_next(state, cast(builder, each.next, dtype));
    }
  }
  return changes;
}

int narrow_from_fp32(Graph& graph, Precision precision, const Target& target) {
  const bool for_gpu = target.device == Device::cuda;
  if (precision != Precision::fp16 && precision != Precision::bf16 && !(for_gpu && stores_small(precision))) return 0;
  std::vector<DType> dtypes;
  for (const Graph::Output& output : graph.outputs()) dtypes.push_back(graph.value(output.value).dtype);
  int changes = 0;
  {
    Narrowing narrowing(graph, precision == Precision::bf16 ? DType::bf16 : DType::f16, target);
    const bool all = precision == Precision::bf16 || for_gpu;
    changes = all ? narrowing.to_16_bits() : narrowing.weights_to_half();
  }
  Builder builder(graph, "");
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const ValueId value = graph.outputs()[i].value;
    if (graph.value(value).dtype == dtypes[i] || dtypes[i] == DType::none) continue;
    graph.set_output(static_cast<int>(i), cast(builder, value, dtypes[i]));
  }
  if (changes) graph.compact();  // drops the f32 weights that are no longer read
  return changes;
}

void set_precision(Graph& graph, Precision precision) {
  check_precision(precision);
  if (precision == Precision::model) return;
  infer(graph);
  widen_to_fp32(graph);
  narrow_from_fp32(graph, precision, {});
}

}  // namespace sparkpilot
