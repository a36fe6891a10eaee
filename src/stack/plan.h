// The steps that make a stack native for a GPU of compute capability 12.x with an Arm64 processor (DGX Spark), in
// order, as far as an audit shows them to be needed, and the checks that tell when each is done. plan_scripts.h writes
// them as shell scripts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stack/audit.h"

namespace sparkpilot::stack {

struct PlanStep {
  int number = 0;  // its index among all steps, needed or not, so script names stay the same
  std::string id;  // "cusparselt"; names its script
  std::string title;
  std::string reason;  // what the audit shows, or which step needs this one
  std::string size;    // of the download and on disk
  std::string check;   // when it is done
};

// The result of one check of the stack.
struct StackCheck {
  std::string step;
  bool good = false;
  std::string expected, seen;
};

// All checks of the audit, in the order of the steps. Fails (user) for a GPU or a processor that the steps do not
// support.
std::vector<StackCheck> check_stack(const Audit& audit, const NamedGpu& gpu);

// The steps whose checks fail, and their prerequisites; none if all checks pass. Fails as above.
std::vector<PlanStep> plan_stack(const Audit& audit, const NamedGpu& gpu);

}  // namespace sparkpilot::stack
