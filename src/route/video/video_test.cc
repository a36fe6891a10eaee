#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "base/file.h"
#include "base/random.h"
#include "route/test_files.h"
#include "route/video/ffmpeg.h"
#include "route/video/reader.h"
#include "route/video/writer.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace video_test {

namespace fs = std::filesystem;

// A smooth picture that differs in every frame: a moving gradient, and the frame's number as the brightness of a
// corner.
YuvImage moving(int width, int height, int frame) {
  YuvImage image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool corner = x < width / 4 && y < height / 4;
      image.y()[y * width + x] = static_cast<uint8_t>(corner ? 16 + 4 * frame : 60 + (x + 2 * frame) % 128 / 2 + y / 8);
    }
  }
  for (int i = 0; i < width * height / 4; ++i) image.u()[i] = static_cast<uint8_t>(100 + frame);
  return image;
}

// Independent pixels, which cost an encoder many bits.
YuvImage noise(int width, int height, int seed) {
  YuvImage image(width, height);
  Random random(static_cast<uint64_t>(seed));
  for (uint8_t& byte : image.bytes()) byte = static_cast<uint8_t>(random.bits() % 256);
  return image;
}

double corner_of(const YuvView& picture) {
  double sum = 0;
  for (int y = 4; y < picture.height / 4 - 4; ++y) {
    for (int x = 4; x < picture.width / 4 - 4; ++x) sum += picture.y[y * picture.y_stride + x];
  }
  return sum / (picture.height / 4 - 8) / (picture.width / 4 - 8);
}

void write_video(const fs::path& file, Codec codec, int width, int height, int frames) {
  VideoWriter writer(file, {.width = width, .height = height, .codec = codec, .quality = 15, .group = 10});
  for (int i = 0; i < frames; ++i) writer.write(moving(width, height, i).view());
  writer.commit();
}

TEST(Video, HoldsTheQuantizerWhereItIsAsked) {
  // A rate factor lowers the quality after expensive pictures; a constant quantizer treats the last picture like the
  // first.
  const TempFolder folder;
  const auto lost = [&](bool constant) {
    VideoOptions options{.width = 160, .height = 96, .quality = 30, .group = 1};
    options.constant_quantizer = constant;
    VideoWriter writer(folder / "a.mp4", options);
    for (int i = 0; i < 30; ++i) writer.write((i == 29 ? moving(160, 96, 3) : noise(160, 96, i)).view());
    writer.commit();
    VideoReader reader(folder / "a.mp4");
    while (reader.index() < 29 && reader.next()) {
    }
    const YuvImage wanted = moving(160, 96, 3);
    double sum = 0;
    for (int y = 0; y < 96; ++y) {
      for (int x = 0; x < 160; ++x) {
        const YuvView picture = reader.picture();
        sum += std::pow(picture.y[y * picture.y_stride + x] - wanted.view().y[y * 160 + x], 2);
      }
    }
    return sum / (96 * 160);
  };
  EXPECT_GT(lost(false), 1.5 * lost(true));
}

TEST(Video, ReadsRowsThatDoNotShareTheCache) {
  const TempFolder folder;
  write_video(folder / "a.hevc", Codec::hevc, 1928, 64, 2);
  VideoReader reader(folder / "a.hevc");
  ASSERT_TRUE(reader.next());
  EXPECT_NE(reader.picture().y_stride % 1024, 0);
  EXPECT_NEAR(corner_of(reader.picture()), 16, 1.5);
}

TEST(Video, ComesBackFrameByFrame) {
  const TempFolder folder;
  for (const auto& [file, codec] :
       {std::pair{"a.hevc", Codec::hevc}, std::pair{"a.ts", Codec::h264}, std::pair{"a.mp4", Codec::h264}}) {
    for (const int threads : {1, 3}) {
      write_video(folder / file, codec, 160, 96, 25);
      VideoReader reader(folder / file, threads);
      EXPECT_EQ(reader.width(), 160);
      EXPECT_EQ(reader.height(), 96);
      int64_t count = 0;
      while (reader.next()) {
        EXPECT_EQ(reader.index(), count);
        EXPECT_NEAR(corner_of(reader.picture()), 16 + 4 * static_cast<double>(count), 1.5) << file;
        EXPECT_NEAR(reader.picture().u[0], 100 + static_cast<double>(count), 3) << file;
        ++count;
      }
      EXPECT_EQ(count, 25) << file;
      EXPECT_EQ(reader.damage(), "");
      EXPECT_EQ(reader.undecodable(), 0);
    }
  }
}

