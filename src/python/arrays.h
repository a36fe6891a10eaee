// sparkpilot's tensors as NumPy's arrays and back.
#pragma once

#include <pybind11/numpy.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/module.h"
#include "sparkpilot/session.h"
#include "sparkpilot/tensor.h"

namespace sparkpilot::python {

// NumPy's type; empty if it has none: bf16, and everything of fewer than 16 bits that is no integer of 8.
std::optional<py::dtype> numpy_type(DType dtype);
// What Python is shown of an element type: NumPy's, the project's name where it has none ("bf16"), None for `none`.
py::object type_shown(DType dtype);
// From numpy.float32, "float32", "f32" or a type that is shown; fails (user) if it is another.
DType type_asked(const py::object& type);

// An array on that memory, which `owner` keeps; nothing is copied. `what` names it in messages: `input "x"`. Fails
// (user) if NumPy has no such type.
py::array array_on(const ConstView& view, const py::object& owner, std::string_view what);
// The same memory as unsigned integers: of 8 or 16 bits in its own shape, or of its bytes if elements share one.
py::array bits_on(const ConstView& view, const py::object& owner);
// A copy with its own memory; of a type that NumPy does not have, its bits.
py::array copy_of(const ConstView& view);

// A NumPy array, or anything in the processor's memory that has __dlpack__, without gaps and with its own shape: copied
// only if it has gaps. Fails (user) if it is something else, or (if `wanted` is given) has another type.
py::array array_given(const py::object& value, std::string_view what, std::optional<DType> wanted);
ConstView view_of(const py::array& array);
// A copy as a tensor. Python's numbers and lists are what NumPy makes of them, floats of 32 bits.
Tensor tensor_given(const py::object& value, std::string_view what);

// A tuple of non-negative integers, such as (1, 3). Fails (user) naming `what`.
Shape shape_given(const py::object& value, std::string_view what);
py::tuple tuple_of(const Shape& shape);
// Sizes, names of open dimensions, None for those without a name.
py::tuple tuple_of(const std::vector<Dim>& dims);

}  // namespace sparkpilot::python
