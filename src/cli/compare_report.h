// Comparisons of models as text.
#pragma once

#include <string>

#include "compare/bisect.h"
#include "compare/models.h"

namespace sparkpilot::cli {

// Prints the tables of speed, of outputs and of the values inside, and which peers did not run.
void print_report(const compare::ModelsComparison& comparison);

// What a bisection found; `got` and `expected` name the two.
std::string to_text(const compare::Bisection& bisection, const std::string& got, const std::string& expected);

}  // namespace sparkpilot::cli
