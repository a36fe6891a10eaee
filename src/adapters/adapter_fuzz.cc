// Any bytes as the config of an adapter whose tensors are sound, and then on a model: an adapter or an Error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "adapters/merge.h"
#include "adapters/peft_files.h"
#include "base/error.h"
#include "sparkpilot/builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot;
  const std::string prefix = "base_model.model.fc";
  const SafetensorsFile tensors{.tensors = {{prefix + ".lora_A.weight", Tensor::zeros(DType::f32, {2, 3})},
                                            {prefix + ".lora_B.weight", Tensor::zeros(DType::f32, {4, 2})},
                                            {prefix + ".lora_magnitude_vector", Tensor::zeros(DType::f32, {4})}},
                                .metadata = {}};
  try {
    const Adapter adapter = read_adapter(std::string(reinterpret_cast<const char*>(data), size), tensors, "adapter");
    Graph graph;
    Builder b(graph);
    const ValueId x = b.input("x", DType::f32, {1, 3});
    b.output(b.add("MatMul", {x, b.constant(Tensor::zeros(DType::f32, {3, 4}), "fc.weight")}), "y");
    merge_adapters(graph, {{&adapter}});
    unmerge_adapter(graph, adapter);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
