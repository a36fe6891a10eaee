// route synth from outside: its files, output and errors.
#include "base/folder_lock.h"
#include "cli_fixture.h"

namespace sparkpilot {
namespace route_synth_test {
namespace fs = std::filesystem;

class SynthCli : public Cli {
 protected:
  static void SetUpTestSuite() {}
  static void TearDownTestSuite() {}
};

TEST_F(SynthCli, WritesSegmentsAndKeepsThem) {
  const std::string out = folder.file("routes");
  const std::string command = "route synth --device mici --qcamera-only --seconds 0.2 --seed 7 --out " + out;
  const json route = parsed(command)["routes"][0];
  EXPECT_EQ(keys(route), (Keys{"name", "seed", "frames", "segments"}));
  EXPECT_EQ(route["frames"], 4);
  const json& segment = route["segments"][0];
  EXPECT_EQ(keys(segment), (Keys{"number", "folder", "frames", "bytes", "kept"}));
  for (const char* name : {"rlog.zst", "qlog.zst", "qcamera.ts"}) {
    EXPECT_TRUE(fs::is_regular_file(fs::path(segment["folder"].get<std::string>()) / name)) << name;
  }
  EXPECT_FALSE(segment["kept"].get<bool>());
  fs::create_directory(fs::path(segment["folder"].get<std::string>()) / "notes");
  const json kept = parsed(command)["routes"][0]["segments"][0];
  EXPECT_TRUE(kept["kept"].get<bool>());
  EXPECT_EQ(kept["bytes"], segment["bytes"]) << "a folder is no file of the segment";
  expect_usage_error(command + " --light night", "was not made by these options");
}

TEST_F(SynthCli, ARecordingIsNotWrittenInto) {
  const std::string command = "route synth --no-video --no-rlog --seconds 0.2 --out ";
  write_text(folder.file("data/2023-07-27--13-01-19--0/qlog.bz2"), "recorded");
  for (const char* to : {"data", "data/2023-07-27--13-01-19--0"}) {
    expect_usage_error(command + folder.file(to), folder.file(to) + ": holds a recording");
  }
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder.path()), {}), 3);
  // Several synthetic routes may be in one folder.
  EXPECT_EQ(run_program(command + folder.file("routes") + " --seed 1").code, 0);
  EXPECT_EQ(run_program(command + folder.file("routes") + " --seed 2").code, 0);
  const std::string segment = fs::directory_iterator(folder / "routes")->path().string();
  expect_usage_error(command + segment + " --seed 3", "holds a recording");
  // Nor into the results of a drive, which would be of two routes then.
  write_text(folder.file("driven/log--0/segment.json"), "{}");
  write_text(folder.file("driven/log--0/rlog.zst"), "driven");
  expect_usage_error(command + folder.file("driven"), folder.file("driven") + ": holds a recording");
}

TEST_F(SynthCli, ARouteIsMadeByOneProcess) {
  const std::string command = "route synth --no-video --no-rlog --seconds 0.2 --out " + folder.file("routes");
  const std::string name = parsed(command + " --seed 1")["routes"][0]["name"];
  fs::remove_all(folder / "routes");
  const FolderLock held(folder / "routes", "." + name.substr(name.find('|') + 1) + ".lock");
  expect_usage_error(command + " --seed 1", "process " + std::to_string(getpid()) + " is writing");
  EXPECT_EQ(run_program(command + " --seed 2").code, 0) << "another route";
}

TEST_F(SynthCli, RefusesWhatCannotBe) {
  const std::string synth = "route synth --out " + folder.file("none") + " ";
  expect_usage_error(synth + "--device phone", "--device: expected tici, tizi, mici or neo, got \"phone\"");
  expect_usage_error(synth + "--road sea", "city or winding, got \"sea\"");
  expect_usage_error(synth + "--light lamp", "dusk or night, got \"lamp\"");
  expect_usage_error(synth + "--wet --dry", "--wet and --dry");
  expect_usage_error(synth + "--seconds 0", "0 seconds");
  expect_usage_error(synth + "--routes 0", "--routes");
  expect_usage_error("route synth", "--out");
  EXPECT_FALSE(fs::exists(folder.file("none")));
}

}  // namespace route_synth_test
}  // namespace sparkpilot
