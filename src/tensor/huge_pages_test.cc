#include "tensor/huge_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"

namespace sparkpilot {
namespace {

struct Piece {
  std::byte* memory;
  int64_t bytes;
  int mark;
};

void fill(const Piece& piece) { std::memset(piece.memory, piece.mark, static_cast<size_t>(piece.bytes)); }
bool is_untouched(const Piece& piece) {
  for (int64_t i = 0; i < piece.bytes; ++i) {
    if (piece.memory[i] != static_cast<std::byte>(piece.mark)) return false;
  }
  return true;
}

// Takes and gives back at random; what is held stays as it was written.
void use(HugePages& pages, uint64_t seed) {
  Random random(seed);
  std::vector<Piece> held;
  for (int i = 0; i < 400; ++i) {
    if (held.empty() || random.uniform() < 0.6) {
      const int64_t bytes = 1 + static_cast<int64_t>(random.uniform() * random.uniform() * 1e6);
      held.push_back(
          {pages.allocate(bytes), bytes, static_cast<int>(1 + (seed * 50 + static_cast<uint64_t>(i)) % 255)});
      ASSERT_NE(held.back().memory, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(held.back().memory) % HugePages::kAlignment, 0u);
      fill(held.back());
    } else {
      const auto which = static_cast<size_t>(random.uniform() * static_cast<double>(held.size()));
      ASSERT_TRUE(is_untouched(held[which])) << "step " << i;
      pages.free(held[which].memory);
      held[which] = held.back();
      held.pop_back();
    }
  }
  for (const Piece& piece : held) {
    ASSERT_TRUE(is_untouched(piece));
    pages.free(piece.memory);
  }
}

TEST(HugePages, PiecesDoNotOverlapAndAllIsGivenBack) {
  HugePages pages;
  for (const uint64_t seed : {1, 2, 3}) {
    use(pages, seed);
    EXPECT_EQ(pages.chunks(), 1);  // is kept
  }
}

TEST(HugePages, ThreadsShareThem) {
  HugePages pages;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) threads.emplace_back([&pages, i] { use(pages, i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pages.chunks(), 1);  // is kept
}

TEST(HugePages, WhatIsFreedIsUsedAgain) {
  HugePages pages;
  std::byte* const a = pages.allocate(HugePages::kChunk / 2);
  std::byte* const b = pages.allocate(HugePages::kChunk / 2);
  EXPECT_EQ(b, a + HugePages::kChunk / 2);
  pages.free(a);
  std::byte *const c = pages.allocate(1000), *d = pages.allocate(HugePages::kChunk / 2 - 1024);
  EXPECT_EQ(c, a);
  EXPECT_EQ(d, a + 1024);
  EXPECT_EQ(pages.chunks(), 1);
  std::byte* const other = pages.allocate(HugePages::kChunk);  // a whole one
  EXPECT_EQ(pages.chunks(), 2);
  pages.free(c);
  pages.free(d);
  EXPECT_EQ(pages.allocate(HugePages::kChunk / 2), a);  // as one piece again
  pages.free(a);
  pages.free(b);
  pages.free(other);
  EXPECT_EQ(pages.chunks(), 1);  // is kept
}

}  // namespace
}  // namespace sparkpilot
