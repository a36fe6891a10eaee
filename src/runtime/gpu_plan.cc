// The part of a plan that runs on a GPU: which steps, where their memory is, what is copied between the devices.
//
// Consecutive steps on the GPU are a stretch: recorded once, as long as inputs stay where they are, and then run by one
// call. Where processor and GPU share their memory, every storage has one address and nothing is copied. Elsewhere each
// storage that a GPU step uses has a second address, and a stretch begins with the copies to the GPU that it needs and
// ends with those that later steps of the processor need. The first begins with all inputs, the last ends with all
// results, each one copy where they lie together. States stay on the GPU (gpu_states.cc). What is constant is copied
// when the plan is made.
#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "ir/launch.h"
#include "runtime/gpu_side.h"
#include "runtime/nvtx.h"

namespace sparkpilot {

void Plan::GpuSideDeleter::operator()(GpuSide* side) const { delete side; }

const PlanOptions& Plan::host_options() const { return gpu_ ? gpu_->on_host : options_; }

std::vector<std::string> Plan::nodes_left_to_cpu() const {
  return gpu_ ? gpu_->left_to_cpu : std::vector<std::string>();
}

Session::Transfers Plan::transfers_of_a_run() const {
  Session::Transfers out;
  if (!gpu_) return out;
  for (size_t s = 0; s < stretches_.size(); ++s) {
    for (size_t i = stretches_[s].begin; i < stretches_[s].end; ++i) {
      out.launches += std::ssize(steps_[i].launches);
    }
    merge_moves(s);
    for (const GpuSide::Move& move : gpu_->work[s].sent) out.bytes_to_gpu += move.bytes;
    for (const GpuSide::Move& move : gpu_->work[s].fetched) out.bytes_to_host += move.bytes;
    out.to_gpu += std::ssize(gpu_->work[s].sent);
    out.to_host += std::ssize(gpu_->work[s].fetched);
  }
  for (const GpuSide::StateMove& state : gpu_->states) {
    if (state.is_sent()) ++out.to_gpu, out.bytes_to_gpu += storage_[state.storage].bytes;
    if (state.is_fetched()) ++out.to_host, out.bytes_to_host += storage_[state.storage].bytes;
  }
  return out;
}

void Plan::begin_gpu_side() {
  if (options_.gpu) gpu_.reset(new GpuSide(options_));
}

// Continuations run on the CPU.
void Plan::leave_rest_to_cpu() {
  if (!gpu_) return;
  for (const NodeId id : rest_->nodes) {
    gpu_->left_to_cpu.push_back(qualified(*graph_.node(id).op) + " (a shape there depends on data)");
  }
}

// Takes a kernel for the GPU, if the node has one that accepts it.
bool Plan::add_gpu_step(Step& step, const NodeProblem& types) {
  if (!gpu_) return false;
  Problem problem = types.problem();
  problem.gpu = options_.gpu.get();
  const Node& node = graph_.node(step.node);
  const KernelChoice::Taken taken = step.dynamic ? KernelChoice::Taken() : options_.kernels.take(problem, Device::cuda);
  if (!taken.kernel) {
    std::string line = qualified(*node.op);
    for (const DeclinedKernel& declined : taken.declined) {
      const std::string reason = " (" + declined.reason + ")";
      if (!declined.reason.empty() && line.find(reason) == std::string::npos) line += reason;
    }
    if (!node.op->traits.view) gpu_->left_to_cpu.push_back(line);
    return false;
  }
  Launch made = launch(graph_, step.node, problem, options_.kernels, Device::cuda);
  step.on_gpu = true;
  step.kernel = made.kernel;
  step.decision = std::move(made.decision);
  step.declined = std::move(made.declined);
  step.state = std::move(made.state);
  return true;
}

// Memory for a state, where both devices reach it or can copy it.
Tensor Plan::shared_copy(const Tensor& from) const {
  if (!options_.gpu) return from.clone();
  Tensor out(from.dtype(), from.shape(), options_.gpu->allocate(from.bytes(), options_.gpu->shared_place()), 0);
  std::memcpy(out.raw(), from.raw(), static_cast<size_t>(from.bytes()));
  return out;
}

std::shared_ptr<Buffer> Plan::new_memory(int64_t bytes) const {
  if (!gpu_) return std::make_shared<Buffer>(bytes);
  return options_.gpu->allocate(bytes, options_.gpu->shared_place());
}

// What is still to be allocated, held against what can be taken.
void Plan::expect_gpu_memory(int64_t arena_bytes, int64_t owned_bytes) const {
  if (!gpu_) return;
  int64_t weights = 0, workspace = 0;
  int64_t activations = arena_bytes + owned_bytes;
  for (const Step& step : steps_) {
    if (step.on_gpu && step.state) workspace = std::max(workspace, step.state->workspace);
  }
  for (int i = 0; i < graph_.value_count(); ++i) {
    const Value& v = graph_.value(ValueId{i});
    if (!v.shape || (v.kind == ValueKind::constant && !v.constant.present())) continue;
    const int64_t bytes = storage_bytes(v.dtype, v.shape->elements());
    if (v.kind == ValueKind::constant) weights += bytes;
    // States that another session has there need no more.
    const bool there = v.kind == ValueKind::state && options_.gpu_states &&
                       options_.gpu_states->at(states_.find(v.name)->second).buffer;
    if (v.kind == ValueKind::input || (v.kind == ValueKind::state && !there)) activations += input_space(bytes);
  }
  GpuLoad::needs(*options_.gpu, weights + activations + workspace,
                 fmt::format("for weights ({:.3f} GB), activations ({:.3f} GB) and scratch ({:.3f} GB)",
                             static_cast<double>(weights) / 1e9, static_cast<double>(activations) / 1e9,
                             static_cast<double>(workspace) / 1e9));
}

// Gives every storage that a step on the GPU uses its address there, and copies the constants.
void Plan::plan_gpu_memory() {
  if (!gpu_) return;
  GpuDevice& gpu = *options_.gpu;
  GpuSide& side = *gpu_;
  const bool unified = gpu.unified();
  side.addresses.assign(storage_.size(), nullptr);
  side.arena = unified ? arena_ : gpu.allocate(arena_->size(), Place::device);
  side.owned = unified ? owned_ : gpu.allocate(owned_->size(), Place::device);
  int64_t workspace = 0, inputs = 0;
  std::vector<bool> used(storage_.size()), computed(storage_.size()), read_on_host(storage_.size());
  for (const Step& step : steps_) {
    if (step.skipped) continue;
    if (!step.on_gpu) {
      for (const ValueId input : graph_.node(step.node).inputs) {
        if (input.present()) read_on_host[static_cast<size_t>(storage_of(input))] = true;
      }
      continue;
    }
    if (step.state) workspace = std::max(workspace, step.state->workspace);
    const Node& node = graph_.node(step.node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool packed = step.state && i < 64 && (step.state->consumed >> i & 1);
      if (node.inputs[i].present() && !packed) used[static_cast<size_t>(storage_of(node.inputs[i]))] = true;
    }
    for (const ValueId output : node.outputs) {
      const auto storage = static_cast<size_t>(storage_of(output));
      used[storage] = computed[storage] = true;
    }
  }
  if (rest_) {
    for (const NodeId id : rest_->nodes) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (input.present() && storage_of(input) >= 0) read_on_host[static_cast<size_t>(storage_of(input))] = true;
      }
    }
  }
  // A state that nothing here reads gets its next value where that is computed, if it can (plan_states()): another
  // program may read it there.
  for (const State& state : graph_.states()) {
    const int own = storage_of(state.value), next = storage_of(state.next);
    if (rest_ || own < 0 || next < 0 || read_on_host[static_cast<size_t>(own)]) continue;
    const Value &value = graph_.value(state.value), &after = graph_.value(state.next);
    const bool same_type = after.dtype == value.dtype && after.shape == value.shape;
    const bool is_result = std::ranges::any_of(copies_, [&](const Copy& copy) { return copy.storage == own; });
    if (computed[static_cast<size_t>(next)] && same_type && !is_result) used[static_cast<size_t>(own)] = true;
  }
  side.workspace = gpu.allocate(workspace, gpu.own_place());
  for (const ValueId id : graph_.inputs()) inputs += input_space(storage_[static_cast<size_t>(storage_of(id))].bytes);
  side.inputs = unified ? nullptr : gpu.allocate(inputs, Place::device);
  inputs = 0;
  for (const ValueId id : graph_.inputs()) {
    const auto at = static_cast<size_t>(storage_of(id));
    if (used[at] && !unified) side.addresses[at] = side.inputs->data() + inputs;
    inputs += input_space(storage_[at].bytes);
  }
  for (int i = 0; i < graph_.value_count(); ++i) {
    const Value& v = graph_.value(ValueId{i});
    if (v.kind != ValueKind::state || storage_of(ValueId{i}) < 0) continue;
    const auto at = static_cast<size_t>(storage_of(ValueId{i}));
    if (!used[at] || unified) continue;
    GpuState& state = options_.gpu_states->at(states_.find(v.name)->second);
    if (!state.buffer) state.buffer = gpu.allocate(state.host->size(), Place::device);
    side.addresses[at] = state.on_gpu(storage_[at].data);
  }
  for (size_t i = 0; i < storage_.size(); ++i) {
    Storage& storage = storage_[i];
    if (!used[i]) continue;
    switch (storage.kind) {
      case Storage::arena: side.addresses[i] = side.arena->data() + storage.offset; break;
      case Storage::owned: side.addresses[i] = side.owned->data() + storage.offset; break;
      case Storage::constant: break;
      case Storage::input:
      case Storage::state:
        if (unified) side.addresses[i] = const_cast<void*>(storage.data);
        break;
      case Storage::dynamic: fail_internal("a kernel for the GPU uses memory of a shape that depends on data");
    }
  }
  move_constants(used, read_on_host);
}

