#include "doctor/load.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cstdlib>

#include <algorithm>
#include <chrono>
#include <future>

#include "base/clock.h"

namespace sparkpilot {
namespace {

// Calls `call` for every piece of the file; false if it fails.
template <typename Call>
bool each_piece(int64_t bytes, std::vector<char>& piece, Call&& call) {
  for (int64_t at = 0; at < bytes;) {
    const auto size = static_cast<size_t>(std::min<int64_t>(bytes - at, std::ssize(piece)));
    const ssize_t done = call(piece.data(), size, at);
    if (done <= 0) return false;
    at += done;
  }
  return true;
}

}  // namespace

std::optional<double> measure_disk(const std::filesystem::path& folder, int64_t bytes) {
  struct statvfs space = {};
  if (statvfs(folder.c_str(), &space) != 0) return std::nullopt;
  if (static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize) < 4.0 * static_cast<double>(bytes)) {
    return std::nullopt;
  }
  std::string name = (folder / ".sparkpilot_disk_XXXXXX").string();
  const int fd = mkstemp(name.data());
  if (fd < 0) return std::nullopt;
  unlink(name.c_str());  // the file disappears with its descriptor, however this function ends
  std::vector<char> piece(1 << 20);
  uint32_t state = 1;  // data that a file system cannot compress
  for (char& c : piece) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  std::optional<double> speed;
  const bool written =
      each_piece(bytes, piece, [fd](char* data, size_t size, int64_t at) { return pwrite(fd, data, size, at); });
  if (written && fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0) {
    const int64_t begin = now_ns();
    if (each_piece(bytes, piece, [fd](char* data, size_t size, int64_t at) { return pread(fd, data, size, at); })) {
      speed = static_cast<double>(bytes) / (static_cast<double>(now_ns() - begin) * 1e-9);
    }
  }
  close(fd);
  return speed;
}

Load sample_under_load(Source& source, double seconds, VerifyOptions options) {
  constexpr auto kStep = std::chrono::milliseconds(250);
  options.load_seconds = seconds;
  Load out;
  std::future<Verifications> work = std::async(std::launch::async, [&options] { return verify_gpus(options); });
  if (work.wait_for(std::chrono::seconds(1)) == std::future_status::timeout) {
    do {
      out.samples.push_back(source.nvml());
    } while (work.wait_for(kStep) == std::future_status::timeout);
  }
  out.verified = work.get();
  return out;
}

}  // namespace sparkpilot
