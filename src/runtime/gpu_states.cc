// States of a plan on a GPU that has its own memory: they stay there from one run to the next. A state is copied only
// where the processor reads or computes it, or where the caller has its memory.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/gpu_side.h"

namespace sparkpilot {

bool GpuState::fetch(GpuStream& stream) {
  if (!gpu_is_newer) return false;
  stream.copy_to_host(host->data(), buffer->data(), host->size());
  gpu_is_newer = false;
  return true;
}

GpuState& GpuStates::at(const Tensor& state) {
  GpuState& out = of[state.buffer().get()];
  out.host = state.buffer();
  return out;
}

void GpuStates::show(const Tensor& state) {
  GpuState& memory = at(state);
  GpuStream stream(gpu);
  if (memory.fetch(stream)) stream.wait();
  memory.host_is_newer = true;
}

void GpuStates::clear(Tensor& state) {
  GpuState& memory = at(state);
  if (!memory.gpu_is_newer) {
    std::memset(state.raw(), 0, static_cast<size_t>(state.bytes()));
    memory.host_is_newer = true;
    return;
  }
  GpuStream stream(gpu);
  stream.fill(memory.on_gpu(state.raw()), 0, state.bytes());
  stream.wait();
}

std::byte* GpuStates::address(const Tensor& state) {
  GpuState& memory = at(state);
  if (!memory.buffer) fail_internal("a state that no session uses was asked for on the GPU");
  if (memory.host_is_newer) {
    GpuStream stream(gpu);
    stream.copy_to_gpu(memory.buffer->data(), memory.host->data(), memory.host->size());
    stream.wait();
    memory.host_is_newer = false;
  }
  memory.gpu_is_newer = true;
  return memory.on_gpu(state.raw());
}

namespace {

Tensor& state_of(StateStore& store, std::string_view name) {
  const auto found = store.find(name);
  if (found == store.end()) fail("there is no state \"{}\"", name);
  return found->second;
}

}  // namespace

const Tensor& StateStore::show(std::string_view name) {
  const Tensor& state = state_of(*this, name);
  if (on_gpu) on_gpu->show(state);
  return state;
}

void StateStore::clear(std::string_view name) {
  Tensor& state = state_of(*this, name);
  if (on_gpu) on_gpu->clear(state);
  else std::memset(state.raw(), 0, static_cast<size_t>(state.bytes()));
}

// Where each state is read, and where its next value is computed.
void Plan::plan_states(const std::vector<bool>& written_on_gpu) {
  GpuSide& side = *gpu_;
  side.states.clear();
  // What the processor may read without a step that says so.
  const bool all_on_host = loses_nan_ || !is_straight() || !options_.keep.empty();
  for (size_t s = 0; s < graph_.states().size(); ++s) {
    const State& state = graph_.states()[s];
    const auto own = static_cast<size_t>(storage_of(state.value));
    const int next = storage_of(state.next);
    GpuSide::StateMove move{.state = &options_.gpu_states->at(states_.find(graph_.value(state.value).name)->second),
                            .index = s,
                            .storage = own};
    move.state->shown |= options_.gpu_states->all_shown;
    // Then the processor copies it after the steps, before it gets its next value.
    const bool shown_as_result =
        std::ranges::any_of(copies_, [&](const Copy& copy) { return copy.storage == static_cast<int>(own); });
    move.read_on_host = all_on_host || shown_as_result;
    for (const Step& step : steps_) {
      if (step.on_gpu || step.skipped) continue;
      for (const ValueId input : graph_.node(step.node).inputs) {
        move.read_on_host |= input.present() && storage_of(input) == static_cast<int>(own);
      }
    }
    const bool computed_on_gpu =
        next >= 0 && written_on_gpu[static_cast<size_t>(next)] && side.addresses[own] != nullptr;
    const Value &value = graph_.value(state.value), &after = graph_.value(state.next);
    if (state.next == state.value) {
      move.next = GpuSide::StateMove::unchanged;
    } else if (updated_[s]) {
      move.next = computed_on_gpu ? GpuSide::StateMove::in_place_on_gpu : GpuSide::StateMove::on_host;
    } else if (computed_on_gpu && !rest_ && !shown_as_result && after.dtype == value.dtype &&
               after.shape == value.shape) {
      move.next = GpuSide::StateMove::copied_on_gpu;
      move.from = static_cast<size_t>(next);
    } else {
      move.next = GpuSide::StateMove::on_host;
    }
    // Its next value would be the newer one here, and the rest of the memory there.
    if (move.next == GpuSide::StateMove::on_host && !move.state->shown &&
        storage_[own].bytes < move.state->host->size()) {
      fail("state \"{}\" shares its memory with others, so a GPU must compute what follows it", value.name);
    }
    side.states.push_back(move);
  }
}

// Before the steps: brings the states to where they are read.
void Plan::send_states() {
  if (!gpu_) return;
  GpuSide& side = *gpu_;
  for (const GpuSide::StateMove& move : side.states) {
    GpuState& state = *move.state;
    const Storage& storage = storage_[move.storage];
    auto* const host = const_cast<void*>(storage.data);
    // Another plan of the session may have left it there.
    if (!state.shown && move.read_on_host && state.fetch(side.stream)) side.stream.wait();
    if (!state.buffer || (!state.shown && !state.host_is_newer)) continue;
    side.busy = true;
    if (state.shown) side.stream.copy_to_gpu(state.on_gpu(host), host, storage.bytes);
    else side.stream.copy_to_gpu(state.buffer->data(), state.host->data(), state.host->size());
    state.host_is_newer = false;
  }
}

// Once all kernels have read the present ones, and nothing can fail any more that would leave them as they are: part of
// the recording if it ends the run.
void Plan::give_states_their_next() {
  for (const GpuSide::StateMove& state : gpu_->states) {
    if (state.next != GpuSide::StateMove::copied_on_gpu) continue;
    gpu_->busy = true;
    gpu_->stream.copy_on_gpu(gpu_->addresses[state.storage], gpu_->addresses[state.from],
                             storage_[state.storage].bytes);
  }
}

// After the steps.
void Plan::fetch_states() {
  if (!gpu_) return;
  if (!stretches_.empty() && !stretches_.back().on_gpu) give_states_their_next();
  for (const GpuSide::StateMove& move : gpu_->states) {
    if (!move.is_fetched()) continue;
    gpu_->busy = true;
    const Storage& storage = storage_[move.storage];
    gpu_->stream.copy_to_host(const_cast<void*>(storage.data), move.state->on_gpu(storage.data), storage.bytes);
  }
}

// Notes which side is newer; true if the state has its next value.
bool Plan::commit_on_gpu(size_t index) {
  if (!gpu_ || gpu_->states.empty()) return false;
  const GpuSide::StateMove& move = gpu_->states[index];
  if (move.next == GpuSide::StateMove::unchanged) return true;
  const bool on_gpu = move.next != GpuSide::StateMove::on_host;
  move.state->gpu_is_newer = on_gpu && !move.is_fetched();
  move.state->host_is_newer = !on_gpu;
  return on_gpu;
}

void Plan::state_will_be_reset(size_t index) {
  if (!gpu_ || gpu_->states.empty()) return;
  GpuState& state = *gpu_->states[index].state;
  if (storage_[gpu_->states[index].storage].bytes < state.host->size() && state.fetch(gpu_->stream)) {
    gpu_->stream.wait();  // what lies next to it
  }
  state.gpu_is_newer = false;
  state.host_is_newer = true;
}

}  // namespace sparkpilot
