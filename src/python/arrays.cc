#include "python/arrays.h"

#include <array>
#include <cstring>

namespace sparkpilot::python {
namespace {

// In a handler: what is no error of the value goes on, such as Ctrl-C.
void let_pass(const py::error_already_set& error) {
  if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
}

struct Pair {
  DType ours;
  const char* theirs;
};
constexpr std::array kPairs = {Pair{DType::f32, "f4"}, Pair{DType::f64, "f8"}, Pair{DType::f16, "f2"},
                               Pair{DType::i8, "i1"},  Pair{DType::i16, "i2"}, Pair{DType::i32, "i4"},
                               Pair{DType::i64, "i8"}, Pair{DType::u8, "u1"},  Pair{DType::u16, "u2"},
                               Pair{DType::u32, "u4"}, Pair{DType::u64, "u8"}, Pair{DType::boolean, "?"}};

std::string text_of(const py::handle& value) { return py::str(value); }
std::string type_name(const py::handle& value) { return py::str(py::type::of(value).attr("__name__")); }

// The type of an array; empty if it has none here: another order of bytes, text, objects, dates.
std::optional<DType> our_type(const py::dtype& type) {
  for (const Pair& pair : kPairs) {
    if (py::dtype(pair.theirs).equal(type)) return pair.ours;
  }
  return {};
}

std::vector<py::ssize_t> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

// In bytes. They are always given: pybind11 before 2.12 would read the size of an element where NumPy 2 no longer has
// it.
std::vector<py::ssize_t> strides_of(const Shape& shape, int element_bytes) {
  const auto elements = shape.strides();
  std::vector<py::ssize_t> out;
  for (int axis = 0; axis < shape.rank(); ++axis) out.push_back(elements[static_cast<size_t>(axis)] * element_bytes);
  return out;
}

py::array array_with(const py::dtype& type, int element_bytes, const Shape& shape, const void* data,
                     const py::object& owner) {
  if (shape.elements() == 0) return {type, sizes_of(shape), strides_of(shape, element_bytes)};
  return {type, sizes_of(shape), strides_of(shape, element_bytes), data, owner};
}

// Elements as unsigned integers of their size, or as bytes if several share one.
py::dtype bits_type(DType dtype) { return py::dtype(bits(dtype) == 16 ? "u2" : "u1"); }
int bits_bytes(DType dtype) { return bits(dtype) == 16 ? 2 : 1; }
Shape bits_shape(const ConstView& view) { return bits(view.dtype) < 8 ? Shape{view.bytes()} : view.shape; }

}  // namespace

std::optional<py::dtype> numpy_type(DType dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.ours == dtype) return py::dtype(pair.theirs);
  }
  return {};
}

py::object type_shown(DType dtype) {
  if (dtype == DType::none) return py::none();
  if (const auto type = numpy_type(dtype)) return *type;
  const std::string_view own = name(dtype);
  // To NumPy "u4" has 32 bits.
  if (bits(dtype) < 8 && (own[0] == 'i' || own[0] == 'u')) {
    return py::str(fmt::format("{}int{}", own[0] == 'u' ? "u" : "", own.substr(1)));
  }
  return py::str(std::string(own));
}

DType type_asked(const py::object& type) {
  if (type.is_none()) fail("expected an element type such as numpy.float32 or \"bf16\", got None");
  if (py::isinstance<py::str>(type)) {
    const auto asked = type.cast<std::string>();
    for (const char* const code : {"i2", "i4", "i8", "u2", "u4", "u8"}) {
      if (asked == code) {
        const char* const word = code[0] == 'u' ? "uint" : "int";
        fail("\"{}\" is {} bytes to NumPy and {} bits elsewhere: write \"{}{}\" or \"{}{}\"", code, code[1], code[1],
             word, (code[1] - '0') * 8, word, code[1]);
      }
    }
    if (const auto known = parse_dtype(type.cast<std::string>())) return *known;
  }
  try {
    if (const auto known = our_type(py::dtype::from_args(type))) return *known;
  } catch (const py::error_already_set& error) {
    let_pass(error);
  }
  fail("expected an element type such as numpy.float32 or \"bf16\", got {}", text_of(py::repr(type)));
}

py::array array_on(const ConstView& view, const py::object& owner, std::string_view what) {
  const auto type = numpy_type(view.dtype);
  if (!type) fail("{} is {}, for which NumPy has no type: bits() gives its bits", what, name(view.dtype));
  return array_with(*type, bits(view.dtype) / 8, view.shape, view.data, owner);
}

