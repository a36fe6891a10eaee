#include "sim/challenge_route.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "sim/csv.h"

namespace sparkpilot::sim {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int64_t kRowsInUse = 500 + 49;  // to the last step that counts, and what its controller sees ahead

enum Name : size_t { kTime, kSpeed, kAcceleration, kRoll, kTarget, kSteer, kNames };

struct Column {
  std::string_view name;
  double low, high;  // beyond these the unit must be another
  std::string_view unit;
};
constexpr std::array<Column, kNames> kColumns = {{{"t", -1e12, 1e12, "s"},
                                                  {"vEgo", -20, 75, "m/s"},
                                                  {"aEgo", -20, 20, "m/s^2"},
                                                  {"roll", -0.6, 0.6, "rad"},
                                                  {"targetLateralAcceleration", -15, 15, "m/s^2"},
                                                  {"steerCommand", -10, 10, "of full steering"}}};

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : csv_(text, name), name_(name) {}

  ChallengeRoute read() {
    read_header();
    while (csv_.next()) read_row();
    if (rows_ < kChallengeStart + 2) {
      fail("{}: it has {} rows of data, expected at least {}: a controller steers from row {} on", name_, rows_,
           kChallengeStart + 2, kChallengeStart);
    }
    check_rate();
    check_speed();
    return std::move(route_);
  }

 private:
  void read_header() {
    if (!csv_.next()) fail("{}: it is empty, expected the columns of comma's controls challenge", name_);
    width_ = csv_.fields().size();
    at_.fill(kNone);
    for (size_t i = 0; i < kNames; ++i) {
      for (size_t k = 0; k < width_; ++k) {
        if (csv_.fields()[k] != kColumns[i].name) continue;
        if (at_[i] != kNone) csv_.fail_at(k, kColumns[i].name, "it is there twice");
        at_[i] = k;
      }
    }
    std::string missing;
    for (size_t i = kSpeed; i < kNames; ++i) {
      if (at_[i] == kNone) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", kColumns[i].name);
    }
    if (!missing.empty()) {
      fail("{}:{}: expected the columns vEgo, aEgo, roll, targetLateralAcceleration and steerCommand; missing: {}",
           name_, csv_.line(), missing);
    }
  }

  void read_row() {
    if (csv_.fields().size() != width_) {
      fail("{}:{}: expected {} values, one for each heading, got {}", name_, csv_.line(), width_, csv_.fields().size());
    }
    std::array<double, kNames> values = {};
    for (size_t i = 0; i < kNames; ++i) {
      if (at_[i] != kNone) values[i] = value(i);
    }
    if (at_[kTime] != kNone) check_time(values[kTime]);
    previous_line_ = csv_.line();
    if (rows_++ >= kRowsInUse) return;
    route_.roll_lataccel.push_back(std::sin(values[kRoll]) * 9.81);
    route_.v_ego.push_back(values[kSpeed]);
    route_.a_ego.push_back(values[kAcceleration]);
    route_.target.push_back(values[kTarget]);
    route_.steer.push_back(-values[kSteer]);
  }

  double value(size_t column) const {
    const Column& is = kColumns[column];
    const std::string& word = csv_.fields()[at_[column]];
    if (column == kSteer && (word.empty() || word == "nan" || word == "NaN")) {
      if (rows_ >= kChallengeStart) return std::numeric_limits<double>::quiet_NaN();
      csv_.fail_at(at_[column], is.name,
                   fmt::format("it may be missing from row {} on, this is row {}", kChallengeStart, rows_));
    }
    const double value = csv_.number(at_[column], is.name);
    if (!(value >= is.low && value <= is.high)) {
      csv_.fail_at(at_[column], is.name,
                   fmt::format("{} is not plausible, expected {} to {} {}", value, is.low, is.high, is.unit));
    }
    return value;
  }

  void check_time(double time) {
    if (rows_ == 0) first_time_ = time;
    if (rows_ > 0 && !(time > time_)) {
      csv_.fail_at(at_[kTime], "t",
                   fmt::format("times have to ascend, got {} after {} in line {}", time, time_, previous_line_));
    }
    time_ = time;
  }

  void check_rate() const {
    if (at_[kTime] == kNone) return;
    const double step = (time_ - first_time_) / static_cast<double>(rows_ - 1);
    if (!(step > 0.08 && step < 0.125)) {
      csv_.fail_at(at_[kTime], "t",
                   fmt::format("expected rows 0.1 s apart, up to here they are {:.4g} s apart on average", step));
    }
  }

  // Speed in km/h or mph changes 3.6 or 2.24 times as fast as acceleration says. Only a clear case is refused.
  void check_speed() const {
    double both = 0, acceleration = 0, speed = 0;
    constexpr size_t kApart = 10;  // rows: 1 s
    for (size_t i = kApart; i < route_.v_ego.size(); ++i) {
      double by_acceleration = 0;
      for (size_t k = i - kApart; k < i; ++k) by_acceleration += 0.05 * (route_.a_ego[k] + route_.a_ego[k + 1]);
      const double change = route_.v_ego[i] - route_.v_ego[i - kApart];
      both += by_acceleration * change, acceleration += by_acceleration * by_acceleration, speed += change * change;
    }
    if (!(acceleration > 0.1 && both > 0.98 * std::sqrt(acceleration * speed))) return;
    const double ratio = both / acceleration;
    for (const auto& [factor, unit] : {std::pair(3.6, "km/h"), std::pair(1 / 0.44704, "mph")}) {
      if (std::fabs(ratio / factor - 1) < 0.05) {
        csv_.fail_at(at_[kSpeed], "vEgo",
                     fmt::format("expected m/s, up to here it changes {:.2f} times as fast as aEgo says: is it in {}?",
                                 ratio, unit));
      }
    }
  }

  static constexpr size_t kNone = CsvReader::kMostColumns;

  CsvReader csv_;
  const std::string& name_;
  ChallengeRoute route_;
  std::array<size_t, kNames> at_ = {};  // each column's place
  size_t width_ = 0;
  int64_t previous_line_ = 0, rows_ = 0;
  double first_time_ = 0, time_ = 0;
};

}  // namespace

ChallengeRoute parse_challenge_route(std::string_view text, const std::string& name) {
  return Reader(text, name).read();
}

ChallengeRoute load_challenge_route(const std::filesystem::path& path) {
  return parse_challenge_route(read_file(path, kMostBytes), path.string());
}

}  // namespace sparkpilot::sim
