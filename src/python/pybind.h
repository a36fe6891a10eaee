// What both Python modules do otherwise than pybind11.
#pragma once

#include <cxxabi.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace sparkpilot::python {

// What `work` returns, which may run Python's code. Where the interpreter has ended meanwhile (in a thread with
// daemon=True), CPython before 3.14 unwinds the thread, which in the frames of C++ ends the process by a signal. Here
// the thread waits for the process's end, as it does from 3.14 on.
template <typename Work>
auto to_python(const Work& work) {
  try {
    return work();
  } catch (const abi::__forced_unwind&) {
    while (true) pause();
  }
}

// While one lives, other threads of Python go on. pybind11's gil_scoped_release does the same, but for the above.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() {
    to_python([&] { PyEval_RestoreThread(state_); });
  }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

// To be called as a module is loaded. pybind11 before 2.13 looks NumPy up in the initialisation of a static, during
// which Python may run another thread: two threads that meet there would wait for each other for ever.
inline void look_numpy_up() { pybind11::detail::npy_api::get(); }

// A class whose objects this module alone makes: calling it, or __new__, raises TypeError, where pybind11 would make an
// object of no value.
template <typename Class>
void made_here_alone(Class& of) {
  reinterpret_cast<PyTypeObject*>(of.ptr())->tp_new = [](PyTypeObject* type, PyObject*, PyObject*) -> PyObject* {
    PyErr_Format(PyExc_TypeError, "%s cannot be made by calling it", type->tp_name);
    return nullptr;
  };
}

}  // namespace sparkpilot::python
