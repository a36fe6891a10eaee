// Sessions for Python, and their options as keyword arguments.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <array>

#include "python/held_session.h"

namespace sparkpilot::python {
namespace {

// Keyword arguments, each taken once. None is the default.
class Keywords {
 public:
  explicit Keywords(const py::dict& given) : given_(given) {}

  py::object take(const char* name) {
    if (!given_.contains(name)) return py::none();
    return given_.attr("pop")(name);
  }
  template <typename T>
  void take(const char* name, T& to, const char* expected) {
    const py::object value = take(name);
    if (value.is_none()) return;
    try {
      to = value.cast<T>();
    } catch (const py::cast_error&) {
      throw py::type_error(fmt::format("{}: expected {}, got {}", name, expected, std::string(py::repr(value))));
    }
  }
  template <typename T, size_t count>
  void choose(const char* name, T& to, const std::array<std::pair<const char*, T>, count>& choices) {
    const py::object value = take(name);
    if (value.is_none()) return;
    std::string names;
    for (const auto& [choice, meaning] : choices) {
      if (value.equal(py::str(choice))) {
        to = meaning;
        return;
      }
      names += (names.empty() ? "" : ", ") + std::string(choice);
    }
    fail("{}: expected {}, got {}", name, names, std::string(py::repr(value)));
  }
  void expect_no_more() const {
    for (const auto& [name, value] : given_) {
      throw py::type_error(fmt::format("Session has no option {}", std::string(py::str(name))));
    }
  }

