// This machine as probe() sees it, compared with the system's own answers.
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "base/test_files.h"
#include "hw/cpu.h"
#include "hw/machine_json.h"
#include "hw/probe.h"
#include "hw/test_machines.h"
#include "hw/test_sanity.h"
#include "sparkpilot/machine.h"

namespace sparkpilot {
namespace {

std::string output_of(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
  std::string out;
  std::array<char, 4096> buffer = {};
  for (size_t got = 0; pipe && (got = fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    out.append(buffer.data(), got);
  return out;
}

TEST(Here, IsExaminedOnce) {
  EXPECT_EQ(&machine(), &machine());
  EXPECT_EQ(Sanity().check(machine()), "");
}

TEST(Here, ProcessorsAreThoseOfTheSystem) {
  const Cpu& cpu = machine().cpu;
  utsname names = {};
  ASSERT_EQ(uname(&names), 0);
  EXPECT_EQ(cpu.architecture, names.machine);
  EXPECT_EQ(cpu.logical, sysconf(_SC_NPROCESSORS_ONLN));
  const std::string table = output_of("lscpu -p=CPU,CORE,SOCKET 2>/dev/null");
  std::set<std::string> cores, sockets;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(','), second = line.rfind(',');
    if (line.empty() || line[0] == '#' || first == std::string::npos || first == second) continue;
    cores.insert(line.substr(first + 1, second - first - 1));
    sockets.insert(line.substr(second + 1));
  }
  if (cores.empty()) GTEST_SKIP() << "no lscpu";
  EXPECT_EQ(cpu.cores.value_or(static_cast<int>(cores.size())), static_cast<int>(cores.size()));
  EXPECT_EQ(cpu.sockets.value_or(static_cast<int>(sockets.size())), static_cast<int>(sockets.size()));
}

/// proc/cpuinfo agrees with the processor's own answers.
TEST(Here, InstructionSetsAreThoseOfTheProcessor) {
  const auto source = system_source();
  const std::string cpuinfo = source->read("/proc/cpuinfo").value_or("");
  const bool arm = machine().cpu.architecture == "aarch64";
  if (cpuinfo.find(arm ? "Features\t" : "flags\t") == std::string::npos)
    GTEST_SKIP() << "an emulator shows its host's file";
  const CpuFeatures& features = cpu_features();
  const auto has = [](const char* isa) {
    const auto& all = machine().cpu.isa;
    return std::find(all.begin(), all.end(), isa) != all.end();
  };
  EXPECT_EQ(has("avx2"), features.avx2);
  EXPECT_EQ(has("avx512"), features.avx512);
  EXPECT_EQ(has("avx512_bf16"), features.avx512_bf16);
  EXPECT_EQ(has("avx512_vnni"), features.avx512_vnni);
  EXPECT_EQ(has("neon"), features.neon);
  EXPECT_EQ(has("neon_bf16"), features.neon_bf16);
  EXPECT_EQ(has("i8mm"), features.i8mm);
  EXPECT_EQ(has("sve"), features.sve);
}

TEST(Here, MemoryAndDisksAreThoseOfTheSystem) {
  struct sysinfo info = {};
  ASSERT_EQ(sysinfo(&info), 0);
  const Memory& memory = machine().memory;
  EXPECT_EQ(memory.total, static_cast<int64_t>(info.totalram * info.mem_unit));
  EXPECT_EQ(memory.swap_total, static_cast<int64_t>(info.totalswap * info.mem_unit));
  EXPECT_GT(memory.available.value_or(0), 0);
  for (const Disk& disk : machine().disks) {
    struct statvfs status = {};
    if (!disk.total || statvfs(disk.mount.c_str(), &status) != 0) continue;
    EXPECT_EQ(*disk.total, static_cast<int64_t>(status.f_blocks * status.f_frsize)) << disk.mount;
  }
}

// A recording gives the same machine as the one recorded.
TEST(Here, RecordedIsTheSameMachine) {
  const auto source = system_source();
  Recorder recorder(*source);
  const Machine seen = probe(recorder);
  const Machine again = probe(*recorded_source(recorder.json(), "recorded"));
  const nlohmann::json before = machine_json(seen), after = machine_json(again);
  for (const char* part : {"hardware_class", "cpu", "memory", "driver", "gpus"}) EXPECT_EQ(after[part], before[part]);
  EXPECT_EQ(again.disks.size(), seen.disks.size());  // whose mounts may name a user
}

// A mounted disk or a container's root: only its files count, nothing of the machine that examines it.
TEST(Here, AnotherTreeIsAnotherMachine) {
  const TempFolder root;
  const auto record = nlohmann::json::parse(read_file(machines_folder() / "spark_dell.json"));
  for (const auto& [path, text] : record["files"].items()) {
    const std::filesystem::path file = root / path.substr(1);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file);
    if (text.is_string()) out << text.get<std::string>();
    if (text.is_array()) {
      for (const auto& line : text) out << line.get<std::string>() << "\n";
    }
  }
  const Machine seen = probe(*system_source({.root = root.path()}));
  const nlohmann::json json = machine_json(seen), expected = machine_json(machine_of("spark_dell"));
  EXPECT_EQ(json["memory"], expected["memory"]);
  EXPECT_EQ(json["cpu"]["kinds"], expected["cpu"]["kinds"]);
  EXPECT_EQ(json["identity"]["system"], "Dell Pro Max with GB10");
  EXPECT_EQ(json["gpus"][0]["pci_id"], "10de:2e12");
  EXPECT_EQ(json["backend"], "cpu");  // its driver cannot be asked
}

}  // namespace
}  // namespace sparkpilot
