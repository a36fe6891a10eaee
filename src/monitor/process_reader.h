// Processes: those on a GPU, and those that keep the processors busy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hw/source.h"
#include "monitor/sample.h"

namespace sparkpilot::monitor {

class ProcessReader {
 public:
  // `budget`: how many are examined in one reading, in addition to those on a GPU.
  ProcessReader(Source& source, size_t budget) : source_(source), budget_(budget) {}

  // `on_gpu` are always examined and listed; the others only once a reading has found them.
  std::vector<ProcessSample> next(int64_t now_ns, const std::map<int64_t, std::optional<int64_t>>& on_gpu);
  // The number of processes; empty if the system shows none, or more than can be listed.
  std::optional<int64_t> count() const { return count_; }

 private:
  struct Process {
    std::string comm, name;
    int64_t start = 0, ticks = 0, pages = 0;
    std::optional<int64_t> at_ns;
    std::optional<double> percent;
    bool busy() const { return percent.value_or(0) > 0; }
  };
  void list();
  bool look(int64_t pid, int64_t now_ns);
  std::optional<int64_t> resident(int64_t pid, const Process& process);

  Source& source_;
  size_t budget_;
  std::map<int64_t, Process> known_;
  std::vector<int64_t> pids_;  // ascending
  int unlisted_ = 0;           // readings since they were listed
  std::optional<int64_t> count_, page_bytes_;
  int64_t turn_ = 0;  // the idle one examined last
};

// The program's name, for an interpreter with its script: "python3 train.py". Each of `arguments` ends in NUL, as in
// /proc/PID/cmdline. Always printable ASCII, and without folders, which may contain people's names.
std::string process_name(const std::string& comm, std::string_view arguments);

}  // namespace sparkpilot::monitor
