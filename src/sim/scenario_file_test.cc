#include "sim/scenario_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_error.h"
#include "base/test_files.h"
#include "sim/scenario_run.h"
#include "sim/trace.h"

namespace sparkpilot::sim {
namespace {

TEST(ScenarioFile, IsDriven) {
  const TempFolder folder;
  std::string text = "time_s,speed_m_per_s,curvature_per_m,roll_rad\n";
  for (int i = 0; i <= 200; ++i) text += fmt::format("{},{},{},0.01\n", 100 + 0.1 * i, 20, i < 50 ? 0 : 0.002);
  write_text(folder / "bend.csv", text);
  const Scenario scenario = read_scenario(folder / "bend.csv");
  EXPECT_TRUE(scenario.name.starts_with("bend:"));
  EXPECT_NEAR(scenario.seconds, 20, 1e-9);
  EXPECT_EQ(scenario.table->time.front(), 0);
  const ScenarioRun run({.scenarios = {scenario, scenarios()[0]}, .variants = 3});
  const std::vector<ResultRow> rows = run.run(0, run.rows());
  for (const ResultRow& row : rows) EXPECT_TRUE(row.passed) << row.reason;
  EXPECT_EQ(rows[0].category, "file");
  EXPECT_GT(*rows[0].values[1], 0.1) << "a step of 0.8 m/s^2 cannot be followed at once";
  EXPECT_LT(*rows[0].values[0], 0.2);
  EXPECT_NE(rows[1].values[4], rows[2].values[4]) << "variants start elsewhere in the lane";
}

TEST(ScenarioFile, TakesTheChallengesColumns) {
  const Scenario s = parse_scenario(
      "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n"
      "0,20,0,0.01,0.4,0.1\n1,20,0,0.02,0.8,\n",
      "00000.csv");
  EXPECT_DOUBLE_EQ(s.table->curvature[0], 0.001);
  EXPECT_DOUBLE_EQ(s.table->curvature[1], 0.002);
  EXPECT_EQ(s.table->roll[1], 0.02);
}

TEST(ScenarioFile, HasCarsAhead) {
  const TempFolder folder;
  std::string text = "time_s,speed_m_per_s,curvature_per_m,lead_gap_m,lead_speed_m_per_s\n";
  for (int i = 0; i <= 300; ++i) {
    // Up to 5 s a car, from 10 s on another one, which slows down.
    const bool comes = i == 0 || i == 100, there = i <= 50 || i >= 100;
    text += fmt::format("{},20,0,{},{}\n", 0.1 * i, comes ? "50" : "",
                        there ? fmt::format("{}", i < 100 ? 19 : std::max(18 - 0.05 * (i - 100), 10.0)) : "");
  }
  write_text(folder / "leads.csv", text);
  const Scenario scenario = read_scenario(folder / "leads.csv");
  const WorldSpec world = scenario_world(scenario, 0, 1, preset_vehicle("civic"));
  ASSERT_TRUE(has_lead(world));
  const Trace trace = trace_world(world, {.steps = 3000});
  for (size_t row = 0; row < trace.rows.size(); ++row) {
    const double t = 0.05 * static_cast<double>(row), gap = trace.at(row, "gap"), speed = trace.at(row, "lead_speed");
    EXPECT_EQ(std::isfinite(gap), t < 5.075 || t > 9.975) << t;
    if (!std::isfinite(gap)) continue;
    EXPECT_NEAR(speed, t < 6 ? 19 : std::max(18 - 0.5 * (t - 10), 10.0), 0.01) << t;
    if (row == 0 || row == 200) continue;
    EXPECT_NEAR(gap - trace.at(row - 1, "gap"), 0.05 * (speed - trace.at(row, "speed")), 0.01) << t;
  }
  EXPECT_NEAR(trace.at(0, "gap"), 50, 0.1);
  EXPECT_NEAR(trace.at(200, "gap"), 50, 0.1);
  EXPECT_LT(trace.result.speed, 11) << "it follows";
  EXPECT_FALSE(trace.result.collided);
}

TEST(ScenarioFile, SaysWhatIsWrong) {
  const std::string head = "time_s,speed_m_per_s,curvature_per_m\n",
                    leads = "time_s,speed_m_per_s,curvature_per_m,lead_gap_m,lead_speed_m_per_s\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "no line of headings"},
      {"time_s,curvature_per_m\n0,0\n", "f.csv: no column speed_m_per_s"},
      {"time_s,speed_m_per_s\n0,0\n", "expected one of the columns curvature_per_m"},
      {"time_s,speed_m_per_s,curvature_per_m,lateral_acceleration_m_per_s2\n", "expected one of the columns"},
      {"time_s,speed_m_pre_s,curvature_per_m\n", "(did you mean speed_m_per_s?)"},
      {"time_s,time_s,speed_m_per_s,curvature_per_m\n", "f.csv:1: column 2 (time_s): a second time"},
      {head, "0 rows, expected 2 or more"},
      {head + "0,10,0\n", "1 rows"},
      {head + "0,10,0\n1,nan,0\n", "f.csv:3: column 2 (speed_m_per_s): expected a number, got \"nan\""},
      {head + "0,10,0\n1,,0\n", "expected a number, got \"\""},
      {head + "0,10,0\n1,10\n", "column 3 (curvature_per_m): the line ends before it"},
      {head + "0,10,0\n2,10,0\n1,10,0\n", "f.csv:4: column 1 (time_s): 1 does not come after 2"},
      {head + "0,100,0\n", "is it in km/h?"},
      {head + "0,10,0\n0.1,12,0\n0.2,14,0\n",
       "f.csv:4: column 2 (speed_m_per_s): 14 behind 12 within 0.1 s is 20 m/s^2"},
      {"time_s,speed_m_per_s,lateral_acceleration_m_per_s2\n0,5,8\n", "8 at 5 m/s is a curvature of 0.32 1/m"},
      {head + "0,50,0.01\n", "25 m/s^2 aside: is it in km/h?"},
      {head + "0,10,400\n", "is it in a radius in m?"},
      {head + "0,10,0\n100000,10,0\n", "is it in ms?"},
      {head + "1700000000000,10,0\n1700000020000,10,0\n", "is it in ms?"},
      {head + "0,10,0\n0.5,10,0\n", "goes over 0.5 s"},
      {head + "0,10,0\n1,10,0,01\n", "f.csv:3: column 4 (the last): 4 columns, the headings are 3"},
      {"time_s,speed_m_per_s,curvature_per_m,roll_rad\n0,10,0,2\n", "is it in degrees?"},
      {"time_s,speed_m_per_s,curvature_per_m,lead_gap_m\n", "expected both of the columns lead_speed_m_per_s and"},
      {leads + "0,10,0,,5\n", "f.csv:2: column 4 (lead_gap_m): empty where a car comes"},
      {leads + "0,10,0,30,\n", "f.csv:2: column 5 (lead_speed_m_per_s): empty, but lead_gap_m says that a car comes"},
      {leads + "0,10,0,,\n1,10,0,,5\n", "f.csv:3: column 4 (lead_gap_m): empty where a car comes"},
      {leads + "0,10,0,30,5\n0.1,10,0,29,5\n", "f.csv:3: column 4 (lead_gap_m): another car after 0.1 s"},
      {leads + "0,10,0,30,90\n", "is it in km/h?"},
      {leads + "0,10,0,3000,9\n", "is it in cm?"},
      {leads + "0,10,0,30,nan\n", "column 5 (lead_speed_m_per_s): expected a number, got \"nan\""},
      {leads + "0,10,0,30\n", "column 5 (lead_speed_m_per_s): the line ends before it"},
      {std::string(1000000, ',') + "\n", "a line of 1000000 bytes"},
      {"time_s" + std::string(999, ',') + "\n", "more than 256 columns"}};
  for (const auto& [text, expected] : cases) {
    const std::string error = error_of([&, &csv = text] { parse_scenario(csv, "f.csv"); });
    EXPECT_NE(error.find(expected), std::string::npos) << error << " for " << text.substr(0, 80);
  }
}

TEST(ScenarioFile, BeginsAnywhereAndIsNamedInUtf8) {
  const Scenario s = parse_scenario(
      "time_s,speed_m_per_s,curvature_per_m\n1700000000.25,10,0\n1700000001.25,10,0\n1700000002.75,10,0\n",
      "b\xfcgel.csv");  // Latin-1
  EXPECT_EQ(s.table->time, (std::vector<double>{0, 1, 2.5}));
  EXPECT_TRUE(s.name.starts_with("b\uFFFDgel:")) << s.name << ", as run.json has it";
}

TEST(ScenarioFile, SaysNothingOfUnitsOfWhatIsBelow) {
  const std::string error =
      error_of([] { parse_scenario("time_s,speed_m_per_s,curvature_per_m\n0,-10,0\n", "f.csv"); });
  EXPECT_EQ(error, "f.csv:2: column 2 (speed_m_per_s): -10 is beyond 0 to 70");
  // A standing car's noise.
  parse_scenario("time_s,speed_m_per_s,lateral_acceleration_m_per_s2\n0,0,0.5\n1,0.5,-0.4\n", "f.csv");
}

}  // namespace
}  // namespace sparkpilot::sim
