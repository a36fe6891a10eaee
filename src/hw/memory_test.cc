// What a process may take.
#include "hw/memory.h"

#include <gtest/gtest.h>

#include <map>

#include "base/test_files.h"
#include "hw/control_groups.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMib = int64_t{1} << 20;

class AvailableMemory : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    write_text(root_ / file, text);
  }
  std::optional<int64_t> available() { return available_memory_bytes(root_.path()); }
  TempFolder root_;
};

TEST_F(AvailableMemory, IsWhatTheSystemHas) {
  EXPECT_FALSE(available());
  write("proc/meminfo", "MemTotal:  4096 kB\nMemFree:  1024 kB\nMemAvailable:  2048 kB\n");
  EXPECT_EQ(available(), 2 * kMib);
  EXPECT_GT(available_memory_bytes().value(), 0);
}

TEST_F(AvailableMemory, IsNoMoreThanAGroupLeaves) {
  write("proc/meminfo", "MemAvailable:  1048576 kB\n");
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.current", "1000\n");
  EXPECT_EQ(available(), 1024 * kMib);
  // The limit of the group around it; what files are cached can be dropped.
  write("sys/fs/cgroup/a/memory.max", std::to_string(100 * kMib));
  write("sys/fs/cgroup/a/memory.current", std::to_string(90 * kMib));
  write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file " + std::to_string(20 * kMib) + "\n");
  EXPECT_EQ(available(), 30 * kMib);
  // Version 1, in a container that sees its own group at the top.
  write("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/x\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(10 * kMib));
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(12 * kMib));
  EXPECT_EQ(available(), 0);
}

// Files of another machine may hold anything.
TEST(GroupMemory, NonsenseIsNoLimit) {
  std::string groups, limit = "1000", used = "400", cache = "inactive_file 100\n";
  const auto left = [&] {
    return group_memory_left([&](const std::string& path) -> std::optional<std::string> {
      if (path == "/proc/self/cgroup") return groups.empty() ? std::nullopt : std::optional(groups);
      if (path.ends_with("/memory.stat")) return cache;
      return path.ends_with("/memory.max") || path.ends_with("/memory.limit_in_bytes") ? limit : used;
    });
  };
  EXPECT_EQ(left(), 700) << "without /proc/self/cgroup the group at the top counts";
  groups = "0::/" + std::string(60'000, '/') + std::string(2'000, 'a') + "\n:::\n\n7:memory:\n";
  EXPECT_EQ(left(), 600) << "version 1 has another name for the cache";
  cache = "inactive_file 99999999999999999999\n";
  EXPECT_EQ(left(), 600);
  cache = "inactive_file 900\ntotal_inactive_file -5\n";
  EXPECT_EQ(left(), 600) << "no more can be dropped than is used";
  for (const char* none : {"max", "-1", "9223372036854771712", "", "12x"}) {
    limit = none;
    EXPECT_EQ(left(), std::nullopt) << none;
  }
}

TEST(GroupProcessors, AreTheLeastThatAGroupAllows) {
  std::map<std::string, std::string> files;
  const auto processors = [&] {
    return group_processors([&](const std::string& path) -> std::optional<std::string> {
      const auto found = files.find(path);
      return found == files.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_EQ(processors(), std::nullopt);
  files = {{"/sys/fs/cgroup/cpu.max", "max 100000\n"}};
  EXPECT_EQ(processors(), std::nullopt);
  files = {{"/proc/self/cgroup", "0::/system.slice/x.service\n"},
           {"/sys/fs/cgroup/system.slice/x.service/cpu.max", "150000 100000\n"},
           {"/sys/fs/cgroup/system.slice/cpu.max", "400000 100000\n"}};
  EXPECT_EQ(processors(), 1.5);
  files["/sys/fs/cgroup/system.slice/cpu.max"] = "50000 100000\n";
  EXPECT_EQ(processors(), 0.5);
  files = {{"/proc/self/cgroup", "9:cpuset:/a\n5:cpu,cpuacct:/docker/x\n"},
           {"/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "200000\n"},
           {"/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n"},
           {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
           {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(processors(), 2);
  for (const char* none : {"0 100000", "1 0", "x y", "1", "-5 100000"}) {
    files = {{"/sys/fs/cgroup/cpu.max", none}};
    EXPECT_EQ(processors(), std::nullopt) << none;
  }
}

}  // namespace
}  // namespace sparkpilot