 private:
  py::dict given_;
};

SessionOptions options_of(Keywords keywords) {
  SessionOptions o;
  keywords.take("device", o.device, "a device such as \"cpu\", \"auto\" or \"cuda:0\"");
  keywords.take("threads", o.threads, "a number of threads");
  keywords.choose(
      "precision", o.passes.precision,
      std::array{std::pair{"fp32", Precision::fp32}, std::pair{"fp16", Precision::fp16},
                 std::pair{"bf16", Precision::bf16}, std::pair{"fp8", Precision::fp8}, std::pair{"fp4", Precision::fp4},
                 std::pair{"model", Precision::model}, std::pair{"auto", Precision::automatic}});
  keywords.take("emulate", o.passes.emulate, "True or False");
  keywords.take("passes_off", o.passes.off, "a set of names of passes");
  keywords.take("dims", o.dims, "sizes by the names of open dimensions, such as {\"batch\": 4}");
  const py::object shapes = keywords.take("shapes");
  if (!shapes.is_none()) {
    if (!py::isinstance<py::dict>(shapes)) throw py::type_error("shapes: expected shapes by the names of inputs");
    for (const auto& [name, shape] : py::reinterpret_borrow<py::dict>(shapes)) {
      const std::string input = py::str(name);
      o.shapes[input] = shape_given(py::reinterpret_borrow<py::object>(shape), fmt::format("shapes[\"{}\"]", input));
    }
  }
  keywords.take("batch", o.batch, "a number of entries");
  keywords.take("outputs", o.outputs, "a list of names of outputs");
  keywords.choose(
      "tune", o.tune,
      std::array{std::pair{"off", Tune::off}, std::pair{"auto", Tune::automatic}, std::pair{"full", Tune::full}});
  keywords.take("tuning_file", o.tuning_file, "the name of a file");
  keywords.take("kernels", o.kernels, "names of kernels, such as \"no-onednn\"");
  keywords.take("memory_reserve", o.memory_reserve, "a number of bytes");
  keywords.take("keep", o.keep, "a set of names of values");
  keywords.take("profile", o.profile, "True or False");
  keywords.take("say", o.say, "a function that takes a line");
  if (o.say) o.say = [say = o.say](const std::string& line) { to_python([&] { say(line); }); };
  keywords.expect_no_more();
  return o;
}

std::shared_ptr<HeldSession> make_session(const Model& model, const py::dict& keywords) {
  SessionOptions options = options_of(Keywords(keywords));
  const WithoutLock without_lock;
  return std::make_shared<HeldSession>(model.graph, std::move(options));
}

// `undeclared`: names of those of which the model says no shape, which have no dimensions either.
py::list infos(const std::vector<TensorInfo>& all, const std::set<std::string>& undeclared) {
  py::list out;
  for (const TensorInfo& info : all) {
    out.append(py::make_tuple(info.name, type_shown(info.dtype),
                              info.shape                       ? py::object(tuple_of(*info.shape))
                              : undeclared.contains(info.name) ? py::object(py::none())
                                                               : py::object(tuple_of(info.dims))));
  }
  return out;
}

// Methods take the holder: it fails for an object whose __init__ has not run or not succeeded, where by reference
// pybind11 would make memory of no session.
template <typename Returned, typename... Args>
auto method(Returned (HeldSession::*of)(Args...)) {
  return [of](const std::shared_ptr<HeldSession>& held, Args... args) -> Returned {
    return (held.get()->*of)(std::forward<Args>(args)...);
  };
}

// What `look` returns of the session.
template <typename Look>
auto looking(const Look& look) {
  return [look](const std::shared_ptr<HeldSession>& held) { return held->with(look); };
}

}  // namespace

void bind_session(py::module_& module) {
  using Held = HeldSession;
  py::class_<Held, std::shared_ptr<Held>>(module, "Session")
      .def(py::init(&make_session), py::arg("model"), py::arg("options"))
      .def_property_readonly(
          "_inputs",
          [](const std::shared_ptr<Held>& held) {
            return held->with([&](const Session& s) { return infos(s.inputs(), held->undeclared()); });
          })
      .def_property_readonly(
          "_outputs",
          [](const std::shared_ptr<Held>& held) {
            return held->with([&](const Session& s) { return infos(s.outputs(), held->undeclared()); });
          })
      .def("_input", method(&Held::input))
      .def("_output", method(&Held::output))
      .def("_state", method(&Held::state))
      .def("_input_bits", method(&Held::input_bits))
      .def("_output_bits", method(&Held::output_bits))
      .def("_set_shape",
           [](const std::shared_ptr<Held>& s, const std::string& name, const py::object& shape) {
             s->set_shape(name, shape_given(shape, fmt::format("input \"{}\"", name)));
           })
      .def("_call", method(&Held::call))
      .def("_states", looking([](const Session& s) { return s.states(); }))
      .def("compile", method(&Held::compile),
           "Compiles now instead of at the first run; every input's shape must be known. Does nothing the second time.")
      .def("run", method(&Held::run), "Computes the outputs from the inputs' present contents.")
      .def("reset_states", method(&Held::reset_states), "Gives the states their first contents.")
      .def("values", method(&Held::values),
           "Copies of the values of the last run that `keep` names, in the file's order of axes, by name.")
      .def("profile", method(&Held::profile),
           "For each node: name, op, kernel, shape, calls, total_ns, flops and bytes of a call (with profile=True).")
      .def_property_readonly(
          "device", looking([](const Session& s) { return s.device(); }),
          "Where it runs: \"cpu\" or \"cuda:N\"; device=\"auto\" may choose the CPU until the first result.")
      .def_property_readonly("threads", looking([](const Session& s) { return s.threads(); }),
                             "How many threads of the CPU a run takes, with the shapes in use.")
      .def_property_readonly("arena_bytes", looking([](const Session& s) { return s.arena_bytes(); }),
                             "Bytes of the memory of activations, outputs and scratch, with the shapes in use.")
      .def_property_readonly("nodes_on_cpu", looking([](const Session& s) { return s.nodes_on_cpu(); }),
                             "On a GPU: the nodes that run on the CPU, each as \"op (why)\"; empty if there are none.");
}

}  // namespace sparkpilot::python
