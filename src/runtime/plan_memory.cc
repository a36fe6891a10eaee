// Assigns memory to every value of a plan: its storage, its lifetime, its offset in the arena.
#include <algorithm>
#include <numeric>

#include "ir/storage_rules.h"
#include "runtime/arena.h"
#include "runtime/plan_impl.h"

namespace sparkpilot {

int Plan::new_storage(Storage storage, ValueId id) {
  storage_index_[id] = static_cast<int>(storage_.size());
  storage_.push_back(std::move(storage));
  return storage_of(id);
}

// The state's memory in the store; the first plan that has the state sets its initial contents.
void Plan::bind_state(ValueId id) {
  Value& v = graph_.value(id);
  const auto state =
      std::lower_bound(graph_.states().begin(), graph_.states().end(), id,
                       [](const State& s, ValueId value) { return s.value < value; });  // they are sorted
  const bool resettable = state != graph_.states().end() && state->value == id && state->resettable;
  const auto [at, fresh] = states_.try_emplace(v.name);
  if (fresh) at->second = resettable || options_.gpu ? shared_copy(v.constant) : v.constant;
  if (options_.gpu && at->second.place() == Place::host) {
    fail("state \"{}\" is in a store that sessions on the CPU use; those that share states must run on one device",
         v.name);
  }
  if (at->second.dtype() != v.dtype || !(at->second.shape() == *v.shape)) {
    fail("state \"{}\" is {}{}, the store holds {}{}", v.name, name(v.dtype), v.shape->str(), name(at->second.dtype()),
         at->second.shape().str());
  }
  if (!resettable) v.constant = Tensor();
}

// Whether a value that is kept would be a view of a state's memory, which holds the next contents after the run.
bool Plan::shows_next_state(ValueId input, ValueId output) const {
  return options_.keeps(graph_.value(output)) &&
         storage_[static_cast<size_t>(storage_of(input))].kind == Storage::state;
}

// Assigns a storage to every value: constants, inputs and states have their own, views use their input's, all others
// get a new one.
void Plan::assign_storage() {
  for (int i = 0; i < graph_.value_count(); ++i) {
    const Value& v = graph_.value(ValueId{i});
    const int64_t bytes = v.shape ? storage_bytes(v.dtype, v.shape->elements()) : 0;
    if (v.kind == ValueKind::constant) {
      new_storage(
          {.kind = Storage::constant, .bytes = bytes, .data = v.constant.present() ? v.constant.raw() : nullptr},
          ValueId{i});
    } else if (v.kind == ValueKind::input) {
      new_storage({.kind = Storage::input, .bytes = bytes}, ValueId{i});
    } else if (v.kind == ValueKind::state) {
      bind_state(ValueId{i});
      new_storage({.kind = Storage::state, .bytes = bytes, .data = states_.find(v.name)->second.raw()}, ValueId{i});
    }
  }
  for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
    Step& step = steps_[static_cast<size_t>(s)];
    const Node& node = graph_.node(step.node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const bool alias =
          i == 0 && !step.dynamic && node.inputs[0].present() &&
          is_view(*node.op, {step.in[0].dtype, step.in[0].shape}, {step.out[0].dtype, step.out[0].shape}) &&
          !shows_next_state(node.inputs[0], node.outputs[0]);
      if (alias) {
        storage_index_[node.outputs[0]] = storage_of(node.inputs[0]);
        step.skipped = node.outputs.size() == 1;
      } else {
        new_storage({.kind = step.dynamic ? Storage::dynamic : Storage::arena,
                     .bytes = step.dynamic ? 0 : step.out[i].bytes(),
                     .first = s,
                     .last = s},
                    node.outputs[i]);
      }
      if (options_.keeps(graph_.value(node.outputs[i]))) {
        storage_[static_cast<size_t>(storage_of(node.outputs[i]))].persistent = true;
      }
    }
    for (const ValueId input : node.inputs) {
      if (input.present()) storage_[static_cast<size_t>(storage_of(input))].last = s;
    }
  }
}

// Lets ops that may overwrite an input do so if that memory is not needed afterwards.
void Plan::share_in_place() {
  std::vector<int> merged(storage_.size());
  for (size_t i = 0; i < merged.size(); ++i) merged[i] = static_cast<int>(i);
  for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
    const Step& step = steps_[static_cast<size_t>(s)];
    const Node& node = graph_.node(step.node);
    if (step.skipped || step.dynamic) continue;
    std::vector<int> given;  // an input's memory is given to one output only
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const int own = storage_of(node.outputs[o]);
      if (storage_[static_cast<size_t>(own)].kind != Storage::arena) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.inputs[i].present() || !may_overwrite(node, o, i) || step.in[i].dtype != step.out[o].dtype ||
            !(step.in[i].shape == step.out[o].shape))
          continue;
        const int other = merged[static_cast<size_t>(storage_of(node.inputs[i]))];
        Storage& theirs = storage_[static_cast<size_t>(other)];
        if (theirs.kind != Storage::arena || theirs.last != s || theirs.persistent ||
            std::find(given.begin(), given.end(), other) != given.end())
          continue;
        theirs.last = storage_[static_cast<size_t>(own)].last;
        theirs.persistent = storage_[static_cast<size_t>(own)].persistent;
        merged[static_cast<size_t>(own)] = other;
        given.push_back(other);
        break;
      }
    }
  }
  for (int& index : storage_index_) {
    if (index >= 0) index = merged[static_cast<size_t>(index)];
  }
}

