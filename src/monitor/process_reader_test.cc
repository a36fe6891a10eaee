#include "monitor/process_reader.h"

#include <gtest/gtest.h>

#include "monitor/sampler.h"
#include "monitor/scripted_source.h"

namespace sparkpilot::monitor {
namespace {

TEST(Processes, ThoseOnAGpuFirstThenTheBusy) {
  ScriptedSource source;
  source.add_gpu("NVIDIA GB10", {}, {{7, int64_t{2} << 30, true}, {999, int64_t{1} << 30, true}});
  source.set_process(5, "idle", 100);
  source.set_process(6, "make) (me", 100, 2000);
  source.set_process(7, "python3.12", 100);
  source.files["/proc/7/cmdline"] = std::string("/usr/bin/python3.12\0-u\0/home/alice/train.py\0--lr", 48);
  source.folders["/proc"].push_back("meminfo");
  Sampler sampler(source);
  sampler.next(0);
  source.set_process(6, "make) (me", 250, 2000);
  source.set_process(7, "python3.12", 150);
  Sample sample = sampler.next(kSecond);
  ASSERT_EQ(sample.processes.size(), 4U);
  EXPECT_EQ(sample.process_count, 3);
  EXPECT_EQ(sample.processes[0].pid, 7);
  EXPECT_EQ(sample.processes[0].name, "python3.12 train.py");
  EXPECT_DOUBLE_EQ(*sample.processes[0].cpu_percent, 50);
  EXPECT_EQ(sample.processes[0].gpu_bytes, int64_t{2} << 30);
  EXPECT_EQ(sample.processes[1].pid, 999);  // in another container
  EXPECT_EQ(sample.processes[1].name, "");
  EXPECT_EQ(sample.processes[1].cpu_percent, std::nullopt);
  EXPECT_EQ(sample.processes[2].name, "make) (me");
  EXPECT_DOUBLE_EQ(*sample.processes[2].cpu_percent, 150);
  EXPECT_EQ(sample.processes[2].resident_bytes, 2000 * 4096);
  EXPECT_EQ(sample.processes[3].name, "idle");
}

TEST(Processes, VanishWhileTheyAreReadAndNumbersAreUsedAgain) {
  ScriptedSource source;
  source.set_process(5, "first", 1000, 1000, 50);
  source.set_process(6, "gone", 10);
  Sampler sampler(source);
  sampler.next(0);
  source.set_process(5, "second", 1010, 1000, 99);  // another process with the same id
  source.vanishing.insert("/proc/6/stat");
  Sample sample = sampler.next(kSecond);
  ASSERT_EQ(sample.processes.size(), 1U);
  EXPECT_EQ(sample.processes[0].name, "second");
  EXPECT_EQ(sample.processes[0].cpu_percent, std::nullopt);
  source.set_process(5, "second", 5, 1000, 99);  // its counter decreased
  EXPECT_EQ(sampler.next(2 * kSecond).processes.at(0).cpu_percent, std::nullopt);
  source.set_process(5, "second", 6, 1000, 99);
  EXPECT_EQ(sampler.next(2 * kSecond).processes.at(0).cpu_percent, std::nullopt);  // no time has passed
  source.files["/proc/5/stat"] = "5 (second) S 1 2";
  EXPECT_TRUE(sampler.next(3 * kSecond).processes.empty());
}

TEST(Processes, APageHasASensibleSize) {
  ScriptedSource source;
  source.set_process(5, "odd", 100, 1'000'000);
  source.files["/proc/5/status"] = "VmRSS:\t1 kB\n";
  Sampler sampler(source);
  EXPECT_EQ(sampler.next(0).processes.at(0).resident_bytes, 4'096'000'000);
}

TEST(Processes, AReadingCostsTheBudgetAtMost) {
  ScriptedSource source;
  for (int pid = 1; pid <= 1000; ++pid) source.set_process(pid, "p", 0);
  SamplerOptions options;
  options.process_budget = 100;
  Sampler sampler(source, options);
  const auto looked = [&] {
    int count = 0;
    for (const auto& [path, times] : source.reads) {
      if (path.ends_with("/stat") && path != "/proc/stat") count += times;
    }
    source.reads.clear();
    return count;
  };
  for (int i = 0; i < 10; ++i) {
    sampler.next(i * kSecond);
    EXPECT_EQ(looked(), 100);
  }
  source.set_process(950, "p", 500);  // noticed as busy in its turn
  for (int i = 10; i < 19; ++i) sampler.next(i * kSecond);
  EXPECT_EQ(sampler.next(19 * kSecond).processes.size(), 1000U);  // all have been read in ten readings
  source.reads.clear();
  Sample sample;
  for (int i = 20; i < 24; ++i) {
    source.set_process(950, "p", 500 + 100 * (i - 19));
    sample = sampler.next(i * kSecond);
    EXPECT_EQ(source.reads["/proc/950/stat"], 1);  // and is read every time from then on
    source.reads.clear();
  }
  EXPECT_EQ(sample.processes.at(0).pid, 950);
  EXPECT_DOUBLE_EQ(*sample.processes[0].cpu_percent, 100);
}

TEST(Processes, ThousandsAreListedEveryFourthTime) {
  ScriptedSource source;
  for (int pid = 1; pid <= 2000; ++pid) source.set_process(pid, "p", 0);
  Sampler sampler(source);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(sampler.next(i * kSecond).process_count, 2000);
  EXPECT_EQ(source.lists["/proc"], 2);
  source.set_process(2001, "new", 0);
  EXPECT_EQ(sampler.next(8 * kSecond).process_count, 2001);
  ScriptedSource few;
  few.set_process(1, "p", 0);
  Sampler always(few);
  for (int i = 0; i < 8; ++i) always.next(i * kSecond);
  EXPECT_EQ(few.lists["/proc"], 8);
}

TEST(Processes, AreLeftAloneWhereNobodyAsks) {
  ScriptedSource source;
  source.add_gpu("GPU", {}, {{7, int64_t{1} << 30, true}});
  source.set_process(7, "python3", 0);
  SamplerOptions options;
  options.processes = false;
  const Sample sample = Sampler(source, options).next(0);
  EXPECT_TRUE(sample.processes.empty());
  EXPECT_EQ(sample.gpus.at(0).gpu.process_memory, int64_t{1} << 30);
  EXPECT_EQ(source.reads["/proc/7/stat"] + source.reads["/proc/7/cmdline"] + source.lists["/proc"], 0);
}

TEST(Processes, NamesAreSafeToPrint) {
  EXPECT_EQ(process_name("x\x1b[31m\n\xff", ""), "x?[31m??");
  EXPECT_EQ(process_name(std::string(200, 'a'), "").size(), 64U);
  const std::string script("python3\0-m\0train\0", 17), folders("bash\0/home/bob/run all.sh\0", 26);
  EXPECT_EQ(process_name("python3", script), "python3 train");
  EXPECT_EQ(process_name("bash", folders), "bash run all.sh");
  EXPECT_EQ(process_name("bash", std::string("bash\0-c\0curl secret\0", 20)), "bash");
  // Programs in the command line may hold secrets.
  for (const char* option : {"-lc", "-ec", "-c"})
    EXPECT_EQ(process_name("bash", std::string("bash") + '\0' + option + '\0' + "curl secret"), "bash") << option;
  EXPECT_EQ(process_name("python3.11", std::string("python3\0-Ic\0secret()\0", 21)), "python3.11");
  EXPECT_EQ(process_name("perl", std::string("perl\0-ne\0secret\0", 16)), "perl");
  EXPECT_EQ(process_name("node", std::string("node\0--eval\0secret\0", 19)), "node");
  EXPECT_EQ(process_name("bash", std::string("bash\0-eux\0run.sh\0", 17)), "bash run.sh");
  EXPECT_EQ(process_name("bashful", folders), "bashful");
  EXPECT_EQ(process_name("sh", ""), "sh");
}

}  // namespace
}  // namespace sparkpilot::monitor
