#include "runtime/session.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "hw/cpu.h"
#include "ir/infer.h"
#include "runtime/batch_slices.h"
#include "runtime/busy_watch.h"
#include "runtime/plan.h"
#include "runtime/thread_choice.h"
#include "runtime/tuning_file.h"

namespace sparkpilot {
namespace {

// Times that another process or the system took a processor from this one.
int64_t interruptions() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

int64_t weight_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    if (const Tensor* constant = graph.constant(ValueId{i})) bytes += constant->bytes();
  }
  return bytes;
}

// A plan for one set of shapes: for all of the batch, or for slices of it.
struct Compiled {
  std::unique_ptr<Plan> plan;
  std::unique_ptr<BatchSlices> slices;
  int threads = 1;
  bool watched = false;  // one thread takes runs while others are held up
  BusyWatch watch = {};

  void run(std::span<const void* const> inputs) {
    const int64_t start = watched ? now_ns() : 0;
    const ThreadScope scope(watched && watch.alone() ? 1 : threads);
    if (slices) slices->run(inputs);
    else plan->run(inputs);
    if (watched) watch.took(now_ns() - start);
  }
  std::span<const ConstView> outputs() const { return slices ? slices->outputs() : plan->outputs(); }
  const Graph& graph() const { return slices ? slices->graph() : plan->graph(); }
  int64_t arena_bytes() const { return slices ? slices->arena_bytes() : plan->arena_bytes(); }
  void collect(Profile& profile) const { slices ? slices->collect(profile) : plan->collect(profile); }
  void forget_times() { slices ? slices->forget_times() : plan->forget_times(); }
  // May be run for the sake of its time: no loops, and about a tenth of a second's work for one thread at most.
  bool is_quick() const {
    constexpr double kMost = 2e10;
    return (slices || plan->is_straight()) && (slices ? slices->flops() : plan->flops()) < kMost;
  }
};

}  // namespace

struct Session::Impl {
  Graph graph;  // the source; moved into the plan where all shapes are fixed
  bool fixed = false;
  SessionOptions options;
  PlanOptions plan_options;
  StateStore states;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<Tensor> memory;  // one an input
  std::vector<const void*> pointers;
  std::map<std::string, Compiled> plans;  // by input shapes
  Compiled* now = nullptr;                // for the shapes bound now; null: to be found
  bool ran = false;

  size_t input_index(std::string_view name) const {
    std::string names;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].name == name) return i;
      names += (i ? ", " : "") + inputs[i].name;
    }
    fail("the model has no input \"{}\"; it has: {}", name, names);
  }
  size_t output_index(std::string_view name) const {
    std::string names;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].name == name) return i;
      names += (i ? ", " : "") + outputs[i].name;
    }
    fail("the model has no output \"{}\"; it has: {}", name, names);
  }
  void describe();
  void bind_dims();
  void set_shape(size_t i, const Shape& shape);
  void compile();
  Compiled compile_for(Graph source, int threads);
  Compiled compile_fastest(Graph source);
  bool try_run(Compiled& compiled);
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
  memory.resize(inputs.size());
  pointers.resize(inputs.size());
}

// Named dimensions get the sizes that the options give.
void Session::Impl::bind_dims() {
  for (const auto& [symbol, size] : options.dims) {
    bool found = false;
    for (TensorInfo& input : inputs) {
      for (Dim& dim : input.dims) {
        if (dim.symbol != symbol) continue;
        if (size < 0) fail("dimension \"{}\" cannot be {}", symbol, size);
        dim.size = size;
        found = true;
      }
    }
    if (!found) fail("no input has an open dimension named \"{}\"", symbol);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : inputs[i].dims) sizes.push_back(dim.size);
    const bool open = std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
    // No declared shape at all reads as a scalar, which is a shape too.
    const bool declared = graph.value(graph.inputs()[i]).declared.has_value();
    if (declared && !open) set_shape(i, Shape(std::span<const int64_t>(sizes)));
  }
}

void Session::Impl::set_shape(size_t i, const Shape& shape) {
  if (inputs[i].shape && *inputs[i].shape == shape) return;
  bind_input(graph, graph.inputs()[i], shape);
  inputs[i].shape = shape;
  memory[i] = Tensor::zeros(inputs[i].dtype, shape);
  pointers[i] = memory[i].raw();
  now = nullptr;
  ran = false;
}

Compiled Session::Impl::compile_for(Graph source, int threads) {
  const ThreadScope scope(threads);
  Compiled made{
      .plan = nullptr, .slices = BatchSlices::make(source, plan_options, threads, states), .threads = threads};
  if (!made.slices) made.plan = std::make_unique<Plan>(std::move(source), plan_options, states);
  return made;
}

// False where the inputs' contents make no sense to the model, as those that nobody has set yet may.
bool Session::Impl::try_run(Compiled& compiled) {
  try {
    compiled.run(pointers);
    return true;
  } catch (const Error&) {
    return false;
  }
}

