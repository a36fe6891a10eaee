// sparkpilot sim tinyphysics, in the network of tests/reference/tinyphysics.
#include <csignal>
#include <filesystem>

#include "cli_fixture.h"
#include "drive_fixture.h"
#include "sim/test_challenge.h"

namespace sparkpilot {
namespace sim_tinyphysics_cli_test {

const std::string kPlantFile = SPARKPILOT_SOURCE_DIR "/tests/reference/tinyphysics/plant.onnx";
const std::string kOtherPlant = "'" SPARKPILOT_SOURCE_DIR "/tests/reference/tinyphysics/other_plant.onnx' ";
const std::string kPlant = "'" + kPlantFile + "' ";

class SimTinyPhysicsCli : public Cli {
 protected:
  void write_routes(int count) {
    for (int k = 1; k <= count; ++k)
      write_text(folder / ("routes/integers_" + std::to_string(k) + ".csv"),
                 sim::integer_route(static_cast<uint32_t>(k)));
  }
  std::string routes() const { return "'" + folder.file("routes") + "' "; }
};

size_t lines_of(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

// The goldens' seeds are those of "routes/integers_1.csv" ...; the costs are from goldens.txt.
TEST_F(SimTinyPhysicsCli, ScoresAFolderOfRoutes) {
  write_routes(12);
  const std::string flags = "--seed-path 'routes/{name}' --batch 4 ";
  const json done = parsed("sim tinyphysics " + kPlant + routes() + flags + "--threads 2");
  EXPECT_EQ(keys(done), Keys({"model", "controller", "parameters", "batch", "device", "routes_with_costs",
                              "routes_diverged", "routes_failed", "routes_unfinished", "mean", "worst", "network_steps",
                              "seconds", "routes_per_second", "stopped", "routes"}));
  ASSERT_EQ(done["routes"].size(), 12U);
  EXPECT_EQ(done["worst"].size(), 10U);
  EXPECT_EQ(done["network_steps"], 12 * 400);
  EXPECT_EQ(done["parameters"], (json{{"p", 0.195}, {"i", 0.1}, {"d", -0.053}}));
  double total = 0;
  for (const json& route : done["routes"]) total += route["total_cost"].get<double>() / 12;
  EXPECT_NEAR(done["mean"]["total_cost"].get<double>(), total, 1e-9 * total);
  for (size_t i = 1; i < 10; ++i) EXPECT_GE(done["worst"][i - 1]["total_cost"], done["worst"][i]["total_cost"]);
  const json& first = done["routes"][0];
  EXPECT_EQ(first["route"], folder.file("routes") + "/integers_1.csv");
  EXPECT_EQ(first["seed_path"], "routes/integers_1.csv");
  EXPECT_NEAR(first["total_cost"].get<double>(), 2219.7769953307052, 22);
  EXPECT_NEAR(first["lataccel_cost"].get<double>() * 50 + first["jerk_cost"].get<double>(),
              first["total_cost"].get<double>(), 1e-9);

  const json one = parsed("sim tinyphysics " + kPlant + routes() + flags + "--threads 1");
  EXPECT_EQ(one["routes"], done["routes"]);
  const json zero = parsed("sim tinyphysics " + kPlant + routes() + flags + "--controller zero");
  EXPECT_NEAR(zero["routes"][0]["total_cost"].get<double>(), 4208.0185994285011, 42);
  const json none = parsed("sim tinyphysics " + kPlant + routes() + flags + "--set p=0 --set i=0 --set d=0");
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(none["routes"][i]["total_cost"], zero["routes"][i]["total_cost"]);
  const json seeds = parsed("sim tinyphysics " + kPlant + routes() + "--batch 4");
  EXPECT_NE(seeds["routes"][0]["seed"], first["seed"]);
}

// A network of the kind with other names, lengths and bins, for three routes at once.
TEST_F(SimTinyPhysicsCli, TakesOtherNetworksOfTheKind) {
  write_routes(4);
  const json done =
      parsed("sim tinyphysics " + kOtherPlant + routes() + "--seed-path 'routes/{name}' --most-lataccel 4");
  EXPECT_EQ(done["batch"], 3);
  EXPECT_EQ(done["routes_with_costs"], 4);
  EXPECT_EQ(done["network_steps"], 4 * 400);
}

TEST_F(SimTinyPhysicsCli, WritesCostsAndTrajectories) {
  write_routes(2);
  write_text(folder / "more/integers_2.csv", sim::integer_route(7));
  const ProgramResult done =
      run_program("sim tinyphysics " + kPlant + routes() + "'" + folder.file("more/integers_2.csv") + "' --out '" +
                  folder.file("out") + "' --trajectories");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("mean of 3 routes"), std::string::npos) << done.out;
  const std::string costs = read_text(folder / "out/costs.csv");
  EXPECT_EQ(costs.substr(0, costs.find('\n')),
            "route,seed_path,seed,lataccel_cost,jerk_cost,total_cost,diverged_at_row,failed");
  EXPECT_EQ(lines_of(costs), 4U);
  for (const char* name : {"integers_1", "integers_2", "integers_2_2"}) {
    const std::string rows = read_text(folder / ("out/trajectories/" + std::string(name) + ".csv"));
    EXPECT_EQ(rows.substr(0, rows.find('\n')), "row,target_m_s2,lataccel_m_s2,action,token");
    EXPECT_EQ(lines_of(rows), 501U) << name;
  }
  expect_usage_error("sim tinyphysics " + kPlant + routes() + "--out '" + folder.file("out") + "'", "out: exists");
  EXPECT_EQ(read_text(folder / "out/costs.csv"), costs);
  EXPECT_NE(read_text(folder / "out/trajectories/integers_2.csv"),
            read_text(folder / "out/trajectories/integers_2_2.csv"));
}

TEST_F(SimTinyPhysicsCli, SaysWhatIsWrong) {
  write_routes(1);
  const std::string begin = "sim tinyphysics " + kPlant;
  expect_usage_error(begin + "'" + folder.file("none.csv") + "'", "none.csv");
  std::filesystem::create_directory(folder / "empty");
  expect_usage_error(begin + "'" + folder.file("empty") + "'", "no file there ends in .csv");
  expect_usage_error(begin + routes() + "--set q=1", "no parameter \"q\"; it has p, i, d");
  expect_usage_error(begin + routes() + "--set p=1 --set p=2", "--set p: given twice");
  expect_usage_error(begin + routes() + "--set p=x", "--set p: expected a number, got \"x\"");
  expect_usage_error(begin + routes() + "--controller pdi",
                     "expected pid, zero or a file that ends in .py, got \"pdi\"");
  expect_usage_error(begin + routes() + "--step-timeout 2", "--step-timeout has no effect with --controller pid");
  expect_usage_error(begin + routes() + "--seed-path 'data/{file}'",
                     "expected {path}, {name} or {stem}, got \"{file}\"");
  expect_usage_error(begin + routes() + "--trajectories", "--trajectories needs --out");
  expect_usage_error(begin + routes() + "--batch -1", "--batch");
  expect_usage_error(begin + routes() + "--most-lataccel 0", "bins up to 0 m/s^2, expected above 0");
  expect_usage_error("sim tinyphysics " + policy() + " " + routes(), "expected the inputs f32 [b, n, 4] (states)");
  expect_usage_error("sim tinyphysics " + kOtherPlant + routes() + "--batch 4", "it takes 3 routes at once, not 4");
  expect_usage_error("sim tinyphysics typo.onnx " + routes() + "--trajectories --out '" + folder.file("out") + "'",
                     "typo.onnx");
  EXPECT_FALSE(std::filesystem::exists(folder / "out")) << "the corrected command may use it";
  write_text(folder / "routes/bad.csv", "t,vEgo\n");
  expect_usage_error(begin + routes(), "bad.csv:1: expected the columns");
}

// Gains that overflow: no such number reaches the report.
TEST_F(SimTinyPhysicsCli, ADivergedControllerIsNamed) {
  write_routes(2);
  const std::string flags = "sim tinyphysics " + kPlant + routes() + "--set p=1e308 --set i=-1e308 --set d=1e308 ";
  const ProgramResult text = run_program(flags + "--out '" + folder.file("out") + "'");
  EXPECT_EQ(text.code, 4) << text.err;
  EXPECT_NE(text.out.find("diverged: in row "), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("nan"), std::string::npos) << text.out;
  const ProgramResult result = run_program(flags + "--json");
  EXPECT_EQ(result.code, 4);
  const json done = json::parse(result.out);
  EXPECT_EQ(done["routes_diverged"].get<int>() + done["routes_with_costs"].get<int>(), 2);
  EXPECT_GE(done["routes"][0]["diverged_at_row"].get<int>(), 100);
}

// What both do in a step, on floats or on arrays.
const std::string kPidStep = R"(    error = target_lataccel - current_lataccel
    self.error_integral += error
    error_diff = error - self.prev_error
    self.prev_error = error
    return self.p * error + self.i * self.error_integral + self.d * error_diff
)";

// The challenge's own controllers, as files of its kind.
const std::string kPidScript = R"(from . import BaseController

class Controller(BaseController):
  def __init__(self):
    self.p, self.i, self.d = 0.195, 0.100, -0.053
    self.error_integral, self.prev_error = 0, 0