// Copies the constants that the GPU reads. Weights are in memory once: the host's go, unless the processor reads them
// and has its own memory.
void Plan::move_constants(const std::vector<bool>& used, const std::vector<bool>& read_on_host) {
  GpuDevice& gpu = *options_.gpu;
  for (int i = 0; i < graph_.value_count(); ++i) {
    Value& v = graph_.value(ValueId{i});
    const auto at = storage_of(ValueId{i}) < 0 ? storage_.size() : static_cast<size_t>(storage_of(ValueId{i}));
    if (v.kind != ValueKind::constant || at == storage_.size() || !used[at]) continue;
    Storage& storage = storage_[at];
    if (!storage.data) fail_internal("a kernel for the GPU reads a constant that was freed");
    const std::shared_ptr<Buffer> buffer = gpu.upload(storage.data, storage.bytes);
    gpu_->pieces.push_back(buffer);
    gpu_->addresses[at] = buffer->data();
    if (gpu.unified()) {
      v.constant = Tensor(v.dtype, *v.shape, buffer, 0);
      storage.data = buffer->data();
    } else if (!read_on_host[at] && !storage.persistent) {
      v.constant = Tensor();
      storage.data = nullptr;
    }
  }
  gpu.finish_uploads();  // the one wait of a load
}

// Which storages each stretch copies. A storage is up to date on one device or on both; inputs are on the host when a
// run begins, states on both, and what is read after it must be on the host at the end.
void Plan::plan_moves() {
  if (!gpu_) return;
  GpuSide& side = *gpu_;
  side.work.clear();
  side.work.resize(stretches_.size());
  if (options_.gpu->unified()) return;
  std::vector<bool> on_host(storage_.size(), true), on_gpu(storage_.size());
  std::vector<size_t> written_by(storage_.size());  // the stretch on the GPU that wrote it last
  for (size_t i = 0; i < storage_.size(); ++i) {
    on_gpu[i] =
        (storage_[i].kind == Storage::constant || storage_[i].kind == Storage::state) && side.addresses[i] != nullptr;
  }
  size_t first = stretches_.size(), last = 0;
  for (size_t s = stretches_.size(); s-- > 0;) {
    if (!stretches_[s].on_gpu) continue;
    first = s;
    last = std::max(last, s);
  }
  std::vector<bool> written_on_gpu(storage_.size());
  const auto need_on_host = [&](size_t storage) {
    if (on_host[storage]) return;
    side.work[written_by[storage]].to_host.push_back(static_cast<int>(storage));
    on_host[storage] = true;
  };
  for (size_t s = 0; s < stretches_.size(); ++s) {
    for (size_t i = stretches_[s].begin; i < stretches_[s].end; ++i) {
      const Step& step = steps_[i];
      if (step.skipped) continue;
      const Node& node = graph_.node(step.node);
      for (const ValueId input : node.inputs) {
        if (!input.present()) continue;
        const auto storage = static_cast<size_t>(storage_of(input));
        if (!step.on_gpu) {
          need_on_host(storage);
        } else if (!on_gpu[storage] && side.addresses[storage]) {
          const bool is_input = storage_[storage].kind == Storage::input;
          side.work[is_input ? first : s].to_gpu.push_back(static_cast<int>(storage));
          on_gpu[storage] = true;
        }
      }
      for (const ValueId output : node.outputs) {
        const auto storage = static_cast<size_t>(storage_of(output));
        on_gpu[storage] = step.on_gpu;
        on_host[storage] = !step.on_gpu;
        written_by[storage] = s;
        written_on_gpu[storage] = step.on_gpu;
      }
    }
  }
  plan_states(written_on_gpu);
  // What is read after the run, all at its end.
  std::vector<bool> wanted(storage_.size());
  const auto want = [&](ValueId id) {
    if (storage_of(id) >= 0) wanted[static_cast<size_t>(storage_of(id))] = true;
  };
  for (const Graph::Output& output : graph_.outputs()) want(output.value);
  for (const GpuSide::StateMove& state : side.states) {
    if (state.next == GpuSide::StateMove::on_host) want(graph_.states()[state.index].next);
  }
  if (rest_) std::ranges::for_each(rest_->boundary, want);
  for (size_t i = 0; i < storage_.size(); ++i) {
    wanted[i] = wanted[i] || (!options_.keep.empty() && storage_[i].persistent);
    if (!wanted[i] || on_host[i] || storage_[i].kind == Storage::state) continue;
    written_by[i] = last;
    need_on_host(i);
  }
}

