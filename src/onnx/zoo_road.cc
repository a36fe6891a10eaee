// A trunk that learns to follow a road within minutes on a processor: a map of the picture whose places stay apart, and
// how far the ground moved between the two pictures.
#include <algorithm>
#include <cmath>

#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

constexpr double kPixelMean = 127.5, kPixelDeviation = 73.9;
// An image has half of the picture's size; the ground is looked up in four of its columns at once.
constexpr int64_t kHeight = 128, kPlanes = 6, kLuma = 4, kPixels = 4, kWidth = 256 / kPixels;

// openpilot's road frame: a pinhole camera 1.22 m above the road that looks straight ahead, in pixels of 512x256.
constexpr double kFocal = 910, kCentreX = 256, kCentreY = 47.6, kCamera = 1.22;

// The ground ahead as a grid: rows from 5.6 m on, columns from the left to the right of the lane. Between two pictures
// the ground moves by up to kShifts rows: 42 m/s if they are 0.2 s apart.
constexpr int64_t kRows = 96, kColumns = 48, kShifts = 42;
constexpr double kNearest = 5.6, kCell = 0.2;
constexpr int64_t kTop = 45, kBottom = 124;  // the rows of the image that the grid needs

// relu(x + conv(relu(conv(x)))).
ValueId residual(Layers& l, std::string_view name, ValueId x) {
  const Layers::Scope scope(l, name);
  const int64_t width = l.shape(x)[1];
  const ValueId inner = l.relu(l.conv("conv1", x, {.out = width, .kernel = 3, .gain = kReluGain}));
  return l.relu(l.add(l.conv("conv2", inner, {.out = width, .kernel = 3, .gain = 0.3 * kReluGain}), x));
}

// Where each cell's middle lies in the rows kTop to kBottom of an image; [kRows, kColumns].
Tensor ground_cells() {
  Tensor cells(DType::i32, Shape{kRows, kColumns});
  const auto nearest = [](double pixel, int64_t pixels, int64_t size) {  // of the picture
    const double middle = (pixel + 0.5) / static_cast<double>(pixels) - 0.5;
    return std::clamp<int64_t>(std::llround(middle), 0, size - 1);
  };
  int32_t* out = cells.data<int32_t>().data();
  for (int64_t row = 0; row < kRows; ++row) {
    const double ahead = kNearest + kCell * static_cast<double>(row);
    const int64_t y = nearest(kCentreY + kFocal * kCamera / ahead, 2, kHeight) - kTop;
    for (int64_t column = 0; column < kColumns; ++column) {
      const double right = kCell * (static_cast<double>(column) - 0.5 * (kColumns - 1));
      *out++ = static_cast<int32_t>(y * kWidth + nearest(kCentreX + kFocal * right / ahead, 2 * kPixels, kWidth));
    }
  }
  return cells;
}

ValueId slice(Layers& l, ValueId x, int64_t axis, int64_t begin, int64_t end) {
  return l.node("Slice", {x, l.ints({begin}), l.ints({end}), l.ints({axis})});
}

// The ground of both pictures from above, the earlier one left: [1, 1, kRows, 2 kColumns].
ValueId ground(Layers& l, ValueId road) {
  // A near cell is many pixels wide, the farthest four.
  const int64_t rows = kBottom - kTop;
  const ValueId below = l.reshape(slice(l, road, 2, kTop, kBottom), {1, 2, kPlanes, rows * kWidth, kPixels});
  const ValueId luma = l.cast(slice(l, below, 2, 0, kLuma), DType::f16);
  const ValueId mean = l.node("ReduceMean", {luma}, {{"axes", std::vector<int64_t>{2, 4}}, {"keepdims", int64_t{0}}});
  const ValueId cells = l.graph().add_constant(ground_cells(), "ground.cells");
  const ValueId grid = l.node("Gather", {mean, cells}, {{"axis", int64_t{2}}});
  const ValueId beside = l.reshape(l.transpose(grid, {0, 2, 1, 3}), {1, 1, kRows, 2 * kColumns});
  const ValueId centred = l.node("Sub", {beside, l.scalar(kPixelMean)});
  return l.mul(centred, l.scalar(2 / kPixelDeviation));
}