py::array bits_on(const ConstView& view, const py::object& owner) {
  if (const auto type = numpy_type(view.dtype)) {
    const int bytes = bits(view.dtype) / 8;
    return array_with(py::dtype(fmt::format("u{}", bytes)), bytes, view.shape, view.data, owner);
  }
  return array_with(bits_type(view.dtype), bits_bytes(view.dtype), bits_shape(view), view.data, owner);
}

py::array copy_of(const ConstView& view) {
  const auto type = numpy_type(view.dtype);
  const Shape shape = type ? view.shape : bits_shape(view);
  const int bytes = type ? bits(view.dtype) / 8 : bits_bytes(view.dtype);
  py::array out(type ? *type : bits_type(view.dtype), sizes_of(shape), strides_of(shape, bytes));
  if (view.bytes() > 0) std::memcpy(out.mutable_data(), view.data, static_cast<size_t>(view.bytes()));
  return out;
}

py::array array_given(const py::object& value, std::string_view what, std::optional<DType> wanted) {
  py::object given = value;
  if (!py::isinstance<py::array>(value)) {
    if (!py::hasattr(value, "__dlpack__")) {
      fail("{}: expected a NumPy array or a tensor with __dlpack__, got {}", what, type_name(value));
    }
    try {
      given = to_python([&]() -> py::object { return py::module_::import("numpy").attr("from_dlpack")(value); });
    } catch (const py::error_already_set& error) {
      let_pass(error);
      fail("{}: NumPy cannot take this {} by DLPack, which it can from the processor's memory: {}", what,
           type_name(value), text_of(error.value()));
    }
  }
  const auto array = given.cast<py::array>();
  if (wanted && our_type(array.dtype()) != *wanted) {
    const auto type = numpy_type(*wanted);
    if (!type) fail("{} is {}, for which NumPy has no type: write its bits into inputs.bits()", what, name(*wanted));
    fail("{}: expected {}, got {} of shape {}", what, text_of(*type), text_of(array.dtype()),
         text_of(array.attr("shape")));
  }
  if ((array.flags() & py::array::c_style) != 0) return array;
  return py::module_::import("numpy").attr("ascontiguousarray")(array).attr("reshape")(array.attr("shape"));
}

ConstView view_of(const py::array& array) {
  const auto type = our_type(array.dtype());
  if (!type) fail("expected an array of numbers in this machine's order of bytes, got {}", text_of(array.dtype()));
  if (array.ndim() > Shape::kMaxRank) {
    fail("expected at most {} dimensions, got {}", Shape::kMaxRank, array.ndim());
  }
  const std::vector<int64_t> sizes(array.shape(), array.shape() + array.ndim());
  return {*type, Shape(std::span<const int64_t>(sizes)), array.data()};
}

Tensor tensor_given(const py::object& value, std::string_view what) {
  py::object given = value;
  if (!py::isinstance<py::array>(value) && !py::hasattr(value, "__dlpack__")) {
    given = py::module_::import("numpy").attr("asarray")(value);
    if (py::object(given.attr("dtype")).equal(py::dtype("f8")) && !py::hasattr(value, "dtype")) {
      given = given.attr("astype")(py::dtype("f4"));
    }
  }
  const py::array array = array_given(given, what, {});
  const ConstView view = view_of(array);
  Tensor out(view.dtype, view.shape);
  if (view.elements() > 0) std::memcpy(out.raw(), view.data, static_cast<size_t>(view.bytes()));
  return out;
}

Shape shape_given(const py::object& value, std::string_view what) {
  std::vector<int64_t> sizes;
  try {
    for (const py::handle size : value) sizes.push_back(size.cast<int64_t>());
  } catch (const py::error_already_set& error) {
    let_pass(error);
    fail("{}: expected a shape such as (1, 3), got {}", what, text_of(py::repr(value)));
  } catch (const std::exception&) {  // no sequence, or not of integers
    fail("{}: expected a shape such as (1, 3), got {}", what, text_of(py::repr(value)));
  }
  return Shape(std::span<const int64_t>(sizes));
}

py::tuple tuple_of(const Shape& shape) {
  py::tuple out(static_cast<size_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) out[static_cast<size_t>(axis)] = shape[axis];
  return out;
}

py::tuple tuple_of(const std::vector<Dim>& dims) {
  py::tuple out(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].size >= 0) out[i] = dims[i].size;
    else if (dims[i].symbol.empty()) out[i] = py::none();
    else out[i] = dims[i].symbol;
  }
  return out;
}

}  // namespace sparkpilot::python
