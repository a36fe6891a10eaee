#include "ops/cuda/conv_weights.h"

#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda::conv_weights_test {
namespace {

const TestStorage& f32 = kStorages[0];

struct Case {
  int groups, outputs, channels, taps, together;  // outputs and channels of a group
  bool turned;                                    // of a transposed convolution, [channels, outputs, taps]

  void check() const {
    const int all = groups * outputs, depth = taps * channels;
    const int slices = (depth + together - 1) / together;
    const std::vector<double> weights = f32.random(static_cast<size_t>(all * channels * taps), 1, 1);
    std::vector<double> expected(static_cast<size_t>(slices * all * together));
    for (int o = 0; o < all; ++o) {
      for (int d = 0; d < depth; ++d) {
        const int group = o / outputs, within = o % outputs, channel = d % channels, tap = d / channels;
        const int from = turned ? ((group * channels + channel) * outputs + within) * taps + taps - 1 - tap
                                : (o * channels + channel) * taps + tap;
        expected[static_cast<size_t>((d / together * all + o) * together + d % together)] =
            weights[static_cast<size_t>(from)];
      }
    }
    TestRun run;
    auto* const to = static_cast<float*>(run.output(f32, expected.size()));
    const ConvWeightsArguments p{.from = static_cast<const float*>(run.input(f32, weights)),
                                 .to = to,
                                 .elements = static_cast<unsigned>(expected.size()),
                                 .taps = taps,
                                 .together = make_divisor(together),
                                 .outputs = make_divisor(all),
                                 .channels = make_divisor(channels),
                                 .of_group = make_divisor(outputs),
                                 .group_stride = outputs * channels * taps,
                                 .output_stride = turned ? taps : channels * taps,
                                 .channel_stride = turned ? outputs * taps : taps,
                                 .turned = turned};
    run.launch("conv_weights_f32", p, conv_weights_launch(p));
    EXPECT_EQ(run.values(), expected) << groups << " " << outputs << " " << channels << " " << taps;
  }
};

TEST(CudaConvWeights, OddSizes) {
  for (const bool turned : {false, true}) {
    for (const int together : {1, 16}) {
      Case{1, 1, 1, 1, together, turned}.check();
      Case{1, 7, 5, 9, together, turned}.check();
      Case{1, 33, 20, 4, together, turned}.check();
    }
    Case{3, 2, 5, 6, 1, turned}.check();
    Case{19, 1, 1, 25, 1, turned}.check();
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::conv_weights_test
