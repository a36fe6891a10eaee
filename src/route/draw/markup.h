// Shared by SVG and HTML: text that cannot become markup, and numbers for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::drive {

// The text as one line of valid UTF-8 in which <, >, &, " and ' are entities: safe in an element and in an attribute.
std::string escape(std::string_view text);

// Letters of a UTF-8 text: a rough measure of its width.
size_t letters(std::string_view text);

// At most `most` letters, the last an ellipsis if the text was shortened.
std::string shortened(std::string_view text, size_t most);

// Round values within [low, high], 1, 2 or 5 times a power of ten apart: about `about` of them. Requires low < high,
// both within 1e30 of zero.
struct Ticks {
  double step = 1;
  std::vector<double> at;
};
Ticks nice_ticks(double low, double high, int about);

// `value` with enough decimals to distinguish values that are `step` apart; with a true minus sign.
std::string number(double value, double step);

// A coordinate: one decimal, never "-0.0".
std::string coordinate(double value);

}  // namespace sparkpilot::drive
