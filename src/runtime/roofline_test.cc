#include "runtime/roofline.h"

#include <gtest/gtest.h>

#include <limits>

namespace sparkpilot {
namespace {

// A core with 100 GFLOP/s in fp32; each level has twice the rate for reads and writes as for reads alone.
Peak machine(int threads = 1) {
  return {.threads = threads,
          .units = {{"avx512", Arithmetic::f32, 100e9},
                    {"avx512_bf16", Arithmetic::bf16, 200e9},
                    {"amx_bf16", Arithmetic::bf16, 1600e9},
                    {"avx512_vnni", Arithmetic::i8, 400e9}},
          .levels = {{"L1", 32e3, 200e9, 400e9},
                     {"L2", 1e6, 100e9, 200e9},
                     {"L3", 8e6, 20e9, 40e9},
                     {"memory", std::numeric_limits<double>::infinity(), 10e9, 20e9}}};
}

NodeProfile node(double flops, double bytes, double weight_bytes, DType products = DType::f32) {
  return {.calls = 1, .flops = flops, .bytes = bytes, .weight_bytes = weight_bytes, .products = products};
}

void expect_limit(const NodeLimit& limit, double us, const std::string& by) {
  EXPECT_NEAR(limit.ns, us * 1e3, us);
  EXPECT_EQ(limit.by, by);
}

TEST(Roofline, TheUnitIsThatOfTheNumbers) {
  expect_limit(limit_of(node(1e6, 1e3, 0), 0, machine()), 10, "avx512");
  expect_limit(limit_of(node(16e6, 1e3, 0, DType::bf16), 0, machine()), 10, "amx_bf16");
  expect_limit(limit_of(node(4e6, 1e3, 0, DType::i8), 0, machine()), 10, "avx512_vnni");
  Peak no_tiles = machine();
  std::erase_if(no_tiles.units, [](const UnitPeak& unit) { return unit.name == "amx_bf16"; });
  expect_limit(limit_of(node(2e6, 1e3, 0, DType::bf16), 0, no_tiles), 10, "avx512_bf16");
  Peak old = machine();
  old.units.resize(1);
  for (const DType products : {DType::bf16, DType::i8, DType::f32}) {
    expect_limit(limit_of(node(1e6, 1e3, 0, products), 0, old), 10, "avx512");  // narrow types are widened
  }
}

TEST(Roofline, ActivationsAreWhereTheNodeBeforeLeftThem) {
  expect_limit(limit_of(node(0, 20e3, 0), 0, machine()), 0.05, "L1");
  // 1 MB of 2 MB is held in nearer levels: the rest comes from the third level. The weights of another model change
  // nothing.
  expect_limit(limit_of(node(0, 2.032e6, 0), 50e6, machine()), 25, "L3");
  // 9.032 MB are in caches.
  expect_limit(limit_of(node(0, 29.032e6, 0), 0, machine()), 1000, "memory");
}

TEST(Roofline, WeightsAreWhereTheWholeModelFits) {
  const NodeProfile small = node(0, 20e3, 20e3);
  expect_limit(limit_of(small, 20e3, machine()), 0.1, "L1");
  expect_limit(limit_of(small, 1.032e6, machine()), 20e3 * (1 - 32e3 / 1.032e6) / 100e9 * 1e6, "L2");
  expect_limit(limit_of(small, 9.032e6, machine()), 20e3 * (1 - 1.032e6 / 9.032e6) / 20e9 * 1e6, "L3");
  // Ten times the size of the caches: nine tenths have to come from memory every time.
  expect_limit(limit_of(small, 90.32e6, machine()), 20e3 * 0.9 / 10e9 * 1e6, "memory");
}

TEST(Roofline, UnitsAndLevelsWorkAtOnce) {
  // 10 us of products, and 1 us in the second level.
  expect_limit(limit_of(node(1e6, 0.132e6, 0), 0, machine()), 10, "avx512");
  // Weights from memory take 2 us, while activations go through the first-level cache in 0.05 us.
  expect_limit(limit_of(node(0, 40e3, 20e3), 1e12, machine()), 2, "memory");
}

TEST(Roofline, WhatAKernelMayLeaveOutIsNoLimit) {
  NodeProfile padded = node(1e6, 0.132e6, 0);
  padded.needed = 0.25;
  expect_limit(limit_of(padded, 0, machine()), 2.5, "avx512");
  NodeProfile weights = node(0, 40e3, 20e3);
  weights.needed = 0.5;
  expect_limit(limit_of(weights, 1e12, machine()), 1, "memory");
}

TEST(Roofline, SlicesStayInTheCachesOfTheirThread) {
  NodeProfile whole = node(0, 20e6, 0);
  expect_limit(limit_of(whole, 0, machine(2)), (20e6 - 9.032e6) / 20e9 * 1e6, "memory");
  whole.slices = 2000;  // 10 kB each, of two threads at once
  expect_limit(limit_of(whole, 0, machine(2)), 50, "L1");
  // Every slice reads the weights again.
  NodeProfile weights = node(0, 2000 * 100e3, 2000 * 100e3);
  weights.slices = 2000;
  expect_limit(limit_of(weights, 100e3, machine(2)), 2000 * 100e3 * (1 - 32e3 / 200e3) / 100e9 * 1e6, "L2");
}

TEST(Roofline, WhatWasNotMeasuredLimitsNothing) {
  Peak peak = machine();
  peak.levels.back().reads_per_second = peak.levels.back().bytes_per_second = 0;
  EXPECT_EQ(limit_of(node(0, 100e6, 0), 0, peak).by, "L3");
  peak.levels.clear();
  EXPECT_EQ(limit_of(node(0, 100e6, 0), 0, peak).ns, 0);
}

TEST(Roofline, SharesOfNodesAndOfTheRun) {
  Profile profile;
  profile.nodes = {node(1e6, 1e3, 0), node(3e6, 1e3, 0), node(0, 20e3, 0), node(9e9, 0, 0)};
  profile.nodes[0].total_ns = 20'000;
  profile.nodes[1].total_ns = 40'000;
  profile.nodes[2].total_ns = 1'000;
  profile.nodes[3].calls = 0;
  const Roofline run = set_roofline(profile, machine());
  EXPECT_NEAR(profile.nodes[0].roofline_share, 0.5, 1e-9);
  EXPECT_NEAR(profile.nodes[1].roofline_share, 0.75, 1e-9);
  EXPECT_NEAR(profile.nodes[2].roofline_share, 0.05, 1e-9);
  EXPECT_EQ(profile.nodes[2].roofline_limit, "L1");
  EXPECT_EQ(profile.nodes[3].roofline_share, 0);
  EXPECT_NEAR(run.share, 40.05 / 61, 1e-9);
  EXPECT_EQ(run.by, "avx512");
}

TEST(Roofline, MemoryIsMeasuredForWhatGoesAround) {
  Profile profile;
  profile.nodes = {node(0, 5e6, 4e6), node(0, 9e6, 6e6)};
  EXPECT_EQ(working_set(profile), 10e6);  // the weights of a run
  profile.nodes[0].bytes = 24e6;
  EXPECT_EQ(working_set(profile), 20e6);  // the activations of a node
}

}  // namespace
}  // namespace sparkpilot
