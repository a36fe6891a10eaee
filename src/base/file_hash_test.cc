#include "base/file_hash.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/test_files.h"

namespace sparkpilot {
namespace {

// Whatever the pieces are in which it is read.
TEST(FileHash, IsThatOfTheBytes) {
  const TempFolder folder;
  std::string text;
  for (const size_t size : {0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20}) {
    while (text.size() < size) text.push_back(static_cast<char>(text.size() * 31 + text.size() / 251));
    write_text(folder / "file", text);
    Fnv of_file, of_text;
    of_file.text("before");
    of_text.text("before").text(text);
    EXPECT_EQ(add_file(of_file, folder / "file"), static_cast<int64_t>(size));
    EXPECT_EQ(of_file.value(), of_text.value()) << size;
  }
  Fnv hash;
  EXPECT_THROW(add_file(hash, folder / "none"), Error);
  EXPECT_THROW(add_file(hash, folder.path()), Error);
}

}  // namespace
}  // namespace sparkpilot
