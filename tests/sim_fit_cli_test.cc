// sim fit from outside: logs of simulated cars, whose numbers are known, and cars from files.
#include <cstdlib>

#include "base/test_assets.h"
#include "drive_fixture.h"
#include "sim/test_drive.h"

#include "cli_fixture.h"
#include "drive_log.h"

namespace sparkpilot {
namespace sim_fit_cli_test {

using sim::Tyres, sim::scalar::LateralTorque;

class SimFitCli : public ::testing::Test {
 protected:
  static json parsed(const std::string& arguments) {
    const ProgramResult result = run_program(arguments + " --json");
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  static json number(const json& fit, const std::string& name) {
    for (const json& each : fit["numbers"]) {
      if (each["name"] == name) return each;
    }
    return {};
  }
  // A folder of one segment.
  fs::path log(const drive::CarSignals& signals, bool older = false) {
    // For bench/sim/check_fit.py, which reads the same log.
    const char* kept = std::getenv("SPARKPILOT_TEST_FIT_LOG");
    const fs::path route = kept != nullptr ? fs::path(kept) : folder / "00000010--5b26bc3be7--0";
    fs::create_directories(route);
    write_drive_log(route / "rlog.zst", signals, older);
    return route;
  }
  TempFolder folder;
};

TEST_F(SimFitCli, FindsTheCarOfALogAndDrivesIt) {
  constexpr double kSeconds = 150;
  const sim::DrawnDrive drive = sim::drawn_drive(5, kSeconds);
  const drive::CarSignals signals =
      sim::drive_world<LateralTorque, Tyres::linear>(drive.world, kSeconds, drive.believed, 5);
  const std::string car = folder.file("car.json");
  const json fit = parsed("sim fit " + in_quotes(log(signals)) + " --out '" + car + "'");
  EXPECT_EQ(fit["yaw_rate_source"], "livePose");
  EXPECT_EQ(fit["command_source"], "carOutput");
  EXPECT_EQ(fit["car_fingerprint"], "SIMULATED");
  const auto near = [&](const char* name, double truth, double bound) {
    const json found = number(fit, name);
    ASSERT_TRUE(found["identifiable"]) << found;
    EXPECT_NEAR(found["value"].get<double>(), truth, bound) << found;
  };
  const sim::Steering& steering = drive.world.steering;
  near("steer_ratio", drive.world.vehicle.steer_ratio, 0.02 * drive.world.vehicle.steer_ratio);
  near("stiffness_factor", drive.stiffness, 0.1 * drive.stiffness);
  near("steering_delay_s", steering.delay, 0.02);
  near("friction", steering.friction, 0.15 * steering.friction);
  near("accel_factor_m_per_s2", steering.accel_factor, 0.05 * steering.accel_factor);

  const json written = json::parse(read_text(car));
  EXPECT_EQ(written["sources"]["steer_ratio"], "fit");
  EXPECT_EQ(written["sources"]["mass_kg"], "log");
  EXPECT_EQ(written["steering_delay_s"], number(fit, "steering_delay_s")["value"]);
  const std::string run = "sim run --scenarios curve_firm --variants 3 --vehicle '" + car + "'";
  const json driven = parsed(run + " --out " + in_quotes(folder / "run"));
  EXPECT_EQ(driven["vehicle"].get<std::string>().substr(0, 4), "car:");
  EXPECT_EQ(driven["worlds"], 3);
  EXPECT_NE(driven["categories"][0]["means"]["tracking_rmse"],
            parsed("sim run --scenarios curve_firm --variants 3")["categories"][0]["means"]["tracking_rmse"]);
  const std::string show = "sim show curve_firm --run " + in_quotes(folder / "run");
  EXPECT_EQ(parsed(show + " --vehicle '" + car + "'")["vehicle"], driven["vehicle"]);
  EXPECT_NE(run_program(show).err.find("give that file with --vehicle"), std::string::npos);

  const ProgramResult text = run_program("sim fit " + in_quotes(folder / "00000010--5b26bc3be7--0"));
  if (std::getenv("SPARKPILOT_TEST_FIT_LOG") == nullptr) {
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_NE(text.out.find("steer_ratio"), std::string::npos) << text.out;
  }
}

TEST_F(SimFitCli, ReadsOlderLogs) {
  const sim::DrawnDrive drive = sim::drawn_drive(2, 60);
  const drive::CarSignals signals = sim::drive_world<LateralTorque, Tyres::linear>(drive.world, 60, drive.believed, 2);
  if (std::getenv("SPARKPILOT_TEST_FIT_LOG") != nullptr) GTEST_SKIP() << "another test's log is kept";
  const json fit = parsed("sim fit " + in_quotes(log(signals, true)));
  EXPECT_EQ(fit["yaw_rate_source"], "liveLocationKalman");
  EXPECT_EQ(fit["command_source"], "carControl.actuatorsOutput");
  EXPECT_NEAR(number(fit, "steering_delay_s")["value"].get<double>(), drive.world.steering.delay, 0.02);
  EXPECT_NEAR(number(fit, "steer_ratio")["value"].get<double>(), drive.world.vehicle.steer_ratio,
              0.04 * drive.world.vehicle.steer_ratio);
}

TEST_F(SimFitCli, NamesWhatDrivesACarThatTakesAnglesAndKeepsTheRoute) {
  const sim::DrawnDrive drive = sim::drawn_drive(3, 5);
  const drive::CarSignals signals =
      sim::drive_world<sim::scalar::LateralAngle, Tyres::linear>(drive.world, 5, drive.believed, 3);
  if (std::getenv("SPARKPILOT_TEST_FIT_LOG") != nullptr) GTEST_SKIP() << "another test's log is kept";
  const fs::path route = log(signals);
  const std::string car = in_quotes(folder / "car.json"), fit = "sim fit " + in_quotes(route) + " --vehicle ";
  const ProgramResult text = run_program(fit + "truck --out " + car);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("the rest of --vehicle truck\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("--scenarios all --algorithm lateral_angle --vehicle "), std::string::npos) << text.out;
  const std::string bytes = read_text(route / "rlog.zst"), numbers = read_text(folder / "car.json");
  for (const std::string& out : {in_quotes(route / "rlog.zst"), car}) {
    const ProgramResult refused = run_program(fit + car + " --out " + out);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("is read and would be replaced"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(read_text(route / "rlog.zst"), bytes);
  EXPECT_EQ(read_text(folder / "car.json"), numbers);
}

TEST_F(SimFitCli, ARecordedDriveAtTenHertzIsNotIdentifiable) {
  const fs::path demo = assets_folder() / "route_demo";
  if (!fs::exists(demo)) GTEST_SKIP() << "no " << demo;
  const json fit = parsed("sim fit " + in_quotes(demo) + " --out '" + folder.file("car.json") + "'");
  for (const json& each : fit["numbers"]) {
    EXPECT_FALSE(each["identifiable"]);
    EXPECT_NE(each["reason"].get<std::string>().find("10 Hz, expected 40 Hz"), std::string::npos) << each;
  }
  EXPECT_NEAR(number(fit, "steer_ratio")["logged"].get<double>(), 14.145, 0.01);
  const json car = json::parse(read_text(folder.file("car.json")));
  EXPECT_NEAR(car["steer_ratio"].get<double>(), 13.9, 0.01) << "the log's carParams";
  EXPECT_EQ(car["sources"]["steer_ratio"], "log");
  EXPECT_EQ(run_program("sim run --scenarios curve_firm --vehicle '" + folder.file("car.json") + "'").code, 0);
}

TEST_F(SimFitCli, RefusesFilesThatAreNoCars) {
  write_text(folder / "bad.json", R"({"format": "sparkpilot car 1", "mass_kg": "heavy"})");
  const ProgramResult bad = run_program("sim run --scenarios curve_firm --vehicle " + in_quotes(folder / "bad.json"));
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("\"mass_kg\": expected a number"), std::string::npos) << bad.err;
  const ProgramResult none = run_program("sim run --scenarios curve_firm --vehicle civik");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("civic"), std::string::npos) << none.err;
  EXPECT_EQ(run_program("sim fit /nonexistent").code, 2);
}

}  // namespace sim_fit_cli_test
}  // namespace sparkpilot
