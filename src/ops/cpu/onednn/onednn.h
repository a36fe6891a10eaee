// A small interface to oneDNN: the only place that handles its versions (2.6 on Debian 12, 3.x on Ubuntu 24.04).
//
// A kernel describes its operands, asks for a primitive descriptor, and records steps in an onednn::State, which is its
// KernelState. Constant operands are converted to the primitive's format at once, others in each run, in the workspace;
// scratchpads are in the workspace too. A state is built for the thread count at its creation and always runs on that
// many threads, since oneDNN sizes scratchpads by it.
#pragma once

#include <functional>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ops/cpu/vector/epilogue.h"

namespace sparkpilot::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// The process-wide CPU engine. Thread-safe.
const dnnl::engine& engine();

// Empty for dtypes that oneDNN does not support.
std::optional<dnnl::memory::data_type> type_of(DType dtype);

// Row-major; with given strides in elements; or in the format that the primitive prefers.
Desc dense(DType dtype, const Dims& dims);
Desc strided(DType dtype, const Dims& dims, const Dims& strides);
Desc any(DType dtype, const Dims& dims);
// An absent operand.
inline Desc none() { return {}; }

// Operations that a primitive applies to each result before it stores it, in order.
class PostOps {
 public:
  void eltwise(dnnl::algorithm algorithm, float alpha = 0, float beta = 0);
  // Returns the name of the argument that carries the other operand.
  int binary(dnnl::algorithm algorithm, const Desc& operand);
  // Whether two elementwise functions are one of oneDNN's with other parameters: its kernels compute the first twice
  // (2.6 keeps them by algorithm).
  bool confuses() const;
  dnnl::post_ops get() const;

 private:
  // dnnl::post_ops is a handle: copies of it would share what is appended.
  struct Op {
    dnnl::algorithm algorithm;
    float alpha = 0, beta = 0;
    std::optional<Desc> operand;
  };
  std::vector<Op> ops_;
};

// The operand of an epilogue step, as a primitive's argument.
struct StepOperand {
  int argument, input;
  DType dtype;
  Desc desc;
};
// Appends the steps of an epilogue; `describe` returns the format of an operand of that kind and dtype. Empty if oneDNN
// does not support a step, cannot read an operand, or would lose a NaN in a step other than the last.
using DescribeOperand = std::function<Desc(Epilogue::Step::Operand, DType)>;
struct Appended {
  std::vector<StepOperand> operands;
  // oneDNN's relu and clip turn NaN into a number: the last step if it is one of them, and the post-ops without it.
  std::optional<Epilogue::Step> loses_nan;
  PostOps without_it;
};
std::optional<Appended> append(PostOps& post_ops, const Epilogue& epilogue, const Problem& p,
                               const DescribeOperand& describe);

// Attributes with post-ops. Scratchpads are provided by the caller (`user`), or allocated by the primitive (`library`).
dnnl::primitive_attr attributes(const PostOps& post_ops = {},
                                dnnl::scratchpad_mode scratchpad = dnnl::scratchpad_mode::user);

// limit_kernels() for oneDNN.
void limit(std::string_view level);

// Whether oneDNN computes fast and correctly with this dtype on this machine: f32, and bf16 if the processor supports
// it.
bool computes(DType dtype);

// A convolution's window in oneDNN's terms, where a dilation of 0 means none.
struct WindowArgs {
  Dims strides, dilations, pad_begin, pad_end;
};

// Primitive descriptors; empty (no handle) if oneDNN has no implementation.
using PrimitiveDesc = dnnl::primitive_desc;
template <typename Primitive>
using DescOf = typename Primitive::primitive_desc;
DescOf<dnnl::convolution_forward> convolution(const Desc& src, const Desc& weights, const Desc& bias, const Desc& dst,
                                              const WindowArgs& window, const dnnl::primitive_attr& attr);
DescOf<dnnl::deconvolution_forward> deconvolution(const Desc& src, const Desc& weights, const Desc& bias,
                                                  const Desc& dst, const WindowArgs& window,
                                                  const dnnl::primitive_attr& attr);
