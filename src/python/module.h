// The Python module sparkpilot._core: sparkpilot's public headers for Python, and nothing else of sparkpilot. What
// users see of it is in python/sparkpilot; what is written there in Python is not written here.
#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "python/pybind.h"
#include "sparkpilot/error.h"
#include "sparkpilot/graph.h"

namespace sparkpilot::python {

namespace py = pybind11;

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::user, fmt::format(format, std::forward<Args>(args)...));
}

// A graph as Python holds it. Nobody writes to it.
struct Model {
  Graph graph;
};

void bind_model(py::module_& module);
void bind_session(py::module_& module);
void bind_builder(py::module_& module);
void bind_machine(py::module_& module);

}  // namespace sparkpilot::python
