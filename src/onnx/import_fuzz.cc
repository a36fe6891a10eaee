// Any bytes as a model: a graph whose types are inferred, or an Error, never anything else.
#include <cstddef>
#include <cstdint>

#include "ir/infer.h"
#include "onnx/import.h"
#include "onnx/metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    sparkpilot::Graph graph = sparkpilot::parse_onnx({reinterpret_cast<const std::byte*>(data), size}, "fuzz.onnx");
    sparkpilot::output_slices(graph);
    sparkpilot::infer(graph);
  } catch (const sparkpilot::Error& error) {
    if (error.kind() != sparkpilot::ErrorKind::user) __builtin_trap();  // an internal error, caused by the bytes
  }
  return 0;
}
