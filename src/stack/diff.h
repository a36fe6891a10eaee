// The differences between two stacks.
#pragma once

#include <string>
#include <vector>

#include "stack/audit.h"

namespace sparkpilot::stack {

struct Difference {
  const Library* a = nullptr;  // null: only the second has it
  const Library* b = nullptr;  // null: only the first has it
  std::string component, file;
  std::vector<std::string> gained, lost;  // targets of GPU code
};

// Libraries correspond if component and file name, without versions, are equal; of several with the same name the first
// in each audit are compared, then the second. Pairs with equal version, machine and targets are omitted. The result
// refers to the audits.
std::vector<Difference> compare(const Audit& a, const Audit& b);

}  // namespace sparkpilot::stack
