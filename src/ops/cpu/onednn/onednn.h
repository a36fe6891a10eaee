// oneDNN behind one small interface: the only place that knows its versions (2.6 on Debian 12, 3.x on Ubuntu 24.04).
//
// A kernel describes its operands, asks for a primitive descriptor, and records steps in a OnednnState, which is its
// KernelState: constant operands are brought into the primitive's format at once, others at each run through the
// workspace; scratchpads lie in the workspace too. The state is built for the thread count of its creation and always
// runs on that many threads, since oneDNN sizes scratchpads by it.
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

// Empty for dtypes that oneDNN has not.
std::optional<dnnl::memory::data_type> type_of(DType dtype);

// Row-major, with given strides in elements, or in whatever format the primitive likes best.
Desc dense(DType dtype, const Dims& dims);
Desc strided(DType dtype, const Dims& dims, const Dims& strides);
Desc any(DType dtype, const Dims& dims);
// An absent operand.
inline Desc none() { return {}; }

// What a primitive does to each result before it stores it, in order.
class PostOps {
 public:
  void eltwise(dnnl::algorithm algorithm, float alpha = 0, float beta = 0);
  // Returns the name of the argument that carries the other operand.
  int binary(dnnl::algorithm algorithm, const Desc& operand);
  dnnl::post_ops get() const;

 private:
  // oneDNN's own list is a handle, whose copies would share what is appended.
  struct Op {
    dnnl::algorithm algorithm;
    float alpha = 0, beta = 0;
    std::optional<Desc> operand;
  };
  std::vector<Op> ops_;
};

// The operand of an epilogue's step as a primitive's argument.
struct StepOperand {
  int argument, input;
  DType dtype;
  Desc desc;
};
// Appends the steps of an epilogue; `describe` gives the format of an operand of that kind and dtype. Empty where
// oneDNN lacks a step, cannot read an operand, or would lose a NaN in another step than the last.
using DescribeOperand = std::function<Desc(Epilogue::Step::Operand, DType)>;
struct Appended {
  std::vector<StepOperand> operands;
  // oneDNN's relu and clip make a number of NaN: such a last step, and the post-ops without it.
  std::optional<Epilogue::Step> loses_nan;
  PostOps without_it;
};
std::optional<Appended> append(PostOps& post_ops, const Epilogue& epilogue, const Problem& p,
                               const DescribeOperand& describe);

// Attributes with post-ops; scratchpads are given by the user, or the primitive allocates its own (`library`).
dnnl::primitive_attr attributes(const PostOps& post_ops = {},
                                dnnl::scratchpad_mode scratchpad = dnnl::scratchpad_mode::user);

// limit_kernels() for oneDNN.
void limit(std::string_view level);

// Whether oneDNN computes fast, and rightly, on this dtype here: f32, and bf16 where the processor has it.
bool computes(DType dtype);

// A convolution's window in oneDNN's terms: dilations count from 0 there.
struct WindowArgs {
  Dims strides, dilations, pad_begin, pad_end;
};

// Primitive descriptors; empty (no handle) where oneDNN has no implementation.
using PrimitiveDesc = dnnl::primitive_desc;
template <typename Primitive>
using DescOf = typename Primitive::primitive_desc;
DescOf<dnnl::convolution_forward> convolution(const Desc& src, const Desc& weights, const Desc& bias, const Desc& dst,
                                              const WindowArgs& window, const dnnl::primitive_attr& attr);
DescOf<dnnl::deconvolution_forward> deconvolution(const Desc& src, const Desc& weights, const Desc& bias,
                                                  const Desc& dst, const WindowArgs& window,
                                                  const dnnl::primitive_attr& attr);
DescOf<dnnl::matmul> matmul(const Desc& a, const Desc& b, const Desc& bias, const Desc& dst,
                            const dnnl::primitive_attr& attr);
DescOf<dnnl::pooling_forward> pooling(dnnl::algorithm algorithm, const Desc& src, const Desc& dst, const Dims& kernel,
                                      const WindowArgs& window, const dnnl::primitive_attr& attr);

// Whether the descriptor exists and stands for optimised code, not for oneDNN's own slow reference.
Verdict is_fast(const dnnl::primitive_desc_base& desc);
std::string implementation(const dnnl::primitive_desc_base& desc);

// Thrown errors of oneDNN become Errors.
[[noreturn]] void rethrow(const dnnl::error& error);

class State final : public KernelState {
 public:
  using Slot = int;  // an operand of a step

  State();
  // Memory that run() finds in the call, or that lies in the workspace.
  Slot input(int index, const Desc& desc);
  Slot output(int index, const Desc& desc);
  Slot scratch(const Desc& desc);
  // A constant's bytes, which the state keeps alive.
  Slot constant(const Tensor& tensor, const Desc& desc);
  // Input `index` as `dtype`: the constant, converted where need be and marked as consumed, or the call's input, which
  // must have that dtype.
  Slot parameter(const Problem& p, int index, DType dtype, const Desc& desc);
  // `slot` in another format: the slot itself where nothing is to do; a constant is packed at once and its plain bytes
  // are let go, so no earlier step may read it; else a reorder at each run.
  Slot convert(Slot slot, const Desc& wanted);
  // Adds a step that copies one slot into another of another format, as the next thing at each run.
  void reorder(Slot from, Slot to);

  struct Argument {
    int name;  // DNNL_ARG_...
    Slot slot;
  };
  std::vector<Argument> bind(const Problem& p, std::span<const StepOperand> operands);
  // Adds the primitive and its scratchpad.
  void step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc, std::vector<Argument> arguments);
  // For a step that loses NaN. Where Call::not_finite says so, the last primitive is replaced by the one that `make`
  // gives, on operands of the same formats, and `activation` is applied to output 0 in the end; or `instead` is all
  // that runs. Both may allocate, the first time.
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
    const void* bound;  // what memory's handle is now
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
  size_t loses_nan_at_ = 0;  // the step
  std::function<dnnl::primitive()> make_careful_;
  dnnl::primitive careful_;
  Epilogue::Step activation_;
  std::function<void(const Call&)> instead_;
  std::string implementation_;
};

// The `run` of every kernel whose state is a State.
void run(const Call& call);

}  // namespace sparkpilot::onednn
