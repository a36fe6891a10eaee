// The part of a plan that runs on a GPU: which steps, where their memory is, what is copied between the devices.
//
// Consecutive steps on the GPU are a stretch: recorded once, as long as inputs stay where they are, and then run by one
// call. Where processor and GPU share their memory, every storage has one address and nothing is copied. Elsewhere each
// storage that a GPU step uses has a second address, and a stretch begins with the copies to the GPU that it needs and
// ends with those that later steps of the processor, or the results, need. What is constant is copied when the plan is
// made.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/launch.h"
#include "runtime/plan_impl.h"
#include "tensor/gpu.h"

namespace sparkpilot {

struct Plan::GpuSide {
  explicit GpuSide(const PlanOptions& options) : stream(options.gpu), on_host(options) { on_host.gpu = nullptr; }

  struct Work {
    std::vector<int> to_gpu, to_host;  // storages, before and after the steps
    GpuRecording recording;
  };

  GpuStream stream;
  PlanOptions on_host;  // of continuations and bodies, which run on the CPU
  std::vector<std::string> left_to_cpu;
  std::vector<void*> addresses;  // by storage; null: the GPU does not use it
  std::shared_ptr<Buffer> arena, owned, workspace;
  std::vector<std::shared_ptr<Buffer>> pieces;  // constants, inputs and states
  std::vector<Work> work;                       // by stretch
  bool busy = false;                            // something was enqueued and not waited for
};

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
      out.launches += steps_[i].on_gpu && !steps_[i].skipped ? steps_[i].launches : 0;
    }
    for (const int i : gpu_->work[s].to_gpu) out.bytes_to_gpu += storage_[static_cast<size_t>(i)].bytes;
    for (const int i : gpu_->work[s].to_host) out.bytes_to_host += storage_[static_cast<size_t>(i)].bytes;
    out.to_gpu += static_cast<int64_t>(gpu_->work[s].to_gpu.size());
    out.to_host += static_cast<int64_t>(gpu_->work[s].to_host.size());
  }
  return out;
}

void Plan::begin_gpu_side() {
  if (options_.gpu) gpu_.reset(new GpuSide(options_));
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
      if (!declined.reason.empty()) line += " (" + declined.reason + ")";
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

// Gives every storage that a step on the GPU uses its address there, and copies the constants.
void Plan::plan_gpu_memory() {
  if (!gpu_) return;
  GpuDevice& gpu = *options_.gpu;
  GpuSide& side = *gpu_;
  const bool unified = gpu.unified();
  side.addresses.assign(storage_.size(), nullptr);
  side.arena = unified ? arena_ : gpu.allocate(arena_->size(), Place::device);
  side.owned = unified ? owned_ : gpu.allocate(owned_->size(), Place::device);
  int64_t workspace = 0;
  std::vector<bool> used(storage_.size()), read_on_host(storage_.size());
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
    for (const ValueId output : node.outputs) used[static_cast<size_t>(storage_of(output))] = true;
  }
  side.workspace = gpu.allocate(workspace, gpu.own_place());
  for (size_t i = 0; i < storage_.size(); ++i) {
    Storage& storage = storage_[i];
    if (!used[i]) continue;
    const auto piece = [&](Place place) {
      side.pieces.push_back(gpu.allocate(storage.bytes, place));
      return side.pieces.back()->data();
    };
    switch (storage.kind) {
      case Storage::arena: side.addresses[i] = side.arena->data() + storage.offset; break;
      case Storage::owned: side.addresses[i] = side.owned->data() + storage.offset; break;
      case Storage::constant: break;
      case Storage::input:
      case Storage::state: side.addresses[i] = unified ? const_cast<void*>(storage.data) : piece(Place::device); break;
      case Storage::dynamic: fail_internal("a kernel for the GPU uses memory of a shape that depends on data");
    }
  }
  move_constants(used, read_on_host);
}

