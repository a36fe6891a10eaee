#include "route/log/reader.h"

#include <bzlib.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <map>

#include "base/error.h"
#include "base/test_assets.h"
#include "route/log/test_log.h"

namespace sparkpilot::drive {
namespace reader_test {
namespace fs = std::filesystem;

constexpr int kEvents = 3000;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

struct Outcome {
  int64_t events = 0;
  std::string damage;
};

Outcome read_all(const std::string& bytes) {
  LogReader reader(memory_source(bytes_of(bytes)), "test.log");
  float expected = 0;
  while (reader.next()) {
    EXPECT_EQ(event_kind(reader.event()), "carState");
    EXPECT_EQ(reader.event().getCarState().getVEgo(), expected);
    expected += 0.125F;
  }
  EXPECT_FALSE(reader.next());
  return {reader.events(), reader.damage()};
}

std::string refusal(const std::string& bytes) {
  try {
    LogReader reader(memory_source(bytes_of(bytes)), "test.log");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "";
}

std::string log_bytes(const std::string& name, int events = kEvents) {
  const TempFolder folder;
  write_log(folder / name, events);
  return read_text(folder / name);
}

std::string zstd(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
  return out;
}

std::string bz2(const std::string& bytes) {
  std::string out(bytes.size() + bytes.size() / 100 + 600, '\0');
  auto size = static_cast<unsigned>(out.size());
  const int state = BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(bytes.data()),
                                             static_cast<unsigned>(bytes.size()), 9, 0, 0);
  EXPECT_EQ(state, BZ_OK);
  out.resize(size);
  return out;
}

TEST(LogReader, ReadsEveryContainer) {
  for (const char* name : {"rlog", "rlog.zst", "rlog.bz2"}) {
    const Outcome outcome = read_all(log_bytes(name));
    EXPECT_EQ(outcome.events, kEvents) << name;
    EXPECT_EQ(outcome.damage, "") << name;
  }
}

TEST(LogReader, MessagesOneAfterTheOtherAreTheLog) {
  const std::string plain = log_bytes("rlog");
  LogReader reader(memory_source(bytes_of(plain)), "test.log");
  std::string again;
  while (reader.next()) {
    EXPECT_EQ(reader.message().size(), static_cast<size_t>(reader.event_bytes()));
    again.append(reinterpret_cast<const char*>(reader.message().data()), reader.message().size());
  }
  EXPECT_TRUE(again == plain);
}

TEST(LogReader, TheNameDoesNotDecideTheContainer) {
  const TempFolder folder;
  write_text(folder / "rlog.bz2", log_bytes("rlog.zst"));
  LogReader reader(folder / "rlog.bz2");
  EXPECT_EQ(reader.done(), 1);  // a small file is read in one piece
  while (reader.next()) EXPECT_TRUE(reader.known());
  EXPECT_EQ(reader.events(), kEvents);
}

TEST(LogReader, FramesOneAfterTheOther) {
  const std::string plain = log_bytes("rlog");
  const size_t middle = plain.size() / 2 / 8 * 8 + 3;
  const std::string skipped("\x53\x2a\x4d\x18\x05\0\0\0hello", 13);
  EXPECT_EQ(read_all(zstd(plain.substr(0, middle)) + skipped + zstd("") + zstd(plain.substr(middle))).events, kEvents);
  const TempFolder folder;
  write_log(folder / "a.bz2", 1);
  const std::string two = read_text(folder / "a.bz2") + read_text(folder / "a.bz2");
  LogReader reader(memory_source(bytes_of(two)), "two.bz2");
  while (reader.next()) EXPECT_EQ(reader.event().getCarState().getVEgo(), 0);
  EXPECT_EQ(reader.events(), 2);
  EXPECT_EQ(reader.damage(), "");
}

TEST(LogReader, ACutTailEndsAfterTheLastWholeEvent) {
  const std::string plain = log_bytes("rlog");
  const size_t event = plain.size() / kEvents;
  ASSERT_EQ(event * kEvents, plain.size());
  for (const size_t missing : {size_t{1}, size_t{7}, event - 5, event - 1}) {
    const Outcome outcome = read_all(plain.substr(0, plain.size() - missing));
    EXPECT_EQ(outcome.events, kEvents - 1);
    EXPECT_EQ(outcome.damage, "cut in the middle of an event, after 2999 events");
  }
  EXPECT_EQ(read_all(plain.substr(0, plain.size() - event)).damage, "");
  for (const char* name : {"rlog.zst", "rlog.bz2"}) {
    const std::string packed = log_bytes(name, 20'000);
    const Outcome outcome = read_all(packed.substr(0, packed.size() - 3));
    EXPECT_NE(outcome.damage.find("stream is cut, after"), std::string::npos) << outcome.damage;
    EXPECT_NE(refusal(packed.substr(0, 8)).find("stream is cut, before its first event"), std::string::npos) << name;
  }
}

TEST(LogReader, GarbageBehindTheEnd) {
  const std::string text = "this is no event, is it";
  EXPECT_EQ(read_all(log_bytes("rlog") + text).damage, "no event where one was expected, after 3000 events");
  EXPECT_EQ(read_all(log_bytes("rlog.zst") + text).damage, "something else follows the zstd stream, after 3000 events");
  EXPECT_EQ(read_all(log_bytes("rlog.bz2") + text).damage, "something else follows the bz2 stream, after 3000 events");
}

TEST(LogReader, FlippedBitsNeverEscape) {
  for (const char* name : {"rlog", "rlog.zst", "rlog.bz2"}) {
    const std::string good = log_bytes(name, 40);
    for (size_t bit = 0; bit < good.size() * 8; bit += bit < 800 ? 1 : 61) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      try {
        LogReader reader(memory_source(bytes_of(bad)), name);
        while (reader.next()) {
          read_fields([&] { reader.event().getCarState().getButtonEvents(); });
          event_kind(reader.event());
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::user);
      }
    }
  }
}

TEST(LogReader, WhatIsNoLogIsNamed) {
  EXPECT_EQ(refusal(""), "test.log: is empty, expected a log");
  EXPECT_EQ(refusal(zstd("")), "test.log: is empty, expected a log");
  EXPECT_EQ(refusal("Hello, world\n"), "test.log: is text, expected a log");
  EXPECT_EQ(refusal("\n<!DOCTYPE html>\n<html><body>403</body></html>"),
            "test.log: is a page of HTML or XML, expected a log; a download of it failed");
  EXPECT_EQ(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"),
            "test.log: is a Git LFS pointer, the log itself was not fetched");
  EXPECT_EQ(refusal(std::string("\x1f\x8b\x08\0\0\0\0\0", 8)),
            "test.log: is no log: it begins neither as zstd, nor as bz2, nor with a message");
  EXPECT_EQ(refusal(zstd("<?xml version=\"1.0\"?><Error><Code>BlobNotFound</Code></Error>")),
            "test.log: is a page of HTML or XML, expected a log; a download of it failed");
  EXPECT_THROW(LogReader("/no/such/rlog"), Error);
  EXPECT_THROW(LogReader("/"), Error);
}

// A message's segment table: `segments` sizes of `words` each.
std::string table(uint32_t segments, uint32_t words) {
  std::string bytes;
  const auto put = [&](uint32_t value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(segments - 1);
  for (uint32_t i = 0; i < segments; ++i) put(words);
  bytes.resize((bytes.size() + 7) / 8 * 8);
  return bytes;
}

TEST(LogReader, SizesThatLie) {
  const std::string event = log_bytes("rlog", 1);
  const std::string no_event = "no event where one was expected, after 1 events";
  EXPECT_EQ(read_all(event + table(600, 1)).damage, no_event);
  EXPECT_EQ(read_all(event + table(0, 1)).damage, no_event);
  EXPECT_EQ(read_all(event + table(1, 0)).damage, no_event);
  EXPECT_EQ(read_all(event + table(1, (8 << 20) + 1)).damage, no_event);
  EXPECT_EQ(read_all(event + table(512, 0xffffffff)).damage, no_event);
  EXPECT_EQ(read_all(event + table(1, 8 << 20)).damage, "cut in the middle of an event, after 1 events");
  EXPECT_EQ(read_all(event + table(1, 1) + std::string(7, '\0') + "\x7f").damage,
            "an event without its root, after 1 events");
}

// A few bytes that unpack to terabytes end at the limit, or at the first false size. In any compression, in one stream
// or in many.
TEST(LogReader, ABombIsBounded) {
  const std::string zeros(32 << 20, '\0');
  std::string bz2_streams, zstd_frames;
  for (int i = 0; i < 64; ++i) {
    bz2_streams += bz2(zeros.substr(0, 1 << 20));
    zstd_frames += zstd(zeros.substr(0, 1 << 20));
  }
  const std::string plain = log_bytes("rlog");
  for (const std::string& bomb : {plain, zstd(zeros), bz2(zeros), zstd_frames, bz2_streams}) {
    if (bomb != plain) {
      EXPECT_LT(bomb.size(), 10'000U);
    }
    for (const int64_t limit : {100, 100'000}) {
      auto source = unpacked(memory_source(bytes_of(bomb)), limit);
      std::vector<std::byte> buffer(limit == 100 ? 64 : 1 << 16);
      int64_t total = 0;
      for (size_t got = 1; got > 0 && total <= 2 * limit; total += static_cast<int64_t>(got))
        got = source->read(buffer);
      EXPECT_EQ(total, limit);
      EXPECT_EQ(source->damage(), fmt::format("it unpacks to more than {} bytes", limit));
      EXPECT_EQ(source->read(buffer), 0U);
    }
  }
  const std::string lie = log_bytes("rlog", 1) + zeros, said = "no event where one was expected, after 1 events";
  EXPECT_EQ(read_all(zstd(lie)).damage, said);
  EXPECT_EQ(read_all(bz2(lie)).damage, said);
}

TEST(LogReader, MessagesOfSeveralSegmentsAndSizes) {
  const TempFolder folder;
  {
    LogWriter writer(folder / "rlog.zst");
    for (const unsigned size : {10U, 3U << 20, 10U}) {
      capnp::MallocMessageBuilder message(64, capnp::AllocationStrategy::FIXED_SIZE);  // many segments
      cereal::Event::Builder event = message.initRoot<cereal::Event>();
      event.initThumbnail().initThumbnail(size);
      event.getThumbnail().setFrameId(size);
      writer.write(message);
    }
    writer.commit();
  }
  LogReader reader(folder / "rlog.zst");
  std::vector<uint32_t> frames;
  while (reader.next()) {
    EXPECT_EQ(reader.event().getThumbnail().getThumbnail().size(), reader.event().getThumbnail().getFrameId());
    EXPECT_GT(reader.event_bytes(), reader.event().getThumbnail().getFrameId());
    frames.push_back(reader.event().getThumbnail().getFrameId());
  }
  EXPECT_EQ(frames, (std::vector<uint32_t>{10, 3 << 20, 10}));
}

TEST(LogReader, KindsOfLaterSchemasAreHandedOn) {
  capnp::MallocMessageBuilder message;
  fill_car_state(message, 0);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  std::string bytes(reinterpret_cast<const char*>(words.begin()), words.asBytes().size());
  // The discriminant: 16 bits after logMonoTime in the root's data.
  const size_t at = 8 + 8 + 8;
  bytes[at] = static_cast<char>(149);
  bytes[at + 1] = 0;
  LogReader reader(memory_source(bytes_of(bytes)), "later");
  ASSERT_TRUE(reader.next());
  EXPECT_FALSE(reader.known());
  EXPECT_EQ(event_kind(reader.event()), "unknown(151)");
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.damage(), "");
}

TEST(LogReader, KindsHaveTheirNames) {
  const std::vector<std::string>& kinds = event_kinds();
  EXPECT_EQ(kinds[static_cast<size_t>(cereal::Event::INIT_DATA)], "initData");
  EXPECT_EQ(kinds[static_cast<size_t>(cereal::Event::MODEL_V2)], "modelV2");
  EXPECT_EQ(kinds[static_cast<size_t>(cereal::Event::LIVE_DELAY)], "liveDelay");
  EXPECT_EQ(kinds.size(), static_cast<size_t>(cereal::Event::LIVE_DELAY) + 1);
  for (const std::string& kind : kinds) EXPECT_FALSE(kind.empty());
}

TEST(LogReader, TheDemoRoute) {
  const fs::path log = assets_folder() / "route_demo/qlog.bz2";
  if (!fs::exists(log)) GTEST_SKIP() << "there is no " << log.string();
  LogReader reader(log);
  std::map<std::string, int> counts;
  bool known = true;
  while (reader.next()) {
    ++counts[event_kind(reader.event())];
    known = known && reader.known();
  }
  EXPECT_EQ(reader.damage(), "");
  EXPECT_EQ(reader.events(), 11388);
  EXPECT_EQ(counts["modelV2"], 31);
  EXPECT_EQ(counts["liveCalibration"], 61);
  EXPECT_EQ(counts["roadEncodeIdx"], 1200);
  EXPECT_EQ(counts["carState"], 579);
  EXPECT_TRUE(known);
}

}  // namespace reader_test
}  // namespace sparkpilot::drive
