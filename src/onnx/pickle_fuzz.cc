// Any bytes as a pickle, and as the base64 of one: slices, shapes or an Error, never anything else.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "onnx/metadata.h"

namespace {

template <typename Fn>
void expect_user_error(Fn&& fn) {
  try {
    fn();
  } catch (const sparkpilot::Error& error) {
    if (error.kind() != sparkpilot::ErrorKind::user) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  expect_user_error([&] { sparkpilot::parse_metadata_pickle({reinterpret_cast<const std::byte*>(data), size}); });
  expect_user_error([&] {
    const auto slices = sparkpilot::parse_output_slices({reinterpret_cast<const char*>(data), size});
    if (sparkpilot::parse_output_slices(sparkpilot::write_output_slices(slices)) != slices) __builtin_trap();
    for (const auto& [name, slice] : slices) slice.resolve(1000);
  });
  return 0;
}
