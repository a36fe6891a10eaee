#include "runtime/session.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "ir/check_graph.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "passes/rebatch.h"
#include "runtime/cpu/compile.h"
#include "runtime/gpu_compile.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

size_t place_of(std::string_view name, std::string_view what, const std::vector<TensorInfo>& all,
                const std::unordered_map<std::string, size_t>& places) {
  const auto found = places.find(std::string(name));
  if (found != places.end()) return found->second;
  std::string names;
  for (const TensorInfo& info : all) names += (names.empty() ? "" : ", ") + info.name;
  fail("the model has no {} \"{}\"; it has: {}", what, name, names);
}

}  // namespace

struct Session::Impl {
  Graph graph;  // the source; moved into the plan if all shapes are fixed
  bool fixed = false;
  SessionOptions options;
  PlanOptions plan_options;
  std::shared_ptr<StateStore> states;
  std::vector<std::string> kept;  // names of states that cannot be reset
  std::vector<TensorInfo> inputs, outputs;
  std::vector<Tensor> memory;  // one per input
  std::vector<const void*> pointers;
  std::map<std::string, CpuProgram> plans;  // by input shapes
  CpuProgram* now = nullptr;                // for the shapes bound now; null: not looked up yet
  bool ran = false;

  std::unordered_map<std::string, size_t> input_places, output_places;  // by name

  size_t input_index(std::string_view name) const { return place_of(name, "input", inputs, input_places); }
  size_t output_index(std::string_view name) const { return place_of(name, "output", outputs, output_places); }
  void describe();
  void bind_dims();
  void set_shape(size_t i, const Shape& shape);
  void compile();
};

void Session::Impl::describe() {
  for (const ValueId id : graph.inputs()) {
    const Value& v = graph.value(id);
    inputs.push_back({v.name, v.dtype, v.declared.value_or(std::vector<Dim>{}), std::nullopt});
  }
  for (const Graph::Output& output : graph.outputs()) {
    const Value& v = graph.value(output.value);
    outputs.push_back({output.name, v.dtype, v.declared.value_or(std::vector<Dim>{}), std::nullopt});
  }
  for (size_t i = 0; i < inputs.size(); ++i) input_places.emplace(inputs[i].name, i);
  for (size_t i = 0; i < outputs.size(); ++i) output_places.emplace(outputs[i].name, i);
  memory.resize(inputs.size());
  pointers.resize(inputs.size());
}

// Allocates the inputs whose shapes are fixed.
void Session::Impl::bind_dims() {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : inputs[i].dims) sizes.push_back(dim.size);
    const bool open = std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
    // An undeclared shape has no dimensions, as a scalar has, so ask whether it is declared.
    const bool declared = graph.value(graph.inputs()[i]).declared.has_value();
    if (declared && !open) set_shape(i, Shape(std::span<const int64_t>(sizes)));
  }
}

void Session::Impl::set_shape(size_t i, const Shape& shape) {
  if (inputs[i].shape && *inputs[i].shape == shape) return;
  bind_input(graph, graph.inputs()[i], shape);
  inputs[i].shape = shape;
  memory[i] = plan_options.gpu ? shared_zeros(*plan_options.gpu, inputs[i].dtype, shape)
                               : Tensor::zeros(inputs[i].dtype, shape);
  pointers[i] = memory[i].raw();
  now = nullptr;
  ran = false;
}

void Session::Impl::compile() {
  std::string key;
  bool all_fixed = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].shape) fail("input \"{}\" has open dimensions: give their sizes or its contents", inputs[i].name);
    key += inputs[i].shape->str();
    const auto& declared = graph.value(graph.inputs()[i]).declared;
    all_fixed &=
        declared && std::all_of(declared->begin(), declared->end(), [](const Dim& dim) { return dim.size >= 0; });
  }
  auto found = plans.find(key);
  if (found == plans.end()) {
    constexpr size_t kMaxPlans = 32;  // limits memory when the shapes keep changing
    if (plans.size() >= kMaxPlans) plans.clear();
    Graph source;
    if (all_fixed) {
      // No other shape will be needed, so the weights may be freed as they are packed. What set_shape still needs, the
      // declared inputs, is kept.
      Graph keep;
      for (const ValueId id : graph.inputs()) {
        const Value& v = graph.value(id);
        keep.add_input(v.name, v.dtype, v.declared.value_or(std::vector<Dim>{}));
      }
      std::swap(graph, keep);
      source = std::move(keep);
    } else {
      source = graph;
    }
    CpuProgram made = plan_options.gpu ? compile_on_gpu(std::move(source), options, plan_options, *states)
                                       : compile_on_cpu(std::move(source), options, plan_options, *states, pointers);
    found = plans.emplace(key, std::move(made)).first;
  }
  now = &found->second;
}

