#include "route/draw/markup.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace {

std::string with_minus(std::string text) {
  if (text.starts_with('-')) text.replace(0, 1, "\u2212");
  return text;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

size_t letters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string shortened(std::string_view text, size_t most) {
  const std::string line = one_line(text);
  if (letters(line) <= most) return line;
  size_t end = 0;
  for (size_t kept = 0; kept + 1 < most; ++kept) {
    do ++end;
    while ((line[end] & 0xc0) == 0x80);
  }
  return line.substr(0, end) + "…";
}

Ticks nice_ticks(double low, double high, int about) {
  const double rough = (high - low) / std::max(1, about), power = std::pow(10, std::floor(std::log10(rough)));
  const double unit = rough / power;
  Ticks ticks;
  ticks.step = power * (unit < 1.5 ? 1 : unit < 3.5 ? 2 : unit < 7.5 ? 5 : 10);
  // Counts whole steps, since adding steps up would accumulate rounding errors.
  const double slack = 1e-9;
  const double first = std::ceil(low / ticks.step - slack), last = std::floor(high / ticks.step + slack);
  if (!(last - first < 1000)) return ticks;  // the range is only a rounding error
  for (int i = 0; i <= static_cast<int>(last - first); ++i) ticks.at.push_back((first + i) * ticks.step + 0.0);
  return ticks;
}

std::string number(double value, double step) {
  const double size = std::max(std::abs(value), step);
  if (size >= 1e6 || step < 1e-4) return with_minus(fmt::format("{:.4g}", value + 0.0));
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text.starts_with('-')) text.erase(0, 1);
  return with_minus(text);
}

std::string coordinate(double value) { return fmt::format("{:.1f}", std::round(value * 10) / 10 + 0.0); }

}  // namespace sparkpilot::drive
