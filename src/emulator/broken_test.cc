// Faults that kernels really have are found: by an error, by the checker, or because schedules disagree.
#include <cmath>
#include <fstream>
#include <map>

#include "emulator/broken_kernels_test.h"
#include "emulator/test_kernel.h"
#include "sparkpilot/error.h"

#define SPARKPILOT_DECLARE(name)                                        \
  extern "C" void broken_##name(sparkpilot::emulator::BrokenArguments); \
  extern "C" void right_##name(sparkpilot::emulator::BrokenArguments);
SPARKPILOT_BROKEN_KERNELS(SPARKPILOT_DECLARE)

namespace sparkpilot::emulator {
namespace {

using Kernel = void (*)(BrokenArguments);
struct Pair {
  Kernel broken, right;
};
const std::map<std::string, Pair> kKernels = {
#define SPARKPILOT_ENTRY(name) {#name, {broken_##name, right_##name}},
    SPARKPILOT_BROKEN_KERNELS(SPARKPILOT_ENTRY)};

struct Found {
  std::string error;                  // of the first schedule that has one
  std::vector<std::string> findings;  // of the checker, in order
  bool schedules_agree = true, has_nan = false;
};

Found run(Kernel kernel, unsigned blocks) {
  TestMemory in(128 * 4), wide(1024 * 4), out(128 * 4);
  for (size_t i = 0; i < 128; ++i) static_cast<float*>(in.data())[i] = static_cast<float>(i);
  for (size_t i = 0; i < 1024; ++i) static_cast<float*>(wide.data())[i] = static_cast<float>(i % 7);
  Checker checker;
  checker.add_memory(in.data(), in.size(), false);
  checker.add_memory(wide.data(), wide.size(), false);
  checker.add_memory(out.data(), out.size(), true);
  Found found;
  std::vector<uint8_t> first;
  const std::vector<uint8_t> before = in.copy();
  for (Schedule schedule : kSchedules) {
    if (first.empty()) schedule.checker = &checker;
    out.fill(0);
    std::memcpy(in.data(), before.data(), before.size());
    const BrokenArguments arguments{static_cast<float*>(in.data()), static_cast<float*>(wide.data()),
                                    static_cast<float*>(out.data()), 128};
    try {
      launch({.grid = {blocks}, .block = {128}, .dynamic_shared_bytes = 512}, schedule, kernel, arguments);
    } catch (const Error& error) {
      if (found.error.empty()) found.error = error.what();
    }
    if (first.empty()) first = out.copy();
    found.schedules_agree &= out.copy() == first;
    for (size_t i = 0; i < 128; ++i) found.has_nan |= std::isnan(static_cast<float*>(out.data())[i]);
  }
  found.findings = checker.take_findings();
  return found;
}

// The line of broken_test.cu, after that of KERNELS(name), that holds `text`: what a finding must name.
std::string line_with(const std::string& name, const std::string& text) {
  std::ifstream file(SPARKPILOT_SOURCE_DIR "/src/emulator/broken_test.cu");
  std::string line;
  bool inside = false;
  for (int number = 1; std::getline(file, line); ++number) {
    inside |= line.starts_with("KERNELS(" + name + ")");
    if (inside && line.find(text) != std::string::npos) return "broken_test.cu:" + std::to_string(number);
  }
  ADD_FAILURE() << "no line with " << text << " in " << name;
  return "";
}

void expect_found(const std::string& name, const std::vector<std::string>& parts, unsigned blocks = 1) {
  const Found found = run(kKernels.at(name).broken, blocks);
  ASSERT_FALSE(found.findings.empty()) << name;
  for (const std::string& part : parts)
    EXPECT_NE(found.findings[0].find(part), std::string::npos) << found.findings[0] << "\nhas no " << part;
  const Found right = run(kKernels.at(name).right, blocks);
  EXPECT_EQ(right.findings, std::vector<std::string>()) << name;
  EXPECT_EQ(right.error, "") << name;
  EXPECT_TRUE(right.schedules_agree && !right.has_nan) << name;
}

void expect_error(const std::string& name, const std::vector<std::string>& parts) {
  const Found found = run(kKernels.at(name).broken, 1);
  for (const std::string& part : parts)
    EXPECT_NE(found.error.find(part), std::string::npos) << found.error << "\nhas no " << part;
  const Found right = run(kKernels.at(name).right, 1);
  EXPECT_EQ(right.error, "") << name;
  EXPECT_EQ(right.findings, std::vector<std::string>()) << name;
}

TEST(Broken, Races) {
  expect_found("no_barrier",
               {"race in shared memory", line_with("no_barrier", "x[thread()] ="), line_with("no_barrier", "x[127")});
  expect_found("reused_too_early", {"race in shared memory", line_with("reused_too_early", "partial[thread()"),
                                    line_with("reused_too_early", "total +=")});
  expect_found("no_warp_barrier", {"race in shared memory", line_with("no_warp_barrier", "x[thread()] ="),
                                   line_with("no_warp_barrier", "x[thread() ^ 1]")});
  expect_found("global_race", {"race in global memory", line_with("global_race", "p.out[thread()] ="),
                               line_with("global_race", "p.out[127")});
}

TEST(Broken, RacesBetweenBlocks) {
  expect_found("two_blocks_write", {"race in global memory: write at", line_with("two_blocks_write", "p.out")}, 2);
  expect_found("reads_other_block", {"race in global memory", line_with("reads_other_block", "+=")}, 2);
}

// What a GPU does at once or late must not matter: the checker sees copies when they are made, the schedules differ.
TEST(Broken, AsynchronousCopies) {
  for (const char* name : {"no_wait", "wait_for_too_few"}) {
    const Found found = run(kKernels.at(name).broken, 1), right = run(kKernels.at(name).right, 1);
    EXPECT_TRUE(found.error.empty() && !found.schedules_agree && found.has_nan) << name << found.error;
    EXPECT_TRUE(right.error.empty() && right.schedules_agree && !right.has_nan && right.findings.empty())
        << name << right.error;
  }
  expect_error("ends_under_way", {"ends while cp.async is under way"});
}

TEST(Broken, MeetingsThatSomeMiss) {
  expect_error("missed_barrier",
               {"block (0,0,0): thread (", "comes to the barrier at " + line_with("missed_barrier", "if (kRight"),
                "wait at the one at "});
  expect_error("missed_shuffle", {"wait for each other for ever", "a shuffle", line_with("missed_shuffle", "__shfl")});
  expect_error("partial_mask", {"names the threads 0xffff of its warp"});
}

TEST(Broken, OutsideOfMemory) {
  expect_found("one_too_far", {"read of 4 bytes outside of global memory", line_with("one_too_far", "sum +=")});
  expect_found("writes_one_too_far",
               {"write of 4 bytes outside of global memory", line_with("writes_one_too_far", "128]")});
  expect_found("writes_input", {"write to an input", line_with("writes_input", "const_cast")});
  expect_found("beyond_shared", {"write outside of shared memory", line_with("beyond_shared", "x[thread() +")});
  expect_found("beyond_dynamic_shared",
               {"write outside of shared memory", line_with("beyond_dynamic_shared", "x[at] = ")});
}

TEST(Broken, NeverWritten) {
  EXPECT_TRUE(run(kKernels.at("never_written").broken, 1).has_nan);
  EXPECT_FALSE(run(kKernels.at("never_written").right, 1).has_nan);
}

TEST(Broken, Alignment) {
  expect_error("unaligned_load",
               {"16 bytes at a place that is no multiple of it", line_with("unaligned_load", "load_16")});
  expect_error("unaligned_row", {"ldmatrix of a row"});
}

// Sectors and banks by source line.
TEST(Broken, SlowReads) {
  for (const bool right : {false, true}) {
    TestMemory in(4), wide(1024 * 4), out(128 * 4);
    wide.fill(0);
    Checker checker;
    checker.add_memory(wide.data(), wide.size(), false);
    checker.add_memory(out.data(), out.size(), true);
    checker.count_traffic(true);
    const Pair& pair = kKernels.at("slow_reads");
    launch({.grid = {}, .block = {128}}, {.checker = &checker}, right ? pair.right : pair.broken,
           {nullptr, static_cast<float*>(wide.data()), static_cast<float*>(out.data()), 0});
    std::map<std::pair<std::string, bool>, Checker::Traffic> by_line;  // line, shared
    for (const auto& t : checker.take_traffic()) by_line[{t.line + (t.write ? " w" : " r"), t.shared}] = t;
    const auto& global = by_line.at({line_with("slow_reads", "const float value") + " r", false});
    EXPECT_EQ(global.bytes, 32u * 128);
    EXPECT_EQ(global.requests, 32u);
    EXPECT_EQ(global.sectors, right ? 32u * 4 : 32u * 32);
    EXPECT_DOUBLE_EQ(global.used(), right ? 1.0 : 0.125);
    EXPECT_EQ(by_line.at({line_with("slow_reads", "sum += x") + " r", true}).worst_bank, right ? 1 : 32);
    EXPECT_EQ(by_line.at({line_with("slow_reads", "x[kRight ?") + " w", true}).worst_bank, right ? 1 : 32);
    EXPECT_EQ(by_line.at({line_with("slow_reads", "p.out") + " w", false}).sectors, 16u);
  }
}

}  // namespace
}  // namespace sparkpilot::emulator
