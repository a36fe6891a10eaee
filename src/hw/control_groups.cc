#include "hw/control_groups.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "hw/parse_text.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoLimit = int64_t{1} << 50;  // a petabyte; version 1 writes the largest number

template <typename T>
void take_least(std::optional<T>& least, T value) {
  value = std::max(value, T(0));
  least = least ? std::min(*least, value) : value;
}

// Calls visit(folder, newer) for this process's group of a controller and those around it, whose limits hold for it,
// too. A line "0::/user.slice" is version 2, "5:cpu,cpuacct:/docker/..." version 1.
template <typename Visit>
void each_group(const ReadText& read, std::string_view controller, const Visit& visit) {
  constexpr int kMostLines = 64, kDeepest = 32;
  const std::string groups = read("/proc/self/cgroup").value_or("0::/");
  std::string_view left = groups;
  for (int i = 0; i < kMostLines; ++i) {
    const auto line = next_line(left);
    if (!line) break;
    const size_t first = line->find(':'), second = line->find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers = "," + std::string(line->substr(first + 1, second - first - 1)) + ",";
    const bool newer = controllers == ",,";
    if (!newer && controllers.find("," + std::string(controller) + ",") == std::string::npos) continue;
    const fs::path top = newer ? fs::path("/sys/fs/cgroup") : fs::path("/sys/fs/cgroup") / controller;
    fs::path name = fs::path(line->substr(second + 1)).relative_path();
    for (int depth = 0; depth < kDeepest; ++depth, name = name.parent_path()) {
      visit(top / name, newer);
      if (name.empty()) break;
    }
  }
}

std::optional<int64_t> number_in(const ReadText& read, const fs::path& file) {
  return to_integer(trim(read(file.string()).value_or("")));
}

// A file of one number of bytes; "max" is none.
std::optional<int64_t> bytes_in(const ReadText& read, const fs::path& file) {
  const auto number = number_in(read, file);
  return number && *number >= 0 && *number < kNoLimit ? number : std::nullopt;
}

}  // namespace

std::optional<int64_t> group_memory_left(const ReadText& read) {
  std::optional<int64_t> least;
  each_group(read, "memory", [&](const fs::path& group, bool newer) {
    const auto most = bytes_in(read, group / (newer ? "memory.max" : "memory.limit_in_bytes")),
               now = bytes_in(read, group / (newer ? "memory.current" : "memory.usage_in_bytes"));
    if (!most || !now) return;
    // The cache of files that the group could drop counts as left.
    const std::string statistics = read((group / "memory.stat").string()).value_or("");
    int64_t dropped = 0;
    for (std::string_view left = statistics; const auto line = next_line(left);) {
      const auto parts = words(*line, 2);
      if (parts.size() == 2 && parts[0] == (newer ? "inactive_file" : "total_inactive_file"))
        dropped = to_integer(trim(parts[1])).value_or(0);
    }
    take_least(least, *most - *now + std::clamp<int64_t>(dropped, 0, *now));
  });
  return least;
}

// Microseconds of processor time in a period: "200000 100000" or "max 100000", in version 1 a file for each, -1 for
// none.
std::optional<double> group_processors(const ReadText& read) {
  std::optional<double> least;
  each_group(read, "cpu", [&](const fs::path& group, bool newer) {
    std::optional<int64_t> most, period;
    if (newer) {
      const std::string text = read((group / "cpu.max").string()).value_or("");
      const auto parts = words(trim(text), 2);
      if (parts.size() == 2) most = to_integer(parts[0]), period = to_integer(trim(parts[1]));
    } else {
      most = number_in(read, group / "cpu.cfs_quota_us"), period = number_in(read, group / "cpu.cfs_period_us");
    }
    if (most && period && *most > 0 && *period > 0)
      take_least(least, static_cast<double>(*most) / static_cast<double>(*period));
  });
  return least;
}

}  // namespace sparkpilot
