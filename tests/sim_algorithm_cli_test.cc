// sim with algorithms of users: shared libraries, scripts and networks that drive, and some that crash, hang or give
// nonsense.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "drive_fixture.h"
#include "sim/algorithm_worker.h"
#include "sim/results.h"
#include "sim/scenario.h"
#include "sim/world_stepper.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/onnx.h"

#include "cli_fixture.h"

namespace sparkpilot {
namespace sim_algorithm_cli_test {

const fs::path kTree = SPARKPILOT_SOURCE_DIR;
constexpr const char* kCurves = " --quiet --scenarios curve_firm,curve_gentle --variants 4 ";

class SimAlgorithm : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    built = new SharedFolder("sim_algorithm");
    built->fill(make);
  }
  static void TearDownTestSuite() { delete built; }
  static void make() {
    // The example is built as a user does it, outside the tree, against the public header alone.
    fs::create_directories(built->path() / "include/sparkpilot");
    fs::copy(kTree / "include/sparkpilot/algorithm.h", built->path() / "include/sparkpilot");
    fs::copy(kTree / "examples/lateral_pid.cc", built->path() / "lateral_pid.cc");
    build(built->path() / "lateral_pid.cc", "lateral_pid.so", "-std=c++17 -ffp-contract=off");
    build(kTree / "tests/sim_algorithms/batch.c", "batch.so", "-x c -std=c99 -pedantic -ffp-contract=off");
    const fs::path faulty = kTree / "tests/sim_algorithms/faulty.cc";
    build(faulty, "faulty.so");
    build(faulty, "version.so", "-DFAULTY_VERSION=99");
    build(faulty, "nameless.so", "-DFAULTY_NAMELESS -Wno-unused");
    build(faulty, "without_update.so", "-DFAULTY_WITHOUT_UPDATE");
    build(faulty, "crashes_on_load.so", "-DFAULTY_CRASHES_ON_LOAD");
  }