// One copy for storages that lie together on both sides, in the session's inputs or in the results.
void Plan::merge_moves(size_t index) const {
  struct Region {
    const std::byte* begin;
    int64_t size, alignment;
  };
  std::vector<Region> regions{{owned_->data(), owned_->size(), 64}};
  if (options_.inputs) regions.push_back({options_.inputs->data(), options_.inputs->size(), kInputAlignment});
  const auto merged = [&](std::vector<int> storages) {
    std::ranges::sort(storages, {}, [&](int i) { return storage_[static_cast<size_t>(i)].data; });
    std::vector<GpuSide::Move> out;
    for (const int i : storages) {
      const Storage& storage = storage_[static_cast<size_t>(i)];
      auto* const host = static_cast<std::byte*>(const_cast<void*>(storage.data));
      auto* const on_gpu = static_cast<std::byte*>(gpu_->addresses[static_cast<size_t>(i)]);
      GpuSide::Move* const before = out.empty() ? nullptr : &out.back();
      const bool together = before && std::ranges::any_of(regions, [&](const Region& region) {
                              return before->host >= region.begin &&
                                     host + storage.bytes <= region.begin + region.size &&
                                     host - (before->host + before->bytes) < region.alignment;
                            });
      if (together && on_gpu - before->on_gpu == host - before->host)
        before->bytes = host - before->host + storage.bytes;
      else out.push_back({host, on_gpu, storage.bytes});
    }
    return out;
  };
  GpuSide::Work& work = gpu_->work[index];
  work.sent = merged(work.to_gpu);
  work.fetched = merged(work.to_host);
}

