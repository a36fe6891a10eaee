// Where everything that is known about a machine comes from: its file tree, its environment, its drivers' answers.
//
// Nothing above this file reads the system itself, so a recorded machine is examined by the very code that examines a
// real one: `sparkpilot doctor --record FILE` writes what was asked and answered, `--from FILE` answers from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/driver.h"

namespace sparkpilot {

struct Space {
  int64_t total_bytes = 0, free_bytes = 0;  // free to a user without rights of an administrator
};

// What this process may do with a path.
enum class Access { absent, denied, read_only, read_write };

// Paths are absolute, as on the machine itself ("/proc/meminfo"). What is absent, unreadable, or no regular file is an
// empty answer, never an error. One thread uses a source at a time.
class Source {
 public:
  virtual ~Source() = default;

  // At most the first `limit` bytes, which may be any bytes.
  virtual std::optional<std::string> read(const std::string& path, size_t limit = kReadLimit) = 0;
  // Names in a folder, sorted, without "." and "..", at most kListLimit of them; empty where there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  // What a symbolic link says, unresolved.
  virtual std::optional<std::string> link(const std::string& path) = 0;
  virtual Access access(const std::string& path) = 0;
  // Of the file system that a path lies on.
  virtual std::optional<Space> space(const std::string& path) = 0;
  virtual std::optional<std::string> variable(const std::string& name) = 0;
  // "x86_64", "aarch64": of the machine, where the tree is another machine's too. Empty: not known.
  virtual std::string architecture() = 0;
  // What the NVIDIA driver's libraries say now: NVML (management), libcuda (computing).
  virtual DriverAnswers nvml() = 0;
  virtual DriverAnswers cuda() = 0;
  // The kernel's log, the lines that contain one of `words`; empty where this process may not read it.
  virtual std::optional<std::vector<std::string>> kernel_log(const std::vector<std::string>& words) = 0;

  static constexpr size_t kReadLimit = 256 << 10;
  // Folders of libraries and of Python packages have thousands of names, and /proc one a process.
  static constexpr size_t kListLimit = 65536;
};

struct SourceOptions {
  // Another file tree, such as a mounted disk or a container's root. Links in it stay inside it; its drivers are not
  // asked and its environment is empty, as they would be this machine's.
  std::filesystem::path root = "/";
  // How long a driver's library may take to answer before it is left alone for the rest of the process.
  double driver_wait_seconds = 0.5;
};

// The machine that this process runs on, or another tree.
std::unique_ptr<Source> system_source(const SourceOptions& options = {});

}  // namespace sparkpilot
