// A grid of characters with colours, drawn without a terminal, so that it can be tested at any size.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::monitor {

// The meaning of a character; the terminal chooses the colour.
enum class Ink { text, dim, bright, gpu, cpu, memory, io, warn, hot };

struct Cell {
  char32_t symbol = U' ';
  Ink ink = Ink::text;
  bool operator==(const Cell&) const = default;
};

// Everything outside the grid is cut off.
class Canvas {
 public:
  // `ascii`: only ASCII characters are drawn.
  Canvas(int width, int height, bool ascii);
  int width() const { return width_; }
  int height() const { return height_; }
  const Cell& at(int x, int y) const { return cells_[static_cast<size_t>(y) * width_ + x]; }

  void put(int x, int y, char32_t symbol, Ink ink);
  // Printable ASCII, at most `most` characters; returns the column after it.
  int text(int x, int y, std::string_view text, Ink ink, int most = 1 << 16);
  // The last character in column `end` - 1.
  void text_right(int end, int y, std::string_view text, Ink ink);
  void line(int x, int y, int width);
  void clear(int x, int y, int width, int height);

  // `share` of 1 filled from the left, in eighths of a character; only the track if unknown.
  void bar(int x, int y, int width, std::optional<double> share, Ink ink);
  // One character as high as `share`.
  void column(int x, int y, std::optional<double> share, Ink ink);
  // The last values that fit, the newest at the right edge, two per character and four steps per row (ASCII: one and
  // two); an unknown value is a gap. `most` is the value at full height.
  void curve(int x, int y, int width, int height, std::span<const std::optional<double>> values, double most, Ink ink);

  // Lines in UTF-8 without colours or trailing blanks, each with a newline.
  std::string str() const;

 private:
  int width_, height_;
  bool ascii_;
  std::vector<Cell> cells_;
};

std::string utf8(char32_t symbol);

}  // namespace sparkpilot::monitor