// After inputs have moved: addresses are part of what was recorded.
void Plan::bind_on_gpu() {
  if (!gpu_) return;
  if (options_.gpu->unified()) {
    for (const ValueId id : graph_.inputs()) {
      const auto storage = static_cast<size_t>(storage_of(id));
      gpu_->addresses[storage] = const_cast<void*>(storage_[storage].data);
    }
  }
  for (GpuSide::Work& work : gpu_->work) work.recording = GpuRecording();
}

void* Plan::address_of(size_t storage, bool on_gpu) const {
  return on_gpu ? gpu_->addresses[storage] : const_cast<void*>(storage_[storage].data);
}

void Plan::enqueue_step(Step& step) {
  std::vector<GpuLaunched> launched;
  gpu_->stream.list_launches(&launched);
  try {
    step.kernel->run({.node = &graph_.node(step.node),
                      .inputs = step.in,
                      .outputs = step.out,
                      .workspace = gpu_->workspace->data(),
                      .state = step.state.get(),
                      .stream = &gpu_->stream});
  } catch (const Error& error) {
    gpu_->stream.list_launches(nullptr);
    fail_at(graph_, step.node, error);
  }
  gpu_->stream.list_launches(nullptr);
  step.launches.clear();
  for (const auto& [function, how] : launched) {
    step.launches.push_back({.kernel = function->name,
                             .blocks = int64_t{how.grid_x} * how.grid_y * how.grid_z,
                             .shared_bytes = static_cast<int64_t>(how.shared_bytes),
                             .threads = static_cast<int>(how.threads),
                             .registers = function->registers});
  }
}

