#include "bench/model_bench.h"

#include <algorithm>

#include "adapters/load_model.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "bench/facts.h"
#include "bench/inputs.h"
#include "bench/ready_session.h"
#include "hw/device_facts.h"
#include "hw/gpu_driver.h"
#include "hw/memory.h"
#include "ops/cuda/images.h"
#include "runtime/cpu/thread_choice.h"
#include "runtime/gpu_compile.h"
#include "runtime/roofline.h"

namespace sparkpilot {
namespace {

double ms_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-6; }

// Calls `progress` at most every 50 ms, so that reporting does not disturb the measurements.
class Reporter {
 public:
  Reporter(const std::function<void(double)>& progress, double begin, double end)
      : progress_(progress), begin_(begin), end_(end) {}
  void at(double share) {
    if (!progress_ || now_ns() - last_ < 50'000'000) return;
    last_ = now_ns();
    progress_(begin_ + (end_ - begin_) * share);
  }

 private:
  const std::function<void(double)>& progress_;
  double begin_, end_;
  int64_t last_ = 0;
};

std::vector<double> time_runs(Session& session, int64_t warmup, int64_t runs, Reporter reporter) {
  for (int64_t i = 0; i < warmup; ++i) session.run();
  std::vector<double> samples;
  samples.reserve(static_cast<size_t>(runs));
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t start = now_ns();
    session.run();
    samples.push_back(ms_since(start));
    reporter.at(static_cast<double>(i) / static_cast<double>(runs));
  }
  return samples;
}

// Runs enough for a median: a tenth of a second, at least five.
int64_t trial_runs(Session& session) {
  session.run();
  const int64_t start = now_ns();
  session.run();
  return std::clamp<int64_t>(static_cast<int64_t>(100 / std::max(ms_since(start), 1e-3)), 5, 200);
}

std::vector<ThreadTrial> try_threads(const std::filesystem::path& file, const BenchOptions& options) {
  std::vector<ThreadTrial> trials;
  for (const int threads : thread_choices(available_processors())) {
    SessionOptions session_options = options.session;
    session_options.threads = threads;
    Session session(load_model(file), session_options);
    make_ready(session, options);
    const int64_t runs = trial_runs(session);
    const double p50_ms = summarize(time_runs(session, 2, runs, Reporter(nullptr, 0, 0))).p50;
    trials.push_back({threads, p50_ms, session.choices()});
  }
  return trials;
}

// A GPU's limits say nothing of the nodes that were left to the CPU: these get no share, and do not count.
Roofline set_roofline_of_gpu(Profile& profile, const Peak& peak) {
  std::vector<NodeProfile*> nodes;
  Profile on_gpu;
  for (NodeProfile& node : profile.nodes) {
    if (node.launches.empty()) continue;
    nodes.push_back(&node);
    on_gpu.nodes.push_back(node);
  }
  const Roofline roofline = set_roofline(on_gpu, peak);
  for (size_t i = 0; i < nodes.size(); ++i) *nodes[i] = std::move(on_gpu.nodes[i]);
  return roofline;
}

void profile_model(ModelBench& result, const std::filesystem::path& file, const BenchOptions& options) {
  BenchOptions profiled = options;
  profiled.session.profile = true;
  const std::shared_ptr<GpuDevice> gpu = result.gpu ? GpuDevice::open(result.gpu->facts.ordinal) : nullptr;
  if (gpu) measure_gpu_limits(*gpu);
  else measure_peak(result.threads, static_cast<double>(result.weight_bytes));
  Session session = ready_session(file, profiled, result.threads, result.choices);
  time_runs(session, 0, std::clamp<int64_t>(options.runs / 5, 3, 50), Reporter(options.progress, 0.8, 1));
  result.profile = session.profile();
  for (NodeProfile& node : result.profile.nodes) {
    const auto by = std::find_if(result.choices.begin(), result.choices.end(),
                                 [&](const KernelDecision& choice) { return choice.node == node.kind; });
    if (by != result.choices.end()) node.chosen_by = by->by;
  }
  if (gpu) result.gpu->limits = measure_gpu_limits(*gpu);
  result.peak = gpu ? result.gpu->limits.peak : measure_peak(result.threads, working_set(result.profile));
  const Roofline roofline =
      gpu ? set_roofline_of_gpu(result.profile, result.peak) : set_roofline(result.profile, result.peak);
  result.roofline_share = roofline.share;
  result.roofline_limit = roofline.by;
  for (const NodeProfile& node : result.profile.nodes) result.flops += node.calls > 0 ? node.flops : 0;
  if (!options.profile) result.profile = {};
}

