// Figures as SVG text: lines over a shared axis, and histograms. For pages, complete by themselves: their colours
// follow the reader's light or dark setting, and a title and a description say what is shown.
//
// Numbers that are not finite, or beyond 1e30, are gaps. The same input gives the same bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sparkpilot::drive {

struct Series {
  std::string name = {};
  std::vector<double> x = {}, y = {};  // extra elements of the longer list are ignored
  bool dashed = false;
};

// A value worth a line across the figure: a limit, a moment.
struct Mark {
  double at = 0;
  std::string label = {};
};

struct Plot {
  std::string title = {}, description = {};  // description: for those who cannot see it; generated if empty
  std::string x_label = "time, s", y_label = {};
  std::vector<Series> series =
      {};  // drawn in the order blue, orange, green, purple, red, grey, and from the start again
  std::vector<Mark> x_marks = {}, y_marks = {};
  // The least extent of the axes; they grow if values are beyond.
  std::optional<double> x_low = {}, x_high = {}, y_low = {}, y_high = {};
  int width = 800, height = 280;  // in pixels if not scaled; at least 300 x 160
};

struct Histogram {
  std::string title = {}, description = {};
  std::string x_label = "ms";
  std::vector<double> values = {};
  // Percentiles that are marked, by the nearest rank as in base/statistics.h.
  std::vector<double> percentiles = {50, 99};
  int width = 800, height = 240;
};

// However many points there are, each column of pixels keeps its first, least, greatest and last.
std::string svg(const Plot& plot);
// Values far beyond the 99th percentile are counted in the text, not drawn.
std::string svg(const Histogram& histogram);

// By the nearest rank: the smallest value that at least `percent` of all do not exceed. Values in any order; empty if
// none is finite.
std::optional<double> percentile(std::vector<double> values, double percent);

}  // namespace sparkpilot::drive
