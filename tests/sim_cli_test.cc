// sim from outside: what it lists, runs, continues, shows and refuses.
#include <algorithm>

#include "drive_fixture.h"

#include "cli_fixture.h"

namespace sparkpilot {
namespace sim_cli_test {

class SimCli : public ::testing::Test {
 protected:
  static json parsed(const std::string& arguments, int code = 0) {
    const ProgramResult result = run_program(arguments + " --json");
    EXPECT_EQ(result.code, code) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  static void expect_usage_error(const std::string& arguments, const std::string& word) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  }
  std::string out(const char* name) const { return " --out " + in_quotes(folder / name); }
  TempFolder folder;
};

TEST_F(SimCli, ListsEverythingThatARunCanName) {
  const json list = parsed("sim list");
  EXPECT_EQ(keys(list), (Keys{"scenarios", "algorithms", "vehicles", "metrics"}));
  EXPECT_GE(list["scenarios"].size(), 60u);
  const json& first = list["scenarios"][0];
  EXPECT_EQ(keys(first), (Keys{"name", "category", "purpose", "seconds", "parameters", "bounds"}));
  EXPECT_EQ(keys(first["parameters"][0]), (Keys{"name", "unit", "low", "high", "default", "meaning"}));
  EXPECT_EQ(first["bounds"][0]["metric"], "tracking_rmse");
  EXPECT_EQ(list["algorithms"][0]["name"], "lateral_torque");
  EXPECT_EQ(keys(list["algorithms"][0]["parameters"][0]), (Keys{"name", "unit", "default", "meaning"}));
  EXPECT_EQ(keys(parsed("sim list --metrics")), (Keys{"metrics"}));
  EXPECT_NE(run_program("sim list").out.find("lane_change_quick"), std::string::npos);
  EXPECT_NE(run_program("sim list --algorithms").out.find("lane_keeping"), std::string::npos);
}

TEST_F(SimCli, RunsScenariosAndChecksTheirBounds) {
  const json good = parsed("sim run --scenarios curves --variants 8 --check");
  EXPECT_EQ(good["worlds"], 48);
  EXPECT_EQ(good["passed"], 48);
  EXPECT_EQ(good["folder"], nullptr);
  EXPECT_EQ(good["categories"][0]["category"], "curves");
  EXPECT_EQ(good["worst"].size(), 10u);
  EXPECT_GT(good["update_p50_us"], 0);
  const json bad = parsed("sim run --scenarios curves --variants 8 --check --set kp=5", 4);
  EXPECT_LT(bad["passed"], 40);
  EXPECT_GT(bad["worst"][0]["of_bound"], 1);
  EXPECT_EQ(bad["parameters"]["kp"], 5);
  const ProgramResult text = run_program("sim run --scenarios curve_firm,roll --variants 2 --vehicle suv");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("lateral_torque in a suv (bicycle), seed 1: "), std::string::npos) << text.out;
}

TEST_F(SimCli, DrivesByThePlannerThatIsNamed) {
  const std::string command = "sim run --quiet --scenarios follow_slower --variants 4 ";
  const json mpc = parsed(command + "--planner mpc --set t_follow=1.75" + out("mpc"));
  EXPECT_EQ(mpc["planner"], "mpc");
  EXPECT_EQ(mpc["diverged"], 0);
  EXPECT_EQ(mpc["parameters"]["t_follow"], 1.75);
  EXPECT_EQ(json::parse(read_text((folder / "mpc/run.json").string()))["parameters"]["t_follow"], 1.75);
  const auto gap = [](const json& run) { return run["categories"][0]["means"]["gap_min"].get<double>(); };
  EXPECT_GT(gap(mpc), gap(parsed(command + "--planner mpc --set t_follow=1.25")) + 3);
  EXPECT_EQ(run_program("sim show --run " + in_quotes(folder / "mpc")).code, 0);
  expect_usage_error(command + "--planner x", "expected cruise, idm or mpc");

  // Plans that were not solved: by scenario in the report, in a column, and for none but this planner.
  const std::string hard =
      "sim run --scenarios emergency_stop_alone --planner mpc --set mpc_danger_cost=1e5 --set mpc_danger_factor=1";
  const json bad = parsed(hard);
  ASSERT_EQ(bad["bad_plans"].size(), 1u) << bad["bad_plans"].dump();
  EXPECT_EQ(bad["bad_plans"][0]["scenario"], "emergency_stop_alone");
  EXPECT_EQ(bad["bad_plans"][0]["worlds"], 1);
  EXPECT_GT(bad["bad_plans"][0]["unsolved"], 10);
  EXPECT_EQ(bad["categories"][0]["means"]["unsolved_plans"], bad["bad_plans"][0]["unsolved"]);
  EXPECT_EQ(bad["categories"][0]["means"]["safety_margin_min"], nullptr);  // there is no car ahead
  EXPECT_NE(run_program(hard).out.find("plans of the planner mpc"), std::string::npos);
  const json idm = parsed("sim run --scenarios emergency_stop_alone");
  EXPECT_TRUE(idm["bad_plans"].empty());
  EXPECT_EQ(idm["categories"][0]["means"]["unsolved_plans"], nullptr);
  expect_usage_error(command + "--planner mpc --set mpc_jerk_cost=0", "mpc_jerk_cost");
}

TEST_F(SimCli, ContinuesAnInterruptedRunToTheSameBytes) {
  const std::string command = "sim run --quiet --scenarios curves,stop_and_go --variants 30 --seed 4";
  ASSERT_EQ(run_program(command + out("whole")).code, 0);
  const std::string rows = read_text(folder / "whole/results.csv");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 361);

