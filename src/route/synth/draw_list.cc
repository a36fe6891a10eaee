#include "route/synth/draw_list.h"

#include <algorithm>
#include <cmath>

#include "route/synth/blob.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr float kNear = 0.25F;

// One plane of the picture, with the coordinates of its samples in the full picture: at * scale + shift.
struct Plane {
  uint8_t* data;
  int stride, width, begin, end;  // begin, end: rows
  float scale, shift;
};

struct Edge {
  float a, b, c;  // distance to the edge, positive inside: a x + b y + c
};

uint8_t mixed(uint8_t under, float over, float weight) {
  return static_cast<uint8_t>(
      clamped(static_cast<float>(under) + weight * (over - static_cast<float>(under)) + 0.5F, 0.0F, 255.0F));
}

int edges_of(const Shape& shape, Edge* edges) {
  float area = 0;
  for (int i = 0; i < shape.count; ++i) {
    const Point2 &a = shape.points[static_cast<size_t>(i)],
                 &b = shape.points[static_cast<size_t>((i + 1) % shape.count)];
    area += a.x * b.y - b.x * a.y;
  }
  const float sign = area > 0 ? 1.0F : -1.0F;
  int count = 0;
  for (int i = 0; i < shape.count; ++i) {
    const Point2 &a = shape.points[static_cast<size_t>(i)],
                 &b = shape.points[static_cast<size_t>((i + 1) % shape.count)];
    const float dx = b.x - a.x, dy = b.y - a.y, size = std::sqrt(dx * dx + dy * dy);
    if (size < 1e-3F) continue;
    const float nx = -dy / size * sign, ny = dx / size * sign;
    edges[count++] = {nx, ny, -nx * a.x - ny * a.y};
  }
  return count;
}

struct Span {
  int begin, end;
};

// The samples of a row whose distance to every edge is at least `inside`.
Span row_span(const Edge* edges, int count, float y, float inside, const Plane& plane) {
  float low = -1e9F, high = 1e9F;
  for (int i = 0; i < count; ++i) {
    const float rest = edges[i].b * y + edges[i].c - inside;
    if (edges[i].a > 1e-5F) {
      low = std::max(low, -rest / edges[i].a);
    } else if (edges[i].a < -1e-5F) {
      high = std::min(high, -rest / edges[i].a);
    } else if (rest < 0) {
      return {0, 0};
    }
  }
  const float most = static_cast<float>(plane.width);
  const float from = std::ceil(clamped((low - plane.shift) / plane.scale, 0.0F, most));
  const float to = std::floor(clamped((high - plane.shift) / plane.scale, -1.0F, most - 1)) + 1;
  return {static_cast<int>(from), std::max(static_cast<int>(from), static_cast<int>(to))};
}

void paint_polygon(const Shape& shape, const Plane& plane, float Colour::*channel) {
  Edge edges[Shape::kMax];
  const int count = edges_of(shape, edges);
  float top = 1e9F, bottom = -1e9F;
  for (int i = 0; i < shape.count; ++i) {
    top = std::min(top, shape.points[static_cast<size_t>(i)].y),
    bottom = std::max(bottom, shape.points[static_cast<size_t>(i)].y);
  }
  const float height = std::max(1.0F, bottom - top), soft = 0.5F * plane.scale;
  const int first =
      std::max(plane.begin, static_cast<int>(std::floor(clamped((top - plane.shift) / plane.scale, -2.0F, 1e6F))) - 1);
  const int last =
      std::min(plane.end - 1, static_cast<int>(clamped((bottom - plane.shift) / plane.scale, -2.0F, 1e6F)) + 1);
  for (int row = first; row <= last; ++row) {
    const float y = static_cast<float>(row) * plane.scale + plane.shift;
    if (y > static_cast<float>(shape.bottom_row)) break;
    const Span outer = row_span(edges, count, y, -soft, plane), inner = row_span(edges, count, y, soft, plane);
    const float share = clamped((y - top) / height, 0.0F, 1.0F);
    const float colour = shape.top.*channel + share * (shape.bottom.*channel - shape.top.*channel);
    uint8_t* out = plane.data + static_cast<ptrdiff_t>(row) * plane.stride;
    const auto soften = [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        const float x = static_cast<float>(i) * plane.scale + plane.shift;
        float cover = 1;
        for (int e = 0; e < count; ++e) {
          cover *= clamped(0.5F + (edges[e].a * x + edges[e].b * y + edges[e].c) / plane.scale, 0.0F, 1.0F);
        }
        out[i] = mixed(out[i], colour, cover * shape.alpha);
      }
    };
    if (inner.end <= inner.begin) {
      soften(outer.begin, outer.end);
      continue;
    }
    soften(outer.begin, inner.begin);
    if (shape.alpha >= 1) {
      std::fill(out + inner.begin, out + inner.end, mixed(0, colour, 1));
    } else {
      for (int i = inner.begin; i < inner.end; ++i) out[i] = mixed(out[i], colour, shape.alpha);
    }
    soften(inner.end, outer.end);
  }
}

