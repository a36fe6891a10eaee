#include "ops/cpu/onednn/onednn.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "hw/cpu.h"

namespace sparkpilot::onednn {
namespace {

// 3.x merged the operation descriptors of 2.x into the primitive descriptors' constructors.
template <typename Primitive, typename... Args>
DescOf<Primitive> make(const dnnl::primitive_attr& attr, Args&&... args) {
  try {
#if DNNL_VERSION_MAJOR >= 3
    return typename Primitive::primitive_desc(engine(), std::forward<Args>(args)..., attr, true);
#else
    return
        typename Primitive::primitive_desc(typename Primitive::desc(std::forward<Args>(args)...), attr, engine(), true);
#endif
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return {};
    rethrow(error);
  }
}

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

std::optional<dnnl::memory::data_type> type_of(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::f32: return Type::f32;
    case DType::bf16: return Type::bf16;
    case DType::f16: return Type::f16;
    case DType::i32: return Type::s32;
    case DType::i8: return Type::s8;
    case DType::u8: return Type::u8;
    default: return {};
  }
}

Desc dense(DType dtype, const Dims& dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strided(dtype, dims, strides);
}

Desc strided(DType dtype, const Dims& dims, const Dims& strides) { return {dims, type_of(dtype).value(), strides}; }

Desc any(DType dtype, const Dims& dims) { return {dims, type_of(dtype).value(), dnnl::memory::format_tag::any}; }

void PostOps::eltwise(dnnl::algorithm algorithm, float alpha, float beta) {
  ops_.push_back({algorithm, alpha, beta, {}});
}

int PostOps::binary(dnnl::algorithm algorithm, const Desc& operand) {
  ops_.push_back({algorithm, 0, 0, operand});
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(ops_.size()) - 1) | DNNL_ARG_SRC_1;
}

bool PostOps::confuses() const {
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (size_t j = 0; j < i && !ops_[i].operand; ++j) {
      const bool same = ops_[i].alpha == ops_[j].alpha && ops_[i].beta == ops_[j].beta;
      if (!ops_[j].operand && ops_[i].algorithm == ops_[j].algorithm && !same) return true;
    }
  }
  return false;
}

dnnl::post_ops PostOps::get() const {
  dnnl::post_ops all;
  for (const Op& op : ops_) {
    if (op.operand) {
      all.append_binary(op.algorithm, *op.operand);
      continue;
    }
#if DNNL_VERSION_MAJOR >= 3
    all.append_eltwise(op.algorithm, op.alpha, op.beta);
#else
    all.append_eltwise(1.0f, op.algorithm, op.alpha, op.beta);
#endif
  }
  return all;
}

namespace {

// False if oneDNN does not support the function.
bool append_activation(PostOps& post, const Epilogue::Step& step) {
  using dnnl::algorithm;
  switch (step.function) {
    case Activation::relu: post.eltwise(algorithm::eltwise_relu); return true;
    case Activation::leaky_relu: post.eltwise(algorithm::eltwise_relu, step.alpha); return true;
    case Activation::clip: post.eltwise(algorithm::eltwise_clip, step.alpha, step.beta); return true;
    case Activation::sigmoid:
#if defined(__x86_64__)
      post.eltwise(algorithm::eltwise_logistic);
      return true;
#else
      return false;  // on Arm oneDNN's turns NaN into a number
#endif
    case Activation::silu: post.eltwise(algorithm::eltwise_swish, step.alpha); return true;
    case Activation::tanh: post.eltwise(algorithm::eltwise_tanh); return true;
    case Activation::gelu_tanh: post.eltwise(algorithm::eltwise_gelu_tanh); return true;
    case Activation::gelu_erf: post.eltwise(algorithm::eltwise_gelu_erf); return true;
    case Activation::elu: post.eltwise(algorithm::eltwise_elu, step.alpha); return true;
    case Activation::hard_swish:
#if DNNL_VERSION_MAJOR >= 3
      post.eltwise(algorithm::eltwise_hardswish, 1.0f / 6, 0.5f);
#else
      post.eltwise(algorithm::eltwise_hardswish);
#endif
      return true;
    default: return false;
  }
}

}  // namespace

std::optional<Appended> append(PostOps& post_ops, const Epilogue& epilogue, const Problem& p,
                               const DescribeOperand& describe) {
  Appended result;
  for (const Epilogue::Step& step : epilogue.steps()) {
    if (result.loses_nan) return {};
    if (step.kind == Epilogue::Step::activation) {
      if (step.function == Activation::relu || step.function == Activation::clip) {
        result.loses_nan = step;
        result.without_it = post_ops;
      }
      if (!append_activation(post_ops, step) || post_ops.confuses()) return {};
      continue;
    }
    const DType dtype = p.is_constant(static_cast<size_t>(step.input)) ? DType::f32 : step.dtype;
    if (!computes(dtype)) return {};
    const Desc desc = describe(step.operand, dtype);
    const auto algorithm = step.kind == Epilogue::Step::add ? dnnl::algorithm::binary_add : dnnl::algorithm::binary_mul;
    result.operands.push_back({post_ops.binary(algorithm, desc), step.input, dtype, desc});
  }
  return result;
}

