#include "sim/challenge_route.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_error.h"
#include "base/test_files.h"
#include "sim/test_challenge.h"

namespace sparkpilot::sim {
namespace {

// A route of `rows` straight rows, of which `change` may change line (1: the headings).
template <typename Change>
std::string route(int rows, const Change& change) {
  std::string text;
  for (int line = 1; line <= rows + 1; ++line) {
    std::string row = line == 1 ? "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand"
                                : fmt::format("{:.1f},20,0.1,0.02,0.5,0.1", 0.1 * (line - 2));
    change(line, row);
    text += row + "\n";
  }
  return text;
}
std::string route(int rows) {
  return route(rows, [](int, std::string&) {});
}
// With another text in one line.
std::string route_with(int at, const std::string& text) {
  return route(120, [&](int line, std::string& row) {
    if (line == at) row = text;
  });
}
std::string refusal(const std::string& text) {
  return error_of([&] { parse_challenge_route(text, "a.csv"); });
}

TEST(ChallengeRoute, HasTheSimulatorsUnitsAndSigns) {
  const ChallengeRoute read = parse_challenge_route(route(120), "a.csv");
  ASSERT_EQ(read.rows(), 120);
  EXPECT_EQ(read.v_ego[7], 20);
  EXPECT_EQ(read.a_ego[7], 0.1);
  EXPECT_EQ(read.target[7], 0.5);
  EXPECT_EQ(read.roll_lataccel[7], std::sin(0.02) * 9.81);
  EXPECT_EQ(read.steer[7], -0.1);
}

TEST(ChallengeRoute, TakesColumnsInAnyOrderAndOthersBesides) {
  const std::string text = "\xEF\xBB\xBFsteerCommand,\"note\",roll,vEgo,targetLateralAcceleration,aEgo\r\n";
  std::string rows;
  for (int i = 0; i < 102; ++i) rows += "0.25,\"a, b\",0,10,-1,2\r\n\r\n";
  const ChallengeRoute read = parse_challenge_route(text + rows, "a.csv");
  EXPECT_EQ(read.rows(), 102);
  EXPECT_EQ(read.steer[101], -0.25);
  EXPECT_EQ(read.target[101], -1);
  EXPECT_EQ(read.a_ego[101], 2);
}

TEST(ChallengeRoute, SteeringMayBeMissingFromRow100On) {
  const ChallengeRoute read = parse_challenge_route(route(120,
                                                          [](int line, std::string& row) {
                                                            if (line == 102) row = "10.0,20,0,0,0,";
                                                            if (line == 103) row = "10.1,20,0,0,0,NaN";
                                                          }),
                                                    "a.csv");
  EXPECT_TRUE(std::isnan(read.steer[100]) && std::isnan(read.steer[101]));
  EXPECT_EQ(read.steer[102], -0.1);
  EXPECT_EQ(refusal(route_with(101, "9.9,20,0,0,0,")),
            "a.csv:101: column 6 (steerCommand): it may be missing from row 100 on, this is row 99");
}

TEST(ChallengeRoute, KeepsTheRowsThatARolloutCanSee) {
  EXPECT_EQ(parse_challenge_route(integer_route(1, 700), "a.csv").rows(), 549);
}

TEST(ChallengeRoute, NamesFileLineAndColumnOfWhatIsWrong) {
  const std::string last = "a.csv:121: column ";
  EXPECT_EQ(refusal(""), "a.csv: it is empty, expected the columns of comma's controls challenge");
  EXPECT_EQ(refusal("\n\n"), "a.csv: it is empty, expected the columns of comma's controls challenge");
  EXPECT_EQ(refusal(route(0)),
            "a.csv: it has 0 rows of data, expected at least 102: a controller steers from row 100 on");
  EXPECT_EQ(refusal(route(101)),
            "a.csv: it has 101 rows of data, expected at least 102: a controller steers from row 100 on");
  EXPECT_EQ(
      refusal("t,vEgo,roll\n0,1,2\n"),
      "a.csv:1: expected the columns vEgo, aEgo, roll, targetLateralAcceleration and steerCommand; missing: aEgo, "
      "targetLateralAcceleration, steerCommand");
  EXPECT_EQ(refusal(route_with(1, "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand,vEgo")),
            "a.csv:1: column 7 (vEgo): it is there twice");
  EXPECT_EQ(refusal(route_with(9, "0.7,20,0.1,0.02,0.5")), "a.csv:9: expected 6 values, one for each heading, got 5");
  EXPECT_EQ(refusal(route_with(9, "0.7,,0.1,0.02,0.5,0")), "a.csv:9: column 2 (vEgo): expected a number, got \"\"");
  EXPECT_EQ(refusal(route_with(9, "0.7,20,nan,0.02,0.5,0")),
            "a.csv:9: column 3 (aEgo): expected a number, got \"nan\"");
  EXPECT_EQ(refusal(route_with(9, "0.7,20,0,inf,0.5,0")), "a.csv:9: column 4 (roll): expected a number, got \"inf\"");
  EXPECT_EQ(refusal(route_with(121, "11.9,20,0,0,0x1,0")),
            last + "5 (targetLateralAcceleration): expected a number, got \"0x1\"");
  EXPECT_EQ(refusal(route_with(121, "11.7,20,0,0,0,0")),
            last + "1 (t): times have to ascend, got 11.7 after 11.8 in line 120");
  EXPECT_NE(refusal(std::string(2000000, ',')).find("a.csv:1: "), std::string::npos);
}

TEST(ChallengeRoute, RefusesValuesInOtherUnits) {
  EXPECT_EQ(refusal(route_with(9, "0.7,110,0.1,0.02,0.5,0")),
            "a.csv:9: column 2 (vEgo): 110 is not plausible, expected -20 to 75 m/s");
  EXPECT_EQ(refusal(route_with(9, "0.7,20,0.1,2.5,0.5,0")),
            "a.csv:9: column 4 (roll): 2.5 is not plausible, expected -0.6 to 0.6 rad");
  EXPECT_EQ(refusal(route_with(9, "0.7,20,0.1,0,0.5,45")),
            "a.csv:9: column 6 (steerCommand): 45 is not plausible, expected -10 to 10 of full steering");
  // Each line's time is 10 ms after the one before.
  EXPECT_EQ(refusal(route(120,
                          [](int line, std::string& row) {
                            if (line > 1) row = fmt::format("{:.2f},20,0,0,0,0", 0.01 * line);
                          })),
            "a.csv:121: column 1 (t): expected rows 0.1 s apart, up to here they are 0.01 s apart on average");
}

TEST(ChallengeRoute, RefusesSpeedThatChangesAsInKilometresAnHour) {
  const auto drive = [](double factor) {
    return route(150, [&](int line, std::string& row) {
      const double t = 0.1 * (line - 2);
      if (line > 1) row = fmt::format("{:.1f},{},{},0,0,0", t, factor * (10 + std::sin(t)), std::cos(t));
    });
  };
  EXPECT_EQ(refusal(drive(1)), "");
  EXPECT_NE(refusal(drive(3.6))
                .find("a.csv:151: column 2 (vEgo): expected m/s, up to here it changes 3.60 times as fast "
                      "as aEgo says: is it in km/h?"),
            std::string::npos)
      << refusal(drive(3.6));
  EXPECT_NE(refusal(drive(2.236936)).find("is it in mph?"), std::string::npos);
}

TEST(ChallengeRoute, NamesAFileThatCannotBeRead) {
  const TempFolder folder;
  EXPECT_NE(error_of([&] { load_challenge_route(folder / "none.csv"); }).find("none.csv"), std::string::npos);
  write_text(folder / "a.csv", integer_route(3));
  EXPECT_EQ(load_challenge_route(folder / "a.csv").rows(), 520);
}

}  // namespace
}  // namespace sparkpilot::sim
