#include "stack/elf.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "base/error.h"
#include "stack/test_files.h"

namespace sparkpilot::stack {
namespace {

using Names = std::vector<std::string>;

TestElf sample() {
  TestElf elf;
  elf.run_path = "$ORIGIN/../lib::/opt/lib";
  elf.needed = {"libcudart.so.13", "libc.so.6"};
  elf.sections = {{".text", std::string(100, 'x'), true}, {".nv_fatbin", fatbin({sass(120)})}, {".rodata", "words"}};
  return elf;
}

Elf read(const std::string& bytes) { return read_elf(MemorySource(bytes)); }

Names names_of(const Elf& elf) {
  Names names;
  for (const DataRange& range : elf.data) names.push_back(range.name);
  return names;
}

TEST(Elf, TellsWhatItIs) {
  const Elf elf = read(elf_file(sample()));
  EXPECT_EQ(elf.machine, "aarch64");
  EXPECT_EQ(elf.bits, 64);
  EXPECT_EQ(elf.soname, "libtest.so.1");
  EXPECT_EQ(elf.needed, (Names{"libcudart.so.13", "libc.so.6"}));
  EXPECT_EQ(elf.run_path, (Names{"$ORIGIN/../lib", "/opt/lib"}));
  EXPECT_EQ(elf.build_id, "1234ab");
  EXPECT_TRUE(elf.sections);
  EXPECT_TRUE(elf.stripped);
  EXPECT_EQ(names_of(elf), (Names{".nv_fatbin", ".rodata"}));
  EXPECT_EQ(elf.damage, Names{});
}

TEST(Elf, WithoutSectionsItsSegmentsAreLookedThrough) {
  TestElf parts = sample();
  parts.section_table = false;
  const std::string bytes = elf_file(parts);
  const Elf elf = read(bytes);
  EXPECT_FALSE(elf.sections);
  EXPECT_EQ(elf.soname, "libtest.so.1");
  ASSERT_EQ(names_of(elf), Names{"segment 0"});
  EXPECT_EQ(elf.data[0].bytes, bytes.size());
}

TEST(Elf, OthersAreNamed) {
  std::string bytes = elf_file(sample());
  poke(bytes, 18, 62, 2);
  EXPECT_EQ(read(bytes).machine, "x86_64");
  poke(bytes, 18, 8, 2);
  EXPECT_EQ(read(bytes).machine, "machine 8");
  bytes[4] = 1;  // 32-bit
  poke(bytes, 18, 40, 2);
  const Elf small = read(bytes);
  EXPECT_EQ(small.machine, "arm");
  EXPECT_EQ(small.bits, 32);
  EXPECT_TRUE(small.data.empty());
  bytes[4] = 2;
  bytes[5] = 2;  // big-endian
  bytes[18] = 0;
  bytes[19] = 21;
  EXPECT_EQ(read(bytes).machine, "ppc64");
  EXPECT_TRUE(read(bytes).big_endian);
}

TEST(Elf, WhatIsNoneIsRefused) {
  for (const std::string& bytes :
       {std::string(),
        std::string("\x7f"
                    "EL"),
        std::string("#!/bin/sh\nexit 0\n# long enough\n"), elf_file(sample()).substr(0, 40)}) {
    try {
      read(bytes);
      ADD_FAILURE() << bytes.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
    }
  }
}

TEST(Elf, DamageIsSaid) {
  const std::string good = elf_file(sample());
  std::string bytes = good;
  poke(bytes, 40, good.size() + 1, 8);  // the section table after the end of the file
  EXPECT_EQ(read(bytes).damage.size(), 1U);
  EXPECT_FALSE(read(bytes).sections);
  EXPECT_EQ(names_of(read(bytes)), Names{"segment 0"}) << "what is loaded is looked through all the same";
  bytes = good;
  poke(bytes, 60, 0xffff, 2);  // far more sections than there are
  EXPECT_NE(read(bytes).damage.at(0).find("no table of sections"), std::string::npos);
  bytes = good.substr(0, good.size() - size_t{64} * 5);
  EXPECT_FALSE(read(bytes).damage.empty());
}

TEST(Elf, AFileThatEndsBeforeWhatIsLoadedIsCut) {
  const std::string good = elf_file(sample());
  EXPECT_FALSE(read(good).cut);
  EXPECT_TRUE(read(good.substr(0, good.size() - 1)).cut);
  EXPECT_TRUE(read(good.substr(0, good.size() / 2)).cut);
  EXPECT_TRUE(read(good.substr(0, 64)).cut) << "nothing but the header";
}

TEST(Elf, ASectionThatEndsBehindTheFileIsLeftOut) {
  std::string bytes = elf_file(sample());
  const auto table = MemorySource(bytes).load<uint64_t>(40);
  poke(bytes, table + size_t{2} * 64 + 32, uint64_t{1} << 62, 8);  // .nv_fatbin's size
  const Elf elf = read(bytes);
  EXPECT_EQ(names_of(elf), Names{".rodata"});
  EXPECT_NE(elf.damage.at(0).find("section \".nv_fatbin\""), std::string::npos) << elf.damage[0];
}

TEST(Elf, OverlappingSectionsAreLookedThroughOnce) {
  TestElf parts = sample();
  for (int i = 0; i < 50; ++i) parts.sections.push_back({".again", std::string(8, 'y')});
  std::string bytes = elf_file(parts);
  const auto table = MemorySource(bytes).load<uint64_t>(40);
  for (size_t i = 0; i < 50; ++i) {
    poke(bytes, table + (4 + i) * 64 + 24, 0, 8);
    poke(bytes, table + (4 + i) * 64 + 32, bytes.size(), 8);
  }
  uint64_t total = 0, end = 0;
  for (const DataRange& range : read(bytes).data) {
    EXPECT_GE(range.offset, end);
    end = range.offset + range.bytes;
    total += range.bytes;
  }
  EXPECT_EQ(total, bytes.size());
}

// Any bytes give an answer, or an Error of kind user.
void expect_survived(const std::string& bytes) {
  try {
    for (const DataRange& range : read(bytes).data) ASSERT_LE(range.offset + range.bytes, bytes.size());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
  }
}

TEST(Elf, CutAnywhereItIsReadOrRefused) {
  const std::string bytes = elf_file(sample());
  for (size_t length = 0; length < bytes.size(); ++length) expect_survived(bytes.substr(0, length));
}

TEST(Elf, RandomBytesInItAreReadOrRefused) {
  const std::string good = elf_file(sample());
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    expect_survived(bytes);
  }
}

}  // namespace
}  // namespace sparkpilot::stack
