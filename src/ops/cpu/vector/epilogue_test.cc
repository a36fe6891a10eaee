#include "ops/cpu/vector/epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace sparkpilot {
namespace {

// [pixels, channels] or [channels, pixels] results through an epilogue with every kind of operand, tile by tile.
struct Fixture {
  static constexpr int64_t kPixels = 11, kChannels = 21;
  std::vector<float> values, channel, full;
  std::vector<Half> half;
  float scalar = 1.25f;

  explicit Fixture(uint64_t seed) {
    Random random(seed);
    const auto draw = [&](std::vector<float>& v, int64_t n) {
      v.resize(static_cast<size_t>(n));
      for (float& x : v) x = static_cast<float>(random.normal());
    };
    draw(values, kPixels * kChannels);
    draw(channel, kChannels);
    draw(full, kPixels * kChannels);
    for (const float x : full) half.push_back(Half(x));
  }
  float expected(int64_t index, int64_t c) const {
    const auto i = static_cast<size_t>(index);
    const float x = values[i] * channel[static_cast<size_t>(c)] + full[i];
    const float clipped = std::clamp(x * scalar, -0.5f, 2.0f);
    return clipped + static_cast<float>(half[i]);
  }
};

const std::vector<std::string> kSteps = {"mul:1", "add:2", "mul:3", "clip:-0.5:2", "add:4"};

void check(bool planes) {
  const Fixture f(9);
  const int64_t lines = planes ? f.kChannels : f.kPixels, length = planes ? f.kPixels : f.kChannels;
  const Shape output{lines, length};
  const TensorType types[] = {{DType::f32, output},
                              {DType::f32, Shape{f.kChannels}},
                              {DType::f32, output},
                              {DType::f32, Shape{1}},
                              {DType::f16, output}};
  const Epilogue epilogue = Epilogue::parse(kSteps, types, output, f.kChannels);
  const ConstView views[] = {{},
                             {DType::f32, {f.kChannels}, f.channel.data()},
                             {DType::f32, output, f.full.data()},
                             {DType::f32, {1}, &f.scalar},
                             {DType::f16, output, f.half.data()}};
  const Epilogue::Operands operands = epilogue.bind({.inputs = views});
  for (const auto& [line0, count, first, part] :
       std::vector<std::array<int64_t, 4>>{{0, lines, 0, length}, {3, 4, 0, length}, {2, 5, 3, 7}, {1, 1, 1, 1}}) {
    // A tile with a different stride, as in a kernel's buffer.
    const int64_t stride = part == length ? length : part + 5;
    std::vector<float> tile(static_cast<size_t>(count * stride), -77.0f);
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t i = 0; i < part; ++i) {
        tile[static_cast<size_t>(l * stride + i)] = f.values[static_cast<size_t>((line0 + l) * length + first + i)];
      }
    }
    const Epilogue::Tile t{.data = tile.data(),
                           .lines = count,
                           .length = part,
                           .stride = stride,
                           .channel = planes ? line0 : first,
                           .offset = line0 * length + first,
                           .output_stride = length};
    if (planes) epilogue.apply_planes(operands, t);
    else epilogue.apply_rows(operands, t);
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t i = 0; i < stride; ++i) {
        const int64_t index = (line0 + l) * length + first + i;
        const float want = i < part ? f.expected(index, planes ? line0 + l : first + i) : -77.0f;
        EXPECT_NEAR(tile[static_cast<size_t>(l * stride + i)], want, 1e-5) << l << " " << i;
      }
    }
  }
}

TEST(Epilogue, AppliesStepsInOrderToRows) { check(false); }
TEST(Epilogue, AppliesStepsInOrderToPlanes) { check(true); }

TEST(Epilogue, KnowsEveryActivationOfTheGrammar) {
  const std::vector<std::string> steps = {"relu", "gelu_tanh", "gelu_erf",   "sigmoid",
                                          "silu", "tanh",      "hard_swish", "leaky_relu:0.1"};
  EXPECT_EQ(Epilogue::parse(steps, {}, Shape{2, 3}, 3).steps().size(), 8u);
  const std::vector<std::string> silu = {"silu"};
  EXPECT_EQ(Epilogue::parse(silu, {}, Shape{2, 3}, 3).steps()[0].alpha, 1.0f);
  EXPECT_TRUE(Epilogue().empty());
}

TEST(Epilogue, RefusesWhatTheGrammarDoesNotHold) {
  const TensorType types[] = {{DType::f32, Shape{2, 3}}, {DType::i32, Shape{3}}, {DType::f32, Shape{2}}, {}};
  for (const std::string bad : {"selu", "relu:1", "clip:1", "clip:1:x", "elu:", "add", "add:9", "add:-1", "mul:1",
                                "add:2", "add:3", "", "add:0:1", "leaky_relu:1e999"}) {
    const std::vector<std::string> steps = {bad};
    EXPECT_THROW(Epilogue::parse(steps, types, Shape{2, 3}, 3), Error) << bad;
  }
  const std::vector<std::string> many(9, "relu");
  EXPECT_THROW(Epilogue::parse(many, types, Shape{2, 3}, 3), Error);
}

}  // namespace
}  // namespace sparkpilot
