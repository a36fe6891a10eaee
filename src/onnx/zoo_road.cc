// A network that learns to follow a road within minutes on a processor: a map of the picture whose places stay apart,
// how far the ground moved between the two pictures, and a path that follows the lane.
#include <algorithm>
#include <cmath>

#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

constexpr double kPixelMean = 127.5, kPixelDeviation = 73.9;
// An image has half of the picture's size; the ground is looked up in four of its columns at once.
constexpr int64_t kPlanes = 6, kLuma = 4, kPixels = 4, kWidth = 256 / kPixels;

// openpilot's road frame: a pinhole camera 1.22 m above the road that looks straight ahead, in pixels of 512x256.
constexpr double kFocal = 910, kCentreX = 256, kCentreY = 47.6, kCamera = 1.22;

// The ground ahead as a grid: rows from 5.6 m on, columns from the left to the right of the lane. Between two pictures
// the ground moves by up to kShifts rows: 42 m/s if they are 0.2 s apart.
constexpr int64_t kRows = 96, kColumns = 48, kShifts = 42;
constexpr double kNearest = 5.6, kCell = 0.2;
constexpr int64_t kTop = 45, kBottom = 124, kHeight = kBottom - kTop;  // the rows of the image that the grid needs

// relu(x + conv(relu(conv(x)))).
ValueId residual(Layers& l, std::string_view name, ValueId x) {
  const Layers::Scope scope(l, name);
  const int64_t width = l.shape(x)[1];
  const ValueId inner = l.relu(l.conv("conv1", x, {.out = width, .kernel = 3, .gain = kReluGain}));
  return l.relu(l.add(l.conv("conv2", inner, {.out = width, .kernel = 3, .gain = 0.3 * kReluGain}), x));
}

// Where to look for each cell's middle: in the picture's row above it and in the one below, and how much of each.
// Luma lies by even and odd rows of the picture.
struct Cells {
  Tensor places{DType::i32, Shape{2, kRows, kColumns}};
  Tensor shares{DType::f16, Shape{2, kRows, 1}};
};
Cells ground_cells() {
  Cells cells;
  for (int64_t row = 0; row < kRows; ++row) {
    const double ahead = kNearest + kCell * static_cast<double>(row);
    const double y = kCentreY + kFocal * kCamera / ahead - 2 * kTop, above = std::floor(y);
    for (const int64_t which : {0, 1}) {
      const int64_t at = static_cast<int64_t>(above) + which;
      const double share = which == 0 ? 1 - (y - above) : y - above;
      cells.shares.data<Half>()[static_cast<size_t>(which * kRows + row)] = Half(static_cast<float>(share));
      for (int64_t column = 0; column < kColumns; ++column) {
        const double right = kCell * (static_cast<double>(column) - 0.5 * (kColumns - 1));
        const double middle = (kCentreX + kFocal * right / ahead + 0.5) / (2 * kPixels) - 0.5;
        const int64_t x = std::clamp<int64_t>(std::llround(middle), 0, kWidth - 1);
        const int64_t place = (at % 2 * kHeight + std::min(at / 2, kHeight - 1)) * kWidth + x;
        cells.places.data<int32_t>()[static_cast<size_t>((which * kRows + row) * kColumns + column)] =
            static_cast<int32_t>(place);
      }
    }
  }
  return cells;
}

ValueId slice(Layers& l, ValueId x, int64_t axis, int64_t begin, int64_t end) {
  return l.node("Slice", {x, l.ints({begin}), l.ints({end}), l.ints({axis})});
}

