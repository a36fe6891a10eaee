// The processes of a call: one that waits, and one that computes, whose place another takes if it is ended by a fault.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>

#include "results.h"

namespace sparkpilot::gpu_check {

inline constexpr int kUnfinished = 4;  // exit code: the time was over
inline constexpr int kGoOn = 5;        // of the process that computes: another one is to go on

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Signals that end a program come to supervise() and to Watch from now on. Before any other thread exists.
void block_signals();

// Runs work(goes_on) in a process of its own and returns its exit code; where that process is ended by a signal or asks
// for it (kGoOn), again, with `goes_on`, unless `file` is as it was when it began. Signals that end a program are
// passed on; block_signals() comes first. A process that does not end by `until` (of now_ns()) is ended.
int supervise(const std::filesystem::path& file, int64_t until, const std::function<int(bool goes_on)>& work);

// In the process that computes, behind block_signals(): ends it in order at a signal (exit code 128 + its number), at
// `until` (kUnfinished) and where an item takes longer than `item_ns` (kGoOn), wherever it is then.
class Watch {
 public:
  Watch(int64_t until, int64_t item_ns);
  // For a signal and for `until`, they are stopped first (Results::stop).
  void keep(Results& results) { results_ = &results; }
  void begin_item();

 private:
  void wait();
  const int64_t until_, item_ns_;
  std::atomic<int64_t> item_until_;
  std::atomic<Results*> results_ = nullptr;
};

}  // namespace sparkpilot::gpu_check
