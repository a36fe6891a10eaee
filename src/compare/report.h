// Comparisons as JSON, with stable snake_case keys that carry their units; what is infinite is null.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compare/bisect.h"
#include "compare/models.h"

namespace sparkpilot::compare {

nlohmann::ordered_json to_json(const Difference& difference);
nlohmann::ordered_json to_json(const ModelsComparison& comparison);
nlohmann::ordered_json to_json(const Bisection& bisection);

}  // namespace sparkpilot::compare