// The device on which a session of the model runs.
std::string device_of(const std::filesystem::path& file, const BenchOptions& options) {
  if (options.session.device != "auto") {
    const std::optional<int> gpu = gpu_of_device(options.session.device);
    return gpu ? fmt::format("cuda:{}", *gpu) : "cpu";
  }
  if (cuda::images().empty() || ask_device_facts().gpus.empty()) return "cpu";
  // A GPU that was chosen may be given up until there is a result, so it takes a run, with all sizes bound.
  Session session = ready_session(file, options, available_processors(), {});
  session.run();
  return session.device();
}

}  // namespace

void settle_device(const std::filesystem::path& file, BenchOptions& options) {
  options.session.device = device_of(file, options);
  options.session.passes.precision = precision_on(options.session.device, options.session.passes.precision);
  if (options.streams > 1 && options.session.device == "cpu") {
    fail("streams: several run on a GPU only, and {} runs on the CPU; its threads are what works there", file.string());
  }
}

ModelBench bench_model(const std::filesystem::path& file, const BenchOptions& asked) {
  if (asked.runs < 1) fail("runs: expected at least 1, got {}", asked.runs);
  if (asked.streams < 1 || asked.streams > kMostStreams)
    fail("streams: expected 1 to {}, got {}", kMostStreams, asked.streams);
  if (asked.warmup < 0) fail("warmup: expected 0 or more, got {}", asked.warmup);
  BenchOptions options = asked;
  if (options.batch != 1) options.session.batch = session_batch(load_model(file), options.session, options.batch);
  settle_device(file, options);
  ModelBench result{.file = file.string(),
                    .file_fnv1a_64 = {},
                    .precision = options.session.passes.precision,
                    .batch = options.batch,
                    .trials = {},
                    .peak_memory_bytes = {},
                    .gpu = {},
                    .choices = {},
                    .profile = {},
                    .notes = {}};
  SessionOptions session_options = options.session;
  if (options.threads) {
    session_options.threads = *options.threads;
  } else if (gpu_of_device(session_options.device)) {
    session_options.threads = 0;  // of what is left to the processor
  } else {
    result.trials = try_threads(file, options);
    const auto best = std::min_element(result.trials.begin(), result.trials.end(),
                                       [](const ThreadTrial& a, const ThreadTrial& b) { return a.p50_ms < b.p50_ms; });
    result.choices = best->choices;
    session_options = settled_options(options, best->threads, best->choices);
  }
  std::vector<std::filesystem::path> files;
  std::shared_ptr<GpuDevice> gpu;
  {
    const PeakMemory memory;
    const int64_t start = now_ns();
    Session session(load_model(file, &files), session_options);
    result.notes = bind_open_dimensions(session, options.batch);
    session.compile();
    result.weight_bytes = session.weight_bytes();
    const Session::LoadTimes times = session.load_times();
    result.ptx_ms = times.ptx_ms;
    result.tuning_ms = times.tuning_ms;
    result.load_ms = ms_since(start) - result.ptx_ms - result.tuning_ms;
    make_ready(session, options);
    if (result.trials.empty()) result.choices = session.choices();
    result.threads = session.threads();
    result.first_ms = time_runs(session, 0, 1, Reporter(nullptr, 0, 0)).front();
    const auto samples = time_runs(session, options.warmup, options.runs, Reporter(options.progress, 0, 0.8));
    result.ms = summarize(samples);
    result.peak_memory_bytes = memory.bytes();
    gpu = gpu_of(session);  // kept, so that the next session does not open it again
  }
  if (gpu) {
    BenchOptions timed = options;
    timed.session.gpu_times = true;
    {
      Session session = ready_session(file, timed, result.threads, result.choices);
      result.gpu = measure_gpu_figures(session, options.warmup, options.runs);
    }
    std::vector<Session> sessions;
    for (int64_t i = 0; i < options.streams; ++i)
      sessions.push_back(ready_session(file, options, result.threads, result.choices));
    measure_gpu_load(sessions[0], options.batch, *result.gpu);
    if (options.streams > 1) measure_streams(sessions, options.warmup, options.runs, options.batch, *result.gpu);
  }
  profile_model(result, file, options);
  const FileFacts facts = file_facts(files);
  result.file_bytes = facts.bytes;
  result.file_fnv1a_64 = facts.fnv1a_64;
  return result;
}

}  // namespace sparkpilot
