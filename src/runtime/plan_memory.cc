// Where every value of a plan lies: its storage, its lifetime, its place in the arena.
#include <algorithm>

#include "runtime/arena.h"
#include "runtime/plan_impl.h"

namespace sparkpilot {

int Plan::new_storage(Storage storage, ValueId id) {
  storage_index_[static_cast<size_t>(id.index)] = static_cast<int>(storage_.size());
  storage_.push_back(std::move(storage));
  return storage_of(id);
}

// Gives every value its storage: constants, inputs and states theirs, views their input's, the rest a new one.
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
      const std::string key = v.name.empty() ? fmt::format("state{}", i) : v.name;
      const auto [at, fresh] = states_.try_emplace(key);
      if (fresh) at->second = v.constant.clone();
      if (at->second.dtype() != v.dtype || !(at->second.shape() == v.constant.shape())) {
        fail("state \"{}\" is {}{}, another plan made it {}{}", key, name(v.dtype), v.constant.shape().str(),
             name(at->second.dtype()), at->second.shape().str());
      }
      new_storage({.kind = Storage::state, .bytes = bytes, .data = at->second.raw()}, ValueId{i});
    }
  }
  for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
    Step& step = steps_[static_cast<size_t>(s)];
    const Node& node = graph_.node(step.node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const bool alias = i == 0 && node.op->traits.view && !step.dynamic && node.inputs[0].present() &&
                         step.out[0].bytes() == step.in[0].bytes() && step.in[0].dtype == step.out[0].dtype;
      if (alias) {
        storage_index_[static_cast<size_t>(node.outputs[0].index)] = storage_of(node.inputs[0]);
        step.skipped = node.outputs.size() == 1;
      } else {
        const auto kind = step.dynamic ? Storage::dynamic : options_.keep_values ? Storage::owned : Storage::arena;
        new_storage({.kind = kind, .bytes = step.dynamic ? 0 : step.out[i].bytes(), .first = s, .last = s},
                    node.outputs[i]);
      }
    }
    for (const ValueId input : node.inputs) {
      if (input.present()) storage_[static_cast<size_t>(storage_of(input))].last = s;
    }
  }
}

// An op that may write over its input does so where that input's memory ends with it.
void Plan::share_in_place() {
  std::vector<int> merged(storage_.size());
  for (size_t i = 0; i < merged.size(); ++i) merged[i] = static_cast<int>(i);
  for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
    const Step& step = steps_[static_cast<size_t>(s)];
    const Node& node = graph_.node(step.node);
    if (!node.op->traits.in_place || step.skipped || step.dynamic) continue;
    const int own = storage_of(node.outputs[0]);
    if (storage_[static_cast<size_t>(own)].kind != Storage::arena) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].present() || step.in[i].dtype != step.out[0].dtype ||
          !(step.in[i].shape == step.out[0].shape))
        continue;
      const int other = merged[static_cast<size_t>(storage_of(node.inputs[i]))];
      Storage& theirs = storage_[static_cast<size_t>(other)];
      if (theirs.kind != Storage::arena || theirs.last != s || theirs.persistent) continue;
      theirs.last = storage_[static_cast<size_t>(own)].last;
      theirs.persistent = storage_[static_cast<size_t>(own)].persistent;
      merged[static_cast<size_t>(own)] = other;
      break;
    }
  }
  for (int& index : storage_index_) {
    if (index >= 0) index = merged[static_cast<size_t>(index)];
  }
}

void Plan::plan_memory() {
  assign_storage();
  // What is read after the last step keeps its memory; a result that is an input or a state gets a copy of its own.
  for (const ValueId result : results_) {
    const int index = storage_of(result);
    if (index >= 0) storage_[static_cast<size_t>(index)].persistent = true;
  }
  if (rest_) {
    for (const ValueId id : rest_->boundary) storage_[static_cast<size_t>(storage_of(id))].persistent = true;
  }
  share_in_place();
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
  for (size_t i = 0; i < storage_.size(); ++i) {
    Storage& storage = storage_[i];
    if (!used[i]) continue;
    if (storage.kind == Storage::arena && storage.persistent) storage.kind = Storage::owned;
    if (storage.kind == Storage::owned) storage.offset = reserve_owned(storage.bytes);
    if (storage.kind == Storage::arena) {
      lifetimes.push_back({storage.bytes, storage.first, storage.last});
      in_arena.push_back(i);
    }
  }
  for (size_t r = 0; r < results_.size(); ++r) {
    const int index = storage_of(results_[r]);
    if (index < 0) continue;
    const auto kind = storage_[static_cast<size_t>(index)].kind;
    if (kind == Storage::input || kind == Storage::state) {
      copies_.push_back({r, index, reserve_owned(storage_[static_cast<size_t>(index)].bytes)});
    }
  }
  for (const Step& step : steps_) {
    for (const auto* state : {step.state.get(), step.alone.get()}) {
      if (state) workspace_bytes = std::max(workspace_bytes, state->workspace);
    }
  }
  arena_ = std::make_unique<Buffer>(place(lifetimes));
  owned_ = std::make_unique<Buffer>(owned_bytes);
  workspace_ = std::make_unique<Buffer>(workspace_bytes);
  for (size_t i = 0; i < lifetimes.size(); ++i) storage_[in_arena[i]].offset = lifetimes[i].offset;
  for (Storage& storage : storage_) {
    if (storage.kind == Storage::arena) storage.data = arena_->data() + storage.offset;
    if (storage.kind == Storage::owned) storage.data = owned_->data() + storage.offset;
  }
  for (Step& step : steps_) bind_step(step);
}

void Plan::bind_step(Step& step) {
  const Node& node = graph_.node(step.node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].present()) step.in[i].data = storage_[static_cast<size_t>(storage_of(node.inputs[i]))].data;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    step.out[i].data = const_cast<void*>(storage_[static_cast<size_t>(storage_of(node.outputs[i]))].data);
  }
}

}  // namespace sparkpilot