Compiled Session::Impl::compile_fastest(Graph source) {
  constexpr int64_t kMostWeights = 64 << 20;  // bytes, of which oneDNN packs its part once more
  plan_options.alone = !plan_options.profile && !plan_options.keep_values && weight_bytes(source) <= kMostWeights;
  const std::vector<int> choices = thread_choices(available_processors());
  if (choices.size() == 1 || !options.kernels.empty()) return compile_for(std::move(source), choices.back());
  TuningFile file(options.tuning_file, cpu_features().model);
  const std::string key = tuning_key(source, options.passes);
  if (const auto kept = file.threads(key)) return compile_for(std::move(source), *kept);

  // Kernels are prepared for a number of threads, so each has a plan of its own; two of them at a time.
  std::map<int, Compiled> tried;
  tried[1] = compile_for(source, 1);
  if (!tried[1].is_quick() || !try_run(tried[1])) return compile_for(std::move(source), choices.back());
  const auto observe = std::exchange(plan_options.passes.observe, nullptr);  // it has seen the passes
  const auto time_ns = [&](int threads) {
    constexpr int64_t kLongEnough = 10'000'000;  // to be held up by whoever else wants the processors
    Compiled& compiled = tried[threads];
    if (!compiled.plan && !compiled.slices) {
      if (tried.size() > 2) tried.erase(tried.begin());
      compiled = compile_for(source, threads);
      try_run(compiled);
    }
    int64_t runs = 0, taken = 0;
    for (const int64_t start = now_ns(); taken < kLongEnough; taken = now_ns() - start, ++runs) try_run(compiled);
    return static_cast<double>(taken) / static_cast<double>(runs);
  };
  const int64_t start = now_ns(), disturbed = interruptions();
  const int best = fastest_threads(choices, time_ns);
  plan_options.passes.observe = observe;
  // What was found beside other work holds for this session only.
  constexpr int64_t kQuietNs = 20'000'000;  // a processor that does nothing else is taken less often
  if (interruptions() - disturbed <= 1 + (now_ns() - start) / kQuietNs) file.keep_threads(key, best);
  return std::move(tried[best]);
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
    constexpr size_t kMaxPlans = 32;  // a stream of ever new shapes must not fill the memory
    if (plans.size() >= kMaxPlans) plans.clear();
    Graph source;
    if (all_fixed) {
      // Nothing will ask for another shape, so the weights may leave the source as they are packed. What set_shape
      // still needs of it, the declared inputs, is kept.
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
    std::map<std::string, Tensor> before;
    for (const auto& [name, tensor] : states) before[name] = tensor.clone();
    Compiled made =
        options.threads > 0 ? compile_for(std::move(source), options.threads) : compile_fastest(std::move(source));
    // The first run is to find pages, caches and threads as the others do.
    if (options.kernels.empty() && made.is_quick()) try_run(made);
    made.watched = plan_options.alone && made.threads > 1 && made.plan && made.is_quick();
    made.forget_times();
    if (made.plan) made.plan->reset_states();
    for (const auto& [name, tensor] : before) {
      std::memcpy(states.at(name).raw(), tensor.raw(), static_cast<size_t>(tensor.bytes()));
    }
    found = plans.emplace(key, std::move(made)).first;
  }
  now = &found->second;
}

Session::Session(Graph graph, SessionOptions options) : impl_(std::make_unique<Impl>()) {
  Impl& s = *impl_;
  if (options.device != "auto" && options.device != "cpu") {
    fail("device \"{}\" is not available: this version runs models on the CPU only", options.device);
  }
  if (options.threads < 0) fail("threads: expected 0 or more, got {}", options.threads);
  s.graph = std::move(graph);
  s.options = std::move(options);
  if (!s.options.outputs.empty()) select_outputs(s.graph, s.options.outputs);
  s.plan_options = {.passes = s.options.passes,
                    .kernels = KernelChoice(s.options.kernels),
                    .keep_values = s.options.keep_values,
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
const Graph* Session::compiled_graph() const { return impl_->now ? &impl_->now->graph() : nullptr; }
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
  for (const auto& [name, tensor] : impl_->states) names.push_back(name);
  return names;
}

View Session::state(std::string_view name) {
  const auto found = impl_->states.find(name);
  if (found == impl_->states.end()) fail("the model has no state \"{}\"", name);
  return found->second.view();
}

void Session::reset_states() {
  // A plan keeps its states' first contents; one with slices has none.
  for (const auto& [key, made] : impl_->plans) {
    if (made.plan) made.plan->reset_states();
  }
}

Profile Session::profile() const {
  Profile profile;
  if (impl_->now) impl_->now->collect(profile);
  return profile;
}

void Session::visit_values(const std::function<void(const std::string&, const ConstView&)>& visit) const {
  if (!impl_->ran) fail("values were asked for before run()");
  if (impl_->now->plan) impl_->now->plan->visit_values(visit);
}

}  // namespace sparkpilot