// Without this information, players assume limited range: details in black and white would be lost.
TEST(Video, SaysThatItsPicturesAreFullRangeBt601) {
  const TempFolder folder;
  for (const auto& [file, codec] :
       {std::pair{"a.hevc", Codec::hevc}, std::pair{"a.ts", Codec::h264}, std::pair{"a.mp4", Codec::h264}}) {
    write_video(folder / file, codec, 160, 96, 3);
    AVFormatContext* format = nullptr;
    ASSERT_EQ(ffmpeg().avformat_open_input(&format, folder.file(file).c_str(), nullptr, nullptr), 0);
    EXPECT_GE(ffmpeg().avformat_find_stream_info(format, nullptr), 0);
    const AVCodecParameters* video = format->streams[0]->codecpar;
    EXPECT_EQ(video->color_range, AVCOL_RANGE_JPEG) << file;
    EXPECT_EQ(video->color_space, AVCOL_SPC_SMPTE170M) << file;
    EXPECT_EQ(video->color_primaries, AVCOL_PRI_BT709) << file;
    EXPECT_EQ(video->color_trc, AVCOL_TRC_IEC61966_2_1) << file;
    ffmpeg().avformat_close_input(&format);
  }
}

TEST(Video, SaysWhichLibraryIsMissingOrOfAnotherKind) {
  const auto said = [](const FfmpegLibraries& libraries) -> std::string {
    try {
      load_ffmpeg(libraries);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const FfmpegLibraries right = ffmpeg_libraries();
  EXPECT_EQ(said(right), "");
  for (std::string FfmpegLibraries::*library :
       {&FfmpegLibraries::format, &FfmpegLibraries::codec, &FfmpegLibraries::util}) {
    FfmpegLibraries wrong = right;
    wrong.*library = "libavnone.so.1";
    EXPECT_NE(said(wrong).find("videos and JPEGs need FFmpeg's libraries, which cannot be loaded: libavnone.so.1"),
              std::string::npos)
        << said(wrong);
    wrong.*library = "libc.so.6";
    EXPECT_NE(said(wrong).find("libc.so.6 has no av"), std::string::npos) << said(wrong);
  }
}

TEST(Video, TheDemoRoutesQcameraHasItsFrames) {
  const fs::path file = asset("route_demo/qcamera.ts");
  if (file.empty()) GTEST_SKIP() << "no assets";
  VideoReader reader(file);
  EXPECT_EQ(reader.width(), 526);
  EXPECT_EQ(reader.height(), 330);
  int64_t count = 0;
  while (reader.next()) EXPECT_EQ(reader.index(), count++);
  EXPECT_EQ(count, 1200);
}

TEST(Video, StartsInTheMiddle) {
  const TempFolder folder;
  write_video(folder / "a.hevc", Codec::hevc, 160, 96, 35);
  for (const int64_t start : {0, 1, 9, 10, 11, 29, 34}) {
    VideoReader reader(folder / "a.hevc", 2);
    reader.start_at(start);
    int64_t count = start;
    while (reader.next()) {
      EXPECT_EQ(reader.index(), count);
      EXPECT_NEAR(corner_of(reader.picture()), 16 + 4 * static_cast<double>(count), 1.5);
      ++count;
    }
    EXPECT_EQ(count, 35);
  }
  VideoReader reader(folder / "a.hevc");
  reader.start_at(35);
  EXPECT_FALSE(reader.next());
}

TEST(Video, ACutFileEndsEarly) {
  const TempFolder folder;
  write_video(folder / "a.hevc", Codec::hevc, 160, 96, 25);
  const std::string bytes = read_file(folder / "a.hevc");
  for (const size_t length : {bytes.size() / 2, bytes.size() - 7}) {
    write_text(folder / "cut.hevc", bytes.substr(0, length));
    VideoReader reader(folder / "cut.hevc");
    int64_t count = 0;
    while (reader.next()) ++count;
    EXPECT_GT(count, 5);
    EXPECT_LE(count, 25);
  }
}

// FFmpeg gives pictures of damaged data without a mark.
TEST(Video, WhatIsWrongInItsDataIsCounted) {
  const TempFolder folder;
  for (const Codec codec : {Codec::hevc, Codec::h264}) {
    const fs::path whole = folder / (codec == Codec::hevc ? "a.hevc" : "a.ts");
    write_video(whole, codec, 160, 96, 25);
    for (const int threads : {1, 3}) {
      for (const int64_t first : {0, 13}) {
        VideoReader reader(whole, threads);
        reader.start_at(first);
        while (reader.next()) {
        }
        EXPECT_EQ(reader.errors(), 0) << whole << ", " << threads << " threads, from " << first;
      }
      std::string bytes = read_file(whole);
      for (size_t i = bytes.size() / 3; i < bytes.size() / 2; i += 97) bytes[i] = static_cast<char>(~bytes[i]);
      const fs::path damaged = folder / ("damaged" + whole.extension().string());
      write_text(damaged, bytes);
      VideoReader reader(damaged, threads);
      while (reader.next()) {
      }
      EXPECT_GT(reader.errors(), 0) << whole << ", " << threads << " threads";
    }
  }
}

TEST(Video, ALostPacketDoesNotMoveTheFramesBehindIt) {
  const TempFolder folder;
  write_video(folder / "a.ts", Codec::h264, 160, 96, 25);
  std::string bytes = read_file(folder / "a.ts");
  // Zeros in the middle of the file: packets that they hit are lost or damaged, the others keep their positions.
  for (size_t i = 0; i < 188 * 2; ++i) bytes[bytes.size() / 188 / 2 * 188 + i] = 0;
  write_text(folder / "holed.ts", bytes);
  VideoReader reader(folder / "holed.ts");
  int64_t last = -1;
  while (reader.next()) {
    EXPECT_GT(reader.index(), last);
    last = reader.index();
  }
  EXPECT_GE(last, 20);
  EXPECT_LE(last, 24);
}

TEST(Video, AChangeOfSizeEndsIt) {
  const TempFolder folder;
  write_video(folder / "a.hevc", Codec::hevc, 160, 96, 5);
  write_video(folder / "b.hevc", Codec::hevc, 128, 64, 5);
  write_text(folder / "both.hevc", read_file(folder / "a.hevc") + read_file(folder / "b.hevc"));
  VideoReader reader(folder / "both.hevc");
  int64_t count = 0;
  while (reader.next()) ++count;
  EXPECT_EQ(count, 5);
  EXPECT_NE(reader.damage().find("from 160x96 to 128x64"), std::string::npos) << reader.damage();
}

template <typename Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "no error";
}

// A later header may ask for grey pictures, which have no planes of chroma (made by libx265: four pictures of 4:2:0,
// then two of 4:0:0).
TEST(Video, AChangeOfFormatEndsIt) {
  constexpr std::string_view kHex =
      "0000000140010c01ffff01600000030090000003000003001e9280900000000142010101600000030090000003000003"
      "001ea0208105964a924cae6808000003000800000300a040000000014401c172b422400000012801af04d8fd3196ff00"
      "0000010201d0097e10c609b0fe56d0000000010201d011ffd443060990fe56d0000000010201d0189ffdc430182640fe"
      "56d00000000140010c01ffff0408000003009fc800000300001e928090000000014201010408000003009fc800000300"
      "001ec0820416592a4932b9a02000000300200000030281000000014401c172b422400000012801ae09b0f5da7e600000"
      "00010201d0097c20c136fbbb40";
  const TempFolder folder;
  std::string bytes;
  for (size_t i = 0; i < kHex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16));
  write_text(folder / "grey.hevc", bytes);
  VideoReader video(folder / "grey.hevc");
  int frames = 0;
  while (video.next()) ++frames;
  EXPECT_EQ(frames, 4);
  EXPECT_NE(video.damage().find("no longer 8-bit YUV 4:2:0 at frame 4"), std::string::npos) << video.damage();
}

