#include "python/held_session.h"

#include <algorithm>
#include <utility>

namespace sparkpilot::python {

std::set<std::string> HeldSession::without_shapes(const Graph& graph) {
  std::set<std::string> names;
  const auto look = [&](const std::string& name, const Value& value) {
    if (!value.declared && !value.shape) names.insert(name);
  };
  for (const ValueId id : graph.inputs()) look(graph.value(id).name, graph.value(id));
  for (const Graph::Output& output : graph.outputs()) look(output.name, graph.value(output.value));
  return names;
}

py::object HeldSession::keeper(int* count) {
  struct Kept {
    std::shared_ptr<HeldSession> session;
    int* count;
  };
  ++*count;
  return py::capsule(new Kept{shared_from_this(), count}, [](void* pointer) {
    const std::unique_ptr<Kept> kept(static_cast<Kept*>(pointer));
    --*kept->count;  // by a thread that has the interpreter's lock, as every change
  });
}

size_t HeldSession::index_of_input(const std::string& name) {
  const auto& all = session_.inputs();
  const auto found = std::ranges::find(all, name, &TensorInfo::name);
  if (found == all.end()) session_.set_shape(name, {});  // which fails and says what inputs there are
  return static_cast<size_t>(found - all.begin());
}

py::array HeldSession::input(const std::string& name) {
  const Use use(*this);
  const View view = session_.input(name);
  return array_on(view, keeper(&held_inputs_[index_of_input(name)]), fmt::format("input \"{}\"", name));
}

py::array HeldSession::input_bits(const std::string& name) {
  const Use use(*this);
  return bits_on(session_.input(name), keeper(&held_inputs_[index_of_input(name)]));
}

bool HeldSession::memory_moves() {
  if (!moves_) {
    const Graph& graph = *session_.compiled_graph();
    moves_ = std::ranges::any_of(graph.order(), [&](NodeId node) {
      return std::ranges::any_of(graph.node(node).outputs,
                                 [&](ValueId id) { return id.present() && !graph.value(id).shape; });
    });
  }
  return *moves_;
}

py::array HeldSession::output(const std::string& name) {
  const Use use(*this);
  const ConstView view = session_.output(name);
  const std::string what = fmt::format("output \"{}\"", name);
  if (!memory_moves()) return array_on(view, keeper(&held_outputs_), what);
  return array_on(view, py::none(), what).attr("copy")();
}

py::array HeldSession::output_bits(const std::string& name) {
  const Use use(*this);
  const ConstView view = session_.output(name);
  return memory_moves() ? bits_on(view, py::none()).attr("copy")() : bits_on(view, keeper(&held_outputs_));
}

py::array HeldSession::state(const std::string& name) {
  const Use use(*this);
  return array_on(session_.state(name), keeper(&held_states_), fmt::format("state \"{}\"", name));
}

void HeldSession::take_shape(const std::string& name, const Shape& shape) {
  const size_t i = index_of_input(name);
  const std::optional<Shape>& now = session_.inputs()[i].shape;
  if (now && *now == shape) return;
  if (held_inputs_[i] > 0 || held_outputs_ > 0) {
    fail("input \"{}\" cannot become {} while there are arrays on the session's memory ({}): copy or delete them first",
         name, shape.str(), held_inputs_[i] > 0 ? "of this input" : "of outputs");
  }
  session_.set_shape(name, shape);
  moves_.reset();
}

void HeldSession::set_shape(const std::string& name, const Shape& shape) {
  const Use use(*this);
  take_shape(name, shape);
}

void HeldSession::compile() {
  const Use use(*this);
  const WithoutLock without_lock;
  session_.compile();
}

void HeldSession::run() {
  const Use use(*this);
  const WithoutLock without_lock;
  session_.run();
}

void HeldSession::reset_states() {
  const Use use(*this);
  session_.reset_states();
}

void HeldSession::set_input(const std::string& name, const py::object& value) {
  const DType wanted = session_.inputs()[index_of_input(name)].dtype;
  const py::array array = array_given(value, fmt::format("input \"{}\"", name), wanted);
  const ConstView view = view_of(array);
  take_shape(name, view.shape);
  session_.set_input(name, view);
}

py::dict HeldSession::call(const py::dict& arrays) {
  const Use use(*this);
  for (const auto& [name, value] : arrays) {
    if (!py::isinstance<py::str>(name)) fail("expected names of inputs as keys, got {}", std::string(py::repr(name)));
    index_of_input(name.cast<std::string>());
  }
  for (const TensorInfo& input : session_.inputs()) {
    if (!arrays.contains(input.name))
      fail("input \"{}\" is missing: a call takes every input of the model", input.name);
  }
  for (const auto& [name, value] : arrays) {
    set_input(name.cast<std::string>(), py::reinterpret_borrow<py::object>(value));
  }
  {
    const WithoutLock without_lock;
    session_.run();
  }
  py::dict out;
  for (const TensorInfo& output : session_.outputs()) out[py::str(output.name)] = copy_of(session_.output(output.name));
  return out;
}

py::dict HeldSession::values() {
  const Use use(*this);
  py::dict out;
  session_.visit_values([&](const RunValue& value) {
    py::object array = copy_of(value.view);
    if (value.channels_last) array = py::module_::import("numpy").attr("moveaxis")(array, -1, 1);
    if (!value.name.empty()) out[py::str(std::string(value.name))] = array;
  });
  return out;
}

py::list HeldSession::profile() {
  const Use use(*this);
  py::list out;
  for (const NodeProfile& node : session_.profile().nodes) {
    py::dict one;
    one["name"] = node.name;
    one["op"] = node.op;
    one["kernel"] = node.kernel;
    one["shape"] = node.shape;
    one["calls"] = node.calls;
    one["total_ns"] = node.total_ns;
    one["flops"] = node.flops;
    one["bytes"] = node.bytes;
    out.append(one);
  }
  return out;
}

}  // namespace sparkpilot::python