Session::Session(Graph graph, SessionOptions options) : impl_(std::make_unique<Impl>()) {
  Impl& s = *impl_;
  const std::optional<int> ordinal = gpu_of_device(options.device);
  if (options.threads < 0) fail("threads: expected 0 or more, got {}", options.threads);
  s.graph = std::move(graph);
  s.options = std::move(options);
  check_graph(s.graph);
  s.states = s.options.states ? s.options.states : std::make_shared<StateStore>();
  for (const State& state : s.graph.states()) {
    if (!state.resettable) s.kept.push_back(s.graph.value(state.value).name);
  }
  fix_dimensions(s.graph, s.options.dims, s.options.shapes);
  if (!s.options.outputs.empty()) select_outputs(s.graph, s.options.outputs);
  if (s.options.batch != 1) {
    PassOptions passes = s.options.passes;
    passes.observe = {};  // observed when the passes run again on the result
    s.graph = rebatch(std::move(s.graph), s.options.batch, passes);
  }
  s.plan_options = {.passes = s.options.passes,
                    .kernels = KernelChoice(s.options.kernels),
                    .keep = s.options.keep,
                    .gpu = ordinal ? GpuDevice::open(*ordinal) : nullptr,
                    .profile = s.options.profile || s.options.trace,
                    .trace = s.options.trace};
  s.describe();
  s.bind_dims();
  const bool bound =
      std::all_of(s.inputs.begin(), s.inputs.end(), [](const TensorInfo& i) { return i.shape.has_value(); });
  if (bound) s.compile();
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const std::vector<TensorInfo>& Session::inputs() const { return impl_->inputs; }
const std::vector<TensorInfo>& Session::outputs() const { return impl_->outputs; }
int Session::threads() const {
  if (impl_->now) return impl_->now->threads;
  return impl_->options.threads > 0 ? impl_->options.threads : available_processors();
}
std::vector<std::string> Session::nodes_on_cpu() const {
  return impl_->now && impl_->now->plan ? impl_->now->plan->nodes_left_to_cpu() : std::vector<std::string>();
}
Session::Transfers Session::transfers() const {
  return impl_->now && impl_->now->plan ? impl_->now->plan->transfers_of_a_run() : Transfers();
}
const Graph* Session::compiled_graph() const { return impl_->now ? &impl_->now->graph() : nullptr; }
std::vector<KernelDecision> Session::choices() const {
  std::vector<KernelDecision> out;
  if (impl_->now) impl_->now->choices(out);
  return out;
}
int64_t Session::arena_bytes() const { return impl_->now ? impl_->now->arena_bytes() : 0; }

View Session::input(std::string_view name) {
  const size_t i = impl_->input_index(name);
  if (!impl_->inputs[i].shape) fail("input \"{}\" has open dimensions: set its shape first", name);
  return impl_->memory[i].view();
}

void Session::set_shape(std::string_view name, const Shape& shape) {
  impl_->set_shape(impl_->input_index(name), shape);
}

void Session::set_input(std::string_view name, const ConstView& value) {
  const size_t i = impl_->input_index(name);
  if (value.dtype != impl_->inputs[i].dtype) {
    fail("input \"{}\" is {}, the model expects {}", name, sparkpilot::name(value.dtype),
         sparkpilot::name(impl_->inputs[i].dtype));
  }
  impl_->set_shape(i, value.shape);
  std::memcpy(impl_->memory[i].raw(), value.data, static_cast<size_t>(value.bytes()));
}

void Session::compile() {
  if (!impl_->now) impl_->compile();
}

void Session::run() {
  Impl& s = *impl_;
  if (!s.now) s.compile();
  s.ran = false;
  s.now->run(s.pointers);
  s.ran = true;
}

ConstView Session::output(std::string_view name) const {
  const size_t i = impl_->output_index(name);
  if (!impl_->ran) fail("output \"{}\" was asked for before run()", name);
  return impl_->now->outputs()[i];
}

std::vector<std::string> Session::states() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : *impl_->states) names.push_back(name);
  return names;
}

View Session::state(std::string_view name) {
  const auto found = impl_->states->find(name);
  if (found == impl_->states->end()) fail("the model has no state \"{}\"", name);
  return found->second.view();
}

void Session::reset_states() {
  if (!impl_->kept.empty()) {
    fail("state \"{}\" cannot be reset: what it held at first was moved into the session", impl_->kept.front());
  }
  // Plans keep the initial contents of their states; graphs that run in slices have no states.
  for (const auto& [key, made] : impl_->plans) {
    if (made.plan) made.plan->reset_states();
  }
}

Profile Session::profile() const {
  Profile profile;
  if (impl_->now) impl_->now->collect(profile);
  return profile;
}

void Session::visit_values(const std::function<void(const RunValue&)>& visit) const {
  if (!impl_->ran) fail("values were asked for before run()");
  if (impl_->now->plan) impl_->now->plan->visit_values(visit);
}

}  // namespace sparkpilot