// Features [1, size] of how far the ground moved towards the car.
ValueId ground_motion(Layers& l, ValueId road, int64_t filters, int64_t size) {
  const Layers::Scope scope(l, "ground");
  ValueId x = l.relu(l.conv("conv1", ground(l, road), {.out = filters, .kernel = 3, .gain = kReluGain}));
  x = l.conv("conv2", x, {.out = filters / 2, .kernel = 3, .gain = kReluGain});
  const std::vector<ValueId> pictures = l.nodes("Split", {x, l.ints({kColumns, kColumns})}, {{"axis", int64_t{3}}}, 2);
  // A row's filters at all columns, as a vector of length one.
  const auto rows = [&](ValueId one) {
    const Attributes over{{"axes", std::vector<int64_t>{2, 3}}, {"keepdims", int64_t{1}}};
    const ValueId centred = l.node("Sub", {one, l.node("ReduceMean", {one}, over)});
    const ValueId flat = l.reshape(l.transpose(centred, {0, 2, 1, 3}), {1, kRows, filters / 2 * kColumns});
    const ValueId squares = l.node("ReduceSum", {l.mul(flat, flat), l.ints({2})}, {{"keepdims", int64_t{1}}});
    return l.node("Div", {flat, l.node("Sqrt", {l.add(squares, l.scalar(1e-3))})});
  };
  const ValueId before = rows(pictures[0]), now = rows(pictures[1]);
  // Which row of the earlier picture each near row resembles.
  constexpr int64_t kNear = kRows - kShifts;
  const ValueId alike = l.node("MatMul", {slice(l, now, 1, 0, kNear), l.transpose(before, {0, 2, 1})});
  const ValueId sharp = l.mul(alike, l.uniform("sharpness", Shape{kNear, 1}, 1, 10));
  const ValueId found = l.node("Softmax", {sharp}, {{"axis", int64_t{-1}}});
  // Row r's value for row r + s, as column s: rows one element longer begin one element later.
  const Tensor none = Tensor::zeros(DType::f16, Shape{1, kNear});
  const ValueId longer =
      l.concat({l.reshape(found, {1, kNear * kRows}), l.graph().add_constant(none, "ground.end")}, 1);
  const ValueId shifted = slice(l, l.reshape(longer, {1, kNear, kRows + 1}), 2, 0, kShifts);
  const Attributes over{{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}};
  const ValueId moved = l.mul(l.node("ReduceMean", {shifted}, over), l.scalar(kRows));
  return l.relu(l.linear("fc2", l.relu(l.linear("fc1", moved, size, kReluGain)), size, kReluGain));
}

}  // namespace

ValueId road_trunk(Layers& l, const ZooImages& images, const RoadSize& size) {
  const ValueId road = l.graph().add_input(images.road, images.dtype, Shape{1, 2 * kPlanes, 128, 256});
  const ValueId wide = l.graph().add_input(images.wide, images.dtype, Shape{1, 2 * kPlanes, 128, 256});
  const Layers::Scope scope(l, "vision");
  const ValueId road_now = slice(l, road, 1, kPlanes, 2 * kPlanes);
  const ValueId now = l.concat({road_now, slice(l, wide, 1, kPlanes, 2 * kPlanes)}, 1);
  ValueId x = l.relu(l.conv("stem", l.cast(now, DType::f16),
                            {.out = size.widths[0],
                             .kernel = 4,
                             .stride = 4,
                             .gain = kReluGain,
                             .mean = kPixelMean,
                             .deviation = kPixelDeviation}));
  for (size_t stage = 1; stage < size.widths.size(); ++stage) {
    const Layers::Scope stages(l, fmt::format("stages.{}", stage));
    x = l.relu(l.conv("downsample", x, {.out = size.widths[stage], .kernel = 3, .stride = 2, .gain = kReluGain}));
    x = residual(l, "block", x);
  }
  const ValueId map = l.relu(l.conv("map", x, {.out = size.map, .gain = kReluGain}));
  const ValueId places = l.node("Flatten", {map}, {{"axis", int64_t{1}}});
  return l.concat({places, ground_motion(l, road, size.filters, size.motion)}, 1);
}

}  // namespace sparkpilot
