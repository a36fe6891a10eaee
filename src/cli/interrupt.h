// Ctrl-C, hang-up and termination leave no incomplete files.
#pragma once

#include <atomic>

namespace sparkpilot::cli {

// To be called before any other thread starts. From then on SIGINT, SIGTERM and SIGHUP first remove temporary files,
// then end the program as usual; and reaching the limit on a file's size makes the write fail.
void clean_up_when_interrupted();

// While one exists, the first such signal only sets requested(), so that the work can be finished in order; the next
// ends the program as above. One at a time. `say`: print a line on stderr at the first signal.
class StopOnInterrupt {
 public:
  explicit StopOnInterrupt(bool say = true);
  ~StopOnInterrupt();
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  const std::atomic<bool>& requested() const;
};

// The exit code of work that a signal stopped.
inline constexpr int kInterrupted = 130;

}  // namespace sparkpilot::cli
