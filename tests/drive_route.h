// Routes for tests of `sparkpilot drive`: made by `route synth`, with edited logs and small pictures.
#pragma once

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "program.h"
#include "route/log/reader.h"
#include "route/log/writer.h"
#include "route/video/writer.h"

namespace sparkpilot {

// A mici's cameras at a quarter of their width.
inline constexpr int kTestWidth = 336, kTestHeight = 190;

// Passes every event of a log to `edit`, which may change it; removes those for which it returns false.
inline void edit_log(const std::filesystem::path& log, const std::function<bool(cereal::Event::Builder)>& edit) {
  const std::filesystem::path aside = log.parent_path() / ("edited_" + log.filename().string());
  {
    drive::LogReader reader(log);
    drive::LogWriter writer(aside);
    while (reader.next()) {
      capnp::MallocMessageBuilder message;
      message.setRoot(reader.event());
      if (edit(message.getRoot<cereal::Event>())) writer.write(message);
    }
    writer.commit();
  }
  std::filesystem::rename(aside, log);
}

// Frame `number` of a camera: moving waves, and the number itself in eight black or white blocks along the upper edge,
// lowest bit first.
inline drive::YuvImage numbered_picture(int number, int wave) {
  drive::YuvImage picture(kTestWidth, kTestHeight);
  for (int row = 0; row < kTestHeight; ++row) {
    for (int column = 0; column < kTestWidth; ++column) {
      const bool block = row < 16 && column < 128;
      const int moving = (column * 3 + row * wave + number * 5) % 256;
      const int value = block ? ((number >> (column / 16)) & 1) * 200 + 20 : std::abs(moving - 128) + 60;
      picture.y()[row * kTestWidth + column] = static_cast<uint8_t>(value);
    }
  }
  const int count = kTestWidth * kTestHeight / 4;
  for (int i = 0; i < count; ++i) {
    picture.u()[i] = static_cast<uint8_t>(100 + (i + number * wave) % 60);
    picture.v()[i] = static_cast<uint8_t>(90 + (i / (kTestWidth / 2) + 2 * number) % 70);
  }
  return picture;
}

inline void write_video(const std::filesystem::path& file, int frames, int wave) {
  drive::VideoWriter writer(file, {.width = kTestWidth,
                                   .height = kTestHeight,
                                   .codec = file.extension() == ".hevc" ? drive::Codec::hevc : drive::Codec::h264,
                                   .quality = 18});
  for (int i = 0; i < frames; ++i) writer.write(numbered_picture(i, wave).view());
  writer.commit();
}

// The index of frame `number` of segment `segment`, in a route with `frames` frames per segment: 20 per second, from
// 100 s of the device's clock on.
inline void fill_index(cereal::EncodeIndex::Builder index, int segment, int frames, int number) {
  const auto frame = static_cast<uint32_t>(segment * frames + number);
  const uint64_t eof = 100'000'000'000 + uint64_t{50'000'000} * frame;
  index.setFrameId(frame);
  index.setSegmentNum(segment);
  index.setSegmentId(static_cast<uint32_t>(number));
  index.setTimestampEof(eof);
  index.setTimestampSof(eof - 18'000'000);
}

// Appends the videos' indices (`driver`: of the driver's, too) to the log, and moves its other events to the segment's
// time.
inline void add_index(const std::filesystem::path& log, int segment, int frames, bool wide, bool driver = false) {
  const uint64_t since = uint64_t{50'000'000} * static_cast<uint64_t>(segment * frames);
  edit_log(log, [&](cereal::Event::Builder event) {
    event.setLogMonoTime(event.getLogMonoTime() + since);
    return true;
  });
  const std::filesystem::path aside = log.parent_path() / "indexed_rlog.zst";
  drive::LogWriter writer(aside);
  drive::LogReader reader(log);
  while (reader.next()) {
    capnp::MallocMessageBuilder message;
    message.setRoot(reader.event());
    writer.write(message);
  }
  for (int i = 0; i < frames; ++i) {
    for (int camera = 0; camera < 3; ++camera) {
      if ((camera == 1 && !wide) || (camera == 2 && !driver)) continue;
      capnp::MallocMessageBuilder message;
      auto event = message.initRoot<cereal::Event>();
      fill_index(camera == 0   ? event.initRoadEncodeIdx()
                 : camera == 1 ? event.initWideRoadEncodeIdx()
                               : event.initDriverEncodeIdx(),
                 segment, frames, i);
      event.setLogMonoTime(100'035'000'000 + since + uint64_t{50'000'000} * static_cast<uint64_t>(i));
      event.setValid(true);
      writer.write(message);
    }
  }
  writer.commit();
  std::filesystem::rename(aside, log);
}

// Makes a segment of a mici with both cameras, and the driver's if wanted, below `folder`; returns its path.
inline std::filesystem::path make_segment(const std::filesystem::path& folder, int frames, int number = 0,
                                          bool wide = true, bool driver = false) {
  const ProgramResult made =
      run_program("route synth --quiet --device mici --no-video --seed 3 --seconds " + std::to_string(frames / 20.0) +
                  " --first-segment " + std::to_string(number) + " --out '" + (folder / "made").string() + "'");
  EXPECT_EQ(made.code, 0) << made.err;
  const std::filesystem::path from = std::filesystem::directory_iterator(folder / "made")->path();
  const std::filesystem::path segment = folder / from.filename();
  std::filesystem::rename(from, segment);
  std::filesystem::remove_all(folder / "made");
  add_index(segment / "rlog.zst", number, frames, wide, driver);
  write_video(segment / "fcamera.hevc", frames, 2);
  if (wide) write_video(segment / "ecamera.hevc", frames, 7);
  if (driver) write_video(segment / "dcamera.hevc", frames, 4);
  return segment;
}

}  // namespace sparkpilot
