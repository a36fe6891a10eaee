#include "monitor/canvas.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot::monitor {

Canvas::Canvas(int width, int height, bool ascii)
    : width_(std::max(width, 0)),
      height_(std::max(height, 0)),
      ascii_(ascii),
      cells_(static_cast<size_t>(width_) * static_cast<size_t>(height_)) {}

void Canvas::put(int x, int y, char32_t symbol, Ink ink) {
  if (x < 0 || x >= width_ || y < 0 || y >= height_) return;
  cells_[static_cast<size_t>(y) * width_ + x] = {symbol, ink};
}

int Canvas::text(int x, int y, std::string_view text, Ink ink, int most) {
  for (const char c : text.substr(0, static_cast<size_t>(std::max(most, 0)))) {
    put(x++, y, c >= ' ' && c <= '~' ? static_cast<char32_t>(c) : U'?', ink);
  }
  return x;
}

void Canvas::text_right(int end, int y, std::string_view text, Ink ink) {
  this->text(end - static_cast<int>(text.size()), y, text, ink);
}

void Canvas::line(int x, int y, int width) {
  for (int i = 0; i < width; ++i) put(x + i, y, ascii_ ? U'-' : U'\u2500', Ink::dim);
}

void Canvas::clear(int x, int y, int width, int height) {
  for (int row = y; row < y + height; ++row) {
    for (int i = x; i < x + width; ++i) put(i, row, U' ', Ink::text);
  }
}

void Canvas::bar(int x, int y, int width, std::optional<double> share, Ink ink) {
  const double filled = share ? std::clamp(*share, 0.0, 1.0) * width : 0;
  for (int i = 0; i < width; ++i) {
    const long eighths = std::lround(std::clamp(filled - i, 0.0, 1.0) * 8);
    if (ascii_) {
      put(x + i, y, eighths >= 4 ? U'#' : U'.', eighths >= 4 ? ink : Ink::dim);
    } else if (eighths > 0) {
      put(x + i, y, static_cast<char32_t>(0x2590 - eighths), ink);  // from the left: one eighth 258f, all 2588
    } else {
      put(x + i, y, U'\u00b7', Ink::dim);
    }
  }
}

void Canvas::column(int x, int y, std::optional<double> share, Ink ink) {
  if (!share) return put(x, y, ascii_ ? U'?' : U'\u00b7', Ink::dim);
  const double part = std::clamp(*share, 0.0, 1.0);
  if (ascii_) return put(x, y, static_cast<char32_t>("_.:-=+*#"[std::lround(part * 7)]), ink);
  put(x, y, static_cast<char32_t>(0x2581 + std::lround(part * 7)), ink);
}

void Canvas::curve(int x, int y, int width, int height, std::span<const std::optional<double>> values, double most,
                   Ink ink) {
  const int across = ascii_ ? 1 : 2, steps = ascii_ ? 2 : 4;
  const auto level = [&](int behind) -> std::optional<int> {  // in steps; `behind` 0 is the newest value
    const auto i = static_cast<std::ptrdiff_t>(values.size()) - 1 - behind;
    if (i < 0 || !values[static_cast<size_t>(i)] || most <= 0) return std::nullopt;
    const double share = std::clamp(*values[static_cast<size_t>(i)] / most, 0.0, 1.0);
    return std::max(1, static_cast<int>(std::lround(share * height * steps)));  // a known value always shows
  };
  // Dots of a braille character from the bottom up, left and right.
  static constexpr unsigned kDots[2][4] = {{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}};
  for (int column = 0; column < width; ++column) {
    for (int row = 0; row < height; ++row) {
      const int below = (height - 1 - row) * steps;
      unsigned dots = 0;
      int lit = 0;
      for (int half = 0; half < across; ++half) {
        const int top = level((width - 1 - column) * across + (across - 1 - half)).value_or(0) - below;
        lit = std::max(lit, std::min(top, steps));
        for (int dot = 0; dot < std::min(top, 4); ++dot) dots |= kDots[half][dot];
      }
      if (lit > 0) put(x + column, y + row, ascii_ ? (lit == 2 ? U'#' : U'.') : 0x2800 + dots, ink);
    }
  }
}

std::string utf8(char32_t symbol) {
  std::string out;
  if (symbol < 0x80) return {static_cast<char>(symbol)};
  if (symbol < 0x800) {
    out += static_cast<char>(0xc0 | symbol >> 6);
  } else {
    out += static_cast<char>(0xe0 | symbol >> 12);
    out += static_cast<char>(0x80 | (symbol >> 6 & 0x3f));
  }
  return out + static_cast<char>(0x80 | (symbol & 0x3f));
}

std::string Canvas::str() const {
  std::string out;
  for (int y = 0; y < height_; ++y) {
    std::string row;
    for (int x = 0; x < width_; ++x) row += utf8(at(x, y).symbol);
    row.resize(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  return out;
}

}  // namespace sparkpilot::monitor
