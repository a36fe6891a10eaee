#include "ops/cuda/gemm_group_candidate.h"

#include <algorithm>

#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/gemv.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/plans.h"
#include "ops/cuda/product_weights.h"
#include "ops/matrix/gemm_group.h"

namespace sparkpilot::cuda {
namespace {

struct State : KernelState {
  const GpuFunction* function = nullptr;
  std::vector<std::shared_ptr<Buffer>> memory;  // weights and biases
  std::vector<sparkpilot::Epilogue> epilogues;
  GemvGroupArguments arguments{};
};

// Warps a row of all products: as many as the model says, half or twice as many.
struct GroupPlan {
  int share, least, most;
  std::string variant() const {
    return (least < most ? std::to_string(least) + " to " : "") + WarpPlan{most}.variant();
  }
};

std::vector<GroupPlan> plans(const GemvGroupArguments& arguments, int multiprocessors) {
  std::vector<GroupPlan> out;
  for (const int share : {0, 1, -1}) {
    GemvGroupArguments planned = arguments;
    gemv_group_prepare(planned, multiprocessors, share);
    const auto [least, most] =
        std::minmax_element(planned.products, planned.products + planned.count,
                            [](const auto& x, const auto& y) { return x.warps_per_row < y.warps_per_row; });
    const GroupPlan plan{share, least->warps_per_row, most->warps_per_row};
    // No change of any product leaves both as they are.
    if (share == 0 || plan.least != out[0].least || plan.most != out[0].most) out.push_back(plan);
  }
  return out;
}

}  // namespace

Acceptance gemm_group_accepts(const Problem& p) {
  constexpr int64_t kMostSize = int64_t{1} << 30;
  const GemmGroup group = GemmGroup::of(p.attrs());
  const DType a = p.inputs[0].dtype, b = p.inputs[1].dtype;
  if (!storage_suffix(a)) return fmt::format("{} activations", name(a));
  if (!storage_suffix(b)) return fmt::format("{} weights", name(b));
  for (size_t i = 0; i < group.products.size(); ++i) {
    const GemmArgs args = group.args(p, i);
    if (!p.is_constant(GemmGroup::b(i))) return "weights are not constant";
    if (p.inputs[GemmGroup::a(i)].dtype != a || p.inputs[GemmGroup::b(i)].dtype != b)
      return "products of several types";
    if (args.c >= 0 && !p.is_constant(static_cast<size_t>(args.c))) return "bias is not constant";
    if (args.shape.empty()) return "empty";
    if (args.shape.m * args.shape.batch != 1) return "several rows";
    if (std::max(args.shape.n, args.shape.k) >= kMostSize) return "more than 2^30 rows or columns";
    if (args.epilogue.steps().size() > kMostGroupedSteps) return "too many steps in an epilogue";
  }
  return true;
}

std::unique_ptr<KernelState> gemm_group_prepare(const Problem& p) {
  const GemmGroup group = GemmGroup::of(p.attrs());
  const DType a = p.inputs[0].dtype, b = p.inputs[1].dtype;
  auto state = std::make_unique<State>();
  state->arguments.count = static_cast<int>(group.products.size());
  for (size_t i = 0; i < group.products.size(); ++i) {
    const GemmArgs args = group.args(p, i);
    const PackedWeights weights = pack_weights(*p.gpu, p.constants[GemmGroup::b(i)], args, b);
    GemvGroupArguments::Product& product = state->arguments.products[i];
    product.weights = weights.memory->data();
    product.weight_stride = weights.stride;
    product.n = static_cast<int>(args.shape.n);
    product.k = static_cast<int>(args.shape.k);
    state->memory.push_back(weights.memory);
    state->consumed |= uint64_t{1} << GemmGroup::b(i);
    state->epilogues.push_back(args.epilogue);
    if (args.c < 0) continue;
    const Tensor bias = pack_c(p, args, state->consumed);
    state->memory.push_back(p.gpu->upload(bias.raw(), bias.bytes()));
    product.bias = reinterpret_cast<const float*>(state->memory.back()->data());
  }
  gemm_group_take_variant(p, {}, *state);
  const std::string mixed = a == b ? "" : "_weights_" + std::string(*storage_suffix(b));
  state->function = &kernel_on(*p.gpu, "gemv_group_" + std::string(*storage_suffix(a)) + mixed);
  return state;
}

std::vector<std::string> gemm_group_variants(const Problem& p) {
  const GemmGroup group = GemmGroup::of(p.attrs());
  GemvGroupArguments arguments{};
  arguments.count = static_cast<int>(group.products.size());
  for (size_t i = 0; i < group.products.size(); ++i) {
    const GemmArgs args = group.args(p, i);
    arguments.products[i].n = static_cast<int>(args.shape.n);
    arguments.products[i].k = static_cast<int>(args.shape.k);
  }
  return variants_of(plans(arguments, p.gpu->facts().multiprocessors));
}

void gemm_group_take_variant(const Problem& p, std::string_view variant, KernelState& prepared) {
  GemvGroupArguments& arguments = static_cast<State&>(prepared).arguments;
  const int multiprocessors = p.gpu->facts().multiprocessors;
  gemv_group_prepare(arguments, multiprocessors, plan_of(plans(arguments, multiprocessors), variant).share);
}

void gemm_group_run(const Call& call) {
  const auto& state = call.as<State>();
  GemvGroupArguments arguments = state.arguments;
  for (size_t i = 0; i < state.epilogues.size(); ++i) {
    GemvGroupArguments::Product& product = arguments.products[i];
    product.a = call.inputs[GemmGroup::a(i)].data;
    product.y = call.outputs[i].data;
    const Epilogue epilogue = bound_epilogue(state.epilogues[i], call, product.n);
    product.epilogue.count = epilogue.count;
    std::copy_n(epilogue.steps, epilogue.count, product.epilogue.steps);
  }
  call.stream->launch(*state.function, gemv_group_launch(arguments), arguments);
}

}  // namespace sparkpilot::cuda