  static void build(const fs::path& source, const std::string& to, const std::string& flags = "") {
    const std::string command = SPARKPILOT_CXX " -Wall -Wextra -Werror -O2 " + flags + " -shared -fPIC -I " +
                                in_quotes(built->path() / "include") + " " + in_quotes(source) + " -o " +
                                in_quotes(built->path() / to);
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  // Steps may take long where the machine is busy.
  static std::string script(const fs::path& path, const std::string& timeout = "60") {
    return "--algorithm " + in_quotes(path) + " --step-timeout " + timeout;
  }
  static std::string library(const std::string& name, const std::string& timeout = "60") {
    return script(built->path() / name, timeout);
  }

  std::string out(const std::string& name) const { return " --out " + in_quotes(folder / name); }
  sim::Results results(const std::string& name) const { return sim::read_results(folder / name); }
  sim::Results run(const std::string& name, const std::string& flags, const std::string& before = "") const {
    const ProgramResult result = run_program("sim run " + flags + out(name), before);
    EXPECT_EQ(result.code, 0) << result.err;
    return results(name);
  }
  static void expect_refused(const std::string& flags, const std::string& word) {
    const ProgramResult result = run_program("sim run " + flags + kCurves);
    EXPECT_EQ(result.code, 2) << flags;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err << " expected: " << word;
  }
  // The speed that a row's world asks for.
  static double speed_of(const sim::ResultRow& row) {
    const sim::Scenario scenario = sim::select_scenarios(std::vector{row.scenario}).front();
    const std::vector<double> drawn = sim::draw_parameters(scenario, row.variant, row.seed);
    const auto at = std::ranges::find(scenario.ranges, "speed", &sim::ScenarioRange::parameter);
    return drawn.at(static_cast<size_t>(at - scenario.ranges.begin()));
  }
  // Every world that asks for more than `beyond` has failed for this reason, the others are those of `good`.
  static void expect_guilty(const sim::Results& run, const sim::Results& good, double beyond,
                            const std::string& reason) {
    ASSERT_EQ(run.rows.size(), good.rows.size());
    int guilty = 0;
    for (size_t i = 0; i < run.rows.size(); ++i) {
      const sim::ResultRow& row = run.rows[i];
      if (speed_of(row) <= beyond) {
        EXPECT_EQ(row, good.rows[i]);
        continue;
      }
      ++guilty;
      EXPECT_FALSE(row.passed);
      EXPECT_NE(row.reason.find(reason), std::string::npos) << row.reason;
      EXPECT_TRUE(std::ranges::all_of(row.values, [](const auto& value) { return !value; }));
    }
    EXPECT_GT(guilty, 0);
    EXPECT_LT(guilty, static_cast<int>(run.rows.size()));
  }
  // A speed that a few of the worlds of kCurves are above.
  double limit(const sim::Results& good, size_t above) const {
    std::vector<double> speeds;
    for (const sim::ResultRow& row : good.rows) speeds.push_back(speed_of(row));
    std::ranges::sort(speeds, std::greater());
    return (speeds[above - 1] + speeds[above]) / 2;
  }

  inline static SharedFolder* built = nullptr;
  TempFolder folder;
};

TEST_F(SimAlgorithm, AnExampleBuiltElsewhereDrivesAsTheBuiltInOne) {
  const std::string what = kCurves + std::string("--set kp_fast=0.12 --set time_gap=1.6");
  const sim::Results ours = run("ours", what + " --algorithm lateral_pid");
  const sim::Results theirs = run("theirs", what + " " + library("lateral_pid.so"));
  EXPECT_EQ(theirs.rows, ours.rows) << "to the bit";
  EXPECT_EQ(theirs.info.algorithm, "lateral_pid.so");
  EXPECT_EQ(theirs.info.algorithm_md5.size(), 32U);
  EXPECT_EQ(theirs.info.parameters, ours.info.parameters);
  EXPECT_GT(theirs.info.update_p50_us.value_or(0), 0);
  EXPECT_EQ(run_program("sim compare " + in_quotes(folder / "ours") + " " + in_quotes(folder / "theirs")).code, 0);
  const json tuned =
      json::parse(run_program("sim tune --json --scenarios curve_firm --tune kp_fast=0.05:0.2 --trials 4 " +
                              library("lateral_pid.so"))
                      .out);
  EXPECT_EQ(tuned["trials"].size(), 4U);
  EXPECT_FALSE(tuned["best_cost"].is_null());
}

TEST_F(SimAlgorithm, OneInCSteersByAnglesDrivesAndUpdatesAllWorldsAtOnce) {
  const sim::Results ours = run("ours", kCurves + std::string("--algorithm lateral_angle"));
  const sim::Results theirs = run("theirs", kCurves + library("batch.so"));
  EXPECT_EQ(theirs.rows, ours.rows) << "to the bit";
}

TEST_F(SimAlgorithm, AnyNumberOfWorkersGivesTheSameRows) {
  const std::string what = "--quiet --scenarios curve_firm --variants 1100 " + library("lateral_pid.so");
  const sim::Results one = run("one", what + " --workers 1"), three = run("three", what + " --workers 3");
  EXPECT_EQ(one.rows, three.rows);
  EXPECT_EQ(three.info.threads, 3);
}

TEST_F(SimAlgorithm, SeveralProcessesHaveWorkersOfTheirOwn) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  const std::string what = "--quiet --scenarios curve_firm --variants 1100 " + library("lateral_pid.so");
  const sim::Results alone = run("alone", what);
  const sim::Results together =
      run("together", what + " --workers 1",
          "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 timeout 120 mpirun --allow-run-as-root "
          "--oversubscribe -np 2");
  EXPECT_EQ(together.rows, alone.rows);
  EXPECT_EQ(together.info.processes, 2);
}

TEST_F(SimAlgorithm, NamesTheWorldsInWhichALibraryFails) {
  const sim::Results good = run("good", kCurves + library("faulty.so"));
  const double beyond = limit(good, 2);
  const auto faulty = [&](int fault, const std::string& more = "") {
    return run(std::to_string(fault), kCurves + library("faulty.so") + " --set fault=" + std::to_string(fault) +
                                          " --set beyond=" + std::to_string(beyond) + more);
  };
  expect_guilty(
      faulty(1), good, beyond,
      "faulty.so: signal 11 (Segmentation fault): what an algorithm prints is no answer, in update at 1.01 s");
  expect_guilty(faulty(2), good, beyond, "signal 6 (Aborted): the last words of it, in update at");
  expect_guilty(faulty(3), good, beyond, "exit code 3");
  expect_guilty(faulty(5), good, beyond, "gave a lateral command of nan");
  expect_guilty(faulty(6), good, beyond, "gave a lateral command of -inf");
  expect_guilty(faulty(7), good, beyond, "faulty.so: exception: no way\xef\xbf\xbd, in update at");
  for (const sim::ResultRow& row : faulty(8).rows) EXPECT_TRUE(row.values[0]) << row.reason;
  for (const sim::ResultRow& row : faulty(9).rows) EXPECT_NE(row.reason.find("at 0.00 s gave"), std::string::npos);
  for (const sim::ResultRow& row : faulty(100).rows) {
    EXPECT_NE(row.reason.find("reset returned 7, in reset"), std::string::npos) << row.reason;
  }
}

