#include "runtime/cpu/compile.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "hw/cpu.h"
#include "runtime/cpu/thread_choice.h"
#include "runtime/kernel_tuner.h"
#include "runtime/tuning_file.h"

namespace sparkpilot {
namespace {

// How often another process or the system took a processor from this one.
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

// Whether it may be run to time it: no loops, and at most about a tenth of a second of work for one thread.
bool is_quick(const CpuProgram& program) {
  constexpr double kMax = 2e10;
  if (program.slices) return program.slices->flops() < kMax;
  return program.plan->is_straight() && program.plan->flops() < kMax;
}

class Compiler {
 public:
  Compiler(Graph bound, const SessionOptions& options, PlanOptions& plans, StateStore& states,
           std::span<const void* const> inputs)
      : options_(options), plans_(plans), states_(states), inputs_(inputs), tuner_(options, plans) {
    constexpr int64_t kMaxWeights = 64 << 20;  // bytes; oneDNN packs some of them a second time
    for (const State& state : bound.states()) may_try_ &= state.resettable;
    tries_ = options.threads == 0;
    if (tries_) {
      plans.alone = !plans.profile && plans.keep.empty() && weight_bytes(bound) <= kMaxWeights;
      if (choices_.size() > 1 && options.kernels.empty()) key_ = tuning_key(bound, options.passes);
    }
    batch_ = open_batch(bound);
    if (batch_ == 0) {
      graph_ = optimised(std::move(bound), plans.passes);  // weights that a pass replaces are freed at once
      return;
    }
    whole_ = optimised(bound, plans.passes);
    if (may_be_sliced(bound, whole_, plans)) {
      bound_ = std::move(bound);
      cut_ = chosen_cut();
      std::optional<Graph> slice = cut(cut_->entries);
      if (!slice) cut_->entries = batch_;
      graph_ = slice ? std::move(*slice) : whole_;
      cut_->decision.kernel = std::to_string(cut_->entries);
      if (tries_cuts()) return;
    } else {
      graph_ = std::move(whole_);
    }
    bound_ = whole_ = Graph();
  }

  CpuProgram make() {
    std::map<std::string, Tensor> before;
    for (const State& state : graph_.states()) {
      const auto found = states_.find(graph_.value(state.value).name);
      if (may_try_ && found != states_.end()) before[found->first] = found->second.clone();
    }
    CpuProgram made = tries_ ? fastest() : tuned(options_.threads);
    if (tries_cuts()) made = best_cut(std::move(made));
    if (cut_) made.cut = cut_->decision;
    // The first run warms up pages, caches and threads.
    const bool warm = may_try_ && options_.kernels.empty() && is_quick(made) && try_run(made);
    if (plans_.alone && made.threads > 1 && made.plan && is_quick(made)) watch(made, warm);
    made.forget_times();
    if (may_try_ && made.plan) made.plan->reset_states();
    for (const auto& [name, tensor] : before) {
      std::memcpy(states_.at(name).raw(), tensor.raw(), static_cast<size_t>(tensor.bytes()));
    }
    return made;
  }

 private:
  // How a batch is cut: entries in a slice, all of them if it is not cut.
  struct Cut {
    KernelDecision decision;
    int64_t entries;
  };

  // What is known for this graph, else the rule's.
  Cut chosen_cut() const {
    Cut out{{.node = "entries of the batch at a time, graph " +
                     (key_.empty() ? tuning_key(bound_, options_.passes) : key_)},
            entries_of_a_slice(whole_, batch_)};
    const KernelChoice::Known* known = options_.kernels.empty() ? plans_.kernels.known(out.decision.node) : nullptr;
    if (known) {
      int64_t entries = 0;
      const char* end = known->kernel.data() + known->kernel.size();
      const auto [stop, error] = std::from_chars(known->kernel.data(), end, entries);
      if (error == std::errc() && stop == end && entries > 0 && entries <= batch_) {
        out.decision.by = known->by;
        out.entries = entries;
      } else {
        out.decision.note = fmt::format("\"{}\" is no number of entries of a batch of {}", known->kernel, batch_);
      }
    }
    return out;
  }

  // The graph for slices of that many entries; empty if that is the whole batch, or entries depend on each other.
  std::optional<Graph> cut(int64_t entries) const {
    if (entries == batch_) return {};
    Graph whole = whole_;
    return slice_of_batch(bound_, whole, entries, plans_);
  }

  bool tries_cuts() const {
    return cut_ && may_try_ && cut_->decision.by == ChosenBy::rules && cut_->decision.note.empty() && tuner_.times();
  }

