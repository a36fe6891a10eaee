#include "train/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "grad/differentiate.h"
#include "ir/infer.h"
#include "ops/formula.h"
#include "passes/pass.h"
#include "passes/recompute.h"
#include "runtime/gpu_compile.h"
#include "runtime/gpu_memory.h"
#include "tensor/gpu.h"

namespace sparkpilot::train {
namespace {

using Reports = std::vector<std::pair<std::string, ValueId>>;

constexpr const char *kUpdates = "updates", *kSums = "gradients", *kAverage = "/ema", *kEvaluate = "evaluate";

std::string sum_name(const std::string& parameter) { return "gradient/" + parameter; }

// A state that shares its memory with the store's; it keeps its contents until something sets its next value.
ValueId shared_state(Graph& graph, StateStore& store, const std::string& name) {
  const ValueId id = graph.add_state(store.at(name), name, false);
  graph.set_next(id, id);
  return id;
}

}  // namespace

ValueId ExtraUpdates::updated(const std::string& parameter) const {
  const auto found = updated_.find(parameter);
  if (found == updated_.end()) fail_internal("there is no parameter \"{}\"", parameter);
  return found->second;
}

void ExtraUpdates::renew(const std::string& state, ValueId value) {
  const std::string name = state + suffix_;
  if (!store_.contains(name)) {
    // The first for the averages: they begin as the parameters do.
    const auto from = store_.find(state);
    if (from == store_.end()) fail_internal("there is no state \"{}\"", state);
    store_.emplace(name, copy_(from->second));
  }
  b.graph().set_next(shared_state(b.graph(), store_, name), value);
  renewed_.push_back(state);
}

struct TrainingProgram::Impl {
  ProgramOptions options;
  std::vector<Parameter> parameters;
  std::vector<std::string> reports;
  std::shared_ptr<GpuDevice> gpu;  // null: the CPU
  std::shared_ptr<StateStore> store = std::make_shared<StateStore>();
  std::vector<std::string> renewed;  // states that the update computes from the parameters
  Graph forward;                     // outputs: the loss, the reports, then the parts
  Tensor sums;                       // the slab
  std::vector<Tensor> each_sum;      // parts of it
  std::optional<Session> gradients, norm, update;
  std::map<Evaluation, Session> evaluations;
  View rate, scale;
  int micro_batches = 0;
  Recomputation again;
  std::optional<double> norm_of_mean;
  std::vector<std::string> outputs;  // the sessions' names for the outputs: short, as looking one up copies its name

