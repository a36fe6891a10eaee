// The source of everything that is known about a machine: its file tree, its environment, its drivers' answers.
//
// No other code reads the system itself, so a recorded machine is examined by the same code as a real one: `sparkpilot
// doctor --record FILE` writes what was asked and answered, `--from FILE` answers from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/gpu_driver.h"

namespace sparkpilot {

struct Space {
  int64_t total_bytes = 0, free_bytes = 0;  // free for ordinary users
};

// What this process may do with a path.
enum class Access { absent, denied, read_only, read_write };

// Paths are absolute, as on the machine itself ("/proc/meminfo"). For a file that is absent, unreadable or not regular
// the answer is empty; there are no errors. One thread uses a source at a time.
class Source {
 public:
  virtual ~Source() = default;

  // At most the first `limit` bytes, which may be any bytes.
  virtual std::optional<std::string> read(const std::string& path, size_t limit = kReadLimit) = 0;
  // Names in a folder, sorted, without "." and "..", at most kListLimit of them; empty if there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  // The target of a symbolic link, unresolved.
  virtual std::optional<std::string> link(const std::string& path) = 0;
  virtual Access access(const std::string& path) = 0;
  // The space of the file system that a path is on.
  virtual std::optional<Space> space(const std::string& path) = 0;
  virtual std::optional<std::string> variable(const std::string& name) = 0;
  // "x86_64", "aarch64": the architecture of the tree's machine, even if it is not this one. Empty: unknown.
  virtual std::string architecture() = 0;
  // The present answers of the NVIDIA driver's libraries: NVML (management), libcuda (computing).
  virtual GpuDriverAnswers nvml() = 0;
  virtual GpuDriverAnswers cuda() = 0;
  // The lines of the kernel's log that contain one of `words`; empty if this process may not read it.
  virtual std::optional<std::vector<std::string>> kernel_log(const std::vector<std::string>& words) = 0;

  static constexpr size_t kReadLimit = 256 << 10;
  // Folders of libraries and of Python packages have thousands of names, and /proc one for each process.
  static constexpr size_t kListLimit = 65536;
};

struct SourceOptions {
  // Another file tree, such as a mounted disk or a container's root. Links stay inside it. Drivers are not asked and
  // the environment is empty, as they would be those of this machine.
  std::filesystem::path root = "/";
  // How long a driver's library may take to answer; after that this process does not ask it again before it has.
  double driver_wait_seconds = 0.5;
};

// The machine that this process runs on, or another tree.
std::unique_ptr<Source> system_source(const SourceOptions& options = {});

}  // namespace sparkpilot
