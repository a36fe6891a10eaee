#include "ops/cuda/reduce_candidates.h"

#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/copy.h"

namespace sparkpilot::cuda {
namespace {

struct ReduceState : KernelState {
  const GpuFunction *function = nullptr, *parts = nullptr, *copy = nullptr;
  ReduceArguments arguments{};
  // Where the axes do not lie together, they are brought to the end in the workspace first.
  CopyArguments to_rows{}, elements_to_rows{};  // the second where x does not begin at a multiple of 16
  int64_t partials = 0;                         // where they begin in the workspace
};

struct ArgReduceState : OneLaunch {
  ArgReduceArguments arguments{};
};

// The axes that stay, then those that are reduced, as loops of a copy.
StridedLoops loops_to_rows(const Shape& shape, uint32_t axes) {
  const std::vector<int64_t> from = contiguous_strides(sizes_of(shape));
  StridedLoops loops{.sizes = {}, .strides = {{}, {}}};
  for (const uint32_t reduced : {0u, 1u}) {
    for (int i = 0; i < shape.rank(); ++i) {
      if ((axes >> i & 1) != reduced) continue;
      loops.sizes.push_back(shape[i]);
      loops.strides[0].push_back(from[static_cast<size_t>(i)]);
    }
  }
  loops.strides[1] = contiguous_strides(loops.sizes);
  return loops;
}

ReduceShape rows_of(const Shape& shape, uint32_t axes) {
  ReduceShape out;
  for (int i = 0; i < shape.rank(); ++i) (axes >> i & 1 ? out.size : out.outer) *= shape[i];
  return out;
}

}  // namespace

Acceptance reduce_accepts(const Problem& p, std::optional<uint32_t> axes) {
  const Shape& shape = p.inputs[0].shape;
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (const Acceptance takes = takes_elements(shape); !takes) return takes;
  if (!axes) return "axes are not constant";
  if (reduce_shape(sizes_of(shape), *axes)) return true;
  if (loops_to_rows(shape, *axes).merged().sizes.size() > kMostDimensions) return "too many dimensions";
  return true;
}

std::unique_ptr<KernelState> reduce_prepare(const Problem& p, uint32_t axes, ReduceKind kind) {
  const TensorType& x = p.inputs[0];
  auto state = std::make_unique<ReduceState>();
  std::optional<ReduceShape> shape = reduce_shape(sizes_of(x.shape), axes);
  if (!shape) {
    const StridedLoops loops = loops_to_rows(x.shape, axes);
    const int bytes = *copied_bytes(x.dtype);
    const auto to_rows = [&](int64_t address) {
      return make_copies({*make_copy(reinterpret_cast<const void*>(address), nullptr, bytes, loops.sizes,
                                     loops.strides[0], loops.strides[1])});
    };
    state->to_rows = to_rows(0);
    state->elements_to_rows = to_rows(bytes);
    state->copy = &kernel_on(*p.gpu, "copy_strided");
    shape = rows_of(x.shape, axes);
    state->partials = workspace_part(x.shape.elements() * bytes);
  }
  ReduceArguments& arguments = state->arguments;
  arguments.outer = static_cast<int>(shape->outer);
  arguments.inner = static_cast<int>(shape->inner);
  arguments.size = static_cast<int>(shape->size);
  arguments.kind = kind;
  set_reduce_parts(arguments, p.gpu->facts().multiprocessors);
  state->workspace = state->partials + static_cast<int64_t>(reduce_partial_bytes(arguments));
  if (p.is_constant(1)) state->consumed = 2;
  const std::string_view suffix = *storage_suffix(x.dtype);
  state->function = &kernel_on(*p.gpu, fmt::format("reduce_{}_{}", arguments.inner == 1 ? "rows" : "columns", suffix));
  if (arguments.parts > 1) state->parts = &kernel_on(*p.gpu, fmt::format("reduce_parts_{}", suffix));
  return state;
}

void reduce_run(const Call& call) {
  const auto& state = call.as<ReduceState>();
  ReduceArguments arguments = state.arguments;
  arguments.x = call.inputs[0].data;
  arguments.y = call.outputs[0].data;
  arguments.partials = reinterpret_cast<float*>(call.workspace + state.partials);
  if (state.copy) {
    CopyArguments to_rows = is_aligned(arguments.x, 16) ? state.to_rows : state.elements_to_rows;
    to_rows.pieces[0].from = arguments.x;
    to_rows.pieces[0].to = call.workspace;
    call.stream->launch(*state.copy, copy_strided_launch(to_rows), to_rows);
    arguments.x = call.workspace;
  }
  call.stream->launch(*state.function,
                      arguments.inner == 1 ? reduce_rows_launch(arguments) : reduce_columns_launch(arguments),
                      arguments);
  if (state.parts) call.stream->launch(*state.parts, reduce_parts_launch(arguments), arguments);
}

// ---------------------------------------------------------------- ArgMax, ArgMin
namespace {

Acceptance accepts_arg(const Problem& p) {
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  return takes_elements(p.inputs[0].shape);
}

template <bool kLeast>
std::unique_ptr<KernelState> prepare_arg(const Problem& p) {
  const Shape& shape = p.inputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis", 0), shape.rank());
  auto state = std::make_unique<ArgReduceState>();
  ArgReduceArguments& arguments = state->arguments;
  arguments.outer = static_cast<int>(shape.elements(0, axis));
  arguments.size = static_cast<int>(shape[axis]);
  arguments.inner = static_cast<int>(shape.elements(axis + 1, shape.rank()));
  arguments.of_inner = make_divisor(arguments.inner);
  arguments.least = kLeast;
  arguments.last = p.attrs().integer("select_last_index", 0) != 0;
  state->how = arg_reduce_launch(arguments);
  state->function = &kernel_on(*p.gpu, fmt::format("arg_reduce_{}", *storage_suffix(p.inputs[0].dtype)));
  return state;
}

void run_arg(const Call& call) {
  const auto& state = call.as<ArgReduceState>();
  ArgReduceArguments arguments = state.arguments;
  arguments.x = call.inputs[0].data;
  arguments.y = static_cast<long long*>(call.outputs[0].data);
  call.stream->launch(*state.function, state.how, arguments);
}

}  // namespace

constinit const Kernel kArgMax[1] = {
    {.name = "warps", .accepts = accepts_arg, .prepare = prepare_arg<false>, .run = run_arg}};
constinit const Kernel kArgMin[1] = {
    {.name = "warps", .accepts = accepts_arg, .prepare = prepare_arg<true>, .run = run_arg}};

}  // namespace sparkpilot::cuda
