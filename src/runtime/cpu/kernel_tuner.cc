#include "runtime/cpu/kernel_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
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

// The key in the tuning file, which may also have results measured with fewer instruction sets.
std::string file_key(const std::string& key) { return cpu_features().isa() + ": " + key; }

// The bytes that each thread reads between runs, so that a node finds its weights in the same cache level as in a run
// of the graph, which reads all constants: as many bytes as the constants have, but no more than the caches hold; 0 if
// they fit in the second-level cache.
int64_t cold_bytes(const Graph& graph, int threads) {
  int64_t weights = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    if (const Tensor* constant = graph.constant(ValueId{i})) weights += constant->bytes();
  }
  const std::vector<int64_t> caches = cache_bytes(*system_source(), threads);
  const int64_t second = caches.size() > 1 ? caches[1] : 0, third = caches.size() > 2 ? caches[2] : 0;
  return weights > second ? std::min(weights, second + third) / threads : 0;
}

bool has_shapes(const Graph& graph, const Node& node) {
  const auto has_shape = [&](ValueId value) { return !value.present() || graph.value(value).shape.has_value(); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), has_shape) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), has_shape);
}

// The kernel that the rules choose, then the others that accept; empty if the rules choose the reference.
std::vector<const Kernel*> candidates_of(const Problem& problem) {
  const Kernel* prior = KernelChoice().take(problem).kernel;
  if (!prior || prior->name == "reference") return {};
  std::vector<const Kernel*> out{prior};
  for (const Kernel& kernel : problem.node->op->cpu) {
    if (&kernel == prior || kernel.name == "reference") continue;
    if (!kernel.accepts || kernel.accepts(problem)) out.push_back(&kernel);
  }
  return out;
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
  if (!options.kernels.empty()) return;  // known kernels would not be used
  const std::string prefix = file_key("");
  for (const auto& [key, kernel] : file_.kernels()) {
    if (key.starts_with(prefix)) plans.kernels.know(key.substr(prefix.size()), kernel, ChosenBy::measured);
  }
}

// Every kind of node that is to be timed, most work first.
std::vector<KernelTuner::Job> KernelTuner::jobs(const Graph& graph) const {
  std::vector<Job> out;
  std::map<std::string, std::optional<size_t>> places;  // index in `out`; empty: nothing to time
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!has_alternatives(*node.op) || node.op->traits.dynamic || !has_shapes(graph, node)) continue;
    const NodeProblem types(graph, id);
    const Problem problem = types.problem();
    const double flops = cost_of(*node.op, problem).flops;
    const auto [place, fresh] = places.emplace(problem_key(problem), std::nullopt);
    if (!fresh) {
      if (place->second) out[*place->second].flops += flops;
      continue;
    }
    const KernelChoice::Known* known = plans_.kernels.known(place->first);
    if (known && (known->by == ChosenBy::restored || options_.tune != Tune::full)) continue;
    std::vector<const Kernel*> candidates = candidates_of(problem);
    if (candidates.size() < 2) continue;
    place->second = out.size();
    out.push_back({id, place->first, std::move(candidates), flops});
  }
  std::stable_sort(out.begin(), out.end(), [](const Job& x, const Job& y) { return x.flops > y.flops; });
  return out;
}

// Null if there was not enough time to decide.
const Kernel* KernelTuner::fastest(const Graph& graph, const Job& job, int64_t cold_bytes) const {
  const NodeProblem types(graph, job.node);
  const Problem problem = types.problem();
  NodeTrial trial(problem, cold_bytes, tuning_.clock);
  for (const Kernel* kernel : job.candidates) trial.add(*kernel);
  const Turns turns{.ns = tuning_.node_ns, .hard_ns = 4 * tuning_.node_ns};
  const auto best = fastest_in_turns(
      job.candidates.size(), 0, [&](size_t way) { return trial.time_ns(way); }, turns, tuning_.clock);
  return best ? job.candidates[*best] : nullptr;
}

int64_t KernelTuner::limit_ns() const {
  const bool full = options_.tune == Tune::full;
  if (options_.tune == Tune::off || !options_.kernels.empty()) return 0;
  if (!full && (options_.tuning_file.empty() || tuning_.rules_hold)) return 0;
  return std::max<int64_t>(0, (full ? tuning_.full_ns : tuning_.automatic_ns) - plans_.tuned_ns);
}

void KernelTuner::keep(const std::string& key, const std::string& choice, int64_t spent_ns) {
  plans_.tuned_ns += spent_ns;
  plans_.kernels.know(key, choice, ChosenBy::measured);
  file_.keep_kernels({{file_key(key), choice}});
}

bool KernelTuner::tune(const Graph& graph, int threads) {
  const bool full = options_.tune == Tune::full;
  const int64_t limit = limit_ns();
  if (limit == 0) return false;
  const ThreadScope scope(threads);
  const std::vector<Job> jobs = this->jobs(graph);
  if (jobs.empty() || (!full && !file_.is_writable())) return false;
  if (options_.say) {
    options_.say(fmt::format("timing the kernels of {} kind{} of nodes on {} thread{}, for {:.1f} s at most",
                             jobs.size(), jobs.size() == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                             static_cast<double>(limit) * 1e-9));
  }
  const int64_t start = tuning_.clock(), cold = cold_bytes(graph, threads);
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
