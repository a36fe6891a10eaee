#include "base/byte_size.h"

#include <gtest/gtest.h>

#include "base/test_error.h"

namespace sparkpilot {
namespace {

TEST(ByteSize, IsReadAsPeopleWriteIt) {
  const std::pair<const char*, int64_t> sizes[] = {{"1", 1},
                                                   {"1000B", 1000},
                                                   {"200kB", 200'000},
                                                   {"20k", 20'000},
                                                   {"500M", 500'000'000},
                                                   {"500MB", 500'000'000},
                                                   {"0.5G", 500'000'000},
                                                   {"1TB", 1'000'000'000'000},
                                                   {"1e3", 1000}};
  for (const auto& [text, bytes] : sizes) EXPECT_EQ(read_bytes(text), bytes) << text;
  for (const char* text :
       {"", "B", "MB", "-1M", "0", "0.1", "nan", "inf", "1 M", "5MiB", "5BB", "5BM", "1e300", "x5", "1%"}) {
    EXPECT_EQ(read_bytes(text), std::nullopt) << text;
  }
  EXPECT_NE(error_of([] { parse_bytes("5MiB", "--max-bytes"); }).find("--max-bytes 5MiB: expected a size"),
            std::string::npos);
}

}  // namespace
}  // namespace sparkpilot
