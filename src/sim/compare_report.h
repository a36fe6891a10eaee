// A comparison of two runs (sim/compare.h) as JSON, CSV and a page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "sim/compare.h"
#include "sim/compare_drives.h"

namespace sparkpilot::sim {

// Keys are stable; docs/sim_compare.md describes them. Texts are as in the runs' files.
nlohmann::ordered_json to_json(const Comparison& comparison);

// A row for each difference, headings first.
std::string to_csv(const Comparison& comparison);

// One HTML file that needs nothing else. `name_a`, `name_b`: the runs'; `worst`, `newly_failed`: of these pairs, to be
// drawn.
std::string to_html(const Comparison& comparison, const std::string& name_a, const std::string& name_b,
                    std::span<const DrivenPair> worst = {}, std::span<const DrivenPair> newly_failed = {});

// "tracking_rmse of curves: 0.213 to 0.224 m/s^2, +5.2 % (+3.1 % to +7.3 %)": a line for each difference that is worse,
// and for worlds that newly fail.
std::vector<std::string> regression_lines(const Comparison& comparison);

// Numbers for people: three digits, `change` with its sign.
std::string figure_text(double value);
std::string change_text(double value);
std::string percent_text(const Difference& difference);  // "+5.2 %"; "-" without one
std::string p_text(double p);                            // "0.032", "<0.001"

}  // namespace sparkpilot::sim
