#include "sim/extract.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"

namespace sparkpilot::sim {
namespace {

constexpr std::string_view kKinds[] = {"curve", "lane_change", "stop", "lead", "piece"};

constexpr double kGrid = 0.05;                      // s
constexpr double kMotionGap = 0.25, kYawGap = 0.6;  // s: the longest that are bridged
constexpr double kStanding = 0.3;                   // m/s
constexpr double kSmoothing = 0.25;                 // s: standard deviation of the Gaussian over yaw rate and speed
constexpr double kTurning = 0.6, kClosing = 1, kFarthest = 100;  // m/s^2, m/s, m
// What sim/scenario_file.h takes.
constexpr double kFastest = 70, kLeadNearest = 0.01, kLeadFarthest = 1000;
constexpr double kStopFrom = 5, kStopLookback = 30;  // m/s, s
constexpr double kShortest = 4, kLongest = 600;      // s
constexpr double kLongestDrive = 48 * 3600;          // s
// Of the cars ahead in a course: the longest time without one that is bridged, the least that one stays, s; and by how
// much the gap may differ from what the speeds make of it before it is another car's, m and as a share.
constexpr double kLeadGap = 0.55, kLeadStays = 0.5, kLeadJump = 4, kLeadJumpShare = 0.1;

enum class Status : char { good, bad, overridden, standstill };

struct Grid {
  std::vector<Status> status;
  std::vector<double> speed, curvature, roll;
  std::vector<char> turning, changing, closing;
  std::vector<std::optional<ExtractedCourse::LeadAt>> lead;
  // The car ahead of a course: its number, -1 for none; gap in m, speed in m/s.
  std::vector<int> car;
  std::vector<double> car_gap, car_speed;
  size_t size() const { return status.size(); }
};

double seconds_of(uint64_t time, uint64_t origin) {
  return static_cast<double>(static_cast<int64_t>(time - origin)) * 1e-9;
}

// Between the samples around `time`, if they are no further apart than `gap`.
template <class T, class Value>
std::optional<double> between(const drive::Samples<T>& samples, uint64_t time, double gap, const Value& value) {
  const auto after =
      std::partition_point(samples.begin(), samples.end(), [&](const auto& item) { return item.first < time; });
  if (after == samples.end()) return {};
  if (after->first == time) return value(after->second);
  if (after == samples.begin()) return {};
  const auto before = std::prev(after);
  const double width = seconds_of(after->first, before->first);
  if (width > gap) return {};
  const double low = value(before->second), part = seconds_of(time, before->first) / width;
  return low + (value(after->second) - low) * part;
}

Status status_of(const drive::CarSignals& signals, uint64_t time, bool numbers, double speed) {
  const drive::MotionSample* const motion = signals.motion.at(time);
  if (!numbers || motion == nullptr || !motion->usable) return Status::bad;
  const bool* const enabled = signals.enabled.at(time);
  if (enabled != nullptr && *enabled && (motion->steering_pressed || motion->pedal_pressed)) return Status::overridden;
  return speed < kStanding ? Status::standstill : Status::good;
}

// Zero-phase: a Gaussian over the neighbours that have a value.
std::vector<double> smoothed(const std::vector<double>& values, const std::vector<char>& known) {
  constexpr int kReach = static_cast<int>(3 * kSmoothing / kGrid);
  double weights[kReach + 1];
  for (int k = 0; k <= kReach; ++k) weights[k] = std::exp(-0.5 * std::pow(k * kGrid / kSmoothing, 2));
  std::vector<double> out(values.size());
  const auto count = std::ssize(values);
  for (int64_t i = 0; i < count; ++i) {
    // As far to both sides, so that the ends of a stretch are not drawn inwards.
    int64_t reach = 0;
    while (reach < kReach && i - reach - 1 >= 0 && i + reach + 1 < count && known[static_cast<size_t>(i - reach - 1)] &&
           known[static_cast<size_t>(i + reach + 1)]) {
      ++reach;
    }
    double sum = 0, weight = 0;
    for (int64_t k = -reach; k <= reach; ++k) {
      const double w = weights[std::abs(k)];
      sum += w * values[static_cast<size_t>(i + k)];
      weight += w;
    }
    out[static_cast<size_t>(i)] = sum / weight;
  }
  return out;
}

// Samples of one car ahead, with the car's own speed at their times.
struct CarAhead {
  struct At {
    double time, gap, speed, own_speed;  // s, m, m/s
  };
  std::vector<At> at;
};

// Whether the sample can be of the same car.
bool goes_on(const CarAhead::At& last, const CarAhead::At& now) {
  const double seconds = now.time - last.time;
  if (seconds > kLeadGap) return false;
  const double closing = 0.5 * (last.own_speed - last.speed + now.own_speed - now.speed);
  return std::abs(now.gap - last.gap + closing * seconds) <= std::max(kLeadJump, kLeadJumpShare * last.gap);
}

std::vector<CarAhead> cars_ahead(const drive::CarSignals& signals, uint64_t origin) {
  std::vector<CarAhead> cars;
  for (const auto& [time, lead] : signals.lead) {
    const drive::MotionSample* const motion = signals.motion.at(time);
    if (!lead.there || motion == nullptr || lead.gap < kLeadNearest || lead.gap > kLeadFarthest) continue;
    const CarAhead::At now{seconds_of(time, origin), lead.gap, std::clamp(lead.speed, 0.0, kFastest), motion->speed};
    if (!cars.empty() && now.time <= cars.back().at.back().time) continue;
    if (cars.empty() || !goes_on(cars.back().at.back(), now)) cars.emplace_back();
    cars.back().at.push_back(now);
  }
  return cars;
}

void put_cars(const std::vector<CarAhead>& cars, Grid& grid) {
  grid.car.assign(grid.size(), -1);
  grid.car_gap.assign(grid.size(), 0);
  grid.car_speed.assign(grid.size(), 0);
  for (size_t number = 0; number < cars.size(); ++number) {
    const std::vector<CarAhead::At>& at = cars[number].at;
    size_t behind = 0;
    for (auto i = static_cast<size_t>(std::ceil(std::max(at.front().time, 0.0) / kGrid)); i < grid.size(); ++i) {
      const double time = static_cast<double>(i) * kGrid;
      while (behind < at.size() && at[behind].time < time) ++behind;
      if (behind == at.size()) break;
      const CarAhead::At &b = at[behind], &a = at[behind == 0 ? 0 : behind - 1];
      const double part = behind == 0 ? 0 : (time - a.time) / (b.time - a.time);
      grid.car[i] = static_cast<int>(number);
      grid.car_gap[i] = a.gap + part * (b.gap - a.gap);
      grid.car_speed[i] = a.speed + part * (b.speed - a.speed);
    }
  }
}

Grid grid_of(const drive::CarSignals& signals) {
  Grid grid;
  if (signals.motion.empty()) return grid;
  const uint64_t origin = signals.motion.begin()->first;
  const double end = seconds_of(std::prev(signals.motion.end())->first, origin);
  if (end > kLongestDrive) {
    fail("carState goes over {:.0f} s, expected at most {:.0f}: is a time in the log damaged?", end, kLongestDrive);
  }
  std::vector<double> yaw_rate, raw_speed;
  std::vector<char> known;
  for (size_t i = 0; static_cast<double>(i) * kGrid <= end; ++i) {
    const uint64_t time = origin + i * static_cast<uint64_t>(kGrid * 1e9);
    const auto speed = between(signals.motion, time, kMotionGap, [](const auto& m) { return m.speed; });
    const auto yaw = between(signals.yaw_rate, time, kYawGap, [](double rate) { return rate; });
    known.push_back(speed && yaw);
    raw_speed.push_back(speed.value_or(0));
    yaw_rate.push_back(yaw.value_or(0));
    grid.status.push_back(status_of(signals, time, speed && yaw, raw_speed.back()));
    const drive::ParameterSample* const parameters = signals.parameters.at(time);
    grid.roll.push_back(parameters == nullptr ? 0 : parameters->roll);
    const bool* const changing = signals.lane_change.at(time);
    grid.changing.push_back(changing != nullptr && *changing);
    const drive::LeadSample* const lead = signals.lead.at(time);
    const bool ahead = lead != nullptr && lead->there && lead->gap > 0 && lead->gap <= kFarthest;
    grid.lead.push_back(ahead ? std::optional(ExtractedCourse::LeadAt{lead->gap, std::max(lead->speed, 0.0)})
                              : std::nullopt);
    grid.closing.push_back(ahead && raw_speed.back() - lead->speed >= kClosing);
  }
  const std::vector<double> yaw = smoothed(yaw_rate, known);
  grid.speed = smoothed(raw_speed, known);
  for (size_t i = 0; i < grid.size(); ++i) {
    const double v = grid.speed[i] = std::max(grid.speed[i], 0.0), curvature = yaw[i] / std::max(v, 1.0);
    grid.curvature.push_back(curvature);
    grid.turning.push_back(std::abs(curvature) * v * v >= kTurning);
    const bool possible = std::abs(curvature) <= 0.2 && std::abs(curvature) * v * v <= 12 && v <= kFastest;
    if (!possible && grid.status[i] != Status::bad) grid.status[i] = Status::bad;
  }
  put_cars(cars_ahead(signals, origin), grid);
  return grid;
}

struct Piece {
  size_t begin, end;  // of the grid
};
size_t steps(double seconds) { return static_cast<size_t>(std::lround(seconds / kGrid)); }

// Where the mask is set for `least` seconds or more, with gaps of less than `gap` filled, and `aside` seconds before
// and after.
std::vector<Piece> marked(const std::vector<char>& mask, double least, double gap, double aside) {
  std::vector<Piece> runs;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (!mask[i]) continue;
    const size_t begin = i;
    while (i < mask.size() && mask[i]) ++i;
    if (!runs.empty() && begin - runs.back().end < steps(gap)) runs.back().end = i;
    else runs.push_back({begin, i});
  }
  std::vector<Piece> out;
  for (const Piece& run : runs) {
    if (run.end - run.begin < steps(least)) continue;
    out.push_back({run.begin - std::min(run.begin, steps(aside)), std::min(run.end + steps(aside), mask.size())});
  }
  return out;
}

// From the greatest speed before a standstill, 2 s earlier if there are, to the standstill.
std::vector<Piece> stops(const Grid& grid) {
  std::vector<Piece> out;
  for (size_t i = 1; i < grid.size(); ++i) {
    if (grid.status[i] != Status::standstill || grid.status[i - 1] == Status::standstill) continue;
    size_t fastest = i;
    for (size_t back = i; back > 0 && i - back < steps(kStopLookback); --back) {
      if (grid.status[back - 1] == Status::standstill) break;
      if (grid.speed[back - 1] > 1.02 * grid.speed[fastest]) fastest = back - 1;  // the end of a steady drive
    }
    if (grid.speed[fastest] >= kStopFrom) out.push_back({fastest - std::min(fastest, steps(2)), i});
  }
  return out;
}

std::vector<Piece> pieces(const Grid& grid, double seconds) {
  std::vector<Piece> out;
  const size_t length = steps(seconds);
  for (size_t i = 0; i < grid.size();) {
    size_t end = i;
    while (end < grid.size() && end - i < length && grid.status[end] == Status::good) ++end;
    if (end - i == length) out.push_back({i, end});
    i = std::max(end, i + 1);
  }
  return out;
}

// The longest part of it that a course may hold.
Piece good_part(const Grid& grid, const Piece& piece) {
  Piece best{piece.begin, piece.begin};
  for (size_t i = piece.begin; i < piece.end; ++i) {
    if (grid.status[i] != Status::good) continue;
    const size_t begin = i;
    while (i < piece.end && grid.status[i] == Status::good) ++i;
    if (i - begin > best.end - best.begin) best = {begin, i};
  }
  best.end = std::min(best.end, best.begin + steps(kLongest));
  return best;
}

// The cars ahead of the piece, but for those that do not stay.
void add_leads(const Grid& grid, const Piece& piece, ExtractedCourse& course) {
  const size_t rows = piece.end - piece.begin;
  std::vector<std::optional<double>> speed(rows), gap(rows);
  double error = 0;
  for (size_t i = piece.begin; i < piece.end;) {
    const size_t begin = i;
    while (i < piece.end && grid.car[i] == grid.car[begin]) ++i;
    if (grid.car[begin] < 0 || i - begin < steps(kLeadStays)) continue;
    double follows = grid.car_gap[begin];
    gap[begin - piece.begin] = follows;
    for (size_t k = begin; k < i; ++k) {
      speed[k - piece.begin] = grid.car_speed[k];
      const auto opening = [&](size_t at) { return grid.car_speed[at] - grid.speed[at]; };
      if (k > begin) follows += 0.5 * kGrid * (opening(k - 1) + opening(k));
      error = std::max(error, std::abs(follows - grid.car_gap[k]));
    }
    ++course.leads;
  }
  if (course.leads == 0) return;
  course.lead_gap_error = error;
  course.table.lead_speed = std::move(speed);
  course.table.lead_gap = std::move(gap);
}

ExtractedCourse course_of(const Grid& grid, const Piece& piece, std::string kind) {
  ExtractedCourse course;
  course.kind = std::move(kind);
  course.begin = static_cast<double>(piece.begin) * kGrid;
  course.seconds = static_cast<double>(piece.end - piece.begin - 1) * kGrid;
  for (size_t i = piece.begin; i < piece.end; ++i) {
    course.table.time.push_back(static_cast<double>(i - piece.begin) * kGrid);
    course.table.speed.push_back(grid.speed[i]);
    course.table.curvature.push_back(grid.curvature[i]);
    course.table.roll.push_back(grid.roll[i]);
  }
  add_leads(grid, piece, course);
  course.lead_first = grid.lead[piece.begin];
  course.lead_last = grid.lead[piece.end - 1];
  return course;
}

}  // namespace

