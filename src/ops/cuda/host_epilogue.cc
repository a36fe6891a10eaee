#include "ops/cuda/host_epilogue.h"

#include "base/error.h"

namespace sparkpilot::cuda {

Storage storage_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return Storage::f32;
    case DType::f16: return Storage::f16;
    case DType::bf16: return Storage::bf16;
    default: fail_internal("a CUDA kernel for {}", name(dtype));
  }
}

Acceptance takes_epilogue(const sparkpilot::Epilogue& epilogue) {
  if (static_cast<int>(epilogue.steps().size()) > Epilogue::kMostSteps) return "too many steps in the epilogue";
  return true;
}

Epilogue bound_epilogue(const sparkpilot::Epilogue& epilogue, const Call& call, int64_t columns) {
  using From = sparkpilot::Epilogue::Step;
  Epilogue out{};
  for (const From& from : epilogue.steps()) {
    EpilogueStep& to = out.steps[out.count++];
    to = {};
    if (from.kind == From::activation) {
      to.kind = EpilogueStep::activation;
      to.function = from.function;
      to.alpha = from.alpha;
      to.beta = from.beta;
      continue;
    }
    to.kind = from.kind == From::add ? EpilogueStep::add : EpilogueStep::mul;
    to.storage = storage_of(from.dtype);
    to.operand = call.inputs[static_cast<size_t>(from.input)].data;
    to.row_stride = from.operand == From::full ? columns : 0;
    to.column_stride = from.operand == From::scalar ? 0 : 1;
  }
  return out;
}

}  // namespace sparkpilot::cuda
