// What makes a stack native for a GPU of compute capability 12.x beside an Arm64 processor (DGX Spark): the steps that
// an audit shows to be needed, in order, and the checks that say when each is done. The steps as shell scripts:
// plan_scripts.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stack/audit.h"

namespace sparkpilot::stack {

struct PlanStep {
  int number = 0;  // its place among all steps, needed or not: a script keeps its name
  std::string id;  // "cusparselt"; names its script
  std::string title;
  std::string reason;  // what the audit shows, or which step needs this one
  std::string size;    // of the download and on disk
  std::string check;   // when it is done
};

// What one check of the stack says.
struct StackCheck {
  std::string step;
  bool good = false;
  std::string expected, seen;
};

// All checks of the audit, in the order of the steps. Fails (user) for a GPU or a processor that the steps are not for.
std::vector<StackCheck> check_stack(const Audit& audit, const NamedGpu& gpu);

// The steps whose checks fail, and those that prepare for them; none where the stack is as it should be. Fails as
// above.
std::vector<PlanStep> plan_stack(const Audit& audit, const NamedGpu& gpu);

}  // namespace sparkpilot::stack
