// The equation of Einsum: "bij,bjk->bik", "...ij->...ji", "ii".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

// Labels are letters. The axes of an ellipsis get labels below 'A', the same in every term, counted from the right.
// Fails (user) if the equation is malformed or does not fit the ranks.
struct EinsumEquation {
  std::vector<std::string> inputs;  // a label for each axis of each operand
  std::string output;
  EinsumEquation(std::string_view text, const std::vector<int>& ranks);
};

}  // namespace sparkpilot