  void open_device();
  std::shared_ptr<Buffer> memory(int64_t bytes) const;
  Tensor copy(const Tensor& from) const;
  Tensor zeros(const Shape& shape) const;
  void hold(const std::string& name, Tensor tensor);
  void take_parameters(Graph graph, ValueId loss, const Reports& values);
  void make_states();
  Session session(Graph graph, const char* name, bool lowered = false) const;
  Session forward_session(Graph graph, const char* name) const;
  void lower_forward(Graph& graph) const;
  void make_gradients();
  Session within_budget(Graph graph);
  void make_norm();
  void make_update();
  std::map<std::string, ValueId> optimizer_nodes(Builder& b);
  std::map<std::string, ValueId> adamw(Builder& b, ValueId lr, ValueId by);
  std::map<std::string, ValueId> sgd(Builder& b, ValueId lr, ValueId by);
  Graph forward_to(size_t first, size_t count) const;
  std::string name_of(const Evaluation& which) const;
  Session& evaluation(const Evaluation& which);
  // Those that were compiled.
  template <typename Work>
  void each_session(const Work& work) const {
    if (gradients) work("gradients", *gradients);
    if (norm) work("norm", *norm);
    if (update) work("update", *update);
    for (const auto& [which, session] : evaluations) work(name_of(which).c_str(), session);
  }
  const Session& ready_evaluation(const Evaluation& which) const;
};

void TrainingProgram::Impl::open_device() {
  const std::string& device = options.session.device;
  if (device == "auto") fail("training runs on cpu, cuda or cuda:N, not on \"auto\"");
  const std::optional<int> ordinal = gpu_of_device(device);
  if (!ordinal) return;
  gpu = GpuDevice::open(*ordinal, {.reserve = options.session.memory_reserve});
  store->stay_on_gpu = true;
}

// Memory for states, where the device reaches it or can copy it.
std::shared_ptr<Buffer> TrainingProgram::Impl::memory(int64_t bytes) const {
  return gpu ? gpu->allocate(bytes, gpu->shared_place()) : std::make_shared<Buffer>(bytes);
}

Tensor TrainingProgram::Impl::copy(const Tensor& from) const {
  Tensor out(from.dtype(), from.shape(), memory(from.bytes()), 0);
  std::memcpy(out.raw(), from.raw(), static_cast<size_t>(from.bytes()));
  return out;
}

Tensor TrainingProgram::Impl::zeros(const Shape& shape) const {
  Tensor out(DType::f32, shape, memory(storage_bytes(DType::f32, shape.elements())), 0);
  std::memset(out.raw(), 0, static_cast<size_t>(out.bytes()));
  return out;
}

void TrainingProgram::Impl::hold(const std::string& name, Tensor tensor) {
  if (!store->emplace(name, std::move(tensor)).second) fail("two states of the training have the name \"{}\"", name);
}

// Makes the parameters states of the graph, and the loss, the reports and the parts its only outputs.
void TrainingProgram::Impl::take_parameters(Graph graph, ValueId loss, const Reports& values) {
  std::vector<Graph::Output> kept{{loss, "0"}};
  for (const auto& [name, value] : values) {
    kept.push_back({value, std::to_string(kept.size())});
    reports.push_back(name);
  }
  for (const auto& [name, value] : options.parts) kept.push_back({value, std::to_string(kept.size())});
  for (const Graph::Output& output : kept) outputs.push_back(output.name);
  graph.replace_outputs(std::move(kept));
  std::set<std::string> names;
  for (const State& state : graph.states()) names.insert(graph.value(state.value).name);
  for (Parameter& each : parameters) {
    const Value& v = graph.value(each.value);
    const auto state = std::ranges::find(graph.states(), each.value, &State::value);
    const bool is_state = state != graph.states().end();
    if (each.name.empty()) fail("a parameter has no name");
    if (v.dtype != DType::f32) fail("parameter \"{}\" is {}, expected f32", each.name, name(v.dtype));
    if (is_state && state->next != each.value) fail("parameter \"{}\" is a state that the graph renews", each.name);
    if (is_state) names.erase(v.name);
    else if (v.kind != ValueKind::constant) fail("parameter \"{}\" is neither a constant nor a state", each.name);
    if (!names.insert(each.name).second) fail("two parameters or states have the name \"{}\"", each.name);
  }
  for (const Parameter& each : parameters) {
    Value& v = graph.value(each.value);
    hold(each.name, copy(v.constant));
    if (v.kind == ValueKind::state) {
      v.name = each.name;
      v.constant = store->at(each.name);
      continue;
    }
    v.constant = Tensor();
    const ValueId state = shared_state(graph, *store, each.name);
    graph.replace_uses(each.value, state);
  }
  for (const State& state : graph.states()) {
    const Value& v = graph.value(state.value);
    if (names.contains(v.name) && std::ranges::find(parameters, v.name, &Parameter::name) != parameters.end()) continue;
    hold(v.name, copy(v.constant));
  }
  graph.compact();
  infer(graph);
  forward = std::move(graph);
}

// What the optimizer keeps, and the gradient sums in one piece.
void TrainingProgram::Impl::make_states() {
  constexpr int64_t kStep = kAlignment / sizeof(float);
  int64_t total = 0;
  const auto padded = [](int64_t elements) { return (elements + kStep - 1) / kStep * kStep; };
  for (const Parameter& each : parameters) total += padded(store->at(each.name).elements());
  const std::shared_ptr<Buffer> buffer = memory(total * static_cast<int64_t>(sizeof(float)));
  sums = Tensor(DType::f32, {total}, buffer, 0);
  std::memset(sums.raw(), 0, static_cast<size_t>(sums.bytes()));
  hold(kSums, sums);
  int64_t at = 0;
  const bool second = options.optimizer == Optimizer::adamw, first = second || options.momentum != 0;
  for (const Parameter& each : parameters) {
    const Tensor& x = store->at(each.name);
    const Shape shape = x.shape();
    each_sum.emplace_back(DType::f32, shape, buffer, at * static_cast<int64_t>(sizeof(float)));
    at += padded(shape.elements());
    hold(sum_name(each.name), each_sum.back());
    if (first) hold(each.name + "/m", zeros(shape));
    if (second) hold(each.name + "/v", zeros(shape));
    if (options.ema > 0) hold(each.name + kAverage, copy(x));
  }
  hold(kUpdates, copy(Tensor::scalar<int64_t>(0)));
}

// `lowered`: the passes have run on the graph.
Session TrainingProgram::Impl::session(Graph graph, const char* name, bool lowered) const {
  graph.opsets.try_emplace("", 26);
  SessionOptions with = options.session;
  with.passes.precision = Precision::fp32;
  if (lowered) with.passes = {.off = {"all"}};
  with.states = store;
  with.outputs.clear();
  const auto found = options.choices.find(name);
  with.choices = found == options.choices.end() ? std::vector<KernelDecision>() : found->second;
  Session out(std::move(graph), std::move(with));
  if (const std::vector<std::string> left = out.nodes_on_cpu(); !left.empty()) {
    const std::set<std::string> kinds(left.begin(), left.end());
    fail("training on {}: {} nodes of the program \"{}\" have no kernel there: {}", out.device(), left.size(), name,
         fmt::join(kinds, "; "));
  }
  return out;
}

// The passes of a program with the forward half, which computes in the precision that was asked for.
void TrainingProgram::Impl::lower_forward(Graph& graph) const {
  graph.opsets.try_emplace("", 26);
  run_passes(graph, options.session.passes, {.device = gpu ? Device::cuda : Device::cpu, .training = true});
}

// The forward pass to some of its outputs alone.
Graph TrainingProgram::Impl::forward_to(size_t first, size_t count) const {
  Graph graph = forward;
  const auto begin = graph.outputs().begin() + static_cast<int64_t>(first);
  graph.replace_outputs({begin, begin + static_cast<int64_t>(count)});
  graph.compact();
  return graph;
}

Session TrainingProgram::Impl::forward_session(Graph graph, const char* name) const {
  lower_forward(graph);
  return session(std::move(graph), name, true);
}

void TrainingProgram::Impl::make_gradients() {
  Graph graph = forward_to(0, 1 + reports.size());
  std::map<std::string, ValueId> by_name;
  for (const State& state : graph.states()) by_name[graph.value(state.value).name] = state.value;
  std::vector<ValueId> wrt;
  for (const Parameter& each : parameters) wrt.push_back(by_name.at(each.name));
  const std::vector<ValueId> found = differentiate(graph, graph.outputs()[0].value, wrt);
  if (std::ranges::all_of(found, [&](ValueId id) { return graph.value(id).kind == ValueKind::constant; })) {
    fail("the loss depends on no parameter");
  }
  Builder b(graph);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ValueId sum = shared_state(graph, *store, sum_name(parameters[i].name));
    graph.set_next(sum, options.micro_batches == 1 ? found[i] : b.add("Add", {sum, found[i]}));
  }
  graph.compact();
  if (options.max_activations > 0) gradients.emplace(within_budget(std::move(graph)));
  else gradients.emplace(forward_session(std::move(graph), "gradients"));
}

