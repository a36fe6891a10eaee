// A plan as shell scripts: one for each step, one with shared functions, one with the pinned versions, and one that
// runs all steps.
#pragma once

#include "stack/plan.h"

namespace sparkpilot::stack {

struct Script {
  std::string name, text;  // "06-cusparselt.sh"
  bool runs = true;        // false: it is read by the others
};

// Each step is done once: it leaves a mark, and is skipped when the scripts are run again. `program`: the sparkpilot
// that verifies at the end, unless $SPARKPILOT names another.
std::vector<Script> plan_scripts(const std::vector<PlanStep>& steps, const std::string& program);

}  // namespace sparkpilot::stack
