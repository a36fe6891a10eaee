// sim extract from outside: courses of a synthetic route whose road is known, and the drive in them.
#include "drive_fixture.h"
#include "route/synth/synth.h"
#include "sim/scenario_file.h"

#include "cli_fixture.h"

namespace sparkpilot {
namespace sim_extract_cli_test {

class SimExtractCli : public ::testing::Test {
 protected:
  // A log without pictures.
  static void SetUpTestSuite() {
    made = new TempFolder;
    options.seed = 4;
    options.seconds = 46;
    options.road = drive::synth::RoadKind::rural;
    options.road_video = options.wide = options.qcamera = false;
    drive::synth_route(made->path(), options);
  }
  static void TearDownTestSuite() { delete made; }
  std::string command(const std::string& rest) const {
    return "sim extract " + in_quotes(made->path()) + " " + rest + " --out " + in_quotes(folder / "courses");
  }
  json extracted(const std::string& rest) const {
    const ProgramResult result = run_program(command(rest) + " --json");
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  inline static TempFolder* made = nullptr;
  inline static drive::SynthOptions options;
  TempFolder folder;
};

TEST_F(SimExtractCli, TheCurvatureIsTheRoads) {
  const json found = extracted("--kind piece --seconds 15");
  ASSERT_EQ(found["courses"].size(), 3u) << found;
  EXPECT_EQ(found, json::parse(read_text(folder / "courses/index.json")));
  const drive::SynthDrive truth(options);
  double squares = 0, bends = 0;
  int64_t rows = 0;
  for (const json& course : found["courses"]) {
    std::istringstream lines(read_text(folder / "courses" / course["file"].get<std::string>()));
    std::string line;
    std::getline(lines, line);
    EXPECT_TRUE(line.starts_with("time_s,speed_m_per_s,curvature_per_m,roll_rad,")) << line;
    while (std::getline(lines, line)) {
      double time = 0, speed = 0, curvature = 0, roll = 0;
      ASSERT_EQ(std::sscanf(line.c_str(), "%lf,%lf,%lf,%lf", &time, &speed, &curvature, &roll), 4);
      // The first carState is at the world's beginning.
      const drive::synth::Pose pose = truth.world().pose(course["begin_s"].get<double>() + time);
      squares += std::pow(curvature + pose.curvature, 2);  // the world's is positive to the right
      bends += pose.curvature * pose.curvature;
      EXPECT_NEAR(speed, pose.speed, 0.1);
      ++rows;
    }
  }
  const double error = std::sqrt(squares / static_cast<double>(rows)),
               size = std::sqrt(bends / static_cast<double>(rows));
  EXPECT_GT(size, 1e-3) << "a road with bends";
  EXPECT_LT(error, 0.05 * size);
}

TEST_F(SimExtractCli, TheCarAheadIsTheRoutes) {
  const json found = extracted("--kind piece --seconds 15");
  EXPECT_EQ(found["lead_source"], "radarState");
  const drive::SynthDrive truth(options);
  int64_t rows = 0, came = 0;
  for (const json& course : found["courses"]) {
    const sim::Scenario scenario = sim::read_scenario(folder / "courses" / course["file"].get<std::string>());
    const sim::CourseTable& table = *scenario.table;
    EXPECT_EQ(course["leads"].get<int64_t>() > 0, !table.lead_speed.empty());
    for (size_t i = 0; i < table.lead_speed.size(); ++i) {
      const double time = course["begin_s"].get<double>() + table.time[i];
      const drive::synth::FrameTruth now = drive::synth::frame_truth(truth.world(), time);
      ASSERT_EQ(table.lead_speed[i].has_value(), now.leads[0].car >= 0) << time;
      if (!table.lead_speed[i]) continue;
      EXPECT_NEAR(*table.lead_speed[i], now.leads[0].v[0], 0.05) << time;
      ++rows;
      if (!table.lead_gap[i]) continue;
      EXPECT_NEAR(*table.lead_gap[i], now.leads[0].x[0] - 1.52, 0.2) << time;
      ++came;
    }
  }
  EXPECT_GT(rows, 400);
  EXPECT_GE(came, 2);
}

TEST_F(SimExtractCli, DrivesTheCourses) {
  const ProgramResult text = run_program(command("--kind piece,curve --seconds 10"));
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("sim run --file"), std::string::npos) << text.out;
  const json index = json::parse(read_text(folder / "courses/index.json"));
  const ProgramResult run = run_program("sim run --variants 4 --json --file " + in_quotes(folder / "courses"));
  ASSERT_EQ(run.code, 0) << run.err;
  const json driven = json::parse(run.out);
  EXPECT_EQ(driven["worlds"], 4 * index["courses"].size());
  EXPECT_EQ(driven["diverged"], 0);
  EXPECT_LT(driven["categories"][0]["means"]["tracking_rmse"], 1);
  EXPECT_TRUE(driven["categories"][0]["means"]["gap_min"].is_number()) << "behind the route's cars";
  EXPECT_EQ(driven["categories"][0]["means"]["collisions"], 0);
}

// The folder stays what it is, and holds the courses alone.
TEST_F(SimExtractCli, WritesIntoAnEmptyFolderThatIsThere) {
  const auto holds = [&](const fs::path& real) {
    std::set<std::string> names{"index.json"}, found;
    const json index = json::parse(read_text(real / "index.json"));
    for (const json& course : index["courses"]) names.insert(course["file"]);
    for (const auto& entry : fs::directory_iterator(real)) found.insert(entry.path().filename().string());
    EXPECT_EQ(found, names);
    EXPECT_EQ(found.size(), 4U);
  };
  fs::create_directory(folder / "behind");
  fs::create_directory_symlink("behind", folder / "courses");
  extracted("--kind piece --seconds 15");
  EXPECT_TRUE(fs::is_symlink(folder / "courses"));
  holds(folder / "behind");
  fs::create_directory(folder / "here");
  const ProgramResult here =
      run_program("sim extract " + in_quotes(made->path()) + " --kind piece --seconds 15 --out .",
                  "cd " + in_quotes(folder / "here") + " &&");
  EXPECT_EQ(here.code, 0) << here.err;
  holds(folder / "here");
}

TEST_F(SimExtractCli, RefusesAndLeavesNothing) {
  EXPECT_EQ(run_program(command("--kind bend")).code, 2);
  EXPECT_NE(run_program(command("--kind curve,stop --seconds 5")).err.find("--seconds has no effect"),
            std::string::npos);
  EXPECT_EQ(run_program("sim extract /nonexistent --out " + in_quotes(folder / "courses")).code, 2);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  fs::create_directory(folder / "courses");
  write_text(folder / "courses/mine.txt", "mine");
  const ProgramResult full = run_program(command("--kind piece"));
  EXPECT_EQ(full.code, 2);
  EXPECT_NE(full.err.find("an empty one"), std::string::npos) << full.err;
  EXPECT_EQ(read_text(folder / "courses/mine.txt"), "mine");
}

}  // namespace sim_extract_cli_test
}  // namespace sparkpilot
