// A network that learns to follow a road within minutes on a processor: a map of the picture whose places stay apart,
// how far the ground moved between the two pictures, and a path that follows the lane.
#include <algorithm>
#include <cmath>
#include <numeric>

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
constexpr int64_t kRows = 192, kColumns = 32, kShifts = 84, kNear = kRows - kShifts;
constexpr double kNearest = 5.6, kLong = 0.1, kWide = 0.2;               // m: where it begins, and a cell
constexpr double kApart = 0.2;                                           // s between the pictures
constexpr double kTurns[] = {-0.03, -0.02, -0.01, 0, 0.01, 0.02, 0.03};  // radians between the pictures
constexpr int64_t kTop = 45, kBottom = 124, kHeight = kBottom - kTop;    // the rows of the image that the grid needs
// A row is compared with its neighbours, so many before and behind it, and within one step of luma: the asphalt's
// texture is that faint, and what is bright, lines and edges, stands still in the picture.
constexpr int64_t kNeighbours = 4;
constexpr int64_t kTogether = 4;  // shifts that are one feature
constexpr int64_t kStill = 8;     // shifts at which what stands still in the picture is alike, wherever the ground went
// Over a crest, through a dip or when the car pitches, the ground moves by more or less than a flat one, by the square
// of its distance: so many rows at kFarthest, which all rows of a band take as one.
constexpr int64_t kBends[] = {-4, -2, 0, 2, 4};
constexpr int64_t kBand = 9, kBands = kNear / kBand, kReach = kShifts + 4;
constexpr double kFarthest = kNearest + kLong * kNear;
constexpr double kFaint = 1, kSharpness = 40;
// Of each camera's image so many rows are looked at: from above the horizon (23.8 and 75.9) to the road 10 m and 5.4 m
// ahead. What is 40 to 200 m ahead is so low that a row has to stay one for longer than a column.
constexpr int64_t kRoadRows = 16, kWideRows = 64, kLooked = 64;

// In the hidden state the speed stands behind the others, in this unit, then a number that says that there is one:
// before a drive's second picture it is zero. What the outputs add to is usual at this speed.
constexpr int64_t kHiddenState = 512;
constexpr double kSpeedUnit = 64, kThere = 0.125, kUsualSpeed = 20;

// relu(x + conv(relu(conv(x)))).
ValueId residual(Layers& l, std::string_view name, ValueId x) {
  const Layers::Scope scope(l, name);
  const int64_t width = l.shape(x)[1];
  const ValueId inner = l.relu(l.conv("conv1", x, {.out = width, .kernel = 3, .gain = kReluGain}));
  return l.relu(l.add(l.conv("conv2", inner, {.out = width, .kernel = 3, .gain = 0.3 * kReluGain}), x));
}

// Where to look for each cell's middle: at four places of the picture, two of its rows above each other by two columns
// next to each other, and how much of each. Luma lies by even and odd rows of the picture.
struct Cells {
  Tensor rows{DType::i32, Shape{2, kRows, 1}}, row_shares{DType::f16, Shape{2, kRows, 1}};
  Tensor right{DType::u8, Shape{1, 1, kRows, kColumns}};          // the right one of the two columns
  Tensor right_shares{DType::f16, Shape{1, 1, kRows, kColumns}};  // the left one has the rest
};
Cells ground_cells() {
  Cells cells;
  const auto put = [](Tensor& shares, int64_t at, double value) {
    shares.data<Half>()[static_cast<size_t>(at)] = Half(static_cast<float>(value));
  };
  for (int64_t row = 0; row < kRows; ++row) {
    const double ahead = kNearest + kLong * static_cast<double>(row);
    const double y = kCentreY + kFocal * kCamera / ahead - 2 * kTop, above = std::floor(y);
    for (const int64_t which : {0, 1}) {
      const int64_t at = static_cast<int64_t>(above) + which, cell = which * kRows + row;
      put(cells.row_shares, cell, which == 0 ? 1 - (y - above) : y - above);
      cells.rows.data<int32_t>()[static_cast<size_t>(cell)] =
          static_cast<int32_t>((at % 2 * kHeight + std::min(at / 2, kHeight - 1)) * kWidth);
    }
    for (int64_t column = 0; column < kColumns; ++column) {
      const double aside = kWide * (static_cast<double>(column) - 0.5 * (kColumns - 1));
      const double x = (kCentreX + kFocal * aside / ahead + 0.5) / (2 * kPixels) - 0.5;
      const double left = std::clamp(std::floor(x), -1.0, kWidth - 1.0);
      put(cells.right_shares, row * kColumns + column, std::clamp(x - left, 0.0, 1.0));
      cells.right.data<uint8_t>()[static_cast<size_t>(row * kColumns + column)] = static_cast<uint8_t>(left + 1);
    }
  }
  return cells;
}