// What a plan takes beyond its values, gaps between them and scratch, is known once it is made: then they get as much
// less.
Session TrainingProgram::Impl::within_budget(Graph graph) {
  constexpr int kTries = 8;
  lower_forward(graph);
  int64_t values = options.max_activations;
  for (int i = 0;; ++i) {
    Graph rewritten = graph;
    again = recompute(rewritten, values);
    Session made = session(std::move(rewritten), "gradients", true);
    const int64_t over = made.arena_bytes() - options.max_activations;
    if (over <= 0) return made;
    if (again.bytes > values) {
      throw TooFewBytes(fmt::format("the activations of a step take at least {} bytes, however much is computed again; "
                                    "at most {} are allowed",
                                    made.arena_bytes(), options.max_activations),
                        made.arena_bytes());
    }
    values = i < kTries ? std::max<int64_t>(0, again.bytes - over) : 0;
  }
}

void TrainingProgram::Impl::make_norm() {
  Graph graph;
  Builder b(graph);
  b.output(b.add("ReduceSumSquare", {shared_state(graph, *store, kSums)}, {{"keepdims", int64_t{0}}}), "0");
  norm.emplace(session(std::move(graph), "norm"));
}

// The new parameters by name.
std::map<std::string, ValueId> TrainingProgram::Impl::adamw(Builder& b, ValueId lr, ValueId by) {
  Graph& graph = b.graph();
  const ValueId count = shared_state(graph, *store, kUpdates);
  const ValueId next = b.add("Add", {count, b.constant(Tensor::scalar<int64_t>(1))});
  graph.set_next(count, next);
  std::map<std::string, ValueId> updated;
  for (const bool decay : {true, false}) {
    std::vector<std::string> names;
    for (const Parameter& each : parameters) {
      if (each.decay == decay) names.push_back(each.name);
    }
    if (names.empty()) continue;
    std::vector<ValueId> inputs{lr, next, by}, states;
    const auto group = [&](const auto& state_of, bool renewed) {
      for (const std::string& name : names) {
        inputs.push_back(shared_state(graph, *store, state_of(name)));
        if (renewed) states.push_back(inputs.back());
      }
    };
    group([](const std::string& name) { return name; }, true);
    group(sum_name, false);
    group([](const std::string& name) { return name + "/m"; }, true);
    group([](const std::string& name) { return name + "/v"; }, true);
    const Attributes attrs{{"beta1", options.beta1},
                           {"beta2", options.beta2},
                           {"epsilon", options.epsilon},
                           {"weight_decay", decay ? options.weight_decay : 0.0f}};
    const std::vector<ValueId> made =
        b.add_many("sparkpilot::AdamW", inputs, attrs, static_cast<int>(3 * names.size()));
    for (size_t i = 0; i < states.size(); ++i) graph.set_next(states[i], made[i]);
    for (size_t i = 0; i < names.size(); ++i) updated[names[i]] = made[i];
  }
  return updated;
}

