#include "python/module.h"

#include <exception>

namespace sparkpilot::python {
namespace {

// The exceptions that an Error becomes. Kept to the end of the process, as Python may still need them when the module
// is taken down.
struct Exceptions {
  py::object error, input, internal, device;
};
Exceptions& exceptions() {
  static auto* const made = new Exceptions;
  return *made;
}

py::object exception(const char* name, const py::object& bases, const char* doc) {
  PyObject* const made =
      PyErr_NewExceptionWithDoc(fmt::format("sparkpilot.{}", name).c_str(), doc, bases.ptr(), nullptr);
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

void bind_errors(py::module_& module) {
  Exceptions& made = exceptions();
  const py::handle value(PyExc_ValueError), runtime(PyExc_RuntimeError);
  made.error = exception("Error", py::reinterpret_borrow<py::object>(PyExc_Exception),
                         "What sparkpilot could not do, in one line: what was expected and what came.");
  made.input = exception("InputError", py::make_tuple(made.error, value),
                         "The input or its use is wrong: a file, an option, an array. It is a ValueError too.");
  made.internal =
      exception("InternalError", py::make_tuple(made.error, runtime), "A bug in sparkpilot. It is a RuntimeError too.");
  made.device = exception("DeviceError", py::make_tuple(made.error, runtime),
                          "The GPU or its driver failed. It is a RuntimeError too.");
  module.attr("Error") = made.error;
  module.attr("InputError") = made.input;
  module.attr("InternalError") = made.internal;
  module.attr("DeviceError") = made.device;
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      const Exceptions& all = exceptions();
      const py::object& kind = error.kind() == ErrorKind::user       ? all.input
                               : error.kind() == ErrorKind::internal ? all.internal
                                                                     : all.device;
      PyErr_SetString(kind.ptr(), error.what());
    }
  });
}

}  // namespace
}  // namespace sparkpilot::python

PYBIND11_MODULE(_core, module) {
  using namespace sparkpilot::python;  // NOLINT(google-build-using-namespace): the macro makes a separate function
  module.attr("__version__") = SPARKPILOT_VERSION;
  look_numpy_up();
  bind_errors(module);
  bind_model(module);
  bind_session(module);
  bind_builder(module);
  bind_machine(module);
}