ValueId slice(Layers& l, ValueId x, int64_t axis, int64_t begin, int64_t end) {
  return l.node("Slice", {x, l.ints({begin}), l.ints({end}), l.ints({axis})});
}

// Zeros, and a one at a place.
ValueId one_at(Layers& l, int64_t size, size_t place) {
  Tensor only = Tensor::zeros(DType::f16, Shape{size});
  only.data<Half>()[place] = Half(1);
  return l.constant(only);
}

ValueId whole(Layers& l, int32_t value) {
  Tensor tensor(DType::i32, Shape{});
  tensor.data<int32_t>()[0] = value;
  return l.constant(tensor);
}

// The texture of the ground in both pictures from above, the earlier one first: [1, 2, kRows, kColumns], each row's sum
// 0.
ValueId ground(Layers& l, ValueId road) {
  // A near cell is many pixels wide, the farthest four. Planes: even and odd rows of even columns, then of odd ones.
  const ValueId below = l.reshape(slice(l, road, 2, kTop, kBottom), {1, 2, kPlanes, kHeight * kWidth, kPixels});
  const ValueId luma = l.cast(slice(l, below, 2, 0, kLuma), DType::f16);
  const ValueId by_row = l.reshape(luma, {1, 2, 2, 2 * kHeight * kWidth, kPixels});
  const ValueId mean = l.node("ReduceMean", {by_row}, {{"axes", std::vector<int64_t>{2, 4}}, {"keepdims", int64_t{0}}});
  const Cells cells = ground_cells();
  const ValueId right = l.cast(l.constant(cells.right), DType::i32);
  const ValueId both = l.concat({l.add(right, whole(l, -1)), right}, 0);
  const ValueId places = l.add(l.node("Clip", {both, whole(l, 0), whole(l, kWidth - 1)}), l.constant(cells.rows));
  const ValueId part = l.constant(cells.right_shares);
  const ValueId columns = l.concat({l.node("Sub", {l.scalar(1), part}), part}, 0);
  const ValueId shares = l.mul(columns, l.constant(cells.row_shares));
  const ValueId taps = l.mul(l.node("Gather", {mean, places}, {{"axis", int64_t{2}}}), shares);
  const ValueId grid = l.node("ReduceSum", {taps, l.ints({2, 3})}, {{"keepdims", int64_t{0}}});
  const ValueId around = l.node("AveragePool", {grid},
                                {{"kernel_shape", std::vector<int64_t>{2 * kNeighbours + 1, 1}},
                                 {"pads", std::vector<int64_t>{kNeighbours, 0, kNeighbours, 0}}});
  const ValueId faint = l.node("Clip", {l.node("Sub", {grid, around}), l.scalar(-kFaint), l.scalar(kFaint)});
  return l.node("Sub", {faint, l.node("ReduceMean", {faint}, {{"axes", std::vector<int64_t>{3}}})});
}

// Where each cell of the earlier picture is looked up if the car turned by each of kTurns in between: [kTurns, kRows,
// kColumns], places in a row-major grid. Nodes make it: as a constant it would be a tenth of the file.
ValueId turned_cells(Layers& l) {
  Tensor aside(DType::i8, Shape{std::ssize(kTurns), kRows, 1}), columns(DType::i32, Shape{kColumns});
  Tensor begins(DType::i32, Shape{kRows, 1});
  auto to = aside.data<int8_t>().begin();
  for (const double turn : kTurns) {
    for (int64_t row = 0; row < kRows; ++row) {
      *to++ = static_cast<int8_t>(std::lround(turn * (kNearest + kLong * static_cast<double>(row)) / kWide));
    }
  }
  std::iota(columns.data<int32_t>().begin(), columns.data<int32_t>().end(), 0);
  for (int64_t row = 0; row < kRows; ++row) {
    begins.data<int32_t>()[static_cast<size_t>(row)] = static_cast<int32_t>(row * kColumns);
  }
  const ValueId moved = l.add(l.cast(l.constant(aside), DType::i32), l.constant(columns));
  const ValueId within = l.node("Clip", {moved, whole(l, 0), whole(l, kColumns - 1)});
  return l.add(within, l.constant(begins));
}

