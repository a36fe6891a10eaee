// Hand-made routes of small pictures, for tests that drive them through the tiny models.
#pragma once

#include <capnp/message.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "drive/drive.h"
#include "onnx/export.h"
#include "onnx/zoo.h"
#include "route/log/reader.h"
#include "route/log/writer.h"
#include "route/test_files.h"
#include "route/video/writer.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {

inline constexpr int kWidth = 160, kHeight = 96;
inline constexpr uint64_t kStart = 100'000'000'000, kFrame = 50'000'000;

inline YuvImage picture(int n) {
  YuvImage image(kWidth, kHeight);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) image.y()[y * kWidth + x] = static_cast<uint8_t>(40 + (x + 3 * n) % 150 + y / 4);
  }
  return image;
}

class DriveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"tiny_driving_vision", "tiny_driving_policy", "tiny_dmonitoring_model"}) {
      save_onnx(build_zoo_model(name), folder_ / (std::string(name) + ".onnx"));
    }
    options_.models.vision = folder_ / "tiny_driving_vision.onnx";
    options_.models.policy = folder_ / "tiny_driving_policy.onnx";
    options_.out = folder_ / "out";
    options_.threads = 1;
    options_.overlay_width = 160;
    options_.focal_length = 100;
    options_.note = [this](const std::string& text) { notes_.push_back(text); };
  }

  std::filesystem::path segment(int number) const {
    return folder_ / "route" / fmt::format("2024-01-02--03-04-05--{}", number);
  }

  void write_video(const std::filesystem::path& file, int frames, int first = 0) const {
    std::filesystem::create_directories(file.parent_path());
    VideoWriter writer(file, {.width = kWidth, .height = kHeight, .codec = Codec::hevc, .quality = 20});
    for (int i = 0; i < frames; ++i) writer.write(picture(first + i).view());
    writer.commit();
  }

  // A log whose index has these frames, with a calibration before the first. `driver`: the driver camera has the same
  // frames, and the device is a mici.
  void write_log(int number, const std::vector<uint32_t>& frame_ids, bool driver = false) const {
    std::filesystem::create_directories(segment(number));
    LogWriter writer(segment(number) / "rlog.zst");
    const auto write = [&](uint64_t time, auto&& fill) {
      capnp::MallocMessageBuilder message;
      auto event = message.initRoot<cereal::Event>();
      event.setLogMonoTime(time);
      fill(event);
      writer.write(message);
    };
    write(kStart, [](cereal::Event::Builder event) { event.initLiveCalibration().initRpyCalib(3); });
    if (driver) {
      write(kStart, [](cereal::Event::Builder event) {
        event.initDeviceState().setDeviceType(cereal::InitData::DeviceType::MICI);
      });
    }
    for (size_t i = 0; i < frame_ids.size(); ++i) {
      const uint64_t eof = kStart + kFrame * (frame_ids[i] + 1);
      for (const bool inside : {false, true}) {
        if (inside && !driver) continue;
        write(eof, [&](cereal::Event::Builder event) {
          auto index = inside ? event.initDriverEncodeIdx() : event.initRoadEncodeIdx();
          index.setFrameId(frame_ids[i]);
          index.setSegmentNum(number);
          index.setSegmentId(static_cast<uint32_t>(i));
          index.setTimestampSof(eof - 10'000'000);
          index.setTimestampEof(eof);
        });
      }
      write(eof, [&](cereal::Event::Builder event) { event.initCarState().setVEgo(10); });
    }
    writer.commit();
  }

  static std::vector<uint32_t> frames(uint32_t first, uint32_t count) {
    std::vector<uint32_t> out(count);
    for (uint32_t i = 0; i < count; ++i) out[i] = first + i;
    return out;
  }

  DriveResult drive() { return drive_route(find_route((folder_ / "route").string()), options_); }
  std::filesystem::path out(int number) const { return options_.out / fmt::format("2024-01-02--03-04-05--{}", number); }

  std::string error() {
    try {
      drive();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::user);
      return e.what();
    }
    return "no error";
  }

  // Every message of a segment's log as text, without the networks' execution times.
  static std::vector<std::string> messages(const std::filesystem::path& folder) {
    std::vector<std::string> out;
    LogReader log(folder / "rlog.zst");
    while (log.next()) {
      capnp::MallocMessageBuilder message;
      message.setRoot(log.event());
      auto event = message.getRoot<cereal::Event>();
      if (event.isModelV2()) event.getModelV2().setModelExecutionTime(0);
      if (event.isDriverStateV2()) event.getDriverStateV2().setModelExecutionTime(0);
      out.emplace_back(kj::str(event.asReader()).cStr());
    }
    EXPECT_FALSE(out.empty()) << folder;
    return out;
  }

  // The text around the first difference; empty if all messages are equal.
  static std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    if (a.size() != b.size()) return fmt::format("{} messages and {}", a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const auto at =
          static_cast<size_t>(std::mismatch(a[i].begin(), a[i].end(), b[i].begin(), b[i].end()).first - a[i].begin());
      const size_t from = at < 60 ? 0 : at - 60;
      if (a[i] != b[i]) return fmt::format("message {}: {} and {}", i, a[i].substr(from, 90), b[i].substr(from, 90));
    }
    return {};
  }

  static bool has_note(const SegmentResult& result, const std::string& part) {
    return std::any_of(result.notes.begin(), result.notes.end(),
                       [&](const std::string& note) { return note.find(part) != std::string::npos; });
  }

  TempFolder folder_;
  DriveOptions options_;
  std::vector<std::string> notes_;
};

}  // namespace sparkpilot::drive