std::map<std::string, ValueId> TrainingProgram::Impl::sgd(Builder& b, ValueId lr, ValueId by) {
  Graph& graph = b.graph();
  const ValueId count = shared_state(graph, *store, kUpdates);
  graph.set_next(count, b.add("Add", {count, b.constant(Tensor::scalar<int64_t>(1))}));
  std::map<std::string, ValueId> updated;
  for (const Parameter& each : parameters) {
    const ValueId state = shared_state(graph, *store, each.name);
    const Term x(b, state);
    Term step = Term(b, shared_state(graph, *store, sum_name(each.name))) * Term(b, by);
    if (each.decay && options.weight_decay != 0) step = step + static_cast<double>(options.weight_decay) * x;
    if (options.momentum != 0) {
      const ValueId velocity = shared_state(graph, *store, each.name + "/m");
      step = static_cast<double>(options.momentum) * Term(b, velocity) + step;
      graph.set_next(velocity, step);
    }
    updated[each.name] = x - Term(b, lr) * step;
    graph.set_next(state, updated[each.name]);
  }
  return updated;
}

void TrainingProgram::Impl::make_update() {
  Graph graph;
  Builder b(graph);
  const ValueId lr = b.input("rate", DType::f32, {}), by = b.input("scale", DType::f32, {});
  const std::map<std::string, ValueId> updated =
      options.optimizer == Optimizer::adamw ? adamw(b, lr, by) : sgd(b, lr, by);
  std::map<std::string, ValueId> averages;
  if (options.ema > 0) {
    for (const Parameter& each : parameters) {
      const ValueId state = shared_state(graph, *store, each.name + kAverage);
      const Term before(b, state), x(b, updated.at(each.name));
      averages[each.name] = before + (1 - static_cast<double>(options.ema)) * (x - before);
      graph.set_next(state, averages[each.name]);
    }
  }
  if (options.extra_updates) {
    const auto copied = [this](const Tensor& state) { return copy(state); };
    ExtraUpdates extra(b, *store, copied, updated, "");
    options.extra_updates(extra);
    renewed = extra.renewed();
    if (options.ema > 0) {
      ExtraUpdates extra_averages(b, *store, copied, averages, kAverage);
      options.extra_updates(extra_averages);
    }
  }
  update.emplace(session(std::move(graph), "update"));
  rate = update->input("rate");
  scale = update->input("scale");
}

