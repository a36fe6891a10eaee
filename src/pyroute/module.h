// The Python module sparkpilot._route: route logs and frames for Python. What users see of it is in python/sparkpilot.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>

#include "base/error.h"
#include "python/pybind.h"

namespace sparkpilot::pyroute {

namespace py = pybind11;

// A reader is used by one call at a time, as it lets other threads of Python go on. While one of these lives, making
// another on the same flag fails (user).
class Use {
 public:
  explicit Use(std::atomic<bool>& used) : used_(used) {
    if (used_.exchange(true)) fail("the reader is in use by another call: each thread needs its own");
  }
  ~Use() { used_ = false; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<bool>& used_;
};

void bind_values(py::module_& module);
void bind_logs(py::module_& module);
void bind_frames(py::module_& module);

}  // namespace sparkpilot::pyroute
