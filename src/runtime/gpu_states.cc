// States of a plan on a GPU that has its own memory: they stay there from one run to the next. A state is copied only
// where the processor reads or computes it, or where the caller has its memory.
#include <algorithm>

#include "base/error.h"
#include "runtime/gpu_side.h"

namespace sparkpilot {

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
    GpuSide::StateMove move{
        .state = &options_.gpu_states->of[graph_.value(state.value).name], .index = s, .storage = own};
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
    if (state.shown) {
      state.host_is_newer = true;
    } else if (move.read_on_host && state.gpu_is_newer) {  // another plan of the session left it there
      side.stream.copy_to_host(host, state.buffer->data(), storage.bytes);
      side.stream.wait();
      state.gpu_is_newer = false;
    }
    if (!state.buffer || !state.host_is_newer) continue;
    side.busy = true;
    side.stream.copy_to_gpu(state.buffer->data(), host, storage.bytes);
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
    gpu_->stream.copy_to_host(const_cast<void*>(storage.data), move.state->buffer->data(), storage.bytes);
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

void Plan::state_was_reset(size_t index) {
  if (!gpu_ || gpu_->states.empty()) return;
  gpu_->states[index].state->gpu_is_newer = false;
  gpu_->states[index].state->host_is_newer = true;
}

}  // namespace sparkpilot