// Rows of vectors [1, n, c] that become of length one.
ValueId unit_rows(Layers& l, ValueId rows) {
  const ValueId squares = l.node("ReduceSum", {l.mul(rows, rows), l.ints({2})}, {{"keepdims", int64_t{1}}});
  return l.node("Div", {rows, l.node("Sqrt", {l.add(squares, l.scalar(0.5))})});
}

// For every bend, band and shift its place among the shifts of all bands: [kBends, kBands, kShifts]. Made by nodes,
// too.
ValueId bent_shifts(Layers& l) {
  Tensor more(DType::i8, Shape{std::ssize(kBends), kBands, 1}), shifts(DType::i32, Shape{kShifts});
  Tensor begins(DType::i32, Shape{kBands, 1});
  auto to = more.data<int8_t>().begin();
  for (const int64_t bend : kBends) {
    for (int64_t band = 0; band < kBands; ++band) {
      const double middle = kNearest + kLong * (static_cast<double>(band * kBand) + 0.5 * (kBand - 1));
      *to++ = static_cast<int8_t>(std::lround(static_cast<double>(bend) * std::pow(middle / kFarthest, 2)));
      begins.data<int32_t>()[static_cast<size_t>(band)] = static_cast<int32_t>(band * kReach);
    }
  }
  std::iota(shifts.data<int32_t>().begin(), shifts.data<int32_t>().end(), 0);
  const ValueId bent = l.add(l.cast(l.constant(more), DType::i32), l.constant(shifts));
  return l.add(l.node("Clip", {bent, whole(l, 0), whole(l, kReach - 1)}), l.constant(begins));
}

// How far the ground moved towards the car: `size` features of it, and the car's speed in m/s, [1, 1]. The rows of both
// pictures are compared for every turn and every shift, and the likenesses of all rows are added up, for every bend,
// before the best shift is looked for: alone a row of asphalt is like many others.
RoadFeatures ground_motion(Layers& l, ValueId road, int64_t size) {
  const Layers::Scope scope(l, "ground");
  const int64_t turns = std::ssize(kTurns), bends = std::ssize(kBends);
  const std::vector<ValueId> pictures = l.nodes("Split", {ground(l, road), l.ints({1, 1})}, {{"axis", int64_t{1}}}, 2);
  const ValueId now = unit_rows(l, slice(l, l.reshape(pictures[1], {1, kRows, kColumns}), 1, 0, kNear));
  const ValueId before = l.reshape(pictures[0], {1, kRows * kColumns});
  const ValueId turned = l.node("Gather", {before, turned_cells(l)}, {{"axis", int64_t{1}}});
  const ValueId rows = unit_rows(l, l.reshape(turned, {1, turns * kRows, kColumns}));
  const ValueId alike = l.node("MatMul", {now, l.transpose(rows, {0, 2, 1})});
  // Row r's value for row r + s, as column s: rows one element longer begin one element later.
  const Tensor none = Tensor::zeros(DType::f16, Shape{1, kNear});
  const ValueId longer = l.concat({l.reshape(alike, {1, kNear * turns * kRows}), l.constant(none)}, 1);
  const ValueId later = slice(l, l.reshape(longer, {1, kNear, turns * kRows + 1}), 2, 0, turns * kRows);
  const ValueId shifted = slice(l, l.reshape(later, {1, kNear, turns, kRows}), 3, 0, kReach);
  const ValueId weighted = l.mul(shifted, l.uniform("rows", Shape{kNear, 1, 1}, 0.1, 1));
  const auto mean = [&](ValueId x, int64_t axis) {
    return l.node("ReduceMean", {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{0}}});
  };
  const auto sum = [&](ValueId x, int64_t axis) {
    return l.node("ReduceSum", {x, l.ints({axis})}, {{"keepdims", int64_t{0}}});
  };
  const ValueId bands = mean(l.reshape(weighted, {1, kBands, kBand, turns * kReach}), 2);
  const ValueId by_turn = l.transpose(l.reshape(bands, {1, kBands, turns, kReach}), {0, 2, 1, 3});
  const ValueId bent =
      l.node("Gather", {l.reshape(by_turn, {1, turns, kBands * kReach}), bent_shifts(l)}, {{"axis", int64_t{2}}});
  Tensor unfair = Tensor::zeros(DType::f16, Shape{kShifts}), speeds(DType::f16, Shape{kShifts});
  std::fill_n(unfair.data<Half>().begin(), kStill, Half(-0.1F));
  for (int64_t i = 0; i < kShifts; ++i) {
    speeds.data<Half>()[static_cast<size_t>(i)] = Half(static_cast<float>(kLong / kApart * static_cast<double>(i)));
  }
  const ValueId sharp = l.mul(l.add(mean(bent, 3), l.constant(unfair)), l.scalar(kSharpness));
  const ValueId flat = l.reshape(sharp, {1, turns * bends * kShifts});
  const ValueId shares = l.reshape(l.node("Softmax", {flat}, {{"axis", int64_t{-1}}}), {1, turns, bends, kShifts});
  const ValueId of_bends = sum(shares, 1), by_shift = sum(of_bends, 1);
  const ValueId speed = l.reshape(sum(l.mul(by_shift, l.constant(speeds)), 1), {1, 1});
  const ValueId coarse = sum(l.reshape(by_shift, {1, kShifts / kTogether, kTogether}), 2);
  const ValueId of_turns = sum(sum(shares, 3), 2);
  const ValueId seen = l.concat({coarse, of_turns, sum(of_bends, 2), l.mul(speed, l.scalar(0.1))}, 1);
  const ValueId features = l.relu(l.linear("fc2", l.relu(l.linear("fc1", seen, size, kReluGain)), size, kReluGain));
  // A drive's first picture has no earlier one, which is all zero: no texture at all.
  const ValueId texture = l.reshape(sum(l.mul(before, before), 1), {1, 1});
  const ValueId there = l.node("Clip", {texture, l.scalar(0), l.scalar(1)});
  return {features, l.add(speed, l.linear("speed", features, 1, 0.1)), there};
}

}  // namespace