  def update(self, target_lataccel, current_lataccel, state, future_plan):
    assert 0 < len(future_plan.lataccel) <= 49 and state.v_ego > 0
)" + kPidStep;

class SimTinyPhysicsScript : public SimTinyPhysicsCli {
 protected:
  void SetUp() override {
    if (std::system("python3 -c '' >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no python3";
    write_routes(5);
  }
  // The time limit is one that a script on a machine that stands still for a moment keeps.
  std::string with(const std::string& name, const std::string& text, const std::string& timeout = "60") {
    write_text(folder / name, text);
    return "sim tinyphysics " + kPlant + routes() + "--seed-path 'routes/{name}' --batch 4 --controller '" +
           folder.file(name) + "' --step-timeout " + timeout + " ";
  }
};

TEST_F(SimTinyPhysicsScript, TheChallengesOwnFileIsTheBuiltInController) {
  const json built_in = parsed("sim tinyphysics " + kPlant + routes() + "--seed-path 'routes/{name}' --batch 4");
  const std::string flags = with("controllers/pid.py", kPidScript);
  for (const char* threads : {"--threads 1", "--threads 2"}) {
    const json script = parsed(flags + threads);
    EXPECT_EQ(script["routes"], built_in["routes"]);
    EXPECT_EQ(script["routes_failed"], 0);
    EXPECT_EQ(script["parameters"]["p"], 0.195);
  }
  // Of the package's own BaseController, and with another gain.
  write_text(folder / "controllers/__init__.py", "class BaseController:\n  shared = 1\n");
  const json other = parsed(flags + "--set p=0.3 --threads 1");
  EXPECT_EQ(other["parameters"]["p"], 0.3);
  EXPECT_EQ(other["routes"], parsed("sim tinyphysics " + kPlant + routes() +
                                    "--seed-path 'routes/{name}' --batch 4 --set p=0.3")["routes"]);
}

// One that raises, ends its process, or does not answer has failed in that route; the others have their costs.
TEST_F(SimTinyPhysicsScript, TheGuiltyRoutesAreNamed) {
  const std::string script = kPidScript;
  const auto broken = [&](const std::string& what) {
    std::string text = "import os, time\n" + script;
    text.replace(text.find("    error = "), 0, "    if abs(current_lataccel) > LIMIT: " + what + "\n");
    return text;
  };
  const json whole = parsed(with("pid.py", script) + "--threads 1");
  ASSERT_EQ(whole["routes_with_costs"], 5);
  for (const auto& [what, reason] :
       {std::pair("raise ValueError('too much')", "ValueError: too much (mine.py, line "),
        {"os._exit(3)", "mine.py: exit code 3"},
        {"time.sleep(600)", "mine.py: no answer within 3 s"},
        {"return 'a text'", "mine.py: TypeError: update returned the text 'a text', expected a number"}}) {
    std::string text = broken(what);
    text.replace(text.find("LIMIT"), 5, "(9 if (state.v_ego, state.a_ego) != (HERE) else 0)");
    // Of the third route alone: its speed and acceleration in row 120.
    const std::string route = read_text(folder / "routes/integers_3.csv");
    size_t at = 0;
    for (int line = 0; line < 121; ++line) at = route.find('\n', at) + 1;
    at = route.find(',', at) + 1;
    text.replace(text.find("HERE"), 4, route.substr(at, route.find(',', route.find(',', at) + 1) - at));
    const bool hangs = text.find("sleep") != std::string::npos;
    const std::string run = with("mine.py", text, hangs ? "3" : "60") + "--threads 1 ";
    const ProgramResult result = run_program(run + "--json");
    EXPECT_EQ(result.code, 4) << result.err;
    const json done = json::parse(result.out);
    EXPECT_EQ(done["routes_failed"], 1) << what;
    for (size_t i = 0; i < 5; ++i) {
      const json& got = done["routes"][i];
      if (i == 2) {
        EXPECT_NE(got["failed"].get<std::string>().find(reason), std::string::npos) << got;
      } else {
        EXPECT_EQ(got, whole["routes"][i]) << what;
      }
    }
    const ProgramResult plain = run_program(run + "--out '" + folder.file("out") + "'");
    EXPECT_NE(plain.out.find("integers_3.csv: failed: mine.py: "), std::string::npos) << plain.out;
    EXPECT_NE(read_text(folder / "out/costs.csv").find("mine.py: "), std::string::npos);
    std::filesystem::remove_all(folder / "out");
  }
}

// One object for all routes of a batch, on NumPy's arrays.
const std::string kBatchPidScript = R"(import numpy as np

class BatchController:
  def __init__(self, routes):
    self.p, self.i, self.d = 0.195, 0.100, -0.053
    self.error_integral, self.prev_error = np.zeros(routes), np.zeros(routes)
    self.first, self.routes = None, routes

  def update(self, target_lataccel, current_lataccel, state, future_plan):
    assert target_lataccel.shape == self.prev_error.shape == state.v_ego.shape and future_plan.lataccel.shape[1] == 49
    there = np.arange(49) < future_plan.rows[:, None]
    for column in future_plan[:4]:
      assert (np.isfinite(column) == there).all()
    if self.first is None:
      self.first, self.kept = target_lataccel, target_lataccel.copy()
    assert (self.first == self.kept).all()
)" + kPidStep;
TEST_F(SimTinyPhysicsScript, OneControllerOfABatchIsAsOneOfEachRoute) {
  const std::string python = python_with_numpy(), before = "SPARKPILOT_PYTHON='" + python + "'";
  if (python.empty()) GTEST_SKIP() << "no Python has NumPy";
  for (const char* set : {"", "--set p=0.3 "}) {
    const std::string more = std::string(set) + "--threads ";
    const json built_in =
        parsed("sim tinyphysics " + kPlant + routes() + "--seed-path 'routes/{name}' --batch 4 " + more + "1");
    for (const char* threads : {"1", "2"}) {
      const json script = parsed(with("batch.py", kBatchPidScript) + more + threads, before);
      EXPECT_EQ(script["routes"], built_in["routes"]);
      EXPECT_EQ(script["parameters"], built_in["parameters"]) << "not the number of routes";
    }
  }
  for (const auto& [what, reason] :
       {std::pair("return 0.0", "update returned no array, expected one of shape ("),
        {"return np.zeros(9)", "update returned an array of shape (9,), expected one of shape ("},
        {"raise KeyError('all')", "KeyError: 'all' (batch.py, line "}}) {
    std::string text = kBatchPidScript;
    text.replace(text.find("    error = "), 0, std::string("    ") + what + "\n");
    const ProgramResult result = run_program(with("batch.py", text) + "--threads 1 --json", before);
    EXPECT_EQ(result.code, 4) << result.err;
    const json done = json::parse(result.out);
    EXPECT_EQ(done["routes_failed"], 5);
    EXPECT_NE(done["routes"][0]["failed"].get<std::string>().find(reason), std::string::npos) << done["routes"][0];
  }
}

// As the official script gives them: NumPy's numbers; and a generator that begins anew, so that a run repeats.
TEST_F(SimTinyPhysicsScript, NumPysScriptsGetItsNumbers) {
  const std::string python = python_with_numpy(), before = "SPARKPILOT_PYTHON='" + python + "'";
  if (python.empty()) GTEST_SKIP() << "no Python has NumPy";
  const std::string script = R"(import random
import numpy as np

class Controller:
  def update(self, target_lataccel, current_lataccel, state, future_plan):
    for number in (target_lataccel, current_lataccel, *state):
      assert type(number) is np.float64
    return (0.3 * target_lataccel).item() + 0.01 * random.random() + 0.01 * np.random.rand()
)";
  const std::string command = with("numbers.py", script) + "--threads 1";
  const json first = parsed(command, before), again = parsed(command, before);
  EXPECT_EQ(first["routes_with_costs"], 5);
  EXPECT_EQ(first["routes"], again["routes"]);
  std::string plain = script;
  plain.replace(plain.find("import numpy as np"), 18, "import math        ");
  plain.replace(plain.find("np.float64"), 10, "float     ");
  plain.replace(plain.find("(0.3 * target_lataccel).item()"), 30, "0.3 * target_lataccel");
  plain.replace(plain.find(" + 0.01 * np.random.rand()"), 26, "");
  EXPECT_EQ(parsed(with("plain.py", plain) + "--threads 1")["routes_with_costs"], 5);
}

