#include "runtime/cpu/kernel_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "base/parallel.h"
#include "hw/caches.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "ir/problem_key.h"
#include "runtime/cpu/node_trial.h"

namespace sparkpilot {
namespace {

struct MeasuredProcessor {
  std::string_view maker;
  int family, first, last;
  std::string_view isa, sold_as;
};
constexpr MeasuredProcessor kMeasured[] = {
#include "runtime/cpu/measured_processors.inc"
};

// In the tuning file, whose other lines may have been measured with fewer instruction sets.
std::string file_key(const std::string& key) { return cpu_features().isa() + ": " + key; }

// What the second-level cache holds for one thread, where a run of the graph reads more constants than that; else 0.
int64_t cold_bytes(const Graph& graph) {
  int64_t weights = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    if (const Tensor* constant = graph.constant(ValueId{i})) weights += constant->bytes();
  }
  const std::vector<int64_t> caches = cache_bytes(*system_source(), 1);
  const int64_t second = caches.size() > 1 ? caches[1] : 1 << 20;
  return weights > second ? second : 0;
}

}  // namespace

bool rules_were_measured_on(const CpuFeatures& cpu) {
  return std::any_of(std::begin(kMeasured), std::end(kMeasured), [&](const MeasuredProcessor& known) {
    return known.maker == cpu.maker && known.family == cpu.family && cpu.design >= known.first &&
           cpu.design <= known.last && known.isa == cpu.isa();
  });
}

KernelTuner::KernelTuner(const SessionOptions& options, PlanOptions& plans, Tuning tuning)
    : options_(options),
      plans_(plans),
      tuning_(std::move(tuning)),
      file_(options.tune == Tune::off ? "" : options.tuning_file, cpu_features().model) {
  for (const KernelDecision& choice : options.choices) {
    plans.kernels.know(choice.node, choice.kernel, ChosenBy::restored);
  }
  if (!options.kernels.empty()) return;  // what is known is not taken
  const std::string prefix = file_key("");
  for (const auto& [key, kernel] : file_.kernels()) {
    if (key.starts_with(prefix)) plans.kernels.know(key.substr(prefix.size()), kernel, ChosenBy::measured);
  }
}

// Every kind of node that is to be timed, the one with the most work first.
std::vector<KernelTuner::Job> KernelTuner::jobs(const Graph& graph) const {
  std::vector<Job> out;
  std::map<std::string, size_t> places;  // in `out`, or one that it does not have
  const KernelChoice rules;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto has_shape = [&](ValueId value) { return !value.present() || graph.value(value).shape.has_value(); };
    if (!has_alternatives(*node.op) || node.op->traits.dynamic ||
        !std::all_of(node.inputs.begin(), node.inputs.end(), has_shape) ||
        !std::all_of(node.outputs.begin(), node.outputs.end(), has_shape)) {
      continue;
    }
    const NodeProblem types(graph, id);
    const Problem problem = types.problem();
    Job job{.node = id, .key = problem_key(problem), .candidates = {}, .prior = 0, .flops = 0};
    job.flops = cost_of(*node.op, problem).flops;
    const auto [place, fresh] = places.emplace(job.key, out.size());
    if (!fresh) {
      if (place->second < out.size() && out[place->second].key == job.key) out[place->second].flops += job.flops;
      continue;
    }
    place->second = std::numeric_limits<size_t>::max();
    const KernelChoice::Known* known = plans_.kernels.known(job.key);
    if (known && (known->by == ChosenBy::restored || options_.tune != Tune::full)) continue;
    const Kernel* prior = rules.take(problem).kernel;
    for (const Kernel& kernel : node.op->cpu) {
      if (kernel.name == "reference" || (kernel.accepts && !kernel.accepts(problem))) continue;
      if (&kernel == prior) job.prior = job.candidates.size();
      job.candidates.push_back(&kernel);
    }
    if (job.candidates.size() < 2 || job.candidates[job.prior] != prior) continue;
    place->second = out.size();
    out.push_back(std::move(job));
  }
  std::stable_sort(out.begin(), out.end(), [](const Job& a, const Job& b) { return a.flops > b.flops; });
  return out;
}

// Null where it cannot be told in time.
const Kernel* KernelTuner::fastest(const Graph& graph, const Job& job, int64_t cold_bytes) const {
  const NodeProblem types(graph, job.node);
  const Problem problem = types.problem();
  NodeTrial trial(problem, cold_bytes, tuning_.clock);
  for (const Kernel* kernel : job.candidates) trial.add(*kernel);
  const Turns turns{.ns = tuning_.node_ns, .hard_ns = 4 * tuning_.node_ns};
  const auto best = fastest_in_turns(
      job.candidates.size(), job.prior, [&](size_t way) { return trial.time_ns(way); }, turns, tuning_.clock);
  return best ? job.candidates[*best] : nullptr;
}

bool KernelTuner::tune(const Graph& graph, int threads) {
  const bool full = options_.tune == Tune::full;
  if (options_.tune == Tune::off || !options_.kernels.empty()) return false;
  if (!full && (options_.tuning_file.empty() || tuning_.rules_hold)) return false;
  const int64_t limit = (full ? tuning_.full_ns : tuning_.automatic_ns) - plans_.tuned_ns;
  if (limit <= 0) return false;
  const ThreadScope scope(threads);
  const std::vector<Job> jobs = this->jobs(graph);
  if (jobs.empty() || (!full && !file_.is_writable())) return false;
  if (options_.say) {
    options_.say(fmt::format("timing the kernels of {} kind{} of nodes on {} thread{}, for {:.1f} s at most",
                             jobs.size(), jobs.size() == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                             static_cast<double>(limit) * 1e-9));
  }
  const int64_t start = tuning_.clock(), cold = cold_bytes(graph);
  TuningFile::Kernels found;
  for (const Job& job : jobs) {
    if (tuning_.clock() - start >= limit) break;
    const Kernel* best = fastest(graph, job, cold);
    if (!best) continue;
    plans_.kernels.know(job.key, best->name, ChosenBy::measured);
    found.emplace_back(file_key(job.key), best->name);
  }
  plans_.tuned_ns += tuning_.clock() - start;
  if (!found.empty()) file_.keep_kernels(found);
  return !found.empty();
}

}  // namespace sparkpilot
