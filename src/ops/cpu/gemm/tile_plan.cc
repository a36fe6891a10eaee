#include "ops/cpu/gemm/tile_plan.h"

namespace sparkpilot {

SplitEpilogue::SplitEpilogue(const Epilogue& epilogue) : rest(epilogue) {
  if (epilogue.empty()) return;
  const Epilogue::Step& first = epilogue.steps()[0];
  if (first.kind != Epilogue::Step::activation) return;
  if (first.function == Activation::relu) low = 0;
  else if (first.function == Activation::clip && first.alpha <= first.beta) {
    low = first.alpha;
    high = first.beta;
  } else {
    return;
  }
  rest = epilogue.without_first();
}

}  // namespace sparkpilot