TEST(Video, WhatIsNoVideoIsRefused) {
  const TempFolder folder;
  write_text(folder / "text.hevc", "this is not a video, it is a line of text\n");
  write_text(folder / "empty.hevc", "");
  write_text(folder / "list.ts", "#EXTM3U\n#EXTINF:1,\n/etc/passwd\n");
  std::string noise(40000, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 2654435761U >> 13);
  write_text(folder / "noise.ts", noise);
  for (const char* file : {"text.hevc", "empty.hevc", "list.ts", "noise.ts", "missing.ts", "."}) {
    const std::string said = error_of([&] { VideoReader reader(folder / file); });
    EXPECT_NE(said.find((folder / file).string()), std::string::npos) << file << ": " << said;
  }
}

TEST(Video, NothingIsLeftWithoutCommit) {
  const TempFolder folder;
  {
    VideoWriter writer(folder / "a.mp4", {.width = 64, .height = 64});
    writer.write(moving(64, 64, 0).view());
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Video, TheWriterRefusesWhatItCannotDo) {
  const TempFolder folder;
  EXPECT_NE(error_of([&] { VideoWriter(folder / "a.avi", {.width = 64, .height = 64}); }).find(".mp4"),
            std::string::npos);
  EXPECT_NE(error_of([&] { VideoWriter(folder / "a.mp4", {.width = 63, .height = 64}); }).find("63x64"),
            std::string::npos);
  EXPECT_NE(error_of([&] { VideoWriter(folder / "no" / "a.mp4", {.width = 64, .height = 64}); }).find("a.mp4"),
            std::string::npos);
  VideoWriter writer(folder / "a.mp4", {.width = 64, .height = 64});
  EXPECT_NE(error_of([&] { writer.write(moving(32, 64, 0).view()); }).find("32x64"), std::string::npos);
}

}  // namespace video_test
}  // namespace sparkpilot::drive
