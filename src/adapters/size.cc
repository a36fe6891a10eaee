#include "adapters/size.h"

#include <charconv>
#include <map>
#include <utility>

#include "adapters/layers.h"
#include "base/error.h"
#include "ir/census.h"

namespace sparkpilot {

int64_t size_limit(const std::string& text, const Graph& base, const std::string& flag) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(stop, text.data() + text.size());
  const double percent = static_cast<double>(take_census(base).constant_bytes) / 100;
  const std::pair<const char*, double> units[] = {{"%", percent}, {"", 1},     {"B", 1},
                                                  {"kB", 1e3},    {"MB", 1e6}, {"GB", 1e9}};
  for (const auto& [known, factor] : units) {
    if (error == std::errc() && unit == known && number > 0 && number * factor < 1e15) {
      return static_cast<int64_t>(number * factor);
    }
  }
  fail("{} {}: expected a share of the model such as 1%, or bytes such as 200kB", flag, text);
}

DType stored_type(const std::string& text, const Graph& base) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (text == stored_name(dtype)) return dtype;
  }
  std::map<DType, int64_t> elements;
  for (const Layer& layer : find_layers(base)) elements[layer.dtype] += layer.weight.elements();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    if (elements[dtype] > elements[DType::f32]) return dtype;
  }
  return DType::f32;
}

std::string stored_name(DType dtype) { return dtype == DType::f16 ? "fp16" : dtype == DType::bf16 ? "bf16" : "fp32"; }

}  // namespace sparkpilot
