#include "hw/wait_time.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sparkpilot {
namespace {

// The second of the three numbers in a thread's schedstat: nanoseconds of waiting.
std::optional<int64_t> waited_ns(int file) {
  std::array<char, 128> text;
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  const std::string_view line(text.data(), static_cast<size_t>(size));
  const size_t begin = line.find(' ') + 1, end = line.find(' ', begin);
  if (begin == 0 || end == std::string_view::npos) return std::nullopt;
  int64_t ns = 0;
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, ns);
  return error == std::errc() && stop == line.data() + end ? std::optional(ns) : std::nullopt;
}

}  // namespace

WaitTime::WaitTime() {
  std::error_code none;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none)) {
    const int file = open((thread.path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) files_.push_back(file);
  }
}

WaitTime::~WaitTime() {
  for (const int file : files_) close(file);
}

std::optional<double> WaitTime::ms() const {
  if (files_.empty()) return std::nullopt;
  int64_t sum = 0;
  for (const int file : files_) {
    const std::optional<int64_t> ns = waited_ns(file);
    if (!ns) return std::nullopt;
    sum += *ns;
  }
  return static_cast<double>(sum) * 1e-6;
}

}  // namespace sparkpilot