TEST_F(SimAlgorithm, AWorldThatHangsIsEnded) {
  const std::string what = "--quiet --scenarios curve_firm --variants 2 ";
  const sim::Results good = run("good", what + library("faulty.so"));
  const double beyond = limit(good, 1);
  const sim::Results bad =
      run("bad", what + library("faulty.so", "2") + " --set fault=4 --set beyond=" + std::to_string(beyond));
  expect_guilty(bad, good, beyond, "faulty.so: no answer within 2 s");
  EXPECT_GT(good.info.update_p50_us.value_or(0), 0);
  EXPECT_FALSE(bad.info.update_p50_us) << "the time of an update is not measured behind a hang";
}

// Of what hangs only while its time is measured, in worlds that no scenario has.
TEST_F(SimAlgorithm, MeasuringAnUpdateEndsWithTheStepTimeoutAndCtrlC) {
  write_text(folder / "late.py",
             "import time\n"
             "def reset(*a): pass\n"
             "def update(world, seen, out):\n"
             "    out.lateral = 0\n"
             "    if seen.roll == 0.009999999776482582 and seen.acceleration == 0: time.sleep(3600)\n");
  const auto seconds_of = [](const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const std::string scenario = "--quiet --scenarios highway_straight ";
  EXPECT_LT(
      seconds_of([&] { EXPECT_FALSE(run("late", scenario + script(folder / "late.py", "5")).info.update_p50_us); }),
      25);
  Background background({"sim", "run", "--scenarios", "highway_straight", "--algorithm", folder.file("late.py"),
                         "--step-timeout", "3600", "--out", folder.file("stopped")});
  ASSERT_TRUE(background.wait_for(folder / "stopped/results.csv.part"));
  for (int i = 0;
       i < 6000 && read_text(folder / "stopped/results.csv.part").find("highway_straight,") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  background.signal(SIGINT);
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(background.wait(), 0); }), 8);
  EXPECT_EQ(results("stopped").rows.size(), 1U) << "all rows were there";
}

// Loading may take minutes: the first worker's, and that of one that takes a lost one's place in the run.
TEST_F(SimAlgorithm, CtrlCEndsOneThatLoads) {
  for (const bool first : {true, false}) {
    const std::string name = first ? "first" : "second";
    const fs::path loads = folder / (name + ".loads"), was = folder / (name + ".was");
    const std::string loading = first ? "True" : "os.path.exists('" + was.string() + "')";
    write_text(folder / (name + ".py"), "import os, time\nif " + loading + ":\n    open('" + loads.string() +
                                            "', 'w').close()\n    time.sleep(3600)\nopen('" + was.string() +
                                            "', 'w').close()\n"
                                            "def reset(worlds, cars, parameters): pass\n"
                                            "def update(world, seen, out): os._exit(1)\n");
    Background run(
        {"sim", "run", "--scenarios", "curve_firm", "--variants", "2", "--algorithm", folder.file(name + ".py")});
    ASSERT_TRUE(run.wait_for(loads));
    const auto begin = std::chrono::steady_clock::now();
    run.signal(SIGINT);
    EXPECT_EQ(run.wait(), 130);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  }
}

