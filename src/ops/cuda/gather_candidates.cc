#include "ops/cuda/gather_candidates.h"

#include <algorithm>
#include <bit>

#include "ops/cpu/move/resize_tables.h"
#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/gather.h"

namespace sparkpilot::cuda {
namespace {

bool both_aligned(const Call& call) {
  return is_aligned(call.inputs[0].data, 16) && is_aligned(call.outputs[0].data, 16);
}

Acceptance takes_picked(const Problem& p) {
  if (!copied_bytes(p.inputs[0].dtype)) return fmt::format("packed {}", name(p.inputs[0].dtype));
  for (const TensorType& type : {p.inputs[0], p.inputs[1], p.outputs[0]}) {
    if (const Acceptance takes = takes_elements(type.shape); !takes) return takes;
  }
  if (!p.is_constant(1)) return true;
  const Shape& x = p.inputs[0].shape;
  const int64_t size = x[normalize_axis(p.attrs().integer("axis", 0), x.rank())];
  return takes_indices(p.constants[1], {&size, 1});
}

// ---------------------------------------------------------------- Gather
struct GatherState : KernelState {
  const GpuFunction* function = nullptr;
  GatherArguments wide{}, narrow{};  // narrow: where memory does not begin at a multiple of 16
};

std::unique_ptr<KernelState> prepare_gather(const Problem& p) {
  const Shape& x = p.inputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis", 0), x.rank()), bytes = *copied_bytes(p.inputs[0].dtype);
  const auto arguments = [&](int64_t at) {
    void* const address = address_of_nothing(at);
    return make_gather(address, nullptr, p.inputs[1].dtype == DType::i64, address, bytes, x.elements(0, axis), x[axis],
                       x.elements(axis + 1, x.rank()), p.inputs[1].shape.elements());
  };
  auto state = std::make_unique<GatherState>();
  state->wide = arguments(0);
  state->narrow = arguments(bytes);
  state->function = &kernel_on(*p.gpu, "gather");
  return state;
}

void run_gather(const Call& call) {
  const auto& state = call.as<GatherState>();
  GatherArguments arguments = both_aligned(call) ? state.wide : state.narrow;
  arguments.x = call.inputs[0].data;
  arguments.indices = call.inputs[1].data;
  arguments.y = call.outputs[0].data;
  call.stream->launch(*state.function, gather_launch(arguments), arguments);
}

// ---------------------------------------------------------------- GatherElements
struct GatherElementsState : KernelState {
  const GpuFunction* function = nullptr;
  GatherElementsArguments arguments{};
};

Acceptance accepts_gather_elements(const Problem& p) {
  if (const Acceptance takes = takes_picked(p); !takes) return takes;
  if (p.inputs[0].shape.rank() > kMostDimensions) return "too many dimensions";
  return true;
}

std::unique_ptr<KernelState> prepare_gather_elements(const Problem& p) {
  const Shape& x = p.inputs[0].shape;
  auto state = std::make_unique<GatherElementsState>();
  state->arguments = make_gather_elements(nullptr, nullptr, p.inputs[1].dtype == DType::i64, nullptr,
                                          *copied_bytes(p.inputs[0].dtype), sizes_of(x), sizes_of(p.outputs[0].shape),
                                          normalize_axis(p.attrs().integer("axis", 0), x.rank()));
  state->function = &kernel_on(*p.gpu, "gather_elements");
  return state;
}

void run_gather_elements(const Call& call) {
  const auto& state = call.as<GatherElementsState>();
  GatherElementsArguments arguments = state.arguments;
  arguments.x = call.inputs[0].data;
  arguments.indices = call.inputs[1].data;
  arguments.y = call.outputs[0].data;
  call.stream->launch(*state.function, gather_elements_launch(arguments), arguments);
}

// ---------------------------------------------------------------- Resize
struct ResizeState : KernelState {
  const GpuFunction* function = nullptr;
  ResizeArguments wide{}, narrow{};
  std::shared_ptr<Buffer> tables;
};

std::vector<ResizeAxis> axes_of(const Problem& p) {
  std::vector<ResizeAxis> axes;
  const ResizeMode mode(p.attrs());
  for (const ResizeExtent& extent : resize_extents(p.inputs[0].shape, p.attrs(), resize_operands(p))) {
    axes.push_back(resize_axis(extent, mode));
  }
  return axes;
}

// The axes that are resized as rows and columns; where there is one, it is the columns.
struct ResizedAxes {
  int rows = -1, columns = -1;
};
ResizedAxes resized(const std::vector<ResizeAxis>& axes) {
  ResizedAxes out;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].identity) continue;
    out.rows = out.columns;
    out.columns = static_cast<int>(i);
  }
  return out;
}

