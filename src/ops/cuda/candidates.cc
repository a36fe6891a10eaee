#include "ops/cuda/candidates.h"

namespace sparkpilot::cuda {

std::optional<std::string_view> storage_suffix(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    default: return {};
  }
}

}  // namespace sparkpilot::cuda
