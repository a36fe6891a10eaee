#include "runtime/cpu/batch_slices.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "ir/infer.h"
#include "passes/batch.h"

namespace sparkpilot {
namespace {

// What one layer reads and writes should fit in half of a processor's second-level cache (1 MiB assumed); weights need
// the rest.
constexpr int64_t kCacheBytes = 512 << 10;
// Limit for weights packed for every thread, all threads together.
constexpr int64_t kMaxWeights = 256 << 20;
// With fewer entries in a slice, kernels have too little work per call.
constexpr int64_t kFewest = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// At most `fit` entries, with the same number of slices for each processor; chosen so that the last slices compute few
// entries twice.
int64_t entries_of_a_slice(int64_t batch, int64_t fit, int64_t processors) {
  int64_t best = 0, least = 0;
  for (int64_t slices = ceil_div(ceil_div(batch, fit), processors) * processors; slices * kFewest <= batch;
       slices += processors) {
    const int64_t count = ceil_div(batch, slices), computed = count * slices;
    if (best == 0 || computed < least) best = count, least = computed;
    if (least * 100 <= batch * 101) break;
  }
  return best;
}

int64_t constant_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (value.kind == ValueKind::constant && value.constant.present()) bytes += value.constant.bytes();
  }
  return bytes;
}

}  // namespace

int64_t open_batch(const Graph& graph) {
  int64_t batch = 0;
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (!input.declared || input.declared->empty()) return 0;
    const Dim& first = input.declared->front();
    const bool open = first.size < 0 || !first.symbol.empty();
    if (!open || !input.shape || (batch && (*input.shape)[0] != batch)) return 0;
    batch = (*input.shape)[0];
  }
  return batch;
}

bool may_be_sliced(const Graph& bound, const Graph& whole, const PlanOptions& options) {
  return open_batch(bound) >= 2 * kFewest && options.keep.empty() && bound.states().empty() &&
         constant_bytes(whole) * available_processors() <= kMaxWeights;
}

int64_t entries_of_a_slice(const Graph& whole, int64_t batch) {
  const int64_t fit = kCacheBytes / std::max<int64_t>(1, bytes_of_an_entry(whole, batch));
  if (fit < kFewest) return batch;
  const int64_t entries = entries_of_a_slice(batch, fit, available_processors());
  return entries < kFewest ? batch : entries;
}

std::optional<Graph> slice_of_batch(const Graph& bound, Graph& whole, int64_t entries, const PlanOptions& options) {
  Graph part = bound;
  PassOptions passes = options.passes;
  passes.observe = {};  // the whole's were observed
  try {
    for (const ValueId id : part.inputs()) {
      part.value(id).declared->front().size = -1;
      bind_input(part, id, part.value(id).shape->with(0, entries));
    }
    part = optimised(std::move(part), passes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    return {};  // the first dimension is open, but the model takes one size alone
  }
  if (!runs_in_parts(whole, part, open_batch(bound), entries)) return {};
  return part;
}

BatchSlices::BatchSlices(const Graph& slice, int64_t batch, const PlanOptions& options, int threads, StateStore& states)
    : batch_(batch), count_((*slice.value(slice.inputs()[0]).shape)[0]), slices_(ceil_div(batch, count_)) {
  for (const ValueId id : slice.inputs()) {
    const Value& input = slice.value(id);
    input_bytes_.push_back(storage_bytes(input.dtype, input.shape->elements()) / count_);
  }
  const ThreadScope serial(1);  // the kernels of a lane are prepared for the one thread that runs them
  for (int64_t lane = 0; lane < std::min<int64_t>(threads, slices_); ++lane) {
    lanes_.push_back({std::make_unique<Plan>(slice, options, states), std::vector<const void*>(slice.inputs().size())});
  }
  for (const Graph::Output& output : graph().outputs()) {
    const Value& value = graph().value(output.value);
    results_.emplace_back(value.dtype, value.shape->with(0, batch));
    outputs_.push_back(results_.back().view());
  }
}

void BatchSlices::run_slice(Lane& lane, int64_t slice, std::span<const void* const> inputs) {
  // If the last slice would go past the end, it starts earlier: entries computed twice are written once.
  const int64_t wanted = slice * count_, first = std::min(wanted, batch_ - count_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    lane.inputs[i] = static_cast<const std::byte*>(inputs[i]) + first * input_bytes_[i];
  }
  lane.plan->run(lane.inputs);
  for (size_t i = 0; i < results_.size(); ++i) {
    const ConstView part = lane.plan->outputs()[i];
    const int64_t entry = part.bytes() / count_;
    std::memcpy(static_cast<std::byte*>(results_[i].raw()) + wanted * entry,
                static_cast<const std::byte*>(part.data) + (wanted - first) * entry,
                static_cast<size_t>((first + count_ - wanted) * entry));
  }
}

void BatchSlices::run(std::span<const void* const> inputs) {
  std::atomic<int64_t> next = 0;  // shared counter: a delayed thread takes fewer slices
  parallel_for(static_cast<int64_t>(lanes_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t lane = begin; lane < end; ++lane) {
      for (int64_t slice = next++; slice < slices_; slice = next++) {
        run_slice(lanes_[static_cast<size_t>(lane)], slice, inputs);
      }
    }
  });
}

void BatchSlices::collect(Profile& profile) const {
  const size_t before = profile.nodes.size();
  lanes_[0].plan->collect(profile);
  for (size_t lane = 1; lane < lanes_.size(); ++lane) {
    Profile other;
    lanes_[lane].plan->collect(other);
    for (size_t i = 0; i < other.nodes.size(); ++i) {
      profile.nodes[before + i].calls += other.nodes[i].calls;
      profile.nodes[before + i].total_ns += other.nodes[i].total_ns;
    }
  }
  for (size_t i = before; i < profile.nodes.size(); ++i) {
    NodeProfile& node = profile.nodes[i];
    node.calls /= slices_;
    node.total_ns /= static_cast<int64_t>(lanes_.size());
    node.flops *= static_cast<double>(slices_);
    node.bytes *= static_cast<double>(slices_);
    node.weight_bytes *= static_cast<double>(slices_);
    node.slices = static_cast<double>(slices_);
  }
}

void BatchSlices::forget_times() {
  for (Lane& lane : lanes_) lane.plan->forget_times();
}

int64_t BatchSlices::arena_bytes() const {
  int64_t bytes = 0;
  for (const Lane& lane : lanes_) bytes += lane.plan->arena_bytes();
  for (const Tensor& result : results_) bytes += result.bytes();
  return bytes;
}

}  // namespace sparkpilot