// A slow one: what was driven is kept while the run goes on.
TEST_F(SimAlgorithm, AStoppedRunHasTheRowsOfItsFirstSeconds) {
  std::ofstream(folder / "slow.py") << "import time\n"
                                       "def reset(worlds, cars, parameters): pass\n"
                                       "def update(world, seen, out):\n"
                                       "    end = time.perf_counter() + 2e-5\n"
                                       "    while time.perf_counter() < end: pass\n"
                                       "    out.lateral = 0\n";
  Background run({"sim", "run", "--scenarios", "curve_firm", "--variants", "2000", "--algorithm",
                  folder.file("slow.py"), "--out", folder.file("stopped")});
  const fs::path part = folder / "stopped/results.csv.part";
  ASSERT_TRUE(run.wait_for(part));
  const auto rows = [&] {
    const std::string text = read_text(part);
    return std::ranges::count(text, '\n') - 1;
  };
  for (int i = 0; i < 6000 && rows() < 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_GE(rows(), 1);
  EXPECT_LT(rows(), 2000);
}

TEST_F(SimAlgorithm, WorldsInWhichItFailsAreNamedFirst) {
  const std::string flags = "sim run --scenarios highway_straight,curve_firm --variants 20 --set fault=5 --set beyond=";
  const json good = json::parse(run_program("sim run --json " + std::string(kCurves) + library("faulty.so")).out);
  EXPECT_EQ(good["failed_in_algorithm"], 0);
  const std::string beyond = flags + "32.2 " + library("faulty.so");
  const json report = json::parse(run_program(beyond + " --json").out);
  const int failed = report["failed_in_algorithm"];
  ASSERT_GT(failed, 0);
  ASSERT_LT(failed, 40);
  EXPECT_NE(report["worst"][0]["reason"].get<std::string>().find("gave a lateral command of nan"), std::string::npos);
  EXPECT_TRUE(report["worst"][0]["of_bound"].is_null());
  const ProgramResult text = run_program(beyond + out("run"));
  EXPECT_NE(text.out.find(", " + std::to_string(failed) + " failed in the algorithm\n"), std::string::npos) << text.out;
  const ProgramResult shown =
      run_program("sim show --json --run " + in_quotes(folder / "run") + " " + library("faulty.so"));
  EXPECT_EQ(json::parse(shown.out)["variant"], report["worst"][0]["variant"]);
  EXPECT_EQ(json::parse(shown.out)["metrics"]["tracking_rmse"], nullptr);
}

TEST_F(SimAlgorithm, WhatIsNoAlgorithmIsRefused) {
  expect_refused(library("version.so"), "is made for version 99 of sparkpilot/algorithm.h");
  expect_refused(library("nameless.so"), "has no function sparkpilot_algorithm");
  expect_refused(library("without_update.so"), "neither update nor update_batch");
  expect_refused(library("crashes_on_load.so"), "signal 6");
  expect_refused(library("absent.so"), "absent.so");
  write_text(folder / "text.so", "no library");
  expect_refused(script(folder / "text.so"), "cannot be loaded");
  expect_refused(library("lateral_pid.so") + " --set kp=1", "its own are kp_slow, kp_fast");
  expect_refused(library("lateral_pid.so", "0"), "--step-timeout");
  expect_refused("--step-timeout 5", "--step-timeout has no effect with --algorithm lateral_torque");
  expect_refused("--workers 2", "--workers has no effect with --algorithm lateral_torque");
  expect_refused("--algorithm lateral_pidd", "did you mean lateral_pid?");
}

TEST_F(SimAlgorithm, AScriptDrivesNearlyAsTheBuiltInOne) {
  const std::string what = "--quiet --scenarios curve_firm,curve_gentle --variants 2 ";
  const fs::path plain = kTree / "tests/sim_algorithms/plain.py";
  const sim::Results ours = run("ours", what + "--algorithm lateral_pid");
  const sim::Results theirs = run("theirs", what + script(plain));
  for (size_t i = 0; i < ours.rows.size(); ++i) {
    EXPECT_EQ(theirs.rows[i].passed, ours.rows[i].passed);
    EXPECT_NEAR(*theirs.rows[i].values[0], *ours.rows[i].values[0], 1e-3 * *ours.rows[i].values[0]);
  }
  const double beyond = limit(ours, 1);
  const auto faulty = [&](int fault, const std::string& more = "") {
    return run(std::to_string(fault), what + script(plain) + " --set fault=" + std::to_string(fault) +
                                          " --set beyond=" + std::to_string(beyond) + more);
  };
  expect_guilty(faulty(1), theirs, beyond, "plain.py: signal 6 (Aborted)");
  expect_guilty(faulty(2), theirs, beyond,
                "plain.py: ValueError: a number that nobody wanted (plain.py, line 24), in update at 1.01 s");
  expect_guilty(faulty(3), theirs, beyond, "plain.py: exit code 5");
  expect_guilty(faulty(5), theirs, beyond, "gave a lateral command of nan");
}

// As dataclasses and pickle need it, a script is a module among the others.
TEST_F(SimAlgorithm, AScriptMayHaveClasses) {
  write_text(folder / "classes.py",
             "from __future__ import annotations\n"
             "import dataclasses, pickle\n"
             "@dataclasses.dataclass\n"
             "class State:\n"
             "    integral: float = 0.0\n"
             "assert pickle.loads(pickle.dumps(State(2.0))) == State(2.0)\n"
             "assert __file__.endswith('classes.py')\n"
             "def reset(worlds, cars, parameters): pass\n"
             "def update(world, seen, out): out.lateral = State().integral\n");
  EXPECT_TRUE(run("run", "--quiet --scenarios highway_straight " + script(folder / "classes.py")).rows.at(0).values[0]);
}

TEST_F(SimAlgorithm, AContinuedRunHasTheTimeOfAnUpdate) {
  const std::string what = "--quiet --scenarios curve_firm --variants 2 " + library("lateral_pid.so");
  const sim::Results whole = run("whole", what);
  const std::string rows = read_text(folder / "whole/results.csv");
  for (const char* kept : {",1,1,", "\n"}) {  // the first row, and all
    const fs::path part = folder / (*kept == ',' ? "one" : "all");
    fs::create_directory(part);
    fs::copy_file(folder / "whole/run.json", part / "run.json");
    write_text(part / "results.csv.part", rows.substr(0, rows.rfind('\n', rows.rfind(kept)) + 1));
    const sim::Results continued = run(part.filename().string(), what + " --resume");
    EXPECT_EQ(continued.rows, whole.rows);
    EXPECT_GT(continued.info.update_p50_us.value_or(0), 0) << part;
  }
}

// Of a course, too, what is shown is the worst unless a variant is named.
TEST_F(SimAlgorithm, ShowsTheWorldOfACourseInWhichItFails) {
  write_text(folder / "side.py",
             "def reset(worlds, cars, parameters): pass\n"
             "def update(world, seen, out):\n"
             "    if abs(seen.offset) > 0.01: raise ValueError('aside')\n"
             "    out.lateral = 0\n");
  write_text(folder / "straight.csv", "time_s,speed_m_per_s,curvature_per_m\n0,20,0\n2,20,0\n");
  const std::string what = script(folder / "side.py") + " --file " + in_quotes(folder / "straight.csv");
  const sim::Results all = run("run", "--quiet --variants 3 " + what);
  EXPECT_TRUE(all.rows.at(0).passed) << all.rows[0].reason;
  EXPECT_FALSE(all.rows.at(1).passed);
  const std::string show = "sim show --json --run " + in_quotes(folder / "run") + " " + what;
  const json worst = json::parse(run_program(show).out), first = json::parse(run_program(show + " --variant 0").out);
  EXPECT_EQ(worst["variant"], 1);
  EXPECT_EQ(worst["passed"], false);
  EXPECT_EQ(first["variant"], 0);
  EXPECT_EQ(first["passed"], true);
}

TEST_F(SimAlgorithm, AScriptIsRefusedWithItsReason) {
  const auto refused = [&](const std::string& text, const std::string& word) {
    write_text(folder / "bad.py", text);
    expect_refused(script(folder / "bad.py"), word);
  };
  refused("def reset(:\n", "SyntaxError");
  refused("x = 1\n", "expected the functions reset, and update or update_batch");
  refused("def reset(*a): pass\nupdate = 3\n", "update is no function");
  refused("import nowhere_to_be_found\n", "ModuleNotFoundError");
  refused("import nowhere_to_be_found\n", "another Python is named with SPARKPILOT_PYTHON");
  refused("def reset(*a): pass\ndef update(*a): pass\nsteering = 'wheel'\n", "steering is 'wheel'");
  refused("def reset(*a): pass\ndef update(*a): pass\nparameters = {'kp': float('nan')}\n",
          "parameter kp is no number");
  refused("def reset(*a): pass\ndef update(*a): pass\nparameters = 5\n", "parameters is 5, expected a dict");
  refused("def reset(*a): pass\ndef update(*a): pass\nparameters = {'time_gap': 1}\n", "every algorithm has");
  refused("def reset(*a): pass\ndef update(*a): pass\nparameters = {'a b': 1}\n", "letters, digits and _");
  refused("import sys\nsys.exit(4)\n", "exit code 4");
  write_text(folder / "good.py", "def reset(*a): pass\ndef update(*a): pass\n");
  const ProgramResult result = run_program("sim run --algorithm good.py --scenarios curves",
                                           "cd " + in_quotes(folder.path()) + " && SPARKPILOT_PYTHON=/nonexistent");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("/nonexistent: cannot be started"), std::string::npos) << result.err;
}

