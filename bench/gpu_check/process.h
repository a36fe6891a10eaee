// The processes of a call: one that waits, and one that computes, whose place another takes if it is ended by a fault.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "results.h"

namespace sparkpilot::gpu_check {

inline constexpr int kUnfinished = 4;  // exit code: the time was over
inline constexpr int kGoOn = 5;        // of the process that computes: another one is to go on

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Prints a line, which leaves the process at once.
void say(const std::string& line);

// Signals that end a program come to supervise() and to Watch from now on. Before any other thread exists.
void block_signals();

// Runs work(goes_on) in a process of its own and returns its exit code; where that process is ended by a signal or asks
// for it (kGoOn), again, with `goes_on`, unless `file` is as it was when it began. Signals that end a program are
// passed on; block_signals() comes first. A process that does not end by `until` (of now_ns()) is ended.
int supervise(const std::filesystem::path& file, int64_t until, const std::function<int(bool goes_on)>& work);

// In the process that computes, behind block_signals(): ends it in order at a signal (exit code 128 + its number), at
// `until` (kUnfinished) and where an item takes longer than `item_ns` (kGoOn), wherever it is then. What comes after it
// was destroyed, such as the driver's own end, belongs to no item and is not ended by it.
class Watch {
 public:
  Watch(int64_t until, int64_t item_ns);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  // For a signal and for `until`, they are stopped first (Results::stop). They outlive this object.
  void keep(Results& results);
  void begin_item();

 private:
  struct State {  // its thread's, too
    int64_t until, item_ns;
    std::mutex mutex;  // held while the process is ended
    int64_t item_until;
    Results* results = nullptr;
    bool over = false;
  };
  static void wait(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

}  // namespace sparkpilot::gpu_check
