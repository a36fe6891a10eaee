#include "route/draw/projection.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive {
namespace {

constexpr size_t kMaxPoints = 512;

bool sane(const Vector3& p) {
  return std::all_of(p.begin(), p.end(), [](double c) { return std::isfinite(c) && std::abs(c) <= kFarthest; });
}

size_t length(const Polyline& line) { return std::min({line.x.size(), line.y.size(), line.z.size()}); }

Vector3 between(const Vector3& a, const Vector3& b, double x) {
  const double t = (x - a[0]) / (b[0] - a[0]);
  return {x, a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])};
}

// Unit vector on the road, to the right of the direction of travel.
Vector3 sideways(const std::vector<Vector3>& run, size_t i) {
  const Vector3& a = run[i > 0 ? i - 1 : 0];
  const Vector3& b = run[std::min(i + 1, run.size() - 1)];
  const double dx = b[0] - a[0], dy = b[1] - a[1], norm = std::hypot(dx, dy);
  if (norm < 1e-6) return {0, 1, 0};
  return {-dy / norm, dx / norm, 0};
}

}  // namespace

Projection::Projection(const Matrix3& intrinsics, const Vector3& rpy)
    : picture_from_calibrated_(multiply(multiply(intrinsics, view_from_device()), rotation_from_euler(rpy))) {}

std::optional<Pixel> Projection::pixel(const Vector3& point) const {
  const Vector3 p = multiply(picture_from_calibrated_, point);
  if (!std::isfinite(p[0]) || !std::isfinite(p[1]) || !(p[2] >= kNearPlane)) return {};
  return Pixel{std::clamp(p[0] / p[2], -kPixelLimit, kPixelLimit), std::clamp(p[1] / p[2], -kPixelLimit, kPixelLimit)};
}

std::vector<std::vector<Vector3>> runs_of(const Polyline& line, double z_offset, double from_x, double to_x) {
  std::vector<std::vector<Vector3>> runs;
  const size_t count = length(line), step = count / kMaxPoints + 1;
  Vector3 last{};
  bool known = false, open = false;  // known: the point before was valid; open: the last run continues
  const auto add = [&](const Vector3& p) {
    if (!open) runs.emplace_back();
    open = true;
    runs.back().push_back(p);
  };
  for (size_t i = 0; i < count; i += step) {
    const Vector3 p = {line.x[i], line.y[i], line.z[i] + z_offset};
    if (!sane(p)) {
      known = open = false;
      continue;
    }
    const bool inside = p[0] >= from_x && p[0] <= to_x;
    if (known) {
      // Borders in the order in which the segment crosses them.
      const bool ahead = p[0] > last[0];
      for (const double border : {ahead ? from_x : to_x, ahead ? to_x : from_x}) {
        if ((last[0] < border) != (p[0] < border) && border != p[0] && border != last[0]) {
          add(between(last, p, border));
        }
      }
    }
    if (inside) add(p);
    if (!inside) open = false;
    last = p;
    known = true;
  }
  return runs;
}

std::vector<Pixel> band(const Projection& projection, const std::vector<Vector3>& run, double half_width,
                        double least) {
  std::vector<Pixel> outline, right;
  for (size_t i = 0; i < run.size(); ++i) {
    const Vector3 side = sideways(run, i), &p = run[i];
    std::optional<Pixel> l = projection.pixel({p[0] - half_width * side[0], p[1] - half_width * side[1], p[2]});
    std::optional<Pixel> r = projection.pixel({p[0] + half_width * side[0], p[1] + half_width * side[1], p[2]});
    if (!l || !r) continue;
    const double width = std::hypot(r->u - l->u, r->v - l->v);
    if (width < 2 * least) {
      const double middle = (l->u + r->u) / 2;
      l->u = middle - least;
      r->u = middle + least;
      l->v = r->v = (l->v + r->v) / 2;
    }
    outline.push_back(*l);
    right.push_back(*r);
  }
  if (outline.size() < 2) return {};
  outline.insert(outline.end(), right.rbegin(), right.rend());
  return outline;
}

std::optional<double> height_at(const Polyline& line, double x) {
  for (size_t i = 1; i < length(line); ++i) {
    const Vector3 a = {line.x[i - 1], line.y[i - 1], line.z[i - 1]}, b = {line.x[i], line.y[i], line.z[i]};
    if (sane(a) && sane(b) && a[0] <= x && x <= b[0] && a[0] < b[0]) return between(a, b, x)[2];
  }
  return {};
}

}  // namespace sparkpilot::drive
