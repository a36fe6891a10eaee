#include "ops/cuda/adamw_candidates.h"

#include <limits>

#include "ops/cuda/adamw.h"
#include "ops/cuda/candidates.h"

namespace sparkpilot::cuda {
namespace {

constexpr size_t kTensors = 3;  // inputs before the tensors: rate, count, scale

struct State : KernelState {
  const GpuFunction* function = nullptr;
  std::vector<AdamWArguments> launches;
  std::vector<long long> blocks;        // of each
  std::vector<std::vector<size_t>> of;  // of each, its parameters' places
};

Acceptance accepts(const Problem& p) {
  int64_t elements = 0;
  for (size_t i = kTensors; i < p.inputs.size(); ++i) {
    if (p.inputs[i].dtype != DType::f32) return fmt::format("{} tensors", name(p.inputs[i].dtype));
    elements += p.inputs[i].shape.elements();
  }
  if (elements / 4 > std::numeric_limits<int>::max()) return "2^31 elements or more";
  return true;
}

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<State>();
  state->function = &kernel_on(*p.gpu, "adamw_f32");
  const auto real = [&](const char* key, float without) { return p.attrs().real(key, without); };
  const size_t count = (p.inputs.size() - kTensors) / 4;
  for (size_t i = 0; i < count; ++i) {
    const int64_t elements = p.inputs[kTensors + i].shape.elements();
    if (elements == 0) continue;
    if (state->of.empty() || state->of.back().size() == AdamWArguments::kMostTensors) {
      state->of.emplace_back();
      state->launches.push_back({.rate = nullptr,
                                 .scale = nullptr,
                                 .count = nullptr,
                                 .beta1 = real("beta1", 0.9f),
                                 .beta2 = real("beta2", 0.999f),
                                 .epsilon = real("epsilon", 1e-8f),
                                 .weight_decay = real("weight_decay", 0.01f),
                                 .tensors = 0,
                                 .all = {}});
    }
    AdamWArguments& launch = state->launches.back();
    launch.all[launch.tensors++].elements = static_cast<int>(elements);
    state->of.back().push_back(i);
  }
  for (AdamWArguments& launch : state->launches) state->blocks.push_back(set_adamw_blocks(launch));
  return state;
}

void run(const Call& c) {
  const auto& state = c.as<State>();
  const size_t count = (c.inputs.size() - kTensors) / 4;
  for (size_t l = 0; l < state.launches.size(); ++l) {
    AdamWArguments launch = state.launches[l];
    launch.rate = c.inputs[0].as<float>();
    launch.count = reinterpret_cast<const long long*>(c.inputs[1].as<int64_t>());
    launch.scale = c.inputs[2].as<float>();
    for (size_t i = 0; i < state.of[l].size(); ++i) {
      const size_t at = state.of[l][i];
      const auto in = [&](size_t group) { return c.inputs[kTensors + group * count + at].as<float>(); };
      const auto out = [&](size_t group) { return c.outputs[group * count + at].as<float>(); };
      AdamWTensor& tensor = launch.all[i];
      tensor.x = in(0), tensor.gradient = in(1), tensor.m = in(2), tensor.v = in(3);
      tensor.next_x = out(0), tensor.next_m = out(1), tensor.next_v = out(2);
    }
    c.stream->launch(*state.function, adamw_launch(state.blocks[l]), launch);
  }
}

}  // namespace

constinit const Kernel kAdamW[1] = {{.name = "tensors", .accepts = accepts, .prepare = prepare, .run = run}};

}  // namespace sparkpilot::cuda
