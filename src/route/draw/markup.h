// What SVG and HTML share: text that cannot become markup, and numbers as people read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::drive {

// The text as one line of valid UTF-8 in which <, >, &, " and ' are entities: fit for an element and for an attribute.
std::string escape(std::string_view text);

// Letters of a UTF-8 text: a rough measure of its width.
size_t letters(std::string_view text);

// At most `most` letters, the last of them an ellipsis where something was cut.
std::string shortened(std::string_view text, size_t most);

// Round values, 1, 2 or 5 times a power of ten apart, that lie within [low, high]: about `about` of them. Requires
// low < high, both within 1e30 of zero.
struct Ticks {
  double step = 1;
  std::vector<double> at;
};
Ticks nice_ticks(double low, double high, int about);

// `value` with as many decimals as tell values `step` apart from one another; a true minus sign.
std::string number(double value, double step);

// A coordinate: one decimal, never "-0.0".
std::string coordinate(double value);

}  // namespace sparkpilot::drive
