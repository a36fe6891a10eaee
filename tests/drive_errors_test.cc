// `sparkpilot drive` with missing, damaged or wrong files: one line that names the file and exit code 2, or the rest is
// driven with a note.
#include <limits>
#include <map>

#include "drive_fixture.h"

namespace sparkpilot {
namespace drive_errors_test {

TEST_F(DriveCli, WhatIsNoRouteIsRefused) {
  expect_refused(drive("/nowhere", out()), "/nowhere");
  fs::create_directories(folder.path() / "empty");
  expect_refused(drive(folder.path() / "empty", out()), (folder.path() / "empty").string());
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(DriveCli, ALogWithoutVideoIsRefused) {
  const fs::path segment = a_segment();
  for (const char* video : {"fcamera.hevc", "ecamera.hevc"}) fs::remove(segment / video);
  expect_refused(drive(segment, out()), segment.string());
  EXPECT_FALSE(fs::exists(out() / name(0) / "rlog.zst"));
}

TEST_F(DriveCli, VideoWithoutALogNeedsToBeToldOfItsCamera) {
  const fs::path segment = a_segment();
  for (const char* log : {"rlog.zst", "qlog.zst"}) fs::remove(segment / log);
  expect_refused(drive(segment, out()), (segment / "fcamera.hevc").string());
  const ProgramResult result = drive(segment, out(), "--no-overlay --focal-length 285");
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<json> models = models_of(out() / name(0));
  ASSERT_EQ(models.size(), size_t{kSegmentFrames});
  EXPECT_EQ(models[5]["valid"], false);
  EXPECT_EQ(models[5]["modelV2"]["frameId"], 5);
}

// The notes of a driven segment, concatenated.
std::string notes(const json& result) {
  std::string text;
  for (const json& note : result["notes"]) text += note.get<std::string>() + "\n";
  return text;
}

TEST_F(DriveCli, FewerFramesThanTheIndexSays) {
  const fs::path segment = a_segment();
  write_video(segment / "fcamera.hevc", kSegmentFrames - 4, 2);
  const ProgramResult result = drive(segment, out());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(notes(result_of(out() / name(0))).find("fcamera.hevc: 4 frames fewer than the log's index names"),
            std::string::npos)
      << notes(result_of(out() / name(0)));
  EXPECT_EQ(models_of(out() / name(0)).size(), size_t{kSegmentFrames - 4});
}

// The frames that the wide camera's picture came from, one for each of the road's.
std::vector<int> wide_frames(const std::vector<json>& models) {
  std::vector<int> frames;
  for (const json& model : models) frames.push_back(model["modelV2"]["frameIdExtra"]);
  return frames;
}

// Its last picture for the 100 ms behind it; then the road camera's.
TEST_F(DriveCli, AWideCameraThatEndsIsReplacedByTheRoads) {
  const fs::path segment = a_segment();
  write_video(segment / "ecamera.hevc", 8, 7);
  const ProgramResult result = drive(segment, out());
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<int> expected;
  for (int i = 0; i < kSegmentFrames; ++i) expected.push_back(i == 8 || i == 9 ? 7 : i);
  EXPECT_EQ(wide_frames(models_of(out() / name(0))), expected);
  const std::string said = notes(result_of(out() / name(0)));
  EXPECT_NE(said.find("16 frames without a wide camera frame of the same moment; for 14 of them the road camera"),
            std::string::npos)
      << said;
}

TEST_F(DriveCli, WithoutAnIndexOfTheWideCameraItsFramesAreCountedWithTheRoads) {
  const fs::path segment = a_segment();
  edit_log(segment / "rlog.zst", [](cereal::Event::Builder event) { return !event.isWideRoadEncodeIdx(); });
  const ProgramResult result = drive(segment, out());
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<int> expected;
  for (int i = 0; i < kSegmentFrames; ++i) expected.push_back(i);
  EXPECT_EQ(wide_frames(models_of(out() / name(0))), expected);
  const std::string said = notes(result_of(out() / name(0)));
  EXPECT_NE(said.find("no encode index of the wide camera"), std::string::npos) << said;
}

TEST_F(DriveCli, FramesBehindTheLimitAreNotLost) {
  const ProgramResult result = drive(route(), out(), "--no-overlay --limit 5 --json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["frames_dropped"], 0);
  for (const int segment : {0, 1}) {
    EXPECT_EQ(result_of(out() / name(segment))["dropped"], 0);
  }
}

// Only of the video that ends is said that frames are missing.
TEST_F(DriveCli, AVideoThatWasNotReadToItsEndLacksNothing) {
  const fs::path segment = a_segment();
  write_video(segment / "fcamera.hevc", 4, 2);
  EXPECT_EQ(drive(segment, out()).code, 0);
  const std::string said = notes(result_of(out() / name(0)));
  EXPECT_NE(said.find("fcamera.hevc: 20 frames fewer"), std::string::npos) << said;
  EXPECT_EQ(said.find("ecamera.hevc"), std::string::npos) << said;
}

TEST_F(DriveCli, ATruncatedVideoIsDrivenAsFarAsItGoes) {
  const fs::path segment = a_segment();
  fs::resize_file(segment / "fcamera.hevc", fs::file_size(segment / "fcamera.hevc") / 2);
  const ProgramResult result = drive(segment, out());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(notes(result_of(out() / name(0))).find("fcamera.hevc"), std::string::npos);
  const size_t frames = models_of(out() / name(0)).size();
  EXPECT_GT(frames, 2U);
  EXPECT_LT(frames, size_t{kSegmentFrames});
}

TEST_F(DriveCli, WhatIsNoVideoOrLogIsNamed) {
  const fs::path segment = a_segment();
  write_text((segment / "fcamera.hevc").string(), "<!DOCTYPE html>");
  expect_refused(drive(segment, out()), (segment / "fcamera.hevc").string());
  write_text((segment / "fcamera.hevc").string(), "");
  expect_refused(drive(segment, out()), (segment / "fcamera.hevc").string());
  write_text((segment / "rlog.zst").string(), "version https://git-lfs.github.com/spec/v1\n");
  expect_refused(drive(segment, out()), (segment / "rlog.zst").string());
}

// The other segment is still driven.
TEST_F(DriveCli, ASegmentThatCannotBeDrivenIsLeftOut) {
  const fs::path segment = a_segment();
  fs::copy(route() / name(1), segment.parent_path() / name(1));
  write_text((segment / "fcamera.hevc").string(), "nothing");
  const ProgramResult result = run_program("drive " + in_quotes(segment.parent_path()) + " --no-overlay --models " +
                                           in_quotes(models()) + " --out " + in_quotes(out()));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find(name(0) + ": left out: "), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("left out"), std::string::npos) << result.out;
  const auto summary = nlohmann::json::parse(read_text((out() / "summary.json").string()));
  EXPECT_EQ(summary["complete"], false);
  EXPECT_EQ(summary["segments"][0]["left_out"], true);
  EXPECT_FALSE(fs::exists(out() / name(0) / "rlog.zst"));
  EXPECT_EQ(models_of(out() / name(1)).size(), size_t{kSegmentFrames});
}

TEST_F(DriveCli, ACalibrationThatIsNoNumberIsNotUsed) {
  const fs::path segment = a_segment();
  edit_log(segment / "rlog.zst", [](cereal::Event::Builder event) {
    if (event.which() == cereal::Event::LIVE_CALIBRATION)
      event.getLiveCalibration().getRpyCalib().set(2, std::numeric_limits<float>::quiet_NaN());
    return true;
  });
  const ProgramResult result = drive(segment, out());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(notes(result_of(out() / name(0))).find("calibrations of the log are not three finite numbers"),
            std::string::npos);
  for (const json& model : models_of(out() / name(0))) {
    EXPECT_EQ(model["valid"], false);
    EXPECT_TRUE(model["modelV2"]["position"]["x"][0].is_number());
  }
}

TEST_F(DriveCli, ModelsOfAnotherContractAreRefused) {
  const fs::path vision = models() / "tiny_driving_vision.onnx", policy = models() / "tiny_driving_policy.onnx";
  const fs::path monitoring = models() / "tiny_dmonitoring_model.onnx";
  const std::string to = "drive " + in_quotes(route()) + " --quiet --out " + in_quotes(out()) + " ";
  expect_refused(run_program(to + "--supercombo " + in_quotes(monitoring)), monitoring.string());
  expect_refused(run_program(to + "--supercombo " + in_quotes(vision)), vision.string());
  expect_refused(run_program(to + "--vision " + in_quotes(policy) + " --policy " + in_quotes(vision)), policy.string());
  expect_refused(run_program(to + "--vision " + in_quotes(vision) + " --policy " + in_quotes(vision)), vision.string());
  expect_refused(run_program(to + "--vision " + in_quotes(vision) + " --policy /none.onnx"), "/none.onnx");
  expect_refused(run_program(to + "--models " + in_quotes(route())), route().string());
  write_text(folder.file("text.onnx"), "no model");
  expect_refused(run_program(to + "--supercombo " + in_quotes(folder.file("text.onnx"))), folder.file("text.onnx"));
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(DriveCli, FlagsThatDoNotGoTogetherAreRefused) {
  const std::string start = "drive " + in_quotes(route());
  expect_refused(run_program(start + " --out x"), "--models DIR");
  expect_refused(run_program(start + " --models x --supercombo y --out x"), "--models DIR");
  expect_refused(run_program(start + " --vision x --out x"), "--policy");
  expect_refused(run_program(start + " --from-log --models x --out x"), "--from-log");
  expect_refused(run_program(start + " --models x"), "--out DIR");
  expect_refused(run_program(start + " --models x --out x --limit -1"), "--limit");
  expect_refused(run_program(start + " --models x --out x --overlay-width 5"), "--overlay-width");
}

TEST_F(DriveCli, AnOutputThatIsAFileIsRefused) {
  write_text(folder.file("file"), "mine");
  expect_refused(drive(route(), folder.file("file")), folder.file("file"));
  EXPECT_EQ(read_text(folder.file("file")), "mine");
  expect_refused(drive(route(), out(), "--no-overlay --dump " + in_quotes(folder.file("file"))), folder.file("file"));
}

// All files below a folder and their contents.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    files[name] = entry.is_regular_file() ? read_text(entry.path().string()) : "a folder";
  }
  return files;
}

TEST_F(DriveCli, ARecordingIsNotWrittenInto) {
  const fs::path segment = a_segment(), around = segment.parent_path();
  fs::create_directory_symlink(segment, folder.path() / "link");
  fs::create_directory_symlink(around, folder.path() / "link_around");
  // A segment folder whose name differs from the results'.
  const fs::path numbered = folder.path() / "00000003--5e160c0fd5";
  fs::create_directories(numbered);
  fs::copy(route() / name(1), numbered / "0");
  // Part of another recording.
  const fs::path other = folder.path() / "other";
  write_text((other / "2023-07-27--13-01-19--0" / "qcamera.ts").string(), "recorded");
  const auto before = contents(folder.path());

  struct Case {
    fs::path from, to;
    std::string word;
  };
  const std::vector<Case> cases = {
      {segment, segment, "holds the recording that is driven"},
      {segment, around, "holds the recording that is driven"},
      {segment / "fcamera.hevc", segment, "holds the recording that is driven"},
      {segment, segment.string() + "/", "holds the recording that is driven"},
      {segment, around / "." / ".." / around.filename() / segment.filename(), "holds the recording that is driven"},
      {segment, folder.path() / "link", "holds the recording that is driven"},
      {folder.path() / "link", segment, "holds the recording that is driven"},
      {segment, folder.path() / "link_around", "holds the recording that is driven"},
      {around, around, "holds the recording that is driven"},
      {numbered, numbered, "holds a recording (0/"},
      {numbered / "0", numbered, "holds a recording (0/"},
      {route(), segment, "holds a recording (ecamera.hevc)"},
      {segment, route() / name(1), "holds a recording (ecamera.hevc)"},
      {segment, other, "holds a recording (2023-07-27--13-01-19--0/qcamera.ts)"}};
  for (const auto& [from, to, word] : cases) {
    for (const std::string more : {"--no-overlay", "--resume", "--reference recorded"}) {
      const ProgramResult result = drive(from, to, more);
      expect_refused(result, word);
      EXPECT_NE(result.err.find(to.string() + ": "), std::string::npos) << result.err;
    }
    expect_refused(run_program("drive " + in_quotes(from) + " --from-log --quiet --out " + in_quotes(to)), word);
    expect_refused(drive(from, out(), "--dump " + in_quotes(to)), word);
  }
  expect_refused(run_program(words(segment, ".") + "--no-overlay", "cd " + in_quotes(segment) + ";"), "recording");
  expect_refused(run_program(words(".", ".") + "--no-overlay", "cd " + in_quotes(segment) + ";"), "recording");
  expect_refused(run_program(words("fcamera.hevc", ".") + "--no-overlay", "cd " + in_quotes(segment) + ";"),
                 "recording");
  EXPECT_EQ(contents(folder.path()), before);
}

TEST_F(DriveCli, ASummaryOfAnotherProgramStays) {
  write_text((out() / "summary.json").string(), R"({"tests": 12})");
  expect_refused(drive(route(), out()), (out() / "summary.json").string());
  EXPECT_EQ(read_text((out() / "summary.json").string()), R"({"tests": 12})");
}

TEST_F(DriveCli, EarlierResultsAreWrittenOverAndResumed) {
  const fs::path segment = a_segment();
  write_text((out() / "notes.txt").string(), "mine");
  for (const std::string more : {"--no-overlay", "--no-overlay", "--no-overlay --resume", "--overlay-width 480"}) {
    const ProgramResult result = drive(segment, out(), more);
    EXPECT_EQ(result.code, 0) << more << ": " << result.err;
  }
  EXPECT_EQ(read_text((out() / "notes.txt").string()), "mine");
  // Results may be written next to their recording, in a separate folder.
  EXPECT_EQ(drive(segment, segment.parent_path() / "results").code, 0);
  // Results with video can be driven as well, but not into their own folder.
  fs::copy(segment / "fcamera.hevc", out() / name(0) / "fcamera.hevc");
  expect_refused(drive(out(), out()), "holds the recording that is driven");
}

// What runs the program as a user whose rights count, who may read the tests' folders; empty if it is one already.
std::string as_nobody(std::initializer_list<fs::path> readable) {
  if (getuid() != 0) return "";
  for (const fs::path& path : readable) {
    fs::permissions(path, fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
  }
  return "setpriv --reuid 65534 --regid 65534 --clear-groups";
}

bool runs(const std::string& as) {
  return std::system((as + " '" SPARKPILOT_PROGRAM "' version >/dev/null 2>&1").c_str()) == 0;
}

// Its segment is not missing, nor is the route without one.
TEST_F(DriveCli, ASegmentThatMayNotBeReadIsNamed) {
  make_segment(out("route"), 2, 0);
  const std::string as = as_nobody({folder.path(), out("route")});
  if (!runs(as)) GTEST_SKIP() << "the program cannot be run as another user than root";
  const fs::path segment = fs::directory_iterator(out("route"))->path();
  fs::permissions(segment, fs::perms::owner_all);
  if (getuid() != 0) fs::permissions(segment, fs::perms::none);
  const ProgramResult result = run_program("route info " + in_quotes(out("route")), as);
  fs::permissions(segment, fs::perms::owner_all);
  expect_refused(result, segment.string() + ": Permission denied");
}

TEST_F(DriveCli, AnOutputWithoutTheRightToWriteIsRefused) {
  const std::string as = as_nobody({shared->path(), folder.path()});
  if (!runs(as)) GTEST_SKIP() << "the program cannot be run as another user than root";
  if (getuid() != 0) fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const ProgramResult result = run_program(words(route(), out()) + "--no-overlay", as);
  fs::permissions(folder.path(), fs::perms::owner_all, fs::perm_options::add);
  expect_refused(result, out().string());
  EXPECT_NE(result.err.find("Permission denied"), std::string::npos) << result.err;
}

// A file size limit takes the place of a full disk.
TEST_F(DriveCli, AFullDiskIsToldAndLeavesNothingHalfWritten) {
  for (const std::string more : {"--no-overlay", "--overlay-width 1920"}) {
    const fs::path to = out("out" + std::to_string(more.size()));
    const ProgramResult result = run_program(words(route(), to) + more, "ulimit -f 20;");
    expect_refused(result, to.string());
    EXPECT_NE(result.err.find("File too large"), std::string::npos) << result.err;
    EXPECT_EQ(left_over(to), "");
    EXPECT_FALSE(fs::exists(to / name(0) / "rlog.zst"));
    EXPECT_FALSE(fs::exists(to / "summary.json"));
  }
}

}  // namespace drive_errors_test
}  // namespace sparkpilot