TEST_F(SimTinyPhysicsScript, SaysWhatIsNoController) {
  expect_usage_error(with("a.py", "x = 1\n"), "a.py: TypeError: expected a class Controller or BatchController");
  expect_usage_error(with("a.py", "class Controller:\n  pass\n"), "expected Controller to have a method update");
  expect_usage_error(with("a.py", "class Controller(:\n"), "a.py: SyntaxError");
  expect_usage_error(with("a.py", "import sys\nsys.exit(7)\n"), "a.py: exit code 7");
  expect_usage_error(with("a.py", kPidScript) + "--set q=1", "no attribute \"q\" that is a number; it has p, i, d, ");
  expect_usage_error(with("a.py", kPidScript, "0"), "a step timeout of 0 s");
  std::filesystem::remove(folder / "a.py");
  expect_usage_error("sim tinyphysics " + kPlant + routes() + "--controller '" + folder.file("a.py") + "'",
                     "a.py: no such file");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_F(SimTinyPhysicsCli, AnInterruptKeepsWhatIsFinished) {
  write_routes(400);
  Background run({"sim", "tinyphysics", kPlantFile, folder.file("routes"), "--threads", "1", "--batch", "2", "--out",
                  folder.file("out"), "--trajectories", "--quiet"});
  ASSERT_TRUE(run.wait_for(folder / "out/trajectories/integers_11.csv"));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  const size_t routes_done = lines_of(read_text(folder / "out/costs.csv")) - 1;
  EXPECT_GE(routes_done, 4U);
  EXPECT_LT(routes_done, 400U);
  const std::filesystem::directory_iterator files(folder / "out/trajectories");
  EXPECT_EQ(static_cast<size_t>(std::distance(begin(files), end(files))), routes_done);
}

}  // namespace sim_tinyphysics_cli_test
}  // namespace sparkpilot
