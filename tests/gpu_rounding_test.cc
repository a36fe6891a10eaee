// What 16 bits cost whole networks on the emulated GPU, held to what rounding alone costs.
//
// The exact result is the graph in fp32 by the plain kernels, which add in double. The rounding model is the graph that
// the GPU gets, by the same kernels: each tensor that it stores is rounded to 16 bits once, and nothing else. A kernel
// that rounds where nothing is stored, or adds in less than fp32, shows as an error beyond the model's.
#include <cstdio>

#include "gpu_main.h"
#include "ir/interpret.h"
#include "networks.h"
#include "ops/cuda/images.h"
#include "passes/pass.h"
#include "tensor/difference.h"

namespace sparkpilot::testing {
namespace gpu_rounding_test {

// The relative L2 that a network may have at most, about twice what was found; and how many inputs count together. One
// does where errors of the model and of the GPU differ little. tiny_supercombo enlarges rounding errors by ten for some
// inputs, in the model about as often as on the GPU.
struct Bound {
  const char* network;
  double half, brain;
  int inputs = 1;
};
constexpr Bound kBounds[] = {
    {"tiny_driving_vision", 1e-3, 2e-2},
    {"tiny_driving_policy", 2e-3, 1.5e-2},
    {"tiny_driving_supercombo", 2e-3, 2e-2},
    {"tiny_dmonitoring_model", 1e-3, 2e-2},
    {"tiny_big_driving_supercombo", 2e-3, 5e-2, 8},
    {"tiny_supercombo", 5e-3, 6e-2, 8},
    {"tiny_driving_vision_v0.10.0", 1e-3, 2e-2},
    {"tiny_driving_policy_v0.10.0", 5e-3, 6e-2, 8},
    {"openpilot_dm/dmonitoring_model_2021-06.onnx", 2e-3, 2.5e-2},
    {"controls_challenge/tinyphysics.onnx", 5e-3, 3e-2},
};

std::vector<std::string> bounded_networks() {
  std::vector<std::string> names;
  for (const Bound& bound : kBounds) names.emplace_back(bound.network);
  return names;
}

class GpuRounding : public NetworkTest {
 protected:
  void SetUp() override {
    emulate_plainly();
    NetworkTest::SetUp();
  }

  static PassOptions passes(Precision precision) {
    PassOptions out;
    out.precision = precision;
    return out;
  }

  std::unique_ptr<Session> on_gpu(Precision precision, int seed) const {
    SessionOptions options{.device = "cuda", .threads = 1, .tune = Tune::off};
    options.passes.precision = precision;
    auto out = std::make_unique<Session>(network_.load(), options);
    fill_inputs(*out, static_cast<uint64_t>(seed));
    return out;
  }

  // Two runs of the graph that a GPU gets, on the inputs of `session`, by the plain kernels.
  std::vector<Tensor> plainly(Session& session, Precision precision) const {
    Graph graph = network_.load();
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) {
      const ConstView view = session.input(graph.value(id).name);
      inputs.emplace_back(view.dtype, view.shape);
      std::memcpy(inputs.back().raw(), view.data, static_cast<size_t>(view.bytes()));
      graph.value(id).shape = view.shape;
    }
    graph = optimised(std::move(graph), passes(precision), {.device = Device::cuda});
    std::vector<Tensor> states, out;
    for (const State& state : graph.states()) states.push_back(graph.value(state.value).constant);
    for (int run = 0; run < 2; ++run) {
      if (run == 0 || !states.empty()) out = interpret(graph, inputs, &states, "reference");
    }
    return out;
  }
};

// Adds all outputs: the norm of the differences as a share of the norm of what is expected.
void add(DifferenceSum& sum, std::span<const Tensor> got, std::span<const Tensor> expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) sum.add(got[i].view(), expected[i].view());
}

TEST_P(GpuRounding, IsAtMostTwiceThatOfWhatIsStored) {
  NEEDS_IMAGES();
  const Bound* bound = kBounds;
  while (bound->network != GetParam()) ++bound;
  DifferenceSum errors[2], models[2];
  const Precision precisions[] = {Precision::fp16, Precision::bf16};
  for (int seed = 1; seed <= bound->inputs; ++seed) {
    std::vector<Tensor> exact;
    for (size_t i = 0; i < 2; ++i) {
      const auto gpu = on_gpu(precisions[i], seed);
      if (exact.empty()) exact = plainly(*gpu, Precision::fp32);
      add(models[i], plainly(*gpu, precisions[i]), exact);
      for (int run = 0; run < (gpu->states().empty() ? 1 : 2); ++run) gpu->run();
      add(errors[i], results(*gpu), exact);
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    const double error = errors[i].result().relative_l2, model = models[i].result().relative_l2;
    const double most = i == 0 ? bound->half : bound->brain;
    const std::string type(name(precisions[i]));
    std::printf("%s %s: error %.2e, of the rounding model %.2e, bound %.1e\n", bound->network, type.c_str(), error,
                model, most);
    EXPECT_GT(model, 1e-6) << type << ": nothing was stored in 16 bits";
    EXPECT_LE(error, 2 * model) << type;
    EXPECT_LE(error, most) << type;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuRounding, ::testing::ValuesIn(bounded_networks()), test_name);

}  // namespace gpu_rounding_test
}  // namespace sparkpilot::testing
