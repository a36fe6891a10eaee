// Models: ONNX files in and out, and what they declare.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <span>

#include "python/arrays.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::python {
namespace {

py::tuple info_of(const std::string& name, const Value& value) {
  return py::make_tuple(name, type_shown(value.dtype),
                        value.declared ? py::object(tuple_of(*value.declared))
                        : value.shape  ? py::object(tuple_of(*value.shape))
                                       : py::none());
}

py::list inputs_of(const Model& model) {
  py::list out;
  for (const ValueId id : model.graph.inputs()) out.append(info_of(model.graph.value(id).name, model.graph.value(id)));
  return out;
}

py::list outputs_of(const Model& model) {
  py::list out;
  for (const Graph::Output& o : model.graph.outputs()) out.append(info_of(o.name, model.graph.value(o.value)));
  return out;
}

py::dict slices_of(const Model& model) {
  py::dict out;
  for (const auto& [name, part] : output_slices(model.graph)) {
    const py::object start = py::cast(part.start), stop = py::cast(part.stop), step = py::cast(part.step);
    out[py::str(name)] = py::reinterpret_steal<py::object>(PySlice_New(start.ptr(), stop.ptr(), step.ptr()));
  }
  return out;
}

}  // namespace

void bind_model(py::module_& module) {
  py::class_<Model, std::shared_ptr<Model>> model(module, "Model");
  made_here_alone(model);
  model.def_property_readonly("_inputs", &inputs_of)
      .def_property_readonly("_outputs", &outputs_of)
      .def_property_readonly("output_slices", &slices_of)
      .def_property_readonly("metadata", [](const Model& m) { return m.graph.metadata; })
      .def_property_readonly("opsets", [](const Model& m) { return m.graph.opsets; })
      .def_property_readonly("name", [](const Model& m) { return m.graph.name; })
      .def_property_readonly("producer", [](const Model& m) { return m.graph.producer; })
      .def_property_readonly("states",
                             [](const Model& m) {
                               std::vector<std::string> names;
                               for (const State& s : m.graph.states()) names.push_back(m.graph.value(s.value).name);
                               return names;
                             })
      .def_property_readonly("node_count", [](const Model& m) { return m.graph.order().size(); })
      .def(
          "save",
          [](const Model& m, const std::filesystem::path& path, int opset, bool external_data) {
            return save_onnx(m.graph, path, {.opset = opset, .external_data = external_data});
          },
          py::arg("path"), py::kw_only(), py::arg("opset") = 0, py::arg("external_data") = false,
          py::call_guard<WithoutLock>());
  module.def(
      "load", [](const std::filesystem::path& path) { return std::make_shared<Model>(Model{load_onnx(path)}); },
      py::arg("path"), py::call_guard<WithoutLock>());
  module.def(
      "parse",
      [](const py::bytes& bytes, const std::string& name) {
        const auto text = bytes.cast<std::string_view>();
        const WithoutLock without_lock;
        return std::make_shared<Model>(Model{parse_onnx(std::as_bytes(std::span(text.data(), text.size())), name)});
      },
      py::arg("data"), py::arg("name") = "the model");
}

}  // namespace sparkpilot::python
