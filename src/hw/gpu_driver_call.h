// Calls into a driver's library that may never return.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hw/gpu_driver.h"

namespace sparkpilot {

// The call being made, for the waiting thread. Shared by both threads, as the waiting one may leave first.
class Watch {
 public:
  // Before each call into the library.
  void calling(std::string_view name);
  // The work is done.
  void finish(GpuDriverAnswers answers);
  bool finished();
  // Waits until finish(), or until one call has taken longer than `wait_seconds`: then its name is in `reason`.
  GpuDriverAnswers wait(double wait_seconds);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string call_;
  int64_t since_ns_ = 0;
  bool finished_ = false;
  GpuDriverAnswers answers_;
};

// A library that the loader found.
class Library {
 public:
  // The first of `names` that exists; loading is a call that can hang too.
  Library(const std::vector<std::string>& names, Watch& watch);
  bool loaded() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }  // empty if no name was found at all

  // The first of the symbols, newest first, that the library has; null if it has none. `used` is its name.
  template <typename Function, size_t N>
  Function find(const std::array<const char*, N>& symbols, std::string_view* used = nullptr) const {
    for (const char* symbol : symbols) {
      void* const address = symbol ? lookup(symbol) : nullptr;
      if (!address) continue;
      if (used) *used = symbol;
      return reinterpret_cast<Function>(address);
    }
    return nullptr;
  }

 private:
  void* lookup(const char* symbol) const;
  void* handle_ = nullptr;
  std::string path_, problem_;
};

// Runs `ask` in a separate thread and waits for it. A library (identified by its first name) that once did not answer
// is not asked again by this process: the thread inside it never ends, and holds its locks.
GpuDriverAnswers ask_bounded(const std::vector<std::string>& libraries, double wait_seconds,
                             const std::function<GpuDriverAnswers(const Library&, Watch&)>& ask);

// Any text from a library's buffer.
std::string text_of(const char* buffer, size_t size);

}  // namespace sparkpilot
