#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "route/draw/markup.h"
#include "route/draw/scene.h"

namespace sparkpilot::drive {
namespace {

constexpr double kAhead = 80, kLateral = 3;  // metres in the view from above; its sideways scale is this many times
                                             // larger
constexpr double kPanelAlpha = 0.7, kSpeedWidth = 196;
constexpr Colour kSignal{0.24, 0.86, 0.45};

double letter_size(double size, double unit) { return std::max(9.0, size * unit); }

std::optional<double> finite(const std::optional<double>& value, double most) {
  return value && std::abs(*value) < most ? value : std::nullopt;
}

double footer_letters(double unit) { return letter_size(14, unit); }
double footer_rows(double unit) { return 1.9 * footer_letters(unit); }

// A turn signal: `side` -1 points to the left, 1 to the right.
void draw_signal(Layer& layer, double x, double y, double side, double unit) {
  const double r = 8 * unit, shaft = 0.42 * r;
  layer.fill({{x + side * r, y},
              {x, y - r},
              {x, y - shaft},
              {x - side * r, y - shaft},
              {x - side * r, y + shaft},
              {x, y + shaft},
              {x, y + r}},
             kSignal, 1);
}

struct Words {
  std::string text;
  Colour colour;
};

// The next manoeuvres: the lane change in the log, and each model's desires above a probability of one half.
std::vector<Words> intentions(const OverlayFrame& frame) {
  constexpr std::array<const char*, 4> kStates = {"", ", asked for", ", begun", ", ending"};
  constexpr std::array<const char*, 7> kDesires = {
      "", "turn left", "turn right", "lane change left", "lane change right", "keep left", "keep right"};
  constexpr double kDecided = 0.5;
  std::vector<Words> out;
  const bool left = frame.lane_change_direction == 1, right = frame.lane_change_direction == 2;
  if (frame.lane_change_state > 0 && frame.lane_change_state < std::ssize(kStates) && (left || right)) {
    const char* state = kStates[static_cast<size_t>(frame.lane_change_state)];
    out.push_back({fmt::format("lane change {}{}", left ? "left" : "right", state), kWhite});
  }
  for (const bool ours : {true, false}) {
    const ModelRecord* model = ours ? frame.ours : frame.recorded;
    for (size_t i = 1; model != nullptr && i < kDesires.size(); ++i) {
      const double probability = unit_at(model->desire_state, i, 0);
      if (probability < kDecided) continue;
      out.push_back({fmt::format("{} {:.0f} %", kDesires[i], 100 * probability), ours ? kOurs : kRecorded});
    }
  }
  return out;
}

// A wheel's rim and spokes, turned as the driver sees it.
void draw_wheel(Layer& layer, double x, double y, double radius, double degrees, double unit) {
  layer.circle(x, y, radius, kWhite, 0.95, 2.4 * unit);
  const double turn = -degrees * std::numbers::pi / 180;  // to the left above zero; the picture's angles run clockwise
  for (const double spoke : {0.0, std::numbers::pi / 2, std::numbers::pi}) {
    const double angle = turn + spoke;
    layer.stroke({{x + 0.15 * radius * std::cos(angle), y + 0.15 * radius * std::sin(angle)},
                  {x + radius * std::cos(angle), y + radius * std::sin(angle)}},
                 kWhite, 0.95, 2.4 * unit);
  }
}

// Coordinates of the view from above.
struct Map {
  double left, top, width, height;
  Pixel at(double x, double y) const {
    const double per_metre = (height * 0.93) / kAhead;
    return {std::clamp(left + width / 2 + kLateral * per_metre * y, -kPixelLimit, kPixelLimit),
            std::clamp(top + height - height * 0.07 - per_metre * x, -kPixelLimit, kPixelLimit)};
  }
  std::vector<std::vector<Pixel>> lines(const Polyline& line) const {
    std::vector<std::vector<Pixel>> out;
    for (const auto& run : runs_of(line, 0, 0, kAhead)) {
      out.emplace_back();
      for (const Vector3& p : run) out.back().push_back(at(p[0], p[1]));
    }
    return out;
  }
};

void draw_map_model(Layer& layer, const Map& map, const ModelRecord& model, bool ours, double unit) {
  const Colour colour = ours ? kOurs : kRecorded;
  const double dash = ours ? 0 : 4 * unit;
  const auto lines = [&](const Polyline& line, Colour ink, double alpha, double width, double dashes) {
    for (const auto& points : map.lines(line)) layer.stroke(points, ink, alpha, width * unit, dashes);
  };
  for (size_t i = 0; i < std::min<size_t>(model.road_edges.size(), 2); ++i) {
    lines(model.road_edges[i], kEdge, 0.9 * (1 - unit_at(model.road_edge_stds, i, 0.5)), 1.2, dash);
  }
  for (size_t i = 0; i < std::min<size_t>(model.lane_lines.size(), 4); ++i) {
    lines(model.lane_lines[i], ours ? kWhite : kRecorded, 0.9 * unit_at(model.lane_line_probs, i, 0), 1.2, dash);
  }
  lines(model.position, colour, 1, ours ? 3.4 : 1.4, 0);
  for (const Lead& lead : leads_of(model)) {
    const Pixel p = map.at(lead.x, lead.y);
    const double r = (ours ? 5.0 : 7.0) * unit;
    const std::vector<Pixel> chevron = {{p.u - r, p.v + r}, {p.u, p.v}, {p.u + r, p.v + r}};
    layer.stroke(chevron, colour, 0.4 + 0.6 * lead.prob, (ours ? 2.6 : 1.4) * unit);
  }
}

constexpr double kRowsApart[] = {20, 40, 60};  // m

void draw_map_grid(Layer& layer, const Map& map, double unit) {
  for (const double metres : kRowsApart) {
    const double row = std::round(map.at(metres, 0).v) + 0.5;
    layer.stroke({{map.left, row}, {map.left + map.width, row}}, kWhite, 0.16, 1);
  }
  const Pixel car = map.at(0, 0);
  layer.fill({{car.u, car.v - 6 * unit}, {car.u + 5 * unit, car.v + 6 * unit}, {car.u - 5 * unit, car.v + 6 * unit}},
             kWhite, 0.95);
}

// Drawn after the lines and with an outline: lines may pass below.
void draw_map_distances(Layer& layer, const Map& map, double unit) {
  for (const double metres : kRowsApart) {
    const double row = std::round(map.at(metres, 0).v) + 0.5;
    layer.text(map.left + map.width - 4 * unit, row - 2 * unit, fmt::format("{:.0f} m", metres), letter_size(10, unit),
               kMuted, 1, Align::right, 1.6 * unit);
  }
}

// The sideways scale has its own row below the map, which no line of a model reaches.
void draw_map_scale(Layer& layer, const Map& map, double row_height, double unit) {
  const double size = letter_size(10, unit), wide = map.at(0, 5).u - map.at(0, 0).u;
  const double x = map.left + 8 * unit, middle = std::round(map.top + map.height + 0.55 * row_height) + 0.5;
  layer.stroke({{x, middle}, {x + wide, middle}}, kMuted, 0.9, 1.5 * unit);
  for (const double end : {x, x + wide})
    layer.stroke({{end, middle - 3 * unit}, {end, middle + 3 * unit}}, kMuted, 0.9, unit);
  layer.text(x + wide + 6 * unit, middle + 0.35 * size, "5 m across", size, kMuted, 1);
}

// One model's probabilities, in per cent.
void draw_probabilities(Layer& layer, const ModelRecord& model, Colour colour, double left, double width,
                        double baseline, double unit) {
  const double size = letter_size(11, unit);
  for (size_t i = 0; i < 4; ++i) {
    const double u = left + width * (static_cast<double>(i) + 0.5) / 4;
    const bool there = i < model.lane_line_probs.size() && std::isfinite(model.lane_line_probs[i]);
    const std::string number =
        there ? fmt::format("{:.0f}", 100 * unit_at(model.lane_line_probs, i, 0)) : std::string("-");
    layer.text(u, baseline, number, size, colour, 1, Align::centre);
  }
}

}  // namespace

void draw_speed(Layer& layer, const OverlayFrame& frame, double unit) {
  const auto speed = finite(frame.v_ego, 1000), steering = finite(frame.steering_deg, 1e5);
  const std::vector<Words> words = intentions(frame);
  const bool gauges = speed || steering || frame.left_blinker || frame.right_blinker;
  if (!gauges && words.empty()) return;
  const double x = 12 * unit, y = 12 * unit, width = kSpeedWidth * unit;
  const double big = letter_size(38, unit), small = letter_size(12, unit), fine = letter_size(14, unit);
  const double panel = (gauges ? 74 : 6) * unit, line = 1.4 * small;
  const double rows = words.empty() ? 0 : static_cast<double>(words.size()) * line + 2 * unit;
  layer.rounded_box(x, y, width, panel + rows, 8 * unit, kInk, kPanelAlpha);
  for (size_t i = 0; i < words.size(); ++i) {
    layer.text(x + width / 2, y + panel + (static_cast<double>(i) + 0.7) * line, words[i].text, small, words[i].colour,
               1, Align::centre);
  }
  if (frame.left_blinker) draw_signal(layer, x + 14 * unit, y + 27 * unit, -1, unit);
  if (frame.right_blinker) draw_signal(layer, x + 110 * unit, y + 27 * unit, 1, unit);
  if (speed) {
    layer.text(x + 62 * unit, y + 40 * unit, fmt::format("{:.0f}", 3.6 * *speed), big, kWhite, 1, Align::centre, 0,
               true);
    layer.text(x + 62 * unit, y + 60 * unit, fmt::format("km/h · {:.1f} m/s", *speed), small, kMuted, 1, Align::centre);
  }
  if (steering) {
    draw_wheel(layer, x + 158 * unit, y + 28 * unit, 18 * unit, *steering, unit);
    layer.text(x + 158 * unit, y + 65 * unit, number(*steering, 0.1) + "°", fine, kWhite, 1, Align::centre);
  }
}

void draw_bird_eye(Layer& layer, const OverlayFrame& frame, double unit) {
  if (frame.ours == nullptr && frame.recorded == nullptr) return;
  const double width = 168 * unit, tall = 320 * unit, x = layer.width() - width - 12 * unit, y = 12 * unit;
  // Left out if it would hide the road: taller than the other panels, or too close to the speed.
  const bool fits = y + tall + 6 * unit <= layer.height() - footer_rows(unit) &&
                    x - (12 + kSpeedWidth) * unit >= 0.25 * layer.width();
  if (!fits) return;
  const int models = (frame.ours != nullptr) + (frame.recorded != nullptr);
  const double line = letter_size(11, unit) * 1.35, heading = line * 1.15;
  layer.rounded_box(x, y, width, tall, 8 * unit, kInk, kPanelAlpha);
  const Map map{x, y, width, tall - line - heading - models * line - 4 * unit};
  layer.clip(map.left, map.top, map.width, map.height);
  draw_map_grid(layer, map, unit);
  if (frame.ours) draw_map_model(layer, map, *frame.ours, true, unit);
  if (frame.recorded) draw_map_model(layer, map, *frame.recorded, false, unit);
  draw_map_distances(layer, map, unit);
  layer.unclip();
  draw_map_scale(layer, map, line, unit);
  const double below = map.top + map.height + line;
  double baseline = below + 0.75 * heading;
  layer.stroke({{x + 8 * unit, below}, {x + width - 8 * unit, below}}, kWhite, 0.16, 1);
  layer.text(x + width / 2, baseline, "lane lines, %", letter_size(10, unit), kMuted, 1, Align::centre);
  for (const bool ours : {true, false}) {
    const ModelRecord* model = ours ? frame.ours : frame.recorded;
    if (model == nullptr) continue;
    baseline += line;
    draw_probabilities(layer, *model, ours ? kOurs : kRecorded, x + 4 * unit, width - 8 * unit, baseline, unit);
  }
}

void draw_footer(Layer& layer, const OverlayFrame& frame, const OverlayOptions& options, double unit) {
  const double size = footer_letters(unit), tall = footer_rows(unit), y = layer.height() - tall, base = y + 0.68 * tall;
  layer.rounded_box(-8, y, layer.width() + 16, tall + 8, 1, kInk, kPanelAlpha);
  const double side = 0.72 * size, swatch_width = 1.7 * side;
  const auto width_of = [&](const std::string& name) { return swatch_width + 2 * size + layer.text_width(name, size); };
  double x = 14 * unit;
  for (const bool ours : {true, false}) {
    const double alpha = (ours ? frame.ours : frame.recorded) != nullptr ? 1 : 0.4;
    const std::string& name = ours ? options.ours : options.recorded;
    if (name.empty()) continue;
    const double top = base - side;
    const std::vector<Pixel> swatch = {
        {x, top}, {x + swatch_width, top}, {x + swatch_width, top + side}, {x, top + side}};
    if (ours) {
      layer.fill(swatch, kOurs, alpha);
    } else {
      layer.stroke(swatch, kRecorded, alpha, 2 * unit, 0, true);
    }
    layer.text(x + swatch_width + 0.5 * size, base, name, size, kWhite, alpha);
    x += width_of(name);
  }
  double room = layer.width() - x;
  // The time, preceded by the frame number if there is room.
  const auto put = [&](const std::string& text) {
    const double width = layer.text_width(text, size);
    if (width + 14 * unit > room) return;
    layer.text(x + room - 14 * unit, base, text, size, kWhite, 1, Align::right);
    room -= width + size;
  };
  if (const auto time = finite(frame.route_time, 1e6)) {
    const auto hundredths = static_cast<int64_t>(std::llround(100 * std::max(0.0, *time)));
    put(fmt::format("{}:{:02}.{:02}", hundredths / 6000, hundredths / 100 % 60, hundredths % 100));
  }
  if (frame.frame_id) put(fmt::format("frame {}", *frame.frame_id));
  // A legend of the lines' colours as far as there is room: of our model, else of the recorded one.
  const bool ours = !options.ours.empty();
  for (const auto& [name, colour] : {std::pair("lane lines", ours ? kLaneLine : kRecorded), {"road edges", kEdge}}) {
    const double alpha = frame.ours != nullptr || frame.recorded != nullptr ? 1 : 0.4, width = width_of(name);
    if (width > room) break;
    const double middle = base - side / 2;
    layer.stroke({{x, middle}, {x + swatch_width, middle}}, colour, alpha, 2.4 * unit, ours ? 0 : 4 * unit);
    layer.text(x + swatch_width + 0.5 * size, base, name, size, kWhite, alpha);
    x += width;
    room -= width;
  }
  if (!frame.alert.empty()) {
    constexpr size_t kMaxLetters = 160;
    layer.text(layer.width() / 2.0, y - 0.8 * size, frame.alert.substr(0, kMaxLetters), 1.25 * size, kWhite, 1,
               Align::centre, 2 * unit, true);
  }
}

}  // namespace sparkpilot::drive
