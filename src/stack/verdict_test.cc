#include "stack/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "stack/test_files.h"

namespace sparkpilot::stack {
namespace {

Fit fit_of(const std::string& target, ComputeCapability gpu) {
  const auto code = parse_target(target);
  EXPECT_TRUE(code) << target;
  return fit(code.value_or(CodeTarget{}), gpu);
}

TEST(Gpu, CodeOnTheSpark) {
  constexpr ComputeCapability kSpark{12, 1};
  for (const char* target : {"sm_121", "sm_121a"}) EXPECT_EQ(fit_of(target, kSpark), Fit::native) << target;
  for (const char* target : {"sm_120", "sm_120f", "sm_121f"}) EXPECT_EQ(fit_of(target, kSpark), Fit::family) << target;
  for (const char* target : {"compute_120", "compute_75", "compute_121a", "compute_120f"}) {
    EXPECT_EQ(fit_of(target, kSpark), Fit::jit) << target;
  }
  for (const char* target :
       {"sm_120a", "compute_120a", "compute_100f", "sm_100", "sm_90a", "sm_123", "lto_120", "other_121"}) {
    EXPECT_EQ(fit_of(target, kSpark), Fit::none) << target;
  }
}

TEST(Gpu, CodeOnOthers) {
  EXPECT_EQ(fit_of("sm_90", {9, 0}), Fit::native);
  EXPECT_EQ(fit_of("sm_90a", {9, 0}), Fit::native);
  EXPECT_EQ(fit_of("compute_90a", {9, 0}), Fit::jit);
  EXPECT_EQ(fit_of("sm_86", {8, 9}), Fit::family);
  EXPECT_EQ(fit_of("sm_89", {8, 6}), Fit::none);
  EXPECT_EQ(fit_of("compute_89", {8, 6}), Fit::none);
  EXPECT_EQ(fit_of("sm_121", {12, 0}), Fit::none);
  EXPECT_EQ(fit_of("sm_100f", {10, 3}), Fit::family);
  EXPECT_EQ(fit_of("compute_90a", {12, 1}), Fit::none);
  // Boards with integrated GPUs: their code runs nowhere else, and no other code runs on them.
  EXPECT_EQ(fit_of("sm_86", {8, 7}), Fit::none);
  EXPECT_EQ(fit_of("sm_87", {8, 9}), Fit::none);
  EXPECT_EQ(fit_of("sm_100f", {10, 1}), Fit::none);
  EXPECT_EQ(fit_of("sm_87", {8, 7}), Fit::native);
  EXPECT_EQ(fit_of("compute_80", {8, 7}), Fit::jit);
}

TEST(Gpu, TargetsAreReadAsTheyAreWritten) {
  for (const char* target : {"sm_121a", "compute_120f", "lto_75", "other_80"})
    EXPECT_EQ(parse_target(target)->str(), target);
  for (const char* target : {"", "sm_", "sm_12b", "121", "sm_121aa", "sm_-1", "sm_99999"})
    EXPECT_FALSE(parse_target(target)) << target;
}

TEST(Gpu, IsKnownByNameOrNumber) {
  for (const char* name :
       {"gb10", "GB10", "NVIDIA GB10", "dgx-spark", "sm_121", "sm_121a", "compute_121", "121", "12.1"}) {
    EXPECT_EQ(parse_gpu(name).capability, (ComputeCapability{12, 1})) << name;
  }
  EXPECT_EQ(parse_gpu("gb10").machine, "aarch64");
  EXPECT_EQ(parse_gpu("NVIDIA H200").capability, (ComputeCapability{9, 0}));
  EXPECT_EQ(parse_gpu("NVIDIA A100-SXM4-80GB").capability, (ComputeCapability{8, 0}));
  EXPECT_EQ(parse_gpu("A10").capability, (ComputeCapability{8, 6}));
  EXPECT_EQ(parse_gpu("NVIDIA GeForce RTX 5090").capability, (ComputeCapability{12, 0}));
  EXPECT_EQ(parse_gpu("NVIDIA GH200 480GB").machine, "aarch64");
  EXPECT_EQ(parse_gpu("9.0").machine, "");
  for (const char* name : {"", "voodoo", "12.", "12.11", "5", "-1", "sm_121b"}) {
    EXPECT_THROW(parse_gpu(name), Error) << name;
  }
}

Library library_with(const std::vector<std::vector<TestImage>>& containers, uint16_t machine = 183) {
  TestElf elf;
  elf.machine = machine;
  for (const auto& images : containers) elf.sections.push_back({".nv_fatbin", fatbin(images)});
  const std::string bytes = elf_file(elf);
  return inspect(MemorySource(bytes), "/lib/libtest.so.1");
}

Verdict judged(const std::vector<std::vector<TestImage>>& containers) {
  return judge(library_with(containers), {12, 1}, "aarch64");
}

TEST(Verdict, IsWhatTheContainersSay) {
  EXPECT_EQ(judged({{sass(90), sass(121)}}).standing, Standing::native);
  EXPECT_EQ(judged({{sass(90), sass(120)}}).standing, Standing::family);
  EXPECT_EQ(judged({{sass(90), ptx(90)}}).standing, Standing::jit);
  EXPECT_EQ(judged({{sass(90), sass(120, 'a'), ptx(120, 'a')}}).standing, Standing::none);
  EXPECT_EQ(judged({}).standing, Standing::no_gpu_code);
}

TEST(Verdict, CountsEachContainerByItsBest) {
  const Verdict verdict = judged({{sass(121), sass(120)}, {sass(120)}, {sass(120), ptx(80)}, {ptx(80)}, {sass(90)}});
  EXPECT_EQ(verdict.native, 1);
  EXPECT_EQ(verdict.family, 2);
  EXPECT_EQ(verdict.jit, 1);
  EXPECT_EQ(verdict.none, 1);
  EXPECT_EQ(verdict.standing, Standing::family) << "a little native code makes no native library";
  EXPECT_NE(verdict.cost.find("sm_120"), std::string::npos) << verdict.cost;
}

TEST(Verdict, OfPtxTheHighestIsCompiled) {
  TestImage low = ptx(75), high = ptx(90);
  low.compressed = high.compressed = true;
  low.unpacked = 5'000'000;
  high.unpacked = 3'000'000;
  const Verdict verdict = judged({{low, high}, {high}});
  EXPECT_EQ(verdict.jit_bytes, 6'000'000);
  EXPECT_NE(verdict.cost.find("6.0 MB"), std::string::npos) << verdict.cost;
}

TEST(Verdict, AnotherProcessorsLibraryDoesNotLoad) {
  const Library library = library_with({{sass(121)}}, 62);
  const Verdict verdict = judge(library, {12, 1}, "aarch64");
  EXPECT_EQ(verdict.standing, Standing::wrong_machine);
  EXPECT_EQ(verdict.native, 1) << "what it holds is told all the same";
  EXPECT_EQ(verdict.cost, "made for x86_64, does not load on aarch64");
  EXPECT_EQ(judge(library, {12, 1}, "").standing, Standing::native);
}

TEST(Verdict, OfACompilerIsWhatItCompiles) {
  std::string texts =
      "x|lto_75|lto_90a|lto_|lto_999999|Cuda compilation tools, release %d.%d|"
      "Cuda compilation tools, release 12.4, V12.4.131\n|";
  std::replace(texts.begin(), texts.end(), '|', '\0');
  TestElf elf;
  elf.sections = {{".rodata", texts}};
  const std::string bytes = elf_file(elf);
  const Library old = inspect(MemorySource(bytes), "/x/bin/ptxas");
  EXPECT_EQ(old.component, "ptxas");
  EXPECT_EQ(old.version, "12.4.131");
  EXPECT_EQ(old.version_from, "its text");
  EXPECT_EQ(judge(old, {12, 1}, "aarch64").standing, Standing::too_old);
  EXPECT_EQ(judge(old, {9, 0}, "aarch64").standing, Standing::compiles);
  EXPECT_EQ(judge(old, {9, 0}, "x86_64").standing, Standing::wrong_machine);
}

TEST(Verdict, WhatCouldNotBeReadIsSaid) {
  const std::string bytes = "no library at all, but long enough";
  const Library library = inspect(MemorySource(bytes), "/x/libcudnn.so.9");
  EXPECT_EQ(judge(library, {12, 1}, "aarch64").standing, Standing::unreadable);
  EXPECT_NE(judge(library, {12, 1}, "aarch64").cost.find("no ELF file"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::stack
