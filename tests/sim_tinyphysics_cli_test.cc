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
                              "routes_diverged", "routes_unfinished", "mean", "worst", "network_steps", "seconds",
                              "routes_per_second", "stopped", "routes"}));
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
            "route,seed_path,seed,lataccel_cost,jerk_cost,total_cost,diverged_at_row");
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
  expect_usage_error(begin + routes() + "--controller pdi", "expected pid or zero, got \"pdi\"");
  expect_usage_error(begin + routes() + "--seed-path 'data/{file}'",
                     "expected {path}, {name} or {stem}, got \"{file}\"");
  expect_usage_error(begin + routes() + "--trajectories", "--trajectories needs --out");
  expect_usage_error(begin + routes() + "--batch -1", "--batch");
  expect_usage_error(begin + routes() + "--most-lataccel 0", "bins up to 0 m/s^2, expected above 0");
  expect_usage_error("sim tinyphysics " + policy() + " " + routes(), "expected the inputs f32 [b, n, 4] (states)");
  expect_usage_error("sim tinyphysics " + kOtherPlant + routes() + "--batch 4", "it takes 3 routes at once, not 4");
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
