#include "ops/cuda/pool_candidates.h"

#include <array>

#include "base/error.h"
#include "ops/cpu/conv/pool_shape.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/pooling.h"
#include "ops/cuda/quantized.h"
#include "ops/cuda/window_candidates.h"

namespace sparkpilot::cuda {
namespace {

struct PoolLaunch : KernelState {
  const GpuFunction* function = nullptr;
  GpuLaunch how;
  PoolArguments arguments{};
};

std::unique_ptr<KernelState> prepared(const Problem& p, const PoolArguments& arguments, bool global) {
  const Storage storage = storage_of(p.inputs[0].dtype);
  auto state = std::make_unique<PoolLaunch>();
  state->arguments = arguments;
  state->how = global ? global_pool_launch(arguments, storage) : pool_launch(arguments, storage);
  state->function =
      &kernel_on(*p.gpu, global ? global_pool_kernel(arguments, storage) : pool_kernel(arguments, storage));
  return state;
}

void run(const Call& c) {
  const auto& state = c.as<PoolLaunch>();
  PoolArguments arguments = state.arguments;
  arguments.x = c.inputs[0].data;
  arguments.y = c.outputs[0].data;
  c.stream->launch(*state.function, state.how, arguments);
}

Acceptance takes_image(const Problem& p) {
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (const Acceptance takes = takes_elements(p.inputs[0].shape); !takes) return takes;
  return takes_elements(p.outputs[0].shape);
}

// --- MaxPool and AveragePool
PoolArguments arguments_of(const Problem& p, const PoolShape& s, bool average) {
  PoolArguments out{};
  set_window(s.window, out);
  out.average = average;
  out.count_padding = p.attrs().integer("count_include_pad", 0) != 0;
  out.channels_first = !s.channels_last;
  out.batch = static_cast<int>(s.batch);
  out.channels = static_cast<int>(s.channels);
  out.pad_bottom = static_cast<int>(s.window.pad_end[1]);
  out.pad_right = static_cast<int>(s.window.pad_end[2]);
  return out;
}

// Whether a position of the window along some dimension has no element of the image: the mean is then 0 by definition,
// and not 0 / 0.
bool misses_image(const KernelWindow& w) {
  for (size_t i = 0; i < KernelWindow::kMaxDims; ++i) {
    for (int64_t at = 0; at < w.out[i]; ++at) {
      const KernelRange taps = inside(at * w.stride[i] - w.pad_begin[i], w.kernel[i], w.dilation[i], w.in[i]);
      if (taps.end <= taps.begin) return true;
    }
  }
  return false;
}

// One window that is the image: its pixels are shared between the threads of a block.
bool is_global(const PoolShape& s) {
  const KernelWindow& w = s.window;
  const KernelWindow::Dims none{0, 0, 0}, ones{1, 1, 1};
  return w.out_size() == 1 && w.kernel == w.in && w.pad_begin == none && w.pad_end == none && w.dilation == ones &&
         s.batch <= 65535;
}

template <bool kAverage>
Acceptance accepts_pool(const Problem& p) {
  if (Acceptance takes = takes_image(p); !takes) return takes;
  if (p.outputs.size() > 1 && p.outputs[1].dtype != DType::none) return "indices are wanted";
  const PoolShape s = pool_shape(p.attrs(), p.inputs[0].shape);
  if (Acceptance takes = takes_window(s.window); !takes) return takes;
  if (kAverage && misses_image(s.window)) return "a window lies in the padding";
  return true;
}

template <bool kAverage>
std::unique_ptr<KernelState> prepare_pool_of(const Problem& p) {
  const PoolShape s = pool_shape(p.attrs(), p.inputs[0].shape);
  return prepared(p, arguments_of(p, s, kAverage), is_global(s));
}

// --- of bytes: MaxPool and QAveragePool
struct BytePool : KernelState {
  const GpuFunction* function = nullptr;
  BytePoolArguments arguments{};
};

Acceptance accepts_bytes(const Problem& p) {
  if (!contains(TypeList<uint8_t, int8_t>{}, p.inputs[0].dtype))
    return fmt::format("{} input", name(p.inputs[0].dtype));
  if (p.outputs.size() > 1 && p.outputs[1].dtype != DType::none) return "indices are wanted";
  const PoolShape s = pool_shape(p.attrs(), p.inputs[0].shape);
  if (s.window.kernel_size() > 1 << 20) return "sums may overflow";
  if (misses_image(s.window)) return "a window lies in the padding";
  if (Acceptance takes = takes_window(s.window); !takes) return takes;
  if (Acceptance takes = takes_elements(p.inputs[0].shape); !takes) return takes;
  return takes_elements(p.outputs[0].shape);
}

template <bool kAverage>
std::unique_ptr<KernelState> prepare_bytes(const Problem& p) {
  auto state = std::make_unique<BytePool>();
  state->function = &kernel_on(*p.gpu, "byte_pool");
  state->arguments = {.window = arguments_of(p, pool_shape(p.attrs(), p.inputs[0].shape), kAverage),
                      .x_signed = p.inputs[0].dtype == DType::i8,
                      .y_signed = p.outputs[0].dtype == DType::i8,
                      .x_zero = kAverage ? static_cast<int>(p.attrs().integer("x_zero", 0)) : 0,
                      .y_zero = kAverage ? static_cast<float>(p.attrs().integer("y_zero", 0)) : 0.0f,
                      .scale = kAverage ? p.attrs().real("scale", 1) : 1.0f};
  return state;
}

void run_bytes(const Call& c) {
  const auto& state = c.as<BytePool>();
  BytePoolArguments arguments = state.arguments;
  arguments.window.x = c.inputs[0].data;
  arguments.window.y = c.outputs[0].data;
  c.stream->launch(*state.function, byte_pool_launch(arguments.window), arguments);
}

template <bool kAverage>
constexpr Kernel kWindows = {
    .name = "windows", .accepts = accepts_pool<kAverage>, .prepare = prepare_pool_of<kAverage>, .run = run};
template <bool kAverage>
constexpr Kernel kBytes = {
    .name = "bytes", .accepts = accepts_bytes, .prepare = prepare_bytes<kAverage>, .run = run_bytes};
constexpr std::array kMaxPool = {kWindows<false>, kBytes<false>};
constexpr std::array kAveragePool = {kWindows<true>};
constexpr std::array kQAveragePool = {kBytes<true>};

// --- over all pixels, of images with channels first and any number of dimensions
template <bool kAverage>
std::unique_ptr<KernelState> prepare_global(const Problem& p) {
  const Shape& shape = p.inputs[0].shape;
  PoolArguments arguments{};
  arguments.channels_first = true;
  arguments.average = kAverage;
  arguments.batch = 1;
  arguments.channels = static_cast<int>(shape.elements(0, 2));
  arguments.width = static_cast<int>(shape.elements(2, shape.rank()));
  return prepared(p, arguments, true);
}

template <bool kAverage>
constexpr std::array kGlobal = {
    Kernel{.name = "planes", .accepts = takes_image, .prepare = prepare_global<kAverage>, .run = run}};

}  // namespace

std::span<const Kernel> max_pool_candidates() { return kMaxPool; }
std::span<const Kernel> average_pool_candidates() { return kAveragePool; }
std::span<const Kernel> q_average_pool_candidates() { return kQAveragePool; }
std::span<const Kernel> global_max_pool_candidates() { return kGlobal<false>; }
std::span<const Kernel> global_average_pool_candidates() { return kGlobal<true>; }

}  // namespace sparkpilot::cuda
