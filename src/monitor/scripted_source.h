// A machine for tests, whose files and GPUs change between two readings.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "hw/source.h"

namespace sparkpilot::monitor {

class ScriptedSource : public Source {
 public:
  std::map<std::string, std::string> files, links;
  std::map<std::string, std::vector<std::string>> folders;
  GpuDriverAnswers driver;
  std::string machine = "x86_64";
  std::map<std::string, int> reads, lists;  // how often each file and folder was read
  std::set<std::string> vanishing;          // listed, but gone when it is read

  std::optional<std::string> read(const std::string& path, size_t limit) override {
    ++reads[path];
    const auto found = files.find(path);
    if (found == files.end() || vanishing.contains(path)) return std::nullopt;
    return found->second.substr(0, limit);
  }
  std::vector<std::string> list(const std::string& folder) override {
    ++lists[folder];
    const auto found = folders.find(folder);
    return found == folders.end() ? std::vector<std::string>() : found->second;
  }
  std::optional<std::string> link(const std::string& path) override {
    const auto found = links.find(path);
    return found == links.end() ? std::nullopt : std::optional(found->second);
  }
  Access access(const std::string& path) override { return files.contains(path) ? Access::read_only : Access::absent; }
  std::optional<Space> space(const std::string&) override { return std::nullopt; }
  std::optional<std::string> variable(const std::string&) override { return std::nullopt; }
  std::string architecture() override { return machine; }
  GpuDriverAnswers nvml() override { return driver; }
  GpuDriverAnswers cuda() override { return {}; }
  std::optional<std::vector<std::string>> kernel_log(const std::vector<std::string>&) override { return std::nullopt; }

  // Adds a GPU to NVML's, with these numbers.
  Answers& add_gpu(const std::string& name, const std::map<std::string, int64_t>& numbers,
                   std::vector<GpuProcess> processes = {}) {
    driver.state = GpuDriverAnswers::State::answered;
    Answers& answers = driver.devices.emplace_back();
    answers["name"] = {name, 0};
    for (const auto& [question, value] : numbers) answers[question] = {value, 0};
    driver.processes.push_back(std::move(processes));
    return answers;
  }
  // A process as /proc shows it; `comm` may be any bytes.
  void set_process(int pid, const std::string& comm, int64_t ticks, int64_t pages = 1000, int64_t start = 50) {
    const std::string folder = "/proc/" + std::to_string(pid);
    if (!files.contains(folder + "/stat")) folders["/proc"].push_back(std::to_string(pid));
    files[folder + "/stat"] = std::to_string(pid) + " (" + comm + ") S 1 1 1 0 -1 4194560 1 0 0 0 " +
                              std::to_string(ticks) + " 0 0 0 20 0 1 0 " + std::to_string(start) + " 123456 " +
                              std::to_string(pages) + " 18446744073709551615 0 0 0\n";
    files[folder + "/status"] = "Name:\tx\nVmRSS:\t" + std::to_string(pages * 4 + 8) + " kB\n";
  }
};

inline constexpr int64_t kSecond = 1'000'000'000;

}  // namespace sparkpilot::monitor