void Plan::move_before(size_t index) {
  merge_moves(index);
  for (const GpuSide::Move& move : gpu_->work[index].sent) gpu_->stream.copy_to_gpu(move.on_gpu, move.host, move.bytes);
}
void Plan::move_after(size_t index) {
  if (index + 1 == stretches_.size()) give_states_their_next();
  for (const GpuSide::Move& move : gpu_->work[index].fetched) {
    gpu_->stream.copy_to_host(move.host, move.on_gpu, move.bytes);
  }
}

void Plan::run_on_gpu(size_t index) {
  const Stretch& stretch = stretches_[index];
  GpuSide& side = *gpu_;
  side.busy = true;
  if (options_.profile) return time_on_gpu(index);
  GpuSide::Work& work = side.work[index];
  if (work.recording.empty()) {
    if (options_.gpu_times && !work.times) work.times = std::make_unique<GpuSide::Times>(options_.gpu);
    const auto timed = [&](GpuTimer GpuSide::Times::*timer, const auto& enqueue) {
      if (work.times) ((*work.times).*timer).begin(side.stream);
      enqueue();
      if (work.times) ((*work.times).*timer).end(side.stream);
    };
    work.recording = side.stream.record([&] {
      timed(&GpuSide::Times::sent, [&] { move_before(index); });
      timed(&GpuSide::Times::computed, [&] {
        for (size_t i = stretch.begin; i < stretch.end; ++i) {
          if (!steps_[i].skipped) enqueue_step(steps_[i]);
        }
      });
      timed(&GpuSide::Times::fetched, [&] { move_after(index); });
    });
  }
  const int64_t begin = work.times ? now_ns() : 0;
  side.stream.run(work.recording);
  if (work.times) work.times->enqueue_ms = static_cast<double>(now_ns() - begin) * 1e-6;
}

Session::GpuTimes Plan::gpu_times() const {
  Session::GpuTimes out;
  if (!gpu_) return out;
  for (const GpuSide::Work& work : gpu_->work) {
    if (!work.times || work.recording.empty()) continue;
    out.enqueue_ms += work.times->enqueue_ms;
    out.to_gpu_ms += work.sent.empty() ? 0 : work.times->sent.milliseconds();
    out.compute_ms += work.times->computed.milliseconds();
    out.to_host_ms += work.fetched.empty() ? 0 : work.times->fetched.milliseconds();
  }
  return out;
}

// Each step between two events, all in one recording: what it takes on the GPU, without what the processor needs to
// hand it over. A profiler could not tell which kernel of a recording belongs to which range, so while one is attached
// the steps are enqueued one by one. Their ranges have the names of their kernels, which the first recording tells.
void Plan::time_on_gpu(size_t index) {
  const Stretch& stretch = stretches_[index];
  GpuSide::Work& work = gpu_->work[index];
  const bool first = work.timers.empty();
  for (size_t i = stretch.begin; first && i < stretch.end; ++i) {
    work.timers.push_back(steps_[i].skipped ? nullptr : std::make_unique<GpuTimer>(options_.gpu));
  }
  const auto enqueue = [&] {
    move_before(index);
    for (size_t i = stretch.begin; i < stretch.end; ++i) {
      GpuTimer* const timer = work.timers[i - stretch.begin].get();
      if (!timer) continue;
      const NvtxRange range(steps_[i].range);
      timer->begin(gpu_->stream);
      enqueue_step(steps_[i]);
      timer->end(gpu_->stream);
    }
    move_after(index);
  };
  if (first || (!ranges_ && work.recording.empty())) work.recording = gpu_->stream.record(enqueue);
  for (size_t i = stretch.begin; first && ranges_ && i < stretch.end; ++i) {
    if (!steps_[i].skipped) name_range(steps_[i]);
  }
  int64_t at = now_ns();
  if (ranges_) enqueue();
  else gpu_->stream.run(work.recording);
  gpu_->stream.wait();
  for (size_t i = stretch.begin; i < stretch.end; ++i) {
    GpuTimer* const timer = work.timers[i - stretch.begin].get();
    if (!timer) continue;
    const auto took = static_cast<int64_t>(timer->milliseconds() * 1e6);
    ++steps_[i].calls;
    steps_[i].total_ns += took;
    // In a trace the steps follow one another from when the run was begun.
    if (options_.trace) events_.push_back({static_cast<int>(i), at, at + took});
    at += took;
  }
}

void Plan::wait_for_gpu() {
  if (!gpu_ || !gpu_->busy) return;
  gpu_->busy = false;
  gpu_->stream.wait();
}

}  // namespace sparkpilot