// The ground of both pictures from above, the earlier one left: [1, 1, kRows, 2 kColumns].
ValueId ground(Layers& l, ValueId road) {
  // A near cell is many pixels wide, the farthest four. Planes: even and odd rows of even columns, then of odd ones.
  const ValueId below = l.reshape(slice(l, road, 2, kTop, kBottom), {1, 2, kPlanes, kHeight * kWidth, kPixels});
  const ValueId luma = l.cast(slice(l, below, 2, 0, kLuma), DType::f16);
  const ValueId by_row = l.reshape(luma, {1, 2, 2, 2 * kHeight * kWidth, kPixels});
  const ValueId mean = l.node("ReduceMean", {by_row}, {{"axes", std::vector<int64_t>{2, 4}}, {"keepdims", int64_t{0}}});
  const Cells cells = ground_cells();
  const ValueId places = l.constant(cells.places);
  const ValueId shares = l.constant(cells.shares);
  const ValueId both = l.mul(l.node("Gather", {mean, places}, {{"axis", int64_t{2}}}), shares);
  const ValueId grid = l.node("ReduceSum", {both, l.ints({2})}, {{"keepdims", int64_t{0}}});
  const ValueId pair = l.reshape(l.transpose(grid, {0, 2, 1, 3}), {1, 1, kRows, 2 * kColumns});
  const ValueId centred = l.node("Sub", {pair, l.scalar(kPixelMean)});
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
  const ValueId longer = l.concat({l.reshape(found, {1, kNear * kRows}), l.constant(none)}, 1);
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

ValueId follow_lane(Layers& l, ValueId plan, ValueId lines, ValueId desire) {
  constexpr int64_t kPoints = 33, kPlan = 15, kLines = 4, kLine = 2;  // values of a plan's point and of a line's
  const Layers::Scope scope(l, "follow_lane");
  // Means of the inner lines' y, at distances that grow with the square.
  const ValueId all = l.reshape(slice(l, lines, 1, 0, kLines * kPoints * kLine), {1, kLines, kPoints * kLine});
  const Attributes over{{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}};
  const ValueId both = l.node("ReduceMean", {slice(l, all, 1, 1, 3)}, over);
  const ValueId middle = slice(l, l.reshape(both, {1, kPoints, kLine}), 2, 0, 1);
  const ValueId here = slice(l, middle, 1, 0, 1);
  Tensor begins(DType::f16, Shape{1, 1, kPoints - 1}), inverses(DType::f16, Shape{1, 1, kPoints - 1});
  const auto distance = [](int64_t i) { return 192 * std::pow(static_cast<double>(i) / 32, 2); };
  for (int64_t i = 0; i + 1 < kPoints; ++i) {
    begins.data<Half>()[static_cast<size_t>(i)] = Half(static_cast<float>(distance(i)));
    inverses.data<Half>()[static_cast<size_t>(i)] = Half(static_cast<float>(1 / (distance(i + 1) - distance(i))));
  }
  // How much of each piece between two distances lies behind each point of the plan.
  const ValueId points = l.reshape(slice(l, plan, 1, 0, kPoints * kPlan), {1, kPoints, kPlan});
  const ValueId beyond = l.node("Sub", {slice(l, points, 2, 0, 1), l.constant(begins)});
  const ValueId pieces = l.mul(beyond, l.constant(inverses));
  const ValueId behind = l.node("Clip", {pieces, l.scalar(0), l.scalar(1)});
  const ValueId rises = l.node("Sub", {slice(l, middle, 1, 1, kPoints), slice(l, middle, 1, 0, kPoints - 1)});
  const ValueId along = l.add(l.node("MatMul", {behind, rises}), here);
  // From where the car is to the middle, and to another lane if that is wanted.
  const ValueId back = l.linear("back", l.reshape(here, {1, 1}), kPoints);
  const ValueId wishes = l.relu(l.linear("desire", l.reshape(desire, {1, l.shape(desire).elements()}), 8, kReluGain));
  const ValueId aside = l.reshape(l.add(back, l.linear("aside", wishes, kPoints)), {1, kPoints, 1});
  // Instead of the plan's own y.
  const ValueId change = l.node("Sub", {l.add(along, aside), slice(l, points, 2, 1, 2)});
  Tensor only_y = Tensor::zeros(DType::f16, Shape{kPlan});
  only_y.data<Half>()[1] = Half(1);
  const ValueId means = l.reshape(l.mul(change, l.constant(only_y)), {1, kPoints * kPlan});
  const Tensor none = Tensor::zeros(DType::f16, Shape{1, kPoints * kPlan});
  return l.add(plan, l.concat({means, l.constant(none)}, 1));
}

}  // namespace sparkpilot