// What nobody would read is no output, in single worlds and in NumPy's arrays of them.
TEST_F(SimAlgorithm, AnOutputThatIsNotThereIsNamed) {
  write_text(folder / "single.py", "def reset(*a): pass\ndef update(world, seen, out): out.torque = 0.1\n");
  const sim::Results single = run("single", "--quiet --scenarios curve_firm " + script(folder / "single.py"));
  EXPECT_NE(single.rows.at(0).reason.find("'Output' object has no attribute 'torque' (single.py, line 2)"),
            std::string::npos)
      << single.rows[0].reason;
  const std::string python = python_with_numpy();
  if (python.empty()) GTEST_SKIP() << "no Python has NumPy: arrays are not tested";
  write_text(folder / "batch.py", "def reset(*a): pass\ndef update_batch(seen, out): out.torque = 0.1\n");
  const sim::Results batch = run("batch", "--quiet --scenarios curve_firm " + script(folder / "batch.py"),
                                 "SPARKPILOT_PYTHON='" + python + "'");
  EXPECT_NE(batch.rows.at(0).reason.find("no field 'torque', expected one of lateral, acceleration"), std::string::npos)
      << batch.rows[0].reason;
}

// Of worlds that fail in every step nothing was driven; why it takes so long is said at once.
TEST_F(SimAlgorithm, OneThatFailsEverywhereSaysSoFirst) {
  write_text(folder / "broken.py", "def reset(*a): pass\ndef update(*a): raise ValueError('never')\n");
  const std::string what = "sim run --json --scenarios curve_firm --variants 4 " + script(folder / "broken.py");
  const ProgramResult result = run_program(what);
  const json report = json::parse(result.out);
  EXPECT_EQ(report["failed_in_algorithm"], 4);
  EXPECT_EQ(report["steps"], 0);
  const std::string note =
      "broken.py: ValueError: never (broken.py, line 2), in update at 0.00 s (4 worlds together): such worlds are run "
      "again in halves, down to single ones\n";
  EXPECT_EQ(result.err, note) << "once";
  EXPECT_EQ(run_program(what + " --quiet").err, "");
}

