#include "ops/cpu/vector/epilogue.h"

#include <algorithm>
#include <charconv>

namespace sparkpilot {
namespace {

using Step = Epilogue::Step;

// "clip:0:6" as {"clip", "0", "6"}.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t colon; (colon = text.find(':')) != std::string_view::npos; text.remove_prefix(colon + 1)) {
    parts.push_back(text.substr(0, colon));
  }
  parts.push_back(text);
  return parts;
}

template <typename T>
T number(std::string_view text, std::string_view step) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail("epilogue step \"{}\" holds no number", step);
  return value;
}

Step parse_step(std::string_view text, std::span<const TensorType> inputs, const Shape& output, int64_t channels) {
  const std::vector<std::string_view> parts = split(text);
  Step step;
  if (const EpilogueActivation* known = epilogue_activation(parts[0])) {
    const auto parameters = static_cast<size_t>(known->parameters);
    if (parts.size() != parameters + 1) {
      fail("epilogue step \"{}\" has {} parameters, expected {}", text, parts.size() - 1, parameters);
    }
    step.function = known->activation;
    step.alpha = parameters > 0 ? number<float>(parts[1], text) : default_alpha(known->activation);
    step.beta = parameters > 1 ? number<float>(parts[2], text) : 0;
    return step;
  }
  if ((parts[0] != "add" && parts[0] != "mul") || parts.size() != 2) fail("epilogue step \"{}\" is not known", text);
  step.kind = parts[0] == "add" ? Step::add : Step::mul;
  step.input = number<int>(parts[1], text);
  if (step.input < 0 || static_cast<size_t>(step.input) >= inputs.size() ||
      inputs[static_cast<size_t>(step.input)].dtype == DType::none) {
    fail("epilogue step \"{}\" names an input that is not there", text);
  }
  const TensorType& operand = inputs[static_cast<size_t>(step.input)];
  step.dtype = operand.dtype;
  if (!contains(TypeList<float, Half, BFloat16>{}, step.dtype)) {
    fail("epilogue step \"{}\" has an operand of {}, expected f32, f16 or bf16", text, name(step.dtype));
  }
  if (operand.shape.elements() == 1) step.operand = Step::scalar;
  else if (operand.shape == Shape{channels}) step.operand = Step::channel;
  else if (operand.shape == output) step.operand = Step::full;
  else
    fail("epilogue step \"{}\" has an operand {}, expected {}, [{}] or one element", text, operand.shape.str(),
         output.str(), channels);
  return step;
}

constexpr int64_t kBlock = 256;  // elements converted at a time

float scalar_of(const Step& step, const void* operand) {
  if (step.dtype == DType::f32) return *static_cast<const float*>(operand);
  float value = 0;
  floats_from(step.dtype, operand, 0, &value, 1);
  return value;
}

BinaryMath math(const Step& step) { return step.kind == Step::add ? BinaryMath::add : BinaryMath::mul; }

// data[i] op= operand[at + i]
void combine(const Step& step, const void* operand, int64_t at, float* data, int64_t n) {
  if (step.dtype == DType::f32) {
    vector_binary(math(step), data, static_cast<const float*>(operand) + at, data, n);
    return;
  }
  alignas(64) float block[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    floats_from(step.dtype, operand, at + i, block, count);
    vector_binary(math(step), data + i, block, data + i, count);
  }
}

// Applies a step that does not depend on where the channels are; returns whether it did.
bool apply_plain(const Step& step, const void* operand, const Epilogue::Tile& t) {
  const bool dense = t.stride == t.length || t.lines == 1;
  const int64_t lines = dense ? 1 : t.lines, length = dense ? t.lines * t.length : t.length;
  if (step.kind == Step::activation) {
    for (int64_t line = 0; line < lines; ++line) {
      float* data = t.data + line * t.stride;
      apply_activation(step.function, step.alpha, step.beta, data, data, length);
    }
    return true;
  }
  if (step.operand == Step::scalar) {
    const float value = scalar_of(step, operand);
    for (int64_t line = 0; line < lines; ++line) {
      float* data = t.data + line * t.stride;
      vector_scalar_binary(math(step), data, value, data, length);
    }
    return true;
  }
  if (step.operand == Step::full) {
    if (dense && t.output_stride == t.length) combine(step, operand, t.offset, t.data, t.lines * t.length);
    else {
      for (int64_t line = 0; line < t.lines; ++line) {
        combine(step, operand, t.offset + line * t.output_stride, t.data + line * t.stride, t.length);
      }
    }
    return true;
  }
  return false;
}

}  // namespace

Epilogue Epilogue::parse(std::span<const std::string> steps, std::span<const TensorType> inputs, const Shape& output,
                         int64_t channels) {
  if (steps.size() > kMaxSteps) fail("epilogue has {} steps, at most {} are possible", steps.size(), kMaxSteps);
  Epilogue out;
  for (const std::string& step : steps) {
    out.steps_[static_cast<size_t>(out.count_++)] = parse_step(step, inputs, output, channels);
  }
  return out;
}

Epilogue Epilogue::of(const Problem& problem, int64_t channels) {
  return parse(problem.attrs().texts("epilogue"), problem.inputs, problem.outputs[0].shape, channels);
}

Epilogue Epilogue::without_first() const {
  Epilogue out;
  out.count_ = count_ - 1;
  std::copy(steps_.begin() + 1, steps_.begin() + count_, out.steps_.begin());
  return out;
}

Epilogue Epilogue::without_last() const {
  Epilogue out = *this;
  --out.count_;
  return out;
}

Epilogue::Operands Epilogue::bind(const Call& call) const {
  Operands operands{};
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i) {
    if (steps_[i].input >= 0) operands[i] = call.inputs[static_cast<size_t>(steps_[i].input)].data;
  }
  return operands;
}

void Epilogue::apply_rows(const Operands& operands, const Tile& t) const {
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i) {
    const Step& step = steps_[i];
    if (apply_plain(step, operands[i], t)) continue;
    if (step.dtype == DType::f32 && t.stride == t.length) {
      const float* vector = static_cast<const float*>(operands[i]) + t.channel;
      rows_binary(math(step), t.data, vector, t.data, t.lines, t.length);
      continue;
    }
    for (int64_t line = 0; line < t.lines; ++line) {
      combine(step, operands[i], t.channel, t.data + line * t.stride, t.length);
    }
  }
}

void Epilogue::apply_planes(const Operands& operands, const Tile& t) const {
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i) {
    const Step& step = steps_[i];
    if (apply_plain(step, operands[i], t)) continue;
    for (int64_t line = 0; line < t.lines; ++line) {
      float value = 0;
      if (step.dtype == DType::f32) value = static_cast<const float*>(operands[i])[t.channel + line];
      else floats_from(step.dtype, operands[i], t.channel + line, &value, 1);
      float* data = t.data + line * t.stride;
      vector_scalar_binary(math(step), data, value, data, t.length);
    }
  }
}

}  // namespace sparkpilot
