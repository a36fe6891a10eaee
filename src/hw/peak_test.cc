#include "hw/peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hw/caches.h"
#include "hw/cpu.h"
#include "hw/peak_units.h"
#include "hw/test_machines.h"

namespace sparkpilot {
namespace {

TEST(Amx, NeedsTheProcessorAndTheSystem) {
  constexpr uint32_t kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr uint64_t kState = 0b11ull << 17;
  const auto read = [](uint32_t edx, uint64_t xcr0) {
    CpuFeatures features;
    read_amx(edx, xcr0, features);
    return std::pair(features.amx_bf16, features.amx_int8);
  };
  EXPECT_EQ(read(kBf16 | kTile | kInt8, kState | 0xe7), std::pair(true, true));
  EXPECT_EQ(read(kTile | kInt8, kState), std::pair(false, true));
  EXPECT_EQ(read(kBf16 | kInt8, kState), std::pair(false, false)) << "no tiles";
  EXPECT_EQ(read(kBf16 | kTile | kInt8, 0xe7), std::pair(false, false)) << "a system that does not save them";
  EXPECT_EQ(read(kBf16 | kTile | kInt8, 1ull << 17), std::pair(false, false)) << "their shapes alone";
}

TEST(Peak, EveryUnitHasALoopThatEnds) {
  const std::vector<UnitLoop> loops = unit_loops();
  ASSERT_FALSE(loops.empty());
  EXPECT_EQ(loops[0].arithmetic, Arithmetic::f32);
  for (const UnitLoop& loop : loops) {
    EXPECT_GT(loop.flops_a_round, 0) << loop.name;
    EXPECT_GT(loop.rounds, 0) << loop.name;
    loop.run(3);
  }
  const CpuFeatures& cpu = cpu_features();
  const auto has = [&](std::string_view name) {
    return std::any_of(loops.begin(), loops.end(), [&](const UnitLoop& loop) { return loop.name == name; });
  };
  EXPECT_EQ(has("avx512_bf16"), cpu.avx512_bf16);
  EXPECT_EQ(has("avx512_vnni"), cpu.avx512_vnni);
  EXPECT_TRUE(!has("amx_bf16") || cpu.amx_bf16);
}

TEST(Peak, IsPlausible) {
  const Peak peak = measure_peak(1);
  // The bounds hold for anything from a slow embedded core to any processor of this decade.
  for (const UnitPeak& unit : peak.units) {
    EXPECT_GT(unit.flops_per_second, 1e8) << unit.name;
    EXPECT_LT(unit.flops_per_second, 1e14) << unit.name;
  }
  ASSERT_GE(peak.levels.size(), 2U);
  EXPECT_EQ(peak.levels.front().name, "L1");
  for (const LevelPeak& level : peak.levels) {
    if (level.name == "memory") continue;
    EXPECT_GT(level.reads_per_second, 1e7) << level.name;
    EXPECT_GE(level.bytes_per_second, level.reads_per_second) << level.name;
    EXPECT_LT(level.bytes_per_second, 1e13) << level.name;
  }
  EXPECT_EQ(peak.levels.back().name, "memory");
  EXPECT_EQ(peak.levels.back().reads_per_second, 0) << "caches hold nothing: it takes long, and nobody asked";
}

TEST(Peak, MemoryIsMeasuredWhereCachesDoNotHoldTheWork) {
  const Peak peak = measure_peak(1, 1e12);
  EXPECT_GT(peak.levels.back().reads_per_second, 1e7);
  EXPECT_TRUE(std::isinf(peak.levels.back().bytes));
  EXPECT_GT(measure_peak(1).levels.back().reads_per_second, 1e7) << "the best that was seen is kept";
}

TEST(Peak, TheBestIsKept) {
  Peak best{.units = {{"avx2", Arithmetic::f32, 10}, {"avx2", Arithmetic::i8, 40}},
            .levels = {{"L1", 32e3, 5, 6}, {"memory", 1e9, 0, 0}}};
  keep_best(best, {.units = {{"avx2", Arithmetic::f32, 12}, {"avx2", Arithmetic::i8, 30}, {"x", Arithmetic::bf16, 1}},
                   .levels = {{"L1", 32e3, 4, 9}, {"memory", 1e9, 2, 3}}});
  ASSERT_EQ(best.units.size(), 3U);
  EXPECT_EQ(best.units[0].flops_per_second, 12);
  EXPECT_EQ(best.units[1].flops_per_second, 40);
  EXPECT_EQ(best.levels[0].reads_per_second, 5);
  EXPECT_EQ(best.levels[0].bytes_per_second, 9);
  EXPECT_EQ(best.levels[1].reads_per_second, 2);
  EXPECT_EQ(best.unit(Arithmetic::i8).flops_per_second, 40);
  EXPECT_EQ(best.unit(Arithmetic::bf16).flops_per_second, 12);
}

// Two cores with their own caches and a common third level, each core's first-level cache in two halves.
TEST(Caches, AreCountedOnceAndByThreads) {
  nlohmann::json files = {{"/sys/devices/system/cpu/online", "0-1\n"}};
  nlohmann::json folders;
  for (const char* cpu : {"0", "1"}) {
    const std::string folder = std::string("/sys/devices/system/cpu/cpu") + cpu + "/cache";
    folders[folder] = {"index0", "index1", "index2", "index3", "uevent"};
    const auto cache = [&](const char* index, const char* level, const char* type, const char* size, const char* who) {
      const std::string at = folder + "/" + index + "/";
      files[at + "level"] = level;
      files[at + "type"] = type;
      files[at + "size"] = size;
      files[at + "shared_cpu_list"] = who;
    };
    cache("index0", "1", "Data", cpu[0] == '0' ? "48K" : "32K", cpu);
    cache("index1", "1", "Instruction", "32K", cpu);
    cache("index2", "2", "Unified", "1024K", cpu);
    cache("index3", "3", "Unified", "36M", "0-1");
  }
  const auto source = small_source({{"files", files}, {"folders", folders}});
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(cache_bytes(*source, 1), (Sizes{48 << 10, 1 << 20, 36 << 20})) << "the largest";
  EXPECT_EQ(cache_bytes(*source, 2), (Sizes{80 << 10, 2 << 20, 36 << 20}));
  EXPECT_EQ(cache_bytes(*source, 64), (Sizes{80 << 10, 2 << 20, 36 << 20}));
}

TEST(Caches, WhatIsNotSaidIsTakenAsUsual) {
  for (const char* size : {"", "none", "-1K", "99999999999999999999K"}) {
    const auto source = small_source({{"files",
                                       {{"/sys/devices/system/cpu/online", "0"},
                                        {"/sys/devices/system/cpu/cpu0/cache/index0/level", "1"},
                                        {"/sys/devices/system/cpu/cpu0/cache/index0/size", size}}}});
    EXPECT_EQ(cache_bytes(*source, 2), (std::vector<int64_t>{64 << 10, 2 << 20, 32 << 20})) << size;
  }
}

}  // namespace
}  // namespace sparkpilot