  fs::create_directory(folder / "part");
  fs::copy_file(folder / "whole/run.json", folder / "part/run.json");
  write_text(folder / "part/results.csv.part", rows.substr(0, rows.size() / 3));
  expect_usage_error(command + out("part"), "--resume");
  expect_usage_error(command + out("part") + " --resume --set kp=2", "another run");
  EXPECT_EQ(run_program(command + out("part") + " --resume --threads 1").code, 0);
  EXPECT_EQ(read_text(folder / "part/results.csv"), rows);
  EXPECT_FALSE(fs::exists(folder / "part/results.csv.part"));
  EXPECT_EQ(run_program(command + out("part") + " --resume").code, 0) << "nothing is left to do";
  EXPECT_EQ(read_text(folder / "part/results.csv"), rows);
}

TEST_F(SimCli, SeveralProcessesGiveTheSameBytes) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  const std::string mpirun =
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 timeout 120 mpirun --allow-run-as-root "
      "--oversubscribe -np 3";
  const std::string command = "sim run --scenarios curves,stop_and_go,ice --variants 1500 --seed 5";
  ASSERT_EQ(run_program(command + out("alone")).code, 0);
  const std::string rows = read_text(folder / "alone/results.csv");
  const ProgramResult together = run_program(command + " --json" + out("together"), mpirun);
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(read_text(folder / "together/results.csv"), rows);
  const json report = json::parse(together.out);
  EXPECT_EQ(report["processes"], 3);
  EXPECT_GT(report["worlds"], 3 * 8192) << "more than one round";
  const std::string few = "sim run --scenarios curves --variants 5 --set kp=5";
  EXPECT_EQ(json::parse(run_program(few + " --json", mpirun).out)["worst"], parsed(few)["worst"]) << "without a folder";
  json first = parsed(few + out("few")), read_back = parsed(few + " --resume" + out("few"));
  for (json* const each : {&first, &read_back}) {
    for (const char* name : {"steps_per_second", "update_p50_us", "update_p99_us"}) each->erase(name);
  }
  EXPECT_EQ(read_back, first);

  fs::create_directory(folder / "part");
  fs::copy_file(folder / "alone/run.json", folder / "part/run.json");
  write_text(folder / "part/results.csv.part", rows.substr(0, rows.size() / 3));
  EXPECT_EQ(run_program(command + " --resume" + out("part"), mpirun).code, 0);
  EXPECT_EQ(read_text(folder / "part/results.csv"), rows);
}

TEST_F(SimCli, ProcessesThatWouldRoundOtherwiseAreRefused) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  if (parsed("version")["isa"].get<std::string>().find("avx512") == std::string::npos)
    GTEST_SKIP() << "this processor has one instruction set only";
  const ProgramResult result = run_program(
      "sim run --scenarios curves",
      "OMPI_MCA_rmaps_base_oversubscribe=1 timeout 120 mpirun --allow-run-as-root --oversubscribe -np 2 sh -c "
      R"('[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export SPARKPILOT_CPU=baseline; exec "$0" "$@"')");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("process 1 has the instruction set"), std::string::npos) << result.err;
}

