// What differs between two stacks.
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

// Libraries are the same one where component and file name are, versions left out of the name; of several with one name
// the first in each audit are held against each other, then the second. Equal ones are left out: version, machine and
// targets count. The result refers to the audits.
std::vector<Difference> compare(const Audit& a, const Audit& b);

}  // namespace sparkpilot::stack
