#include "sim/scenario_file.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/nearest.h"
#include "sim/csv.h"

namespace sparkpilot::sim {
namespace {

constexpr int64_t kLargestFile = 1 << 28;
constexpr double kLongest = 3600;  // s
constexpr size_t kMostRows = 1000000;
constexpr double kShortestLead = 0.5;   // s, from one car's coming to the next one's
constexpr double kMostCurvature = 0.2;  // 1/m
constexpr double kSlow = 3;             // m/s
constexpr double kHalfLane = 1.75;      // m: of such a road all that is known is where its lane is
// m/s^2 of speed from row to row, but for changes so small (m/s) that they are noise.
constexpr double kFastestChange = 15, kSmallChange = 1;

enum Column { kTime, kSpeed, kCurvature, kLateral, kRoll, kLeadSpeed, kLeadGap, kColumns };
struct Heading {
  const char* name;
  const char* challenge;  // that of the controls challenge; empty: none
  double least, most;
  const char* unit;  // what a value beyond them is likely to be in
};
constexpr Heading kHeadings[kColumns] = {
    {"time_s", "t", -1e11, 1e11, "ms"},  // also seconds since 1970
    {"speed_m_per_s", "vEgo", 0, 70, "km/h"},
    {"curvature_per_m", "", -kMostCurvature, kMostCurvature, "a radius in m"},
    {"lateral_acceleration_m_per_s2", "targetLateralAcceleration", -12, 12, "degrees/s or cm/s^2"},
    {"roll_rad", "roll", -0.35, 0.35, "degrees"},
    {"lead_speed_m_per_s", "", 0, 70, "km/h"},
    {"lead_gap_m", "", 0.01, 1000, "cm"}};

// Where each column is; -1: it is not there.
struct Places {
  int at[kColumns] = {-1, -1, -1, -1, -1, -1, -1};
  size_t columns = 0;  // of the headings
};

Places places_of(const CsvReader& csv, const std::string& name) {
  Places places;
  places.columns = csv.fields().size();
  std::vector<std::string> known;
  for (const Heading& heading : kHeadings) known.emplace_back(heading.name);
  for (size_t i = 0; i < csv.fields().size(); ++i) {
    std::string_view field = csv.fields()[i];
    while (field.starts_with(' ')) field.remove_prefix(1);
    while (field.ends_with(' ')) field.remove_suffix(1);
    if (field == "aEgo" || field == "steerCommand") continue;
    const auto* found = std::ranges::find_if(
        kHeadings, [&](const Heading& h) { return field == h.name || (*h.challenge != '\0' && field == h.challenge); });
    if (found == std::end(kHeadings)) {
      csv.fail_at(i, field.substr(0, 60),
                  "not a column of a course" + did_you_mean(field.substr(0, 60), known) +
                      "; expected time_s, speed_m_per_s, curvature_per_m or lateral_acceleration_m_per_s2, roll_rad, "
                      "lead_speed_m_per_s and lead_gap_m");
    }
    int& at = places.at[found - kHeadings];
    if (at >= 0) csv.fail_at(i, field, "a second time");
    at = static_cast<int>(i);
  }
  for (const Column needed : {kTime, kSpeed}) {
    if (places.at[needed] < 0) fail("{}: no column {}", name, kHeadings[needed].name);
  }
  if ((places.at[kCurvature] < 0) == (places.at[kLateral] < 0)) {
    fail("{}: expected one of the columns curvature_per_m and lateral_acceleration_m_per_s2", name);
  }
  if ((places.at[kLeadSpeed] < 0) != (places.at[kLeadGap] < 0)) {
    fail("{}: expected both of the columns lead_speed_m_per_s and lead_gap_m, or neither", name);
  }
  return places;
}

double value_of(const CsvReader& csv, const Places& places, Column column) {
  const auto at = static_cast<size_t>(places.at[column]);
  const Heading& heading = kHeadings[column];
  const double value = csv.number(at, heading.name);
  if (value < heading.least || value > heading.most) {
    const bool large = value > heading.most || heading.least < 0;
    csv.fail_at(at, heading.name,
                fmt::format("{} is beyond {} to {}{}", value, heading.least, heading.most,
                            large ? fmt::format(": is it in {}?", heading.unit) : ""));
  }
  return value;
}

std::optional<double> value_if_any(const CsvReader& csv, const Places& places, Column column) {
  const auto at = static_cast<size_t>(places.at[column]);
  if (at < csv.fields().size() && csv.fields()[at].empty()) return {};
  return value_of(csv, places, column);
}

// The car ahead of the row that was added last. `came`: when the last one came.
void read_lead(const CsvReader& csv, const Places& places, CourseTable& table, std::optional<double>& came) {
  const bool before = !table.lead_speed.empty() && table.lead_speed.back();
  const std::optional<double> speed = value_if_any(csv, places, kLeadSpeed), gap = value_if_any(csv, places, kLeadGap);
  const auto wrong = [&](Column column, std::string_view what) {
    csv.fail_at(static_cast<size_t>(places.at[column]), kHeadings[column].name, what);
  };
  if (gap && !speed) wrong(kLeadSpeed, "empty, but lead_gap_m says that a car comes");
  if (speed && !before && !gap) wrong(kLeadGap, "empty where a car comes");
  if (gap && came && table.time.back() - *came < kShortestLead - 1e-6) {
    wrong(kLeadGap, fmt::format("another car after {:.3g} s, expected {} or more: the gap stands only where a car "
                                "comes, behind that it is what the speeds make of it",
                                table.time.back() - *came, kShortestLead));
  }
  if (gap) came = table.time.back();
  table.lead_speed.push_back(speed);
  table.lead_gap.push_back(gap);
}

void read_row(const CsvReader& csv, const Places& places, CourseTable& table, std::optional<double>& came) {
  if (csv.fields().size() > places.columns) {
    csv.fail_at(csv.fields().size() - 1, "the last",
                fmt::format("{} columns, the headings are {}: numbers have a point, not a comma", csv.fields().size(),
                            places.columns));
  }
  const double time = value_of(csv, places, kTime), speed = value_of(csv, places, kSpeed);
  if (!table.time.empty() && time <= table.time.back()) {
    csv.fail_at(static_cast<size_t>(places.at[kTime]), "time_s",
                fmt::format("{} does not come after {}", time, table.time.back()));
  }
  const bool given = places.at[kCurvature] >= 0;
  const double said = value_of(csv, places, given ? kCurvature : kLateral);
  const double v = std::max(speed, 1.0), curvature = given ? said : said / (v * v);
  if (given && std::fabs(said) * speed * speed > kHeadings[kLateral].most) {
    csv.fail_at(static_cast<size_t>(places.at[kSpeed]), "speed_m_per_s",
                fmt::format("{} with a curvature of {} is {:.3g} m/s^2 aside: is it in km/h?", speed, said,
                            std::fabs(said) * speed * speed));
  }
  // In a standing car a small acceleration aside is noise, and its curvature is cut off below.
  if (!given && std::fabs(said) > kMostCurvature * std::max(speed, kSlow) * std::max(speed, kSlow)) {
    csv.fail_at(static_cast<size_t>(places.at[kLateral]), kHeadings[kLateral].name,
                fmt::format("{} at {} m/s is a curvature of {:.3g} 1/m, beyond {}: is it in degrees/s, or the speed in "
                            "another unit?",
                            said, speed, curvature, kMostCurvature));
  }
  // One jump is another speed that is asked for; two, one behind the other, are no car's.
  if (const size_t n = table.time.size(); n >= 2) {
    const double change = (speed - table.speed[n - 1]) / (time - table.time[n - 1]);
    const double before = (table.speed[n - 1] - table.speed[n - 2]) / (table.time[n - 1] - table.time[n - 2]);
    if (std::fabs(speed - table.speed[n - 1]) > kSmallChange && std::fabs(change) > kFastestChange &&
        std::fabs(table.speed[n - 1] - table.speed[n - 2]) > kSmallChange && std::fabs(before) > kFastestChange) {
      csv.fail_at(static_cast<size_t>(places.at[kSpeed]), "speed_m_per_s",
                  fmt::format("{} behind {} within {:.3g} s is {:.3g} m/s^2, beyond {}: is the time in another unit?",
                              speed, table.speed.back(), time - table.time.back(), change, kFastestChange));
    }
  }
  table.time.push_back(time);
  table.speed.push_back(speed);
  table.curvature.push_back(std::clamp(curvature, -kMostCurvature, kMostCurvature));
  table.roll.push_back(places.at[kRoll] < 0 ? 0 : value_of(csv, places, kRoll));
  if (places.at[kLeadSpeed] >= 0) read_lead(csv, places, table, came);
}

}  // namespace

Scenario parse_scenario(std::string_view text, const std::string& name) {
  CsvReader csv(text, name);
  if (!csv.next()) fail("{}: no line of headings", name);
  const Places places = places_of(csv, name);
  CourseTable table;
  std::optional<double> came;
  while (csv.next()) {
    if (table.time.size() == kMostRows) fail("{}: more than {} rows", name, kMostRows);
    read_row(csv, places, table, came);
  }
  if (table.time.size() < 2) fail("{}: {} rows, expected 2 or more", name, table.time.size());
  if (!came) table.lead_speed.clear(), table.lead_gap.clear();
  const double first = table.time.front(), seconds = table.time.back() - first;
  if (seconds < 1 || seconds > kLongest) {
    fail("{}: time_s goes over {:.6g} s, expected 1 to {}{}", name, seconds, kLongest,
         seconds > kLongest ? ": is it in ms?" : "");
  }
  for (double& time : table.time) time -= first;
  // A difference so small that it is lost above would make two times equal.
  for (size_t i = 1; i < table.time.size(); ++i) {
    if (table.time[i] <= table.time[i - 1]) fail("{}: row {} does not come after the row before", name, i + 1);
  }
  Scenario scenario;
  scenario.name = fmt::format("{}:{:08x}", one_line(valid_utf8(std::filesystem::path(name).stem().string())),
                              Fnv().text(text).value() & 0xffffffff);
  scenario.category = "file";
  scenario.purpose = "a course from a table";
  scenario.seconds = seconds;
  scenario.ranges = {{"start_offset", -0.3, 0.3, 0}};
  scenario.bounds = {{"offset_max", kHalfLane}};
  if (!table.lead_speed.empty()) scenario.bounds.push_back({"collisions", 0});
  scenario.table = std::make_shared<const CourseTable>(std::move(table));
  return scenario;
}

Scenario read_scenario(const std::filesystem::path& file) {
  return parse_scenario(read_file(file, kLargestFile), file.string());
}

std::vector<Scenario> read_scenarios(const std::filesystem::path& file_or_folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(file_or_folder, error)) return {read_scenario(file_or_folder)};
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator at(file_or_folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".csv") files.push_back(at->path());
  }
  if (error) fail("{}: {}", file_or_folder.string(), error.message());
  if (files.empty()) fail("{}: the folder has no courses (F.csv)", file_or_folder.string());
  std::ranges::sort(files);
  std::vector<Scenario> scenarios;
  for (const std::filesystem::path& file : files) scenarios.push_back(read_scenario(file));
  return scenarios;
}

}  // namespace sparkpilot::sim
