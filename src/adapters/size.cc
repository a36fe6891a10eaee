#include "adapters/size.h"

#include <charconv>
#include <map>

#include "adapters/layers.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "ir/census.h"

namespace sparkpilot {

int64_t size_limit(const std::string& text, const Graph& base, const std::string& flag) {
  double percent = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error == std::errc() && std::string(stop, text.data() + text.size()) == "%" && percent > 0 && percent < 1e9) {
    return static_cast<int64_t>(percent * static_cast<double>(take_census(base).constant_bytes) / 100);
  }
  if (const std::optional<int64_t> bytes = read_bytes(text)) return *bytes;
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
