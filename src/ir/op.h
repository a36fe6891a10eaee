// The record of an op: everything the project knows about it, in one place.
//
// The table is filled by the room `ops` (src/ops/<family>/<name>.cc and one line in list.inc). Passes, inference,
// gradients and the runtime look at the table and its traits; only code that recognises a pattern compares an op's
// name.
//
// Internal ops (domain "sparkpilot") are what passes make; docs/ops.md lists them all. Fusion makes two of them:
//   Conv   ONNX's Conv with the additional attributes `channels_last` (images and outputs N, spatial, C; weights
//          stay O, I/g, spatial) and `epilogue`. Inputs: X, W, bias or absent, then the epilogue's operands.
//   Gemm   Y[..., M, N] = A[..., M, K] x B + bias[N], B [K, N], or [N, K] with `transB` = 1, and `epilogue`.
//          Inputs: A, B, bias or absent, then the epilogue's operands.
// `epilogue` is a list of steps applied in order to each output element in fp32 before it is stored:
//   an activation of kEpilogueActivations (ir/activation.h), such as "relu", "leaky_relu:<alpha>" or
//   "clip:<low>:<high>"; "add:<i>" "mul:<i>"
// where i is the index of a node input: it has the output's shape, or one element per channel ([C]), or one element.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attributes.h"
#include "ir/graph.h"
#include "sparkpilot/builder.h"
#include "tensor/tensor.h"

namespace sparkpilot {

class GpuDevice;
class GpuStream;

// ---------------------------------------------------------------- schema
struct Arity {
  int least = 1, most = 1;  // most = kMany: any number
};
inline constexpr int kMany = 1 << 20;

struct AttrSpec {
  std::string_view name;
  AttrType type;
  bool required = false;
};

// Returns the input whose memory an output of a node may reuse if both have the same dtype and shape; the kernel reads
// element i of the input before it writes element i of the output. kAnyInput: any input with that type; kNoInput: none.
using InPlaceFn = int (*)(const Node& node, int output);
inline constexpr int kAnyInput = -1, kNoInput = -2;
inline int over_any_input(const Node&, int output) { return output == 0 ? kAnyInput : kNoInput; }

struct Traits {
  bool pure = true;              // same inputs, same outputs; may be folded, shared and dropped
  bool view = false;             // output 0 has the bytes of input 0, with another shape
  InPlaceFn in_place = nullptr;  // which outputs may overwrite an input; null: none
  bool elementwise = false;      // each output element depends on the broadcast inputs' elements at its own index only
  bool shape_only = false;       // needs no input data, only shapes (Shape, Size)
  bool picks = false;          // each output element is an element of an input of its dtype, or padding: no arithmetic
  bool product = false;        // multiplies and adds floats over an axis (convolutions, matrix products)
  bool multiply_adds = false;  // its FLOPs are those of products of another kind: of integers, fused, recurrent
  bool norm = false;           // normalises rows, in f32 whatever it reads and writes
  bool attention = false;      // inputs: queries, keys, values, mask, past keys, past values
  bool channels_last = false;  // supports the attribute `channels_last` = 1: images as N, spatial, C
  bool finite = false;         // finite inputs give finite outputs, except for overflow
  // Outputs' shapes depend on data: `run` allocates them (NonZero, If, Loop).
  bool dynamic = false;
};

// ---------------------------------------------------------------- inference
// Thrown by InferContext::ints() and known() if an operand's value is not known yet: the plan segment ends before this
// node, and inference continues when the value has been computed.
struct ValueUnknown {
  int input;
};

// What an op's `infer` sees: concrete shapes of its inputs, and their contents if they are known.
class InferContext {
 public:
  virtual ~InferContext() = default;
  const Node& node;
  const Attributes& attrs;

  int input_count() const { return static_cast<int>(node.inputs.size()); }
  int output_count() const { return static_cast<int>(node.outputs.size()); }
  bool has(int i) const { return i < input_count() && node.inputs[static_cast<size_t>(i)].present(); }
  bool wants(int output) const { return output < output_count(); }
  virtual DType dtype(int i) const = 0;  // DType::none if absent
  virtual const Shape& shape(int i) const = 0;
  int rank(int i) const { return shape(i).rank(); }
  virtual const Tensor* value(int i) const = 0;  // the contents if known, else null
  const Tensor& known(int i) const;              // throws ValueUnknown if the contents are not known
  std::vector<int64_t> ints(int i) const { return known(i).to_ints(); }

  virtual void output(int i, DType dtype, const Shape& shape) = 0;
  // Declares an output whose shape is known only when the node has run (trait `dynamic`). With dtype none, the dtype is
  // not known before either: the kernel then sets it in Call::outputs before it allocates.
  virtual void output_dynamic(int i, DType dtype) = 0;