// The page draws what files drove, a car of a file and a course, which are found by what is in them.
TEST_F(SimAlgorithm, APageOfAComparisonDrawsWhatFilesDrove) {
  const std::string text =
      "parameters = {'gain': 1.0}\n"
      "def reset(worlds, cars, given):\n"
      "    global gain, car\n"
      "    gain, car = given['gain'], [cars[i].accel_factor for i in range(worlds)]\n"
      "def update(world, seen, out):\n"
      "    out.lateral = gain * seen.desired_curvature * seen.speed**2 / car[world]\n";
  write_text(folder / "old.py", text);
  write_text(folder / "new.py", "# newer\n" + text);
  write_text(folder / "bend.csv", "time_s,speed_m_per_s,curvature_per_m\n0,20,0\n4,20,0.002\n9,20,0.002\n");
  write_text(folder / "car.json", R"({"format": "sparkpilot car 1", "mass_kg": 1500})");
  const std::string course = " --file " + in_quotes(folder / "bend.csv"),
                    car = " --vehicle " + in_quotes(folder / "car.json");
  const auto by = [&](const char* name) { return " --algorithm " + in_quotes(folder / name) + " --step-timeout 60"; };
  const std::string drive = "--quiet --variants 6" + course + car;
  run("a", drive + by("old.py"));
  run("b", drive + by("new.py") + " --set gain=0.7");
  const auto page = [&](const std::string& flags) {
    const ProgramResult result =
        run_program("sim compare '" + folder.file("a") + "' '" + folder.file("b") +
                    "' --worst-by tracking_rmse --page '" + folder.file("page.html") + "'" + flags);
    EXPECT_TRUE(result.code == 0 || result.code == 4) << result.err;
    return read_text(folder / "page.html");
  };
  const auto plots = [](const std::string& html) {
    size_t found = 0;
    for (size_t at = html.find("variant"); (at = html.find("Offset from the middle", at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  const std::string both = page(course + car + by("old.py") + " --algorithm " + in_quotes(folder / "new.py"));
  EXPECT_GE(plots(both), 3U);
  EXPECT_EQ(both.find("Not drawn over time"), std::string::npos);
  EXPECT_EQ(both.find("Driven again"), std::string::npos) << "the figures of the runs";
  const std::string one = page(course + car + by("new.py"));
  EXPECT_EQ(plots(one), plots(both));
  EXPECT_NE(one.find("A was driven by old.py (MD5 "), std::string::npos);
  const std::string none = page("");
  EXPECT_EQ(plots(none), 0U);
  EXPECT_NE(none.find("give it with --algorithm"), std::string::npos);
  EXPECT_NE(page(by("old.py")).find("give it with --vehicle"), std::string::npos);
  EXPECT_NE(page(car + by("old.py")).find("give it with --file"), std::string::npos);
  const std::string compare = "sim compare '" + folder.file("a") + "' '" + folder.file("b") + "'";
  EXPECT_EQ(run_program(compare + course).code, 2);
  // Neither what is read is replaced, nor anything named that no run had.
  EXPECT_EQ(run_program(compare + by("old.py") + " --page '" + folder.file("old.py") + "'").code, 2);
  EXPECT_EQ(read_text(folder / "old.py"), text);
  write_text(folder / "other.py", text + "# other\n");
  const ProgramResult other = run_program(compare + by("other.py") + " --page '" + folder.file("page.html") + "'");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("other.py: neither A nor B had it"), std::string::npos) << other.err;
}

TEST_F(SimAlgorithm, TheExampleInNumPyDrivesNearlyAsTheBuiltInOne) {
  const std::string with = python_with_numpy();
  if (with.empty()) GTEST_SKIP() << "no Python has NumPy";
  const sim::Results ours = run("ours", kCurves + std::string("--algorithm lateral_pid"));
  const sim::Results theirs =
      run("theirs", kCurves + script(kTree / "examples/lateral_pid.py"), "SPARKPILOT_PYTHON='" + with + "'");
  for (size_t i = 0; i < ours.rows.size(); ++i) {
    EXPECT_EQ(theirs.rows[i].passed, ours.rows[i].passed);
    EXPECT_NEAR(*theirs.rows[i].values[0], *ours.rows[i].values[0], 1e-3 * *ours.rows[i].values[0]);
  }
}

TEST_F(SimAlgorithm, ShowsAWorldOfARunOnlyWithTheSameFile) {
  ASSERT_EQ(run_program("sim run" + std::string(kCurves) + library("lateral_pid.so") + out("run")).code, 0);
  const std::string show = "sim show --json curve_firm --variant 3 --run " + in_quotes(folder / "run");
  const ProgramResult unnamed = run_program(show), other = run_program(show + " " + library("faulty.so"));
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_NE(unnamed.err.find("--algorithm FILE"), std::string::npos) << unnamed.err;
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("MD5"), std::string::npos) << other.err;
  const ProgramResult shown =
      run_program(show + " " + library("lateral_pid.so") + " --trace " + in_quotes(folder / "trace.csv"));
  ASSERT_EQ(shown.code, 0) << shown.err;
  const json world = json::parse(shown.out);
  const sim::Results rows = results("run");
  const auto row = std::ranges::find_if(
      rows.rows, [](const sim::ResultRow& r) { return r.scenario == "curve_firm" && r.variant == 3; });
  ASSERT_NE(row, rows.rows.end());
  EXPECT_EQ(world["metrics"]["tracking_rmse"], *row->values[0]);
  EXPECT_EQ(world["passed"], row->passed);
  const std::string trace = read_text(folder / "trace.csv");
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '\n'), world["seconds"].get<double>() * 20 + 1);
  // Rows are the built-in controller's, whatever is asked for in the steps behind them.
  ASSERT_EQ(run_program("sim show curve_firm --algorithm lateral_pid --trace " + in_quotes(folder / "own.csv")).code,
            0);
  ASSERT_EQ(
      run_program("sim show curve_firm " + library("lateral_pid.so") + " --trace " + in_quotes(folder / "outside.csv"))
          .code,
      0);
  std::istringstream own(read_text(folder / "own.csv")), outside(read_text(folder / "outside.csv"));
  std::string ours, theirs;
  std::getline(own, ours), std::getline(outside, theirs);
  EXPECT_EQ(theirs, ours);
  while (std::getline(own, ours) && std::getline(outside, theirs)) {
    std::istringstream own_row(ours), outside_row(theirs);
    std::string field, same;
    for (size_t column = 0; column <= sim::kDesiredCurvature; ++column) {
      std::getline(own_row, field, ','), std::getline(outside_row, same, ',');
    }
    ASSERT_NEAR(std::stod(same), std::stod(field), 1e-7) << ours;
  }
  // A world in which the algorithm fails is drawn up to there.
  const ProgramResult failed =
      run_program("sim show --json curve_firm --set fault=5 --set beyond=0 " + library("faulty.so"));
  EXPECT_EQ(failed.code, 0) << failed.err;
  EXPECT_EQ(json::parse(failed.out)["passed"], false);
  EXPECT_EQ(json::parse(failed.out)["metrics"]["tracking_rmse"], nullptr);
}

