#include "train/event_file.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/test_files.h"

namespace sparkpilot::train {
namespace {

TEST(EventFile, HasTheChecksumOfTheStandard) {
  // RFC 3720, B.4, and the usual check value.
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

// golden.tfevents was written by TensorBoard (events.py).
TEST(EventFile, HasTheBytesThatTensorBoardWrites) {
  const TempFolder folder;
  EventFile file(folder / "curves", "test", 7, 1.7e9);
  EXPECT_EQ(file.path().filename(), "events.out.tfevents.1700000000.000.test");
  file.add(7, {{"train/loss", 0.25}, {"train/rate", 1e-4}}, 1.7e9 + 7);
  file.add(300, {{"train/loss", std::numeric_limits<double>::infinity()}}, 1.7e9 + 300);
  file.add(70000, {{"evaluation/loss", -3.5}}, 1.7e9 + 70000);
  const std::string golden = read_text(SPARKPILOT_SOURCE_DIR "/tests/reference/tensorboard/golden.tfevents");
  ASSERT_FALSE(golden.empty());
  EXPECT_EQ(read_text(file.path()), golden);
}

TEST(EventFile, BeginsAnotherFileInTheSameSecond) {
  const TempFolder folder;
  const EventFile one(folder.path(), "run", 1, 5), other(folder.path(), "run", 1, 5);
  EXPECT_LT(one.path(), other.path());
  write_text(folder / "file", "");
  EXPECT_THROW(EventFile(folder / "file", "run", 1, 5), Error);
}

}  // namespace
}  // namespace sparkpilot::train
