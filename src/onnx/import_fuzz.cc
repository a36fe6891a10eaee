// Any bytes as a model: a graph whose types are inferred, or an Error, never anything else.
#include <cstddef>
#include <cstdint>

#include "ir/infer.h"
#include "onnx/external_files.h"
#include "onnx/import.h"
#include "onnx/metadata.h"

namespace {

// An internal error would be caused by the bytes.
template <class F>
void may_refuse(const F& work) {
  try {
    work();
  } catch (const sparkpilot::Error& error) {
    if (error.kind() != sparkpilot::ErrorKind::user) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  may_refuse([&] {
    sparkpilot::Graph graph = sparkpilot::parse_onnx(bytes, "fuzz.onnx");
    sparkpilot::output_slices(graph);
    sparkpilot::infer(graph);
  });
  may_refuse([&] { sparkpilot::external_names(bytes); });
  return 0;
}