TEST_F(SimAlgorithm, ANetworkDrives) {
  // Torque of -0.3 times the offset, as sim/network_algorithm_test.cc has it in detail.
  const auto write = [&](const char* name, double gain) {
    Graph graph;
    Builder b(graph);
    const int64_t columns = std::ssize(sim::observed_numbers());
    const auto offset = std::ranges::find(sim::observed_numbers(), "offset", &sim::WorldNumber::name);
    const ValueId seen = b.open_input("seen", DType::f32, {{-1, "worlds"}, {columns}});
    const ValueId column = b.ints({offset - sim::observed_numbers().begin()});
    const ValueId one = b.add("Gather", {seen, column}, {{"axis", int64_t{1}}});
    b.output(b.add("Mul", {one, b.scalar(DType::f32, gain)}), "torque");
    save_onnx(graph, folder / name);
  };
  write("policy.onnx", -0.3);
  write("other.onnx", -0.4);
  const std::string policy = " --algorithm " + in_quotes(folder / "policy.onnx");
  const std::string what = "--quiet --scenarios highway --variants 300" + policy;
  const sim::Results one = run("one", what + " --threads 1"), three = run("three", what + " --threads 3");
  EXPECT_EQ(one.rows, three.rows);
  EXPECT_EQ(one.info.algorithm, "policy.onnx");
  EXPECT_EQ(one.info.algorithm_md5.size(), 32U);
  EXPECT_GT(one.info.update_p50_us.value_or(0), 0);
  EXPECT_EQ(run_program("sim compare " + in_quotes(folder / "one") + " " + in_quotes(folder / "three")).code, 0);

  const std::string show = "sim show --json highway_straight --variant 7 --run " + in_quotes(folder / "one");
  const ProgramResult shown = run_program(show + policy);
  ASSERT_EQ(shown.code, 0) << shown.err;
  const auto row = std::ranges::find_if(
      one.rows, [](const sim::ResultRow& r) { return r.scenario == "highway_straight" && r.variant == 7; });
  ASSERT_NE(row, one.rows.end());
  EXPECT_EQ(json::parse(shown.out)["metrics"]["tracking_rmse"], *row->values[0]);
  const ProgramResult other = run_program(show + " --algorithm " + in_quotes(folder / "other.onnx"));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("MD5"), std::string::npos) << other.err;
  // The gap that it sees is by these two, whoever drives.
  EXPECT_EQ(run_program("sim run --scenarios highway_straight --planner cruise --set standstill=5" + policy).code, 0);
  expect_refused("--planner cruise --set follow_accel=1" + policy, "--set follow_accel has no effect");
  expect_refused(policy + " --workers 2", "--workers has no effect with --algorithm " + folder.file("policy.onnx"));
  write_text(folder / "text.onnx", "no network");
  expect_refused("--algorithm " + in_quotes(folder / "text.onnx"), "text.onnx");
}

