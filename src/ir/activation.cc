#include "ir/activation.h"

#include <fmt/core.h>

#include "base/error.h"

namespace sparkpilot {

std::string epilogue_step(Activation activation, float alpha, float beta) {
  const EpilogueActivation* row = epilogue_activation(activation);
  if (!row) fail_internal("epilogues have no such activation");
  if (row->parameters == 0) return std::string(row->step);
  if (row->parameters == 1) return fmt::format("{}:{}", row->step, alpha);
  return fmt::format("{}:{}:{}", row->step, alpha, beta);
}

}  // namespace sparkpilot