void limit(std::string_view level) {
  if (level == "avx512") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
  else if (cpu_features().avx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
}

bool computes(DType dtype) {
  const CpuFeatures& cpu = cpu_features();
  return dtype == DType::f32 || (dtype == DType::bf16 && cpu.avx512_bf16);
}

dnnl::primitive_attr attributes(const PostOps& post_ops, dnnl::scratchpad_mode scratchpad) {
  dnnl::primitive_attr attr;
  attr.set_post_ops(post_ops.get());
  attr.set_scratchpad_mode(scratchpad);
  return attr;
}

DescOf<dnnl::convolution_forward> convolution(const Desc& src, const Desc& weights, const Desc& bias, const Desc& dst,
                                              const WindowArgs& w, const dnnl::primitive_attr& attr) {
  return make<dnnl::convolution_forward>(attr, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                         src, weights, bias, dst, w.strides, w.dilations, w.pad_begin, w.pad_end);
}

DescOf<dnnl::deconvolution_forward> deconvolution(const Desc& src, const Desc& weights, const Desc& bias,
                                                  const Desc& dst, const WindowArgs& w,
                                                  const dnnl::primitive_attr& attr) {
  return make<dnnl::deconvolution_forward>(attr, dnnl::prop_kind::forward_inference,
                                           dnnl::algorithm::deconvolution_direct, src, weights, bias, dst, w.strides,
                                           w.dilations, w.pad_begin, w.pad_end);
}

DescOf<dnnl::convolution_backward_weights> convolution_weight_gradient(const Desc& src, const Desc& weights,
                                                                       const Desc& gradient, const Desc& dst,
                                                                       const WindowArgs& w,
                                                                       const dnnl::primitive_attr& attr) {
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const auto forward =
      make<dnnl::convolution_forward>(dnnl::primitive_attr(), dnnl::prop_kind::forward_training, kDirect, src, weights,
                                      dst, w.strides, w.dilations, w.pad_begin, w.pad_end);
  if (!forward) return {};
  using Backward = dnnl::convolution_backward_weights;
  try {
#if DNNL_VERSION_MAJOR >= 3
    return Backward::primitive_desc(engine(), kDirect, src, gradient, dst, w.strides, w.dilations, w.pad_begin,
                                    w.pad_end, forward, attr, true);
#else
    return Backward::primitive_desc(
        Backward::desc(kDirect, src, gradient, dst, w.strides, w.dilations, w.pad_begin, w.pad_end), attr, engine(),
        forward, true);
#endif
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return {};
    rethrow(error);
  }
}

DescOf<dnnl::matmul> matmul(const Desc& a, const Desc& b, const Desc& bias, const Desc& dst,
                            const dnnl::primitive_attr& attr) {
  return make<dnnl::matmul>(attr, a, b, bias, dst);
}

DescOf<dnnl::pooling_forward> pooling(dnnl::algorithm algorithm, const Desc& src, const Desc& dst, const Dims& kernel,
                                      const WindowArgs& w, const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
  return make<dnnl::pooling_forward>(attr, dnnl::prop_kind::forward_inference, algorithm, src, dst, w.strides, kernel,
                                     w.dilations, w.pad_begin, w.pad_end);
#else
  for (const auto dilation : w.dilations) {
    if (dilation != 0) return {};
  }
  return make<dnnl::pooling_forward>(attr, dnnl::prop_kind::forward_inference, algorithm, src, dst, w.strides, kernel,
                                     w.pad_begin, w.pad_end);
#endif
}

std::string implementation(const dnnl::primitive_desc_base& desc) { return desc.impl_info_str(); }

Acceptance is_fast(const dnnl::primitive_desc_base& desc) {
  if (!desc) return "oneDNN does not do it";
  if (implementation(desc).find("ref") != std::string::npos) return "oneDNN has its reference only";
  return true;
}

void rethrow(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) fail("not enough memory for a oneDNN primitive");
  fail_internal("oneDNN: {} (status {})", error.what(), static_cast<int>(error.status));
}

State::State() : stream_(engine()), threads_(thread_count()) { on_cpu.for_threads = true; }

State::Slot State::add(const Desc& desc, Home home, int64_t index, void* data, Tensor owned) {
  places_.push_back({dnnl::memory(desc, engine(), data), home, index, data, std::move(owned)});
  return static_cast<Slot>(places_.size() - 1);
}

State::Slot State::input(int index, const Desc& desc) { return add(desc, Home::input, index, nullptr); }

State::Slot State::output(int index, const Desc& desc) { return add(desc, Home::output, index, nullptr); }

State::Slot State::scratch(const Desc& desc) {
  const int64_t offset = workspace;
  workspace += aligned(static_cast<int64_t>(desc.get_size()));
  return add(desc, Home::workspace, offset, nullptr);
}

State::Slot State::constant(const Tensor& tensor, const Desc& desc) {
  return add(desc, Home::fixed, 0, tensor.raw(), tensor);
}