// Processes that name this file on their command line.
int processes_with(const std::string& file) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (entry.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream command(entry.path() / "cmdline", std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(command)), {});
    count += text.find(file) != std::string::npos && text.find(sim::kAlgorithmWorker) != std::string::npos;
  }
  return count;
}

TEST_F(SimAlgorithm, WorkersEndWithTheProgramHoweverItEnds) {
  const fs::path file = folder / "own_name.so";
  fs::copy(built->path() / "faulty.so", file);
  for (const int signal : {SIGINT, SIGKILL}) {
    // One world hangs, so that a worker is at work.
    Background run({"sim", "run", "--scenarios", "curve_firm", "--variants", "2", "--algorithm", file.string(), "--set",
                    "fault=4", "--set", "beyond=0", "--step-timeout", "3600", "--out",
                    folder.file("run" + std::to_string(signal))});
    for (int i = 0; i < 6000 && processes_with(file.string()) == 0 && !run.ended(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_GT(processes_with(file.string()), 0);
    run.signal(signal);
    EXPECT_EQ(run.wait(), signal == SIGINT ? 130 : 128 + SIGKILL);
    int left = 1;
    for (int i = 0; i < 6000 && (left = processes_with(file.string())) > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(left, 0) << "signal " << signal;
  }
}

}  // namespace sim_algorithm_cli_test
}  // namespace sparkpilot