TEST_F(SimCli, ProcessesThatWouldMakeAnotherRunAreRefused) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  for (const auto& [first, second, word] : {std::tuple("--seed 1", "--seed 2", "seed 1, not 2"),
                                            std::tuple("--variants 2", "--variants 3", "variants 2, not 3"),
                                            std::tuple("", "--set kp=0.1", ", not kp 0.1")}) {
    const std::string before =
        std::string(
            "OMPI_MCA_rmaps_base_oversubscribe=1 timeout 120 mpirun --allow-run-as-root --oversubscribe -np 2 ") +
        R"(sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then set -- "$@" )" + first + R"(; else set -- "$@" )" + second +
        R"(; fi; exec "$@"' sh)";
    const ProgramResult result = run_program("sim run --scenarios curves" + out("differ"), before);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_NE(result.err.find("process 1 makes another run than process 0, which has "), std::string::npos)
        << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  }
}

TEST_F(SimCli, OtherCommandsRefuseSeveralProcesses) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  for (const char* command : {"sim tune --scenarios curves --tune kp=1:2", "sim tinyphysics m.onnx data",
                              "sim fit route", "sim extract route --out courses"}) {
    const ProgramResult result = run_program(
        command, "OMPI_MCA_rmaps_base_oversubscribe=1 timeout 120 mpirun --allow-run-as-root --oversubscribe -np 2");
    EXPECT_EQ(result.code, 2) << command;
    const size_t at = result.err.find("only sim run shares its work among processes");
    EXPECT_NE(at, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("only sim run shares its work among processes", at + 1), std::string::npos) << result.err;
  }
}

// 100,000 worlds stay below 1 GB.
TEST_F(SimCli, ARowOfResultsIsSmall) {
  ASSERT_EQ(run_program("sim run --quiet --scenarios all --variants 30" + out("run")).code, 0);
  uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(folder / "run")) bytes += fs::file_size(file.path());
  EXPECT_LT(bytes / (68 * 30), 1000) << "a tenth of what is allowed";
}

TEST_F(SimCli, CtrlCLeavesWholeRows) {
  Background run({"sim", "run", "--scenarios", "stop_and_go", "--variants", "1000000", "--out", folder.file("run")});
  const fs::path rows = folder / "run/results.csv.part";
  ASSERT_TRUE(run.wait_for(rows));
  for (int i = 0; i < 6000 && fs::file_size(rows) < 100000 && !run.ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  const std::string text = read_text(rows);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n') % 8192, 1);
  EXPECT_FALSE(fs::exists(folder / "run/results.csv"));
}

TEST_F(SimCli, ShowsAScenarioAndTheWorstOfARun) {
  const json shown =
      parsed("sim show merge_behind --variant 3" + out("page.html") + " --trace " + in_quotes(folder / "trace.csv"));
  EXPECT_EQ(shown["passed"], true);
  EXPECT_GT(shown["metrics"]["gap_min"], 10);
  const std::string page = read_text(folder / "page.html"), trace = read_text(folder / "trace.csv");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("Gap to the car ahead"), std::string::npos);
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '\n'), 801);

  ASSERT_EQ(run_program("sim run --quiet --scenarios curves --variants 8 --set kp=5" + out("run")).code, 0);
  const json run = parsed("sim run --scenarios curves --variants 8 --set kp=5");
  const json worst = parsed("sim show --run " + in_quotes(folder / "run"));
  EXPECT_EQ(worst["scenario"], run["worst"][0]["scenario"]);
  EXPECT_EQ(worst["variant"], run["worst"][0]["variant"]);
  EXPECT_EQ(worst["passed"], false);
  for (const char* idle : {"--set kp=3", "--seed 9", "--vehicle truck", "--planner mpc", "--plant kinematic"}) {
    expect_usage_error("sim show " + std::string(idle) + " --run " + in_quotes(folder / "run"),
                       "has no effect with --run");
  }
  expect_usage_error("sim show lane_change_quick --run " + in_quotes(folder / "run"),
                     "has no scenario \"lane_change_quick\"");
  const std::string run_folder = in_quotes(folder / "run");
  expect_usage_error("sim show curve_firm --variant 77 --run " + run_folder, "--variant 77");
  expect_usage_error("sim show --variant 3 --run " + run_folder, "--variant 3: name the scenario of");
  const std::string before = read_text(folder / "run/results.csv");
  expect_usage_error("sim show --run " + run_folder + " --trace " + run_folder + "/results.csv", "would be replaced");
  EXPECT_EQ(read_text(folder / "run/results.csv"), before);
  for (const auto& [flag, name] :
       {std::pair("--algorithm", "own.py"), {"--vehicle", "car.json"}, {"--file", "c.csv"}}) {
    write_text(folder / name, "mine");
    const std::string file = in_quotes(folder / name);
    expect_usage_error("sim show " + std::string(flag) + " " + file + " --out " + file, "would be replaced");
    EXPECT_EQ(read_text(folder / name), "mine");
  }
  expect_usage_error("sim show curve_firm --trace " + run_folder + "/x" + out("run/../run/x"),
                     "--out and --trace name one file");
  const ProgramResult text = run_program("sim show curve_firm");
  EXPECT_NE(text.out.find("enters a firm curve"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("passed\n"), std::string::npos) << text.out;
}

