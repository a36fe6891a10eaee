// Courses from drives whose road is known.
#include "sim/extract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"
#include "base/test_error.h"
#include "base/test_files.h"
#include "sim/scenario_file.h"
#include "sim/trace.h"

namespace sparkpilot::sim {
namespace {

using Function = std::function<double(double)>;
uint64_t time_of(double seconds) { return 5'000'000'000 + static_cast<uint64_t>(std::llround(seconds * 1e9)); }

// carState at 100 Hz, yaw rate with noise at 20 Hz, roll.
drive::CarSignals driven(double seconds, const Function& speed, const Function& curvature, double noise = 0.004) {
  drive::CarSignals out;
  Random random(7);
  for (int i = 0; i <= std::lround(seconds * 100); ++i) {
    const double t = 0.01 * i;
    drive::MotionSample motion;
    motion.speed = speed(t);
    motion.usable = true;
    out.motion.add(time_of(t), motion);
    if (i % 5 == 0) {
      out.yaw_rate.add(time_of(t), curvature(t) * speed(t) + noise * random.normal());
      out.parameters.add(time_of(t), {0.01, 0, 15, 1});
    }
  }
  out.enabled.add(time_of(0), true);
  return out;
}
double bend(double t) { return 0.004 * std::exp(-0.5 * std::pow((t - 30) / 4, 2)); }  // 1.6 m/s^2 at 20 m/s
double twenty(double) { return 20; }

TEST(Extract, FindsACurveWithItsCurvature) {
  const Extraction found = extract_courses(driven(60, twenty, bend));
  ASSERT_EQ(found.courses.size(), 1u);
  const ExtractedCourse& course = found.courses[0];
  EXPECT_EQ(course.kind, "curve");
  EXPECT_NEAR(course.begin, 30 - 5.6 - 3, 0.5);  // where the bend is 0.6 m/s^2, and 3 s before
  EXPECT_NEAR(course.seconds, 2 * (5.6 + 3), 1);
  double squares = 0, worst = 0;
  for (size_t i = 0; i < course.table.time.size(); ++i) {
    const double error = course.table.curvature[i] - bend(course.begin + course.table.time[i]);
    squares += error * error;
    worst = std::max(worst, std::abs(error));
    EXPECT_NEAR(course.table.speed[i], 20, 1e-6);
    EXPECT_EQ(course.table.roll[i], 0.01);
  }
  EXPECT_LT(std::sqrt(squares / static_cast<double>(course.table.time.size())), 1e-4);
  EXPECT_LT(worst, 4e-4);
  EXPECT_EQ(course_file_name(course).substr(0, 6), "curve_");
}

TEST(Extract, ACourseIsReadBackAsAScenario) {
  const Extraction found = extract_courses(driven(60, twenty, bend));
  const std::string text = course_csv(found.courses.at(0).table);
  const Scenario scenario = parse_scenario(text, course_file_name(found.courses[0]));
  EXPECT_NEAR(scenario.seconds, found.courses[0].seconds, 1e-6);
  ASSERT_EQ(scenario.table->time.size(), found.courses[0].table.time.size());
  for (size_t i = 0; i < scenario.table->time.size(); ++i) {
    EXPECT_NEAR(scenario.table->curvature[i], found.courses[0].table.curvature[i], 1e-7);
  }
  check_world(scenario_world(scenario, 1, 1, preset_vehicle("civic")));
}

TEST(Extract, FindsAStop) {
  const auto speed = [](double t) { return t < 20 ? 15 : std::max(15 - 1.5 * (t - 20), 0.0); };
  const Extraction found = extract_courses(driven(40, speed, [](double) { return 0.0; }));
  ASSERT_EQ(found.courses.size(), 1u);
  EXPECT_EQ(found.courses[0].kind, "stop");
  EXPECT_NEAR(found.courses[0].begin, 18, 0.6);
  EXPECT_NEAR(found.courses[0].begin + found.courses[0].seconds, 29.8, 0.6);
  EXPECT_LT(found.courses[0].table.speed.back(), 0.6);
  EXPECT_NEAR(found.standstill_seconds, 10.2, 0.6);
}

TEST(Extract, FindsLaneChangesAndLeads) {
  drive::CarSignals signals = driven(60, twenty, [](double) { return 0.0; });
  for (int i = 0; i < 1200; ++i) {
    const double t = 0.05 * i;
    signals.lane_change.add(time_of(t), t >= 10 && t < 15);
    signals.lead.add(time_of(t), {t >= 30, 80 - 5 * (t - 30), t < 40 ? 15.0 : 20.0});
  }
  const Extraction found = extract_courses(signals);
  ASSERT_EQ(found.courses.size(), 2u);
  EXPECT_EQ(found.courses[0].kind, "lane_change");
  EXPECT_NEAR(found.courses[0].begin, 8, 0.2);
  EXPECT_NEAR(found.courses[0].seconds, 9, 0.3);
  EXPECT_EQ(found.courses[1].kind, "lead");
  EXPECT_NEAR(found.courses[1].begin, 28, 0.2);
  EXPECT_NEAR(found.courses[1].seconds, 14, 0.3);
  EXPECT_FALSE(found.courses[1].lead_first);
  ASSERT_TRUE(found.courses[1].lead_last);
  EXPECT_EQ(found.courses[1].lead_last->speed, 20);
  EXPECT_TRUE(extract_courses(signals, {.kinds = {"curve"}}).courses.empty());
}

// Behind a car that slows down from 20 to 16 m/s, which another one replaces at 30 s and no one from 50 s on.
TEST(Extract, TakesTheCarsAheadWithTheirSpeeds) {
  const auto lead_speed = [](double t) { return t < 30 ? std::max(20 - 0.4 * t, 16.0) : 17.0; };
  drive::CarSignals signals = driven(60, twenty, [](double) { return 0.0; });
  double gap = 120;
  for (int i = 0; i < 1000; ++i) {
    const double t = 0.05 * i;
    if (i == 600) gap = 70;
    const bool flickers = i % 100 < 5, stranger = i >= 320 && i < 326;  // seen too late, and for too short a time
    signals.lead.add(time_of(t), {!flickers || i == 0, stranger ? 9 : gap, stranger ? 3 : lead_speed(t)});
    gap += 0.05 * (lead_speed(t + 0.025) - 20);
  }
  const Extraction found = extract_courses(signals, {.kinds = {"piece"}, .piece_seconds = 55});
  ASSERT_EQ(found.courses.size(), 1u);
  const ExtractedCourse& course = found.courses[0];
  EXPECT_EQ(course.leads, 3) << "that of before the stranger comes again";
  ASSERT_TRUE(course.lead_gap_error);
  EXPECT_LT(*course.lead_gap_error, 0.05);
  const CourseTable& table = course.table;
  ASSERT_EQ(table.lead_speed.size(), table.time.size());
  for (size_t i = 0; i < table.time.size(); ++i) {
    const double t = table.time[i];
    const bool between = (t > 15.97 && t < 16.3) || (t > 29.97 && t < 30.23);
    if (between) continue;
    ASSERT_EQ(table.lead_speed[i].has_value(), t < 49.97) << t;
    if (table.lead_speed[i]) {
      EXPECT_NEAR(*table.lead_speed[i], lead_speed(t), 0.02) << t;
    }
  }
  EXPECT_EQ(*table.lead_gap[0], 120);
  EXPECT_EQ(std::ranges::count_if(table.lead_gap, [](const auto& one) { return one.has_value(); }), 3);

  // Its world has these cars.
  const Scenario scenario = parse_scenario(course_csv(table), "leads.csv");
  WorldSpec world = scenario_world(scenario, 0, 1, preset_vehicle("civic"));
  world.following.planner = Planner::cruise;  // which keeps the drive's speed
  const Trace trace = trace_world(world, {.steps = 5200});
  for (size_t row = 0; row < trace.rows.size(); ++row) {
    const double t = 0.05 * static_cast<double>(row);
    if ((t > 15.9 && t < 16.4) || (t > 29.9 && t < 30.4) || t > 49.9) continue;
    EXPECT_NEAR(trace.at(row, "lead_speed"), lead_speed(t), 0.02) << t;
  }
  // Where it is, whatever the simulated car makes of it: 180 m in its first 10 s, then 16 m/s, the other one 17 m/s.
  const auto place = [&](size_t row) { return trace.at(row, "distance") + trace.at(row, "gap"); };
  EXPECT_NEAR(trace.at(0, "gap"), 120, 0.1);
  EXPECT_NEAR(place(290) - place(0), 180 + 16 * 4.5, 0.2);
  EXPECT_NEAR(place(900) - place(620), 17 * 14, 0.2);
  EXPECT_NEAR(trace.at(605, "gap"), 70 - 0.25 * 3, 0.2);
  EXPECT_FALSE(std::isfinite(trace.at(1010, "gap")));
}

TEST(Extract, LeavesOutWhatSaysNothingOfTheRoad) {
  // A gap of 2 s at 12 s, the driver steers from 30 to 36 s, another car is pulled up beside openpilot disengaged.
  const drive::CarSignals whole = driven(60, twenty, bend);
  drive::CarSignals signals;
  signals.yaw_rate = whole.yaw_rate;
  signals.parameters = whole.parameters;
  signals.enabled.add(time_of(0), true);
  for (const auto& [time, motion] : whole.motion) {
    const double t = static_cast<double>(time - time_of(0)) * 1e-9;
    drive::MotionSample sample = motion;
    sample.steering_pressed = t >= 30 && t < 36;
    if (t < 12 || t > 14) signals.motion.add(time, sample);
  }
  const Extraction found = extract_courses(signals, {.kinds = {"piece", "curve"}, .piece_seconds = 5});
  EXPECT_NEAR(found.bad_seconds, 2, 0.2);
  EXPECT_NEAR(found.overridden_seconds, 6, 0.1);
  for (const ExtractedCourse& course : found.courses) {
    const double end = course.begin + course.seconds;
    EXPECT_TRUE(end <= 12.1 || (course.begin >= 13.9 && end <= 30.05) || course.begin >= 35.95)
        << course.begin << " to " << end;
  }
  EXPECT_EQ(std::ranges::count(found.courses, "piece", &ExtractedCourse::kind), 2 + 3 + 4);
  signals.enabled = {};  // a drive by hand: what the driver does is the drive
  EXPECT_EQ(extract_courses(signals, {.kinds = {"curve"}}).overridden_seconds, 0);
}

TEST(Extract, RefusesUnknownKindsAndLengths) {
  EXPECT_NE(error_of([] { extract_courses({}, {.kinds = {"curves"}}); }).find("did you mean curve?"),
            std::string::npos);
  EXPECT_NE(error_of([] { extract_courses({}, {.kinds = {"piece"}, .piece_seconds = 1}); }).find("4 to 600"),
            std::string::npos);
  const Extraction nothing = extract_courses({});
  EXPECT_TRUE(nothing.courses.empty());
  drive::CarSignals silent = driven(20, twenty, bend);
  silent.yaw_rate = {};
  EXPECT_NEAR(extract_courses(silent).bad_seconds, 20, 0.1);
  drive::CarSignals damaged = driven(20, twenty, bend);
  damaged.motion.add(uint64_t{1} << 61, damaged.motion.begin()->second);
  EXPECT_NE(error_of([&] { extract_courses(damaged); }).find("is a time in the log damaged?"), std::string::npos);
}

TEST(Extract, AFolderOfCoursesIsReadByName) {
  const TempFolder folder;
  const Extraction found = extract_courses(driven(60, twenty, bend), {.kinds = {"piece"}, .piece_seconds = 20});
  for (const ExtractedCourse& course : found.courses) {
    write_text(folder / course_file_name(course), course_csv(course.table));
  }
  write_text(folder / "index.json", "{}");
  const std::vector<Scenario> scenarios = read_scenarios(folder.path());
  ASSERT_EQ(scenarios.size(), found.courses.size());
  EXPECT_EQ(scenarios[0].name.substr(0, 14), "piece_0000.0s:");
  EXPECT_NE(error_of([] { read_scenarios(TempFolder().path()); }).find("no courses"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::sim
