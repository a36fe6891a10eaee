// What a launch refuses, and what it promises whatever the schedule.
#include "emulator/launch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "emulator/test_kernel.h"
#include "emulator/thread.h"
#include "sparkpilot/error.h"

namespace sparkpilot::emulator {
namespace {

struct Order {
  std::vector<int>* order;
};
void note_thread(Order p) { p.order->push_back(current->number + 1000 * static_cast<int>(current->block->index.x)); }

std::string error_of(const LaunchShape& shape) {
  const ThreadScope one(1);
  try {
    std::vector<int> order;
    launch(shape, {}, note_thread, {&order});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, RefusesShapesBeyondCudasLimits) {
  EXPECT_NE(error_of({.grid = {1, 65536}, .block = {32}}).find("a grid of 1 x 65536 x 1"), std::string::npos);
  EXPECT_NE(error_of({.grid = {0}, .block = {32}}).find("a grid of 0 x 1 x 1"), std::string::npos);
  EXPECT_NE(error_of({.grid = {0x80000000u}, .block = {32}}).find("a grid of"), std::string::npos);
  EXPECT_NE(error_of({.grid = {}, .block = {32, 33}}).find("a block of 32 x 33 x 1"), std::string::npos);
  EXPECT_NE(error_of({.grid = {}, .block = {1, 1, 96}}).find("a block of 1 x 1 x 96"), std::string::npos);
  EXPECT_NE(error_of({.grid = {}, .block = {48}}).find("48 threads is no whole number of warps"), std::string::npos);
  EXPECT_NE(error_of({.grid = {}, .block = {32}, .dynamic_shared_bytes = 228 << 10}).find("shared memory"),
            std::string::npos);
  EXPECT_EQ(error_of({.grid = {2}, .block = {32, 2, 3}}), "");
}

TEST(Launch, SeedsChangeTheOrderAndRepeatIt) {
  const ThreadScope one(1);
  const auto order_of = [](unsigned seed) {
    std::vector<int> order;
    launch({.grid = {3}, .block = {96}}, {.seed = seed}, note_thread, {&order});
    return order;
  };
  std::vector<int> straight(96 * 3);
  for (size_t i = 0; i < straight.size(); ++i) straight[i] = static_cast<int>(i / 96 * 1000 + i % 96);
  EXPECT_EQ(order_of(0), straight);
  for (const unsigned seed : {1u, 2u}) {
    auto order = order_of(seed);
    EXPECT_EQ(order, order_of(seed));
    EXPECT_NE(order, straight);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, straight);  // each thread once
  }
  EXPECT_NE(order_of(1), order_of(2));
}

struct Cells {
  int* cells;
};
void take_places(Cells p) {
  const Dim3 t = current->index, b = current->block->index, size = current->block->size, grid = current->block->grid;
  const unsigned block = (b.z * grid.y + b.y) * grid.x + b.x, thread = (t.z * size.y + t.y) * size.x + t.x;
  barrier(false, {__FILE__, __LINE__});
  p.cells[block * size.x * size.y * size.z + thread] += 1;
}

TEST(Launch, EveryThreadOfEveryBlockRunsOnceOnAnyNumberOfProcessors) {
  for (const int threads : {1, 2, 3}) {
    const ThreadScope scope(threads);
    std::vector<int> cells(5 * 3 * 2 * 64);
    const uint64_t before = counters().blocks;
    launch({.grid = {5, 3, 2}, .block = {4, 8, 2}}, {.seed = 7}, take_places, {cells.data()});
    EXPECT_EQ(cells, std::vector<int>(cells.size(), 1));
    EXPECT_EQ(counters().blocks - before, 30u);
  }
}

struct Throwing {
  unsigned block;
};
void throw_in_block(Throwing p) {
  if (current->block->index.x == p.block && current->number == 37) throw std::runtime_error("of its own");
  barrier(false, {__FILE__, __LINE__});
}

TEST(Launch, AnErrorNamesItsBlockAndLeavesTheEmulatorUsable) {
  for (int round = 0; round < 2; ++round) {
    try {
      launch({.grid = {9}, .block = {64}}, {}, throw_in_block, {4});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "block (4,0,0): of its own");
    }
    launch({.grid = {9}, .block = {64}}, {}, throw_in_block, {99});
  }
}

struct Recursive {
  int* depth;
};
int fall(int depth) {
  volatile char local[512] = {};
  return depth == 0 ? local[0] : fall(depth - 1) + local[1] + 1;
}
void fall_deep(Recursive p) { *p.depth = fall(400); }

// Below each stack lies a closed page.
TEST(LaunchDeathTest, AStackThatIsTooSmallIsACrash) {
  GTEST_FLAG_SET(death_test_style, "fast");
  int depth = 0;
  EXPECT_EXIT(launch({.grid = {}, .block = {32}}, {}, fall_deep, {&depth}), testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace sparkpilot::emulator