TEST_F(SimCli, DrivesACourseFromATable) {
  write_text(folder / "bend.csv",
             "time_s,speed_m_per_s,lateral_acceleration_m_per_s2\n0,20,0\n5,20,0\n8,20,0.8\n20,20,0.8\n");
  const std::string file = " --file " + in_quotes(folder / "bend.csv");
  const json run = parsed("sim run --variants 4" + file);
  EXPECT_EQ(run["worlds"], 4);
  EXPECT_EQ(run["categories"][0]["category"], "file");
  EXPECT_EQ(parsed("sim show" + file)["passed"], true);
  ASSERT_EQ(run_program("sim run --quiet --variants 4" + file + out("own")).code, 0);
  const std::string show = "sim show --run " + in_quotes(folder / "own");
  EXPECT_EQ(parsed(show + file + " --variant 3")["variant"], 3);
  EXPECT_EQ(parsed(show + file)["variant"], 3) << "the one furthest from its lane";
  expect_usage_error(show, "give a course of yours with --file");
  ASSERT_EQ(run_program("sim run --quiet --scenarios curve_firm" + file + out("mixed")).code, 0);
  expect_usage_error("sim show curve_firm --run " + in_quotes(folder / "mixed") + file,
                     "not curve_firm: leave out --file or the name");
  expect_usage_error("sim run" + file + file, "is there twice");
  write_text(folder / "bend.csv", "time_s,speed_m_per_s,curvature_per_m\n0,100,0\n5,100,0\n");
  expect_usage_error("sim run" + file, "is it in km/h?");
}

TEST_F(SimCli, RefusesWhatThereIsNot) {
  expect_usage_error("sim run", "name scenarios");
  expect_usage_error("sim run --scenarios curvs", "did you mean curves?");
  expect_usage_error("sim run --scenarios curves --set kp", "--set");
  expect_usage_error("sim run --scenarios curves --set kp=nan", "expected a number");
  expect_usage_error("sim run --scenarios curves --set kpp=1", "no parameter \"kpp\"");
  expect_usage_error("sim run --scenarios curves --algorithm x", "expected lateral_torque");
  expect_usage_error("sim run --scenarios curves --set min_accel=3", "min_accel [m/s^2] is 3, expected");
  expect_usage_error("sim run --scenarios curves --set kp=1e308", "kp is 1e+308, expected");
  expect_usage_error("sim run --scenarios curves --set t_follow=5",
                     "--set t_follow has no effect with --planner idm: it is a parameter of --planner mpc");
  expect_usage_error("sim run --scenarios curves --planner mpc --set time_gap=5", "has no effect with --planner mpc");
  expect_usage_error("sim show curve_firm --planner cruise --set time_gap=5", "has no effect with --planner cruise");
  expect_usage_error("sim run --scenarios curves --set follow_brake=0", "follow_brake");
  expect_usage_error("sim run --scenarios curves --set kp=1 --set kp=2", "--set kp: given twice");
  expect_usage_error("sim run --scenarios curves --variants 0", "--variants");
  expect_usage_error("sim run --scenarios curves --resume", "--resume needs --out");
  expect_usage_error("sim run --scenarios curves --resume" + out("none"), "holds no run");
  expect_usage_error("sim show", "name a scenario");
  expect_usage_error("sim show curves", "is not one scenario");
  expect_usage_error("sim show --run " + in_quotes(folder / "none"), "none");
}

}  // namespace sim_cli_test
}  // namespace sparkpilot
