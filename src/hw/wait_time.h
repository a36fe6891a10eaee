// How long this process's threads waited for a processor, as the system counts it.
#pragma once

#include <optional>
#include <vector>

namespace sparkpilot {

// Of the threads that exist when the object is made. One thread uses an object at a time.
class WaitTime {
 public:
  WaitTime();
  ~WaitTime();
  WaitTime(const WaitTime&) = delete;
  WaitTime& operator=(const WaitTime&) = delete;

  // The sum over the threads of the time in ms in which they were ready to run and another process, or another thread,
  // ran instead. It only grows. Empty if the system does not count it. Takes about a microsecond for each thread.
  std::optional<double> ms() const;

 private:
  std::vector<int> files_;  // /proc/self/task/N/schedstat
};

}  // namespace sparkpilot