std::string TrainingProgram::Impl::name_of(const Evaluation& which) const {
  std::string name = kEvaluate;
  if (which.part) name += "/" + options.parts.at(*which.part).first;
  return which.average ? name + "_average" : name;
}

Session& TrainingProgram::Impl::evaluation(const Evaluation& which) {
  if (which.average && options.ema == 0) fail_internal("there is no moving average");
  const auto found = evaluations.find(which);
  if (found != evaluations.end()) return found->second;
  const size_t whole = 1 + reports.size();
  Graph graph = which.part ? forward_to(whole + *which.part, 1) : forward_to(0, whole);
  if (which.average) {
    std::set<std::string> averaged(renewed.begin(), renewed.end());
    for (const Parameter& each : parameters) averaged.insert(each.name);
    for (const State& state : graph.states()) {
      Value& v = graph.value(state.value);
      if (!averaged.contains(v.name)) continue;
      v.name += kAverage;
      v.constant = store->at(v.name);
    }
  }
  return evaluations.emplace(which, forward_session(std::move(graph), name_of(which).c_str())).first->second;
}

const Session& TrainingProgram::Impl::ready_evaluation(const Evaluation& which) const {
  const auto found = evaluations.find(which);
  if (found == evaluations.end()) fail_internal("the evaluation was asked for a result before it ran");
  return found->second;
}

TrainingProgram::TrainingProgram(Graph graph, ValueId loss, std::vector<Parameter> parameters, const Reports& reports,
                                 ProgramOptions options)
    : impl_(std::make_unique<Impl>()) {
  Impl& s = *impl_;
  s.options = std::move(options);
  s.parameters = std::move(parameters);
  if (s.parameters.empty()) fail("there is no parameter to train");
  if (s.options.micro_batches < 1) fail("{} micro-batches, expected at least 1", s.options.micro_batches);
  if (!(s.options.ema >= 0 && s.options.ema < 1)) {
    fail("the decay of the moving average is {}, expected 0 or more and less than 1", s.options.ema);
  }
  if (s.options.session.passes.precision == Precision::fp16) {
    fail("training computes in fp32 or bf16: gradients in fp16 vanish unless the loss is scaled");
  }
  s.open_device();
  if (s.gpu && s.options.session.passes.precision == Precision::bf16) {
    fail("training on {} is in fp32: in bf16 it was not tried there; the CPU trains in bf16", s.options.session.device);
  }
  if (s.options.session.threads == 0) s.options.session.threads = available_processors();
  s.take_parameters(std::move(graph), loss, reports);
  s.make_states();
  s.make_gradients();
  s.make_norm();
  s.make_update();
}

TrainingProgram::~TrainingProgram() = default;
TrainingProgram::TrainingProgram(TrainingProgram&&) noexcept = default;
TrainingProgram& TrainingProgram::operator=(TrainingProgram&&) noexcept = default;

const std::vector<TensorInfo>& TrainingProgram::inputs() const { return impl_->gradients->inputs(); }
View TrainingProgram::input(std::string_view name) { return impl_->gradients->input(name); }

void TrainingProgram::run_gradients() {
  Impl& s = *impl_;
  if (s.micro_batches == s.options.micro_batches) fail_internal("more micro-batches than the options allow");
  s.gradients->run();
  ++s.micro_batches;
  s.norm_of_mean.reset();
}

int TrainingProgram::micro_batches() const { return impl_->micro_batches; }
std::string TrainingProgram::device() const {
  if (!impl_->gpu) return "cpu";
  return fmt::format("cuda:{} {}", impl_->gpu->facts().ordinal, impl_->gpu->facts().name);
}
std::shared_ptr<GpuDevice> TrainingProgram::gpu() const { return impl_->gpu; }
const ProgramOptions& TrainingProgram::options() const { return impl_->options; }
double TrainingProgram::loss() const { return *impl_->gradients->output(impl_->outputs[0]).as<float>(); }
ConstView TrainingProgram::report(size_t i) const { return impl_->gradients->output(impl_->outputs[1 + i]); }
const std::vector<std::string>& TrainingProgram::report_names() const { return impl_->reports; }

