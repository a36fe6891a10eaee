// The `epilogue` attribute of sparkpilot::Conv and sparkpilot::Gemm (grammar: ir/op.h), parsed for execution.
//
// Kernels parse it once in `prepare`, bind the operands once per run, and apply it to each tile of float results while
// the tile is in cache. A tile is a few lines of the output: pixels of channels (apply_rows: channels innermost) or
// channels of pixels (apply_planes: channels outermost). Only parse() allocates. apply_rows and apply_planes are
// thread-safe.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "ir/op.h"
#include "ops/cpu/vector/vector_math.h"

namespace sparkpilot {

class Epilogue {
 public:
  static constexpr int kMaxSteps = 8;

  struct Step {
    enum Kind : uint8_t { activation, add, mul } kind = activation;
    Activation function = Activation::relu;
    float alpha = 0, beta = 0;
    int input = -1;  // add, mul: index of the node's input
    DType dtype = DType::f32;
    enum Operand : uint8_t { none, scalar, channel, full } operand = none;
  };

  // The memory of the operands in one run, by step.
  using Operands = std::array<const void*, kMaxSteps>;

  Epilogue() = default;
  // Fails (user) on an unknown step, or an operand that is absent, not f32, f16 or bf16, or of a shape that the grammar
  // does not allow. A [C] operand whose shape is also the output's counts as one element per channel.
  static Epilogue parse(std::span<const std::string> steps, std::span<const TensorType> inputs, const Shape& output,
                        int64_t channels);
  // Parses the node's attribute; without one the epilogue is empty.
  static Epilogue of(const Problem& problem, int64_t channels);

  bool empty() const { return count_ == 0; }
  std::span<const Step> steps() const { return {steps_.data(), static_cast<size_t>(count_)}; }
  // The epilogue without its first or last step, which must exist.
  Epilogue without_first() const;
  Epilogue without_last() const;
  Operands bind(const Call& call) const;

  struct Tile {
    float* data = nullptr;
    int64_t lines = 0, length = 0;  // data[line * stride + i], i < length
    int64_t stride = 0;
    int64_t channel = 0;        // apply_rows: channel of i = 0; apply_planes: channel of line 0
    int64_t offset = 0;         // of data[0] in the whole output, in elements
    int64_t output_stride = 0;  // between the tile's lines in the whole output
  };
  void apply_rows(const Operands& operands, const Tile& tile) const;
  void apply_planes(const Operands& operands, const Tile& tile) const;

 private:
  std::array<Step, kMaxSteps> steps_{};
  int count_ = 0;
};

}  // namespace sparkpilot
