#include "runtime/session.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ir/check_graph.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "passes/precision.h"
#include "passes/rebatch.h"
#include "runtime/cpu/compile.h"
#include "runtime/device_choice.h"
#include "runtime/gpu_compile.h"
#include "runtime/nvtx.h"
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
  int64_t load_ns = 0;  // of the constructor and all compilations
  std::string device = "cpu";
  Precision asked = Precision::fp32;
  std::optional<double> check_ms;
  std::optional<Graph> spare;  // for the CPU if the GPU that `auto` chose fails before the first result

  std::unordered_map<std::string, size_t> input_places, output_places;  // by name

  size_t input_index(std::string_view name) const { return place_of(name, "input", inputs, input_places); }
  size_t output_index(std::string_view name) const { return place_of(name, "output", outputs, output_places); }
  void describe();
  void bind_dims();
  void set_shape(size_t i, const Shape& shape);
  void give_memory();
  void give_memory_here();
  void open_device();
  void settle_precision();
  bool shares_states_of_cpu() const;
  void compile();
  void compile_here();
  template <typename Work>
  void or_on_cpu(const Work& work);
  void run();
  void take_cpu(const Error& error);
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
  memory[i] = Tensor();
  now = nullptr;
  ran = false;
}

// What a GPU that was chosen fails to do before the first result is done anew for the CPU.
template <typename Work>
void Session::Impl::or_on_cpu(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (!spare || error.kind() != ErrorKind::device) throw;
    take_cpu(error);
    work();
  }
}

void Session::Impl::give_memory() {
  or_on_cpu([this] { give_memory_here(); });
}

// Inputs that have a shape and no memory; on a GPU in one piece, so that one copy sends them.
void Session::Impl::give_memory_here() {
  int64_t bytes = 0;
  std::vector<size_t> without;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (memory[i].present() || !inputs[i].shape) continue;
    without.push_back(i);
    bytes += input_space(storage_bytes(inputs[i].dtype, inputs[i].shape->elements()));
  }
  if (without.empty()) return;
  std::shared_ptr<Buffer> all;
  if (GpuDevice* const gpu = plan_options.gpu.get()) {
    all = gpu->allocate(bytes, gpu->shared_place());
    std::memset(all->data(), 0, static_cast<size_t>(bytes));
    plan_options.inputs = all;
  }
  bytes = 0;
  for (const size_t i : without) {
    const Shape& shape = *inputs[i].shape;
    memory[i] = all ? Tensor(inputs[i].dtype, shape, all, bytes) : Tensor::zeros(inputs[i].dtype, shape);
    pointers[i] = memory[i].raw();
    bytes += input_space(storage_bytes(inputs[i].dtype, shape.elements()));
  }
}

// For the device on which it runs now.
void Session::Impl::settle_precision() {
  options.passes.precision = plan_options.passes.precision = precision_on(device, asked);
}

// Opens the device that the options name or that is chosen.
void Session::Impl::open_device() {
  device = options.device;
  if (options.device == "auto") {
    device = "cpu";
    const DeviceChoice choice = choose_device(graph, options);
    check_ms = choice.check_ms;
    plan_options.ptx_ns = choice.ptx_ns;
    if (!choice.gpu) return;
    if (shares_states_of_cpu()) {
      if (options.say) options.say("its states are shared with a session on the CPU; the model runs on the CPU");
      return;
    }
    plan_options.gpu = choice.gpu;
    spare = graph;
  } else {
    const std::optional<int> ordinal = gpu_of_device(device);
    if (!ordinal) return;
    plan_options.gpu = GpuDevice::open(*ordinal, {.reserve = options.memory_reserve});
    const GpuFacts& facts = plan_options.gpu->facts();
    // Emulated, these products are left to the CPU.
    const bool rounds = asked == Precision::fp4 && !options.passes.largest.empty();
    if (rounds && facts.capability < 120 && !options.passes.emulate) {
      throw Error(ErrorKind::device,
                  fmt::format("{}: activations in NVFP4 need compute capability 12.0, this is {}.{}; --device cpu or "
                              "auto computes them on the CPU",
                              facts.name, facts.capability / 10, facts.capability % 10));
    }
  }
  device = fmt::format("cuda:{}", plan_options.gpu->facts().ordinal);
  if (plan_options.gpu->unified()) return;
  if (options.states && options.states->stay_on_gpu) {
    std::shared_ptr<GpuStates>& shared = options.states->on_gpu;
    if (!shared) shared = std::make_shared<GpuStates>(plan_options.gpu);
    if (shared->gpu != plan_options.gpu) fail("sessions that share states must run on one GPU");
    plan_options.gpu_states = shared;
    return;
  }
  plan_options.gpu_states = std::make_shared<GpuStates>(plan_options.gpu);
  plan_options.gpu_states->all_shown = options.states != nullptr;
}

// Whether a state of the graph lies in memory of a session on the CPU, where the store is the caller's.
bool Session::Impl::shares_states_of_cpu() const {
  return std::ranges::any_of(graph.states(), [&](const State& state) {
    const auto found = states->find(graph.value(state.value).name);
    return found != states->end() && found->second.place() == Place::host;
  });
}

