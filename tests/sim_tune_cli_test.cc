// sparkpilot sim tune, on a few worlds.
#include <filesystem>
#include <fstream>

#include "cli_fixture.h"

namespace sparkpilot {
namespace sim_tune_cli_test {

const char* const kTune = "sim tune --scenarios curves --variants 2 --tune kp=0.2:3 --tune ki=0.02:1:log ";

json tuned(const std::string& flags) {
  const ProgramResult result = run_program(kTune + flags + " --json");
  EXPECT_EQ(result.code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

TEST(SimTuneCli, FindsParametersThatDriveBetter) {
  const json answer = tuned("--trials 60");
  EXPECT_LT(answer["best_cost"].get<double>(), answer["own_cost"].get<double>());
  EXPECT_EQ(answer["trials"].size(), 60U);
  ASSERT_EQ(answer["parameters"].size(), 2U);
  for (const json& p : answer["parameters"]) {
    EXPECT_GE(p["best"].get<double>(), p["low"].get<double>());
    EXPECT_LE(p["best"].get<double>(), p["high"].get<double>());
  }
  EXPECT_GT(answer["held_out"]["pairs"].get<int>(), 0);
  EXPECT_EQ(answer["held_out"]["b"]["parameters"]["kp"], answer["parameters"][0]["best"]);
  EXPECT_NE(answer["held_out"]["a"]["seed"], 1);
  const ProgramResult text = run_program(std::string(kTune) + "--trials 8");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("sparkpilot sim run --algorithm lateral_torque --scenarios curves --variants 2 --set kp="),
            std::string::npos)
      << text.out;
  EXPECT_EQ(text.out.find("gap_min"), std::string::npos) << "no car is ahead: " << text.out;
  // The command drives as the trials did.
  const ProgramResult mpc = run_program(
      "sim tune --scenarios follow_slower --variants 2 --trials 2 --planner mpc --vehicle suv --set jerk_factor=0.8 "
      "--seed 3 --set t_follow=1.5 --tune t_follow=1.25:1.75 --objective longitudinal_jerk_rms");
  EXPECT_EQ(mpc.code, 0) << mpc.err;
  EXPECT_NE(mpc.out.find("lateral_torque --scenarios follow_slower --variants 2 --seed 3 --vehicle suv --planner mpc "
                         "--set jerk_factor=0.8 --set t_follow="),
            std::string::npos)
      << mpc.out;
  // Of a file, too, whose name a shell would take apart.
  TempFolder folder;
  std::ofstream(folder / "my own.py") << "parameters = {'gain': 1.0}\n"
                                         "def reset(*a): pass\n"
                                         "def update(world, seen, out): out.lateral = 0\n";
  const ProgramResult own = run_program(
      "sim tune --scenarios curve_gentle --variants 1 --trials 1 --tune gain=1:2 "
      "--step-timeout 60 --algorithm '" +
      folder.file("my own.py") + "'");
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_NE(own.out.find("sim run --algorithm '" + folder.file("my own.py") + "' --scenarios"), std::string::npos)
      << own.out;
}

// Variant 0, the same with every seed, is not among the worlds that the best parameters are judged on.
TEST(SimTuneCli, HoldsOutOtherWorldsThanItTunesOn) {
  const ProgramResult result =
      run_program("sim tune --scenarios curve_firm --variants 1 --tune kp=0.2:3 --trials 1 --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const json answer = json::parse(result.out), judged = answer["held_out"]["differences"][0];
  EXPECT_EQ(answer["held_out"]["pairs"], 1);
  EXPECT_EQ(judged["metric"], "tracking_rmse");
  const std::string own = answer["objective"];  // "tracking_rmse / MEAN + ..."
  const double tuned_on = std::stod(own.substr(own.find('/') + 1)), held_out = judged["a"]["mean"];
  EXPECT_GT(std::abs(held_out - tuned_on), 1e-3 * tuned_on);
}

TEST(SimTuneCli, GoesOnFromItsJournal) {
  const TempFolder folder;
  const std::string journal = "--journal '" + folder.file("j.jsonl") + "' ";
  const json whole = tuned("--trials 20");
  tuned("--trials 9 " + journal);
  const json rest = tuned("--trials 20 --resume " + journal);
  EXPECT_EQ(rest["resumed"], 9);
  EXPECT_EQ(rest["trials"], whole["trials"]);
  EXPECT_EQ(run_program(kTune + journal).code, 2);  // without --resume
  const ProgramResult other = run_program(kTune + journal + "--resume --vehicle truck");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("another search"), std::string::npos) << other.err;
  EXPECT_EQ(run_program(kTune + journal + "--resume --planner cruise").code, 2);
}

TEST(SimTuneCli, BadInputIsOneLineAndCodeTwo) {
  const auto expect = [&](const std::string& arguments, const std::string& word) {
    const ProgramResult result = run_program("sim tune " + arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  };
  expect("--scenarios curves", "--tune NAME=LOW:HIGH[:log] is missing");
  expect("--scenarios curves --tune kp", "expected NAME=LOW:HIGH");
  expect("--scenarios curves --tune kp=2:1", "rising");
  expect("--scenarios curves --tune kp=1:2 --tune accel_factor=-2:2", "--tune accel_factor=-2:2: sim: accel_factor");
  expect("--scenarios curves --tune kpp=1:2", "has no such parameter");
  expect("--scenarios curves --tune t_follow=1:2", "--tune t_follow has no effect with --planner idm");
  expect("--scenarios curves --tune kp=1:2 --objective speed", "no metric \"speed\"");
  expect("--scenarios curves --tune kp=1:2 --objective gap_min", "more of it is better");
  expect("--scenarios curves --tune kp=1:2 --objective jerk_rms=-1", "a weight above 0");
  expect("--scenarios curves --tune kp=1:2 --search annealing", "--search");
  expect("--scenarios nowhere --tune kp=1:2", "nowhere");
  expect("--scenarios curves --tune kp=1:2 --resume", "--resume needs --journal");
  expect("--scenarios curves --tune kp=1:2 --trials 0", "trials");
}

}  // namespace sim_tune_cli_test
}  // namespace sparkpilot
