#include "route/log/writer.h"

#include <bzlib.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "base/error.h"
#include "route/log/test_log.h"

namespace sparkpilot::drive {
namespace {
namespace fs = std::filesystem;

constexpr int kEvents = 5000;

// Reads the file as other programs do: with the library's one-call decompressors and Cap'n Proto's own reader, message
// by message.
std::string unpacked(const fs::path& file) {
  std::string packed = read_text(file);
  std::string bytes(4 << 20, '\0');
  if (file.extension() == ".zst") {
    bytes.resize(ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size()));
  } else if (file.extension() == ".bz2") {
    auto size = static_cast<unsigned>(bytes.size());
    EXPECT_EQ(BZ2_bzBuffToBuffDecompress(bytes.data(), &size, const_cast<char*>(packed.data()),
                                         static_cast<unsigned>(packed.size()), 0, 0),
              BZ_OK);
    bytes.resize(size);
  } else {
    return packed;
  }
  return bytes;
}

TEST(LogWriter, EveryContainerHoldsTheSameMessages) {
  const TempFolder folder;
  const std::string plain = [&] {
    write_log(folder / "rlog", kEvents);
    return unpacked(folder / "rlog");
  }();
  for (const char* name : {"rlog.zst", "rlog.bz2"}) {
    write_log(folder / name, kEvents);
    EXPECT_LT(fs::file_size(folder / name), plain.size() / 2) << name;
    EXPECT_EQ(unpacked(folder / name), plain) << name;
  }
  kj::ArrayInputStream stream({reinterpret_cast<const kj::byte*>(plain.data()), plain.size()});
  for (int i = 0; i < kEvents; ++i) {
    capnp::InputStreamMessageReader message(stream);
    const auto event = message.getRoot<cereal::Event>();
    ASSERT_TRUE(event.isCarState());
    ASSERT_EQ(event.getCarState().getVEgo(), static_cast<float>(i) / 8);
    ASSERT_TRUE(event.getValid());
  }
}

TEST(LogWriter, AMessageLargerThanTheBuffer) {
  const TempFolder folder;
  for (const char* name : {"rlog", "rlog.zst", "rlog.bz2"}) {
    LogWriter writer(folder / name);
    for (const size_t bytes : {size_t{10}, size_t{1} << 20, size_t{10}}) {
      capnp::MallocMessageBuilder message;
      message.initRoot<cereal::Event>().initThumbnail().initThumbnail(static_cast<unsigned>(bytes));
      writer.write(message);
    }
    EXPECT_EQ(writer.events(), 3);
    writer.commit();
  }
  EXPECT_GT(fs::file_size(folder / "rlog"), size_t{1} << 20);
  EXPECT_EQ(unpacked(folder / "rlog.zst"), unpacked(folder / "rlog"));
  EXPECT_EQ(unpacked(folder / "rlog.bz2"), unpacked(folder / "rlog"));
}

TEST(LogWriter, WithoutCommitNothingIsLeft) {
  const TempFolder folder;
  {
    LogWriter writer(folder / "rlog.zst");
    capnp::MallocMessageBuilder message;
    fill_car_state(message, 0);
    writer.write(message);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_THROW(LogWriter(folder / "none/rlog.zst"), Error);
}

}  // namespace
}  // namespace sparkpilot::drive