// Computes a state's next value in the state's own memory if nothing reads the old value afterwards, and the step that
// computes it does not read it, or may overwrite it.
void Plan::update_in_place() {
  updated_.assign(graph_.states().size(), false);
  std::vector<int> moved(storage_.size());  // where each storage is now
  std::iota(moved.begin(), moved.end(), 0);
  const auto place_of = [&](ValueId value) {
    const int index = storage_of(value);
    return index < 0 ? index : moved[static_cast<size_t>(index)];
  };
  for (size_t s = 0; s < graph_.states().size(); ++s) {
    const int own = place_of(graph_.states()[s].value), next = place_of(graph_.states()[s].next);
    if (next < 0 || own < 0) continue;
    if (next == own) {  // it stays as it is
      updated_[s] = true;
      continue;
    }
    const Storage &memory = storage_[static_cast<size_t>(own)], &computed = storage_[static_cast<size_t>(next)];
    if (computed.kind != Storage::arena || memory.persistent || memory.bytes != computed.bytes) continue;
    if (memory.last > computed.first) continue;
    if (memory.last == computed.first && !writes_over(steps_[static_cast<size_t>(computed.first)], next, own)) continue;
    moved[static_cast<size_t>(next)] = own;
    updated_[s] = true;
  }
  for (int& index : storage_index_) {
    if (index >= 0) index = moved[static_cast<size_t>(index)];
  }
}

// Whether the step may compute its output in storage `next` in place of its only input in storage `own`.
bool Plan::writes_over(const Step& step, int next, int own) const {
  const Node& node = graph_.node(step.node);
  int reads = 0;
  bool may = false;
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    if (storage_of(node.outputs[o]) != next) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].present() || storage_of(node.inputs[i]) != own) continue;
      ++reads;
      may |=
          may_overwrite(node, o, i) && step.in[i].dtype == step.out[o].dtype && step.in[i].shape == step.out[o].shape;
    }
  }
  return reads == 0 || (may && reads == 1);
}

void Plan::plan_memory() {
  assign_storage();
  // Values that are read after the last step keep their memory; a result that is an input or a state is copied.
  for (const ValueId result : results_) {
    const int index = storage_of(result);
    if (index >= 0) storage_[static_cast<size_t>(index)].persistent = true;
  }
  if (rest_) {
    for (const ValueId id : rest_->boundary) storage_[static_cast<size_t>(storage_of(id))].persistent = true;
  }
  share_in_place();
  update_in_place();
  std::vector<Lifetime> lifetimes;
  std::vector<size_t> in_arena;
  int64_t owned_bytes = 0, workspace_bytes = 0;
  std::vector<bool> used(storage_.size());
  for (const int index : storage_index_) {
    if (index >= 0) used[static_cast<size_t>(index)] = true;
  }
  const auto reserve_owned = [&](int64_t bytes) {
    const int64_t offset = owned_bytes;
    owned_bytes += (bytes + 63) / 64 * 64;
    return offset;
  };
  const auto keep = [&](Storage& storage) {
    if (storage.kind != Storage::arena || !storage.persistent) return;
    storage.kind = Storage::owned;
    storage.offset = reserve_owned(storage.bytes);
  };
  for (size_t r = 0; r < graph_.outputs().size(); ++r) {  // outputs first: one copy from a GPU for all
    if (const int index = storage_of(results_[r]); index >= 0) keep(storage_[static_cast<size_t>(index)]);
  }
  for (size_t i = 0; i < storage_.size(); ++i) {
    Storage& storage = storage_[i];
    if (!used[i]) continue;
    keep(storage);
    if (storage.kind == Storage::arena) {
      lifetimes.push_back({storage.bytes, storage.first, storage.last});
      in_arena.push_back(i);
    }
  }
  for (size_t r = 0; r < results_.size(); ++r) {
    const int index = storage_of(results_[r]);
    const size_t outputs = graph_.outputs().size();
    if (index < 0 || (r >= outputs && updated_[r - outputs])) continue;
    const auto kind = storage_[static_cast<size_t>(index)].kind;
    // A caller may write into results: neither its input nor a state nor the model's weights change by that.
    if (kind == Storage::input || kind == Storage::state || kind == Storage::constant) {
      copies_.push_back({r, index, reserve_owned(storage_[static_cast<size_t>(index)].bytes)});
    }
  }
  for (const Step& step : steps_) {
    for (const auto* state : {step.state.get(), step.alone.get()}) {
      if (state && !step.on_gpu) workspace_bytes = std::max(workspace_bytes, state->workspace);
    }
  }
  const int64_t arena_bytes = place(lifetimes);
  expect_gpu_memory(arena_bytes, owned_bytes);
  arena_ = new_memory(arena_bytes);
  owned_ = new_memory(owned_bytes);
  workspace_ = std::make_shared<Buffer>(workspace_bytes);
  for (size_t i = 0; i < lifetimes.size(); ++i) storage_[in_arena[i]].offset = lifetimes[i].offset;
  for (Storage& storage : storage_) {
    if (storage.kind == Storage::arena) storage.data = arena_->data() + storage.offset;
    if (storage.kind == Storage::owned) storage.data = owned_->data() + storage.offset;
  }
  plan_gpu_memory();
  for (Step& step : steps_) bind_step(step);
}

void Plan::bind_step(Step& step) {
  const Node& node = graph_.node(step.node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].present())
      step.in[i].data = address_of(static_cast<size_t>(storage_of(node.inputs[i])), step.on_gpu);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    step.out[i].data = address_of(static_cast<size_t>(storage_of(node.outputs[i])), step.on_gpu);
  }
}

}  // namespace sparkpilot
