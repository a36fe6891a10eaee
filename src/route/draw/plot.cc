#include "route/draw/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "route/draw/canvas.h"

namespace sparkpilot::drive {
namespace {

constexpr size_t kColours = 6;

size_t length(const Series& series) { return std::min(series.x.size(), series.y.size()); }
bool gap(const Series& s, size_t i) { return !plottable(s.x[i]) || !plottable(s.y[i]); }

// Draws one run of points without a gap, thinned to the resolution of pixel columns. True if it is a single point.
bool draw_run(const Canvas& canvas, const Series& s, size_t begin, size_t end, std::string& path) {
  char next = 'M';
  size_t count = 0;
  const auto put = [&](size_t i) {
    path += fmt::format("{}{} {}", next, coordinate(canvas.u(s.x[i])), coordinate(canvas.v(s.y[i])));
    next = 'L';
    ++count;
  };
  for (size_t i = begin; i < end;) {
    const double column = std::floor(canvas.u(s.x[i]));
    size_t stop = i, least = i, most = i;
    for (; stop < end && std::floor(canvas.u(s.x[stop])) == column; ++stop) {
      if (s.y[stop] < s.y[least]) least = stop;
      if (s.y[stop] > s.y[most]) most = stop;
    }
    size_t kept[] = {i, std::min(least, most), std::max(least, most), stop - 1};
    for (size_t k = 0; k < 4; ++k) {
      if (k == 0 || kept[k] != kept[k - 1]) put(kept[k]);
    }
    i = stop;
  }
  if (count > 1) return false;
  path += "h0";  // with round ends, a dot
  return true;
}

void draw_series(Canvas& canvas, const Series& s, size_t colour) {
  std::string lines, dots;
  for (size_t i = 0; i < length(s);) {
    size_t end = i;
    while (end < length(s) && !gap(s, end)) ++end;
    std::string run;
    if (end > i) (draw_run(canvas, s, i, end, run) ? dots : lines) += run;
    i = end + 1;
  }
  const auto add = [&](const char* what, const char* dashes, const std::string& path) {
    if (path.empty()) return;
    canvas.add(
        fmt::format(R"(<path class="{} c{}" data-name="{}"{} d="{}"/>)", what, colour, escape(s.name), dashes, path));
  };
  add("sp-l", s.dashed ? R"( stroke-dasharray="5 4")" : "", lines);
  add("sp-l sp-d", "", dots);
}

// What the figure shows, in words.
std::string describe(const Plot& plot) {
  std::string text = fmt::format("Lines of {} over {}", plot.y_label.empty() ? "values" : plot.y_label, plot.x_label);
  for (const Series& s : plot.series) {
    std::vector<double> values;
    for (size_t i = 0; i < length(s); ++i) {
      if (!gap(s, i)) values.push_back(s.y[i]);
    }
    text += s.name.empty() ? "; " : fmt::format("; {}: ", s.name);
    if (values.empty()) {
      text += "no values";
      continue;
    }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    text += fmt::format("{} values from {:.4g} to {:.4g}", values.size(), *low, *high);
  }
  return text + ".";
}

struct Bins {
  Range range;
  std::vector<size_t> counts;
  size_t beyond = 0;
};

// Bin width by Freedman and Diaconis, with 10 to 80 bins.
Bins bins_of(const std::vector<double>& sorted) {
  const double low = sorted.front(), high = sorted.back();
  const double p99 = *percentile(sorted, 99), spread = *percentile(sorted, 75) - *percentile(sorted, 25);
  Bins bins;
  const double shown = high - low > 2 * (p99 - low) && p99 > low ? low + 1.4 * (p99 - low) : high;
  RangeFinder finder;
  finder.add(low);
  finder.add(shown);
  bins.range = finder.range(0);
  const double width = 2 * spread / std::cbrt(static_cast<double>(sorted.size()));
  const double wanted = width > 0 ? (bins.range.high - bins.range.low) / width : 20;
  bins.counts.assign(static_cast<size_t>(std::clamp(wanted, 10.0, 80.0)), 0);
  for (const double value : sorted) {
    const double at = (value - bins.range.low) / (bins.range.high - bins.range.low);
    if (value > bins.range.high) {
      ++bins.beyond;
    } else {
      ++bins.counts[std::min(bins.counts.size() - 1,
                             static_cast<size_t>(at * static_cast<double>(bins.counts.size())))];
    }
  }
  return bins;
}

void draw_bars(Canvas& canvas, const Bins& bins) {
  const double width = (bins.range.high - bins.range.low) / static_cast<double>(bins.counts.size());
  for (size_t i = 0; i < bins.counts.size(); ++i) {
    if (bins.counts[i] == 0) continue;
    const double from = bins.range.low + width * static_cast<double>(i);
    const double u = canvas.u(from), v = canvas.v(static_cast<double>(bins.counts[i]));
    canvas.add(fmt::format(
        "<rect class=\"sp-b\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{} to {}: "
        "{}</title></rect>",
        coordinate(u + 0.5), coordinate(v), coordinate(std::max(0.5, canvas.u(from + width) - u - 1)),
        coordinate(canvas.bottom() - v), number(from, width / 10), number(from + width, width / 10), bins.counts[i]));
  }
}

}  // namespace

std::optional<double> percentile(std::vector<double> values, double percent) {
  std::erase_if(values, [](double value) { return !plottable(value); });
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  const double rank = std::ceil(std::clamp(percent, 0.0, 100.0) / 100 * count - 1e-9);
  return values[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

std::string svg(const Plot& plot) {
  std::vector<LegendEntry> legend;
  RangeFinder x, y;
  for (const Series& s : plot.series) {
    legend.push_back({s.name, legend.size() % kColours, s.dashed});
    for (size_t i = 0; i < length(s); ++i) {
      if (gap(s, i)) continue;
      x.add(s.x[i]);
      y.add(s.y[i]);
    }
  }
  for (const auto& reach : {plot.x_low, plot.x_high}) {
    if (reach) x.add(*reach);
  }
  for (const auto& reach : {plot.y_low, plot.y_high}) {
    if (reach) y.add(*reach);
  }
  const bool alone = legend.size() == 1 && legend[0].name.empty();
  Canvas canvas(plot.title, plot.description.empty() ? describe(plot) : plot.description, plot.width, plot.height,
                alone ? std::vector<LegendEntry>() : legend);
  canvas.axes(x.range(0), y.range(0.04), plot.x_label, plot.y_label);
  bool any = false;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const Series& s = plot.series[i];
    for (size_t k = 0; k < length(s) && !any; ++k) any = !gap(s, k);
    draw_series(canvas, s, i % kColours);
  }
  for (const Mark& mark : plot.y_marks) canvas.horizontal(mark);
  for (const Mark& mark : plot.x_marks) canvas.vertical(mark, canvas.u(mark.at) > canvas.right() - 120);
  if (!any) canvas.say("no values");
  return canvas.str();
}

std::string svg(const Histogram& histogram) {
  std::vector<double> sorted = histogram.values;
  std::erase_if(sorted, [](double value) { return !plottable(value); });
  std::sort(sorted.begin(), sorted.end());
  std::string text = histogram.description;
  std::vector<Mark> marks;
  for (const double p : histogram.percentiles) {
    const auto at = percentile(sorted, p);
    if (at) marks.push_back({*at, fmt::format("p{:g} {:.3g} {}", p, *at, histogram.x_label)});
  }
  if (text.empty()) {
    text = fmt::format("Histogram of {} values", sorted.size());
    for (const Mark& mark : marks) text += "; " + mark.label;
    text += ".";
  }
  Canvas canvas(histogram.title, text, histogram.width, histogram.height, {});
  if (sorted.empty()) {
    canvas.axes({0, 1}, {0, 1}, histogram.x_label, "count");
    canvas.say("no values");
    return canvas.str();
  }
  const Bins bins = bins_of(sorted);
  const size_t most = *std::max_element(bins.counts.begin(), bins.counts.end());
  std::string label = histogram.x_label;
  if (bins.beyond > 0) label += fmt::format(" ({} more, up to {:.3g})", bins.beyond, sorted.back());
  canvas.axes(bins.range, {0, 1.15 * static_cast<double>(most)}, label, "count");
  draw_bars(canvas, bins);
  for (size_t i = 0; i < marks.size(); ++i) {
    // The first label is left of its line if there is room, so that a narrow peak's labels do not overlap.
    canvas.vertical(marks[i], canvas.u(marks[i].at) > canvas.right() - 120 || (i == 0 && canvas.u(marks[i].at) > 200));
  }
  return canvas.str();
}

}  // namespace sparkpilot::drive