RoadFeatures road_trunk(Layers& l, const ZooImages& images, const RoadSize& size) {
  const ValueId road = l.graph().add_input(images.road, images.dtype, Shape{1, 2 * kPlanes, 128, 256});
  const ValueId wide = l.graph().add_input(images.wide, images.dtype, Shape{1, 2 * kPlanes, 128, 256});
  const Layers::Scope scope(l, "vision");
  const auto looked_at = [&](ValueId pictures, int64_t top) {
    return slice(l, slice(l, pictures, 1, kPlanes, 2 * kPlanes), 2, top, top + kLooked);
  };
  const ValueId now = l.concat({looked_at(road, kRoadRows), looked_at(wide, kWideRows)}, 1);
  // Not folded into the stem's weights, as exporters do: they would be so small that a training step of the others'
  // size kills nearly all of the stem's channels.
  const ValueId pixels = l.cast(now, DType::f16);
  const ValueId centred = l.mul(l.node("Sub", {pixels, l.scalar(kPixelMean)}), l.scalar(1 / kPixelDeviation));
  ValueId x = l.relu(
      l.conv("stem", centred, {.out = size.widths[0], .kernel = 4, .stride = 4, .row_stride = 2, .gain = kReluGain}));
  for (size_t stage = 1; stage < size.widths.size(); ++stage) {
    const Layers::Scope stages(l, fmt::format("stages.{}", stage));
    x = l.relu(l.conv("downsample", x, {.out = size.widths[stage], .kernel = 3, .stride = 2, .gain = kReluGain}));
    x = residual(l, "block", x);
  }
  const ValueId map = l.relu(l.conv("map", x, {.out = size.map, .gain = kReluGain}));
  const ValueId places = l.node("Flatten", {map}, {{"axis", int64_t{1}}});
  const RoadFeatures motion = ground_motion(l, road, size.motion);
  return {l.concat({places, motion.features}, 1), motion.speed, motion.there};
}

ValueId remember_speed(Layers& l, ValueId summary, ValueId pose, ValueId there) {
  const Layers::Scope scope(l, "hidden_state");
  const ValueId rest = l.l2_normalize(l.linear("rest", summary, kHiddenState - 2));
  const ValueId speed = slice(l, pose, 1, 0, 1);
  return l.concat({rest, l.mul(speed, l.scalar(1 / kSpeedUnit)), l.mul(there, l.scalar(kThere))}, 1);
}

ValueId add_speed(Layers& l, ValueId pose, ValueId speed) {
  const ValueId more = l.node("Sub", {speed, l.scalar(kUsualSpeed)});
  return l.add(pose, l.mul(more, one_at(l, l.shape(pose)[1], 0)));
}

