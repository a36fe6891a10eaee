// Comparisons of models as text and as a page.
#pragma once

#include <string>
#include <vector>

#include "compare/bisect.h"
#include "compare/models.h"

namespace sparkpilot::cli {

// Prints the tables of speed, of outputs and of the values inside, and which peers did not run.
void print_report(const compare::ModelsComparison& comparison);

// The same as one HTML file, with a plot of where the difference begins. `beyond`: limits that do not hold.
std::string report_page(const compare::ModelsComparison& comparison, const std::vector<std::string>& beyond);

// What a bisection found; `got` and `expected` name the two.
std::string to_text(const compare::Bisection& bisection, const std::string& got, const std::string& expected);

}  // namespace sparkpilot::cli