// Before the first result. States keep their memory, which the caller may have.
void Session::Impl::take_cpu(const Error& error) {
  if (options.say) options.say(fmt::format("{}; the model runs on the CPU", error.what()));
  graph = std::move(*spare);
  spare.reset();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape) bind_input(graph, graph.inputs()[i], *inputs[i].shape);
  }
  plans.clear();
  now = nullptr;
  plan_options.gpu = nullptr;
  plan_options.gpu_states = nullptr;
  plan_options.inputs = nullptr;
  device = "cpu";
  settle_precision();
}

void Session::Impl::compile() {
  const int64_t start = now_ns();
  or_on_cpu([this] { compile_here(); });
  load_ns += now_ns() - start;
}

// The first result of a GPU that was chosen: where it fails, the CPU computes it, from the same states.
void Session::Impl::run() {
  if (!now) compile();
  if (!spare) return now->run(pointers);
  StateStore before;
  for (const auto& [name, tensor] : *states) before.emplace(name, tensor.clone());
  try {
    now->run(pointers);
    spare.reset();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    take_cpu(error);
    for (const auto& [name, tensor] : before) {
      std::memcpy(states->find(name)->second.raw(), tensor.raw(), static_cast<size_t>(tensor.bytes()));
    }
    compile();
    now->run(pointers);
  }
}

void Session::Impl::compile_here() {
  if (!plan_options.gpu) give_memory_here();
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
  give_memory_here();  // on a GPU after the plan, which says first whether there is enough
}

Session::Session(Graph graph, SessionOptions options) : impl_(std::make_unique<Impl>()) {
  Impl& s = *impl_;
  const int64_t start = now_ns();
  if (options.device != "cuda") gpu_of_device(options.device);
  const int most_threads = std::max(1024, 4 * available_processors());
  if (options.threads < 0 || options.threads > most_threads) {
    fail("threads: expected 0 to {}, got {}", most_threads, options.threads);
  }
  if (options.memory_reserve.value_or(0) < 0) {
    fail("memory reserve: expected 0 bytes or more, got {}", *options.memory_reserve);
  }
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
                    .profile = s.options.profile || s.options.trace,
                    .trace = s.options.trace,
                    .gpu_times = s.options.gpu_times};
  s.asked = s.options.passes.precision;
  s.open_device();
  s.settle_precision();
  s.describe();
  s.bind_dims();
  s.load_ns = now_ns() - start;
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
Session::GpuTimes Session::gpu_times() const {
  return impl_->now && impl_->now->plan ? impl_->now->plan->gpu_times() : GpuTimes();
}
Session::LoadTimes Session::load_times() const {
  const int64_t ptx = impl_->plan_options.ptx_ns, tuning = impl_->plan_options.tuned_ns;
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  return {ms(impl_->load_ns - ptx - tuning) - impl_->check_ms.value_or(0), ms(ptx), ms(tuning)};
}
const std::string& Session::device() const { return impl_->device; }
Precision Session::precision() const { return impl_->options.passes.precision; }
std::optional<double> Session::self_check_ms() const { return impl_->check_ms; }
const Graph* Session::compiled_graph() const { return impl_->now ? &impl_->now->graph() : nullptr; }
std::vector<KernelDecision> Session::choices() const {
  std::vector<KernelDecision> out;
  if (impl_->now) impl_->now->choices(out);
  return out;
}
int64_t Session::weight_bytes() const { return impl_->now ? impl_->now->weight_bytes() : 0; }
int64_t Session::arena_bytes() const { return impl_->now ? impl_->now->arena_bytes() : 0; }

View Session::input(std::string_view name) {
  const size_t i = impl_->input_index(name);
  if (!impl_->inputs[i].shape) fail("input \"{}\" has open dimensions: set its shape first", name);
  impl_->give_memory();
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
  impl_->give_memory();
  std::memcpy(impl_->memory[i].raw(), value.data, static_cast<size_t>(value.bytes()));
}

void Session::compile() {
  if (!impl_->now) impl_->compile();
}

void Session::run() {
  Impl& s = *impl_;
  s.ran = false;
  const NvtxRange range(s.plan_options.profile ? "run" : "");
  s.run();
  s.ran = true;
}

ConstView Session::output(std::string_view name) const {
  const size_t i = impl_->output_index(name);
  if (!impl_->ran) fail("output \"{}\" was asked for before run()", name);
  return impl_->now->outputs()[i];
}

std::vector<std::string> Session::states() const {
  std::vector<std::string> names;
  if (impl_->now) {
    for (const auto& [name, tensor] : *impl_->states) names.push_back(name);
  } else {
    for (const State& state : impl_->graph.states()) names.push_back(impl_->graph.value(state.value).name);
    std::ranges::sort(names);
  }
  return names;
}

View Session::state(std::string_view name) {
  const auto found = impl_->states->find(name);
  if (found == impl_->states->end()) {
    const auto called = [&](const State& state) { return impl_->graph.value(state.value).name == name; };
    if (std::ranges::any_of(impl_->graph.states(), called)) {
      fail("state \"{}\" has no memory before the shapes of all inputs are known: set_shape() and compile() come first",
           name);
    }
    fail("the model has no state \"{}\"", name);
  }
  if (const std::shared_ptr<GpuStates>& on_gpu = impl_->plan_options.gpu_states) {
    on_gpu->show(found->second);
    on_gpu->at(found->second).shown = true;
  }
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