// Copies the constants that the GPU reads. Weights are in memory once: the host's go, unless the processor reads them
// and has memory of its own.
void Plan::move_constants(const std::vector<bool>& used, const std::vector<bool>& read_on_host) {
  GpuDevice& gpu = *options_.gpu;
  for (int i = 0; i < graph_.value_count(); ++i) {
    Value& v = graph_.value(ValueId{i});
    const auto at = storage_of(ValueId{i}) < 0 ? storage_.size() : static_cast<size_t>(storage_of(ValueId{i}));
    if (v.kind != ValueKind::constant || at == storage_.size() || !used[at]) continue;
    Storage& storage = storage_[at];
    if (!storage.data) fail_internal("a kernel for the GPU reads a constant that was freed");
    const std::shared_ptr<Buffer> buffer = gpu.allocate(storage.bytes, gpu.own_place());
    gpu_->pieces.push_back(buffer);
    gpu_->addresses[at] = buffer->data();
    gpu_->stream.copy_to_gpu(buffer->data(), storage.data, storage.bytes);
    gpu_->stream.wait();
    if (gpu.unified()) {
      v.constant = Tensor(v.dtype, *v.shape, buffer, 0);
      storage.data = buffer->data();
    } else if (!read_on_host[at] && !storage.persistent) {
      v.constant = Tensor();
      storage.data = nullptr;
    }
  }
}

// Which storages each stretch copies. A storage is up to date on one device or on both; inputs and states are on the
// host when a run begins, and what is read after it must be there at the end.
void Plan::plan_moves() {
  if (!gpu_) return;
  GpuSide& side = *gpu_;
  side.work.clear();
  side.work.resize(stretches_.size());
  if (options_.gpu->unified()) return;
  std::vector<bool> on_host(storage_.size(), true), on_gpu(storage_.size());
  std::vector<size_t> written_by(storage_.size());  // the stretch on the GPU that wrote it last
  for (size_t i = 0; i < storage_.size(); ++i) on_gpu[i] = storage_[i].kind == Storage::constant && side.addresses[i];
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
          side.work[s].to_gpu.push_back(static_cast<int>(storage));
          on_gpu[storage] = true;
        }
      }
      for (const ValueId output : node.outputs) {
        const auto storage = static_cast<size_t>(storage_of(output));
        on_gpu[storage] = step.on_gpu;
        on_host[storage] = !step.on_gpu;
        written_by[storage] = s;
      }
    }
  }
  for (size_t i = 0; i < storage_.size(); ++i) {
    if (storage_[i].persistent || storage_[i].kind == Storage::state) need_on_host(i);
  }
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
  const int64_t before = gpu_->stream.counts().launches;
  step.kernel->run({.node = &graph_.node(step.node),
                    .inputs = step.in,
                    .outputs = step.out,
                    .workspace = gpu_->workspace->data(),
                    .state = step.state.get(),
                    .stream = &gpu_->stream});
  step.launches = gpu_->stream.counts().launches - before;
}

void Plan::move_before(size_t index) {
  for (const int i : gpu_->work[index].to_gpu) {
    const auto at = static_cast<size_t>(i);
    gpu_->stream.copy_to_gpu(gpu_->addresses[at], storage_[at].data, storage_[at].bytes);
  }
}
void Plan::move_after(size_t index) {
  for (const int i : gpu_->work[index].to_host) {
    const auto at = static_cast<size_t>(i);
    gpu_->stream.copy_to_host(const_cast<void*>(storage_[at].data), gpu_->addresses[at], storage_[at].bytes);
  }
}

void Plan::run_on_gpu(size_t index) {
  const Stretch& stretch = stretches_[index];
  GpuSide& side = *gpu_;
  side.busy = true;
  if (options_.profile) return time_on_gpu(index);
  GpuSide::Work& work = side.work[index];
  if (work.recording.empty()) {
    work.recording = side.stream.record([&] {
      move_before(index);
      for (size_t i = stretch.begin; i < stretch.end; ++i) {
        if (!steps_[i].skipped) enqueue_step(steps_[i]);
      }
      move_after(index);
    });
  }
  side.stream.run(work.recording);
}

// Step by step, not recorded: what a step takes on the GPU, without what its launch costs.
void Plan::time_on_gpu(size_t index) {
  const Stretch& stretch = stretches_[index];
  GpuTimer timer(options_.gpu);
  move_before(index);
  for (size_t i = stretch.begin; i < stretch.end; ++i) {
    Step& step = steps_[i];
    if (step.skipped) continue;
    timer.begin(gpu_->stream);
    enqueue_step(step);
    timer.end(gpu_->stream);
    ++step.calls;
    step.total_ns += static_cast<int64_t>(timer.milliseconds() * 1e6);
  }
  move_after(index);
}

void Plan::wait_for_gpu() {
  if (!gpu_ || !gpu_->busy) return;
  gpu_->busy = false;
  gpu_->stream.wait();
}

}  // namespace sparkpilot