 protected:
  explicit InferContext(const Node& n) : node(n), attrs(n.attrs) {}
};
// Must set every output or fail (user). The caller adds op and node to the message.
using InferFn = void (*)(InferContext&);

// ---------------------------------------------------------------- kernels
// Where a node runs.
enum class Device : uint8_t { cpu, cuda };
// "CPU", "GPU".
std::string_view name(Device device);

struct TensorType {
  DType dtype = DType::none;
  Shape shape;
  bool known = true;  // false: an output of a `dynamic` op
};

// One node as a kernel sees it before it runs.
struct Problem {
  const Node* node = nullptr;
  std::span<const TensorType> inputs, outputs;  // absent ones have dtype none
  std::span<const Tensor> constants;            // by input; not present() if the input is not a constant
  GpuDevice* gpu = nullptr;                     // where it shall run; null: on the CPU
  const Attributes& attrs() const { return node->attrs; }
  bool has(size_t i) const { return i < inputs.size() && inputs[i].dtype != DType::none; }
  bool is_constant(size_t i) const { return i < constants.size() && constants[i].present(); }
};

// A kernel's answer whether it takes a node: yes, or no with a reason. A reason is a few words for the profile
// ("weights are not constant", "f16 activations"); it may be left out if the kernel would not be faster.
class Acceptance {
 public:
  template <std::same_as<bool> B>
  Acceptance(B accepts) : accepts_(accepts) {}
  Acceptance(const char* why_not) : accepts_(false), reason_(why_not) {}
  Acceptance(std::string_view why_not) : accepts_(false), reason_(why_not) {}
  Acceptance(std::string why_not) : accepts_(false), reason_(std::move(why_not)) {}
  explicit operator bool() const { return accepts_; }
  const std::string& reason() const { return reason_; }  // empty if it accepts or gave no reason

 private:
  bool accepts_;
  std::string reason_;
};

// What `prepare` made: packed weights, oneDNN primitives, sizes. One object per node and plan; `run` may change it.
class KernelState {
 public:
  virtual ~KernelState() = default;
  // Bytes of scratch memory that `run` needs, at a multiple of 64 (on a GPU 256); contents undefined.
  int64_t workspace = 0;
  // Constant inputs that `run` no longer reads because they are packed inside: their memory may be freed.
  uint64_t consumed = 0;  // bit i: input i
  // Only for kernels on the CPU, because of the libraries they use.
  struct OnCpu {
    // The fast path loses NaN, so `run` must take another if Call::not_finite is set.
    bool loses_nan = false;
    // Made for the number of threads at the time of `prepare`; without this flag, any number may run it.
    bool for_threads = false;
  } on_cpu = {};
};

// Runs a body of If, Loop or Scan; implemented by whoever runs the node.
class Body {
 public:
  virtual ~Body() = default;
  virtual std::vector<Tensor> run(std::vector<Tensor> inputs) = 0;
};

// One call of a kernel: its operands, memory and state.
struct Call {
  const Node* node = nullptr;
  std::span<const ConstView> inputs;  // absent ones have dtype none
  std::span<View> outputs;            // data is null for outputs of `dynamic` ops until allocate()
  std::byte* workspace = nullptr;
  KernelState* state = nullptr;
  GpuStream* stream = nullptr;    // of a kernel for a GPU, whose `run` only enqueues; all memory is then the GPU's
  std::span<Body* const> bodies;  // in the order of the node's graph attributes (sorted by attribute name)
  // Some value of this run of the graph may be NaN or infinite.
  bool not_finite = false;
  // `dynamic` ops only: gives output i its memory and returns the view to fill.
  std::function<View(int i, const Shape& shape)>* allocate = nullptr;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].present(); }
  const Attributes& attrs() const { return node->attrs; }
  template <typename State>
  State& as() const {
    return *static_cast<State*>(state);
  }
};

// One way to compute an op on one device. Candidates are ordered: the first that accepts is taken; the last is the
// plain reference, which accepts everything that the op supports. Names are chosen by each op. For a GPU there need not
// be a reference: what no candidate accepts runs on the CPU.
struct Kernel {
  std::string_view name;                                              // "onednn", "simd", "reference"
  Acceptance (*accepts)(const Problem&) = nullptr;                    // null: everything
  std::unique_ptr<KernelState> (*prepare)(const Problem&) = nullptr;  // null: no state
  // May throw Error (user) for invalid values (an index out of range). Must use only base/parallel.h for parallel work.
  // Allocates nothing, except through `allocate` and inside `dynamic` ops.
  void (*run)(const Call&) = nullptr;
  // For a problem that it accepts: the name of a later candidate that was measured to be faster at such a shape, or
  // empty. The later one is taken instead if it accepts.
  std::string_view (*yields)(const Problem&) = nullptr;
  // On a GPU, ways to launch it at a problem that it accepts ("64x64", "64x64 in 4 parts", "2 warps a row"): a few of
  // which a model expects about the same time, all of them legal, first the one that `prepare` makes. Their results
  // differ by rounding. Null, or fewer than two: there is nothing to choose.
  std::vector<std::string> (*variants)(const Problem&) = nullptr;
  // Changes a state that `prepare` made to another of the problem's variants, its workspace included.
  void (*take_variant)(const Problem&, std::string_view variant, KernelState&) = nullptr;
};

