#include "pyroute/module.h"

#include <exception>

namespace sparkpilot::pyroute {
namespace {

// An Error becomes the exception of sparkpilot._core that it becomes there.
void bind_errors() {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      const char* const name = error.kind() == ErrorKind::user       ? "InputError"
                               : error.kind() == ErrorKind::internal ? "InternalError"
                                                                     : "DeviceError";
      PyErr_SetString(py::module_::import("sparkpilot._core").attr(name).ptr(), error.what());
    }
  });
}

}  // namespace
}  // namespace sparkpilot::pyroute

PYBIND11_MODULE(_route, module) {
  using namespace sparkpilot::pyroute;  // NOLINT(google-build-using-namespace): the macro makes a separate function
  sparkpilot::python::look_numpy_up();
  bind_errors();
  bind_values(module);
  bind_logs(module);
  bind_frames(module);
}
