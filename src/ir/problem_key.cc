#include "ir/problem_key.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fnv.h"
#include "base/parallel.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

constexpr size_t kLongestAttribute = 160, kLongestGpu = 80;

std::string hashed(std::string_view text) { return fmt::format("#{:016x}", Fnv().text(text).value()); }

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string text_of(const Attribute& attribute) {
  return std::visit(
      []<typename T>(const T& v) -> std::string {
        if constexpr (std::is_same_v<T, std::string>) return v;
        else if constexpr (std::is_arithmetic_v<T>) return fmt::format("{}", v);
        else if constexpr (std::is_same_v<T, Tensor>) {
          const std::string_view bytes(static_cast<const char*>(v.raw()), static_cast<size_t>(v.bytes()));
          return fmt::format("{}{}{}", name(v.dtype()), v.shape().str(), hashed(bytes));
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Graph>>) return "graph";
        else return fmt::format("{}", fmt::join(v, ","));
      },
      attribute);
}

std::string text_of(const TensorType& type) {
  if (type.dtype == DType::none) return "-";
  return std::string(name(type.dtype)) + (type.known ? type.shape.str() : "[?]");
}

}  // namespace

std::string problem_key(const Problem& problem) {
  std::string key = qualified(*problem.node->op);
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    key += " " + text_of(problem.inputs[i]);
    if (problem.is_constant(i)) key += "*";
  }
  key += " ->";
  for (const TensorType& type : problem.outputs) key += " " + text_of(type);
  for (const auto& [name, value] : problem.attrs()) {
    const std::string text = text_of(value);
    const bool plain = text.size() <= kLongestAttribute && is_plain(name) && is_plain(text);
    key += plain ? fmt::format(" {}={}", name, text) : " " + hashed(name + "=" + text);
  }
  std::string place = fmt::format(" threads={}", thread_count());
  if (problem.gpu) {
    const std::string& gpu = problem.gpu->facts().name;
    const bool plain =
        gpu.size() <= kLongestGpu && std::ranges::all_of(gpu, [](char c) { return c >= ' ' && c < 127; });
    place = " on " + (plain ? gpu : hashed(gpu));
  }
  if (key.size() + place.size() > kLongestProblemKey) key = qualified(*problem.node->op) + " " + hashed(key);
  return key + place;
}

bool has_alternatives(const OpDef& op, Device device) {
  if (device == Device::cuda) {
    return std::ranges::any_of(op.cuda, [](const Kernel& kernel) { return kernel.variants != nullptr; });
  }
  return std::count_if(op.cpu.begin(), op.cpu.end(), [](const Kernel& kernel) { return kernel.name != "reference"; }) >
         1;
}

}  // namespace sparkpilot
