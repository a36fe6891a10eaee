#include "ops/cuda/scatter_candidates.h"

#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/scatter.h"

namespace sparkpilot::cuda {
namespace {

// Each warp goes through all tuples: so many at most, and so many indices that all warps read together.
constexpr int64_t kMostTuples = int64_t{1} << 18, kMostReads = int64_t{1} << 34;

struct ScatterState : KernelState {
  const GpuFunction* function = nullptr;
  ScatterArguments arguments{};
};

ScatterArguments arguments_of(const Problem& p) {
  const Shape &x = p.inputs[0].shape, &indices = p.inputs[1].shape;
  const int tuples = indices.rank() - 1, depth = static_cast<int>(indices[tuples]);
  return make_scatter(nullptr, nullptr, p.inputs[1].dtype == DType::i64, nullptr, nullptr,
                      x.dims().first(static_cast<size_t>(depth)), indices.elements(0, tuples),
                      x.elements(depth, x.rank()), p.attrs().text("reduction", "none") == "add");
}

Acceptance accepts_scatter(const Problem& p) {
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} data", name(p.inputs[0].dtype));
  const std::string reduction = p.attrs().text("reduction", "none");
  if (reduction != "none" && reduction != "add") return fmt::format("reduction {}", reduction);
  for (const TensorType& type : p.inputs) {
    if (const Acceptance takes = takes_elements(type.shape); !takes) return takes;
  }
  const Shape& indices = p.inputs[1].shape;
  if (indices[indices.rank() - 1] > kMostScatterDepth) return fmt::format("tuples of more than {}", kMostScatterDepth);
  if (indices.elements(0, indices.rank() - 1) > kMostTuples) return fmt::format("more than {} tuples", kMostTuples);
  if (scatter_reads(arguments_of(p)) > kMostReads) return "too many rows and indices";
  if (!p.is_constant(1)) return true;
  return takes_indices(p.constants[1],
                       p.inputs[0].shape.dims().first(static_cast<size_t>(indices[indices.rank() - 1])));
}

std::unique_ptr<KernelState> prepare_scatter(const Problem& p) {
  auto state = std::make_unique<ScatterState>();
  state->arguments = arguments_of(p);
  state->function = &kernel_on(*p.gpu, fmt::format("scatter_{}", *storage_suffix(p.inputs[0].dtype)));
  return state;
}

void run_scatter(const Call& call) {
  const auto& state = call.as<ScatterState>();
  ScatterArguments arguments = state.arguments;
  arguments.x = call.inputs[0].data;
  arguments.indices = call.inputs[1].data;
  arguments.updates = call.inputs[2].data;
  arguments.y = call.outputs[0].data;
  call.stream->launch(*state.function, scatter_launch(arguments), arguments);
}

}  // namespace

constinit const Kernel kScatter[1] = {
    {.name = "rows", .accepts = accepts_scatter, .prepare = prepare_scatter, .run = run_scatter}};

}  // namespace sparkpilot::cuda
