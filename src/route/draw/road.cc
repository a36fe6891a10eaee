#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "route/draw/scene.h"

namespace sparkpilot::drive {
namespace {

constexpr double kLineHalfWidth = 0.06, kLinesTo = 90;              // m
constexpr double kLeadHalfWidth = 0.95, kLeadTall = 1.5;            // m, about a car's back
constexpr size_t kMaxLines = 8, kMaxLeads = 8, kMaxLeadsDrawn = 3;  // a model has 4, 2 and 3
constexpr double kLeadApart = 3;                                    // m
constexpr double kMinProbability = 0.5;

Colour colour_of(const Drawn& drawn) { return drawn.ours ? kOurs : kRecorded; }

// The rows between which a ribbon fades.
std::pair<double, double> rows_of(const std::vector<Pixel>& outline) {
  const auto [top, bottom] =
      std::minmax_element(outline.begin(), outline.end(), [](const Pixel& a, const Pixel& b) { return a.v < b.v; });
  return {top->v, bottom->v};
}

// A band's outline without its two ends.
void draw_sides(Layer& layer, const std::vector<Pixel>& outline, Colour colour, double alpha, double width) {
  const auto middle = outline.begin() + static_cast<ptrdiff_t>(outline.size() / 2);
  layer.stroke({outline.begin(), middle}, colour, alpha, width);
  layer.stroke({middle, outline.end()}, colour, alpha, width);
}

void draw_path(Layer& layer, const Projection& projection, const Drawn& drawn) {
  for (const auto& run : runs_of(drawn.model.position, drawn.height, kPathFrom, kPathTo)) {
    const std::vector<Pixel> outline = band(projection, run, kPathHalfWidth, drawn.unit);
    if (outline.empty()) continue;
    if (!drawn.ours) {
      draw_sides(layer, outline, kInk, 0.35, 4 * drawn.unit);
      draw_sides(layer, outline, kRecorded, 0.95, 2 * drawn.unit);
      continue;
    }
    const auto [top, bottom] = rows_of(outline);
    layer.fill_fading(outline, kOurs, std::min<double>(bottom, layer.height()), 0.46, top, 0.16);
    draw_sides(layer, outline, kOurs, 0.9, 1.4 * drawn.unit);
  }
}

// The centre line of a band.
std::vector<Pixel> middle(const Projection& projection, const std::vector<Vector3>& run) {
  std::vector<Pixel> line;
  for (const Vector3& p : run) {
    if (const auto pixel = projection.pixel(p)) line.push_back(*pixel);
  }
  return line;
}

void draw_line(Layer& layer, const Projection& projection, const Drawn& drawn, const Polyline& line, Colour colour,
               double alpha) {
  if (alpha < 0.03) return;
  for (const auto& run : runs_of(line, 0, kPathFrom, kLinesTo)) {
    if (drawn.ours) {
      const std::vector<Pixel> strip = band(projection, run, kLineHalfWidth, 0.7 * drawn.unit);
      layer.stroke(strip, kInk, 0.3 * alpha, 1.6 * drawn.unit, 0, true);  // its outline makes it visible on a bright
                                                                          // road
      layer.fill(strip, colour, alpha);
    } else {
      layer.stroke(middle(projection, run), colour, alpha, 1.6 * drawn.unit, 6 * drawn.unit);
    }
  }
}

void draw_label(Layer& layer, const Drawn& drawn, const Lead& lead, double u, double top, double bottom) {
  const double size = std::max(10.0, 15 * drawn.unit);
  const double baseline = drawn.ours ? top - 0.45 * size : bottom + 1.25 * size;
  const std::string text = fmt::format("{:.0f} m  {:.0f} m/s", lead.x, lead.v);
  if (layer.text_width(text, size, true) > 0.4 * layer.width()) return;  // even the smallest text would hide the road
  layer.text(u, baseline, text, size, colour_of(drawn), 1, Align::centre, std::max(1.0, 1.6 * drawn.unit), true);
}

// The rectangle of a car's back: only the corners for our model, a thinner complete frame for the recorded one.
void draw_lead(Layer& layer, const Projection& projection, const Drawn& drawn, const Lead& lead) {
  const double road = drawn.height + height_at(drawn.model.position, lead.x).value_or(0);
  const auto foot = projection.pixel({lead.x, lead.y, road});
  const auto side = projection.pixel({lead.x, lead.y + kLeadHalfWidth, road});
  const auto head = projection.pixel({lead.x, lead.y, road - kLeadTall});
  if (!foot || !side || !head) return;
  const double half = std::max(6 * drawn.unit, std::abs(side->u - foot->u)),
               tall = std::max(8 * drawn.unit, foot->v - head->v), u = foot->u, v = foot->v;
  if (u + half < 0 || u - half > layer.width() || v < 0 || v - tall > layer.height()) return;
  const double alpha = 0.4 + 0.6 * lead.prob;
  if (drawn.ours) {
    const double arm = 0.35 * half;
    for (const double side_of : {-1.0, 1.0}) {
      for (const auto& [row, inward] : {std::pair{v, -1.0}, std::pair{v - tall, 1.0}}) {
        const std::vector<Pixel> corner = {
            {u + side_of * (half - arm), row}, {u + side_of * half, row}, {u + side_of * half, row + inward * arm}};
        layer.stroke(corner, kInk, 0.5 * alpha, 4.4 * drawn.unit);
        layer.stroke(corner, kOurs, alpha, 2.6 * drawn.unit);
      }
    }
  } else {
    const std::vector<Pixel> box = {{u - half, v}, {u + half, v}, {u + half, v - tall}, {u - half, v - tall}};
    layer.stroke(box, kInk, 0.35 * alpha, 3 * drawn.unit, 0, true);
    layer.stroke(box, kRecorded, alpha, 1.3 * drawn.unit, 0, true);
  }
  draw_label(layer, drawn, lead, u, v - tall, v);
}

}  // namespace

double unit_at(const std::vector<float>& list, size_t i, double otherwise) {
  if (i >= list.size() || !std::isfinite(list[i])) return otherwise;
  return std::clamp<double>(list[i], 0, 1);
}

std::vector<Lead> leads_of(const ModelRecord& model) {
  std::vector<Lead> leads;
  for (size_t i = 0; i < std::min(model.leads.size(), kMaxLeads) && leads.size() < kMaxLeadsDrawn; ++i) {
    const LeadRecord& in = model.leads[i];
    if (in.x.empty() || in.y.empty() || in.v.empty() || !(in.prob > kMinProbability)) continue;
    const Lead lead{in.x[0], in.y[0], in.v[0], std::min<double>(in.prob, 1)};
    const bool sane = lead.x > 0 && lead.x < 1000 && std::abs(lead.y) < 1000 && std::abs(lead.v) < 1000;
    const bool known = std::any_of(leads.begin(), leads.end(), [&](const Lead& other) {
      return std::hypot(other.x - lead.x, other.y - lead.y) < kLeadApart;
    });
    if (sane && !known) leads.push_back(lead);
  }
  return leads;
}

void draw_road(Layer& layer, const Projection& projection, const Drawn& drawn) {
  const ModelRecord& model = drawn.model;
  for (size_t i = 0; i < std::min(model.road_edges.size(), kMaxLines); ++i) {
    draw_line(layer, projection, drawn, model.road_edges[i], kEdge, 0.9 * (1 - unit_at(model.road_edge_stds, i, 0.5)));
  }
  draw_path(layer, projection, drawn);
  for (size_t i = 0; i < std::min(model.lane_lines.size(), kMaxLines); ++i) {
    const Colour colour = drawn.ours ? kLaneLine : kRecorded;
    draw_line(layer, projection, drawn, model.lane_lines[i], colour, 0.95 * unit_at(model.lane_line_probs, i, 0));
  }
}

void draw_leads(Layer& layer, const Projection& projection, const Drawn& drawn) {
  for (const Lead& lead : leads_of(drawn.model)) draw_lead(layer, projection, drawn, lead);
}

}  // namespace sparkpilot::drive