std::span<const std::string_view> course_kinds() { return kKinds; }

Extraction extract_courses(const drive::CarSignals& signals, const ExtractOptions& options) {
  for (const std::string& kind : options.kinds) {
    if (std::ranges::find(kKinds, kind) == std::end(kKinds)) {
      fail("no kind of course is named \"{}\"{}; expected curve, lane_change, stop, lead or piece", kind,
           did_you_mean(kind, {std::begin(kKinds), std::end(kKinds)}));
    }
  }
  if (!(options.piece_seconds >= kShortest && options.piece_seconds <= kLongest)) {
    fail("a piece of {} s, expected {:g} to {:g}", options.piece_seconds, kShortest, kLongest);
  }
  const Grid grid = grid_of(signals);
  Extraction out;
  out.seconds = static_cast<double>(grid.size()) * kGrid;
  for (const Status status : grid.status) {
    if (status == Status::bad) out.bad_seconds += kGrid;
    if (status == Status::overridden) out.overridden_seconds += kGrid;
    if (status == Status::standstill) out.standstill_seconds += kGrid;
  }
  for (const std::string_view kind : kKinds) {
    if (std::ranges::find(options.kinds, kind) == options.kinds.end()) continue;
    const std::vector<Piece> found = kind == "curve"         ? marked(grid.turning, 2, 2, 3)
                                     : kind == "lane_change" ? marked(grid.changing, 1, 1, 2)
                                     : kind == "stop"        ? stops(grid)
                                     : kind == "lead"        ? marked(grid.closing, 2, 2, 2)
                                                             : pieces(grid, options.piece_seconds);
    for (const Piece& piece : found) {
      const Piece part = good_part(grid, piece);
      if (part.end - part.begin < steps(kShortest)) ++out.too_short;
      else out.courses.push_back(course_of(grid, part, std::string(kind)));
    }
  }
  std::ranges::stable_sort(out.courses, {}, &ExtractedCourse::begin);
  return out;
}

std::string course_file_name(const ExtractedCourse& course) {
  return fmt::format("{}_{:06.1f}s.csv", course.kind, course.begin);
}

std::string course_csv(const CourseTable& table) {
  const bool leads = !table.lead_speed.empty();
  const auto field = [](const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : ""; };
  std::string text = "time_s,speed_m_per_s,curvature_per_m,roll_rad";
  text += leads ? ",lead_speed_m_per_s,lead_gap_m\n" : "\n";
  for (size_t i = 0; i < table.time.size(); ++i) {
    text += fmt::format("{:.2f},{:.4f},{:.7f},{:.5f}", table.time[i], table.speed[i], table.curvature[i] + 0.0,
                        table.roll[i] + 0.0);
    if (leads) text += fmt::format(",{},{}", field(table.lead_speed[i]), field(table.lead_gap[i]));
    text += '\n';
  }
  return text;
}

}  // namespace sparkpilot::sim