  // Times other sizes of slices than the rule's, and the whole batch.
  CpuProgram best_cut(CpuProgram by_rule) {
    if (!is_quick(by_rule) || !try_run(by_rule)) return by_rule;
    const int64_t start = now_ns(), tuned_before = plans_.tuned_ns, rule = cut_->entries,
                  share = (batch_ + by_rule.threads - 1) / by_rule.threads;
    std::vector<int64_t> sizes{rule};
    std::vector<CpuProgram> programs;
    const int threads = by_rule.threads;
    programs.push_back(std::move(by_rule));
    const std::vector<int64_t> others = rule < batch_ ? std::vector<int64_t>{rule / 2, 2 * rule, batch_}
                                                      : std::vector<int64_t>{share, share / 2, share / 4};
    for (const int64_t entries : others) {
      if (entries < 1 || entries > batch_ || std::find(sizes.begin(), sizes.end(), entries) != sizes.end()) continue;
      std::optional<Graph> graph = cut(entries);
      if (!graph && entries < batch_) continue;
      tuner_.tune(graph ? *graph : whole_, graph ? 1 : threads);
      programs.push_back(graph ? plan(std::move(*graph), threads, true) : plan(whole_, threads, false));
      sizes.push_back(entries);
    }
    const auto time_ns = [&](size_t way) {
      const int64_t begin = now_ns();
      return try_run(programs[way]) ? static_cast<double>(now_ns() - begin) : kNoTime;
    };
    if (programs.size() < 2) return std::move(programs[0]);
    constexpr int64_t kLongEnough = 200'000'000;
    const auto best =
        fastest_in_turns(programs.size(), 0, time_ns, {.ns = kLongEnough, .hard_ns = 4 * kLongEnough}, now_ns);
    if (!best) return std::move(programs[0]);
    cut_->entries = sizes[*best];
    cut_->decision.kernel = std::to_string(cut_->entries);
    cut_->decision.by = ChosenBy::measured;
    // The tuner has counted its own time.
    tuner_.keep(cut_->decision.node, cut_->decision.kernel, now_ns() - start - (plans_.tuned_ns - tuned_before));
    return std::move(programs[*best]);
  }

  bool is_cut() const { return cut_ && cut_->entries < batch_; }

  CpuProgram plan(Graph graph, int threads) const { return plan(std::move(graph), threads, is_cut()); }
  CpuProgram plan(Graph graph, int threads, bool sliced) const {
    const ThreadScope scope(threads);
    CpuProgram made{.plan = nullptr, .slices = nullptr, .threads = threads};
    if (sliced) made.slices = std::make_unique<BatchSlices>(graph, batch_, plans_, threads, states_);
    else made.plan = std::make_unique<Plan>(std::move(graph), plans_, states_);
    return made;
  }

  // The plans of slices have one thread each.
  int threads_of_a_plan(int threads) const { return is_cut() ? 1 : threads; }

  CpuProgram tuned(int threads) {
    tuner_.tune(graph_, threads_of_a_plan(threads));
    return plan(std::move(graph_), threads);
  }

  // `may_time`: it can be run now, so that the time on one thread is known from the first run on.
  void watch(CpuProgram& program, bool may_time) const {
    constexpr int kRuns = 3;
    constexpr int64_t kLongEnough = 20'000'000;  // ns
    constexpr double kMostFlops = 4e9;           // else a load would take noticeably longer
    program.watched = true;
    if (!may_time || program.plan->flops() > kMostFlops) return;
    int64_t least = std::numeric_limits<int64_t>::max();
    const int64_t begin = now_ns();
    for (int run = 0; run == 0 || (run < kRuns && now_ns() - begin < kLongEnough); ++run) {
      const int64_t start = now_ns();
      program.run(inputs_, 1);
      least = std::min(least, now_ns() - start);
    }
    program.watch = BusyWatch(static_cast<double>(least));
  }

  // False if the model rejects the contents of the inputs, which may not have been set yet.
  bool try_run(CpuProgram& program) const {
    try {
      program.run(inputs_);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  CpuProgram fastest() {
    if (key_.empty() || !may_try_) return tuned(choices_.back());
    TuningFile file(options_.tuning_file, cpu_features().model);
    if (const auto kept = file.threads(key_)) return tuned(*kept);

    // Kernels are prepared for a number of threads, so each count needs a separate plan; at most two exist at a time.
    std::map<int, CpuProgram> tried;
    tried[1] = plan(graph_, 1);
    if (!is_quick(tried[1]) || !try_run(tried[1])) {
      tried.clear();
      return tuned(choices_.back());
    }
    const auto time_ns = [&](int threads) {
      constexpr int64_t kLongEnough = 10'000'000;  // long enough to notice other processes that want the processors
      CpuProgram& program = tried[threads];
      if (!program.plan && !program.slices) {
        if (tried.size() > 2) tried.erase(tried.begin());
        program = plan(graph_, threads);
        try_run(program);
      }
      int64_t runs = 0, taken = 0;
      for (const int64_t start = now_ns(); taken < kLongEnough; taken = now_ns() - start, ++runs) try_run(program);
      return static_cast<double>(taken) / static_cast<double>(runs);
    };
    const int64_t start = now_ns(), disturbed = interruptions();
    const int best = fastest_threads(choices_, time_ns);
    // A result found next to other load holds for this session only.
    constexpr int64_t kQuietNs = 20'000'000;  // an idle machine interrupts less often than this
    if (interruptions() - disturbed <= 1 + (now_ns() - start) / kQuietNs) file.keep_threads(key_, best);
    if (!tuner_.tune(graph_, threads_of_a_plan(best))) return std::move(tried[best]);
    tried.clear();
    return plan(std::move(graph_), best);
  }

  const SessionOptions& options_;
  PlanOptions& plans_;
  StateStore& states_;
  std::span<const void* const> inputs_;
  KernelTuner tuner_;
  bool tries_ = false;
  bool may_try_ = true;  // whether trial runs are allowed: no run may change a state that cannot be reset
  std::vector<int> choices_ = thread_choices(available_processors());
  std::string key_;    // of the trial in the tuning file; empty: no trial
  Graph graph_;        // optimised: the whole graph, or that of a slice
  int64_t batch_ = 0;  // its size, if it may be cut
  std::optional<Cut> cut_;
  Graph bound_, whole_;  // what cuts are made of: as given, and optimised
};

}  // namespace

CpuProgram compile_on_cpu(Graph bound, const SessionOptions& options, PlanOptions& plans, StateStore& states,
                          std::span<const void* const> inputs) {
  return Compiler(std::move(bound), options, plans, states, inputs).make();
}

}  // namespace sparkpilot
