// A plan as shell scripts: one for each step, what they share, the pinned versions in one file, and one that runs them
// all.
#pragma once

#include "stack/plan.h"

namespace sparkpilot::stack {

struct Script {
  std::string name, text;  // "06-cusparselt.sh"
  bool runs = true;        // the others are read by those that run
};

// Each step is done once: it leaves a mark, and is passed over when the scripts are run again.
std::vector<Script> plan_scripts(const std::vector<PlanStep>& steps);

}  // namespace sparkpilot::stack