State::Slot State::parameter(const Problem& p, int index, DType dtype, const Desc& desc) {
  const auto i = static_cast<size_t>(index);
  if (!p.is_constant(i)) return input(index, desc);
  consumed |= uint64_t{1} << i;
  return constant(p.constants[i].dtype() == dtype ? p.constants[i] : sparkpilot::convert(p.constants[i], dtype), desc);
}

std::vector<State::Argument> State::bind(const Problem& p, std::span<const StepOperand> operands) {
  std::vector<Argument> arguments;
  for (const StepOperand& o : operands) arguments.push_back({o.argument, parameter(p, o.input, o.dtype, o.desc)});
  return arguments;
}

State::Slot State::convert(Slot slot, const Desc& wanted) {
  const Place& from = places_[static_cast<size_t>(slot)];
  if (from.memory.get_desc() == wanted) return slot;
  if (from.home != Home::fixed) {
    const Slot to = scratch(wanted);
    reorder(slot, to);
    return to;
  }
  const auto bytes = static_cast<int64_t>(wanted.get_size());
  Tensor packed(DType::u8, Shape{bytes});
  dnnl::memory memory(wanted, engine(), packed.raw());
  dnnl::memory source = from.memory;
  try {
    dnnl::reorder(source, memory).execute(stream_, source, memory);
    stream_.wait();
  } catch (const dnnl::error& error) {
    rethrow(error);
  }
  // The slot is the packed constant from now on: keeping the plain bytes too would double every weight.
  places_[static_cast<size_t>(slot)] = {memory, Home::fixed, 0, packed.raw(), packed};
  return slot;
}

void State::reorder(Slot from, Slot to) {
  const dnnl::memory& a = places_[static_cast<size_t>(from)].memory;
  const dnnl::memory& b = places_[static_cast<size_t>(to)].memory;
  dnnl::reorder::primitive_desc desc;
  try {
    desc = dnnl::reorder::primitive_desc(engine(), a.get_desc(), engine(), b.get_desc(), attributes());
    const std::string before = std::move(implementation_);
    step(dnnl::reorder(desc), desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    implementation_ = before;
  } catch (const dnnl::error& error) {
    rethrow(error);
  }
}

void State::step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc,
                 std::vector<Argument> arguments) {
  const Desc scratchpad = desc.scratchpad_desc();
  if (scratchpad.get_size() > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, scratch(scratchpad)});
  Step step{primitive, {}};
  for (const Argument& argument : arguments) {
    step.arguments.push_back({argument.name, places_[static_cast<size_t>(argument.slot)].memory.get()});
  }
  steps_.push_back(std::move(step));
  implementation_ = onednn::implementation(desc);
}

void State::keep_nan(std::function<dnnl::primitive()> make, const Epilogue::Step& activation) {
  on_cpu.loses_nan = true;
  loses_nan_at_ = steps_.size() - 1;
  make_careful_ = std::move(make);
  activation_ = activation;
}

void State::keep_nan(std::function<void(const Call&)> instead) {
  on_cpu.loses_nan = true;
  instead_ = std::move(instead);
}

void State::execute(const Call& call) {
  if (on_cpu.loses_nan && call.not_finite && instead_) return instead_(call);
  // A count of 0 keeps the caller's; the header says why it must be that of prepare.
  const ThreadScope scope(thread_count() == threads_ ? 0 : threads_);
  for (Place& place : places_) {
    const auto index = static_cast<size_t>(place.index);
    const void* data = nullptr;
    switch (place.home) {
      case Home::input: data = call.inputs[index].data; break;
      case Home::output: data = call.outputs[index].data; break;
      case Home::workspace: data = call.workspace + place.index; break;
      case Home::fixed: continue;
    }
    if (data == place.bound) continue;
    place.memory.set_data_handle(const_cast<void*>(data));
    place.bound = data;
  }
  if (on_cpu.loses_nan && call.not_finite) return execute_keeping_nan(call);
  for (const Step& step : steps_) execute(step.primitive, step.arguments);
}

void State::execute(const dnnl::primitive& primitive, const std::vector<dnnl_exec_arg_t>& arguments) {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.get(), stream_.get(), static_cast<int>(arguments.size()), arguments.data());
  if (status != dnnl_success) fail_internal("oneDNN could not run {} (status {})", implementation_, int{status});
}

void State::execute_keeping_nan(const Call& call) {
  if (!careful_) careful_ = make_careful_();
  for (size_t i = 0; i < steps_.size(); ++i) {
    execute(i == loses_nan_at_ ? careful_ : steps_[i].primitive, steps_[i].arguments);
  }
  const View& y = call.outputs[0];
  const bool clips = activation_.function == Activation::clip;
  const float low = clips ? activation_.alpha : 0, high = clips ? activation_.beta : INFINITY;
  parallel_for(y.elements(), 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<float>(load_element(y.dtype, y.data, i));
      if (value < low || value > high) store_element(y.dtype, y.data, i, value < low ? low : high);
    }
  });
}

void run(const Call& call) { call.as<State>().execute(call); }

}  // namespace sparkpilot::onednn