double TrainingProgram::gradient_norm() {
  Impl& s = *impl_;
  if (s.micro_batches == 0) fail_internal("the norm of no gradient was asked for");
  if (!s.norm_of_mean) {
    s.norm->run();
    s.norm_of_mean = std::sqrt(static_cast<double>(*s.norm->output(s.outputs[0]).as<float>())) / s.micro_batches;
  }
  return *s.norm_of_mean;
}

void TrainingProgram::update(double rate, double clip) {
  Impl& s = *impl_;
  const double norm = gradient_norm();
  if (!std::isfinite(norm)) fail_internal("an update by a gradient that is not finite");
  const double clipped = clip > 0 && norm > clip ? clip / norm : 1;
  *s.rate.as<float>() = static_cast<float>(rate);
  *s.scale.as<float>() = static_cast<float>(clipped / s.micro_batches);
  s.update->run();
  discard();
}

void TrainingProgram::discard() {
  Impl& s = *impl_;
  // Only sums that are added to have to be empty.
  if (s.options.micro_batches > 1) s.store->clear(kSums);
  s.micro_batches = 0;
  s.norm_of_mean.reset();
}

int64_t TrainingProgram::updates() const { return *impl_->store->show(kUpdates).data<int64_t>().data(); }

View TrainingProgram::evaluation_input(std::string_view name, const Evaluation& which) {
  return impl_->evaluation(which).input(name);
}
void TrainingProgram::run_evaluation(const Evaluation& which) { impl_->evaluation(which).run(); }
double TrainingProgram::evaluation_loss(bool average) const {
  return *impl_->ready_evaluation(average).output(impl_->outputs[0]).as<float>();
}
ConstView TrainingProgram::evaluation_report(size_t i, bool average) const {
  return impl_->ready_evaluation(average).output(impl_->outputs[1 + i]);
}

ConstView TrainingProgram::evaluation_part(const Evaluation& which) const {
  return impl_->ready_evaluation(which).output(impl_->outputs.at(1 + impl_->reports.size() + which.part.value()));
}

std::vector<std::string> TrainingProgram::states() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : *impl_->store) {
    const bool is_sum =
        name == kSums || std::ranges::any_of(impl_->parameters, [&, name = name](const Parameter& each) {
          return name == sum_name(each.name);
        });
    if (!is_sum) names.push_back(name);
  }
  return names;
}

const Tensor& TrainingProgram::state(std::string_view name) const { return impl_->store->show(name); }

const std::vector<Parameter>& TrainingProgram::parameters() const { return impl_->parameters; }
std::span<float> TrainingProgram::gradient_sums() {
  impl_->norm_of_mean.reset();  // they may be changed
  impl_->store->show(kSums);
  return impl_->sums.data<float>();
}

std::span<float> TrainingProgram::gradient_sums_on_gpu() {
  Impl& s = *impl_;
  if (!s.gpu) fail_internal("the gradient sums were asked for on a GPU, of a program on the CPU");
  s.norm_of_mean.reset();
  void* const at = s.gpu->unified() ? s.sums.raw() : s.store->on_gpu->address(s.sums);
  return {static_cast<float*>(at), s.sums.data<float>().size()};
}

int64_t TrainingProgram::arena_bytes() const {
  int64_t sum = 0;
  impl_->each_session([&](const char*, const Session& session) { sum += session.arena_bytes(); });
  return sum;
}

std::map<std::string, Session::Transfers> TrainingProgram::transfers() const {
  std::map<std::string, Session::Transfers> out;
  impl_->each_session([&](const char* name, const Session& session) { out[name] = session.transfers(); });
  return out;
}

TrainingProgram::Activations TrainingProgram::activations() const {
  return {
      .bytes = impl_->gradients->arena_bytes(), .nodes_again = impl_->again.nodes, .share_again = impl_->again.share};
}

Profile TrainingProgram::profile() const { return impl_->gradients->profile(); }

std::map<std::string, std::vector<KernelDecision>> TrainingProgram::choices() const {
  std::map<std::string, std::vector<KernelDecision>> out = impl_->options.choices;
  impl_->each_session([&](const char* name, const Session& session) { out[name] = session.choices(); });
  return out;
}

}  // namespace sparkpilot::train