Acceptance accepts_resize(const Problem& p) {
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  for (const TensorType& type : {p.inputs[0], p.outputs[0]}) {
    if (const Acceptance takes = takes_elements(type.shape); !takes) return takes;
  }
  if (!resize_operands_constant(p)) return "sizes are not constant";
  int count = 0;
  const std::vector<ResizeAxis> axes = axes_of(p);
  for (const ResizeAxis& axis : axes) {
    count += !axis.identity;
    if (!axis.replaced.empty()) return "values outside are replaced";
  }
  if (count > 2) return "more than two axes";
  const ResizedAxes at = resized(axes);
  if (at.rows >= 0 && at.columns != at.rows + 1) return "axes apart";
  return true;
}

// Index and weights as 4-byte words one after the other.
int64_t add_table(std::vector<uint32_t>& words, const ResizeAxis& axis) {
  const auto begin = static_cast<int64_t>(words.size());
  for (const int32_t index : axis.index) words.push_back(static_cast<uint32_t>(index));
  for (const double weight : axis.weight) words.push_back(std::bit_cast<uint32_t>(static_cast<float>(weight)));
  return begin;
}
ResizeTable table_at(const Buffer& memory, int64_t begin, const ResizeAxis& axis) {
  const std::byte* const index = memory.data() + begin * 4;
  const std::byte* const weight = index + axis.index.size() * 4;
  return {.index = reinterpret_cast<const int*>(index),
          .weight = axis.weight.empty() ? nullptr : reinterpret_cast<const float*>(weight),
          .taps = static_cast<int>(axis.taps)};
}

std::unique_ptr<KernelState> prepare_resize(const Problem& p) {
  const Shape& x = p.inputs[0].shape;
  const std::vector<ResizeAxis> axes = axes_of(p);
  ResizedAxes at = resized(axes);
  if (at.columns < 0) at.columns = x.rank() - 1;
  ResizeAxis same{.in = 1, .out = 1, .identity = true};
  ResizeAxis tables[2] = {at.rows < 0 ? same : axes[static_cast<size_t>(at.rows)],
                          at.columns < 0 ? same : axes[static_cast<size_t>(at.columns)]};
  auto state = std::make_unique<ResizeState>();
  std::vector<uint32_t> words;
  int64_t begins[2];
  for (const size_t i : {0, 1}) {
    ResizeAxis& axis = tables[i];
    if (axis.identity) {
      axis.taps = 1;
      for (int64_t k = 0; k < axis.out; ++k) axis.index.push_back(static_cast<int32_t>(k));
    }
    begins[i] = add_table(words, axis);
  }
  state->tables = p.gpu->upload(words.data(), static_cast<int64_t>(words.size() * sizeof(uint32_t)));
  const int first = at.rows < 0 ? at.columns : at.rows;
  const auto arguments = [&](int64_t at_bytes) {
    void* const address = address_of_nothing(at_bytes);
    return make_resize(address, address, x.elements(0, std::max(first, 0)), tables[0].in, tables[1].in,
                       x.elements(at.columns + 1, x.rank()), tables[0].out, tables[1].out,
                       table_at(*state->tables, begins[0], tables[0]), table_at(*state->tables, begins[1], tables[1]));
  };
  state->wide = arguments(0);
  state->narrow = arguments(2);
  for (size_t i = 1; i < p.inputs.size(); ++i) {
    if (p.is_constant(i)) state->consumed |= uint64_t{1} << i;
  }
  state->function = &kernel_on(*p.gpu, fmt::format("resize_{}", *storage_suffix(p.inputs[0].dtype)));
  return state;
}

void run_resize(const Call& call) {
  const auto& state = call.as<ResizeState>();
  ResizeArguments arguments = both_aligned(call) ? state.wide : state.narrow;
  arguments.x = call.inputs[0].data;
  arguments.y = call.outputs[0].data;
  call.stream->launch(*state.function, resize_launch(arguments), arguments);
}

}  // namespace

constinit const Kernel kGather[1] = {
    {.name = "rows", .accepts = takes_picked, .prepare = prepare_gather, .run = run_gather}};
constinit const Kernel kGatherElements[1] = {{.name = "elements",
                                              .accepts = accepts_gather_elements,
                                              .prepare = prepare_gather_elements,
                                              .run = run_gather_elements}};
constinit const Kernel kResize[1] = {
    {.name = "tables", .accepts = accepts_resize, .prepare = prepare_resize, .run = run_resize}};

}  // namespace sparkpilot::cuda
