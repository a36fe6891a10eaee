// Ctrl-C, hang-up and termination leave nothing half-written behind.
#pragma once

#include <atomic>

namespace sparkpilot::cli {

// To be called before any other thread starts. From then on SIGINT, SIGTERM and SIGHUP first remove the files that are
// being written aside, then end the program as they would have; and a file that reaches the limit on its size is a
// write that fails.
void clean_up_when_interrupted();

// While one exists, the first such signal only sets requested(), so that the work can be brought to an end; the next
// ends the program as above. One at a time. `say`: a line on stderr tells of it.
class StopOnInterrupt {
 public:
  explicit StopOnInterrupt(bool say = true);
  ~StopOnInterrupt();
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  const std::atomic<bool>& requested() const;
};

// The exit code of work that was brought to an end by a signal.
inline constexpr int kInterrupted = 130;

}  // namespace sparkpilot::cli
