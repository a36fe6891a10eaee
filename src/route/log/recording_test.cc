#include "route/log/recording.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/test_files.h"

namespace sparkpilot::drive {
namespace {

namespace fs = std::filesystem;

// The error for a folder; empty if it is accepted.
std::string refusal(const fs::path& folder, Writer writer = Writer::drive) {
  try {
    refuse_recording(folder, writer);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "";
}

TEST(Recording, EveryLayoutIsFound) {
  for (const char* file : {"rlog.zst",
                           "rlog.bz2",
                           "rlog",
                           "qlog.zst",
                           "qlog.bz2",
                           "qlog",
                           "raw_log.bz2",
                           "fcamera.hevc",
                           "ecamera.hevc",
                           "dcamera.hevc",
                           "qcamera.ts",
                           "video.hevc",
                           "rlog.zst.lock",
                           "global_pose/frame_times",
                           "processed_log/CAN/speed/t",
                           "2023-07-27--13-01-19--0/fcamera.hevc",
                           "a2a0ccea32023010|2023-07-27--13-01-19--12/rlog.bz2",
                           "a2a0ccea32023010_0000010e--5b26bc3be7--3/qlog.zst",
                           "4/rlog.zst",
                           "a2a0ccea32023010|2023-07-27--13-01-19/0/video.hevc",
                           "0000010e--5b26bc3be7/7/qcamera.ts",
                           "a2a0ccea32023010|2023-07-27--13-01-19--4--qcamera.ts",
                           "0000010e--5b26bc3be7--4--rlog.zst"}) {
    const TempFolder folder;
    write_text(folder / file, "recorded");
    const std::string text = refusal(folder.path());
    EXPECT_NE(text.find(folder.path().string() + ": holds a recording ("), std::string::npos) << file << ": " << text;
    EXPECT_NE(text.find(fs::path(file).begin()->string()), std::string::npos) << text;
    EXPECT_NE(refusal(folder.path(), Writer::synth), "") << file;
  }
}

TEST(Recording, WhatIsNoneIsTaken) {
  const TempFolder folder;
  EXPECT_EQ(refusal(folder / "absent"), "");
  EXPECT_EQ(refusal(folder.path()), "");
  for (const char* file : {"notes.txt", "rlog.json", "route/2023-07-27--13-01-19--0/rlog.zst", "models/vision.onnx",
                           "2023-07-27--13-01-19--0/overlay.mp4"}) {
    write_text(folder / file, "mine");
  }
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(Recording, ResultsAreNone) {
  const TempFolder folder;
  const fs::path segment = folder / "2023-07-27--13-01-19--0";
  write_text(segment / "rlog.zst", "driven");
  EXPECT_NE(refusal(folder.path()), "");
  write_text(segment / kResultFile, "{}");
  EXPECT_EQ(refusal(folder.path()), "");
  EXPECT_NE(refusal(folder.path(), Writer::synth), "");
  for (const char* recorded : {"fcamera.hevc", "qlog.zst"}) {
    write_text(segment / recorded, "recorded");
    EXPECT_NE(refusal(folder.path()), "") << recorded;
    fs::remove(segment / recorded);
  }
  // Writing would change the file that the link points to.
  fs::rename(segment / "rlog.zst", folder / "recorded");
  fs::create_symlink("../recorded", segment / "rlog.zst");
  EXPECT_NE(refusal(folder.path()), "");
}

TEST(Recording, SyntheticSegmentsAreNoneToSynthOnly) {
  const TempFolder folder;
  for (const char* file : {"rlog.zst", "qcamera.ts", kSynthFile}) {
    write_text(folder.path() / "00000003--5e160c0fd5--0" / file, "made");
  }
  EXPECT_EQ(refusal(folder.path(), Writer::synth), "");
  EXPECT_NE(refusal(folder / "00000003--5e160c0fd5--0", Writer::synth), "");
  EXPECT_NE(refusal(folder.path()), "");
}

TEST(Recording, LinksAreFollowed) {
  const TempFolder folder;
  write_text(folder / "data/0/rlog.zst", "recorded");
  fs::create_directory_symlink(folder / "data/0", folder / "segment");
  fs::create_directory_symlink(folder / "data", folder / "route");
  EXPECT_NE(refusal(folder / "segment"), "");
  EXPECT_NE(refusal(folder / "route"), "");
  fs::create_directory(folder / "out");
  fs::create_directory_symlink(folder / "data/0", folder / "out/anything--3");
  EXPECT_NE(refusal(folder / "out"), "");
}

}  // namespace
}  // namespace sparkpilot::drive
