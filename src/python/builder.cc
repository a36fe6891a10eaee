// Graphs built from Python. Values are numbers here; the class Value is written in Python.
#include <pybind11/stl.h>

#include <span>

#include "python/arrays.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::python {
namespace {

struct HeldBuilder {
  HeldBuilder(const std::string& prefix, int opset) : builder(graph, prefix, opset) {}
  HeldBuilder(const HeldBuilder&) = delete;
  HeldBuilder& operator=(const HeldBuilder&) = delete;
  Graph graph;
  Builder builder;
};

// Of a list: texts, or numbers, which are all integers or else floats.
Attribute list_attribute(const py::sequence& items, const std::string& key) {
  bool texts = true, integers = true;
  for (const py::handle item : items) {
    texts &= py::isinstance<py::str>(item);
    integers &= PyIndex_Check(item.ptr()) != 0;
  }
  try {
    if (integers) return items.cast<std::vector<int64_t>>();
    if (texts) return items.cast<std::vector<std::string>>();
    return items.cast<std::vector<float>>();
  } catch (const py::cast_error&) {
    fail("attribute {}: expected integers, floats or texts, got {}", key, std::string(py::repr(items)));
  }
}

Attribute attribute_of(const py::object& value, const std::string& key) {
  if (py::isinstance<Model>(value)) return std::make_shared<const Graph>(value.cast<const Model&>().graph);
  if (py::isinstance<py::array>(value)) return tensor_given(value, fmt::format("attribute {}", key));
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) return list_attribute(value, key);
  try {
    if (PyIndex_Check(value.ptr()) != 0) return value.cast<int64_t>();
    return value.cast<float>();
  } catch (const py::cast_error&) {
    fail("attribute {}: expected an integer, a float, a text, a list of them, an array or a Model, got {}", key,
         std::string(py::repr(value)));
  }
}

std::vector<int32_t> add(HeldBuilder& b, const std::string& op, const std::vector<int32_t>& inputs, int outputs,
                         const std::string& name, const py::dict& attributes) {
  std::vector<ValueId> ids;
  for (const int32_t input : inputs) ids.push_back({input});
  Attributes attrs;
  for (const auto& [key, value] : attributes) {
    const std::string text = py::str(key);
    if (!value.is_none()) attrs.set(text, attribute_of(py::reinterpret_borrow<py::object>(value), text));
  }
  std::vector<int32_t> made;
  for (const ValueId id : b.builder.add_many(op, ids, attrs, outputs, name)) made.push_back(id.index);
  return made;
}

int32_t input(HeldBuilder& b, const std::string& name, const py::object& type, const py::sequence& shape) {
  std::vector<Dim> dims;
  for (const py::handle dim : shape) {
    if (dim.is_none()) {
      dims.push_back({});
    } else if (py::isinstance<py::str>(dim)) {
      dims.push_back({-1, dim.cast<std::string>()});
    } else {
      dims.push_back({shape_given(py::make_tuple(dim), fmt::format("input \"{}\"", name))[0], {}});
    }
  }
  bool open = false;
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) {
    open |= dim.size < 0;
    sizes.push_back(dim.size);
  }
  const DType dtype = type_asked(type);
  if (open) return b.builder.open_input(name, dtype, dims).index;
  return b.builder.input(name, dtype, Shape(std::span<const int64_t>(sizes))).index;
}

// `type`: None for the array's own.
int32_t constant(HeldBuilder& b, const py::object& value, const std::string& name, const py::object& type) {
  Tensor tensor = tensor_given(value, "the constant");
  if (!type.is_none()) tensor = convert(tensor, type_asked(type));
  return b.builder.constant(std::move(tensor), name).index;
}

// The element type and the shape of a value; None each where it is not known yet.
py::tuple type_of(const HeldBuilder& b, int32_t id) {
  const DType dtype = b.builder.dtype({id});
  const Value& value = b.graph.value({id});
  return py::make_tuple(type_shown(dtype), value.shape ? py::object(tuple_of(*value.shape)) : py::none());
}

}  // namespace

void bind_builder(py::module_& module) {
  py::class_<HeldBuilder>(module, "Builder")
      .def(py::init<const std::string&, int>(), py::arg("prefix"), py::arg("opset"))
      .def("_input", &input)
      .def("_constant", &constant)
      .def("_scalar", [](HeldBuilder& b, const py::object& type,
                         double value) { return b.builder.scalar(type_asked(type), value).index; })
      .def("_state",
           [](HeldBuilder& b, const py::object& initial, const std::string& name) {
             return b.builder.state(tensor_given(initial, "the state"), name).index;
           })
      .def("_add", &add)
      .def("_next", [](HeldBuilder& b, int32_t state, int32_t value) { b.builder.next({state}, {value}); })
      .def("_output", [](HeldBuilder& b, int32_t value, const std::string& name) { b.builder.output({value}, name); })
      .def("_type", &type_of)
      .def("_model",
           [](const HeldBuilder& b, const std::string& name, const std::map<std::string, std::string>& metadata) {
             auto model = std::make_shared<Model>(Model{b.graph});
             model->graph.name = name;
             model->graph.metadata = metadata;
             return model;
           });
}

}  // namespace sparkpilot::python
