#include "tensor/fill_random.h"

#include "base/fnv.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

uint64_t key_of(std::string_view name, uint64_t seed) { return Fnv(seed).text(name).value(); }

}  // namespace

void fill_random(const View& view, std::string_view name, uint64_t seed) {
  Random random(key_of(name, seed));
  const int64_t count = view.elements();
  if (view.dtype == DType::u8) {
    uint8_t* bytes = view.as<uint8_t>();
    for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(random.bits());
  } else if (view.dtype == DType::f32) {
    float* values = view.as<float>();
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.normal());
  } else {
    const int64_t high = view.dtype == DType::boolean ? 1 : 7;
    for (int64_t i = 0; i < count; ++i) {
      const double value = is_float(view.dtype) ? random.normal() : static_cast<double>(random.integer(0, high));
      store_element(view.dtype, view.data, i, value);
    }
  }
}

}  // namespace sparkpilot
