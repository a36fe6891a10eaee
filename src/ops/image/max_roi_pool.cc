// MaxRoiPool: the largest element of each cell of a grid laid over each region of interest (Girshick, "Fast R-CNN",
// ICCV 2015). Corners are rounded to whole pixels and are part of the region; an empty cell gives 0.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/registry.h"

namespace sparkpilot::max_roi_pool_ops {
namespace {

struct Region {
  int64_t batch, x0, y0, width, height;
};

template <typename T>
Region read_region(const T* roi, double scale, int64_t batches) {
  const auto pixel = [&](int i) {
    const double v = std::round(static_cast<double>(roi[i]) * scale);
    if (!(std::abs(v) < 1e9)) fail("region has a corner at {}", static_cast<double>(roi[i]));
    return static_cast<int64_t>(v);
  };
  const auto batch = static_cast<double>(roi[0]);
  if (!(batch >= 0 && batch < static_cast<double>(batches))) fail("region of image {}, there are {}", batch, batches);
  const int64_t x0 = pixel(1), y0 = pixel(2);
  return {static_cast<int64_t>(batch), x0, y0, std::max<int64_t>(1, pixel(3) - x0 + 1),
          std::max<int64_t>(1, pixel(4) - y0 + 1)};
}

// The begin and end of cell `i` of `cells` over `size` pixels from `start`, clipped to the image.
struct Cell {
  int64_t begin, end;
};
Cell cell_range(int64_t i, int64_t cells, int64_t start, int64_t size, int64_t image) {
  const double step = static_cast<double>(size) / static_cast<double>(cells);
  const auto begin = static_cast<int64_t>(std::floor(static_cast<double>(i) * step)) + start;
  const auto end = static_cast<int64_t>(std::ceil(static_cast<double>(i + 1) * step)) + start;
  return {std::clamp<int64_t>(begin, 0, image), std::clamp<int64_t>(end, 0, image)};
}

void run(const Call& c) {
  const Shape& x = c.inputs[0].shape;
  const Shape& y = c.outputs[0].shape;
  const double scale = c.attrs().real("spatial_scale", 1);
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    parallel_for(y[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const Region region = read_region(c.inputs[1].as<T>() + r * 5, scale, x[0]);
        T* out = c.outputs[0].as<T>() + r * y[1] * y[2] * y[3];
        for (int64_t channel = 0; channel < y[1]; ++channel) {
          const T* plane = c.inputs[0].as<T>() + (region.batch * x[1] + channel) * x[2] * x[3];
          for (int64_t i = 0; i < y[2]; ++i) {
            const Cell rows = cell_range(i, y[2], region.y0, region.height, x[2]);
            for (int64_t j = 0; j < y[3]; ++j) {
              const Cell columns = cell_range(j, y[3], region.x0, region.width, x[3]);
              const bool empty = rows.begin >= rows.end || columns.begin >= columns.end;
              T best = empty ? T(0.0f) : plane[rows.begin * x[3] + columns.begin];
              for (int64_t h = rows.begin; h < rows.end; ++h) {
                for (int64_t w = columns.begin; w < columns.end; ++w) best = std::max(best, plane[h * x[3] + w]);
              }
              *out++ = best;
            }
          }
        }
      }
    });
  });
}

void infer(InferContext& c) {
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  if (c.dtype(1) != c.dtype(0)) fail("regions are {}, expected {}", name(c.dtype(1)), name(c.dtype(0)));
  if (c.rank(0) != 4) fail("input has shape {}, expected four dimensions", c.shape(0).str());
  if (c.rank(1) != 2 || c.shape(1)[1] != 5) fail("regions have shape {}, expected [n,5]", c.shape(1).str());
  const std::vector<int64_t> grid = c.attrs.integers("pooled_shape");
  if (grid.size() != 2 || grid[0] < 1 || grid[1] < 1) fail("pooled_shape does not hold two positive sizes");
  c.output(0, c.dtype(0), Shape{c.shape(1)[0], c.shape(0)[1], grid[0], grid[1]});
}

std::vector<OpCase> cases() {
  const std::vector<int64_t> grid{2, 3};
  const CaseInput regions = CaseInput::value(Tensor::of<float>({3, 5}, {0, 0, 0, 6, 5, 1, 2, 1, 9, 9, 0, 4, 4, 3, 3}));
  return {{"plain", {CaseInput::of({2, 3, 8, 9}), regions}, {{"pooled_shape", grid}}},
          {"scaled", {CaseInput::of({2, 3, 5, 4}), regions}, {{"pooled_shape", grid}, {"spatial_scale", 0.5f}}}};
}

constexpr AttrSpec kAttrs[] = {{"pooled_shape", AttrType::integers, true}, {"spatial_scale", AttrType::real}};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {{.name = "MaxRoiPool",
                       .doc = "The largest element of each cell of a grid over regions of interest.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .infer = infer,
                       .cpu = kCpu,
                       .no_gradient = no_gradient::kPlaces,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::max_roi_pool_ops
