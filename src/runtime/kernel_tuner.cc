#include "runtime/kernel_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "hw/caches.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "ir/problem_key.h"
#include "runtime/cpu/node_trial.h"
#include "runtime/gpu_key.h"
#include "runtime/gpu_trial.h"

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

// The bytes that each thread reads, or that are written on a GPU, between runs, so that a node finds its weights in the
// same cache level as in a run of the graph, which reads all constants: as many bytes as the constants have, but no
// more than the caches hold; 0 if they fit in the second-level cache.
int64_t cold_bytes(const Graph& graph, int threads, const GpuDevice* gpu) {
  int64_t weights = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    if (const Tensor* constant = graph.constant(ValueId{i})) weights += constant->bytes();
  }
  if (gpu) return weights > gpu->facts().l2_bytes ? gpu->facts().l2_bytes : 0;
  const std::vector<int64_t> caches = cache_bytes(*system_source(), threads);
  const int64_t second = caches.size() > 1 ? caches[1] : 0, third = caches.size() > 2 ? caches[2] : 0;
  return weights > second ? std::min(weights, second + third) / threads : 0;
}

bool has_shapes(const Graph& graph, const Node& node) {
  const auto has_shape = [&](ValueId value) { return !value.present() || graph.value(value).shape.has_value(); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), has_shape) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), has_shape);
}

// The kernel that the rules choose, then the others that accept; empty if the rules choose the reference. On a GPU the
// variants of the one that the rules choose.
std::vector<KernelWay> ways_of(const Problem& problem) {
  const Kernel* prior = KernelChoice().take(problem, problem.gpu ? Device::cuda : Device::cpu).kernel;
  if (!prior || prior->name == "reference") return {};
  std::vector<KernelWay> out;
  if (problem.gpu) {
    if (!prior->variants) return {};
    for (const std::string& variant : prior->variants(problem)) out.push_back({prior, variant});
    return out;
  }
  out.push_back({prior});
  for (const Kernel& kernel : problem.node->op->cpu) {
    if (&kernel == prior || kernel.name == "reference") continue;
    if (!kernel.accepts || kernel.accepts(problem)) out.push_back({&kernel});
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

// The key in the tuning file, which may also have results measured with fewer instruction sets, and on GPUs.
std::string KernelTuner::file_key(const std::string& key) const {
  return (plans_.gpu ? gpu_key(plans_.gpu->facts()) : cpu_features().isa()) + ": " + key;
}

// Every kind of node that is to be timed, most work first.
std::vector<KernelTuner::Job> KernelTuner::jobs(const Graph& graph) const {
  std::vector<Job> out;
  std::map<std::string, std::optional<size_t>> places;  // index in `out`; empty: nothing to time
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!has_alternatives(*node.op, plans_.gpu ? Device::cuda : Device::cpu) || node.op->traits.dynamic ||
        !has_shapes(graph, node))
      continue;
    const NodeProblem types(graph, id);
    Problem problem = types.problem();
    problem.gpu = plans_.gpu.get();
    const double flops = cost_of(*node.op, problem).flops;
    const auto [place, fresh] = places.emplace(problem_key(problem), std::nullopt);
    if (!fresh) {
      if (place->second) out[*place->second].flops += flops;
      continue;
    }
    const KernelChoice::Known* known = plans_.kernels.known(place->first);
    if (known && (known->by == ChosenBy::restored || options_.tune != Tune::full)) continue;
    std::vector<KernelWay> ways = ways_of(problem);
    if (ways.size() < 2) continue;
    place->second = out.size();
    out.push_back({id, place->first, std::move(ways), flops});
  }
  std::stable_sort(out.begin(), out.end(), [](const Job& x, const Job& y) { return x.flops > y.flops; });
  return out;
}

// Null if there was not enough time to decide.
const KernelWay* KernelTuner::fastest(const Graph& graph, const Job& job, int64_t cold_bytes) const {
  const NodeProblem types(graph, job.node);
  Problem problem = types.problem();
  problem.gpu = plans_.gpu.get();
  const auto best_of = [&](auto& trial) {
    const Turns turns{.ns = tuning_.node_ns, .hard_ns = 4 * tuning_.node_ns};
    const auto best = fastest_in_turns(
        job.ways.size(), 0, [&](size_t way) { return trial.time_ns(way); }, turns, tuning_.clock);
    return best ? &job.ways[*best] : nullptr;
  };
  if (plans_.gpu) {
    std::vector<std::string> variants;
    for (const KernelWay& way : job.ways) variants.push_back(way.variant);
    GpuTrial trial(plans_.gpu, problem, *job.ways[0].kernel, std::move(variants), cold_bytes);
    return best_of(trial);
  }
  NodeTrial trial(problem, cold_bytes, tuning_.clock);
  for (const KernelWay& way : job.ways) trial.add(*way.kernel);
  return best_of(trial);
}

int64_t KernelTuner::limit_ns() const {
  const bool full = options_.tune == Tune::full;
  if (options_.tune == Tune::off || !options_.kernels.empty()) return 0;
  if (!full && (options_.tuning_file.empty() || (!plans_.gpu && tuning_.rules_hold))) return 0;
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
    options_.say(fmt::format(
        "timing the kernels of {} of nodes on {}, for {:.1f} s at most", count_of(std::ssize(jobs), "kind"),
        plans_.gpu ? plans_.gpu->facts().name : count_of(threads, "thread"), static_cast<double>(limit) * 1e-9));
  }
  const int64_t start = tuning_.clock(), ptx = plans_.gpu ? plans_.gpu->ptx_ns() : 0,
                cold = cold_bytes(graph, threads, plans_.gpu.get());
  // Code that is compiled now need not be compiled later.
  const auto spent = [&] { return tuning_.clock() - start - (plans_.gpu ? plans_.gpu->ptx_ns() - ptx : 0); };
  TuningFile::Kernels found;
  try {
    for (const Job& job : jobs) {
      if (spent() >= limit) break;
      const KernelWay* best = fastest(graph, job, cold);
      if (!best) continue;
      plans_.kernels.know(job.key, best->name(), ChosenBy::measured);
      found.emplace_back(file_key(job.key), best->name());
    }
  } catch (const Error& error) {
    if (!plans_.gpu || error.kind() != ErrorKind::device) throw;
    if (options_.say) options_.say(fmt::format("timing kernels ended early: {}", error.what()));
  }
  plans_.tuned_ns += spent();
  if (!found.empty()) file_.keep_kernels(found);
  return !found.empty();
}

}  // namespace sparkpilot