namespace {

// Lines fitted by least squares to the last speeds, of so many frames before this one: single differences from it are
// alike and hard to learn from.
constexpr int64_t kFits[] = {3, 6, 12};
constexpr double kSlopeTime = 4;  // s: a slope is how much the speed changes in that time

// What of the differences from the newest speed, oldest first, each line says of now, and its slope: [past, fits].
struct Trends {
  Tensor level, slope, oldest;  // and the first frame of each line
};
Trends speed_trends(int64_t past) {
  const int64_t fits = std::ssize(kFits);
  Trends out{Tensor::zeros(DType::f16, Shape{past, fits}), Tensor::zeros(DType::f16, Shape{past, fits}),
             Tensor(DType::i64, Shape{fits})};
  for (int64_t i = 0; i < fits; ++i) {
    const int64_t count = std::min(kFits[i], past);
    const auto points = static_cast<double>(count + 1);
    // Times -count to 0 in frames: their mean, and the sum of squares around it.
    const double mean = -0.5 * static_cast<double>(count), squares = points * (points * points - 1) / 12;
    out.oldest.data<int64_t>()[static_cast<size_t>(i)] = past - count;
    for (int64_t back = 1; back <= count; ++back) {
      const double slope = (-static_cast<double>(back) - mean) / squares;
      const auto at = static_cast<size_t>((past - back) * fits + i);
      out.slope.data<Half>()[at] = Half(static_cast<float>(slope * kSlopeTime / kApart));
      out.level.data<Half>()[at] = Half(static_cast<float>(1 / points - slope * mean));
    }
  }
  return out;
}

}  // namespace

ValueId follow_speed(Layers& l, ValueId plan, ValueId features) {
  constexpr int64_t kPoints = 33, kPlan = 15;
  const Layers::Scope scope(l, "follow_speed");
  const int64_t rows = l.shape(features)[1], past = rows - 1;
  const auto column = [&](int64_t at, double unit) {
    return l.mul(l.reshape(slice(l, features, 2, at, at + 1), {1, rows}), l.scalar(unit));
  };
  const ValueId speeds = column(kHiddenState - 2, kSpeedUnit), there = column(kHiddenState - 1, 1 / kThere);
  const ValueId now = slice(l, speeds, 1, past, rows);
  const ValueId differences = l.reshape(l.node("Sub", {slice(l, speeds, 1, 0, past), now}), {1, past, 1});
  const Trends trends = speed_trends(past);
  // What is fitted to more than there is counts nothing.
  const ValueId filled = l.node("Gather", {there, l.constant(trends.oldest)}, {{"axis", int64_t{1}}});
  const auto fitted = [&](const Tensor& shares) {
    const ValueId sum =
        l.node("ReduceSum", {l.mul(differences, l.constant(shares)), l.ints({1})}, {{"keepdims", int64_t{0}}});
    return l.mul(sum, filled);
  };
  const ValueId level = fitted(trends.level), slope = fitted(trends.slope);
  const ValueId usual = l.node("Sub", {now, l.scalar(kUsualSpeed)});
  Tensor times(DType::f16, Shape{kPoints});
  for (int64_t i = 0; i < kPoints; ++i) {
    times.data<Half>()[static_cast<size_t>(i)] =
        Half(static_cast<float>(10 * std::pow(static_cast<double>(i) / 32, 2)));
  }
  const auto placed = [&](ValueId values, size_t place) {
    return l.mul(l.reshape(values, {1, kPoints, 1}), one_at(l, kPlan, place));
  };
  const auto at_times = [&](std::string_view name) {
    const Layers::Scope of(l, name);
    const ValueId share = l.uniform("level", Shape{std::ssize(kFits), kPoints}, 0.05, 1.0 / std::ssize(kFits));
    l.graph().value(share).name += ".weight";  // a layer's path, not that of the slopes' module; drawn as "level"
    return l.add(l.add(usual, l.node("MatMul", {level, share})), l.linear("slope", slope, kPoints, 0.05));
  };
  const ValueId mean = at_times("mean"), then = at_times("then");  // until each time, and at it
  const ValueId both = l.add(placed(l.mul(mean, l.constant(times)), 0), placed(then, 3));
  const Tensor none = Tensor::zeros(DType::f16, Shape{1, kPoints * kPlan});
  return l.add(plan, l.concat({l.reshape(both, {1, kPoints * kPlan}), l.constant(none)}, 1));
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
  const ValueId means = l.reshape(l.mul(change, one_at(l, kPlan, 1)), {1, kPoints * kPlan});
  const Tensor none = Tensor::zeros(DType::f16, Shape{1, kPoints * kPlan});
  return l.add(plan, l.concat({means, l.constant(none)}, 1));
}

}  // namespace sparkpilot