// `weights`: of the convolution, whose type may differ from their gradient's.
DescOf<dnnl::convolution_backward_weights> convolution_weight_gradient(const Desc& src, const Desc& weights,
                                                                       const Desc& gradient, const Desc& dst,
                                                                       const WindowArgs& window,
                                                                       const dnnl::primitive_attr& attr);
DescOf<dnnl::matmul> matmul(const Desc& a, const Desc& b, const Desc& bias, const Desc& dst,
                            const dnnl::primitive_attr& attr);
DescOf<dnnl::pooling_forward> pooling(dnnl::algorithm algorithm, const Desc& src, const Desc& dst, const Dims& kernel,
                                      const WindowArgs& window, const dnnl::primitive_attr& attr);

// Whether the descriptor exists and its implementation is optimised, not oneDNN's slow reference.
Acceptance is_fast(const dnnl::primitive_desc_base& desc);
std::string implementation(const dnnl::primitive_desc_base& desc);

// Throws an Error for an error of oneDNN.
[[noreturn]] void rethrow(const dnnl::error& error);

// The KernelState of kernels by oneDNN: operands, and primitives to execute in order.
class State final : public KernelState {
 public:
  using Slot = int;  // an operand of a step

  State();
  // Memory that is taken from the call in run(), or that is in the workspace.
  Slot input(int index, const Desc& desc);
  Slot output(int index, const Desc& desc);
  Slot scratch(const Desc& desc);
  // The bytes of a constant; the state keeps them alive.
  Slot constant(const Tensor& tensor, const Desc& desc);
  // Input `index` as `dtype`: a constant, converted if needed and marked as consumed, or an input of the call, which
  // must have that dtype.
  Slot parameter(const Problem& p, int index, DType dtype, const Desc& desc);
  // `slot` in another format. Returns the slot itself if the formats are equal. A constant is packed at once and its
  // plain bytes are freed, so no earlier step may read it; otherwise a reorder is added for each run.
  Slot convert(Slot slot, const Desc& wanted);
  // Adds a step that copies one slot into another of another format.
  void reorder(Slot from, Slot to);

  struct Argument {
    int name;  // DNNL_ARG_...
    Slot slot;
  };
  std::vector<Argument> bind(const Problem& p, std::span<const StepOperand> operands);
  // Adds the primitive and its scratchpad.
  void step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc, std::vector<Argument> arguments);
  // For a step that loses NaN. If Call::not_finite is set, the last primitive is replaced by the one that `make`
  // returns, for operands of the same formats, and `activation` is applied to output 0 at the end; or only `instead`
  // runs. Both may allocate in their first run.
  void keep_nan(std::function<dnnl::primitive()> make, const Epilogue::Step& activation);
  void keep_nan(std::function<void(const Call&)> instead);
  // The name of the last primitive's implementation, for reports.
  const std::string& implementation() const { return implementation_; }

  void execute(const Call& call);

 private:
  enum class Home : uint8_t { input, output, workspace, fixed };
  struct Place {
    dnnl::memory memory;
    Home home;
    int64_t index;      // of the input or output, or the offset in the workspace
    const void* bound;  // the memory's present handle
    Tensor owned;       // keeps the bytes of `fixed` alive
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  void execute_keeping_nan(const Call& call);
  void execute(const dnnl::primitive& primitive, const std::vector<dnnl_exec_arg_t>& arguments);
  Slot add(const Desc& desc, Home home, int64_t index, void* data, Tensor owned = {});

  dnnl::stream stream_;
  int threads_;
  std::vector<Place> places_;
  std::vector<Step> steps_;
  size_t loses_nan_at_ = 0;  // index of the step
  std::function<dnnl::primitive()> make_careful_;
  dnnl::primitive careful_;
  Epilogue::Step activation_;
  std::function<void(const Call&)> instead_;
  std::string implementation_;
};

// The `run` of every kernel whose state is a State.
void run(const Call& call);

}  // namespace sparkpilot::onednn