// ---------------------------------------------------------------- axes
// For an axis of an output and one input: which elements of the input are used to compute the output's elements at
// index i of that axis. Passes that narrow, slice or stack nodes rely on it (ir/axes.h).
//
// If all inputs are `same` or `broadcast` with respect to an axis, the node computes elements [i, i + n) when it is
// given elements [i, i + n) of the inputs that are `same`, and the whole others. (A view also needs its new shape.)
struct AxisSource {
  enum Kind : uint8_t {
    mixed,      // any elements, or nothing is known
    broadcast,  // the same elements for every i
    same,       // the elements at index i of the input's axis
    window,     // a range of the input's axis that moves with i
  } kind = mixed;
  int axis = -1;  // axis of the input, for same and window
};
// `axis` is an axis of output `output`; both and `input` must exist. All types are known.
using AxesFn = AxisSource (*)(const Problem&, int output, int axis, size_t input);

// ---------------------------------------------------------------- gradient, decomposition, cost, cases
// Given the gradients of a node's outputs (absent: no gradient), returns those of its inputs (absent: none). Each has
// the shape to which the input was broadcast; the caller sums it back to the input's shape. Fails (user) with a reason
// where a node of the op has none.
struct GradContext {
  Builder& b;
  const Node& node;
  std::span<const ValueId> out_grads;
  const std::vector<bool>& wanted;  // by input; what is returned for others is dropped
  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i].present(); }
  bool wants(size_t i) const { return i < wanted.size() && wanted[i]; }
  ValueId in(size_t i) const { return i < node.inputs.size() ? node.inputs[i] : ValueId{}; }
};
using GradFn = std::vector<ValueId> (*)(GradContext&);

// Writes the node as simpler nodes; returns the values of its outputs. Old versions of ops are expanded to their newest
// form this way, so kernels, gradients and passes need to support only that. Input shapes are known.
struct ExpandContext {
  Builder& b;
  const Node& node;
  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i].present(); }
  ValueId in(size_t i) const { return i < node.inputs.size() ? node.inputs[i] : ValueId{}; }
};
using ExpandFn = std::vector<ValueId> (*)(ExpandContext&);

struct Cost {
  double flops = 0;   // a multiply-add counts as two
  double bytes = 0;   // read and written, each tensor counted once
  double needed = 1;  // the part of `flops`, and of the constants' bytes, that every kernel has to take
};
using CostFn = double (*)(const Problem&);  // FLOPs; bytes are counted from the types

// How a case's input is filled.
struct CaseInput {
  DType dtype = DType::f32;
  Shape shape;
  enum Fill { normal, uniform, integers, given, absent } fill = normal;
  double low = -1, high = 1;  // uniform, integers
  Tensor tensor;              // given
  bool constant = false;      // a constant of the graph, not an input

  static CaseInput of(const Shape& shape, DType dtype = DType::f32) { return {dtype, shape, normal, -1, 1, {}, false}; }
  static CaseInput range(const Shape& shape, double low, double high, DType dtype = DType::f32) {
    return {dtype, shape, is_float(dtype) ? uniform : integers, low, high, {}, false};
  }
  static CaseInput value(const Tensor& t) { return {t.dtype(), t.shape(), given, 0, 0, t, true}; }
  static CaseInput none() { return {DType::none, {}, absent, 0, 0, {}, false}; }
  CaseInput fixed() const {
    CaseInput out = *this;
    out.constant = true;
    return out;
  }
};
struct OpCase {
  std::string name;
  std::vector<CaseInput> inputs;
  Attributes attrs;
  int outputs = 1;
  double tolerance = 0;        // relative L2 error against the reference; 0: by dtype
  bool differentiable = true;  // false: not checked by finite differences (ties, kinks)
};
using CasesFn = std::vector<OpCase> (*)();

struct OpDef {
  std::string_view name, domain = "", doc;
  int since = 1;  // the record with the highest `since` not above the model's opset is used
  Arity inputs, outputs;
  std::span<const AttrSpec> attributes = {};
  Traits traits = {};
  InferFn infer = nullptr;  // null only if expand is given
  AxesFn axes = nullptr;    // null: from the traits elementwise and view, else mixed
  std::span<const Kernel> cpu = {}, cuda = {};
  GradFn grad = nullptr;
  // Why there is neither a gradient nor an expansion; it completes "<op> has no gradient: ".
  std::string_view no_gradient = {};
  ExpandFn expand = nullptr;
  CostFn cost = nullptr;  // null: one FLOP per output element
  // Cost::needed where `cost` counts work that a kernel may leave out, such as windows over padding; null: 1.
  double (*needed)(const Problem&) = nullptr;
  CasesFn cases = nullptr;
  // Why the op cannot be run at all; models that contain it are rejected with this text.
  std::string_view refused = {};
};

// --- the table (defined by the room `ops`)
// Null if no version fits.
const OpDef* find_op(std::string_view domain, std::string_view name, int opset);
std::vector<const OpDef*> all_ops();
// "Conv" or "sparkpilot::Conv".
std::string qualified(const OpDef& op);
// The candidates on a device, in the order in which they are tried.
inline std::span<const Kernel> kernels(const OpDef& op, Device device) {
  return device == Device::cpu ? op.cpu : op.cuda;
}

}  // namespace sparkpilot
