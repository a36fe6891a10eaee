// sparkpilot sim compare, on small runs written here.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli_fixture.h"

namespace sparkpilot {
namespace sim_compare_cli_test {

namespace fs = std::filesystem;

// A finished run of 20 worlds, whose tracking error is the others' times `factor`; world `failing` fails.
std::string make_run(const TempFolder& folder, const std::string& name, double factor, int failing = -1,
                     const std::string& vehicle = "civic", const std::string& scenario = "curve") {
  const fs::path run = folder.path() / name;
  fs::create_directories(run);
  json info = {{"format", 1},
               {"program", "0.1.0"},
               {"algorithm", "lateral_torque"},
               {"parameters", json::object({{"ki", factor}})},
               {"vehicle", vehicle},
               {"plant", "bicycle"},
               {"planner", "idm"},
               {"seed", 1},
               {"scenarios", {scenario}},
               {"variants", 20},
               {"instruction_set", "AVX2"},
               {"metrics", {"tracking_rmse", "offset_max"}},
               {"processes", 1},
               {"threads", 1},
               {"steps", 1},
               {"steps_per_second", nullptr},
               {"update_p50_us", nullptr},
               {"update_p99_us", nullptr}};
  std::ofstream(run / "run.json") << info.dump();
  std::ofstream rows(run / "results.csv");
  rows << "scenario,category,variant,seed,passed,diverged_s,reason,tracking_rmse,offset_max\n";
  for (int v = 0; v < 20; ++v) {
    rows << fmt::format("{},curves,{},{},{},,{},{},0.5\n", scenario, v, 100 + v, v == failing ? 0 : 1,
                        v == failing ? "offset too large" : "", factor * (0.2 + 0.01 * v));
  }
  return "'" + run.string() + "'";
}

TEST(SimCompareCli, EndsWithFourOnlyForWhatIsWorse) {
  const TempFolder folder;
  const std::string old = make_run(folder, "old", 1), worse = make_run(folder, "worse", 1.1);
  EXPECT_EQ(run_program("sim compare " + old + " " + old).code, 0);
  EXPECT_EQ(run_program("sim compare " + worse + " " + old).code, 0);  // better
  const ProgramResult found = run_program("sim compare " + old + " " + worse);
  EXPECT_EQ(found.code, 4);
  EXPECT_NE(found.err.find("worse: tracking_rmse of all: 0.295 to 0.3245 m/s^2, +10.0 %"), std::string::npos)
      << found.err;
  EXPECT_EQ(run_program("sim compare -q " + old + " " + worse).err, "");
  EXPECT_NE(found.out.find("parameter ki: 1 in A, 1.1 in B"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("worst by tracking_rmse"), std::string::npos);
  std::istringstream lines(found.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 100U + folder.path().string().size()) << line;
  EXPECT_EQ(run_program("sim compare " + old + " " + worse + " --threshold tracking_rmse=15").code, 0);
}

TEST(SimCompareCli, NamesWorldsThatNewlyFail) {
  const TempFolder folder;
  const std::string old = make_run(folder, "old", 1), failing = make_run(folder, "failing", 1, 7);
  const ProgramResult found = run_program("sim compare " + old + " " + failing);
  EXPECT_EQ(found.code, 4);
  EXPECT_NE(found.err.find("worse: 1 of 20 pairs newly failed"), std::string::npos) << found.err;
  EXPECT_NE(found.out.find("offset too large"), std::string::npos) << found.out;
  EXPECT_EQ(found.out.find("not in the means"), std::string::npos) << found.out;
  // There the algorithm fails, so that the world has no figures.
  const std::string crashing = make_run(folder, "crashing", 1, 7), table = folder.file("crashing/results.csv");
  std::string rows = read_text(table);
  const size_t begin = rows.find("offset too large");
  rows.replace(begin, rows.find('\n', begin) - begin, "p.py: exit code 5,,");
  write_text(table, rows);
  const ProgramResult crashed = run_program("sim compare " + failing + " " + crashing);
  EXPECT_EQ(crashed.code, 4);
  EXPECT_NE(crashed.err.find("worse: 0 of 20 pairs newly failed, 0 newly diverged, 1 newly failed in the algorithm"),
            std::string::npos)
      << crashed.err;
  EXPECT_NE(crashed.out.find("\n1 newly failed in the algorithm\n1 pair not in the means"), std::string::npos)
      << crashed.out;
  EXPECT_NE(crashed.out.find("p.py: exit code 5"), std::string::npos) << crashed.out;
}

TEST(SimCompareCli, WritesJsonRowsAndAPage) {
  const TempFolder folder;
  const std::string old = make_run(folder, "old", 1), worse = make_run(folder, "worse", 1.1, -1, "truck");
  const ProgramResult result = run_program("sim compare " + old + " " + worse + " --json --csv '" +
                                           folder.file("d.csv") + "' --page '" + folder.file("p.html") + "'");
  EXPECT_EQ(result.code, 4);
  const json answer = json::parse(result.out);
  EXPECT_EQ(answer["regressed"], true);
  EXPECT_EQ(answer["pairs"], 20);
  EXPECT_EQ(answer["worst"]["pairs"].size(), 10U);
  EXPECT_EQ(answer["notes"][0], "vehicle: civic in A, truck in B");
  const json& first = answer["differences"][0];
  EXPECT_EQ(first["metric"], "tracking_rmse");
  EXPECT_EQ(first["change"], "worse");
  EXPECT_NEAR(first["percent"].get<double>(), 10, 1e-9);
  EXPECT_GT(first["low_holm"].get<double>(), 0);
  const std::string csv = read_text(folder.file("d.csv")), page = read_text(folder.file("p.html"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + static_cast<int64_t>(answer["differences"].size()));
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
}

// The worst worlds of real runs are driven again; of those that were written here the page says that they cannot be.
TEST(SimCompareCli, DrawsTheWorstWorldsOverTime) {
  const TempFolder folder;
  const std::string run = "sim run --scenarios curve_firm --variants 4 --out ", old = "'" + folder.file("old") + "'",
                    changed = "'" + folder.file("new") + "'", page = folder.file("p.html");
  ASSERT_EQ(run_program(run + old).code, 0);
  ASSERT_EQ(run_program(run + changed + " --set kp=0.3").code, 0);
  const std::string compare = "sim compare " + old + " " + changed + " --worst-by tracking_rmse --page '" + page + "'";
  ASSERT_NE(run_program(compare).code, 2);
  const std::string first = read_text(page);
  EXPECT_NE(first.find("Offset from the middle of the lane, curve_firm variant "), std::string::npos);
  EXPECT_EQ(first.find("Not drawn over time"), std::string::npos);
  EXPECT_EQ(first.find("Driven again, "), std::string::npos);
  run_program(compare);
  EXPECT_EQ(read_text(page), first);
  const std::string made = make_run(folder, "made", 1), worse = make_run(folder, "worse", 1.1);
  EXPECT_EQ(run_program("sim compare " + made + " " + worse + " --page '" + page + "'").code, 4);
  EXPECT_NE(read_text(page).find("Not drawn over time: "), std::string::npos);
}

TEST(SimCompareCli, SaysThatARunIsComparedWithItself) {
  const TempFolder folder;
  const std::string run = make_run(folder, "run", 1), same = "A and B are the same folder";
  EXPECT_NE(run_program("sim compare " + run + " " + run + "/").out.find(same), std::string::npos);
  EXPECT_EQ(run_program("sim compare " + run + " " + make_run(folder, "other", 1)).out.find(same), std::string::npos);
}

TEST(SimCompareCli, BadInputIsOneLineAndCodeTwo) {
  const TempFolder folder;
  const std::string old = make_run(folder, "old", 1), other = make_run(folder, "other", 1, -1, "civic", "exit");
  const auto expect = [&](const std::string& arguments, const std::string& word) {
    const ProgramResult result = run_program("sim compare " + arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  };
  expect(old, "B is missing");
  expect(old + " " + folder.file("none"), "none");
  expect(old + " " + other, "no world in common");
  expect(old + " " + old + " --threshold 5", "expected METRIC=PERCENT");
  expect(old + " " + old + " --threshold tracking_rmse=much", "expected a number, got \"much\"");
  expect(old + " " + old + " --threshold tracking=5", "no metric \"tracking\"");
  expect(old + " " + old + " --threshold tracking_rmse=nan", "tracking_rmse");
  expect(old + " " + old + " --alpha 2", "alpha 2");
  expect(old + " " + old + " --worst-by jerk_rms", "they have tracking_rmse, offset_max");
  expect(old + " " + old + " --json --csv " + old + "/results.csv", "results.csv");
  expect(old + " " + old + " --csv " + old + "/x --page " + old + "/../old/x", "--csv and --page name one file");
}

}  // namespace sim_compare_cli_test
}  // namespace sparkpilot