// Paints into one plane, or into two of the same shape at once: `second` may be null.
void paint_ellipse(const Shape& shape, const Plane& plane, uint8_t* second, const Noise& noise) {
  constexpr float kMax = 1.25F;  // the farthest that noise moves the edge
  const Point2 middle = shape.points[0], half = shape.points[1];
  const bool luma = second == nullptr, plain = shape.rough <= 0;
  const auto index = [&](float at) { return static_cast<int>(clamped((at - plane.shift) / plane.scale, -1.0F, 1e6F)); };
  const int first = std::max(plane.begin, index(middle.y - kMax * half.y));
  const int last = std::min(plane.end - 1, index(middle.y + kMax * half.y));
  const float texel = 40 / half.y;  // the noise scales with the object
  const int level = Noise::level(texel * plane.scale);
  const float ox = static_cast<float>(shape.dice & 255), oy = static_cast<float>((shape.dice >> 8) & 255);
  const float soft = 1 / (4 * std::min(1.0F, plane.scale / half.y) + 0.12F), by_x = 1 / half.x;
  for (int row = first; row <= last; ++row) {
    const float y = static_cast<float>(row) * plane.scale + plane.shift;
    if (y > static_cast<float>(shape.bottom_row)) break;
    const float v = (y - middle.y) / half.y, share = clamped(0.5F + 0.5F * v, 0.0F, 1.0F);
    if (v * v > kMax * kMax) continue;
    const float reach = half.x * std::sqrt(kMax * kMax - v * v);
    const int from = std::max(0, index(middle.x - reach)), to = std::min(plane.width - 1, index(middle.x + reach));
    const auto shaded = [&](float Colour::*channel) {
      return shape.top.*channel + share * (shape.bottom.*channel - shape.top.*channel);
    };
    BlobRow blob;
    const ptrdiff_t start = static_cast<ptrdiff_t>(row) * plane.stride;
    blob.samples = plane.data + start, blob.second = luma ? nullptr : second + start;
    blob.from = from, blob.to = to + 1, blob.scale = plane.scale, blob.shift = plane.shift;
    blob.middle = middle.x, blob.by_x = by_x, blob.above = 1 - v * v;
    blob.colour = luma ? shaded(&Colour::y) : shaded(&Colour::u), blob.other = shaded(&Colour::v);
    blob.alpha = shape.alpha;
    if (!plain) {
      blob.map = &noise.map(level, level);
      blob.texel = texel, blob.noise_x = ox, blob.noise_y = (y - middle.y) * texel + oy;
      blob.soft = soft, blob.rough = luma ? shape.rough : 0;
    }
    paint_blob_row(blob);
  }
}

}  // namespace

void DrawList::polygon(std::span<const Point3> corners, const Colour& top, const Colour& bottom, float alpha) {
  Point3 seen[Shape::kMax];
  int count = 0;
  for (size_t i = 0; i < corners.size(); ++i) {
    const Point3 a = view_.project(corners[i]), b = view_.project(corners[(i + 1) % corners.size()]);
    if (a.z > kNear) seen[count++] = a;
    if ((a.z > kNear) != (b.z > kNear)) {
      const float t = (kNear - a.z) / (b.z - a.z);
      seen[count++] = {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y), kNear};
    }
  }
  if (count < 3) return;
  Shape shape;
  shape.count = count, shape.top = top, shape.bottom = bottom, shape.alpha = alpha, shape.bottom_row = bottom_row_;
  float left = 1e9F, right = -1e9F, low = -1e9F, high = 1e9F;
  for (int i = 0; i < count; ++i) {
    const Point2 at = {seen[i].x / seen[i].z, seen[i].y / seen[i].z};
    shape.points[static_cast<size_t>(i)] = at;
    left = std::min(left, at.x), right = std::max(right, at.x), high = std::min(high, at.y), low = std::max(low, at.y);
  }
  const Camera& camera = view_.camera();
  if (right < 0 || left > static_cast<float>(camera.width) || low < 0 || high > static_cast<float>(camera.height))
    return;
  shapes_.push_back(shape);
}

void DrawList::blob(const Point3& middle, float width, float height, const Colour& top, const Colour& bottom,
                    float rough, uint32_t dice, float alpha) {
  const Point3 at = view_.project(middle);
  if (at.z < 1) return;
  const float size = static_cast<float>(view_.camera().focal_length) / at.z;
  Shape shape;
  shape.points[0] = {at.x / at.z, at.y / at.z};
  shape.points[1] = {std::max(0.4F, width * size), std::max(0.4F, height * size)};
  const Camera& camera = view_.camera();
  const float x = shape.points[0].x, reach = 1.3F * shape.points[1].x;
  if (x + reach < 0 || x - reach > static_cast<float>(camera.width)) return;
  shape.top = top, shape.bottom = bottom, shape.alpha = alpha, shape.rough = rough, shape.dice = dice;
  shape.bottom_row = bottom_row_;
  shapes_.push_back(shape);
}

void DrawList::paint(YuvImage& picture, int begin, int end, const Noise& noise) const {
  const int width = picture.width();
  const Plane planes[3] = {{picture.y(), width, width, begin, end, 1, 0},
                           {picture.u(), width / 2, width / 2, begin / 2, end / 2, 2, 0.5F},
                           {picture.v(), width / 2, width / 2, begin / 2, end / 2, 2, 0.5F}};
  float Colour::*const channels[3] = {&Colour::y, &Colour::u, &Colour::v};
  for (const Shape& shape : shapes_) {
    if (shape.count > 0) {
      for (int i = 0; i < 3; ++i) paint_polygon(shape, planes[i], channels[i]);
    } else {
      paint_ellipse(shape, planes[0], nullptr, noise);
      paint_ellipse(shape, planes[1], picture.v(), noise);
    }
  }
}

}  // namespace sparkpilot::drive::synth
